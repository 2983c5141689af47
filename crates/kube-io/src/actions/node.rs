//! Changes of nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::call::CallError;
use crate::object_writes;
use observed::object;
use planner::action::NodePatch;

use super::ActionResult;

/// Patches a node if it is still the observed version. RBAC: `patch` on `nodes`.
///
/// # Errors
/// The call failed for another reason. The patch may have been applied anyway; a second attempt
/// then returns [`ActionResult::Superseded`].
pub async fn patch_node(client: &Client, patch: &NodePatch) -> Result<ActionResult, CallError> {
    let api: Api<Node> = Api::all(client.clone());
    let answer: Result<object::Node, CallError> = match patch.unschedulable {
        Some(_) => object_writes::patch(api, &patch.node, merge_patch(patch)).await,
        None => object_writes::patch_for_metadata(api, &patch.node, merge_patch(patch)).await,
    };
    match answer {
        Ok(node) => {
            let unschedulable = node.spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
            let labels = node.metadata.labels.unwrap_or_default();
            let annotations = node.metadata.annotations.unwrap_or_default();
            let missing =
                patch.missing(|key| labels.get(key), |key| annotations.get(key), unschedulable);
            Ok(if missing.is_empty() { ActionResult::Now } else { ActionResult::Changed(missing) })
        }
        Err(CallError::NotFound(_)) => Ok(ActionResult::Already),
        Err(CallError::Conflict(_)) => Ok(ActionResult::Superseded),
        Err(error) => Err(error),
    }
}

/// Returns the JSON merge patch. It contains only changes, so that no other field changes its
/// manager.
fn merge_patch(patch: &NodePatch) -> Value {
    let mut metadata = json!({"uid": patch.uid, "resourceVersion": patch.version});
    let parts: [(&str, &BTreeMap<String, Option<String>>); 2] =
        [("labels", &patch.labels), ("annotations", &patch.annotations)];
    for (part, values) in parts.into_iter().filter(|(_, values)| !values.is_empty()) {
        metadata[part] = json!(values);
    }
    let mut body = json!({ "metadata": metadata });
    if let Some(unschedulable) = patch.unschedulable {
        // As with `kubectl uncordon`, the field is removed: its absence means `false`.
        body["spec"] = json!({"unschedulable": unschedulable.then_some(true)});
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch() -> NodePatch {
        NodePatch { node: "a".into(), uid: "u".into(), version: "7".into(), ..NodePatch::default() }
    }

    #[test]
    fn patch_holds_changes_and_their_precondition() {
        let some = |text: &str| Some(text.to_owned());
        let metadata = json!({"uid": "u", "resourceVersion": "7"});
        for (patch, expected) in [
            (patch(), json!({ "metadata": metadata })),
            (
                NodePatch { unschedulable: Some(true), ..patch() },
                json!({"metadata": metadata, "spec": {"unschedulable": true}}),
            ),
            (
                NodePatch { unschedulable: Some(false), ..patch() },
                json!({"metadata": metadata, "spec": {"unschedulable": null}}),
            ),
            (
                NodePatch {
                    labels: [("l".into(), some("x")), ("m".into(), None)].into(),
                    ..patch()
                },
                json!({"metadata": {"uid": "u", "resourceVersion": "7", "labels": {"l": "x", "m": null}}}),
            ),
            (
                NodePatch { annotations: [("a/b".into(), None)].into(), ..patch() },
                json!({"metadata": {"uid": "u", "resourceVersion": "7", "annotations": {"a/b": null}}}),
            ),
        ] {
            assert_eq!(merge_patch(&patch), expected);
        }
    }
}
