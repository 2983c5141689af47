//! A connection to one cluster, with its rollouts.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use contract::preflight::PreflightSettings;
use contract::settings::Settings;
use contract::task::Task;

use super::command_error::CommandError;
use super::find_rollouts::FoundRollouts;
use super::observe::{ObserveError, RolloutObserver, RolloutSnapshot};
use super::target::RolloutTarget;

/// Returns the current time: the API server's if it is known, because a workstation's clock may be
/// wrong.
pub type SessionClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A client with the rollouts of its cluster.
pub struct ClusterSession {
    client: Client,
    rollouts: FoundRollouts,
    limit: Duration,
    clock: SessionClock,
}

impl ClusterSession {
    /// Creates a session. `limit`: the time limit for reading a rollout from the cluster.
    pub fn new(
        client: Client,
        rollouts: FoundRollouts,
        limit: Duration,
        clock: SessionClock,
    ) -> Self {
        Self { client, rollouts, limit, clock }
    }

    /// Returns every rollout.
    pub fn targets(&self) -> &[RolloutTarget] {
        &self.rollouts.targets
    }

    /// Returns the rollouts of drivers. The other rollouts only replace plugins.
    pub fn driver_targets(&self) -> impl Iterator<Item = &RolloutTarget> {
        self.targets().iter().filter(|target| target.settings.has(Task::Settle))
    }

    /// Returns the settings of every hook release.
    pub fn hooks(&self) -> impl Iterator<Item = &Settings> {
        let released = self.targets().iter().filter(|target| target.release.is_some());
        released.map(|target| &target.settings).chain(&self.rollouts.steps)
    }

    /// Returns the settings of every hook release, if all of them can be read: the Job of another
    /// one would continue.
    ///
    /// # Errors
    /// A hook release cannot be read.
    pub fn every_hook(&self) -> Result<Vec<&Settings>, CommandError> {
        match self.rollouts.unreadable.first() {
            None => Ok(self.hooks().collect()),
            Some(unreadable) => Err(CommandError::UnreadableHooks(unreadable.clone())),
        }
    }

    /// Returns the preflight settings of the hook before the operator of a rollout, if there is
    /// one.
    pub(crate) fn preflight_before(&self, settings: &Settings) -> Option<&PreflightSettings> {
        let same = |step: &&Settings| {
            step.has(Task::Preflight)
                && step.driver == settings.driver
                && step.component == settings.component
        };
        self.rollouts.steps.iter().find(same).map(|step| &step.preflight)
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the notes about the search for rollouts, for people.
    pub fn notes(&self) -> &[String] {
        &self.rollouts.notes
    }

    /// Returns the clock.
    pub fn clock(&self) -> &SessionClock {
        &self.clock
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Starts to follow a rollout.
    ///
    /// # Errors
    /// As [`RolloutObserver::begin`].
    pub async fn follow(&self, target: &RolloutTarget) -> Result<RolloutObserver, ObserveError> {
        RolloutObserver::begin(&self.client, target, self.limit).await
    }

    /// Observes a rollout once.
    ///
    /// # Errors
    /// As [`RolloutObserver::observe`].
    pub async fn observe(&self, target: &RolloutTarget) -> Result<RolloutSnapshot, ObserveError> {
        self.follow(target).await?.observe(&*self.clock).await
    }

    /// Observes each rollout once.
    ///
    /// # Errors
    /// As [`RolloutObserver::observe`].
    pub async fn observe_all(&self) -> Result<Vec<RolloutSnapshot>, ObserveError> {
        let mut snapshots = Vec::new();
        for target in self.targets() {
            snapshots.push(self.observe(target).await?);
        }
        Ok(snapshots)
    }

    /// Follows the rollouts of drivers that `which` accepts, and observes each once.
    ///
    /// # Errors
    /// As [`RolloutObserver::observe`].
    pub async fn follow_drivers(
        &self,
        which: impl Fn(&Settings) -> bool,
    ) -> Result<FollowedRollouts, ObserveError> {
        let mut followed = FollowedRollouts::default();
        for target in self.driver_targets().filter(|target| which(&target.settings)) {
            let mut observer = self.follow(target).await?;
            followed.snapshots.push(observer.observe(&*self.clock).await?);
            followed.observers.push(observer);
        }
        Ok(followed)
    }
}

/// Followed rollouts, each with its first snapshot.
#[derive(Default)]
pub struct FollowedRollouts {
    /// The observers of the rollouts.
    pub observers: Vec<RolloutObserver>,
    /// The first snapshots, in the same order.
    pub snapshots: Vec<RolloutSnapshot>,
}
