//! `gpu-rollout doctor`.

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::Args;
use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use super::advice;
use super::cluster::{self, Cluster, ClusterOptions};
use super::format::Format;
use super::printer::Printer;
use super::table::push_wrapped;
use crate::catalog;
use crate::cluster::access::missing_rights_of;
use crate::cluster::call::CallError;
use crate::cluster::client::server_version;
use crate::cluster::helm::{Releases, releases};
use crate::console::doctor::{Ailment, Severity, examine};
use crate::console::look::{LookError, Sight};
use crate::console::remedy::Remedy;
use crate::console::status::status;
use crate::console::written::{Component, recipe, rollout};
use crate::contract::driver::Driver;
use crate::contract::exit::ExitCode;
use crate::contract::settings::Settings;
use crate::contract::yaml;
use crate::recipe::load::load;
use crate::recipe::read::{ReadError, Reader};
use crate::rollout::spec::chart::version_of;
use crate::text::diagnostic::{self, Diagnostics};
use crate::text::lint::Lint;

/// What is said of a recipe and matters to a cluster in which it is deployed already. The others are about how a bundle would be made.
const LINTS: [Lint; 11] = [
    Lint::UnknownKey,
    Lint::WrongType,
    Lint::UnknownWord,
    Lint::NoEffect,
    Lint::TwoDevicePlugins,
    Lint::PluginBesideDra,
    Lint::RunsTwice,
    Lint::DriverCrd,
    Lint::DriverRoot,
    Lint::GpuOverride,
    Lint::Incompatible,
];

/// Arguments of `gpu-rollout doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout doctor
  gpu-rollout doctor --recipe > deployed.yaml    # what is deployed, as a recipe: a start for your own
  gpu-rollout doctor -o json | jq '.ailments[] | select(.severity == \"problem\")'

docs/lints.md explains findings about versions and values, docs/operate.md the others.")]
pub struct Arguments {
    /// Print what is deployed as a recipe, and nothing else
    #[arg(long, conflicts_with = "output")]
    recipe: bool,
    /// The format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// What was found.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Document {
    /// The components of the catalog that are deployed.
    components: Vec<Shown>,
    /// What is not well.
    ailments: Vec<Ailment>,
    /// What is worth knowing, for people.
    notes: Vec<String>,
    #[serde(skip)]
    drawn: String,
}

/// A component, for programs: without its values, which may hold what is nobody's business.
#[derive(Serialize, JsonSchema)]
struct Shown {
    /// Its name in the catalog.
    name: String,
    /// The chart's version.
    version: String,
    /// Where it is.
    namespace: String,
}

/// What `-o json` prints.
pub(super) fn schema() -> Schema {
    schema_for!(Document)
}

impl Arguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { recipe, output, cluster } = self;
        cluster::run(&cluster, printer, async |found, printer| {
            let sights = found.look().await?;
            let mut notes: Vec<String> = found.notes().to_vec();
            let components = components(&found, &sights, cluster.namespace(), &mut notes).await?;
            let written = written(&found, &sights, &components, &mut notes).await?;
            if recipe {
                return Ok(printer.yaml(&written));
            }
            let document = document(&found, &sights, components, &written, notes).await?;
            let ill = document.ailments.iter().any(|ailment| ailment.severity == Severity::Problem);
            let code = match output {
                Format::Json => printer.json(&document),
                Format::Text => {
                    printer.data(&text(&document, super::status::width().unwrap_or(120)));
                    ExitCode::Success
                }
            };
            Ok(if code == ExitCode::Success && ill { ExitCode::Preflight } else { code })
        })
    }
}

/// The components of the catalog that are deployed: by their Helm releases, or, where those may not be read, by what objects tell of their chart.
async fn components(
    found: &Cluster,
    sights: &[Sight],
    namespace: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Vec<Component>, LookError> {
    let releases = match releases(found.client(), namespace).await {
        Ok(Releases { deployed, unreadable }) => {
            notes.extend(unreadable.iter().map(|name| format!("the release {name} is kept in a way that cannot be read")));
            deployed
        }
        Err(CallError::Forbidden(message)) => {
            notes.push(format!("Helm's releases could not be read, so that values are not looked at: {message}"));
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    let mut all: Vec<Component> = Vec::new();
    for name in catalog::component_names() {
        let is_its = |chart: &str, version: &str| catalog::component(name).is_some_and(|entry| entry.chart_in(version) == chart);
        let release = releases.iter().find(|release| is_its(&release.chart, &release.version));
        all.extend(release.map(|release| Component::of_release(name, release)));
    }
    for sight in sights {
        let settings = &sight.settings;
        let operator = sight.observed.operator.as_ref().filter(|_| all.iter().all(|known| known.name != settings.component));
        let chart = operator.and_then(|operator| Some(version_of(operator.chart.as_ref()?, &settings.component)?.to_owned()));
        all.extend(chart.map(|version| Component {
            name: settings.component.clone(),
            version,
            namespace: settings.operator_namespace.clone(),
            values: None,
        }));
    }
    Ok(all)
}

/// What is deployed as a recipe.
async fn written(
    found: &Cluster,
    sights: &[Sight],
    components: &[Component],
    notes: &mut Vec<String>,
) -> Result<serde_json::Value, LookError> {
    let kubernetes = match server_version(found.client()).await {
        Ok(version) => Some(version),
        Err(error) => {
            notes.push(format!("the server does not say which version it is: {error}"));
            None
        }
    };
    let gpu = sights.iter().find(|sight| sight.settings.driver == Driver::Gpu);
    let fleet = gpu.map_or(0, |sight| status(sight).totals.nodes);
    // Of a component that is not in the recipe nothing may be said.
    let deployed = |settings: &&Settings| components.iter().any(|one| one.name == settings.driver.traits().component);
    let hooks: Vec<_> = found.hooks().filter(deployed).collect();
    Ok(recipe(components, kubernetes.as_deref(), fleet, &rollout(&hooks)))
}

/// The recipe on standard input is this one.
struct Written(String);

impl Reader for Written {
    fn file(&mut self, _: &str) -> Result<String, ReadError> {
        Err(ReadError::Missing)
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        Ok(self.0.clone())
    }
}

/// What a recipe's rules say to what is deployed.
fn held_to_rules(written: &serde_json::Value, notes: &mut Vec<String>) -> Diagnostics {
    // A JSON document without anything that YAML cannot say: it was YAML before it came to Helm.
    let text = yaml::to_string(written).unwrap_or_default();
    let Diagnostics { sources, list } = match load("-", &[], &mut Written(text)) {
        Ok(loaded) => loaded.warnings,
        Err(findings) => findings,
    };
    // What cannot even be read as a recipe comes to no rule: that is not the same as nothing to find.
    let unread = list.iter().find(|finding| finding.severity == diagnostic::Severity::Error && finding.lint.is_none());
    notes.extend(
        unread.map(|finding| format!("not everything that is deployed could be held to the rules of recipes: {}", finding.message)),
    );
    Diagnostics { sources, list: list.into_iter().filter(|finding| finding.lint.is_some_and(|lint| LINTS.contains(&lint))).collect() }
}

async fn document(
    found: &Cluster,
    sights: &[Sight],
    components: Vec<Component>,
    written: &serde_json::Value,
    mut notes: Vec<String>,
) -> Result<Document, LookError> {
    let mut ailments: Vec<Ailment> = sights.iter().flat_map(|sight| examine(sight, &status(sight))).collect();
    let namespaces: BTreeSet<String> = sights.iter().flat_map(|sight| sight.observed.dra.namespaces.iter().cloned()).collect();
    let namespaces: Vec<String> = namespaces.into_iter().collect();
    for settings in found.hooks() {
        match missing_rights_of(found.client(), settings, &namespaces).await {
            Ok(missing) if missing.is_empty() => {}
            Ok(missing) => ailments.push(Ailment::new(
                "missing-rights",
                Severity::Problem,
                Vec::new(),
                format!("the hook {}/{} may not {}", settings.namespace, settings.release, missing.join("; nor ")),
                Remedy::words("deploy its release again: its chart brings the rules that docs/rights.md lists"),
            )),
            Err(CallError::Forbidden(message)) => notes.push(format!("the rights of hooks could not be asked for: {message}")),
            Err(error) => return Err(error.into()),
        }
    }
    let rules = held_to_rules(written, &mut notes);
    let drawn = if rules.list.is_empty() { String::new() } else { rules.render() };
    ailments.extend(rules.list.iter().map(|finding| {
        let severity = match finding.severity {
            diagnostic::Severity::Error => Severity::Problem,
            diagnostic::Severity::Warning => Severity::Warning,
        };
        let name = finding.lint.map_or("", Lint::name);
        Ailment::new(name, severity, Vec::new(), finding.message.to_string(), Remedy::words(finding.hints.join("; ")))
    }));
    ailments.sort_by_key(|ailment| ailment.severity);
    let shown = |one: Component| Shown { name: one.name, version: one.version, namespace: one.namespace };
    Ok(Document { components: components.into_iter().map(shown).collect(), ailments, notes, drawn })
}

fn text(document: &Document, width: usize) -> String {
    let mut text = String::new();
    for Shown { name, version, namespace } in &document.components {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name} {version} in {namespace}");
    }
    let of_rules = |ailment: &&Ailment| LINTS.iter().any(|lint| lint.name() == ailment.check);
    for ailment in document.ailments.iter().filter(|ailment| !of_rules(ailment)) {
        let lead = match ailment.severity {
            Severity::Problem => "problem",
            Severity::Warning => "warning",
        };
        let nodes = match &ailment.nodes[..] {
            [] => String::new(),
            nodes if nodes.len() <= 5 => format!(" ({})", nodes.join(", ")),
            nodes => format!(" ({} and {} more)", nodes[..5].join(", "), nodes.len() - 5),
        };
        text.push('\n');
        push_wrapped(&mut text, ("", "  "), &format!("{lead}: {}: {}{nodes}", ailment.check, ailment.text), width);
        advice::one(&mut text, "what to do: ", &ailment.remedy, width);
    }
    if !document.drawn.is_empty() {
        let _ = writeln!(
            text,
            "\nWhat is deployed, held to the rules of recipes (-, as `gpu-rollout doctor --recipe` prints it):\n\n{}",
            document.drawn
        );
    }
    for note in &document.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if document.ailments.is_empty() {
        text.push_str("Nothing is wrong with it.\n");
    }
    text
}
