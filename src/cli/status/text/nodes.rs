//! The table of nodes: what is not done, for how long, and why.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::Timestamp;

use crate::cli::table::table;
use contract::count::with_noun;
use ops::status::{BlockingCondition, NodeRow, NodeStage, RolloutStatus, state_meaning};
use ops::time::{format_age, format_remaining};

/// At most this many nodes that wait for the same reason have a line each. The others are counted.
const ALIKE: usize = 5;

/// The column of a node's name, and those that every table has after it.
const COLUMNS: [&str; 7] = ["NODE", "STATE", "DRIVER", "PLUGIN", "ENDS IN", "WAITING", "REASON"];
/// A cell without a value.
const NONE: &str = "-";

/// Formats the nodes that are not done, with `all` every node; empty if there is none.
pub(super) fn text(status: &RolloutStatus, all: bool, width: Option<usize>) -> String {
    let mut rows: Vec<&NodeRow> =
        status.nodes.iter().filter(|row| all || row.stage != NodeStage::Done).collect();
    rows.sort_by_key(|row| (row.stage, &row.node));
    let (listed, hidden) = if all { (rows, BTreeMap::new()) } else { thin(rows) };
    if listed.is_empty() {
        return String::new();
    }
    let cells: Vec<Vec<String>> = listed.iter().map(|row| cells(row, status.at)).collect();
    let mut text = format!("\n{}", without_empty_columns(&cells, width));
    for (reason, count) in hidden {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "… and {}, waiting for {reason} (--all shows them)",
            with_noun(count, "more node")
        );
    }
    let done = status.totals.done;
    if done > 0 && !all {
        let is = if done == 1 { "is" } else { "are" };
        let nodes = with_noun(done, "node");
        let _ = writeln!(text, "({nodes} {is} done and not listed; --all shows everything)");
    }
    text
}

/// Formats a table without the columns in which no row has a value.
fn without_empty_columns(rows: &[Vec<String>], width: Option<usize>) -> String {
    let has_value =
        |column: usize| rows.iter().any(|row| row.get(column).is_some_and(|cell| cell != NONE));
    let kept: Vec<usize> = (0..COLUMNS.len()).filter(|column| has_value(*column)).collect();
    let header: Vec<&str> = kept.iter().map(|column| COLUMNS[*column]).collect();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| kept.iter().filter_map(|column| row.get(*column).cloned()).collect())
        .collect();
    table(&header, &rows, width)
}

/// Returns the first nodes for each reason, and the number of the others by reason.
fn thin(rows: Vec<&NodeRow>) -> (Vec<&NodeRow>, BTreeMap<&'static str, usize>) {
    let (mut counts, mut hidden) = (BTreeMap::new(), BTreeMap::new());
    let listed = rows
        .into_iter()
        .filter(|row| {
            let reason = row.waiting.as_ref().map_or("", |waiting| waiting.reason);
            let count: &mut usize = counts.entry((row.stage, reason)).or_default();
            *count += 1;
            let is_listed = *count <= ALIKE || row.stage == NodeStage::Failed;
            if !is_listed {
                *hidden.entry(reason).or_default() += 1;
            }
            is_listed
        })
        .collect();
    (listed, hidden)
}

fn cells(row: &NodeRow, now: Timestamp) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let waiting = row.waiting.as_ref();
    vec![
        row.node.clone(),
        format!("{}{}", stage_text(row), node_condition(row)),
        driver(row),
        row.plugin.map_or(NONE, |plugin| plugin.name()).to_owned(),
        or_none(row.end.map(|end| format_remaining(end, now))),
        or_none(waiting.and_then(|waiting| waiting.since.at).map(|at| format_age(Some(at), now))),
        or_none(waiting.map(|waiting| reason(row, waiting))),
    ]
}

/// Returns what happens to the node: NVIDIA's names of the states read as orders.
pub(in crate::cli::status) fn stage_text(row: &NodeRow) -> &'static str {
    let state = row.state.as_deref().filter(|_| row.stage == NodeStage::InProgress);
    match state {
        Some(state) => state_meaning(state),
        None if row.stage == NodeStage::Unknown => "unknown (fleet waits)",
        None if row.is_not_started() => "not started",
        None => row.stage.name(),
    }
}

/// Returns what the node itself is, after its stage: cordoned, NotReady.
pub(in crate::cli) fn node_condition(row: &NodeRow) -> String {
    let cordoned = if row.cordoned { ", cordoned" } else { "" };
    let not_ready = if row.not_ready.is_some() { ", NotReady" } else { "" };
    format!("{cordoned}{not_ready}")
}

/// `580.105.08 → 580.126.20`
pub(in crate::cli) fn driver(row: &NodeRow) -> String {
    let not_ready = if row.driver_ready { "" } else { " (not ready)" };
    match (&row.driver_now, &row.driver_wanted) {
        (None, None) => NONE.to_owned(),
        (None, Some(wanted)) => format!("none → {wanted}"),
        (Some(now), Some(wanted)) if now != wanted => format!("{now}{not_ready} → {wanted}"),
        (Some(now), _) if row.driver_current => format!("{now}{not_ready}"),
        (Some(now), _) => format!("{now}{not_ready} → new revision"),
    }
}

fn reason(row: &NodeRow, waiting: &BlockingCondition) -> String {
    if waiting.whole_fleet {
        return format!("{} (the whole fleet)", waiting.reason);
    }
    // An obstacle is not repeated if the reason already names its pod.
    let unnamed = waiting.obstacles.iter().find(|obstacle| !waiting.text.contains(&obstacle.pod));
    let obstacle = unnamed.map(|obstacle| format!(" [{}]", obstacle.text)).unwrap_or_default();
    // The lines above the table say who holds the node, and why.
    let text = match &row.held {
        Some(held) => waiting.text.replacen(&held.text(), "held", 1),
        None => waiting.text.clone(),
    };
    format!("{}: {text}{obstacle}", waiting.reason)
}
