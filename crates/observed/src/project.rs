//! Projections of the API's objects to views. Fields that are not projected are dropped.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference, Time};
use kube_core::DynamicObject;
use serde_json::Value;

use crate::pause::ObservedPause;
use crate::version::split_image;
use crate::{
    Labels, ObservedConfigMap, ObservedContainer, ObservedDaemonSet, ObservedDeployment,
    ObservedNode, ObservedPod, ObservedRevision, ObservedSlice, ObservedTaint, ObservedToleration,
    tolerates,
};
use contract::count::Count;
use contract::digest::sha256;
use contract::names;

use super::object as api;

mod acceptance;
mod conditions;
mod custom_resource;
mod operand;
#[cfg(test)]
mod tests;
mod workload;

pub use acceptance::{acceptance_phase, acceptance_pod, failed_container};
pub use conditions::conditions;
pub use custom_resource::{cluster_policy, nic_cluster_policy, nvidia_driver};
pub use operand::{is_driver_or_toolkit, operand_pod, operand_pods, operator_lease, operator_pod};
pub use workload::{budget, claim, job, maintenance, workload};

fn time(time: &Time) -> Timestamp {
    time.0
}

fn created(at: Option<&Time>) -> Timestamp {
    at.map(time).unwrap_or_default()
}

fn controller(owners: Option<&[OwnerReference]>) -> Option<&OwnerReference> {
    owners?.iter().find(|owner| owner.controller == Some(true))
}

fn filled(text: Option<&String>) -> String {
    text.cloned().unwrap_or_default()
}

/// Projects a node. All its labels are kept: node selectors of DaemonSets may name any.
pub fn node(object: &api::Node) -> Option<ObservedNode> {
    let metadata = &object.metadata;
    let status = object.status.as_ref();
    let ready = status.and_then(|status| {
        status.conditions.iter().flatten().find(|condition| condition.r#type == "Ready")
    });
    Some(ObservedNode {
        name: filled(metadata.name.as_ref()),
        uid: filled(metadata.uid.as_ref()),
        created: created(metadata.creation_timestamp.as_ref()),
        ready: ready.is_some_and(|condition| condition.status == "True"),
        ready_since: ready.and_then(|condition| condition.last_transition_time.as_ref()).map(time),
        unschedulable: object.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
        labels: metadata.labels.clone().unwrap_or_default().into(),
        annotations: select(metadata.annotations.as_ref(), |key| {
            starts_with_any(key, &names::UPGRADE_ANNOTATION_PREFIXES)
        }),
        version: metadata.resource_version.clone().unwrap_or_default(),
        kubelet: status
            .and_then(|status| status.node_info.as_ref())
            .map(|info| info.kubelet_version.clone())
            .unwrap_or_default(),
        taints: object
            .spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten())
            .filter_map(taint)
            .collect(),
        gpus_allocatable: gpus(status.and_then(|status| status.allocatable.as_ref())),
        gpus_capacity: gpus(status.and_then(|status| status.capacity.as_ref())),
    })
}

/// Projects a taint that may keep pods of DaemonSets away. Taints that every DaemonSet tolerates
/// are dropped, because they change with the node's health.
fn taint(taint: &api::Taint) -> Option<ObservedTaint> {
    let taint = ObservedTaint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
    };
    (taint.effect != "PreferNoSchedule" && !tolerates(&[], &taint)).then_some(taint)
}

/// Selects the GPUs among a node's resources.
fn gpus(resources: Option<&BTreeMap<String, String>>) -> Labels {
    select(resources, |name| starts_with_any(name, &names::GPU_RESOURCE_PREFIXES))
}

/// Selects the entries of a map by key.
fn select(entries: Option<&BTreeMap<String, String>>, is_wanted: impl Fn(&str) -> bool) -> Labels {
    entries
        .into_iter()
        .flatten()
        .filter(|(key, _)| is_wanted(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn starts_with_any(text: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| text.starts_with(prefix))
}

/// Returns the version of a Deployment's program: its label, or the tag of its first image.
fn program_version(object: &apps::Deployment) -> Option<String> {
    let label = || object.metadata.labels.as_ref()?.get("app.kubernetes.io/version").cloned();
    let image = || object.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.clone();
    label().or_else(|| split_image(&image()?).1.map(str::to_owned))
}

/// Projects a Deployment.
pub fn deployment(object: &apps::Deployment) -> Option<ObservedDeployment> {
    let status = object.status.clone().unwrap_or_default();
    Some(ObservedDeployment {
        version: program_version(object),
        chart: object
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(names::CHART_LABEL).cloned()),
        replicas: object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        current: status.replicas.unwrap_or(0),
        updated: status.updated_replicas.unwrap_or(0),
        available: status.available_replicas.unwrap_or(0),
        observed: status.observed_generation >= object.metadata.generation,
        selector: object
            .spec
            .as_ref()
            .and_then(|spec| spec.selector.match_labels.clone())
            .unwrap_or_default()
            .into(),
    })
}

/// Reads the pauses from their ConfigMap.
pub fn pauses(object: &core::ConfigMap) -> Option<Vec<ObservedPause>> {
    Some(object.data.iter().flatten().map(|(key, text)| ObservedPause::read(key, text)).collect())
}

/// Projects a DaemonSet.
pub fn daemon_set(object: &api::DaemonSet) -> Option<ObservedDaemonSet> {
    let metadata = &object.metadata;
    let spec = object.spec.as_ref()?;
    let pod = spec.template.spec.as_ref()?;
    let containers = pod.all_containers();
    let status = object.status.as_ref();
    Some(ObservedDaemonSet {
        namespace: filled(metadata.namespace.as_ref()),
        name: filled(metadata.name.as_ref()),
        uid: filled(metadata.uid.as_ref()),
        owner: controller(metadata.owner_references.as_deref()).map(|owner| owner.uid.clone()),
        generation: metadata.generation.unwrap_or(0),
        applied_hash: metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(names::LAST_APPLIED_HASH_ANNOTATION).cloned()),
        max_unavailable: spec
            .update_strategy
            .as_ref()
            .and_then(|strategy| max_unavailable(strategy.rolling_update.as_ref()?)),
        tolerations: pod.tolerations.iter().flatten().map(toleration).collect(),
        observed: status.and_then(|status| status.observed_generation) >= metadata.generation,
        on_delete: spec.update_strategy.as_ref().and_then(|strategy| strategy.r#type.as_deref())
            == Some("OnDelete"),
        deleting: metadata.deletion_timestamp.is_some(),
        desired: status.map_or(0, |status| status.desired_number_scheduled),
        misscheduled: status.map_or(0, |status| status.number_misscheduled),
        chart: metadata.labels.as_ref().and_then(|labels| labels.get(names::CHART_LABEL).cloned()),
        template_labels: spec
            .template
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.labels.clone())
            .unwrap_or_default()
            .into(),
        node_selector: pod.node_selector.clone().unwrap_or_default().into(),
        config_maps: pod
            .volumes
            .iter()
            .flatten()
            .filter_map(|volume| volume.config_map.as_ref())
            .map(|map| map.name.clone())
            .collect(),
        images: containers
            .clone()
            .map(|container| (container.name.clone(), container.image.clone().unwrap_or_default()))
            .collect(),
        config_digest: config_digest(pod),
        manager_environment: containers
            .filter(|container| container.name == names::DRIVER_MANAGER_CONTAINER)
            .flat_map(|container| container.env.iter().flatten())
            .filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?)))
            .collect(),
    })
}

/// Parses a number or a percentage; `None` for an invalid value, so that the default applies.
fn max_unavailable(rolling: &api::RollingUpdate) -> Option<Count> {
    let value = rolling.max_unavailable.as_ref()?;
    if let Some(text) = value.as_str() {
        return text.parse().ok();
    }
    value.as_u64().and_then(|number| u32::try_from(number).ok()).map(Count::Number)
}

fn toleration(toleration: &api::Toleration) -> ObservedToleration {
    ObservedToleration {
        key: toleration.key.clone(),
        exists: toleration.operator == "Exists",
        value: toleration.value.clone(),
        effect: toleration.effect.clone(),
    }
}

/// Returns the first value of `DRIVER_CONFIG_DIGEST` that is not empty, init containers first (as
/// in gpu-operator's restart-only test).
fn config_digest(pod: &api::PodSpec) -> Option<String> {
    let variables = pod.all_containers().flat_map(|container| container.env.iter().flatten());
    variables
        .filter(|variable| variable.name == names::CONFIG_DIGEST_ENV)
        .find_map(|variable| variable.value.clone().filter(|value| !value.is_empty()))
}

/// Projects a ConfigMap to digests of its texts, because the texts are not needed.
pub fn config_map(object: &core::ConfigMap) -> Option<ObservedConfigMap> {
    let metadata = &object.metadata;
    let about_data = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0.get("f:data").is_some())
    };
    Some(ObservedConfigMap {
        digests: object
            .data
            .iter()
            .flatten()
            .map(|(key, text)| (key.clone(), sha256(text.as_bytes())))
            .collect(),
        created: created(metadata.creation_timestamp.as_ref()),
        // An entry's time also changes with its manager's other fields, such as a label. So it may
        // be later than the last change of the data, but never earlier.
        changed: metadata
            .managed_fields
            .iter()
            .flatten()
            .filter(about_data)
            .filter_map(|entry| entry.time.as_ref())
            .map(time)
            .max(),
    })
}

/// Projects a ControllerRevision.
pub fn revision(object: &api::ControllerRevision) -> Option<ObservedRevision> {
    let metadata = &object.metadata;
    let hash = metadata.labels.as_ref()?.get("controller-revision-hash")?;
    Some(ObservedRevision {
        owner: controller(metadata.owner_references.as_deref())?.uid.clone(),
        revision: object.revision,
        hash: hash.clone(),
    })
}

/// Projects a driver pod. With `daemon_set`, it must be a pod of the DaemonSet with this name.
pub fn driver_pod(object: &api::Pod, daemon_set: Option<&str>) -> Option<ObservedPod> {
    let owner = controller(object.metadata.owner_references.as_deref());
    let is_of =
        |name: &str| owner.is_some_and(|owner| owner.kind == "DaemonSet" && owner.name == name);
    daemon_set.is_none_or(is_of).then(|| pod(object)).flatten()
}

/// The labels of driver, toolkit and DRA plugin pods that are kept.
const POD_LABELS: [&str; 5] = [
    names::DRIVER_COMPONENT.0,
    names::TOOLKIT_APP.0,
    names::DRIVER_TOOLKIT_LABEL,
    names::OFED_DRIVER_LABEL,
    names::OFED_OWNER_LABEL,
];

/// Projects a pod of a driver, toolkit or DRA plugin.
pub fn pod(object: &api::Pod) -> Option<ObservedPod> {
    let metadata = &object.metadata;
    let spec = object.spec.as_ref()?;
    let status = object.status.clone().unwrap_or_default();
    // A scheduler that lost the answer to its own binding binds again and is refused. It reports
    // this in the condition of the pod, although the pod has its node.
    let unscheduled = status
        .condition("PodScheduled")
        .filter(|condition| condition.status == "False" && spec.node_name.is_none());
    let statuses = || status.container_statuses.iter().flatten();
    Some(ObservedPod {
        namespace: filled(metadata.namespace.as_ref()),
        name: filled(metadata.name.as_ref()),
        uid: filled(metadata.uid.as_ref()),
        owner: controller(metadata.owner_references.as_deref()).map(|owner| owner.uid.clone()),
        node: spec.node_name.clone().or_else(|| affinity_node(spec)),
        unbound: spec.node_name.is_none(),
        revision: metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get("controller-revision-hash"))
            .cloned(),
        labels: select(metadata.labels.as_ref(), |key| POD_LABELS.contains(&key)),
        deleting: metadata.deletion_timestamp.is_some(),
        running: status.phase.as_deref() == Some("Running"),
        ready: status.is_ready(),
        ready_since: status
            .condition("Ready")
            .and_then(|condition| condition.last_transition_time.as_ref())
            .map(time),
        created: created(metadata.creation_timestamp.as_ref()),
        unschedulable: unscheduled.map(|condition| {
            condition.message.clone().or_else(|| condition.reason.clone()).unwrap_or_default()
        }),
        containers: containers(spec, &status),
        trouble: trouble(&status),
        orphaned: metadata.owner_references.iter().flatten().next().is_none(),
        containers_ready: statuses().next().is_some() && statuses().all(|status| status.ready),
        unready_restarts: status.unready_restarts(),
        config_digest: config_digest(spec),
    })
}

/// Projects the containers of a pod.
fn containers(spec: &api::PodSpec, status: &api::PodStatus) -> Vec<ObservedContainer> {
    let by_name: BTreeMap<&str, &api::ContainerStatus> = status
        .container_statuses
        .iter()
        .flatten()
        .map(|status| (status.name.as_str(), status))
        .collect();
    let containers = spec.containers.iter().map(|container| {
        let status = by_name.get(container.name.as_str());
        let running = status
            .and_then(|status| status.state.as_ref())
            .and_then(|state| state.running.as_ref());
        ObservedContainer {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            started: running.and_then(|running| running.started_at.as_ref()).map(time),
            restarts: status.map_or(0, |status| status.restart_count),
        }
    });
    containers.collect()
}

/// Returns the node for which the DaemonSet controller created an unbound pod: its required
/// affinity selects the node's field `metadata.name`.
fn affinity_node(spec: &api::PodSpec) -> Option<String> {
    let required = spec
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let fields =
        required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let field =
        fields.into_iter().find(|field| field.key == "metadata.name" && field.operator == "In")?;
    field.values.as_ref()?.first().cloned()
}

/// Returns the first container state that is not part of a normal start.
fn trouble(status: &api::PodStatus) -> Option<String> {
    for container in status.all_containers() {
        let Some(state) = &container.state else { continue };
        if let Some(waiting) = &state.waiting
            && let Some(reason) = &waiting.reason
            && reason != "PodInitializing"
            && reason != "ContainerCreating"
        {
            return Some(format!("{}: {reason}", container.name));
        }
        if let Some(terminated) = &state.terminated
            && terminated.exit_code != 0
        {
            return Some(format!("{}: exit code {}", container.name, terminated.exit_code));
        }
    }
    None
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Projects a ResourceSlice of one of NVIDIA's drivers, of any API version from v1beta1 on.
pub fn slice(object: &DynamicObject) -> Option<ObservedSlice> {
    let data = &object.data;
    let driver = text(data, "/spec/driver")
        .filter(|driver| names::DRA_CONTAINERS.iter().any(|(_, known)| known == driver))?;
    let devices = data
        .pointer("/spec/devices")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    // v1beta1 has the attributes under `basic`; from v1beta2 on, the device itself has them.
    let version = |device: &Value| {
        text(device, "/attributes/driverVersion/version")
            .or_else(|| text(device, "/basic/attributes/driverVersion/version"))
    };
    let mut versions: Vec<String> = devices.iter().filter_map(version).collect();
    versions.dedup();
    let taints = devices.iter().flat_map(|device| {
        let name = text(device, "/name").unwrap_or_default();
        let list = device
            .get("taints")
            .or_else(|| device.pointer("/basic/taints"))
            .and_then(Value::as_array);
        list.into_iter().flatten().map(move |taint| {
            let part = |key: &str| text(taint, key).unwrap_or_default();
            let value = text(taint, "/value").map(|value| format!("={value}")).unwrap_or_default();
            format!("{name} {}{value}:{}", part("/key"), part("/effect"))
        })
    });
    Some(ObservedSlice {
        taints: taints.collect(),
        driver,
        node: text(data, "/spec/nodeName")?,
        driver_version: if versions.len() == 1 { versions.pop() } else { None },
        devices: devices.len(),
    })
}
