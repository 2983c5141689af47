//! The message of each reason.

use std::fmt;

use contract::count::with_noun;
use contract::names;
use nvidia_upgrade::explain::OptionalText;
use nvidia_upgrade::state::ExplainedState;

use super::Reason;

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PolicyApiMissing { resource } => {
                write!(out, "the API server does not know {resource}")
            }
            Self::OperatorMissing { deployment, namespace } => {
                write!(out, "no deployment/{deployment} in namespace `{namespace}`")
            }
            Self::OperatorNotReady { deployment, namespace, replicas: 0, .. } => {
                write!(
                    out,
                    "deployment/{deployment} in namespace `{namespace}` is scaled to 0 replicas"
                )
            }
            Self::OperatorNotReady { deployment, namespace, available, replicas } => {
                write!(
                    out,
                    "deployment/{deployment} in namespace `{namespace}` is not rolled out: {available} of {replicas} replicas are updated and available"
                )?;
                if available < replicas {
                    Ok(())
                } else {
                    write!(out, ", and older replicas still exist")
                }
            }
            Self::OperatorNotLeading {
                deployment,
                namespace,
                pod: Some(pod),
                holder: Some(holder),
                silent: true,
            } => write!(
                out,
                "pod {pod} of deployment/{deployment} in namespace `{namespace}` holds the operator's Lease (`{holder}`), but does not renew it"
            ),
            Self::OperatorNotLeading { deployment, namespace, pod, holder, silent } => {
                let (subject, state) = pod.as_ref().map_or_else(
                    || ("no ready pod".to_owned(), "the leader"),
                    |pod| (format!("pod {pod}"), "not the leader yet"),
                );
                write!(
                    out,
                    "{subject} of deployment/{deployment} in namespace `{namespace}` is {state}: "
                )?;
                match holder {
                    Some(holder) if *silent => {
                        write!(out, "no renewal of its Lease (`{holder}`) has been observed")
                    }
                    Some(holder) => write!(out, "the operator's Lease is held by `{holder}`"),
                    None => write!(out, "the operator's Lease has no holder"),
                }
            }
            Self::OperatorNotSeen { deployment, namespace, holder, limit_seconds } => {
                write!(
                    out,
                    "`{holder}` of deployment/{deployment} in namespace `{namespace}` holds the operator's Lease, but no renewal has been observed yet (normal for up to {limit_seconds} s)"
                )
            }
            Self::OperatorActing { until } => {
                write!(
                    out,
                    "the GPU Operator recently became the leader, received a new spec or changed its DaemonSets; the hook continues at {until:.0} if the DaemonSets stay unchanged until then"
                )
            }
            Self::OtherChart { object, found, expected } => {
                write!(
                    out,
                    "{object} is from chart `{found}`, but this hook expects chart version `{expected}`"
                )
            }
            Self::PolicyMissing { kind, name } => write!(out, "no {kind} `{name}`"),
            Self::NvidiaDriverMissing => write!(
                out,
                "the ClusterPolicy leaves the driver to NVIDIADriver objects, but none exists"
            ),
            Self::ReconcileFailed { kind, name, reason, message } => {
                write!(out, "the operator cannot reconcile {kind} `{name}` ({reason})")?;
                if message.is_empty() { Ok(()) } else { write!(out, ": {message}") }
            }
            Self::PolicyIgnored { name } => {
                write!(
                    out,
                    "the operator ignores ClusterPolicy `{name}`: the operator's DaemonSets belong to another custom resource"
                )
            }
            Self::DriverLeftOver { daemon_set } => {
                write!(
                    out,
                    "spec.driver.enabled is false, but daemonset/{daemon_set} still runs drivers"
                )
            }
            Self::NodeInOtherPool { wanted, found } => {
                let label = names::DRIVER_OWNER_LABEL;
                let found = found
                    .as_ref()
                    .map_or_else(|| "absent".to_owned(), |found| format!("`{found}`"));
                write!(
                    out,
                    "NVIDIADriver `{wanted}` selects the node, but the node's label {label} is {found}"
                )
            }
            Self::Precondition { kind, name, field, expected, found, manager, changed_in_run } => {
                let manager = OptionalText(" (field manager `", manager, "`)");
                let changed = if *changed_in_run { "; it was changed during this run" } else { "" };
                write!(
                    out,
                    "{field} of {kind} `{name}` is `{found}`, but must be `{expected}`{manager}{changed}"
                )
            }
            Self::SpecNotObserved { object, field, expected, found } => {
                write!(
                    out,
                    "the operator has not observed the newest spec: {field} of {object} is `{found}`, expected `{expected}`"
                )
            }
            Self::DaemonSetMissing { what } => {
                write!(
                    out,
                    "nodes need the {what}, but the operator has not created a DaemonSet for it"
                )
            }
            Self::NodesUndiscovered { device, count } => {
                write!(
                    out,
                    "no {device} node found yet, and node-feature-discovery has not labeled {count} of the ready nodes"
                )
            }
            Self::NoNodeFeatures => write!(out, "node-feature-discovery has not labeled any node"),
            Self::NoGpuNodes { operator_says } => write!(
                out,
                "no node has a GPU, and the operator reports {}",
                operator_says
                    .as_deref()
                    .map_or_else(|| "nothing about it".to_owned(), |reason| format!("`{reason}`"))
            ),
            Self::NodeNotLabeled => {
                write!(out, "the operator has not labeled the node for its operands")
            }
            Self::NodeWithoutDaemonSet => write!(out, "no driver DaemonSet selects the node"),
            Self::NodeNotReady { since: Some(since) } => {
                write!(out, "the node has been NotReady since {since:.0}")
            }
            Self::NodeNotReady { since: None } => write!(out, "the node is NotReady"),
            Self::DriverPodMissing => write!(out, "no driver pod on the node"),
            Self::DriverPodUnschedulable { message } => {
                write!(out, "the driver pod cannot be scheduled: {message}")
            }
            Self::DriverOutOfDate { state, why } => {
                write!(
                    out,
                    "the driver pod has an older revision{}{}",
                    UpgradeStateText(state.as_deref()),
                    OptionalText("; ", why, "")
                )
            }
            Self::DriverNotReady { state, trouble, restarts } => {
                write!(
                    out,
                    "the new driver pod is not ready{}, {}{}",
                    OptionalText(" (", trouble, ")"),
                    with_noun(*restarts, "restart"),
                    UpgradeStateText(state.as_deref())
                )
            }
            Self::UpgradeUnfinished { state, why } => {
                write!(
                    out,
                    "NVIDIA's controller has not finished{}{}",
                    UpgradeStateText(Some(state)),
                    OptionalText("; ", why, "")
                )
            }
            Self::UpgradeFailed { trouble } => write!(
                out,
                "the upgrade by NVIDIA's controller failed{}",
                OptionalText(" (", trouble, ")")
            ),
            Self::Skipped { label } => {
                write!(out, "the node keeps its old driver: it has the label {label}")
            }
            Self::ToolkitNotReady { trouble } => write!(
                out,
                "the container toolkit is not ready{}",
                OptionalText(" (", trouble, ")")
            ),
            Self::ToolkitOutdated { awaited } => write!(
                out,
                "the pod of the container toolkit has an older revision{}",
                OptionalText(", and its rolling update waits for ", awaited, "")
            ),
            Self::OperandMissing { operand } => write!(out, "no pod of {operand} on the node"),
            Self::OperandOutdated { operand, awaited } => {
                let awaited = OptionalText(", and its rolling update waits for ", awaited, "");
                write!(out, "the pod of {operand} has an older revision{awaited}")
            }
            Self::OperandNotReady { operand, trouble, restarts } => {
                write!(
                    out,
                    "the pod of {operand} is not ready{}, {}",
                    OptionalText(" (", trouble, ")"),
                    with_noun(*restarts, "restart")
                )
            }
            Self::NodeTainted { daemon_set, taint } => {
                write!(
                    out,
                    "pods of daemonset/{daemon_set} do not tolerate the node's taint {taint}"
                )
            }
            Self::MigReconfiguring { state } => {
                write!(out, "the MIG manager is changing the MIG layout (state `{state}`)")
            }
            Self::GpusNotOffered => write!(out, "the node offers no GPU (status.allocatable)"),
            Self::GpusDegraded { resource, offered, baseline } => {
                write!(
                    out,
                    "the node offers {offered} {resource}, but offered {baseline} when the run started"
                )
            }
            Self::PluginQueued { cause, away, limit } if away < limit => {
                write!(
                    out,
                    "the DRA plugin is stale ({cause}); the hook replaces it one second after the driver and the toolkit became ready"
                )
            }
            Self::PluginQueued { cause, away, limit } => {
                write!(
                    out,
                    "the DRA plugin is stale ({cause}) and is queued for replacement: {} unavailable, and the limit is {limit}",
                    is_or_are(*away, "plugin")
                )
            }
            Self::PluginHeldUp { cause, failed } => {
                write!(
                    out,
                    "the DRA plugin is stale ({cause}); the hook does not replace it, because {} did not become ready",
                    with_noun(*failed, "replacement plugin")
                )
            }
            Self::PluginStale { cause } => {
                write!(out, "the DRA plugin is stale ({cause}), and rollout.dra.reroll is off")
            }
            Self::PluginMissing => write!(out, "no DRA plugin pod on the node"),
            Self::PluginUnschedulable { message } => {
                write!(out, "the DRA plugin pod cannot be scheduled: {message}")
            }
            Self::PluginNotReady { trouble } => {
                write!(out, "the DRA plugin pod is not ready{}", OptionalText(" (", trouble, ")"))
            }
            Self::SliceMissing { driver } => {
                write!(out, "no ResourceSlice of {driver} for the node")
            }
            Self::SliceOutdated { published, loaded } => {
                write!(
                    out,
                    "the DRA plugin publishes driver {published}, but driver {loaded} is loaded"
                )
            }
            Self::DraMissing { namespaces } if namespaces.is_empty() => {
                write!(out, "a DRA driver is required, but rollout.dra.namespaces is empty")
            }
            Self::DraMissing { namespaces } => write!(
                out,
                "a DRA driver is required, but there is none in the namespaces {}",
                namespaces.join(", ")
            ),
            Self::DraScheduledNowhere { daemon_set } => {
                write!(
                    out,
                    "DaemonSet {daemon_set} of the DRA driver schedules no pod, although there are GPU nodes"
                )
            }
            Self::ConfigMissing { config_map, namespace } => {
                write!(out, "no ConfigMap `{config_map}` in namespace `{namespace}`")
            }
            Self::ConfigNotApplied { config_map, key, found } => {
                write!(
                    out,
                    "ConfigMap `{config_map}` does not match the values of the bundle: it contains {found} under key `{key}`"
                )
            }
            Self::RestartQueued { cause, away, limit } if away < limit => write!(
                out,
                "a pod of the device plugin is stale ({cause}); the hook replaces it one second after the driver and the toolkit became ready"
            ),
            Self::RestartQueued { cause, away, limit } => write!(
                out,
                "a pod of the device plugin is stale ({cause}) and is queued for replacement: the plugin is unavailable on {}, and the limit is {limit}",
                with_noun(*away, "node")
            ),
            Self::RestartHeldUp { cause, failed } => write!(
                out,
                "a pod of the device plugin is stale ({cause}); the hook does not replace it, because the replacement pods on {} did not become ready",
                with_noun(*failed, "node")
            ),
            Self::RestartRolling { daemon_set } => {
                write!(out, "daemonset/{daemon_set} is replacing its pod on the node")
            }
            Self::RestartPending { daemon_set, trouble } => {
                write!(
                    out,
                    "the restarted pod of daemonset/{daemon_set} is not ready yet: {trouble}"
                )
            }
            Self::WriteRefused { write, message, cordoned } => {
                write!(
                    out,
                    "the API server refuses {write}: {message}{}",
                    if *cordoned { "; the node stays cordoned" } else { "" }
                )
            }
            Self::WriteRetried { write, message, attempts, limit } => {
                write!(out, "{write} failed (try {attempts} of at most {limit}): {message}")
            }
            Self::Upgrading(reason) => reason.fmt(out),
            Self::Quiet { until } => {
                write!(
                    out,
                    "all conditions are met; if they hold until {until:.0}, the rollout is settled"
                )
            }
        }
    }
}

/// `` , upgrade state `drain-required` (draining)``; empty without a state.
struct UpgradeStateText<'a>(Option<&'a str>);

impl fmt::Display for UpgradeStateText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |state| write!(out, ", upgrade state {}", ExplainedState(state)))
    }
}

/// Returns `1 node is`, `2 nodes are`.
pub(super) fn is_or_are(count: usize, noun: &str) -> String {
    format!("{} {}", with_noun(count, noun), if count == 1 { "is" } else { "are" })
}
