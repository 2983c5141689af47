//! Claims about what the hook itself publishes: its events, and the verdict of its run.

use contract::exit::ExitCode;
use contract::record::Verdict;
use ops::status::{NodeRow, NodeStage};

use super::moment::{Moment, NodeTruth};
use crate::world::check::RecordedEvent;

/// Checks each event once, shortly after it was published, and the verdict.
#[derive(Default)]
pub(super) struct Messages {
    /// The number of events that have been checked.
    checked: usize,
    /// Whether the verdict has been checked: nodes may be done later.
    has_verdict: bool,
}

impl Messages {
    /// Returns the false claims.
    pub(super) fn check(&mut self, moment: &Moment<'_>) -> Vec<String> {
        let events = moment.events.iter().skip(self.checked);
        let mut lies: Vec<String> = events.filter_map(|event| event_lie(event, moment)).collect();
        self.checked = moment.events.len();
        let is_new = !std::mem::replace(&mut self.has_verdict, moment.verdict.is_some());
        if let Some(verdict) = moment.verdict.as_ref().filter(|_| is_new) {
            lies.extend(verdict_lies(verdict, moment));
        }
        lies
    }
}

/// Returns why an event is false.
fn event_lie(event: &RecordedEvent, moment: &Moment<'_>) -> Option<String> {
    let is_true = match &event.node {
        Some(node) => {
            let row = moment.status.nodes.iter().find(|row| row.node == *node);
            moment
                .nodes
                .get(node)
                .zip(row)
                .is_some_and(|(truth, row)| is_true_of_node(event, truth, row))
        }
        None => is_true_of_run(event, moment),
    };
    let about = event.node.as_deref().unwrap_or("the Job");
    (!is_true || has_nanoseconds(&event.note))
        .then(|| format!("event {} about {about}: {}", event.reason, event.note))
}

fn is_true_of_node(event: &RecordedEvent, truth: &NodeTruth, row: &NodeRow) -> bool {
    match event.reason.as_str() {
        "DriverUpgraded" => truth.has_new_driver && !truth.cordoned,
        "DriverUpgradeDeferred" => !truth.has_new_driver && !truth.cordoned,
        "DriverUpgradeFailed" | "RolloutFailed" | "RolloutDeferred" | "Halted" => {
            row.stage != NodeStage::Done
        }
        "DraPluginReplaced" | "DraPluginBack" => truth.has_new_driver,
        _ => false,
    }
}

fn is_true_of_run(event: &RecordedEvent, moment: &Moment<'_>) -> bool {
    match event.reason.as_str() {
        "RolloutBegan" | "HaltEnded" => true,
        "Halted" => moment.status.proof.as_ref().is_some_and(|proof| proof.halt.is_some()),
        "BudgetTooSmall" => {
            let mut seconds = event.note.split(' ').filter_map(|word| word.parse::<u64>().ok());
            seconds.next().zip(seconds.next()).is_some_and(|(needed, budget)| needed > budget)
        }
        "RolloutSettled" | "RolloutFailed" => moment.verdict.as_ref().is_some_and(|verdict| {
            let has_failed = verdict.code != ExitCode::Success;
            event.note == format!("{}: {}", verdict.code.name(), verdict.message)
                && has_failed == (event.reason == "RolloutFailed")
        }),
        _ => false,
    }
}

/// Checks that a verdict counts and names the nodes as they are, and that the report repeats it.
fn verdict_lies(verdict: &Verdict, moment: &Moment<'_>) -> Vec<String> {
    let mut lies = Vec::new();
    let done = moment.nodes.values().filter(|truth| truth.has_new_driver).count();
    let settled = format!("settled: {done} of {} nodes done", moment.nodes.len());
    if verdict.code == ExitCode::Success && !verdict.message.starts_with(&settled) {
        lies.push(format!("the verdict is `{}`, and not `{settled}`", verdict.message));
    }
    if verdict.code != ExitCode::Success {
        let is_done = |node: &String| {
            moment.status.nodes.iter().any(|row| row.node == *node && row.stage == NodeStage::Done)
        };
        let named = verdict.reasons.iter().filter_map(|reason| reason.node.as_ref());
        lies.extend(
            named.filter(|node| is_done(node)).map(|node| format!("the verdict blames {node}")),
        );
    }
    let reported = moment.report.run.as_ref().and_then(|run| run.verdict.as_ref());
    if reported.is_none_or(|reported| reported.message != verdict.message) {
        lies.push(format!("report: the verdict is {reported:?}"));
    }
    lies
}

/// Returns whether a text contains a time to the nanosecond.
pub(super) fn has_nanoseconds(text: &str) -> bool {
    text.split('.').skip(1).any(|part| part.chars().take_while(char::is_ascii_digit).count() > 5)
}
