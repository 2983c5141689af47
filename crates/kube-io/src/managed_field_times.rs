//! Who last changed what on nodes, and when, from `metadata.managedFields`. Only commands read it:
//! it is the largest part of a node's metadata, and the hook does not need it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Serialize;
use serde_json::Value;

use super::call::{CallError, call};

/// Objects per page.
const PAGE: u32 = 250;

/// The last change of a manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastChange {
    /// Name of the field manager (`kubectl-cordon`, `gpu-operator` …).
    pub manager: String,
    /// When the manager last changed any field that it owns on the object. The field itself was set
    /// then or before.
    pub at: Timestamp,
}

/// The last changes on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeTimes {
    /// The change of the cordon (`spec.unschedulable`).
    pub cordon: Option<LastChange>,
    /// The changes of labels and annotations, by key.
    pub keys: BTreeMap<String, LastChange>,
}

/// Lists the last changes on all nodes. RBAC: `list` on `nodes`.
///
/// # Errors
/// A call failed.
pub async fn of_nodes(
    client: &Client,
    interesting: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, NodeTimes>, CallError> {
    let api: Api<Node> = Api::all(client.clone());
    let mut parameters = ListParams { limit: Some(PAGE), ..ListParams::default() };
    let mut found = BTreeMap::new();
    loop {
        let page = call(api.list_metadata(&parameters)).await?;
        for object in &page.items {
            if let Some(name) = &object.metadata.name {
                found.insert(name.clone(), parse_times(&object.metadata, &interesting));
            }
        }
        parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if parameters.continue_token.is_none() {
            return Ok(found);
        }
    }
}

/// Parses the last changes of one object.
fn parse_times(metadata: &ObjectMeta, interesting: &impl Fn(&str) -> bool) -> NodeTimes {
    let mut times = NodeTimes::default();
    for entry in metadata.managed_fields.iter().flatten() {
        let (Some(change), Some(fields)) =
            (last_change(entry), entry.fields_v1.as_ref().map(|fields| &fields.0))
        else {
            continue;
        };
        if fields.pointer("/f:spec/f:unschedulable").is_some() {
            times.cordon = Some(change.clone());
        }
        for kind in ["/f:metadata/f:labels", "/f:metadata/f:annotations"] {
            let keys = fields
                .pointer(kind)
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(|map| map.keys());
            for key in keys.filter_map(|key| key.strip_prefix("f:")).filter(|key| interesting(key))
            {
                times.keys.insert(key.to_owned(), change.clone());
            }
        }
    }
    times
}

fn last_change(entry: &ManagedFieldsEntry) -> Option<LastChange> {
    Some(LastChange {
        manager: entry.manager.clone().unwrap_or_default(),
        at: entry.time.as_ref()?.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cordon_and_label_authors_come_from_managed_fields() {
        let metadata: ObjectMeta = serde_json::from_value(serde_json::json!({
            "name": "gpu-0",
            "managedFields": [
                {"manager": "kubectl-cordon", "operation": "Update", "time": "2026-01-01T03:00:00Z", "fieldsType": "FieldsV1",
                 "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
                {"manager": "gpu-operator", "operation": "Update", "time": "2026-01-01T04:00:00Z", "fieldsType": "FieldsV1",
                 "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:nvidia.com/gpu-driver-upgrade-state": {}, "f:other": {}},
                                             "f:annotations": {"f:nvidia.com/note": {}}}}},
                {"manager": "before-times", "operation": "Update"}]
        }))
        .expect("metadata");
        let times = parse_times(&metadata, &|key| key.starts_with("nvidia.com/"));
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        assert_eq!(
            times.cordon,
            Some(LastChange { manager: "kubectl-cordon".into(), at: at("2026-01-01T03:00:00Z") })
        );
        assert_eq!(
            times.keys.keys().collect::<Vec<_>>(),
            ["nvidia.com/gpu-driver-upgrade-state", "nvidia.com/note"]
        );
        assert_eq!(times.keys["nvidia.com/note"].at, at("2026-01-01T04:00:00Z"));
    }
}
