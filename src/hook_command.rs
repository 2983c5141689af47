//! `gpu-rollout hook`: runs the hook Job of a bundle inside the cluster.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use contract::exit::ExitCode;
use contract::names::{METRICS_ENV, SETTINGS_ENV, TERMINATION_LOG};
use contract::settings::{FORMAT_VERSION, Settings};
use hook::{EndReason, HookProcess, PodIdentity, RunClock, RunEnd, Shutdown, listen, serve};
use kube_io::client::connect;
use kube_io::events::shortened;

use crate::printer::Printer;

/// The kubelet reads at most this many bytes of a termination message (Kubernetes API,
/// `terminationMessagePath`).
const LONGEST_MESSAGE: usize = 4096;

/// Arguments of `gpu-rollout hook`.
#[derive(Debug, Args)]
pub struct HookArguments {
    #[command(subcommand)]
    command: HookCommand,
}

#[derive(Debug, Subcommand)]
enum HookCommand {
    /// Perform the tasks of the hook Job that owns this pod
    ///
    /// The hook chart sets every option. You never need to run this command yourself.
    Run(HookRunArguments),
}

#[derive(Debug, Args)]
struct HookRunArguments {
    /// Settings of the hook as JSON; the hook chart creates them from its values.
    #[arg(long, env = SETTINGS_ENV, hide_env_values = true, value_name = "JSON")]
    settings: String,
    /// UID of the Job that owns the pod: the run record identifies the run by it.
    #[arg(long, env = "JOB_UID", value_name = "UID")]
    job_uid: String,
    /// Name of the pod: identifies it as holder of the Lease and as reporter of events.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: String,
    /// File for the termination message, which `kubectl describe pod` shows.
    #[arg(long, default_value = TERMINATION_LOG, value_name = "FILE")]
    termination_log: PathBuf,
    /// TCP port of the metrics endpoint `/metrics`, which is served during the run [default: no
    /// endpoint]
    #[arg(long, env = METRICS_ENV, value_name = "PORT")]
    metrics_port: Option<u16>,
    /// Format of log lines.
    #[arg(long, value_enum, default_value_t, env = "GPU_ROLLOUT_LOG_FORMAT")]
    log_format: LogFormat,
    /// Log filter: a level or levels per module, such as `info` or `kube_io=debug`, which also logs
    /// the requests.
    #[arg(long, default_value = "info", env = "GPU_ROLLOUT_LOG", value_name = "FILTER")]
    log: String,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum LogFormat {
    /// One line per entry: a message with `key=value` pairs.
    #[default]
    Text,
    /// One JSON object per entry.
    Json,
}

impl HookArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let HookCommand::Run(arguments) = self.command;
        arguments.run(printer)
    }
}

impl HookRunArguments {
    fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { settings, job_uid, pod_name, termination_log, metrics_port, log_format, log } =
            self;
        if let Err(error) = start_logging(log_format, &log) {
            printer.error(
                &format!("`{log}` is not a log filter: {error}"),
                Some("use a filter such as `info` or `kube_io=debug`"),
            );
            return ExitCode::Usage;
        }
        let ended = match read(&settings, origin(&settings)) {
            Ok(settings) => {
                in_cluster(settings, PodIdentity { job: job_uid, pod: pod_name }, metrics_port)
            }
            Err(ended) => ended,
        };
        if ended.code == ExitCode::Success {
            printer.note(&ended.message);
        } else {
            printer.error(
                &format!(
                    "{} (exit code {}): {}",
                    ended.code.name(),
                    ended.code.number(),
                    ended.message
                ),
                None,
            );
        }
        let text = format!("{}: {}", ended.code.name(), ended.message);
        // The file is not created: outside a pod it would only be litter.
        let written = std::fs::OpenOptions::new().write(true).truncate(true).open(&termination_log);
        if let Err(error) = written
            .and_then(|mut file| file.write_all(shortened(&text, LONGEST_MESSAGE).as_bytes()))
        {
            // Outside a pod the file does not exist, and standard error has the message anyway.
            tracing::debug!(%error, "cannot write the termination message");
        }
        ended.code
    }
}

/// Returns where the settings come from, as messages name it.
fn origin(settings: &str) -> &'static str {
    #[expect(clippy::disallowed_methods, reason = "the environment of the command is read here")]
    let variable = std::env::var(SETTINGS_ENV);
    if variable.as_deref() == Ok(settings) { SETTINGS_ENV } else { "--settings" }
}

/// Parses the settings from `origin`. Unknown keys of a newer chart get an error of their own.
fn read(text: &str, origin: &str) -> Result<Settings, RunEnd> {
    let newer = |error: serde_json::Error| {
        let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let version =
            value["formatVersion"].as_u64().filter(|version| *version > u64::from(FORMAT_VERSION));
        match version {
            Some(version) => RunEnd::new(
                EndReason::SettingsNewer,
                format!(
                    "the settings have format {version}, and this hook image supports {FORMAT_VERSION}: use the hook image of the chart's version"
                ),
            ),
            None => RunEnd::new(
                EndReason::SettingsUnreadable,
                format!(
                    "cannot read the settings in {origin}: {error}; the hook image and the hook chart must have the same version"
                ),
            ),
        }
    };
    serde_json::from_str(text).map_err(newer)
}

/// Runs the hook on its own single-threaded runtime.
fn in_cluster(settings: Settings, identity: PodIdentity, metrics_port: Option<u16>) -> RunEnd {
    let internal = |message: String| RunEnd::new(EndReason::StartFailed, message);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return internal(format!("cannot start: {error}")),
    };
    runtime.block_on(async {
        let shutdown = match Shutdown::on_signals() {
            Ok(shutdown) => shutdown,
            Err(error) => return internal(format!("cannot listen to signals: {error}")),
        };
        match connect().await {
            Ok(client) => {
                let clock = RunClock::system();
                let hook = HookProcess::new(client, settings, identity, clock.clone(), shutdown);
                if let Some(port) = metrics_port {
                    match listen(port).await {
                        // The runtime ends this task.
                        Ok(listener) => drop(tokio::spawn(serve(listener, hook.metrics(), clock))),
                        Err(error) => tracing::warn!(port, %error, "cannot listen: the run continues without metrics"),
                    }
                }
                hook.run().await
            }
            Err(error) => RunEnd::new(EndReason::ApiServerUnreachable, error.with_causes()),
        }
    })
}

fn start_logging(format: LogFormat, filter: &str) -> Result<(), ParseError> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(filter)?)
        .with_writer(std::io::stderr)
        .with_target(false);
    match format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use kube_io::client::{ClusterLocation, connect_to, server_version};

    use super::*;

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().map_err(|_| io::ErrorKind::Other)?.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the log of one request to a server that does not answer.
    fn log_of_failed_request(filter: &str) -> String {
        let kubeconfig = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "away", "users": [{"name": "a", "user": {}}],
            "clusters": [{"name": "away", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [{"name": "away", "context": {"cluster": "away", "user": "a"}}]}"#;
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), kubeconfig).expect("it is written");
        let (buffer, place) = (
            LogBuffer::default(),
            ClusterLocation {
                kubeconfig: Some(file.path().to_owned()),
                ..ClusterLocation::default()
            },
        );
        let writer = buffer.clone();
        let builder = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::try_new(filter).expect("a filter"))
            .with_ansi(false);
        let logging =
            tracing::subscriber::set_default(builder.with_writer(move || writer.clone()).finish());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (client, _) = connect_to(&place).await.expect("a client");
            server_version(&client).await.expect_err("nothing listens there");
        });
        drop(logging);
        let text = buffer.0.lock().expect("nothing panicked").clone();
        String::from_utf8(text).expect("text")
    }

    /// Regression: the log of a hook had dozens of errors of single requests while the API server
    /// was unreachable.
    #[test]
    fn single_requests_are_logged_only_at_level_debug() {
        assert_eq!(log_of_failed_request("info"), "");
        let log = log_of_failed_request("info,kube_io=debug");
        assert!(log.contains("request method=GET uri=http://127.0.0.1:1/version"), "{log}");
    }

    #[test]
    fn settings_of_newer_chart_are_not_called_wrong() {
        let code = |text: &str| read(text, SETTINGS_ENV).map_err(|ended| ended.code);
        assert_eq!(
            code(r#"{"formatVersion": 2, "digest": "d", "news": []}"#),
            Err(ExitCode::NewerFormat)
        );
        for wrong in [
            "",
            "{",
            "[]",
            "7",
            "{}",
            r#"{"formatVersion": 1, "news": []}"#,
            r#"{"formatVersion": "2"}"#,
        ] {
            assert_eq!(code(wrong), Err(ExitCode::Input), "{wrong}");
        }
    }

    #[test]
    fn message_names_origin_of_settings() {
        let ended = read("foo", "--settings").expect_err("not JSON");
        assert!(ended.message.starts_with("cannot read the settings in --settings: "));
        assert_eq!(origin("foo"), "--settings");
    }
}
