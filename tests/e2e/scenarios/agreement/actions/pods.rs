//! Pods of the driver and of the validator: they come, change their status and go.

use anyhow::Result;
use contract::driver::Driver;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use nvidia_upgrade::ControllerState;
use serde_json::{Value, json};

use super::nodes::ready_condition;
use crate::scenarios::agreement::world::{Host, World, container};

impl World<'_> {
    pub(super) fn pod(&self, name: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{name}", self.namespace())
    }

    /// All pods, as they are.
    pub(super) async fn pods(&self) -> Result<Vec<Value>> {
        self.server.list("/api/v1/pods").await
    }

    pub(super) async fn delete_pod(&self, pod: &Value) -> Result<()> {
        let text = |pointer: &str| {
            pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        self.server
            .delete(&format!(
                "/api/v1/namespaces/{}/pods/{}",
                text("/metadata/namespace"),
                text("/metadata/name")
            ))
            .await
    }

    /// What is being deleted is gone, and so is what was on nodes that are gone.
    pub(super) async fn reap(&self) -> Result<()> {
        for pod in self.pods().await? {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if !pod["metadata"]["deletionTimestamp"].is_null() || !self.hosts.contains_key(node) {
                self.delete_pod(&pod).await?;
            }
        }
        Ok(())
    }

    /// Every node without a driver pod of its DaemonSet gets one of the newest revision.
    pub(super) async fn replace_drivers(&mut self) -> Result<()> {
        let pods = self.pods().await?;
        let owned = |pod: &Value, uid: &str| pod["metadata"]["ownerReferences"][0]["uid"] == uid;
        let uid = |host: &Host| self.daemon_sets[host.daemon_set].uid.clone();
        let lacks = |(name, host): &(&String, &Host)| {
            let uid = uid(host);
            !pods.iter().any(|pod| pod["spec"]["nodeName"] == name.as_str() && owned(pod, &uid))
        };
        let lacking: Vec<String> =
            self.hosts.iter().filter(lacks).map(|(name, _)| name.clone()).collect();
        for node in lacking {
            self.add_driver(&node, true).await?;
        }
        Ok(())
    }

    pub(super) async fn add_driver(&mut self, node: &str, has_owner: bool) -> Result<()> {
        let name = self.name("driver");
        let daemon_set = &self.daemon_sets[self.hosts[node].daemon_set];
        let (uid, controller, owner) =
            (daemon_set.uid.clone(), daemon_set.name.clone(), daemon_set.owner);
        let (revision, digest) = (daemon_set.newest.clone(), daemon_set.digest);
        let grace = self.draw.one(&[0, 0, 30]);
        let mut pod = json!({"metadata": {"name": name, "labels": self.labels(owner)}, "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": grace,
            "containers": [container(digest)],
        }});
        if has_owner {
            pod["metadata"]["labels"]["controller-revision-hash"] = revision.into();
            pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": controller, "uid": uid, "controller": true}]);
        }
        self.server.create(&format!("/api/v1/namespaces/{}/pods", self.namespace()), &pod).await?;
        self.hosts.entry(node.to_owned()).or_default().drivers.push(name);
        Ok(())
    }

    pub(super) async fn ready_drivers(&self) -> Result<()> {
        let pods = self.pods().await?;
        for node in self.hosts.keys() {
            self.status_among(&pods, node, true, &ready(), |host| &host.drivers).await?;
        }
        Ok(())
    }

    pub(super) async fn ready_validators(&self) -> Result<()> {
        let pods = self.pods().await?;
        for node in self.hosts.keys() {
            self.status_among(&pods, node, false, &ready(), |host| &host.validators).await?;
        }
        Ok(())
    }

    /// Gives pods of a node a status. `keep_crashing`: not those that crash.
    pub(super) async fn status_of(
        &self,
        node: &str,
        keep_crashing: bool,
        status: &Value,
        of: impl Fn(&Host) -> &Vec<String>,
    ) -> Result<()> {
        let pods = self.pods().await?;
        self.status_among(&pods, node, keep_crashing, status, of).await
    }

    async fn status_among(
        &self,
        pods: &[Value],
        node: &str,
        keep_crashing: bool,
        status: &Value,
        of: impl Fn(&Host) -> &Vec<String>,
    ) -> Result<()> {
        for name in of(&self.hosts[node]) {
            let Some(pod) = pods.iter().find(|pod| pod["metadata"]["name"] == name.as_str()) else {
                continue;
            };
            let crashes =
                pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0) > 10;
            if !(keep_crashing && crashes) {
                self.server
                    .merge_if_there(
                        &format!("{}/status", self.pod(name)),
                        &json!({"status": status}),
                    )
                    .await?;
            }
        }
        Ok(())
    }

    /// What is being validated has been since then, and its validators are not ready.
    pub(super) async fn delay_validations(&self, since: &str) -> Result<()> {
        let traits = self.of.driver().traits();
        for node in self.validating().await? {
            self.status_of(&node, false, &unready(0), |host| &host.validators).await?;
            self.patch_node(
                &node,
                json!({"metadata": {"annotations": {traits.validation_start: since}}}),
            )
            .await?;
        }
        Ok(())
    }

    /// The nodes that are being validated.
    pub(super) async fn validating(&self) -> Result<Vec<String>> {
        let traits = self.of.driver().traits();
        let selector =
            format!("{}%3D{}", traits.state_label, ControllerState::ValidationRequired.label());
        let nodes =
            self.server.list::<Node>(&format!("/api/v1/nodes?labelSelector={selector}")).await?;
        Ok(nodes
            .iter()
            .map(ResourceExt::name_any)
            .filter(|name| self.hosts.contains_key(name))
            .collect())
    }

    pub(super) async fn add_validator(&mut self, node: &str) -> Result<()> {
        if self.of.driver() != Driver::Gpu {
            return Ok(());
        }
        let name = self.name("validator");
        let pod = json!({"metadata": {
            "name": name, "labels": {"app": "nvidia-operator-validator"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "validator", "uid": self.validators, "controller": true}],
        }, "spec": {"nodeName": node, "automountServiceAccountToken": false, "containers": [{"name": "validator", "image": "validator"}]}});
        self.server.create(&format!("/api/v1/namespaces/{}/pods", self.namespace()), &pod).await?;
        self.hosts.entry(node.to_owned()).or_default().validators.push(name);
        Ok(())
    }

    pub(super) async fn lose_validators(&mut self, node: &str) -> Result<()> {
        let Some(host) = self.hosts.get_mut(node) else { return Ok(()) };
        for name in std::mem::take(&mut host.validators) {
            self.server.delete(&self.pod(&name)).await?;
        }
        Ok(())
    }
}

fn status(ready: bool, restarts: i32) -> Value {
    let condition = if ready { "True" } else { "False" };
    json!({"phase": "Running", "conditions": ready_condition(condition), "containerStatuses": [{
        "name": "main", "image": "main", "imageID": "", "ready": ready, "restartCount": restarts,
        "state": {"running": {"startedAt": Timestamp::now()}},
    }]})
}

/// The status of a pod that works.
pub(crate) fn ready() -> Value {
    status(true, 0)
}

pub(super) fn unready(restarts: i32) -> Value {
    status(false, restarts)
}
