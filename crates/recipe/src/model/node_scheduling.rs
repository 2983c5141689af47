//! Where the pods of a component run: node selectors and tolerations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use catalog::model::{SchedulingPaths, ValuePaths};

/// Where the pods of a component run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeScheduling {
    /// Pods that may run on any node: operators, controllers, webhooks.
    #[serde(skip_serializing_if = "PodScheduling::is_empty")]
    pub system: PodScheduling,
    /// Pods that must run on the nodes with the hardware, such as GPUs.
    #[serde(skip_serializing_if = "PodScheduling::is_empty")]
    pub accelerated: PodScheduling,
}

impl NodeScheduling {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.system.is_empty() && self.accelerated.is_empty()
    }
}

impl NodeScheduling {
    /// Returns the parts that are set.
    pub fn parts(&self) -> Vec<SchedulingPart> {
        let groups = [("system", &self.system), ("accelerated", &self.accelerated)].into_iter();
        let parts = groups.flat_map(|(group, pods)| {
            let part = |key, value| SchedulingPart { group, key, value };
            let selector = (!pods.node_selector.is_empty())
                .then(|| part("nodeSelector", json!(pods.node_selector)));
            selector.into_iter().chain(
                (!pods.tolerations.is_empty())
                    .then(|| part("tolerations", json!(pods.tolerations))),
            )
        });
        parts.collect()
    }
}

/// The node selector or the tolerations of one group of pods.
#[derive(Clone, Debug)]
pub struct SchedulingPart {
    /// The group's key below `nodeScheduling`.
    pub group: &'static str,
    /// The part's key below the group.
    pub key: &'static str,
    /// A map of labels, or a list of tolerations.
    pub value: Value,
}

impl SchedulingPart {
    /// Returns the value paths that a chart has for pods of the group.
    pub fn places<'p>(&self, known: &'p SchedulingPaths) -> &'p ValuePaths {
        if self.group == "system" { &known.system } else { &known.accelerated }
    }

    /// Returns the value paths for this part.
    pub fn paths<'p>(&self, known: &'p SchedulingPaths) -> &'p [String] {
        let places = self.places(known);
        if self.key == "tolerations" { &places.tolerations } else { &places.node_selector }
    }
}

/// Node selector and tolerations of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PodScheduling {
    /// Labels that a node must have, each with its value.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(extend("propertyNames" = {"x-grammar": "labelKey"}, "additionalProperties" = {"x-grammar": "labelValue"}))]
    pub node_selector: Map<String, Value>,
    /// Taints that the pods tolerate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<RecipeToleration>,
}

impl PodScheduling {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.node_selector.is_empty() && self.tolerations.is_empty()
    }
}

/// A toleration, with Kubernetes' fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeToleration {
    /// The taint's key. If absent (only with the operator `Exists`), every taint is tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "labelKey"))]
    pub key: Option<String>,
    /// How the taint is compared. Kubernetes' default: `Equal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// The taint's value (only with the operator `Equal`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "labelValue"))]
    pub value: Option<String>,
    /// The taint's effect. If absent, every effect is tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// How many seconds a `NoExecute` taint is tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<u32>,
}

/// How a taint is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// The taint has this key and this value.
    Equal,
    /// The taint has this key.
    Exists,
}

/// The effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// New pods are not scheduled on the node.
    NoSchedule,
    /// New pods are scheduled on other nodes if possible.
    PreferNoSchedule,
    /// Running pods are evicted.
    NoExecute,
}
