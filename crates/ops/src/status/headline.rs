//! The headline of a status: whether the user must act, on what, and whether waiting does harm. It
//! names the same cause as the first advice.

use jiff::SignedDuration;

use contract::count::with_noun;
use contract::exit::ExitCode;
use contract::user_request::RequestCommand;
use planner::reason::OUTSIDE_WINDOW;

use super::super::advice::{Advice, Urgency, fleet_advice};
use super::super::run_phase::RunPhase;
use super::super::time::{format_duration, format_remaining};
use super::RolloutStatus;
use super::safe_wait::WaitAnswer;
use super::waiting::NOT_RUNNING;

/// Whether the user must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// The rollout does not continue, or not on all nodes, without manual action.
    ActionNeeded,
    /// A user ended the rollout before all nodes were done.
    Aborted,
    /// Nodes wait for the end of a pause.
    Paused,
    /// The whole fleet waits for a condition that can resolve itself.
    Waiting,
    /// The rollout continues by itself.
    InProgress,
    /// There is nothing left to do.
    Done,
}

/// What an on-call engineer must know first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// Whether the user must act.
    pub attention: Attention,
    /// The cause, or the progress, for people.
    pub text: String,
    /// Whether waiting does harm; absent: there is nothing to wait for.
    pub wait: Option<WaitAnswer>,
}

impl RolloutStatus {
    /// Returns the headline.
    pub fn headline(&self) -> Headline {
        let advice = fleet_advice(self);
        let urgent: Vec<&Advice<'_>> =
            advice.iter().filter(|advice| advice.urgency < Urgency::Paused).collect();
        if let Some(first) = urgent.first() {
            let is_aborted = self.run.as_ref().is_some_and(|run| run.phase == RunPhase::Aborted)
                && urgent.iter().all(|advice| advice.reason == NOT_RUNNING);
            let wait = Some(self.wait_for_action(&urgent, is_aborted));
            let (attention, text) = if is_aborted {
                (Attention::Aborted, self.aborted_text())
            } else if let Some(text) = self.waits_for_next_run(&urgent) {
                (Attention::Waiting, text)
            } else {
                (Attention::ActionNeeded, cause(first, &urgent))
            };
            return Headline { attention, text, wait };
        }
        let limit = self.time_limit();
        if let Some(text) = self.paused_nodes() {
            let wait = Some(self.wait_for_pause());
            return Headline { attention: Attention::Paused, text, wait };
        }
        let progress = |why: &str| Headline {
            attention: Attention::InProgress,
            text: format!("nothing to do{why}"),
            wait: Some(WaitAnswer::Safe(limit.clone())),
        };
        if let Some(text) = self.failed_run() {
            let wait = Some(self.harm_of_waiting("no node waits for a hook"));
            return Headline { attention: Attention::ActionNeeded, text, wait };
        }
        if let Some(waiting) = self.fleet.first() {
            let limit_seconds = i64::try_from(self.fleet_wait_limit_seconds).unwrap_or(i64::MAX);
            let longest = SignedDuration::from_secs(limit_seconds);
            let then = self.fleet_wait_verdict.map_or_else(
                || "act".to_owned(),
                |code| format!("the run fails ({}, exit code {})", code.name(), code.number()),
            );
            let text = format!(
                "the whole fleet ({}); {then} if it waits longer than {}",
                waiting.reason,
                format_duration(longest)
            );
            let fails_at = waiting
                .since
                .at
                .filter(|_| self.fleet_wait_verdict.is_some())
                .and_then(|at| at.checked_add(longest).ok());
            let wait = Some(match fails_at {
                Some(at) => self.wait_until_failure(&format_remaining(at, self.at), true),
                None if self.fleet_wait_verdict.is_some() => {
                    self.wait_until_failure(&format!("at most {}", format_duration(longest)), false)
                }
                None => WaitAnswer::Safe(limit),
            });
            return Headline { attention: Attention::Waiting, text, wait };
        }
        let late = self.totals.no_eta.as_ref().is_some_and(|no_eta| no_eta.reason == "node-late");
        if let Some(headline) = self.waits_for_window() {
            return headline;
        }
        match (self.is_open(), self.has_job()) {
            (true, _) if late => progress(" yet, but it takes longer than expected"),
            (true, _) => progress(""),
            (false, true) => progress(": no node is left, and the run is about to end"),
            (false, false) => {
                Headline { attention: Attention::Done, text: self.done_text(), wait: None }
            }
        }
    }

    /// Returns whether a pod of the hook watches the rollout, or will soon.
    pub(super) fn has_job(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.phase.has_job())
    }

    /// Returns whether nodes are left, including failed ones that will be retried.
    fn is_open(&self) -> bool {
        let totals = &self.totals;
        totals.pending + totals.in_progress + totals.unknown + totals.failed > 0
    }

    fn aborted_text(&self) -> String {
        let totals = &self.totals;
        let left = totals.nodes.saturating_sub(totals.done);
        let are = if left == 1 { "is" } else { "are" };
        let abort = self
            .requests
            .iter()
            .rev()
            .find(|request| request.command == RequestCommand::Abort)
            .map(|request| format!("ask {} whether the rollout may continue", request.by));
        let nodes = with_noun(left, "node");
        match (abort, self.continuing_retry()) {
            (Some(ask), Some(_)) => {
                format!("{nodes} {are} not done; run gpu-rollout pause now, and {ask}")
            }
            (Some(ask), None) => format!("{nodes} {are} not done; {ask}"),
            (None, _) => format!("{nodes} {are} not done; to continue, deploy the bundle again"),
        }
    }

    fn done_text(&self) -> String {
        let totals = &self.totals;
        if totals.nodes == 0 {
            return "no node needs the driver".to_owned();
        }
        let deferred = match totals.deferred {
            0 => String::new(),
            count => format!("; {} deferred", with_noun(count, "node")),
        };
        let nodes = with_noun(totals.nodes, "node");
        format!("{} of {nodes} done{deferred}", totals.done)
    }

    /// Describes a last run that did not succeed, if no hook is running now.
    fn failed_run(&self) -> Option<String> {
        let run = self.run.as_ref()?;
        match (run.phase, run.verdict) {
            (RunPhase::Ended, Some(verdict)) if verdict != ExitCode::Success.name() => {
                Some(format!("the last run failed ({verdict}): {}", self.next_deployment()))
            }
            (RunPhase::Lost | RunPhase::JobDeleted, _) => {
                Some(format!("the last run ended without a result: {}", self.next_deployment()))
            }
            _ => None,
        }
    }

    fn next_deployment(&self) -> String {
        let deploy = match self.held_back() {
            Some(_) => "run gpu-rollout resume, and deploy the bundle again",
            None => "deploy the bundle again",
        };
        match (self.next_run(), self.next_window()) {
            (Some(next), None) => format!("{next}; to continue at once, {deploy}"),
            (Some(next), Some(opens)) => {
                format!("{next}; no node starts before the window opens at {opens:.0}")
            }
            (None, None) => deploy.to_owned(),
            (None, Some(opens)) => format!("{deploy} when the window opens at {opens:.0}"),
        }
    }

    /// Describes nodes that this run does not start any more, if the deployer by itself starts
    /// another run that starts them, and nothing else needs action.
    fn waits_for_next_run(&self, urgent: &[&Advice<'_>]) -> Option<String> {
        let opens = self.window_in_next_run().filter(|_| self.held_back().is_none())?;
        let retry = self.automatic_retry?;
        if urgent.iter().any(|advice| advice.reason != OUTSIDE_WINDOW) {
            return None;
        }
        let count: usize = urgent.iter().map(|advice| advice.nodes.len()).sum();
        let wait = nodes_wait(count);
        Some(format!(
            "{wait} for the maintenance window at {opens:.0}, which this run does not reach; {retry}"
        ))
    }

    /// Returns the headline while nodes wait for a maintenance window, and none is in progress.
    fn waits_for_window(&self) -> Option<Headline> {
        let opens = self.next_window().filter(|_| self.totals.in_progress == 0)?;
        let rows = self.nodes.iter().filter_map(|row| row.waiting.as_ref());
        let count = rows.filter(|waiting| waiting.reason == OUTSIDE_WINDOW).count();
        let wait = nodes_wait(count);
        Some(Headline {
            attention: Attention::InProgress,
            text: format!("nothing to do: {wait} for the next maintenance window"),
            wait: Some(WaitAnswer::Safe(format!("until the window opens at {opens:.0}"))),
        })
    }
}

/// Returns `1 node waits`, or `N nodes wait`.
pub(super) fn nodes_wait(count: usize) -> String {
    let wait = if count == 1 { "waits" } else { "wait" };
    format!("{} {wait}", with_noun(count, "node"))
}

/// Names the first cause. Nodes that only wait are counted only if no node is broken.
fn cause(first: &Advice<'_>, urgent: &[&Advice<'_>]) -> String {
    let Some(node) = first.nodes.first() else {
        return format!("the whole fleet ({})", first.reason);
    };
    let is_counted = |advice: &&&Advice<'_>| {
        (advice.urgency < Urgency::Waiting) == (first.urgency < Urgency::Waiting)
    };
    let count: usize = urgent.iter().filter(is_counted).map(|advice| advice.nodes.len()).sum();
    let more = match count - 1 {
        0 => String::new(),
        count => format!(" and {}", with_noun(count, "more node")),
    };
    format!("{node} ({}){more}", first.reason)
}
