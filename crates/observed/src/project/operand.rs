//! The operator's own pods, its leader election, and the pods of its operands.

use k8s_openapi::api::coordination::v1 as coordination;
use std::sync::Arc;

use crate::intern::LabelInterner;
use crate::object as api;
use crate::{OperandPod, OperatorLease, OperatorPod};
use contract::names;
use contract::operand::Operand;

use super::{affinity_node, controller, created, filled, trouble};

/// Projects a pod that may be the operator's own: a ReplicaSet created it.
pub fn operator_pod(object: &api::Pod) -> Option<OperatorPod> {
    let metadata = &object.metadata;
    let owner = controller(metadata.owner_references.as_deref())?;
    (owner.kind == "ReplicaSet").then(|| OperatorPod {
        name: filled(metadata.name.as_ref()),
        labels: metadata.labels.clone().unwrap_or_default().into(),
        deleting: metadata.deletion_timestamp.is_some(),
        ready: object.status.as_ref().is_some_and(api::PodStatus::is_ready),
    })
}

/// Projects a pod of an operand: of a DaemonSet whose label `app` or `name` is in the table of
/// operands, or starts like NVIDIA's. Texts that many pods have are stored once.
pub fn operand_pod(object: &api::Pod, interner: &LabelInterner) -> Option<OperandPod> {
    let metadata = &object.metadata;
    let owner = controller(metadata.owner_references.as_deref())
        .filter(|owner| owner.kind == "DaemonSet")?;
    let labels = metadata.labels.as_ref()?;
    let app = labels.get("app").or_else(|| labels.get("name"))?;
    if Operand::from_app(app).is_none() && !app.starts_with("nvidia-")
        || is_driver_or_toolkit(object)
    {
        return None;
    }
    let spec = object.spec.as_ref()?;
    let status = object.status.clone().unwrap_or_default();
    let unscheduled = status
        .condition("PodScheduled")
        .filter(|condition| condition.status == "False" && spec.node_name.is_none());
    let message = || {
        unscheduled
            .and_then(|condition| condition.message.clone().or_else(|| condition.reason.clone()))
    };
    let text = |text: &String| interner.text(text);
    Some(OperandPod {
        owner: interner.text(&owner.uid),
        node: spec.node_name.clone().or_else(|| affinity_node(spec)).as_ref().map(text),
        revision: labels.get("controller-revision-hash").map(text),
        created: created(metadata.creation_timestamp.as_ref()),
        deleting: metadata.deletion_timestamp.is_some(),
        ready: status.phase.as_deref() == Some("Running") && status.is_ready(),
        restarts: status.unready_restarts(),
        trouble: trouble(&status).or_else(message).map(String::into_boxed_str),
    })
}

/// Returns the projection [`operand_pod`] for a watch.
pub fn operand_pods(
    interner: &Arc<LabelInterner>,
) -> impl Fn(&api::Pod) -> Option<OperandPod> + use<> {
    let interner = Arc::clone(interner);
    move |object| operand_pod(object, &interner)
}

/// Returns whether the pod is projected in full: it is of the driver or container toolkit.
pub fn is_driver_or_toolkit(object: &api::Pod) -> bool {
    let has = |(key, value): (&str, &str)| {
        object
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(key))
            .is_some_and(|found| found == value)
    };
    has(names::DRIVER_COMPONENT) || has(names::TOOLKIT_APP)
}

/// Projects the Lease of the operator's leader election.
pub fn operator_lease(object: &coordination::Lease) -> Option<OperatorLease> {
    let spec = object.spec.as_ref()?;
    let renew_time = spec.renew_time.as_ref()?.0;
    let led = spec
        .acquire_time
        .as_ref()
        .map_or(0, |acquired| renew_time.duration_since(acquired.0).as_secs());
    Some(OperatorLease {
        holder: spec.holder_identity.clone().unwrap_or_default(),
        duration_seconds: spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or(0),
        led_seconds: u64::try_from(led).unwrap_or(0),
        renew_time,
        renewed: None,
    })
}
