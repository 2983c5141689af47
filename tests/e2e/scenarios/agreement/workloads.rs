//! Workloads of users on the nodes, and their PodDisruptionBudgets.

use anyhow::Result;
use serde_json::json;

use super::actions::ready;
use super::policy::{JOB, WEB};
use super::world::{APPS, World};

impl World<'_> {
    /// Adds a pod of a user, with or without a GPU, with or without a controller that replaces it.
    pub(super) async fn add_workload(&mut self, node: &str) -> Result<()> {
        let name = self.name("work");
        let grace = self.draw.one(&[0, 0, 0, 30]);
        let mut container = json!({"name": "main", "image": "main"});
        match self.draw.below(4) {
            0 => {}
            1 => container["resources"] = json!({"limits": {"nvidia.com/mig-1g.5gb": "1"}}),
            _ => container["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}}),
        }
        let mut pod = json!({"metadata": {"name": name, "labels": {}}, "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": grace, "containers": [container],
        }});
        let stays = (self.of.driver().traits().drain_skip_label, "true");
        for (key, value) in [JOB, WEB, ("guarded", "yes"), ("guarded-again", "yes"), stays] {
            if self.draw.once_in(4) {
                pod["metadata"]["labels"][key] = value.into();
            }
        }
        if self.draw.once_in(5) {
            let claim = self.add_claim().await?;
            pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": claim}]);
        }
        if self.draw.once_in(5) {
            pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
        }
        let owner = |kind: &str, name: &str, uid: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}]);
        match self.draw.below(8) {
            0 => {}
            1 => pod["metadata"]["ownerReferences"] = owner("DaemonSet", "agents", &self.agents),
            _ => pod["metadata"]["ownerReferences"] = owner("ReplicaSet", "web", "web"),
        }
        let phase = self.draw.one(&["Running", "Running", "Running", "Pending", "Succeeded"]);
        self.server.create(&format!("/api/v1/namespaces/{APPS}/pods"), &pod).await?;
        let status = if phase == "Running" { ready() } else { json!({"phase": phase}) };
        self.server
            .merge(
                &format!("/api/v1/namespaces/{APPS}/pods/{name}/status"),
                &json!({"status": status}),
            )
            .await?;
        self.hosts.entry(node.to_owned()).or_default().workloads.push(name);
        Ok(())
    }

    /// Returns the name of a ResourceClaim that has a GPU, another device or no allocation, or that
    /// does not exist.
    async fn add_claim(&mut self) -> Result<String> {
        let name = self.name("claim");
        let driver = match self.draw.below(4) {
            0 => return Ok(name),
            1 => None,
            2 => Some("compute-domain.nvidia.com"),
            _ => Some("gpu.nvidia.com"),
        };
        let path = format!("/apis/resource.k8s.io/v1/namespaces/{APPS}/resourceclaims");
        let requests = json!([{"name": "one", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]);
        self.server
            .create(
                &path,
                &json!({"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}),
            )
            .await?;
        if let Some(driver) = driver {
            let results =
                json!([{"request": "one", "driver": driver, "pool": "pool", "device": "gpu-0"}]);
            let status = json!({"status": {"allocation": {"devices": {"results": results}}}});
            self.server.merge(&format!("{path}/{name}/status"), &status).await?;
        }
        Ok(name)
    }

    pub(super) async fn finish_workload(&mut self, node: &str) -> Result<()> {
        let Some(host) = self.hosts.get_mut(node) else { return Ok(()) };
        let Some(name) = host.workloads.pop() else { return Ok(()) };
        let phase = self.draw.one(&["Succeeded", "Failed"]);
        let path = format!("/api/v1/namespaces/{APPS}/pods/{name}/status");
        self.server.merge_if_there(&path, &json!({"status": {"phase": phase}})).await
    }

    /// Adds a PodDisruptionBudget that allows no disruptions. Two of them share some pods.
    pub(super) async fn guard(&mut self) -> Result<()> {
        let label = self.draw.one(&["guarded", "guarded-again"]);
        let name = self.name("budget");
        let path = format!("/apis/policy/v1/namespaces/{APPS}/poddisruptionbudgets");
        let selects = |label: &str| json!({"spec": {"maxUnavailable": 0, "selector": {"matchLabels": {label: "yes"}}}});
        // Without a status, the API server makes evictions wait for 10 s.
        let mut budget = selects("nothing");
        budget["metadata"] = json!({"name": name});
        self.server.create(&path, &budget).await?;
        let status = json!({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 9});
        self.server.merge(&format!("{path}/{name}/status"), &json!({"status": status})).await?;
        self.server.merge(&format!("{path}/{name}"), &selects(label)).await
    }

    pub(super) async fn unguard(&self) -> Result<()> {
        self.server.delete(&format!("/apis/policy/v1/namespaces/{APPS}/poddisruptionbudgets")).await
    }
}
