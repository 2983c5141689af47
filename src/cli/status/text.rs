//! The status of a rollout as text: progress, the nodes that are not done, and what to do.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::Timestamp;

use crate::cli::table::{counted, table};
use crate::cli::user_request::request_text;
use crate::cli::{advice, terminal};
use contract::count::with_noun;
use contract::user_request::{RequestCommand, UserRequest};
use ops::hold_status::HoldStatus;
use ops::run_phase::RunPhase;
use ops::status::{
    BlockingCondition, FleetTotals, LimitUse, NodeRow, NodeStage, PauseStatus, PoolTotals,
    RolloutStatus, RunStatus,
};
use ops::time::{format_age, format_duration, format_remaining};
use planner::pods::listed;

/// At most this many nodes that wait for the same reason have a line each. The others are counted.
const ALIKE: usize = 5;

/// At most this many requests of users have a line.
const MOST_REQUESTS: usize = 3;

/// Formats all rollouts. `all`: with one line for every node. `width`: of the terminal, in
/// characters.
pub(super) fn text(rollouts: &[RolloutStatus], all: bool, width: Option<usize>) -> String {
    let texts: Vec<String> =
        rollouts.iter().map(|rollout| status_text(rollout, all, width)).collect();
    texts.join("\n")
}

fn status_text(status: &RolloutStatus, all: bool, width: Option<usize>) -> String {
    let mut text = format!("{}\n", status.title);
    for line in head(status) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    let mut rows: Vec<&NodeRow> =
        status.nodes.iter().filter(|row| all || row.stage != NodeStage::Done).collect();
    rows.sort_by_key(|row| (row.stage, &row.node));
    let (listed, hidden) = if all { (rows, BTreeMap::new()) } else { thin(rows) };
    if !listed.is_empty() {
        let cells: Vec<Vec<String>> = listed.iter().map(|row| cells(row, status.at)).collect();
        let _ = write!(
            text,
            "\n{}",
            table(
                &["NODE", "STATE", "SINCE", "DRIVER", "PLUGIN", "ENDS IN", "WAITING FOR"],
                &cells,
                width
            )
        );
    }
    for (reason, count) in hidden {
        let _ = writeln!(
            text,
            "… and {}, waiting for {reason} (--all shows them)",
            with_noun(count, "more node")
        );
    }
    text.push_str(&advice::fleet_text(status, width.unwrap_or(terminal::LINE)));
    for note in &status.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Returns the lines about the fleet as a whole.
fn head(status: &RolloutStatus) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(run) = &status.run {
        lines.push(format!("run: {}", run_text(run, !status.pauses.is_empty(), status.at)));
    }
    for pause in &status.pauses {
        lines.push(pause_text(pause, status.at));
    }
    lines.extend(requests(status));
    lines.extend(held(status));
    lines.push(totals_text(&status.totals));
    lines.extend(status.totals.pools.iter().map(pool_text));
    if let Some(missing) = &status.totals.no_eta {
        lines.push(format!("no ETA: {}", missing.text));
    }
    lines.extend(eta_text(status));
    for waiting in &status.fleet {
        let since = waiting
            .since
            .at
            .map(|at| format!(" (for {})", format_age(Some(at), status.at)))
            .unwrap_or_default();
        lines.push(format!("waiting: {}{since}", waiting.text));
    }
    lines
}

fn totals_text(totals: &FleetTotals) -> String {
    let counts = counted(&[
        (totals.done, "done"),
        (totals.in_progress, "in progress"),
        (totals.pending, "pending"),
        (totals.unknown, "unknown"),
        (totals.failed, "failed"),
        (totals.deferred, "deferred"),
    ]);
    let counts = if counts.is_empty() { String::new() } else { format!(": {counts}") };
    format!(
        "{}{counts}; slots {}, unavailable {}",
        with_noun(totals.nodes, "node"),
        limit_text(totals.slots),
        limit_text(totals.unavailable)
    )
}

fn pool_text(pool: &PoolTotals) -> String {
    let PoolTotals { nvidia_driver, nodes, slots, unavailable } = pool;
    format!(
        "NVIDIADriver {nvidia_driver}: {}; slots {}, unavailable {}",
        with_noun(*nodes, "node"),
        limit_text(*slots),
        limit_text(*unavailable)
    )
}

fn eta_text(status: &RolloutStatus) -> Option<String> {
    let (end, pace) = (status.totals.end?, &status.totals.pace);
    let measured = match pace.measured_nodes {
        0 => "as set in the recipe".to_owned(),
        nodes => format!("measured on {}", with_noun(nodes, "node")),
    };
    let per_node = format_duration(jiff::SignedDuration::from_secs(
        i64::try_from(pace.per_node_seconds).unwrap_or(i64::MAX),
    ));
    Some(format!(
        "ends in about {} ({end:.0}): {per_node} per node, {measured}",
        format_remaining(end, status.at)
    ))
}

fn pause_text(pause: &PauseStatus, now: Timestamp) -> String {
    let PauseStatus { by, reason, selector, nodes, at } = pause;
    let age = at.map(|at| format!(" for {}", format_age(Some(at), now))).unwrap_or_default();
    let nodes = match (selector, nodes.is_empty()) {
        (Some(selector), _) => format!(" (nodes with {selector})"),
        (None, false) => format!(" ({})", listed(nodes)),
        (None, true) => String::new(),
    };
    let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("paused by {by}{age}{nodes}{why}")
}

/// The newest requests of users, newest first. A pause that is in force has its own line.
fn requests(status: &RolloutStatus) -> Vec<String> {
    let is_in_force = |request: &UserRequest| {
        request.command == RequestCommand::Pause
            && status.pauses.iter().any(|pause| pause.at == Some(request.at))
    };
    let mut requests = status.requests.iter().rev().filter(|request| !is_in_force(request));
    let newest = requests.by_ref().take(MOST_REQUESTS);
    let mut lines: Vec<String> =
        newest.map(|request| format!("request: {}", request_text(request, status.at))).collect();
    let others = requests.count();
    if others > 0 {
        lines.push(format!("… and {} (-o json lists them)", with_noun(others, "earlier request")));
    }
    lines
}

/// Returns lines about holds of hooks; in mode `steer` only if no running hook will release them.
fn held(status: &RolloutStatus) -> Vec<String> {
    let mut nodes: BTreeMap<String, (usize, Option<Timestamp>)> = BTreeMap::new();
    let is_listed = |held: &&HoldStatus| held.release.is_some() || status.holds_unattended;
    for held in status.nodes.iter().filter_map(|row| row.held.as_ref()).filter(is_listed) {
        let known = nodes.entry(held.text()).or_default();
        *known = (known.0 + 1, known.1.into_iter().chain(held.since).min());
    }
    let rest = if status.holds_unattended {
        "; no hook Job is running: deploy the bundle again, or run `gpu-rollout abort`"
    } else {
        ""
    };
    let line = |(text, (count, at)): (String, (usize, Option<Timestamp>))| {
        format!("{} {text} (for {}){rest}", with_noun(count, "node"), format_age(at, status.at))
    };
    nodes.into_iter().map(line).collect()
}

fn run_text(run: &RunStatus, is_paused: bool, now: Timestamp) -> String {
    let deadline = || {
        run.deadline
            .map(|deadline| format!(", deadline in {}", format_remaining(deadline, now)))
            .unwrap_or_default()
    };
    match (run.phase, run.verdict) {
        (RunPhase::Never, _) => "none so far".to_owned(),
        (RunPhase::Starting, _) => format!("starting{}", deadline()),
        (RunPhase::Running, _) => {
            format!("running for {}{}", format_age(run.started_at, now), deadline())
        }
        (RunPhase::WaitsForLease, _) => format!("waiting until the Lease is free{}", deadline()),
        (RunPhase::BetweenPods, _) => {
            format!("no running pod: the last one failed, and the Job starts another{}", deadline())
        }
        (RunPhase::Ended, Some(verdict)) => {
            format!(
                "ended {} ago with {verdict}: {}",
                format_age(run.ended_at, now),
                run.message.as_deref().unwrap_or_default()
            )
        }
        (RunPhase::Ended, None) => "ended".to_owned(),
        (RunPhase::Aborted, _) if is_paused => {
            "aborted; to continue, run gpu-rollout resume and deploy the bundle again".to_owned()
        }
        (RunPhase::Aborted, _) => "aborted; to continue, deploy the bundle again".to_owned(),
        (RunPhase::Lost, _) => {
            "ended without a verdict: its Job was deleted, or all its pods failed; deploy again"
                .to_owned()
        }
    }
}

fn limit_text(limit: LimitUse) -> String {
    limit.limit.map_or_else(
        || format!("{} (no limit)", limit.used),
        |most| format!("{} of {most}", limit.used),
    )
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
    let state = row
        .state
        .as_deref()
        .filter(|_| row.stage == NodeStage::InProgress)
        .unwrap_or_else(|| row.stage.name());
    let state = if row.cordoned { format!("{state}, cordoned") } else { state.to_owned() };
    vec![
        row.node.clone(),
        state,
        row.waiting
            .as_ref()
            .and_then(|waiting| waiting.since.at)
            .map_or_else(|| "-".to_owned(), |at| format_age(Some(at), now)),
        driver(row),
        row.plugin.map_or("-", |plugin| plugin.name()).to_owned(),
        row.end.map_or_else(|| "-".to_owned(), |end| format_remaining(end, now)),
        row.waiting.as_ref().map(reason).unwrap_or_default(),
    ]
}

/// `580.105.08 → 580.126.20`
pub(in crate::cli) fn driver(row: &NodeRow) -> String {
    match (&row.driver_now, &row.driver_wanted) {
        (None, None) => "-".to_owned(),
        (None, Some(wanted)) => format!("none → {wanted}"),
        (Some(now), Some(wanted)) if now != wanted => format!("{now} → {wanted}"),
        (Some(now), _) if row.driver_current => now.clone(),
        (Some(now), _) => format!("{now} → new revision"),
    }
}

fn reason(waiting: &BlockingCondition) -> String {
    // An obstacle is not repeated if the reason already names its pod.
    let unnamed = waiting.obstacles.iter().find(|obstacle| !waiting.text.contains(&obstacle.pod));
    let obstacle = unnamed.map(|obstacle| format!(" [{}]", obstacle.text)).unwrap_or_default();
    format!("{}: {}{obstacle}", waiting.reason, waiting.text)
}

#[cfg(test)]
mod tests;
