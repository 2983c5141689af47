//! A sample of every condition that a node under NVIDIA's controller can wait for, in every form of
//! its message, for the catalog of messages.

use contract::driver::Driver;
use nvidia_upgrade::explain::{ControllerWait, HolderCause, SlotHolder};
use nvidia_upgrade::pass::{PassError, PassWrite};
use nvidia_upgrade::predict::PredictedStep;
use nvidia_upgrade::snapshot::SnapshotError;
use nvidia_upgrade::state::ControllerState;

use super::{AT, LATER};

/// The driver pod in all samples.
const POD: &str = "nvidia-driver-daemonset-7x2kq";

fn holder(node: &str, cause: HolderCause) -> SlotHolder {
    SlotHolder { node: node.into(), cause }
}

/// What nodes wait for.
pub(super) fn waits() -> Vec<ControllerWait> {
    [of_the_controller(), of_slots(), of_the_work(), of_the_driver()].concat()
}

/// What keeps the controller from moving anything, or one node.
fn of_the_controller() -> Vec<ControllerWait> {
    vec![
        ControllerWait::Off,
        ControllerWait::SandboxWorkloads,
        ControllerWait::Blocked { error: SnapshotError::NoNode { pod: POD.into() } },
        ControllerWait::PassEnds { error: PassError::NoDrain },
        ControllerWait::Asleep {
            step: PredictedStep::To(ControllerState::CordonRequired),
            since: Some(AT),
            until: Some(LATER),
        },
        ControllerWait::Asleep {
            step: PredictedStep::To(ControllerState::CordonRequired),
            since: None,
            until: None,
        },
        ControllerWait::Asleep {
            step: PredictedStep::DeletePod,
            since: Some(AT),
            until: Some(LATER),
        },
        ControllerWait::Asleep { step: PredictedStep::Evict, since: Some(AT), until: Some(LATER) },
        ControllerWait::Asleep { step: PredictedStep::Drain, since: Some(AT), until: Some(LATER) },
        ControllerWait::Asleep { step: PredictedStep::Load, since: Some(AT), until: Some(LATER) },
        ControllerWait::Skipped { label: Driver::Gpu.traits().skip_label },
        ControllerWait::UnknownState { label: "upgrade-paused".into() },
    ]
}

/// What keeps a node from its turn.
fn of_slots() -> Vec<ControllerWait> {
    let unavailable =
        |counted, holders: Vec<SlotHolder>, ahead: Vec<String>| ControllerWait::Unavailable {
            limit: counted,
            written: "25%".into(),
            // 25 % of it is the limit.
            total: 4 * counted,
            counted,
            holders: holders.into_iter().collect(),
            ahead: ahead.into_iter().collect(),
        };
    let cordoned = holder("gpu-2", HolderCause::Unavailable { cordoned: true, not_ready: false });
    let away = holder("gpu-3", HolderCause::Unavailable { cordoned: false, not_ready: true });
    vec![
        ControllerWait::Parallel {
            limit: 7,
            holders: (2..9)
                .map(|node| holder(&format!("gpu-{node}"), HolderCause::InProgress))
                .collect(),
            ahead: std::iter::empty().collect(),
        },
        ControllerWait::Parallel {
            limit: 2,
            holders: std::iter::once(holder("gpu-2", HolderCause::InProgress)).collect(),
            ahead: std::iter::once("gpu-3".to_owned()).collect(),
        },
        ControllerWait::Parallel {
            limit: 1,
            holders: std::iter::once(holder("gpu-2", HolderCause::Failed)).collect(),
            ahead: std::iter::empty().collect(),
        },
        unavailable(1, vec![cordoned.clone()], Vec::new()),
        unavailable(2, vec![cordoned, away], vec!["gpu-4".into()]),
    ]
}

/// Steps of a started node before its driver pod is deleted.
fn of_the_work() -> Vec<ControllerWait> {
    vec![
        ControllerWait::Jobs { count: 1, since: None, until: None },
        ControllerWait::Jobs { count: 2, since: Some(AT), until: Some(LATER) },
        ControllerWait::Evicting { timeout_seconds: 300, drain: false },
        ControllerWait::Evicting { timeout_seconds: 0, drain: false },
        ControllerWait::Evicting { timeout_seconds: 300, drain: true },
        ControllerWait::Draining { timeout_seconds: 300 },
        ControllerWait::Draining { timeout_seconds: 0 },
        ControllerWait::Maintenance { found: Some("Scheduled".into()) },
        ControllerWait::Maintenance { found: None },
        ControllerWait::MaintenanceOff,
    ]
}

/// What its driver pod does, and what comes after it.
fn of_the_driver() -> Vec<ControllerWait> {
    let trouble = || Some("nvidia-driver-ctr: CrashLoopBackOff".to_owned());
    vec![
        ControllerWait::Terminating { pod: POD.into() },
        ControllerWait::DriverStarting { pod: POD.into(), trouble: None, restarts: 0 },
        ControllerWait::DriverStarting { pod: POD.into(), trouble: trouble(), restarts: 3 },
        ControllerWait::NoValidator,
        ControllerWait::Validating {
            pod: "nvidia-operator-validator-q8d5z".into(),
            until: Some(LATER),
        },
        ControllerWait::Validating { pod: "nvidia-operator-validator-q8d5z".into(), until: None },
        ControllerWait::FailedBefore,
        ControllerWait::FailedDriver { pod: POD.into(), trouble: None },
        ControllerWait::FailedDriver { pod: POD.into(), trouble: trouble() },
    ]
}

/// Why the controller does nothing for any node.
pub(super) fn build_errors() -> Vec<SnapshotError> {
    let count = |owned, missing: &[&str], surplus: &[&str]| SnapshotError::PodCount {
        daemon_set: "nvidia-driver-daemonset".into(),
        desired: 4,
        owned,
        missing: missing.iter().map(|node| (*node).to_owned()).collect(),
        surplus: surplus.iter().map(|node| (*node).to_owned()).collect(),
    };
    vec![
        count(3, &["gpu-1"], &[]),
        count(5, &[], &["gpu-2", "gpu-3"]),
        count(3, &["gpu-1"], &["gpu-2"]),
        SnapshotError::NodeMissing { pod: POD.into(), node: "gpu-1".into() },
        SnapshotError::NoNode { pod: POD.into() },
    ]
}

/// What ends a pass.
pub(super) fn pass_errors() -> Vec<PassError> {
    let traits = Driver::Gpu.traits();
    let node = || "gpu-1".to_owned();
    let errors = vec![
        PassError::Build(SnapshotError::NoNode { pod: POD.into() }),
        PassError::NoHash { node: node(), pod: POD.into() },
        PassError::NoRevision { node: node(), pod: POD.into() },
        PassError::MaxUnavailable { text: "a few".into() },
        PassError::NoDrain,
        PassError::NoPodDeletion { node: node() },
        PassError::StartTime { node: node(), key: traits.wait_start, value: "soon".into() },
    ];
    errors
        .into_iter()
        .chain(writes().into_iter().map(|write| PassError::Refused { write }))
        .collect()
}

/// What the controller writes, and may be refused.
fn writes() -> Vec<PassWrite> {
    let (node, name) = (|| "gpu-1".to_owned(), || "nvidia-operator-gpu-1".to_owned());
    let key = Driver::Gpu.traits().safe_load;
    let pod = PassWrite::DeletePod {
        node: node(),
        namespace: "gpu-operator".into(),
        name: POD.into(),
        uid: "5e0c".into(),
    };
    vec![
        PassWrite::State { node: node(), state: ControllerState::CordonRequired },
        PassWrite::Annotate { node: node(), key, value: Some("true".into()) },
        PassWrite::Annotate { node: node(), key, value: None },
        PassWrite::Cordon { node: node() },
        PassWrite::Uncordon { node: node() },
        pod,
        PassWrite::Evict { node: node() },
        PassWrite::Drain { node: node() },
        PassWrite::CreateMaintenance { node: node(), name: name() },
        PassWrite::JoinMaintenance { node: node(), name: name() },
        PassWrite::LeaveMaintenance { node: node(), name: name() },
        PassWrite::DeleteMaintenance { node: node(), name: name() },
    ]
}
