//! A user at a workstation: the observed cluster and the granted rights.

use std::time::Duration;

use contract::settings::Settings;
use contract::task::Task;
use kube::Client;
use ops::observe::{RolloutObserver, RolloutSnapshot};
use ops::target::RolloutTarget;

use crate::fake::rights::{Grant, grants};
use crate::world::World;

/// The user name of the requests.
pub(crate) const PERSON: &str = "person";

/// A client that observes the rollout of the world's hook.
pub(crate) struct Person {
    pub(crate) client: Client,
    pub(crate) observers: Vec<RolloutObserver>,
    target: RolloutTarget,
}

impl Person {
    /// Returns a user with all read rights and these rights, such as `("patch", "", "nodes")`.
    pub(crate) async fn with_rights(
        world: &World,
        rights: &[(&'static str, &'static str, &'static str)],
    ) -> Self {
        let reading = Settings {
            tasks: vec![Task::Preflight, Task::Settle, Task::Reroll],
            ..world.settings.clone()
        };
        let reads = [("list", "", "pods"), ("watch", "", "pods")];
        world.server.change(|state| {
            state.grants.extend(grants(&reading));
            state.grants.extend(
                reads
                    .iter()
                    .chain(rights)
                    .map(|(verb, group, resource)| Grant::everywhere(verb, group, resource)),
            );
        });
        let release = Some(format!("{}/{}", world.settings.namespace, world.settings.release));
        let target = RolloutTarget { settings: world.settings.clone(), release, deployer: None };
        let mut person =
            Self { client: world.server.client(PERSON), observers: Vec::new(), target };
        person.start_anew().await;
        person
    }

    /// Drops the observed state, as a command does that is run again.
    pub(crate) async fn start_anew(&mut self) {
        let observer = RolloutObserver::begin(&self.client, &self.target, Duration::from_mins(1))
            .await
            .unwrap();
        self.observers = vec![observer];
    }

    /// Observes the current rollout.
    pub(crate) async fn observe(&mut self, world: &World) -> RolloutSnapshot {
        self.observers[0].observe(|| world.clock.now()).await.unwrap()
    }
}
