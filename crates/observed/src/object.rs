//! Types for the API server's answers that contain only the fields that the views need. Kubernetes'
//! own types contain all fields, and a page of whole nodes or pods takes many times the memory of
//! its text. Names and shapes are those of the API.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube_core::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;

mod daemon_set;
mod node;
mod pod;

pub use daemon_set::{ControllerRevision, DaemonSet, RollingUpdate};
pub use node::{Node, Taint};
pub use pod::{
    Affinity, Container, ContainerStatus, EmptyDirVolumeSource, NodeAffinity, NodeSelector,
    NodeSelectorTerm, Pod, PodResourceClaim, PodSpec, PodStatus, Toleration,
};

/// An object that can be listed and watched.
pub trait ApiObject: Clone + DeserializeOwned {
    /// Returns its namespace, if it has one.
    fn namespace(&self) -> Option<&str>;
    /// Returns its name.
    fn name(&self) -> Option<&str>;
    /// Returns `metadata.resourceVersion`.
    fn resource_version(&self) -> Option<&str>;
}

/// Metadata without `managedFields`, the largest part of many objects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMetadata {
    /// The name.
    pub name: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The UID.
    pub uid: Option<String>,
    /// The version that a write can require.
    pub resource_version: Option<String>,
    /// The generation of the spec.
    pub generation: Option<i64>,
    /// When it was created.
    pub creation_timestamp: Option<Time>,
    /// When its deletion ends, if it is being deleted.
    pub deletion_timestamp: Option<Time>,
    /// Labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Owners.
    pub owner_references: Option<Vec<OwnerReference>>,
    /// Finalizers.
    pub finalizers: Option<Vec<String>>,
}

macro_rules! object {
    ($($kind:ty),*) => {$(
        impl ApiObject for $kind {
            fn namespace(&self) -> Option<&str> {
                self.metadata.namespace.as_deref()
            }

            fn name(&self) -> Option<&str> {
                self.metadata.name.as_deref()
            }

            fn resource_version(&self) -> Option<&str> {
                self.metadata.resource_version.as_deref()
            }
        }
    )*};
}

object!(ControllerRevision, DaemonSet, Node, Pod);

impl<K: Resource + Clone + DeserializeOwned> ApiObject for K {
    fn namespace(&self) -> Option<&str> {
        self.meta().namespace.as_deref()
    }

    fn name(&self) -> Option<&str> {
        self.meta().name.as_deref()
    }

    fn resource_version(&self) -> Option<&str> {
        self.meta().resource_version.as_deref()
    }
}
