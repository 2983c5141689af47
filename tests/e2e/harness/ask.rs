//! The recipe of a scenario. A scenario changes one value after the other and renders the recipe
//! again.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::fleet::{OLD, Release};
use super::node_agent::HOOK_REPOSITORY;

/// A release of the Network Operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// 24.7.1, whose chart renders the NicClusterPolicy from its values.
    Old,
    /// 26.4.1, for which it is a custom resource of the recipe.
    New,
}

impl Network {
    /// The version of its driver.
    pub(crate) fn driver(self) -> &'static str {
        match self {
            Self::Old => "24.07-0.6.1.0-0",
            Self::New => "doca3.4.1-26.04-1.1.0.0-1",
        }
    }

    fn component(self) -> Value {
        match self {
            Self::Old => {
                json!({"name": "network-operator", "version": "24.7.1", "values": {"deployCR": true, "ofedDriver": {"deploy": true}}})
            }
            Self::New => {
                json!({"name": "network-operator", "version": "26.4.1", "customResources": {"NicClusterPolicy": {
                    "ofedDriver": {"image": "doca-driver", "repository": "nvcr.io/nvidia/mellanox"},
                }}})
            }
        }
    }
}

/// The values of a recipe: the GPU Operator and related components.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// Version of the operator's chart.
    pub(crate) chart: &'static str,
    /// Version of the GPU driver.
    pub(crate) driver: &'static str,
    /// Reference of the hook's image.
    pub(crate) hook_image: String,
    /// `maxUnavailable` of the rollout's policy.
    pub(crate) max_unavailable: &'static str,
    /// GPU nodes of the cluster.
    pub(crate) gpu_nodes: usize,
    /// With the DRA driver.
    pub(crate) dra: bool,
    /// The DRA driver's `logVerbosity`: changes its release, and none of its pods.
    pub(crate) dra_verbosity: &'static str,
    /// Whether the recipe has cert-manager, as a release without a hook.
    pub(crate) cert_manager: bool,
    /// A function that changes every bundle after it is rendered and before it is handed over.
    pub(crate) afterwards: fn(&Path) -> Result<()>,
    /// The Network Operator, whose driver a hook upgrades node by node.
    pub(crate) network: Option<Network>,
    /// Merged into `rollout.gpuDriver`, key by key.
    pub(crate) gpu_driver: Value,
    /// `rollout.acceptance`, the tests that nodes must pass; null: none.
    pub(crate) acceptance: Value,
    /// Further components.
    pub(crate) components: Vec<Value>,
}

impl Ask {
    /// Returns a recipe with the DRA driver, for this number of GPU nodes.
    pub(crate) fn new(release: &Release, gpu_nodes: usize) -> Self {
        Self {
            chart: release.chart,
            driver: release.driver,
            hook_image: format!("{HOOK_REPOSITORY}:e2e"),
            max_unavailable: "50%",
            gpu_nodes,
            dra: true,
            dra_verbosity: "4",
            cert_manager: false,
            afterwards: |_| Ok(()),
            network: None,
            gpu_driver: json!({}),
            acceptance: Value::Null,
            components: Vec::new(),
        }
    }

    /// The release that fleets start with.
    pub(crate) fn old(gpu_nodes: usize) -> Self {
        Self::new(&OLD, gpu_nodes)
    }

    /// Returns the same recipe with another release of operator and driver.
    pub(crate) fn with(&self, release: &Release) -> Self {
        Self { chart: release.chart, driver: release.driver, ..self.clone() }
    }

    /// The recipe.
    pub(crate) fn recipe(&self) -> Value {
        let mut gpu_driver = json!({
            "version": self.driver,
            "policy": {"maxParallelUpgrades": 1, "maxUnavailable": self.max_unavailable},
            "perNode": "20s",
            "quiet": "3s",
        });
        for (key, value) in self.gpu_driver.as_object().into_iter().flatten() {
            gpu_driver[key] = value.clone();
        }
        // Only one of device plugin and DRA driver offers the GPUs.
        let values = json!({"devicePlugin": {"enabled": !self.dra}});
        let mut components =
            vec![json!({"name": "gpu-operator", "version": self.chart, "values": values})];
        if self.cert_manager {
            components.push(json!({"name": "cert-manager"}));
        }
        if self.dra {
            components.push(
                json!({"name": "nvidia-dra-driver-gpu", "version": "25.12.0", "values": {
                    "nvidiaDriverRoot": "/run/nvidia/driver",
                    "gpuResourcesEnabledOverride": true,
                    "logVerbosity": self.dra_verbosity,
                }}),
            );
        }
        let mut rollout = json!({"gpuDriver": gpu_driver});
        if !self.acceptance.is_null() {
            rollout["acceptance"] = self.acceptance.clone();
        }
        if let Some(network) = self.network {
            components.push(network.component());
            rollout["ofedDriver"] = json!({
                "mode": "drive",
                "version": network.driver(),
                "policy": {"maxParallelUpgrades": 1},
                "perNode": "20s",
                "quiet": "3s",
            });
        }
        components.extend(self.components.iter().cloned());
        json!({
            "apiVersion": "gpu-rollout.dev/v1",
            "kind": "Recipe",
            "metadata": {"name": "e2e"},
            "cluster": {"gpuNodes": self.gpu_nodes},
            "rollout": rollout,
            "components": components,
        })
    }
}
