//! A sample of every reason, and of every form that its text, its class or its remedy has, for the
//! catalog of messages. What nodes wait for in an upgrade of ours is in [`super::upgrades`].

use crate::reason::{OperandName, Reason};
use crate::rolling_update::AwaitedNode;
use contract::driver::Driver;
use contract::names;
use contract::operand::Operand;
use contract::record::WriteKind;
use nvidia_upgrade::explain::ControllerWait;
use nvidia_upgrade::pass::PassError;

use super::{AT, LATER};

/// The node that a rolling update waits for.
fn awaited(is_ready: bool) -> AwaitedNode {
    AwaitedNode { name: "gpu-2".into(), is_ready }
}

/// Every reason but those of an upgrade of ours.
pub(super) fn reasons() -> Vec<Reason> {
    let all = [
        of_the_operator(),
        of_policies(),
        of_specs(),
        of_nodes(),
        of_drivers(),
        of_operands(),
        of_gpus(),
        of_dra(),
        of_plugins(),
    ];
    all.concat().into_iter().chain(of_writes()).chain([Reason::Quiet { until: LATER }]).collect()
}

fn of_the_operator() -> Vec<Reason> {
    let deployment = || names::OPERATOR_DEPLOYMENT.to_owned();
    let namespace = || "gpu-operator".to_owned();
    let not_ready = |available, replicas| {
        let (deployment, namespace) = (deployment(), namespace());
        Reason::OperatorNotReady { deployment, namespace, available, replicas }
    };
    let (old, new) = ("gpu-operator-6d9f7c5b8-x2k4p", "gpu-operator-7b8d4f9c6-q8d5z");
    let holder = |pod: &str| format!("{pod}_5e0c1f7a");
    let not_leading = |pod: Option<&str>, holder: Option<String>, silent| {
        let (deployment, namespace) = (deployment(), namespace());
        let pod = pod.map(str::to_owned);
        Reason::OperatorNotLeading { deployment, namespace, pod, holder, silent }
    };
    vec![
        Reason::PolicyApiMissing { resource: Driver::Gpu.traits().policy_resource },
        Reason::OperatorMissing { deployment: deployment(), namespace: namespace() },
        not_ready(0, 0),
        not_ready(0, 1),
        not_ready(1, 1),
        not_leading(None, None, false),
        not_leading(None, Some(holder(old)), false),
        not_leading(Some(new), None, false),
        not_leading(Some(new), Some(holder(old)), false),
        not_leading(Some(new), Some(holder(new)), true),
        Reason::OperatorNotSeen {
            deployment: deployment(),
            namespace: namespace(),
            holder: holder(new),
            limit_seconds: 15,
        },
        Reason::OperatorActing { until: LATER },
        Reason::OtherChart {
            object: "deployment/gpu-operator".into(),
            found: "gpu-operator-v25.10.1".into(),
            expected: "v26.3.0".into(),
        },
    ]
}

fn of_policies() -> Vec<Reason> {
    let missing = |kind, name: &str| Reason::PolicyMissing { kind, name: name.into() };
    let failed = |reason: &str, message: &str| {
        let (kind, name) = (Driver::Gpu.traits().policy_kind, "cluster-policy".to_owned());
        Reason::ReconcileFailed { kind, name, reason: reason.into(), message: message.into() }
    };
    vec![
        missing(Driver::Gpu.traits().policy_kind, "cluster-policy"),
        missing(names::NVIDIA_DRIVER_KIND, names::DEFAULT_NVIDIA_DRIVER),
        missing(Driver::Ofed.traits().policy_kind, names::NIC_CLUSTER_POLICY),
        missing(Driver::DaemonSet.traits().policy_kind, "fabric-driver"),
        Reason::NvidiaDriverMissing,
        Reason::Precondition {
            kind: Driver::Gpu.traits().policy_kind,
            name: "cluster-policy".into(),
            field: Driver::Gpu.traits().version_field,
            expected: "580.126.20".into(),
            found: "570.195.03".into(),
            manager: Some("helm".into()),
            changed_in_run: false,
        },
        Reason::Precondition {
            kind: Driver::Gpu.traits().policy_kind,
            name: "cluster-policy".into(),
            field: Driver::Gpu.traits().version_field,
            expected: "580.126.20".into(),
            found: "595.10".into(),
            manager: Some("kubectl-edit".into()),
            changed_in_run: true,
        },
        Reason::Precondition {
            kind: Driver::DaemonSet.traits().policy_kind,
            name: "fabric-driver".into(),
            field: "spec.updateStrategy.type",
            expected: "OnDelete".into(),
            found: "RollingUpdate".into(),
            manager: None,
            changed_in_run: false,
        },
        failed("ReconcileFailed", "secrets \"license\" not found"),
        failed("ReconcileFailed", ""),
        Reason::PolicyIgnored { name: "cluster-policy".into() },
    ]
}

fn of_specs() -> Vec<Reason> {
    vec![
        Reason::DriverLeftOver {
            daemon_set: "nvidia-driver-daemonset-417.94.202412040832-0".into(),
        },
        Reason::SpecNotObserved {
            object: "daemonset/nvidia-driver-daemonset".into(),
            field: "image".into(),
            expected: "driver:580.126.20".into(),
            found: "nvcr.io/nvidia/driver:570.195.03-ubuntu24.04".into(),
        },
        Reason::DaemonSetMissing { what: "driver" },
        Reason::NodesUndiscovered { device: Driver::Gpu.traits().device, count: 2 },
        Reason::NoNodeFeatures,
        Reason::NoGpuNodes { operator_says: Some("Reconciled".into()) },
        Reason::NoGpuNodes { operator_says: None },
    ]
}

fn of_nodes() -> Vec<Reason> {
    let in_other_pool = |found: Option<&str>| Reason::NodeInOtherPool {
        wanted: "h100".into(),
        found: found.map(str::to_owned),
    };
    vec![
        Reason::NodeNotLabeled,
        Reason::NodeWithoutDaemonSet,
        in_other_pool(Some("a100")),
        in_other_pool(None),
        Reason::NodeNotReady { since: Some(AT) },
        Reason::NodeNotReady { since: None },
        Reason::Skipped { label: Driver::Gpu.traits().skip_label },
        Reason::NodeTainted {
            daemon_set: "nvidia-driver-daemonset".into(),
            taint: "dedicated=training:NoSchedule".into(),
        },
    ]
}

fn of_drivers() -> Vec<Reason> {
    let state = |state: &str| Some(state.to_owned());
    let out_of_date = |state, why: Option<ControllerWait>| Reason::DriverOutOfDate {
        state,
        why: why.map(Box::new),
    };
    let unfinished = |state: &str, why: Option<ControllerWait>| Reason::UpgradeUnfinished {
        state: state.into(),
        why: why.map(Box::new),
    };
    let restarting = || Some("nvidia-driver-ctr: CrashLoopBackOff".to_owned());
    vec![
        Reason::DriverPodMissing,
        Reason::DriverPodUnschedulable {
            message: "0/4 nodes are available: 1 Insufficient memory.".into(),
        },
        out_of_date(None, None),
        out_of_date(state("upgrade-required"), Some(ControllerWait::Off)),
        // A reason for all nodes is reported instead of what the policy says about one node.
        out_of_date(state("upgrade-required"), Some(ControllerWait::SandboxWorkloads)),
        Reason::DriverNotReady { state: None, trouble: None, restarts: 0 },
        Reason::DriverNotReady {
            state: state("pod-restart-required"),
            trouble: restarting(),
            restarts: 3,
        },
        unfinished("drain-required", None),
        unfinished("drain-required", Some(ControllerWait::Draining { timeout_seconds: 300 })),
        unfinished("drain-required", Some(ControllerWait::PassEnds { error: PassError::NoDrain })),
        Reason::UpgradeFailed { trouble: None },
        Reason::UpgradeFailed { trouble: restarting() },
        Reason::ToolkitNotReady { trouble: None },
        Reason::ToolkitOutdated { awaited: None },
        Reason::ToolkitOutdated { awaited: Some(awaited(true)) },
        Reason::ToolkitOutdated { awaited: Some(awaited(false)) },
        Reason::ToolkitNotReady { trouble: Some("driver-validation: exit code 1".into()) },
    ]
}

/// Each operand has a remedy of its own; one that the table does not know has a general one.
fn of_operands() -> Vec<Reason> {
    let known = Operand::ALL.map(|operand| OperandName {
        daemon_set: operand.traits().daemon_set.into(),
        known: Some(operand),
    });
    let unknown = OperandName { daemon_set: "nvidia-kata-manager".into(), known: None };
    let plugin = || OperandName {
        daemon_set: Operand::DevicePlugin.traits().daemon_set.into(),
        known: Some(Operand::DevicePlugin),
    };
    let not_ready = |operand| Reason::OperandNotReady { operand, trouble: None, restarts: 0 };
    let trouble = Some("nvidia-device-plugin: CrashLoopBackOff".to_owned());
    let others = [
        Reason::OperandNotReady { operand: plugin(), trouble, restarts: 3 },
        Reason::OperandMissing { operand: plugin() },
        Reason::OperandMissing { operand: unknown.clone() },
        Reason::OperandOutdated { operand: plugin(), awaited: None },
        Reason::OperandOutdated { operand: plugin(), awaited: Some(awaited(true)) },
        Reason::OperandOutdated { operand: plugin(), awaited: Some(awaited(false)) },
    ];
    known.into_iter().chain([unknown]).map(not_ready).chain(others).collect()
}

fn of_gpus() -> Vec<Reason> {
    vec![
        Reason::MigReconfiguring { state: "pending".into() },
        Reason::GpusNotOffered,
        Reason::GpusDegraded { resource: "nvidia.com/gpu".into(), offered: 7, baseline: 8 },
    ]
}

fn of_dra() -> Vec<Reason> {
    let cause = || {
        format!(
            "its container started at {AT:.0}, its driver or toolkit became ready at {LATER:.0}"
        )
    };
    vec![
        Reason::PluginQueued { cause: cause(), away: 1, limit: 1 },
        Reason::PluginQueued { cause: cause(), away: 0, limit: 3 },
        Reason::PluginHeldUp { cause: cause(), failed: 1 },
        Reason::PluginHeldUp { cause: cause(), failed: 2 },
        Reason::PluginStale { cause: cause() },
        Reason::PluginMissing,
        Reason::PluginUnschedulable {
            message: "0/4 nodes are available: 1 Insufficient cpu.".into(),
        },
        Reason::PluginNotReady { trouble: None },
        Reason::PluginNotReady { trouble: Some("gpus: CrashLoopBackOff".into()) },
        Reason::SliceMissing { driver: names::DRA_GPU_DRIVER.into() },
        Reason::SliceOutdated { published: "570.195.03".into(), loaded: "580.126.20".into() },
        Reason::DraMissing { namespaces: Vec::new() },
        Reason::DraMissing {
            namespaces: vec!["nvidia-dra-driver-gpu".into(), "gpu-operator".into()],
        },
        Reason::DraScheduledNowhere {
            daemon_set: "nvidia-dra-driver-gpu/nvidia-dra-driver-gpu-kubelet-plugin".into(),
        },
    ]
}

fn of_plugins() -> Vec<Reason> {
    let (config_map, key) = (|| "device-plugin-config".to_owned(), || "a100-shared".to_owned());
    let cause = || {
        format!(
            "its container started at {AT:.0}, its configuration `a100-shared` dates from {LATER:.0}"
        )
    };
    let daemon_set = || "nvidia-device-plugin-daemonset".to_owned();
    vec![
        Reason::ConfigMissing { config_map: config_map(), namespace: "gpu-operator".into() },
        Reason::ConfigNotApplied { config_map: config_map(), key: key(), found: "nothing" },
        Reason::ConfigNotApplied { config_map: config_map(), key: key(), found: "different text" },
        Reason::RestartQueued { cause: cause(), away: 1, limit: 1 },
        Reason::RestartQueued { cause: cause(), away: 0, limit: 3 },
        Reason::RestartHeldUp { cause: cause(), failed: 1 },
        Reason::RestartHeldUp { cause: cause(), failed: 2 },
        Reason::RestartRolling { daemon_set: daemon_set() },
        Reason::RestartPending {
            daemon_set: daemon_set(),
            trouble: "config-manager-init: CrashLoopBackOff".into(),
        },
    ]
}

fn of_writes() -> Vec<Reason> {
    let denied = || {
        "admission webhook \"nodes.example.com\" denied the request: node gpu-1 is reserved"
            .to_owned()
    };
    let message =
        "failed calling webhook \"nodes.example.com\": context deadline exceeded".to_owned();
    vec![
        Reason::WriteRefused { write: WriteKind::Node, message: denied(), cordoned: false },
        Reason::WriteRefused { write: WriteKind::Eviction, message: denied(), cordoned: true },
        Reason::WriteRefused { write: WriteKind::PodDeletion, message: denied(), cordoned: true },
        Reason::WriteRetried { write: WriteKind::Node, message, attempts: 1, limit: 3 },
    ]
}
