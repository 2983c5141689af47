//! `gpu-rollout doctor`.

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::Args;
use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;
use serde_json::Value;

use super::advice;
use super::cluster::{self, ClusterOptions, ClusterSession};
use super::format::OutputFormat;
use super::table::push_wrapped;
use crate::printer::Printer;
use contract::exit::ExitCode;
use diagnostics::diagnostic;
use diagnostics::lint::Lint;
use kube_io::access::missing_rights_of;
use kube_io::call::CallError;
use ops::doctor::{DoctorFinding, DoctorSeverity, examine};
use ops::observe::{ObserveError, RolloutSnapshot};
use ops::remedy::Remedy;
use ops::status::status;
use recipe::model;

mod deployed;

use deployed::{LINTS, held_to_rules, look, lost, written};

/// Arguments of `gpu-rollout doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout doctor
  gpu-rollout doctor --recipe > deployed.yaml    # what is deployed, as a recipe: a start for your own
  gpu-rollout doctor -o json | jq '.ailments[] | select(.severity == \"problem\")'

docs/lints.md explains findings about versions and values, docs/operate.md the others.")]
pub struct DoctorArguments {
    /// Print what is deployed as a recipe, and nothing else
    #[arg(long, conflicts_with = "output")]
    recipe: bool,
    /// The format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// What was found.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct DoctorDocument {
    /// The components of the catalog that are deployed.
    components: Vec<ComponentSummary>,
    /// What is not well.
    ailments: Vec<DoctorFinding>,
    /// What is worth knowing, for people.
    notes: Vec<String>,
    #[serde(skip)]
    drawn: String,
}

/// A component, for programs: without its values, which may hold what is nobody's business.
#[derive(Serialize, JsonSchema)]
struct ComponentSummary {
    /// Its name in the catalog.
    name: String,
    /// The chart's version.
    version: String,
    /// Where it is.
    namespace: String,
}

/// What `-o json` prints.
pub(super) fn schema() -> Schema {
    schema_for!(DoctorDocument)
}

impl DoctorArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { recipe, output, cluster } = self;
        cluster::run(&cluster, printer, async |found, printer| {
            let snapshots = found.look().await?;
            let mut notes: Vec<String> = found.notes().to_vec();
            let deployed = look(&found, &snapshots, cluster.namespace(), &mut notes).await?;
            let written = written(&found, &snapshots, &deployed, &mut notes).await?;
            if recipe {
                notes.extend(found.hooks().filter_map(lost));
                for note in &notes {
                    printer.note(&format!("note: {note}"));
                }
                return Ok(printer.yaml(&written));
            }
            let document = document(&found, &snapshots, deployed.components, &written, notes).await?;
            let ill = document.ailments.iter().any(|ailment| ailment.severity == DoctorSeverity::Problem);
            let code = match output {
                OutputFormat::Json => printer.json(&document),
                OutputFormat::Text => {
                    printer.data(&text(&document, super::status::width().unwrap_or(120)));
                    ExitCode::Success
                }
            };
            Ok(if code == ExitCode::Success && ill { ExitCode::Preflight } else { code })
        })
    }
}

async fn document(
    found: &ClusterSession,
    snapshots: &[RolloutSnapshot],
    components: Vec<model::RecipeComponent>,
    written: &Value,
    mut notes: Vec<String>,
) -> Result<DoctorDocument, ObserveError> {
    let mut ailments: Vec<DoctorFinding> = snapshots.iter().flat_map(|snapshot| examine(snapshot, &status(snapshot))).collect();
    let namespaces: BTreeSet<String> = snapshots.iter().flat_map(|snapshot| snapshot.observed.dra.namespaces.iter().cloned()).collect();
    let namespaces: Vec<String> = namespaces.into_iter().collect();
    for settings in found.hooks() {
        match missing_rights_of(found.client(), settings, &namespaces).await {
            Ok(missing) if missing.is_empty() => {}
            Ok(missing) => ailments.push(DoctorFinding::new(
                "missing-rights",
                DoctorSeverity::Problem,
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
            diagnostic::Severity::Error => DoctorSeverity::Problem,
            diagnostic::Severity::Warning => DoctorSeverity::Warning,
        };
        let name = finding.lint.map_or("", Lint::name);
        DoctorFinding::new(name, severity, Vec::new(), finding.message.to_string(), Remedy::words(finding.hints.join("; ")))
    }));
    ailments.sort_by_key(|ailment| ailment.severity);
    let shown = |one: model::RecipeComponent| ComponentSummary {
        name: one.name,
        version: one.version.unwrap_or_default(),
        namespace: one.namespace.unwrap_or_default(),
    };
    Ok(DoctorDocument { components: components.into_iter().map(shown).collect(), ailments, notes, drawn })
}

fn text(document: &DoctorDocument, width: usize) -> String {
    let mut text = String::new();
    for ComponentSummary { name, version, namespace } in &document.components {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name} {version} in {namespace}");
    }
    let of_rules = |ailment: &&DoctorFinding| LINTS.iter().any(|lint| lint.name() == ailment.check);
    for ailment in document.ailments.iter().filter(|ailment| !of_rules(ailment)) {
        let lead = match ailment.severity {
            DoctorSeverity::Problem => "problem",
            DoctorSeverity::Warning => "warning",
        };
        let nodes = match &ailment.nodes[..] {
            [] => String::new(),
            nodes if nodes.len() <= 5 => format!(" ({})", nodes.join(", ")),
            nodes => format!(" ({} and {} more)", nodes[..5].join(", "), nodes.len() - 5),
        };
        text.push('\n');
        push_wrapped(&mut text, ("", "  "), &format!("{lead}: {}: {}{nodes}", ailment.check, ailment.text), width);
        advice::push_remedy(&mut text, "what to do: ", &ailment.remedy, width);
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
