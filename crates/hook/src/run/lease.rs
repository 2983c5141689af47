//! Having the Lease, and being without it.
//!
//! While a hook can do nothing but wait for what others have to bring (the operator, its chart, the values), it gives other hooks the Lease
//! for moments: with a deployer that keeps no order, what it waits for may come only after one of them has ended.

use std::time::Duration;

use jiff::Timestamp;

use crate::start::in_step;
use crate::{EndReason, RunEnd};
use contract::record::NodeRecord;
use contract::task::Task;
use kube_io::lease::{HeldLease, LeaseCandidate};
use kube_io::watches::{CacheState, Watches};
use observed::ObservedNode;
use planner::own_upgrade::record::is_anothers;
use planner::pods::{listed, verdict_reasons};

use super::{RunLoop, after};

/// How long a process that ends while it waits for the Lease may take to make sure that it left none behind.
const GIVE_BACK: Duration = Duration::from_secs(5);
/// The log says so while another hook Job holds the Lease.
pub const WAITING_FOR_LEASE: &str = "waiting for the Lease: another hook Job is at work";
/// The Lease is kept for so long at least.
const KEEP: Duration = Duration::from_secs(5);
/// And then left to others for so long: who waits for it is told by a watch, at once.
const LEAVE: Duration = Duration::from_secs(2);

impl RunLoop<'_> {
    /// Waits for the Lease, at most until the last moment.
    pub(super) async fn acquire(&self, leases: &LeaseCandidate) -> Result<HeldLease, RunEnd> {
        if self.now() >= self.last_moment() {
            return Err(if self.began {
                self.ends_without_verdict(EndReason::BudgetOver, "the time budget is over and the Lease was lost")
            } else {
                let message = "the time budget was over before this pod could begin; give the Job more time (rollout.budgetSeconds)";
                RunEnd::new(EndReason::BudgetOver, message)
            });
        }
        let holder = std::cell::RefCell::new(String::new());
        let acquiring = leases.acquire(|seen| {
            if self.told_holder.borrow().as_deref() != Some(seen) {
                tracing::info!(holder = seen, "{WAITING_FOR_LEASE}");
                self.told_holder.replace(Some(seen.to_owned()));
            }
            seen.clone_into(&mut holder.borrow_mut());
        });
        let ended = tokio::select! {
            held = acquiring => return held.map_err(|error| RunEnd::new(EndReason::LeaseRefused, format!("unable to take the Lease: {error}"))),
            () = tokio::time::sleep_until(self.hook.clock.instant(self.last_moment())) => EndReason::LeaseHeldByOther,
            () = self.hook.shutdown.requested() => EndReason::SignalReceived,
        };
        // The signal or the deadline may have come between the server's taking a request and its answer.
        tokio::select! {
            _ = leases.release() => {}
            () = tokio::time::sleep(GIVE_BACK) => {}
        }
        let holder = holder.into_inner();
        Err(match (ended, holder.as_str()) {
            (EndReason::SignalReceived, _) => RunEnd::new(ended, "ended by a signal while waiting for the Lease"),
            (_, "") => self.ends_without_verdict(EndReason::LeaseUnreachable, "the Lease could not be read or written in time"),
            (_, holder) => {
                let held = format!("`{holder}` held the Lease default/gpu-rollout until the time budget was over");
                self.ends_without_verdict(ended, &format!("{held}; wait for it to end, then deploy again"))
            }
        })
    }

    /// Begins all caches anew, where limits are kept by what is seen: another hook may have started nodes up to the moment at which it let go
    /// of the Lease, and what tells of them may not be here yet.
    pub(super) async fn look_anew(&mut self) -> Result<(), RunEnd> {
        if !self.hook.settings.mode.decides() && !matches!(self.watches.sync(), CacheState::Past(_)) {
            return Ok(());
        }
        let (hook, namespaces, version) = (self.hook, self.namespaces.clone(), self.version);
        let start = || Watches::start(&hook.client, &hook.settings, namespaces.clone(), version);
        let last = self.last_moment();
        self.watches = start();
        in_step(hook, &mut self.watches, start, last).await
    }

    /// When the Lease that has been held since then is to be given up for a moment. `None`: it is not, for something is under way.
    pub(super) fn gives_way_at(&self, held_since: Timestamp) -> Option<Timestamp> {
        let at = after(self.memory.fleet_waiting?.1.max(held_since), KEEP);
        // The deadline is not to come while it is with others: the verdict says what was missing.
        (!self.is_at_work() && after(at, LEAVE) < self.memory.deadline).then_some(at)
    }

    /// Leaves the Lease to others for a moment.
    pub(super) async fn leave(&mut self) {
        tracing::debug!("other hooks may have the Lease for a moment");
        tokio::select! {
            () = tokio::time::sleep(LEAVE) => {}
            () = self.hook.shutdown.requested() => {}
        }
    }

    /// Takes the run up as `load` does. The fleet goes on waiting, but for the time in which another hook had the Lease.
    pub(super) async fn load_after(&mut self, gave_way: Option<Timestamp>) -> Result<(), RunEnd> {
        let waiting = self.memory.fleet_waiting;
        // What the operator does is seen without the Lease too.
        let operator = self.memory.operator.take();
        self.load(gave_way.is_some()).await?;
        self.memory.operator = operator;
        if let Some(at) = gave_way {
            // What is waited for may have waited for them.
            let meanwhile = self.now().duration_since(at);
            self.memory.fleet_waiting = waiting.map(|(name, since)| (name, since.saturating_add(meanwhile).unwrap_or(since)));
        }
        Ok(())
    }

    /// Whether a node is under way, or a request to one. What a run before this one has replaced is only remembered.
    fn is_at_work(&self) -> bool {
        let drives = self.hook.settings.has(Task::Drive) && !self.nodes_of_ours().is_empty();
        let began = self.memory.started_at;
        let asked = |record: &NodeRecord| record.replaced.values().any(|one| one.at >= began && one.back_at.is_none());
        let open = |record: &NodeRecord| record.outcome.is_none() && (record.since.is_some() || asked(record));
        drives || self.memory.nodes.iter().any(|(_, record)| open(record))
    }

    /// The nodes that were begun and, as far as is known, not given back.
    fn nodes_of_ours(&self) -> Vec<String> {
        let settings = &self.hook.settings;
        let (traits, identity) = (settings.driver.traits(), settings.own_daemon_set());
        let ours =
            |node: &ObservedNode| node.annotations.contains_key(traits.own_record) && !is_anothers(node, traits, identity.as_deref());
        let nodes = self.watches.observed(self.now()).nodes;
        nodes.values().filter(|node| settings.has(Task::Drive) && ours(node)).map(|node| node.name.clone()).collect()
    }

    /// Ends the run without a verdict, and names them.
    pub(super) fn ends_without_verdict(&self, reason: EndReason, message: &str) -> RunEnd {
        let names = self.nodes_of_ours();
        if names.is_empty() {
            return RunEnd::new(reason, message);
        }
        let not_given_back = format!("not given back, as far as was seen: {} (the next deployment goes on with them)", listed(&names));
        RunEnd::new(reason, format!("{message}; {not_given_back}")).with_reasons(verdict_reasons(&names, "NotGivenBack"))
    }
}
