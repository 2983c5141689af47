//! Objects that may block an upgrade: any pod, PodDisruptionBudgets, ResourceClaims,
//! NodeMaintenances.

use std::collections::BTreeSet;

use k8s_openapi::api::policy::v1 as policy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::DynamicObject;
use serde_json::Value;

use crate::workload::{
    AwaitedPod, DeviceClaim, DisruptionBudget, NodeMaintenance, PodController, PodPhase, Workload,
};
use contract::names;
use contract::selector::{LabelOperator, LabelRequirement, Selector};

use super::{controller, created, filled, text, time};
use crate::object as api;

/// The default of `spec.terminationGracePeriodSeconds` (Kubernetes
/// `DefaultTerminationGracePeriodSeconds`).
const GRACE_SECONDS: u64 = 30;

fn phase(object: &api::Pod) -> PodPhase {
    match object.status.as_ref().and_then(|status| status.phase.as_deref()) {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Unknown") => PodPhase::Unknown,
        Some(_) | None => PodPhase::Pending,
    }
}

/// Projects a pod that is bound to a node.
pub fn workload(object: &api::Pod) -> Option<Workload> {
    let metadata = &object.metadata;
    let spec = object.spec.as_ref()?;
    let annotated = |key: &str| {
        metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(key))
    };
    let volumes = || spec.volumes.iter().flatten();
    let in_memory = |volume: &api::EmptyDirVolumeSource| {
        volume
            .medium
            .as_deref()
            .is_some_and(|medium| medium == "Memory" || medium.starts_with("HugePages"))
    };
    let sidecars = || {
        spec.init_containers
            .iter()
            .flatten()
            .filter(|container| container.restart_policy.as_deref() == Some("Always"))
    };
    Some(Workload {
        namespace: filled(metadata.namespace.as_ref()),
        name: filled(metadata.name.as_ref()),
        uid: filled(metadata.uid.as_ref()),
        node: spec.node_name.clone().filter(|node| !node.is_empty())?,
        labels: metadata.labels.clone().unwrap_or_default().into(),
        phase: phase(object),
        ready: object.status.as_ref().is_some_and(api::PodStatus::is_ready),
        created: created(metadata.creation_timestamp.as_ref()),
        deleted_at: metadata.deletion_timestamp.as_ref().map(time),
        finalizers: metadata.finalizers.clone().unwrap_or_default(),
        grace_seconds: spec
            .termination_grace_period_seconds
            .map_or(GRACE_SECONDS, |seconds| u64::try_from(seconds).unwrap_or(0)),
        controller: controller(metadata.owner_references.as_deref()).map(|owner| PodController {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }),
        mirror: annotated(names::MIRROR_ANNOTATION),
        empty_dir: volumes()
            .filter_map(|volume| volume.empty_dir.as_ref())
            .any(|volume| !in_memory(volume)),
        memory_dir: volumes().filter_map(|volume| volume.empty_dir.as_ref()).any(in_memory),
        resources: spec.containers.iter().flat_map(extended_resources).collect(),
        sidecar_resources: sidecars().flat_map(extended_resources).collect(),
        claims: claims(object),
        secondary_network: annotated(names::NETWORKS_ANNOTATION),
        runtime_class: spec.runtime_class_name.clone(),
        host_devices: host_devices(spec),
    })
}

/// Returns resources that Kubernetes does not define: their names have a domain that is not its own
/// (`IsExtendedResourceName`).
fn extended_resources(container: &api::Container) -> BTreeSet<String> {
    let resources =
        container.resources.iter().flat_map(|resources| [&resources.limits, &resources.requests]);
    let names = resources.flatten().flat_map(|list| list.keys());
    names.filter(|name| name.contains('/') && !name.contains("kubernetes.io/")).cloned().collect()
}

/// Returns the claims that a pod uses. The status contains the name of a claim from a template; an
/// entry without a name there needed no claim. Kubernetes creates one more claim for extended
/// resources that a DRA driver serves.
fn claims(object: &api::Pod) -> Vec<Option<String>> {
    let statuses =
        || object.status.iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
    let asked = object.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    let named = |claim: &api::PodResourceClaim| match &claim.resource_claim_name {
        Some(name) => Some(Some(name.clone())),
        None => match statuses().find(|status| status.name == claim.name) {
            Some(status) => status.resource_claim_name.clone().map(Some),
            None => Some(None),
        },
    };
    let extended =
        object.status.iter().filter_map(|status| status.extended_resource_claim_status.as_ref());
    asked
        .filter_map(named)
        .chain(extended.map(|extended| Some(extended.resource_claim_name.clone())))
        .collect()
}

/// Returns whether the pod has a hostPath below `/dev/nvidia`, or `/dev` in a privileged container.
fn host_devices(spec: &api::PodSpec) -> bool {
    let paths = || {
        let volumes = spec.volumes.iter().flatten();
        volumes.filter_map(|volume| {
            Some((volume.name.as_str(), volume.host_path.as_ref()?.path.trim_end_matches('/')))
        })
    };
    let all: BTreeSet<&str> =
        paths().filter(|(_, path)| *path == "/dev").map(|(name, _)| name).collect();
    let privileged = |container: &&api::Container| {
        container.security_context.as_ref().and_then(|context| context.privileged).unwrap_or(false)
    };
    let mut mounts = spec
        .all_containers()
        .filter(privileged)
        .flat_map(|container| container.volume_mounts.iter().flatten());
    paths().any(|(_, path)| path.starts_with("/dev/nvidia"))
        || mounts.any(|mount| all.contains(mount.name.as_str()))
}

/// Projects a pod that `waitForCompletion` waits for. A pod without a node does not block a node.
pub fn job(object: &api::Pod) -> Option<AwaitedPod> {
    let node = object.spec.as_ref()?.node_name.clone().filter(|node| !node.is_empty())?;
    Some(AwaitedPod {
        namespace: filled(object.metadata.namespace.as_ref()),
        name: filled(object.metadata.name.as_ref()),
        node,
        phase: phase(object),
    })
}

/// Projects a PodDisruptionBudget (`policy/v1`).
pub fn budget(object: &policy::PodDisruptionBudget) -> Option<DisruptionBudget> {
    let written = |value: &IntOrString| match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    };
    let spec = object.spec.clone().unwrap_or_default();
    let status = object.status.clone().unwrap_or_default();
    Some(DisruptionBudget {
        namespace: filled(object.metadata.namespace.as_ref()),
        name: filled(object.metadata.name.as_ref()),
        selector: spec.selector.as_ref().map(selector),
        min_available: spec.min_available.as_ref().map(written),
        max_unavailable: spec.max_unavailable.as_ref().map(written),
        allowed: status.disruptions_allowed,
        healthy: status.current_healthy,
        desired: status.desired_healthy,
        expected: status.expected_pods,
        evicts_unhealthy: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
        observed: status.observed_generation >= object.metadata.generation,
    })
}

/// Reads a label selector. Requirements with an unknown operator are dropped, so a
/// PodDisruptionBudget protects too many pods rather than too few.
fn selector(object: &LabelSelector) -> Selector {
    let equal = object.match_labels.iter().flatten().map(|(key, value)| LabelRequirement {
        key: key.clone(),
        operator: LabelOperator::In(BTreeSet::from([value.clone()])),
    });
    let expressions = object.match_expressions.iter().flatten().filter_map(|expression| {
        let values = || expression.values.iter().flatten().cloned().collect();
        let operator = match expression.operator.as_str() {
            "In" => LabelOperator::In(values()),
            "NotIn" => LabelOperator::NotIn(values()),
            "Exists" => LabelOperator::Exists,
            "DoesNotExist" => LabelOperator::DoesNotExist,
            _ => return None,
        };
        Some(LabelRequirement { key: expression.key.clone(), operator })
    });
    Selector::new(equal.chain(expressions).collect())
}

/// Projects a ResourceClaim of any API version from v1beta1 on: the fields that are read here are
/// the same in all of them.
pub fn claim(object: &DynamicObject) -> Option<DeviceClaim> {
    let list = |value: &'_ Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let data = &object.data;
    let results = list(data, "/status/allocation/devices/results");
    let terms = list(data, "/status/allocation/nodeSelector/nodeSelectorTerms");
    let fields: Vec<Value> = terms.iter().flat_map(|term| list(term, "/matchFields")).collect();
    let node =
        fields.iter().find(|field| field["key"] == "metadata.name" && field["operator"] == "In");
    Some(DeviceClaim {
        namespace: filled(object.metadata.namespace.as_ref()),
        name: filled(object.metadata.name.as_ref()),
        drivers: results
            .iter()
            .filter(|result| result["adminAccess"] != true)
            .filter_map(|result| text(result, "/driver"))
            .collect(),
        node: node.and_then(|field| text(field, "/values/0")),
        reserved_for: list(data, "/status/reservedFor")
            .iter()
            .filter(|consumer| {
                consumer["resource"] == "pods" && text(consumer, "/apiGroup").is_none()
            })
            .filter_map(|consumer| text(consumer, "/uid"))
            .collect(),
        deleting: object.metadata.deletion_timestamp.as_ref().map(time),
    })
}

/// Projects a NodeMaintenance (`maintenance.nvidia.com/v1alpha1`).
pub fn maintenance(object: &DynamicObject) -> Option<NodeMaintenance> {
    let data = &object.data;
    let conditions = data.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    Some(NodeMaintenance {
        namespace: filled(object.metadata.namespace.as_ref()),
        name: filled(object.metadata.name.as_ref()),
        node: text(data, "/spec/nodeName")?,
        requestor: text(data, "/spec/requestorID").unwrap_or_default(),
        additional: data
            .pointer("/spec/additionalRequestors")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|requestor| requestor.as_str().map(str::to_owned))
            .collect(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        state: ready.and_then(|condition| text(condition, "/reason")),
    })
}
