//! The Lease of a run: acquiring it, and yielding it. A hook may have to wait for something that
//! the deployer installs: the operator, its chart or the values. During such a wait it yields the
//! Lease to other hooks for a short time. With a deployer that keeps no order, the awaited object
//! may come only after another hook has ended.

use std::cell::RefCell;
use std::time::Duration;

use jiff::Timestamp;

use contract::record::NodeRecord;
use kube_io::lease::{FreeLease, HeldLease, LeaseCandidate};
use planner::memory::RunMemory;
use planner::pods::{listed, verdict_reasons};

use crate::clock::later;
use crate::{EndReason, HookProcess, RunEnd};

/// How long a process that ends while it waits for the Lease may take to release a Lease that it
/// may have acquired.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);
/// The log message while another hook Job holds the Lease.
pub const WAITING_FOR_LEASE: &str = "waiting for the Lease: another hook Job is running";
/// How long the hook holds the Lease at least before it yields it.
const KEEP: Duration = Duration::from_secs(5);
/// How long the hook then leaves the Lease to others. A waiting hook learns of the release at once,
/// through a watch.
const YIELD: Duration = Duration::from_secs(2);
/// How long releasing the Lease and taking it again may take: a few calls to a slow API server, or
/// the turn of another hook that yields it too.
const TAKE_AGAIN: Duration = Duration::from_secs(20);

/// Acquires the Lease of a run, and yields it to other hooks.
pub(super) struct YieldableLease<'a> {
    hook: &'a HookProcess,
    leases: &'a LeaseCandidate,
    /// The version at which the Lease was free: before the caches started, or after it was yielded.
    free: Option<FreeLease>,
    /// When the Lease was yielded, until it is held again.
    pub(super) yielded_at: Option<Timestamp>,
    /// Whether this process has held the Lease and started the run.
    pub(super) has_started: bool,
    /// The holder that the log named last, so that two hooks that yield to each other do not log
    /// each change.
    logged_holder: RefCell<Option<String>>,
}

impl<'a> YieldableLease<'a> {
    pub(super) fn new(
        hook: &'a HookProcess,
        leases: &'a LeaseCandidate,
        free: Option<FreeLease>,
    ) -> Self {
        Self {
            hook,
            leases,
            free,
            yielded_at: None,
            has_started: false,
            logged_holder: RefCell::default(),
        }
    }

    /// Waits for the Lease, at most until `last`. `own_nodes` returns the nodes that the message of
    /// a run without a verdict names.
    pub(super) async fn acquire(
        &self,
        last: Timestamp,
        own_nodes: impl Fn() -> Vec<String>,
    ) -> Result<HeldLease, RunEnd> {
        let clock = &self.hook.clock;
        if clock.now() >= last {
            return Err(if self.has_started {
                without_verdict(
                    EndReason::BudgetOver,
                    "the time budget is over and the Lease was lost",
                    &own_nodes(),
                )
            } else {
                let message = "the time budget was over before this pod could start; hint: give the Job more time (`rollout.budgetSeconds`)";
                RunEnd::new(EndReason::BudgetOver, message)
            });
        }
        let holder = RefCell::new(String::new());
        let acquiring = self.leases.acquire(|seen| {
            if self.logged_holder.borrow().as_deref() != Some(seen) {
                tracing::info!(holder = seen, "{WAITING_FOR_LEASE}");
                self.logged_holder.replace(Some(seen.to_owned()));
            }
            seen.clone_into(&mut holder.borrow_mut());
        });
        let ended = tokio::select! {
            held = acquiring => return held.map_err(|error| RunEnd::new(EndReason::LeaseRefused, format!("cannot take the Lease: {error}"))),
            () = tokio::time::sleep_until(clock.instant(last)) => EndReason::LeaseHeldByOther,
            () = self.hook.shutdown.requested() => EndReason::SignalReceived,
        };
        // The server may have granted the Lease before the signal or the deadline, and its answer
        // is still on the way.
        tokio::select! {
            _ = self.leases.release() => {}
            () = tokio::time::sleep(RELEASE_LIMIT) => {}
        }
        let holder = holder.into_inner();
        Err(match (ended, holder.as_str()) {
            (EndReason::SignalReceived, _) => {
                RunEnd::new(ended, "ended by a signal while waiting for the Lease")
            }
            (_, "") => without_verdict(
                EndReason::LeaseUnreachable,
                "cannot read or write the Lease in time",
                &own_nodes(),
            ),
            (_, holder) => {
                let held = format!(
                    "`{holder}` held the Lease default/gpu-rollout until the time budget was over"
                );
                without_verdict(
                    ended,
                    &format!("{held}; hint: wait for it to end, then deploy again"),
                    &own_nodes(),
                )
            }
        })
    }

    /// Whether no other hook has held the Lease since it was last known to be free: before the
    /// caches started, or when this hook yielded it.
    pub(super) fn is_uninterrupted(&mut self, held: &HeldLease) -> bool {
        self.free.take().is_some_and(|free| held.follows(&free))
    }

    /// Releases the Lease and leaves it to other hooks for a short time.
    pub(super) async fn yield_to_others(&mut self, held: HeldLease) {
        self.free = held.release().await;
        tracing::debug!("yielding the Lease to other hooks");
        tokio::select! {
            () = tokio::time::sleep(YIELD) => {}
            () = self.hook.shutdown.requested() => {}
        }
    }
}

/// Returns when to yield a Lease that is held since `held_since`: now or later. `None`: not at all,
/// because the fleet does not wait, a node is in progress, or the deadline is near.
pub(super) fn yield_at(
    memory: &RunMemory,
    held_since: Timestamp,
    now: Timestamp,
    has_own_nodes: impl FnOnce() -> bool,
) -> Option<Timestamp> {
    let (_, waiting_since) = memory.fleet_waiting?;
    let at = later(waiting_since.max(held_since), KEEP).max(now);
    // The hook must hold the Lease at the deadline, because its verdict names the missing object.
    let holds_again_at = later(at, YIELD + TAKE_AGAIN);
    (!has_own_nodes() && !has_open_nodes(memory) && holds_again_at < memory.deadline).then_some(at)
}

/// Whether a node is in progress, or a replacement of one of its plugin pods. Replacements by an
/// earlier run do not count.
fn has_open_nodes(memory: &RunMemory) -> bool {
    let requested = |node: &NodeRecord| {
        node.replaced.values().any(|one| one.at >= memory.started_at && one.back_at.is_none())
    };
    let open =
        |node: &NodeRecord| node.outcome.is_none() && (node.since.is_some() || requested(node));
    memory.nodes.values().any(open)
}

/// Returns the end of a run without a verdict, which names the nodes that were not released.
pub(super) fn without_verdict(reason: EndReason, message: &str, own_nodes: &[String]) -> RunEnd {
    if own_nodes.is_empty() {
        return RunEnd::new(reason, message);
    }
    let not_released = format!(
        "not released, according to the last observed state: {} (the next deployment continues with them)",
        listed(own_nodes)
    );
    RunEnd::new(reason, format!("{message}; {not_released}"))
        .with_reasons(verdict_reasons(own_nodes, "NotReleased"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn lease_is_yielded_only_while_the_fleet_waits_and_no_node_is_open() {
        let mut memory = RunMemory::new(at(0), at(100));
        let yielded = |memory: &RunMemory, held, now| yield_at(memory, at(held), at(now), || false);
        assert_eq!(yielded(&memory, 0, 1), None, "the fleet does not wait");
        memory.fleet_waiting = Some(("OperatorMissing", at(10)));
        assert_eq!(yielded(&memory, 0, 10), Some(at(15)));
        assert_eq!(yielded(&memory, 20, 20), Some(at(25)), "held for a while at least");
        assert_eq!(yielded(&memory, 20, 40), Some(at(40)), "due since long");
        assert_eq!(yield_at(&memory, at(20), at(20), || true), None);
        memory.nodes.insert("a", NodeRecord { since: Some(at(5)), ..NodeRecord::default() });
        assert_eq!(yielded(&memory, 20, 20), None, "a node is open");
    }

    /// A run that yielded the Lease until its deadline ended with the message that the Lease was
    /// lost, instead of what the fleet had waited for.
    #[test]
    fn lease_is_held_again_before_the_deadline() {
        let mut memory = RunMemory::new(at(0), at(100));
        memory.fleet_waiting = Some(("OperatorMissing", at(10)));
        let yielded = |held, now| yield_at(&memory, at(held), at(now), || false);
        assert_eq!(yielded(72, 72), Some(at(77)));
        assert_eq!(yielded(73, 73), None);
        assert_eq!(yielded(20, 78), None, "due since long");
    }
}
