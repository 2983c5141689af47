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
    /// What is wanted.
    pub spec: Option<DaemonSetSpec>,
    /// What is.
    pub status: Option<DaemonSetStatus>,
}

/// `spec` of a DaemonSet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    /// How its pods are replaced.
    pub update_strategy: Option<UpdateStrategy>,
    /// What its pods are made from.
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
    /// How many pods may be unavailable: a number, or a share such as `25%`.
    pub max_unavailable: Option<serde_json::Value>,
}

/// What pods are made from.
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
    /// The number of the spec that it is about.
    pub observed_generation: Option<i64>,
    /// How many pods are wanted.
    pub desired_number_scheduled: i32,
    /// On how many nodes there are pods that are not wanted there.
    pub number_misscheduled: i32,
}

/// A ControllerRevision, without the template that it holds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ControllerRevision {
    /// Metadata.
    pub metadata: ObjectMetadata,
    /// Its number; the highest is the newest.
    pub revision: i64,
}
