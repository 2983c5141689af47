//! `gpu-rollout skip`, `unskip` and `retry`: requests about single nodes.

use clap::Args;

use super::cluster::{self, ClusterOptions};
use super::consent::Consent;
use super::user_request::{ReasonOption, write_request};
use crate::printer::Printer;
use contract::driver::Driver;
use contract::exit::ExitCode;
use diagnostics::nearest::nearest;
use ops::apply::{RequestOutcome, apply};
use ops::command_error::CommandError;
use ops::node_request::{NodeRequest, RequestedChange, change};
use ops::node_write::{self, NodeWriteFailure};
use ops::observe::RolloutSnapshot;
use ops::session::{ClusterSession, FollowedRollouts};
use ops::user_request::new_request;

/// Arguments of `gpu-rollout skip`, `unskip` and `retry`.
#[derive(Debug, Args)]
pub struct NodeRequestArguments {
    /// Names of the nodes
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    /// Driver to which the command applies [default: every driver that is rolled out]
    #[arg(long, value_enum)]
    driver: Option<DriverName>,
    #[command(flatten)]
    reason: ReasonOption,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// A driver, by its name in the settings.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DriverName {
    /// GPU driver.
    Gpu,
    /// OFED (network) driver.
    Ofed,
    /// Driver DaemonSet that no operator installs.
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

impl NodeRequestArguments {
    /// Runs the command.
    pub fn run(self, request: NodeRequest, printer: &mut Printer) -> ExitCode {
        let Self { nodes, driver, reason, consent, cluster } = self;
        cluster::run(&cluster, printer, async |session, printer| {
            cluster::print_notes(&session, printer);
            run(&session, (request, reason), (&nodes, driver), &consent, printer).await
        })
    }
}

async fn run(
    session: &ClusterSession,
    (request, ReasonOption { reason }): (NodeRequest, ReasonOption),
    (nodes, driver): (&[String], Option<DriverName>),
    consent: &Consent,
    printer: &mut Printer,
) -> Result<ExitCode, CommandError> {
    let wanted = driver.map(Driver::from);
    let FollowedRollouts { mut observers, snapshots } = session
        .follow_drivers(|settings| wanted.is_none_or(|driver| driver == settings.driver))
        .await?;
    if let Some((unknown, hint)) = find_unknown(nodes, &snapshots) {
        printer.error(
            &format!("node `{unknown}` not found; no changes made"),
            hint.as_deref().or(Some("`kubectl get nodes` lists the nodes")),
        );
        return Ok(ExitCode::Input);
    }
    let requested: Vec<_> = observers
        .iter_mut()
        .zip(&snapshots)
        .map(|(observer, snapshot)| (observer, announce(snapshot, request, nodes, printer)))
        .collect();
    if requested.iter().all(|(_, nodes)| nodes.is_empty()) {
        return Ok(ExitCode::Success);
    }
    if let Err(code) = consent.given(printer) {
        return Ok(code);
    }
    let record = new_request(session, request.command(), None, reason).await;
    let mut failures = Vec::new();
    for ((observer, nodes), snapshot) in requested.into_iter().zip(&snapshots) {
        let named = nodes.iter().map(|node| (*node).clone()).collect();
        if !nodes.is_empty() {
            let record = record.clone().with_nodes(named);
            write_request(session, [&snapshot.settings], &record, printer).await;
        }
        for node in nodes {
            let outcome = apply(observer, request, node, || session.now()).await?;
            failures.extend(report(node, outcome, printer));
        }
    }
    Ok(node_write::exit_code(&failures))
}

/// Returns the first node that no rollout has, with a hint if another has a similar name.
fn find_unknown<'n>(
    nodes: &'n [String],
    snapshots: &[RolloutSnapshot],
) -> Option<(&'n str, Option<String>)> {
    let known =
        || snapshots.iter().flat_map(|snapshot| snapshot.observed.nodes.keys()).map(|name| &**name);
    let unknown = nodes.iter().find(|node| !known().any(|name| name == *node))?;
    Some((unknown, nearest(unknown, known()).map(|name| format!("did you mean `{name}`?"))))
}

/// Prints what the request changes on the nodes of a rollout. Returns the nodes that it changes.
fn announce<'s>(
    snapshot: &'s RolloutSnapshot,
    request: NodeRequest,
    nodes: &[String],
    printer: &mut Printer,
) -> Vec<&'s String> {
    let mut changed = Vec::new();
    for node in nodes.iter().filter_map(|name| snapshot.observed.nodes.get(name)) {
        match change(snapshot, request, node) {
            RequestedChange::Patch { text, .. } | RequestedChange::Restart { text, .. } => {
                printer.note(&format!("{}: {text}", node.name));
                changed.push(&node.name);
            }
            RequestedChange::Nothing { text } => {
                printer.note(&format!("{}: nothing to do: {text}", node.name));
            }
        }
    }
    changed
}

/// Prints the outcome of a request on a node. Returns its failure.
fn report(node: &str, outcome: RequestOutcome, printer: &mut Printer) -> Option<NodeWriteFailure> {
    match outcome {
        RequestOutcome::Done(_) => printer.data(&format!("node/{node} changed\n")),
        RequestOutcome::Nothing(text) => {
            printer.note(&format!("{node}: no longer anything to do: {text}"));
        }
        RequestOutcome::Failed(error) => {
            let failure = NodeWriteFailure::new(node, error);
            let hint = node_write::hint(std::slice::from_ref(&failure));
            printer.error(&failure.to_string(), hint);
            return Some(failure);
        }
    }
    None
}
