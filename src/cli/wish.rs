//! `gpu-rollout skip`, `unskip` and `retry`: what people ask of single nodes.

use clap::Args;

use super::cluster::{self, Cluster, ClusterOptions};
use super::consent::Consent;
use super::printer::Printer;
use crate::console::act::{Outcome, fulfil};
use crate::console::change::{Change, Wish, change};
use crate::console::look::{LookError, Looking, Sight};
use crate::contract::driver::Driver;
use crate::contract::duty::Duty;
use crate::contract::exit::ExitCode;
use crate::text::nearest::nearest;

/// Arguments of `gpu-rollout skip`, `unskip` and `retry`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The nodes
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    /// Of which driver [default: of each one that is rolled out]
    #[arg(long, value_enum)]
    driver: Option<Named>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// A driver by its name in settings.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Named {
    /// The GPU driver.
    Gpu,
    /// The network driver.
    Ofed,
    /// A driver DaemonSet without operator.
    #[value(name = "daemonset")]
    DaemonSet,
}

impl From<Named> for Driver {
    fn from(named: Named) -> Self {
        match named {
            Named::Gpu => Self::Gpu,
            Named::Ofed => Self::Ofed,
            Named::DaemonSet => Self::DaemonSet,
        }
    }
}

/// A node of a rollout, and what is asked of it.
struct Asked {
    subject: usize,
    node: String,
}

impl Arguments {
    /// Runs the command.
    pub fn run(self, wish: Wish, printer: &mut Printer) -> ExitCode {
        let Self { nodes, driver, consent, cluster } = self;
        cluster::run(&cluster, printer, async |found, printer| run(&found, wish, (&nodes, driver), &consent, printer).await)
    }
}

async fn run(
    found: &Cluster,
    wish: Wish,
    (nodes, driver): (&[String], Option<Named>),
    consent: &Consent,
    printer: &mut Printer,
) -> Result<ExitCode, LookError> {
    let wanted = driver.map(Driver::from);
    let mut followed: Vec<Looking> = Vec::new();
    let mut sights: Vec<Sight> = Vec::new();
    for subject in found.subjects() {
        let settings = &subject.settings;
        if settings.has(Duty::Settle) && wanted.is_none_or(|driver| driver == settings.driver) {
            let mut looking = found.follow(subject).await?;
            sights.push(looking.look(|| found.clock().now()).await?);
            followed.push(looking);
        }
    }
    let known = || sights.iter().flat_map(|sight| sight.observed.nodes.keys()).map(|name| &**name);
    for node in nodes {
        if !known().any(|name| name == node) {
            let hint = nearest(node, known()).map(|name| format!("did you mean `{name}`?"));
            printer.error(
                &format!("there is no node `{node}`: nothing was changed"),
                hint.as_deref().or(Some("kubectl get nodes lists them")),
            );
            return Ok(ExitCode::Input);
        }
    }
    let mut asked = Vec::new();
    for (subject, sight) in sights.iter().enumerate() {
        for node in nodes.iter().filter_map(|name| sight.observed.nodes.get(name)) {
            match change(sight, wish, node) {
                Change::Patch { text, .. } | Change::Restart { text, .. } => {
                    printer.note(&format!("{}: {text}", node.name));
                    asked.push(Asked { subject, node: node.name.clone() });
                }
                Change::Nothing { text } => printer.note(&format!("{}: nothing to do: {text}", node.name)),
            }
        }
    }
    if asked.is_empty() {
        return Ok(ExitCode::Success);
    }
    if let Err(code) = consent.given(printer) {
        return Ok(code);
    }
    let mut code = ExitCode::Success;
    for Asked { subject, node } in asked {
        match fulfil(&mut followed[subject], wish, &node, || found.clock().now()).await? {
            Outcome::Done(_) => printer.data(&format!("node/{node} changed\n")),
            Outcome::Nothing(text) => printer.note(&format!("{node}: nothing to do any more: {text}")),
            Outcome::Failed(text) => {
                printer.error(&format!("{node}: {text}"), Some("what was done before it stays done; ask again"));
                code = ExitCode::NodesFailed;
            }
        }
    }
    Ok(code)
}
