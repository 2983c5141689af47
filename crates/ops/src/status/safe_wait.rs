//! Whether it is safe to wait: the second line of a status.

use jiff::Timestamp;

use contract::exit::ExitCode;
use planner::pods::listed;
use planner::reason::{ACCEPTING, FAILURE_BUDGET_SPENT, NO_TIME_LEFT, OUTSIDE_WINDOW};

use super::super::advice::Advice;
use super::super::run_phase::RunPhase;
use super::super::time::format_remaining;
use super::proof::is_open_halt;
use super::{BlockingCondition, NodeRow, NodeStage, RolloutStatus};

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
    /// Returns whether waiting does no harm while nodes, or the fleet, need action. After an abort,
    /// a deployer that retries would continue the rollout.
    pub(super) fn wait_for_action(&self, urgent: &[&Advice<'_>], is_aborted: bool) -> WaitAnswer {
        let answer = self.harm_of_waiting(&format!(
            "no affected node is out of service; {}",
            self.continuation(urgent)
        ));
        match (self.with_held_run(answer), self.continuing_retry()) {
            (WaitAnswer::Safe(_), Some(retry)) if is_aborted => WaitAnswer::Unsafe(format!(
                "{retry}, and the aborted rollout then continues; to prevent that, run gpu-rollout pause: a hook that starts during a pause starts no upgrade"
            )),
            (answer, _) => answer,
        }
    }

    /// Adds the next run to the harm of waiting, if it does not continue the rollout.
    pub(super) fn with_held_run(&self, answer: WaitAnswer) -> WaitAnswer {
        match (answer, self.held_back().and_then(|_| self.next_run())) {
            (WaitAnswer::Unsafe(why), Some(next)) => WaitAnswer::Unsafe(format!("{why}; {next}")),
            (answer, _) => answer,
        }
    }

    /// Says how the rollout continues if the user does not act.
    fn continuation(&self, urgent: &[&Advice<'_>]) -> String {
        let has = |reason: &str| urgent.iter().any(|advice| advice.reason == reason);
        let is_fleet = urgent.first().is_some_and(|advice| advice.nodes.is_empty());
        let phase = self.run.as_ref().map(|run| run.phase);
        match (self.next_run(), phase) {
            (Some(next), _) => next,
            (None, Some(RunPhase::Never)) => format!(
                "if the deployer is still at work, the rollout continues by itself; if a release has failed, {} until you repair it",
                self.automatic_retry.map_or("it stands still", |_| "it may fail again at each retry")
            ),
            (None, Some(phase)) if phase.has_job() && is_fleet => {
                "the rollout stands still, and the run fails if that lasts".to_owned()
            }
            (None, Some(phase))
                if phase.has_job() && (has(FAILURE_BUDGET_SPENT) || has(NO_TIME_LEFT)) =>
            {
                "no more upgrades start in this run".to_owned()
            }
            (None, Some(phase)) if phase.has_job() && has(OUTSIDE_WINDOW) => {
                let opens = self.next_window();
                let opens = opens.map(|at| format!(" at {at:.0}")).unwrap_or_default();
                format!(
                    "no more upgrades start in this run, which ends before the next window opens{opens}"
                )
            }
            (None, Some(phase)) if phase.has_job() => {
                "the run continues with the nodes that need no action".to_owned()
            }
            (None, Some(RunPhase::JobDeleted)) => "the rollout stands still until you act: do not count on a retry, because a deployer may take the deletion of the Job for a success".to_owned(),
            (None, _) => "the rollout stands still".to_owned(),
        }
    }

    /// Returns whether waiting does no harm while the whole fleet waits. `remaining`: until the run
    /// fails; `is_recorded`: whether the start of the wait is known.
    pub(super) fn wait_until_failure(&self, remaining: &str, is_recorded: bool) -> WaitAnswer {
        let unknown = if is_recorded { "" } else { "; the start of the wait is not recorded" };
        let is_out =
            |row: &&NodeRow| row.stage != NodeStage::Done && (row.cordoned || !row.driver_ready);
        let out: Vec<String> =
            self.nodes.iter().filter(is_out).map(|row| row.node.clone()).collect();
        let nodes = match out.len() {
            0 => "no node is out of service".to_owned(),
            1 => format!("{} stays out of service", out[0]),
            _ => format!("{} stay out of service", listed(&out)),
        };
        match self.automatic_retry {
            // The next run releases nodes as this one does.
            Some(retry) => WaitAnswer::Safe(format!(
                "{nodes}; the run fails in {remaining}, and {retry}{unknown}"
            )),
            None => WaitAnswer::SafeFor(format!(
                "only for {remaining} ({nodes}): then the run fails, and you must deploy the bundle again{unknown}"
            )),
        }
    }

    /// Says until when it is safe to wait; empty if no run can end.
    pub(super) fn time_limit(&self) -> String {
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

    /// Returns when the maintenance window opens that nodes wait for; `None`: none of them does.
    pub(super) fn next_window(&self) -> Option<Timestamp> {
        let rows = self.nodes.iter().filter_map(|row| row.waiting.as_ref());
        let opens = rows.filter(|waiting| waiting.reason == OUTSIDE_WINDOW);
        opens.filter_map(|waiting| waiting.until).min()
    }

    /// Returns when the maintenance window opens that nodes wait for, if that is too late for the
    /// run; `None`: it is not, or no node waits for one.
    pub fn late_window(&self) -> Option<Timestamp> {
        let rows = self.nodes.iter().filter_map(|row| row.waiting.as_ref());
        let mut late = rows.filter(|waiting| waiting.reason == OUTSIDE_WINDOW);
        if late.any(|waiting| !waiting.resolves_itself) { self.next_window() } else { None }
    }

    /// Returns when the maintenance window opens that is too late for the run, if the deployer by
    /// itself starts another run, which is still running then. It has the same time limit.
    pub fn window_in_next_run(&self) -> Option<Timestamp> {
        self.automatic_retry?;
        let run = self.run.as_ref()?;
        let end = run.deadline?;
        let next_end = end.checked_add(end.duration_since(run.started_at?)).ok()?;
        self.late_window().filter(|opens| *opens < next_end)
    }

    /// Returns what the next run does in place of upgrades, if only `gpu-rollout resume` changes
    /// that: the rollout is paused without an end, or has halted.
    pub fn held_back(&self) -> Option<&'static str> {
        let halt = self.proof.as_ref().and_then(|proof| proof.halt.as_ref());
        if self.is_paused_without_end() {
            Some("starts no paused node until you run gpu-rollout resume")
        } else if is_open_halt(halt, &self.requests) {
            Some("halts again unless you run gpu-rollout resume before")
        } else {
            None
        }
    }

    /// Returns how the deployer by itself continues the rollout after a run that did not succeed.
    pub(super) fn continuing_retry(&self) -> Option<&'static str> {
        self.retry_after_end().filter(|_| self.held_back().is_none())
    }

    /// Describes how the deployer by itself starts the next run after one that did not succeed, and
    /// what to expect of it.
    pub(super) fn next_run(&self) -> Option<String> {
        let retry = self.retry_after_end()?;
        let is_lost = self.run.as_ref().is_some_and(|run| run.phase == RunPhase::Lost);
        let job =
            if is_lost { "; look at the Job before, because the retry deletes it" } else { "" };
        let held = self.held_back().map(|does| format!("; the next run {does}"));
        Some(format!("{retry}{job}{}", held.unwrap_or_default()))
    }

    /// Returns how the deployer by itself starts a run after one that did not succeed.
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
        if !has_failed {
            return None;
        }
        let knows_deployer = self.deploy_again.is_some();
        self.automatic_retry.or_else(|| (!knows_deployer).then_some(unknown))
    }

    /// Returns whether waiting does no harm while nodes need action: a node that is out of service
    /// stays so. A test whose pod does not run ends at its timeout. `safe`: the text if there is
    /// no such node.
    pub(super) fn harm_of_waiting(&self, safe: &str) -> WaitAnswer {
        let is_out = |row: &&NodeRow| {
            let is_affected = row.waiting.as_ref().is_some_and(BlockingCondition::is_stuck);
            let is_left = !matches!(row.stage, NodeStage::Done | NodeStage::Deferred);
            is_left && is_affected && (row.cordoned || !row.driver_ready)
        };
        let out: Vec<&NodeRow> = self.nodes.iter().filter(is_out).collect();
        if out.is_empty() {
            return WaitAnswer::Safe(safe.to_owned());
        }
        let is_tested = |row: &&NodeRow| {
            row.waiting.as_ref().is_some_and(|waiting| waiting.reason == ACCEPTING)
        };
        let act = if out.iter().all(is_tested) {
            "; act before the acceptance test times out"
        } else {
            " until you act"
        };
        let are = if out.len() == 1 { "is" } else { "are" };
        let out: Vec<String> = out.into_iter().map(|row| row.node.clone()).collect();
        WaitAnswer::Unsafe(format!("{} {are} out of service{act}", listed(&out)))
    }
}
