//! The caches of a run. The hook restarts them when their content may be out of date.

use jiff::Timestamp;

use contract::task::Task;
use kube_io::call::CallError;
use kube_io::watches::{CacheState, Watches};
use observed::{Observed, ObservedNode};
use planner::drive_upgrade::record::belongs_to_other_hook;

use super::start::failed_call;
use super::{EndReason, HookProcess, RunEnd};

/// The log message for an API server that has gone back to an older state.
pub(super) const HISTORY_WENT_BACK: &str = "the API server has returned an older state for one minute, as after a restore of etcd; restarting the caches from this state";

/// The watches of a run, and what they are started with.
pub(super) struct RunCaches<'a> {
    hook: &'a HookProcess,
    pub(super) watches: Watches,
    /// The namespaces of the DRA driver that exist.
    pub(super) namespaces: Vec<String>,
    /// The version of `resource.k8s.io` that is read.
    slice_version: Option<&'static str>,
}

impl<'a> RunCaches<'a> {
    /// Starts the watches that the tasks need.
    pub(super) fn start(
        hook: &'a HookProcess,
        namespaces: Vec<String>,
        slice_version: Option<&'static str>,
    ) -> Self {
        let watches =
            Watches::start(&hook.client, &hook.settings, namespaces.clone(), slice_version);
        Self { hook, watches, namespaces, slice_version }
    }

    /// Starts all watches again and waits until they are in step.
    pub(super) async fn restart(&mut self, deadline: Timestamp) -> Result<(), RunEnd> {
        *self = Self::start(self.hook, self.namespaces.clone(), self.slice_version);
        self.wait_until_in_step(deadline).await
    }

    /// Returns whether the caches can be decided on, and counts it.
    pub(super) fn sync(&self) -> CacheState {
        let state = self.watches.sync();
        self.hook.metrics.set_in_step(state == CacheState::InStep);
        state
    }

    /// Waits until all caches are in step with the API server.
    pub(super) async fn wait_until_in_step(&mut self, deadline: Timestamp) -> Result<(), RunEnd> {
        let hook = self.hook;
        loop {
            match self.sync() {
                CacheState::InStep => return Ok(()),
                CacheState::Forbidden(message) => {
                    return Err(failed_call(hook, CallError::Forbidden(message)).await);
                }
                CacheState::Behind(why) if hook.clock.now() >= deadline => {
                    return Err(RunEnd::new(
                        EndReason::ApiServerUnreachable,
                        format!("cannot read the API server in time: {why}"),
                    ));
                }
                CacheState::Behind(_) => tokio::select! {
                    () = self.watches.changed() => {}
                    () = tokio::time::sleep_until(hook.clock.instant(deadline)) => {}
                },
                CacheState::Past(why) => {
                    tracing::warn!(why, "{HISTORY_WENT_BACK}");
                    *self = Self::start(hook, self.namespaces.clone(), self.slice_version);
                }
            }
        }
    }

    /// Returns the content of the caches.
    pub(super) fn observed(&self) -> Observed {
        self.watches.observed(self.hook.clock.now())
    }

    /// Returns the nodes that this hook has started and, according to the caches, not released.
    pub(super) fn own_nodes(&self) -> Vec<String> {
        let settings = &self.hook.settings;
        if !settings.has(Task::Drive) {
            return Vec::new();
        }
        let (traits, identity) = (settings.driver.traits(), settings.own_daemon_set());
        let is_own = |node: &&ObservedNode| {
            node.annotations.contains_key(traits.own_record)
                && !belongs_to_other_hook(node, traits, identity.as_deref())
        };
        self.observed().nodes.values().filter(is_own).map(|node| node.name.clone()).collect()
    }
}
