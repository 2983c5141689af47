//! Nodes: they come, change and go.

use anyhow::Result;
use contract::driver::Driver;
use contract::names;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::pods::ready;
use crate::scenarios::agreement::world::{Host, World};

impl World<'_> {
    pub(super) async fn patch_node(&self, node: &str, patch: Value) -> Result<()> {
        self.server.merge(&format!("/api/v1/nodes/{node}"), &patch).await
    }

    /// A node comes, with all that runs on it.
    pub(crate) async fn join(&mut self) -> Result<()> {
        let name = self.name("gpu");
        let daemon_set = self.draw.below(self.daemon_sets.len());
        let mut labels = json!({"nvidia.com/gpu.present": "true"});
        if let Some(owner) = self.daemon_sets[daemon_set].owner {
            labels[names::DRIVER_OWNER_LABEL] = owner.into();
        }
        self.server
            .create("/api/v1/nodes", &json!({"metadata": {"name": name, "labels": labels}}))
            .await?;
        self.server
            .merge(
                &format!("/api/v1/nodes/{name}/status"),
                &json!({"status": {"conditions": ready_condition("True")}}),
            )
            .await?;
        self.hosts.insert(name.clone(), Host { daemon_set, ..Host::default() });
        self.count(daemon_set, 0).await?;
        self.add_driver(&name, true).await?;
        self.status_of(&name, false, &ready(), |host| &host.drivers).await?;
        if self.of.driver() == Driver::Gpu && !self.draw.once_in(8) {
            self.add_validator(&name).await?;
            self.status_of(&name, false, &ready(), |host| &host.validators).await?;
        }
        for _ in 0..self.draw.below(3) {
            self.add_workload(&name).await?;
        }
        Ok(())
    }

    /// A node goes; sometimes its pods stay for a while.
    pub(super) async fn leave(&mut self, node: &str) -> Result<()> {
        self.server.delete(&format!("/api/v1/nodes/{node}")).await?;
        if !self.draw.once_in(3) {
            self.delete_pods_of(node).await?;
        }
        if let Some(host) = self.hosts.remove(node) {
            self.count(host.daemon_set, 0).await?;
        }
        Ok(())
    }

    async fn delete_pods_of(&self, node: &str) -> Result<()> {
        for pod in self.pods().await?.iter().filter(|pod| pod["spec"]["nodeName"] == node) {
            self.delete_pod(pod).await?;
        }
        Ok(())
    }
}

pub(super) fn ready_condition(status: &str) -> Value {
    let now = Timestamp::now();
    json!([{"type": "Ready", "status": status, "reason": "Played", "lastTransitionTime": now, "lastHeartbeatTime": now}])
}
