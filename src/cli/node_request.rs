//! `gpu-rollout skip`, `unskip` and `retry`: what people ask of single nodes.

use clap::Args;

use super::cluster::{self, ClusterOptions, ClusterSession};
use super::consent::Consent;
use crate::printer::Printer;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::task::Task;
use diagnostics::nearest::nearest;
use ops::apply::{RequestOutcome, fulfil};
use ops::change::{NodeRequest, RequestedChange, change};
use ops::observe::{ObserveError, RolloutObserver, RolloutSnapshot};

/// Arguments of `gpu-rollout skip`, `unskip` and `retry`.
#[derive(Debug, Args)]
pub struct NodeRequestArguments {
    /// The nodes
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    /// Of which driver [default: of each one that is rolled out]
    #[arg(long, value_enum)]
    driver: Option<DriverName>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// A driver by its name in settings.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DriverName {
    /// The GPU driver.
    Gpu,
    /// The network driver.
    Ofed,
    /// A driver DaemonSet without operator.
    #[value(name = "daemonset")]
    DaemonSet,
}

impl From<DriverName> for Driver {
    fn from(named: DriverName) -> Self {
        match named {
            DriverName::Gpu => Self::Gpu,
            DriverName::Ofed => Self::Ofed,
            DriverName::DaemonSet => Self::DaemonSet,
        }
    }
}

/// A node of a rollout, and what is asked of it.
struct RequestedNode {
    target: usize,
    node: String,
}

impl NodeRequestArguments {
    /// Runs the command.
    pub fn run(self, wish: NodeRequest, printer: &mut Printer) -> ExitCode {
        let Self { nodes, driver, consent, cluster } = self;
        cluster::run(&cluster, printer, async |found, printer| run(&found, wish, (&nodes, driver), &consent, printer).await)
    }
}

async fn run(
    found: &ClusterSession,
    wish: NodeRequest,
    (nodes, driver): (&[String], Option<DriverName>),
    consent: &Consent,
    printer: &mut Printer,
) -> Result<ExitCode, ObserveError> {
    let wanted = driver.map(Driver::from);
    let mut followed: Vec<RolloutObserver> = Vec::new();
    let mut snapshots: Vec<RolloutSnapshot> = Vec::new();
    for target in found.targets() {
        let settings = &target.settings;
        if settings.has(Task::Settle) && wanted.is_none_or(|driver| driver == settings.driver) {
            let mut looking = found.follow(target).await?;
            snapshots.push(looking.observe(|| found.clock().now()).await?);
            followed.push(looking);
        }
    }
    let known = || snapshots.iter().flat_map(|snapshot| snapshot.observed.nodes.keys()).map(|name| &**name);
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
    for (target, snapshot) in snapshots.iter().enumerate() {
        for node in nodes.iter().filter_map(|name| snapshot.observed.nodes.get(name)) {
            match change(snapshot, wish, node) {
                RequestedChange::Patch { text, .. } | RequestedChange::Restart { text, .. } => {
                    printer.note(&format!("{}: {text}", node.name));
                    asked.push(RequestedNode { target, node: node.name.clone() });
                }
                RequestedChange::Nothing { text } => printer.note(&format!("{}: nothing to do: {text}", node.name)),
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
    for RequestedNode { target, node } in asked {
        match fulfil(&mut followed[target], wish, &node, || found.clock().now()).await? {
            RequestOutcome::Done(_) => printer.data(&format!("node/{node} changed\n")),
            RequestOutcome::Nothing(text) => printer.note(&format!("{node}: nothing to do any more: {text}")),
            RequestOutcome::Failed(text) => {
                printer.error(&format!("{node}: {text}"), Some("what was done before it stays done; ask again"));
                code = ExitCode::NodesFailed;
            }
        }
    }
    Ok(code)
}
