//! Nodes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use super::ObjectMetadata;

/// A Node, without its images, addresses and resources.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Metadata.
    pub metadata: ObjectMetadata,
    /// The desired state.
    pub spec: Option<NodeSpec>,
    /// The observed state.
    pub status: Option<NodeStatus>,
}

/// `spec` of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Cordoned.
    pub unschedulable: Option<bool>,
    /// Taints.
    pub taints: Option<Vec<Taint>>,
}

/// A taint of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// `status` of a Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Conditions.
    pub conditions: Option<Vec<Condition>>,
    /// Extended and other resources of the machine.
    pub capacity: Option<BTreeMap<String, String>>,
    /// The part of the capacity that pods can use.
    pub allocatable: Option<BTreeMap<String, String>>,
    /// Information about the kubelet.
    pub node_info: Option<NodeSystemInfo>,
}

/// Information about the kubelet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSystemInfo {
    /// Its version.
    pub kubelet_version: String,
}

/// A condition of a Node or Pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Its type.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When its status last changed.
    pub last_transition_time: Option<Time>,
    /// Its reason, as one word.
    pub reason: Option<String>,
    /// Its message.
    pub message: Option<String>,
}
