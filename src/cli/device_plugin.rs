//! `gpu-rollout device-plugin`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Subcommand, ValueEnum};

use crate::printer::Printer;
use contract::exit::ExitCode;
use device_plugin_config::check::CheckTarget;
use device_plugin_config::environment::{PluginChart, PluginEnvironment};
use device_plugin_config::file::{self, FileCheck};
use device_plugin_config::version::PluginVersion;
use diagnostics::diagnostic::Diagnostics;
use diagnostics::source::{SourceText, SourceTexts};
use recipe::read::{FileSystemReader, ReadError, TextReader};

/// Arguments of `gpu-rollout device-plugin`.
#[derive(Debug, clap::Args)]
pub struct DevicePluginArguments {
    #[command(subcommand)]
    command: DevicePluginCommand,
}

#[derive(Debug, Subcommand)]
enum DevicePluginCommand {
    /// Check device plugin configurations: one file, or a ConfigMap
    ///
    /// Use it before you deploy a configuration. It reports errors, and shows what a node will
    /// offer with the configuration. It needs no cluster. It exits with 1 if the configuration
    /// should not be deployed.
    #[command(
        after_long_help = "Examples:\n  gpu-rollout device-plugin check time-slicing.yaml --chart gpu-operator\n  gpu-rollout device-plugin check map.yaml --chart gpu-operator --default a100\n  gpu-rollout device-plugin check time-slicing.yaml --plugin-version 0.19.3\n  gpu-rollout device-plugin check - --env MIG_STRATEGY=mixed -o json < mig.yaml"
    )]
    Check(DevicePluginCheckArguments),
}

#[derive(Debug, clap::Args)]
struct DevicePluginCheckArguments {
    /// Configuration file, manifest of a ConfigMap, or `-` for standard input
    #[arg(value_name = "FILE|-")]
    file: String,
    /// Version of the device plugin that will read the configuration
    #[arg(long, value_name = "VERSION", default_value_t = PluginVersion::NEWEST)]
    plugin_version: PluginVersion,
    /// Chart that deploys the plugin. It sets environment variables, which override the file
    /// [default: none, the file is checked alone]
    #[arg(long, value_name = "CHART", value_parser = PossibleValuesParser::new(PluginChart::ALL.map(PluginChart::name)).try_map(|name| name.parse::<PluginChart>()))]
    chart: Option<PluginChart>,
    /// Environment variable of the plugin, in addition to those of the chart; repeatable
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// Name of the configuration for nodes without the label nvidia.com/device-plugin.config
    /// (ConfigMaps only)
    #[arg(long, value_name = "NAME")]
    default: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = DevicePluginFormat::Text)]
    output: DevicePluginFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DevicePluginFormat {
    Text,
    Json,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "expected `NAME=VALUE`".to_owned())?;
    if name.is_empty() {
        Err("the name is empty".to_owned())
    } else {
        Ok((name.to_owned(), value.to_owned()))
    }
}

impl DevicePluginArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        match self.command {
            DevicePluginCommand::Check(check) => check.run(printer),
        }
    }
}

impl DevicePluginCheckArguments {
    fn run(self, printer: &mut Printer) -> ExitCode {
        let source = match read(&self.file, &mut FileSystemReader) {
            Ok(source) => source,
            Err(error) => {
                let hint = matches!(error, ReadError::NotUtf8 { .. } | ReadError::Utf16)
                    .then_some("save it as UTF-8");
                printer.error(
                    &format!("cannot read the configuration `{}`: {error}", self.file),
                    hint,
                );
                return ExitCode::Input;
            }
        };
        // The chart's values are unknown here, so its defaults apply.
        let mut environment = self.chart.map_or_else(PluginEnvironment::default, |chart| {
            chart.environment(self.plugin_version, &|_| None)
        });
        for (name, value) in &self.variables {
            environment.set(name, value.as_str(), "`--env`");
        }
        let mut sources = SourceTexts::default();
        let id = sources.add(source);
        let target = CheckTarget { version: self.plugin_version, environment };
        let question =
            FileCheck { target: &target, chart: self.chart, default: self.default.as_deref() };
        let answer = match file::check(&mut sources, id, &question) {
            Ok(answer) => answer,
            Err(error) => {
                printer.error(&error.to_string(), Some("remove `--default`"));
                return ExitCode::Usage;
            }
        };
        match self.output {
            DevicePluginFormat::Text => printer.data(&answer.text()),
            DevicePluginFormat::Json => {
                let code = printer.json(&answer.to_json(&sources));
                if code != ExitCode::Success {
                    return code;
                }
            }
        }
        let is_ok = answer.is_ok();
        let findings = Diagnostics { sources, list: answer.into_diagnostics() };
        printer.findings(&findings);
        if is_ok {
            return ExitCode::Success;
        }
        printer.error(
            &format!("`{}` should not be deployed: {}", self.file, findings.summary()),
            None,
        );
        ExitCode::Input
    }
}

fn read(file: &str, reader: &mut dyn TextReader) -> Result<SourceText, ReadError> {
    match file {
        "-" => Ok(SourceText { name: "standard input".to_owned(), text: reader.standard_input()? }),
        path => Ok(SourceText { name: path.to_owned(), text: reader.file(path)? }),
    }
}
