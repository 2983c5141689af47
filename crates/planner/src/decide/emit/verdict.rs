//! The end of a run: when it ends, and with which verdict.

use std::fmt::Write;
use std::sync::Arc;

use jiff::Timestamp;

use crate::reason::upgrade::UpgradeReason;
use crate::reason::{Reason, Wait};
use contract::budget::{RELEASE_SECONDS, working_seconds};
use contract::count::with_noun;
use contract::driver::Driver;
use contract::duration::Duration;
use contract::exit::ExitCode;
use contract::record::{
    NodeOutcome, NodeRecord, PluginReplacement, ReplacedPodKind, Verdict, VerdictReason,
};
use contract::task::Task;
use observed::ObservedNode;
use observed::named::Named;

use crate::decide::emit::listed_waits::list_waits;
use crate::decide::fleet::FleetDraft;
use crate::decide::modes::drive::describe_released_unchanged;
use crate::decide::operands;
use crate::time::after;

/// Maximum number of waits that a message names.
const NAMED: usize = 5;
/// Maximum number of plugin replacements on one node in one run that a driver, a toolkit and their
/// attempts can cause.
const MOST_REPLACEMENTS: usize = 5;

/// Seconds until the next decision while nodes are released after the deadline.
const HANDING_BACK_SECONDS: u64 = 10;

/// Age in seconds from which a leader without a renewal of its Lease may have ended: it then gives
/// up on its own (`renewDeadline` of controller-runtime).
const RENEWED_SECONDS: u64 = 10;
/// Seconds until the next decision while no renewal of the operator's leader has been observed; it
/// renews its Lease every two seconds.
const LEADER_SECONDS: u64 = 2;

/// Minimum quiet period, in seconds, if the operator does not report which generation it has acted
/// on.
const SILENT_QUIET_SECONDS: u64 = 60;

/// The run at the end of a decision.
pub(super) struct RunState<'a> {
    pub(super) fleet: FleetDraft<'a>,
    pub(super) outcomes: Named<NodeOutcome>,
    /// Whether the time is over, and unchanged nodes are being released, or pods of acceptance
    /// tests deleted.
    pub(super) is_releasing: bool,
}

impl RunState<'_> {
    /// Evaluates quiet period and deadline. `pending`: whether actions remain that keep the run
    /// from ending; `nodes`: returns the nodes of the run. Returns whether all conditions are met,
    /// apart from the quiet period, and the verdict.
    pub(super) fn judge<'n>(
        &mut self,
        pending: bool,
        nodes: impl Fn() -> Vec<&'n ObservedNode>,
    ) -> (bool, Option<Verdict>) {
        let well = self.fleet.waits.is_empty() && !pending;
        let quiet = self.quiet_seconds();
        let deadline = self.fleet.memory.deadline;
        let latest = after(deadline, RELEASE_SECONDS);
        // Unchanged nodes are released before the verdict, because no process would release them
        // afterwards.
        let release_until =
            self.fleet_fails_at().map_or(latest, |at| after(at, RELEASE_SECONDS).min(latest));
        let is_releasing = self.is_releasing && self.fleet.now < release_until;
        if self.fleet.now < deadline && self.fleet.ended.fleet.is_empty() {
            // The fleet waits no longer, and released nodes are started again.
            self.fleet.memory.released_unchanged.clear();
        }
        let mut verdict = if well {
            self.after_quiet_period(quiet, &nodes())
        } else {
            self.fleet.memory.well = None;
            self.fleet_failure().filter(|_| !is_releasing)
        };
        // If only the quiet period is missing, it may still end within the margin after the
        // deadline.
        let well_at = self
            .fleet
            .memory
            .well
            .as_ref()
            .map(|(_, since)| after(*since, quiet))
            .filter(|at| well && *at <= latest);
        if is_releasing {
            // The run is about to end; a patch that was not accepted is repeated.
            self.fleet.alarm.set(after(self.fleet.now, HANDING_BACK_SECONDS).min(release_until));
        }
        let is_over = self.fleet.now >= deadline && (well_at.is_none() || self.fleet.now >= latest);
        if verdict.is_none() && is_over && !is_releasing {
            verdict = Some(self.out_of_time());
        }
        // The next time limit: the deadline; after it, the end of the quiet period.
        let ends_at = if self.fleet.now < deadline { Some(deadline) } else { well_at };
        if let Some(at) = ends_at.filter(|at| *at > self.fleet.now) {
            self.fleet.alarm.set(at);
        }
        let verdict = verdict.map(|verdict| self.halted(verdict));
        (well && !self.has_failures(), verdict)
    }

    /// Returns the verdict if all conditions have been met by the same nodes for the quiet period;
    /// if not, the run waits.
    fn after_quiet_period(&mut self, quiet: u64, nodes: &[&ObservedNode]) -> Option<Verdict> {
        let uids = || nodes.iter().map(|node| &node.uid);
        let same = |(before, _): &(Arc<[String]>, Timestamp)| before.iter().eq(uids());
        let (fleet, since) = self
            .fleet
            .memory
            .well
            .take()
            .filter(same)
            .unwrap_or_else(|| (uids().cloned().collect(), self.fleet.now));
        self.fleet.memory.well = Some((fleet, since));
        if self.fleet.alarm.passed(since, quiet) && self.leader_was_seen(since) {
            return Some(self.settled());
        }
        let until = after(since, quiet);
        self.fleet.waits.fleet.push(Wait {
            node: None,
            reason: Reason::Quiet { until }.into(),
            since,
        });
        None
    }

    /// Returns the reasons for which nodes, or the fleet, failed.
    fn failures(&self) -> impl Iterator<Item = Wait> + Clone + '_ {
        self.fleet.ended.nodes.iter().chain(self.fleet.ended.fleet.iter().cloned())
    }

    fn has_failures(&self) -> bool {
        self.failures().next().is_some()
    }

    /// Returns when the run fails because the whole fleet has waited for longer than the grace time.
    fn fleet_fails_at(&self) -> Option<Timestamp> {
        let failure = self.fleet.ended.fleet.first()?;
        Some(after(failure.since, self.fleet.settings.grace_seconds))
    }

    fn fleet_failure(&self) -> Option<Verdict> {
        let failure = self.fleet.ended.fleet.first()?;
        Some(self.failed(failure.reason.exit_code(), std::slice::from_ref(failure)))
    }

    /// Returns the quiet period in seconds. Before 26.7, the Network Operator does not report
    /// whether it has acted on an edit that changes no image tag.
    fn quiet_seconds(&self) -> u64 {
        let policy = self.fleet.observed.live_nic_cluster_policy();
        let silent = policy
            .is_some_and(|policy| policy.ofed.is_some() && policy.observed_generation.is_none());
        let settles =
            self.fleet.settings.has(Task::Settle) && self.fleet.settings.driver == Driver::Ofed;
        if settles && silent {
            self.fleet.settings.quiet_seconds.max(SILENT_QUIET_SECONDS)
        } else {
            self.fleet.settings.quiet_seconds
        }
    }

    /// Returns whether a renewal of the Lease by the operator's leader has been observed since
    /// then; if not, the next decision is soon.
    fn leader_was_seen(&mut self, since: Timestamp) -> bool {
        if self.fleet.settings.driver != Driver::Gpu || !self.fleet.settings.has(Task::Settle) {
            return true;
        }
        let renewed = self.fleet.observed.operator_lease.as_ref().and_then(|lease| lease.renewed);
        let seen = renewed.is_some_and(|renewed| {
            renewed >= since && after(renewed, RENEWED_SECONDS) >= self.fleet.now
        });
        if !seen {
            self.fleet.alarm.set(after(self.fleet.now, LEADER_SECONDS));
        }
        seen
    }

    fn settled(&self) -> Verdict {
        // Failed nodes come before plugins that did not come back; within an exit code, the order
        // is that of the nodes.
        let mut failures: Vec<Wait> = self.failures().collect();
        failures.sort_by_key(|failure| {
            (failure.reason.exit_code() != ExitCode::NodesFailed, failure.reason.waits_for_others())
        });
        if let Some(first) = failures.first() {
            return self.failed(first.reason.exit_code(), &failures);
        }
        let count = |outcome| self.outcomes.values().filter(|found| **found == outcome).count();
        let replaced = |plugin: ReplacedPodKind| -> usize {
            let ours = |one: &&PluginReplacement| {
                one.at >= self.fleet.memory.started_at && one.plugin == plugin
            };
            self.fleet
                .memory
                .nodes
                .values()
                .map(|record| record.replaced.values().filter(ours).count())
                .sum()
        };
        let mut message =
            format!("settled: {} of {} nodes done", count(NodeOutcome::Done), self.outcomes.len());
        for (outcome, word) in [(NodeOutcome::Deferred, "deferred"), (NodeOutcome::Gone, "gone")] {
            if count(outcome) > 0 {
                // Writing to a String cannot fail.
                let _ = write!(message, ", {} {word}", count(outcome));
            }
        }
        if self.fleet.settings.has(Task::Reroll) {
            let plugins = with_noun(replaced(ReplacedPodKind::Dra), "DRA plugin");
            let _ = write!(message, "; {plugins} replaced");
        }
        if self.fleet.settings.has(Task::RestartPlugins) {
            let _ = write!(
                message,
                "; {} of the device plugin restarted",
                with_noun(replaced(ReplacedPodKind::Device), "pod")
            );
        }
        let mut reasons = vec![VerdictReason::new(None, "Settled")];
        let mut of_nodes = 0;
        for note in self.fleet.notes.iter().chain(&operands::reported(
            self.fleet.observed,
            self.fleet.settings,
            self.fleet.now,
        )) {
            of_nodes += usize::from(note.node().is_some());
            if note.node().is_none() || of_nodes <= NAMED {
                let _ = write!(message, "; {note}");
                reasons.push(note.verdict_reason());
            }
        }
        if of_nodes > NAMED {
            let _ = write!(message, "; and {} more nodes", of_nodes - NAMED);
        }
        Verdict { code: ExitCode::Success, message, reasons, at: self.fleet.now, hint: None }
    }

    /// Returns the verdict of a run in which nodes were not started because of a halt: it does not
    /// succeed.
    fn halted(&self, verdict: Verdict) -> Verdict {
        let is_halted =
            |reason: &Reason| matches!(reason, Reason::Upgrading(UpgradeReason::Halted { .. }));
        let mut halts = self.fleet.ended.iter().map(|wait| wait.reason);
        let Some(reason) = halts.find(|reason| is_halted(reason)) else { return verdict };
        let hint = reason.advice(self.fleet.settings.driver);
        let reasons = [VerdictReason::new(None, reason.name())];
        Verdict {
            code: reason.exit_code(),
            message: format!("{reason}; {}; hint: {hint}", verdict.message_without_hint()),
            reasons: reasons.into_iter().chain(verdict.reasons).collect(),
            at: verdict.at,
            hint: Some(hint.to_owned()),
        }
    }

    fn out_of_time(&self) -> Verdict {
        let mut waits: Vec<Wait> = self.failures().chain(self.fleet.waits.iter()).collect();
        waits.sort_by_key(|wait| wait.reason.waits_for_others());
        let codes: Vec<ExitCode> = waits.iter().map(|wait| wait.reason.exit_code()).collect();
        let code = match codes.first() {
            Some(first) if codes.iter().all(|code| code == first) => *first,
            Some(_) | None => ExitCode::Budget,
        };
        let mut verdict = self.failed(code, &waits);
        let (told, reasons) = self.describe_restarted_again();
        let budget = self.fleet.settings.budget_seconds;
        let working = working_seconds(budget);
        verdict.message = format!(
            "the time budget of {} has expired ({} for the work, {} to end the Job): {}{told}",
            Duration::from_secs(budget),
            Duration::from_secs(working),
            Duration::from_secs(budget - working),
            verdict.message
        );
        verdict.reasons.extend(reasons);
        verdict
    }

    /// Describes nodes whose driver was restarted repeatedly: in the last decision, they may have
    /// no problem.
    fn describe_restarted_again(&self) -> (String, Vec<VerdictReason>) {
        let replaced = |record: &NodeRecord| {
            record.replaced.values().filter(|one| one.at >= self.fleet.memory.started_at).count()
        };
        let counts = self
            .fleet
            .memory
            .nodes
            .iter()
            .map(|(name, record)| (name, replaced(record)))
            .filter(|(_, count)| *count > MOST_REPLACEMENTS);
        let told = counts.take(NAMED).map(|(name, count)| {
            let text = format!("; {name}: its plugins were replaced {count} times, each time after a new start of its driver or toolkit");
            (text, VerdictReason::new(Some(name), "PluginsReplacedRepeatedly"))
        });
        told.unzip()
    }

    fn failed(&self, code: ExitCode, waits: &[Wait]) -> Verdict {
        let listed = list_waits(waits);
        let hint = waits.first().map(|wait| wait.reason.advice(self.fleet.settings.driver));
        let advice = hint.map(|hint| format!("; hint: {hint}")).unwrap_or_default();
        let (released_unchanged, more) = describe_released_unchanged(
            &self.fleet.memory,
            self.fleet.observed,
            self.fleet.settings.driver.traits(),
        );
        let reasons = waits.iter().take(NAMED).map(Wait::verdict_reason).chain(more).collect();
        Verdict {
            code,
            message: format!("{listed}{advice}{released_unchanged}"),
            reasons,
            at: self.fleet.now,
            hint: hint.map(str::to_owned),
        }
    }
}
