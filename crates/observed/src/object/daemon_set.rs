//! DaemonSets and their revisions.

use serde::Deserialize;

use super::ObjectMetadata;
use super::pod::PodSpec;

/// A DaemonSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    /// Metadata.
    pub metadata: ObjectMetadata,
    /// The desired state.
    pub spec: Option<DaemonSetSpec>,
    /// The observed state.
    pub status: Option<DaemonSetStatus>,
}

/// `spec` of a DaemonSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    /// How its pods are replaced.
    pub update_strategy: Option<UpdateStrategy>,
    /// The template of its pods.
    pub template: PodTemplateSpec,
}

/// How pods are replaced.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// `OnDelete` or `RollingUpdate`.
    pub r#type: Option<String>,
    /// Limits of `RollingUpdate`.
    pub rolling_update: Option<RollingUpdate>,
}

/// Limits of a rolling update.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many pods may be unavailable: a number, or a percentage such as `25%`.
    pub max_unavailable: Option<serde_json::Value>,
}

/// A pod template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodTemplateSpec {
    /// Metadata.
    pub metadata: Option<ObjectMetadata>,
    /// `spec`
    pub spec: Option<PodSpec>,
}

/// `status` of a DaemonSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// The generation of the spec that it describes.
    pub observed_generation: Option<i64>,
    /// The number of desired pods.
    pub desired_number_scheduled: i32,
    /// The number of nodes that have a pod but should not have one.
    pub number_misscheduled: i32,
}

/// A ControllerRevision, without its template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ControllerRevision {
    /// Metadata.
    pub metadata: ObjectMetadata,
    /// Its number; the highest is the newest.
    pub revision: i64,
}
