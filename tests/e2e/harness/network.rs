//! A fleet with NVIDIA NICs: the Network Operator, its NicClusterPolicy and its driver.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::apply::Applier;
use super::stack::Stack;
use super::stand_in::{NETWORK_DRIVER, NETWORK_NAMESPACE, is_ready};
use super::wait::until;

/// The version of the Network Operator's chart.
pub(crate) const NETWORK_CHART: &str = "26.4.1";
/// The network driver that fleets start with.
pub(crate) const OLD_NETWORK: &str = "doca3.3.0-26.01-1.0.0.0-0";
/// The network driver that fleets are upgraded to.
pub(crate) const NEW_NETWORK: &str = "doca3.4.1-26.04-1.1.0.0-1";
const LIMIT: Duration = Duration::from_secs(90);

/// Returns the NicClusterPolicy of a bundle in mode `drive`.
pub(crate) fn nic_cluster_policy(version: &str) -> Value {
    nic_cluster_policy_with(version, &json!({"autoUpgrade": false, "drain": {"enable": false}}))
}

/// Returns the NicClusterPolicy with an upgrade policy.
pub(crate) fn nic_cluster_policy_with(version: &str, upgrade_policy: &Value) -> Value {
    json!({
        "apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy", "metadata": {"name": "nic-cluster-policy"},
        "spec": {"ofedDriver": {
            "repository": "nvcr.io/nvidia/mellanox", "image": "doca-driver", "version": version,
            "upgradePolicy": upgrade_policy,
        }},
    })
}

impl Stack {
    /// Adds NICs to nodes, and installs operator, policy and driver. Returns when everything is
    /// ready.
    pub(crate) async fn network(&self, nodes: &[String]) -> Result<()> {
        self.add_nics(nodes).await?;
        self.deploy("network-operator", NETWORK_CHART, NETWORK_NAMESPACE, &json!({})).await?;
        self.ask_for_network(OLD_NETWORK).await?;
        until("the network drivers to be ready", LIMIT, async || {
            let drivers = self.network_drivers().await?;
            Ok((drivers.len() == nodes.len() && drivers.values().all(is_ready)).then_some(()))
        })
        .await
    }

    /// Adds NICs to nodes.
    pub(crate) async fn add_nics(&self, nodes: &[String]) -> Result<()> {
        let patch = json!({"metadata": {"labels": {"feature.node.kubernetes.io/pci-15b3.present": "true"}}});
        for node in nodes {
            Api::<Node>::all(self.client.clone())
                .patch(node, &PatchParams::default(), &Patch::Merge(&patch))
                .await?;
        }
        Ok(())
    }

    /// Requests a driver version from the Network Operator.
    pub(crate) async fn ask_for_network(&self, version: &str) -> Result<()> {
        Applier::new(&self.client).apply(&nic_cluster_policy(version), "").await
    }

    /// Returns the network driver pod of each node.
    pub(crate) async fn network_drivers(&self) -> Result<BTreeMap<String, Pod>> {
        self.pods_by_node(NETWORK_NAMESPACE, NETWORK_DRIVER).await
    }
}
