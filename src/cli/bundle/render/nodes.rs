//! Which nodes the pods of all components go to.

use super::RenderUsageError;
use contract::selector::{is_label_key, is_label_value};
use diagnostics::nearest::nearest;
use recipe::model::{
    NodeScheduling, PodScheduling, RecipeToleration, TaintEffect, TolerationOperator,
};

/// What a taint does, by Kubernetes' words.
const EFFECTS: [(&str, TaintEffect); 3] = [
    ("NoSchedule", TaintEffect::NoSchedule),
    ("PreferNoSchedule", TaintEffect::PreferNoSchedule),
    ("NoExecute", TaintEffect::NoExecute),
];

/// A label that nodes have: `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeLabel {
    /// Its key.
    key: String,
    /// Its value.
    value: String,
}

/// Why a text is no label or taint of nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NodeOptionError {
    /// No equals sign.
    #[error("expected `KEY=VALUE`, a label that nodes have, such as `pool=system`")]
    NoValue,
    /// What Kubernetes does not take for a key.
    #[error(
        "`{0}` is no key of a label or taint: letters, digits, `-`, `_` and `.`, a letter or digit at both ends, at most 63 characters; before it, if anything, a domain and a slash"
    )]
    Key(String),
    /// What Kubernetes does not take for a value.
    #[error(
        "`{0}` is no value of a label or taint: letters, digits, `-`, `_` and `.`, a letter or digit at both ends, at most 63 characters"
    )]
    Value(String),
    /// Behind the colon stands no effect.
    #[error(
        "`{found}` is no effect of a taint; expected KEY[=VALUE][:EFFECT] with the effect {expected}"
    )]
    Effect {
        /// What stands there.
        found: String,
        /// What may.
        expected: String,
    },
}

/// Reads `KEY=VALUE`.
///
/// # Errors
/// It is no label that a node can have.
fn label(text: &str) -> Result<NodeLabel, NodeOptionError> {
    let (key, value) = text.split_once('=').ok_or(NodeOptionError::NoValue)?;
    Ok(NodeLabel { key: checked_key(key)?, value: checked_value(value)? })
}

/// Reads `KEY[=VALUE][:EFFECT]`. Without a value every value is tolerated, without an effect every effect.
///
/// # Errors
/// It is no taint that a node can have.
fn toleration(text: &str) -> Result<RecipeToleration, NodeOptionError> {
    let (taint, effect) =
        text.split_once(':').map_or((text, None), |(taint, effect)| (taint, Some(effect)));
    let (key, value) =
        taint.split_once('=').map_or((taint, None), |(key, value)| (key, Some(value)));
    Ok(RecipeToleration {
        key: Some(checked_key(key)?),
        operator: Some(if value.is_some() {
            TolerationOperator::Equal
        } else {
            TolerationOperator::Exists
        }),
        value: value.map(checked_value).transpose()?,
        effect: effect.map(checked_effect).transpose()?,
        toleration_seconds: None,
    })
}

fn checked_key(key: &str) -> Result<String, NodeOptionError> {
    if is_label_key(key) { Ok(key.to_owned()) } else { Err(NodeOptionError::Key(key.to_owned())) }
}

fn checked_value(value: &str) -> Result<String, NodeOptionError> {
    if is_label_value(value) {
        Ok(value.to_owned())
    } else {
        Err(NodeOptionError::Value(value.to_owned()))
    }
}

fn checked_effect(text: &str) -> Result<TaintEffect, NodeOptionError> {
    EFFECTS.iter().find(|(name, _)| *name == text).map(|(_, effect)| *effect).ok_or_else(|| {
        let names = EFFECTS.map(|(name, _)| name);
        let meant = nearest(text, names)
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        NodeOptionError::Effect {
            found: text.to_owned(),
            expected: format!("`{}`{meant}", names.join("`, `")),
        }
    })
}

/// Node selectors and tolerations; what they do is decided by `release::node_options`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Nodes, for all components (added to what recipe and chart say)")]
pub(super) struct NodeSchedulingOptions {
    /// A label of the nodes for operators, controllers, webhooks and the hooks' Jobs; may be repeated, nodes must have all of them
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    system_node_selector: Vec<NodeLabel>,
    /// A taint of those nodes: without VALUE any value, without EFFECT any effect; may be repeated
    #[arg(long, value_name = "KEY[=VALUE][:EFFECT]", value_parser = toleration)]
    system_node_toleration: Vec<RecipeToleration>,
    /// A label of the nodes with GPUs or NICs, for the pods that serve them; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    accelerated_node_selector: Vec<NodeLabel>,
    /// A taint of those nodes; may be repeated
    #[arg(long, value_name = "KEY[=VALUE][:EFFECT]", value_parser = toleration)]
    accelerated_node_toleration: Vec<RecipeToleration>,
}

impl NodeSchedulingOptions {
    /// The same as a recipe has it.
    ///
    /// # Errors
    /// A label with two values.
    pub(super) fn scheduling(self) -> Result<NodeScheduling, RenderUsageError> {
        let Self {
            system_node_selector,
            system_node_toleration,
            accelerated_node_selector,
            accelerated_node_toleration,
        } = self;
        Ok(NodeScheduling {
            system: group("--system-node-selector", system_node_selector, system_node_toleration)?,
            accelerated: group(
                "--accelerated-node-selector",
                accelerated_node_selector,
                accelerated_node_toleration,
            )?,
        })
    }
}

fn group(
    flag: &str,
    labels: Vec<NodeLabel>,
    tolerations: Vec<RecipeToleration>,
) -> Result<PodScheduling, RenderUsageError> {
    let mut scheduling = PodScheduling::default();
    for NodeLabel { key, value } in labels {
        let value = value.into();
        if scheduling.node_selector.get(&key).is_some_and(|other| *other != value) {
            let message = format!("`{flag} {key}=…` is given twice, with different values");
            return Err(RenderUsageError::usage(
                message,
                Some(
                    "a node has one value for a label, so no node would be found; name one of them",
                ),
            ));
        }
        scheduling.node_selector.insert(key, value);
    }
    for toleration in tolerations {
        if !scheduling.tolerations.contains(&toleration) {
            scheduling.tolerations.push(toleration);
        }
    }
    Ok(scheduling)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_and_taints_follow_kubernetes_syntax() {
        assert_eq!(
            label("pool=system"),
            Ok(NodeLabel { key: "pool".to_owned(), value: "system".to_owned() })
        );
        assert_eq!(
            label("node-role.kubernetes.io/control-plane=").map(|label| label.value),
            Ok(String::new())
        );
        for (text, expected) in [
            ("dedicated", json!({"key": "dedicated", "operator": "Exists"})),
            (
                "dedicated:NoExecute",
                json!({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}),
            ),
            (
                "nvidia.com/gpu=yes",
                json!({"key": "nvidia.com/gpu", "operator": "Equal", "value": "yes"}),
            ),
            (
                "a=:NoSchedule",
                json!({"key": "a", "operator": "Equal", "value": "", "effect": "NoSchedule"}),
            ),
        ] {
            assert_eq!(json!(toleration(text).unwrap()), expected, "{text}");
        }
        let long = "a".repeat(64);
        for bad in [
            "pool",
            "=system",
            "-a=b",
            "a/b/c=d",
            "A.example/b=c",
            "/a=b",
            "a=b c",
            "a=b/c",
            &format!("{long}=b"),
            &format!("a={long}"),
        ] {
            assert!(label(bad).is_err(), "{bad}");
        }
        for bad in [
            "",
            ":NoSchedule",
            "=b",
            "a:",
            "a:noschedule",
            "a=b:NoSchedule-",
            "a=b=c",
            "a:b:NoSchedule",
            "*",
        ] {
            assert!(toleration(bad).is_err(), "{bad}");
        }
        assert_eq!(
            toleration("a:noschedule").unwrap_err().to_string(),
            "`noschedule` is no effect of a taint; expected KEY[=VALUE][:EFFECT] with the effect `NoSchedule`, `PreferNoSchedule`, `NoExecute`; did you mean `NoSchedule`?"
        );
    }
}
