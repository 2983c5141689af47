//! Options for node selectors and tolerations of all components.

use super::RenderUsageError;
use contract::selector::{is_label_key, is_label_value};
use diagnostics::nearest::nearest;
use recipe::model::{
    NodeScheduling, PodScheduling, RecipeToleration, TaintEffect, TolerationOperator,
};

/// The effects of taints, by their names in Kubernetes.
const EFFECTS: [(&str, TaintEffect); 3] = [
    ("NoSchedule", TaintEffect::NoSchedule),
    ("PreferNoSchedule", TaintEffect::PreferNoSchedule),
    ("NoExecute", TaintEffect::NoExecute),
];

/// A node label: `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeLabel {
    key: String,
    value: String,
}

/// Why a text is not a label or taint of nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NodeOptionError {
    /// There is no equals sign.
    #[error("expected a node label `KEY=VALUE`, such as `pool=system`")]
    NoValue,
    /// Kubernetes does not accept the key.
    #[error(
        "`{0}` is not a valid key of a label or taint: expected an optional domain with a slash, then at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"
    )]
    Key(String),
    /// Kubernetes does not accept the value.
    #[error(
        "`{0}` is not a valid value of a label or taint: expected at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"
    )]
    Value(String),
    /// The text after the colon is not an effect.
    #[error(
        "`{found}` is not an effect of a taint; expected KEY[=VALUE][:EFFECT] with the effect {expected}"
    )]
    Effect {
        /// The text after the colon.
        found: String,
        /// The known effects, and the nearest one.
        expected: String,
    },
}

/// Parses `KEY=VALUE`.
///
/// # Errors
/// The text is not a label that a node can have.
fn label(text: &str) -> Result<NodeLabel, NodeOptionError> {
    let (key, value) = text.split_once('=').ok_or(NodeOptionError::NoValue)?;
    Ok(NodeLabel { key: checked_key(key)?, value: checked_value(value)? })
}

/// Parses `KEY[=VALUE][:EFFECT]`. Without VALUE, every value is tolerated; without EFFECT, every
/// effect.
///
/// # Errors
/// The text is not a taint that a node can have.
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
        let [first, second, third] = EFFECTS.map(|(name, _)| name);
        let meant = nearest(text, [first, second, third])
            .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        NodeOptionError::Effect {
            found: text.to_owned(),
            expected: format!("`{first}`, `{second}` or `{third}`{meant}"),
        }
    })
}

/// Node selectors and tolerations. `release::node_options` applies them.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "Node selectors and tolerations, for all components (added to those of the recipe and the chart)"
)]
pub(super) struct NodeSchedulingOptions {
    /// Label of the nodes for operators, controllers, webhooks and hook Jobs; repeatable, nodes
    /// must have all the labels
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    system_node_selector: Vec<NodeLabel>,
    /// Taint to tolerate on these nodes; without VALUE, any value; without EFFECT, any effect;
    /// repeatable
    #[arg(long, value_name = "KEY[=VALUE][:EFFECT]", value_parser = toleration)]
    system_node_toleration: Vec<RecipeToleration>,
    /// Label of the nodes with GPUs or NICs, for the pods that serve these devices; repeatable,
    /// nodes must have all the labels
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    accelerated_node_selector: Vec<NodeLabel>,
    /// Taint to tolerate on these nodes; without VALUE, any value; without EFFECT, any effect;
    /// repeatable
    #[arg(long, value_name = "KEY[=VALUE][:EFFECT]", value_parser = toleration)]
    accelerated_node_toleration: Vec<RecipeToleration>,
}

impl NodeSchedulingOptions {
    /// Converts the options to the recipe's type.
    ///
    /// # Errors
    /// A label has two values.
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
                Some("a node has one value for a label, so no node would match; keep one of them"),
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
            "`noschedule` is not an effect of a taint; expected KEY[=VALUE][:EFFECT] with the effect `NoSchedule`, `PreferNoSchedule` or `NoExecute`; did you mean `NoSchedule`?"
        );
    }
}
