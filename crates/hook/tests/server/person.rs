//! What a person at a workstation sees of the cluster, and may do.

use std::time::Duration;

use contract::settings::Settings;
use contract::task::Task;
use kube::Client;
use ops::observe::{RolloutObserver, RolloutSnapshot};
use ops::target::RolloutTarget;

use crate::fake::rights::{Grant, grants};
use crate::world::World;

/// Who asks.
pub(crate) const PERSON: &str = "person";

/// A client, and what it follows: the rollout of the world's hook.
pub(crate) struct Person {
    pub(crate) client: Client,
    pub(crate) observers: Vec<RolloutObserver>,
    target: RolloutTarget,
}

impl Person {
    /// A person with the rights to read, and these: `("patch", "", "nodes")`.
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
        let target = RolloutTarget { settings: world.settings.clone(), release };
        let mut person =
            Self { client: world.server.client(PERSON), observers: Vec::new(), target };
        person.start_anew().await;
        person
    }

    /// Forgets what was observed, as a command that is run again.
    pub(crate) async fn start_anew(&mut self) {
        let observer = RolloutObserver::begin(&self.client, &self.target, Duration::from_mins(1))
            .await
            .unwrap();
        self.observers = vec![observer];
    }

    /// Observes the rollout as it is now.
    pub(crate) async fn observe(&mut self, world: &World) -> RolloutSnapshot {
        self.observers[0].observe(|| world.clock.now()).await.unwrap()
    }
}
