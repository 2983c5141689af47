//! `status --watch`: on a terminal a screen that is redrawn after each change; elsewhere one line
//! with a timestamp per change.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

use futures::future::select_all;
use jiff::Timestamp;

use super::text;
use crate::cli::terminal;
use crate::printer::Printer;
use contract::exit::ExitCode;
use ops::observe::{ObserveError, RolloutObserver};
use ops::session::ClusterSession;
use ops::status::{NodeRow, NodeStage, RolloutStatus, status};

/// The minimum time between two updates.
const LEAST: Duration = Duration::from_secs(1);
/// The maximum time between two updates: ages advance even if nothing changes.
const MOST: Duration = Duration::from_secs(10);

/// Follows all rollouts until no node is pending or in progress. Returns
/// [`ExitCode::NodesFailed`] if nodes have failed.
pub(super) async fn run(
    session: &ClusterSession,
    all: bool,
    printer: &mut Printer,
) -> Result<ExitCode, ObserveError> {
    let mut observers: Vec<RolloutObserver> = Vec::new();
    for target in session.targets() {
        observers.push(session.follow(target).await?);
    }
    let terminal = std::io::stdout().is_terminal();
    let mut known_rows: BTreeMap<(String, String), String> = BTreeMap::new();
    loop {
        let mut rollouts = Vec::new();
        for observer in &mut observers {
            rollouts.push(status(&observer.observe(|| session.now()).await?));
        }
        if terminal {
            printer.screen(&text::text(&rollouts, all, terminal::width()));
        } else {
            printer.data(&changes(&rollouts, &mut known_rows, session.now()));
        }
        let rows = || rollouts.iter().flat_map(|rollout| &rollout.nodes);
        let open = rows().any(|row| {
            matches!(row.stage, NodeStage::Pending | NodeStage::InProgress | NodeStage::Unknown)
        }) || rollouts.iter().any(is_active);
        if !open {
            let failed = rows().any(|row| row.stage == NodeStage::Failed);
            return Ok(if failed { ExitCode::NodesFailed } else { ExitCode::Success });
        }
        tokio::time::sleep(LEAST).await;
        let changed = select_all(observers.iter().map(|observer| Box::pin(observer.changed())));
        // It does not matter which comes first: the next snapshot shows what changed.
        let _ = tokio::time::timeout(MOST, changed).await;
    }
}

fn is_active(rollout: &RolloutStatus) -> bool {
    rollout.run.as_ref().is_some_and(|run| run.phase.has_job()) || !rollout.fleet.is_empty()
}

/// Returns one line for each node that has changed since the last call.
fn changes(
    rollouts: &[RolloutStatus],
    known_rows: &mut BTreeMap<(String, String), String>,
    now: Timestamp,
) -> String {
    let mut lines = String::new();
    for rollout in rollouts {
        let totals = &rollout.totals;
        let fleet: Vec<&str> = rollout.fleet.iter().map(|waiting| waiting.text.as_str()).collect();
        let not_started = match rollout.not_started() {
            0 => String::new(),
            count => format!(", {count} not started"),
        };
        let counts = format!(
            "{} of {} nodes done, {} in progress, {} failed{not_started}",
            totals.done,
            totals.nodes,
            totals.in_progress,
            rollout.failed_upgrades()
        );
        let whole = std::iter::once((
            "",
            [counts]
                .into_iter()
                .chain(fleet.into_iter().map(str::to_owned))
                .collect::<Vec<_>>()
                .join("; "),
        ));
        for (node, text) in
            whole.chain(rollout.nodes.iter().map(|row| (row.node.as_str(), row_text(row))))
        {
            let key = (rollout.title.clone(), node.to_owned());
            if known_rows.get(&key) == Some(&text) || (node.is_empty() && text.is_empty()) {
                continue;
            }
            let name = if node.is_empty() { rollout.driver } else { node };
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "{now:.0} {name}: {text}");
            known_rows.insert(key, text);
        }
    }
    lines
}

/// Formats a node without ages, which change all the time.
fn row_text(row: &NodeRow) -> String {
    let state = text::stage_text(row);
    let reason = row
        .waiting
        .as_ref()
        .map(|waiting| format!(", waiting: {}", waiting.reason))
        .unwrap_or_default();
    format!("{state}, driver {}{reason}", text::driver(row))
}
