//! The custom resources of NVIDIA's operators.

use kube_core::DynamicObject;
use serde_json::Value;

use crate::{
    ClusterPolicy, ImageSpec, Labels, LiveUpgradePolicy, NicClusterPolicy, NvidiaDriver,
    OperandSpec,
};
use contract::operand::Operand;
use contract::policy::{CompletionPolicy, DrainPolicy, PodDeletionPolicy, Policy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{conditions, filled, text, time};

/// Reads a map of strings.
fn strings(value: &Value, pointer: &str) -> Labels {
    let map = value.pointer(pointer).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn image(value: &Value, pointer: &str) -> ImageSpec {
    let part = |name: &str| text(value, &format!("{pointer}/{name}"));
    ImageSpec { repository: part("repository"), image: part("image"), version: part("version") }
}

/// Projects a ClusterPolicy (`nvidia.com/v1`).
pub fn cluster_policy(object: &DynamicObject) -> Option<ClusterPolicy> {
    let data = &object.data;
    let flag = |pointer: &str, absent: bool| {
        data.pointer(pointer).and_then(Value::as_bool).unwrap_or(absent)
    };
    let conditions = conditions(data);
    Some(ClusterPolicy {
        uid: filled(object.metadata.uid.as_ref()),
        generation: object.metadata.generation.unwrap_or(0),
        driver_enabled: flag("/spec/driver/enabled", true),
        uses_nvidia_drivers: flag("/spec/driver/useNvidiaDriverCRD", false),
        sandbox_workloads: flag("/spec/sandboxWorkloads/enabled", false),
        driver: image(data, "/spec/driver"),
        driver_manager: image(data, "/spec/driver/manager"),
        toolkit_enabled: flag("/spec/toolkit/enabled", true),
        toolkit: image(data, "/spec/toolkit"),
        operands: Operand::ALL
            .into_iter()
            .map(|operand| (operand, operand_spec(data, operand)))
            .collect(),
        labels: strings(data, "/spec/daemonsets/labels"),
        upgrade_policy: upgrade_policy(data, "/spec/driver/upgradePolicy"),
        state: text(data, "/status/state"),
        ready_reason: conditions
            .ready_reason()
            .filter(|reason| !reason.is_empty())
            .map(str::to_owned),
        conditions,
        driver_field_manager: field_manager(&object.metadata, "/f:spec/f:driver"),
    })
}

/// Reads the settings of an operand from a ClusterPolicy.
fn operand_spec(data: &Value, operand: Operand) -> OperandSpec {
    let traits = operand.traits();
    let stated = data.pointer(&format!("/spec/{}/enabled", traits.spec)).and_then(Value::as_bool);
    let enabled = traits.default.is_none_or(|default| stated.unwrap_or(default));
    OperandSpec { enabled, image: image(data, &format!("/spec/{}", traits.spec)) }
}

fn upgrade_policy(data: &Value, pointer: &str) -> LiveUpgradePolicy {
    let field = |name: &str| data.pointer(&format!("{pointer}/{name}"));
    LiveUpgradePolicy {
        stated: data.pointer(pointer).is_some_and(Value::is_object),
        auto_upgrade: field("autoUpgrade").and_then(Value::as_bool).unwrap_or(false),
        max_parallel: field("maxParallelUpgrades")
            .and_then(Value::as_u64)
            .and_then(|n| u32::try_from(n).ok()),
        max_unavailable: field("maxUnavailable").map(|value| {
            let text = value.as_str().filter(|text| text.parse::<i64>().is_err());
            text.map_or_else(|| value.to_string(), str::to_owned)
        }),
        wait_for_completion: field("waitForCompletion").and_then(|wait| {
            let pod_selector = text(wait, "/podSelector")?;
            Some(CompletionPolicy {
                pod_selector,
                timeout_seconds: wait["timeoutSeconds"].as_u64().unwrap_or(0),
            })
        }),
        pod_deletion: field("podDeletion").filter(|deletion| !deletion.is_null()).map(|deletion| {
            PodDeletionPolicy {
                force: deletion["force"].as_bool().unwrap_or(false),
                timeout_seconds: deletion["timeoutSeconds"]
                    .as_u64()
                    .unwrap_or_else(|| PodDeletionPolicy::default().timeout_seconds),
                delete_empty_dir: deletion["deleteEmptyDir"].as_bool().unwrap_or(false),
            }
        }),
        drain: field("drain").filter(|drain| drain["enable"].as_bool().unwrap_or(false)).map(
            |drain| DrainPolicy {
                force: drain["force"].as_bool().unwrap_or(false),
                pod_selector: text(drain, "/podSelector").unwrap_or_default(),
                timeout_seconds: drain["timeoutSeconds"]
                    .as_u64()
                    .unwrap_or_else(|| DrainPolicy::default().timeout_seconds),
                delete_empty_dir: drain["deleteEmptyDir"].as_bool().unwrap_or(false),
            },
        ),
        lacks_drain: field("drain").is_none_or(Value::is_null),
    }
}

/// Projects a NicClusterPolicy (`mellanox.com/v1alpha1`).
pub fn nic_cluster_policy(object: &DynamicObject) -> Option<NicClusterPolicy> {
    let data = &object.data;
    let present = |pointer: &str| data.pointer(pointer).is_some_and(|value| !value.is_null());
    let conditions = data.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let ofed = present("/spec/ofedDriver").then(|| {
        let (own, global) = (image(data, "/spec/ofedDriver"), image(data, "/spec/global"));
        ImageSpec {
            repository: own.repository.or(global.repository),
            image: own.image,
            version: own.version.or(global.version),
        }
    });
    Some(NicClusterPolicy {
        uid: filled(object.metadata.uid.as_ref()),
        generation: object.metadata.generation.unwrap_or(0),
        observed_generation: ready.and_then(|condition| condition["observedGeneration"].as_i64()),
        ofed,
        node_affinity: present("/spec/nodeAffinity"),
        upgrade_policy: upgrade_policy(data, "/spec/ofedDriver/upgradePolicy"),
        driver_field_manager: field_manager(&object.metadata, "/f:spec/f:ofedDriver"),
    })
}

/// Returns the field manager that last changed a part of the spec, among its owners.
fn field_manager(metadata: &ObjectMeta, pointer: &str) -> Option<String> {
    let owners = metadata.managed_fields.iter().flatten().filter(|entry| {
        entry.subresource.as_deref().unwrap_or_default().is_empty()
            && entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(pointer).is_some())
    });
    owners.max_by_key(|entry| entry.time.as_ref().map(time)).and_then(|entry| entry.manager.clone())
}

/// Projects an NVIDIADriver (`nvidia.com/v1alpha1`).
pub fn nvidia_driver(object: &DynamicObject) -> Option<NvidiaDriver> {
    Some(NvidiaDriver {
        name: filled(object.metadata.name.as_ref()),
        uid: filled(object.metadata.uid.as_ref()),
        generation: object.metadata.generation.unwrap_or(0),
        deleting: object.metadata.deletion_timestamp.is_some(),
        is_default: object.data.pointer("/spec/default").and_then(Value::as_bool).unwrap_or(false),
        node_selector: strings(&object.data, "/spec/nodeSelector"),
        driver: image(&object.data, "/spec"),
        conditions: conditions(&object.data),
        field_manager: field_manager(&object.metadata, "/f:spec"),
        upgrade_policy: nvidia_driver_policy(&object.data),
    })
}

/// Reads the upgrade policy with the operator's defaults: upgrades are on
/// (`GetUpgradePolicyWithDefaults`).
fn nvidia_driver_policy(data: &Value) -> LiveUpgradePolicy {
    let path = "/spec/upgradePolicy";
    let mut policy = upgrade_policy(data, path);
    policy.auto_upgrade |= data.pointer(&format!("{path}/autoUpgrade")).is_none_or(Value::is_null);
    policy.max_unavailable = policy
        .max_unavailable
        .or_else(|| Policy::default().max_unavailable.map(|limit| limit.to_string()));
    policy.pod_deletion = policy.pod_deletion.or_else(|| Some(PodDeletionPolicy::default()));
    policy
}
