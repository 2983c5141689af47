//! The headline of a status: whether the user must act, on what, and whether waiting does harm. It
//! names the same cause as the first advice.

use jiff::SignedDuration;

use contract::count::with_noun;
use contract::exit::ExitCode;
use contract::user_request::RequestCommand;
use planner::pods::listed;
use planner::reason::PAUSED;

use super::super::advice::{Advice, Urgency, fleet_advice};
use super::super::run_phase::RunPhase;
use super::super::time::{format_duration, format_remaining};
use super::waiting::NOT_RUNNING;
use super::{BlockingCondition, NodeRow, NodeStage, RolloutStatus};

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

/// Whether waiting does harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitAnswer {
    /// Waiting does no harm. Why, or until when, for people; may be empty.
    Safe(String),
    /// Waiting does no harm for a short time. For how long, and what happens then, for people.
    SafeFor(String),
    /// Waiting does harm. Why, for people.
    Unsafe(String),
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
            let safe = format!("no affected node is out of service{}", self.standstill(is_aborted));
            let wait = Some(self.harm_of_waiting(&safe));
            let (attention, text) = if is_aborted {
                (Attention::Aborted, self.aborted_text())
            } else {
                (Attention::ActionNeeded, cause(first, &urgent))
            };
            return Headline { attention, text, wait };
        }
        let limit = self.time_limit();
        if let Some(text) = self.paused_nodes() {
            let wait = Some(self.harm_of_waiting(&limit));
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
            let wait = match fails_at {
                Some(at) => self.wait_until_failure(&format_remaining(at, self.at), ""),
                None if self.fleet_wait_verdict.is_some() => self.wait_until_failure(
                    &format!("at most {}", format_duration(longest)),
                    " (it is not recorded since when the fleet waits)",
                ),
                None => WaitAnswer::Safe(limit),
            };
            let wait = Some(wait);
            return Headline { attention: Attention::Waiting, text, wait };
        }
        let late = self.totals.no_eta.as_ref().is_some_and(|no_eta| no_eta.reason == "node-late");
        match (self.is_open(), self.has_job()) {
            (true, _) if late => progress(" yet, but it takes longer than expected"),
            (true, _) => progress(""),
            (false, true) => progress(": no node is left, and the run is about to end"),
            (false, false) => {
                Headline { attention: Attention::Done, text: self.done_text(), wait: None }
            }
        }
    }

    fn has_job(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.phase.has_job())
    }

    /// Says until when it is safe to wait; empty if no run can end.
    fn time_limit(&self) -> String {
        let run = self.run.as_ref().filter(|run| run.phase.has_job());
        let deadline = run.and_then(|run| run.deadline);
        deadline.map_or_else(String::new, |deadline| {
            if deadline <= self.at {
                "until the run ends, at any moment".to_owned()
            } else {
                format!("until the time limit in {}", format_remaining(deadline, self.at))
            }
        })
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
            .map_or_else(String::new, |request| format!("ask {} first, and then ", request.by));
        format!(
            "{} {are} not done; to continue, {abort}deploy the bundle again",
            with_noun(left, "node")
        )
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

    /// Returns whether waiting does no harm while the whole fleet waits. `remaining`: until the run
    /// fails; `note`: what is not known about it.
    fn wait_until_failure(&self, remaining: &str, note: &str) -> WaitAnswer {
        match self.automatic_retry {
            // The next run releases nodes as this one does.
            Some(retry) => {
                WaitAnswer::Safe(format!("in {remaining}, the run fails{note}, and {retry}"))
            }
            None => WaitAnswer::SafeFor(format!(
                "only for {remaining}: then the run fails{note}, and you must deploy the bundle again"
            )),
        }
    }

    /// Says whether the rollout continues if the user does not act: the end of the text of a safe
    /// wait.
    fn standstill(&self, is_aborted: bool) -> String {
        match (self.retry_after_end(), self.run.as_ref().map(|run| run.phase)) {
            (Some(retry), _) if is_aborted => format!(
                ", but {retry}, and the rollout then continues; to prevent that, run gpu-rollout pause: a hook that starts during a pause starts no upgrade"
            ),
            (Some(retry), _) => format!("; {retry}"),
            (None, Some(RunPhase::Never)) => format!(
                "; if the deployment is still running, the rollout continues by itself, otherwise {}",
                self.automatic_retry.unwrap_or("it stands still")
            ),
            (None, Some(phase)) if phase.has_job() => "; the run continues with the other nodes".to_owned(),
            (None, Some(RunPhase::JobDeleted)) => "; the rollout stands still, because a deployer may count the deletion of the Job as a success".to_owned(),
            (None, _) => "; the rollout stands still".to_owned(),
        }
    }

    fn next_deployment(&self) -> String {
        self.retry_after_end().map_or_else(
            || "deploy the bundle again".to_owned(),
            |retry| format!("{retry}; to continue at once, deploy the bundle again"),
        )
    }

    /// Returns how the deployer starts the rollout again after a run that did not succeed. A hook
    /// that starts during a pause starts no upgrade.
    fn retry_after_end(&self) -> Option<&'static str> {
        let run = self.run.as_ref()?;
        let has_failed = match run.phase {
            RunPhase::Aborted | RunPhase::Lost => true,
            RunPhase::Ended => run.verdict.is_some_and(|name| name != ExitCode::Success.name()),
            RunPhase::Never
            | RunPhase::Starting
            | RunPhase::Running
            | RunPhase::WaitsForLease
            | RunPhase::BetweenPods
            | RunPhase::JobDeleted => false,
        };
        let unknown = "a deployer that retries starts the rollout again";
        if !has_failed || !self.pauses.is_empty() {
            return None;
        }
        let knows_deployer = self.deploy_again.is_some();
        self.automatic_retry.or_else(|| (!knows_deployer).then_some(unknown))
    }

    /// Describes the nodes that wait for the end of a pause.
    fn paused_nodes(&self) -> Option<String> {
        let is_paused =
            |row: &&NodeRow| row.waiting.as_ref().is_some_and(|waiting| waiting.reason == PAUSED);
        let paused = self.nodes.iter().filter(is_paused).count();
        let wait = if paused == 1 { "waits" } else { "wait" };
        let others = match self.totals.in_progress {
            0 => String::new(),
            count => format!("; {} in progress", with_noun(count, "node")),
        };
        let nodes = with_noun(paused, "node");
        (paused > 0).then(|| format!("{nodes} {wait} for the end of a pause{others}"))
    }

    /// Returns whether waiting does no harm while nodes need action: a node that is out of service
    /// stays so. `safe`: the text if there is none.
    fn harm_of_waiting(&self, safe: &str) -> WaitAnswer {
        let is_out = |row: &&NodeRow| {
            let is_affected = row.waiting.as_ref().is_some_and(BlockingCondition::is_stuck);
            let is_left = !matches!(row.stage, NodeStage::Done | NodeStage::Deferred);
            is_left && is_affected && (row.cordoned || !row.driver_ready)
        };
        let out: Vec<String> =
            self.nodes.iter().filter(is_out).map(|row| row.node.clone()).collect();
        if out.is_empty() {
            return WaitAnswer::Safe(safe.to_owned());
        }
        let are = if out.len() == 1 { "is" } else { "are" };
        WaitAnswer::Unsafe(format!("{} {are} out of service until you act", listed(&out)))
    }
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
