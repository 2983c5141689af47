//! Draws a run as text, with one line per node and one column per time span.

use std::fmt::Write;

use contract::duration::Duration;
use contract::record::NodeOutcome;
use planner::drive_upgrade::state::UpgradeState;

use super::report::SimulationReport;

/// The maximum number of columns.
const COLUMNS: u64 = 72;
/// The maximum number of nodes.
const NODES: usize = 40;

/// The signs with their meanings.
pub const SIGNS: [(char, &str); 7] = [
    ('.', "old driver"),
    ('w', "waits for jobs"),
    ('e', "pods leave"),
    ('d', "driver is replaced and checked"),
    ('F', "failed"),
    ('f', "failed, keeps its old driver"),
    ('#', "done"),
];

/// Returns the sign of a node at a time.
fn sign(report: &SimulationReport, node: &str, at: u64) -> char {
    let states = report.states.get(node).map(Vec::as_slice).unwrap_or_default();
    let known = states.iter().rposition(|(since, ..)| *since <= at);
    let Some((_, state, cordoned)) = known.map(|index| &states[index]) else { return '.' };
    let named = UpgradeState::ALL.into_iter().find(|known| state.as_deref() == Some(known.name()));
    match named {
        Some(UpgradeState::WaitForJobsRequired) => 'w',
        Some(UpgradeState::PodDeletionRequired | UpgradeState::DrainRequired) => 'e',
        Some(
            UpgradeState::Lifted
            | UpgradeState::PodRestartRequired
            | UpgradeState::ValidationRequired,
        ) => 'd',
        Some(UpgradeState::UpgradeFailed) if *cordoned => 'F',
        Some(UpgradeState::UpgradeFailed) => 'f',
        // NVIDIA's controller has more states than the hook.
        None if state.as_deref() == Some("cordon-required") => 'e',
        None if state.as_deref() == Some("uncordon-required") => 'd',
        None if state.is_some() => '.',
        None if report.outcomes.get(node) == Some(&NodeOutcome::Done) => '#',
        None => '.',
    }
}

/// Returns the line of each node, and the number of seconds per column.
pub fn lines(report: &SimulationReport, nodes: &[String]) -> (Vec<(String, String)>, u64) {
    let seconds = report.duration.div_ceil(1000).max(1);
    let column = seconds.div_ceil(COLUMNS).max(1);
    let columns = seconds.div_ceil(column);
    let line = |node: &String| {
        // The sign shows the state in the middle of the span.
        let signs =
            (0..columns).map(|index| sign(report, node, (index * column * 1000) + column * 500));
        (node.clone(), signs.collect::<String>())
    };
    (nodes.iter().map(line).collect(), column)
}

/// Returns the drawing with its legend.
pub fn text(report: &SimulationReport, nodes: &[String]) -> String {
    let (lines, column) = lines(report, &nodes[..nodes.len().min(NODES)]);
    let width = lines.iter().map(|(node, _)| node.len()).max().unwrap_or(0);
    let mut text =
        format!("seed {}, one column is {}:\n", report.seed, Duration::from_secs(column));
    for (node, signs) in &lines {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {node:width$}  {signs}");
    }
    if nodes.len() > NODES {
        let _ = writeln!(text, "  and {} more nodes", nodes.len() - NODES);
    }
    let used = |sign: &char| lines.iter().any(|(_, signs)| signs.contains(*sign));
    let legend: Vec<String> = SIGNS
        .iter()
        .filter(|(sign, _)| used(sign))
        .map(|(sign, what)| format!("{sign} {what}"))
        .collect();
    text + "  " + &legend.join(", ") + "\n"
}
