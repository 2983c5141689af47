//! A sample of everything that can keep a node under the vendor's controller, and of every form that it is told in, for the catalog of
//! messages (`rollout/messages.rs`).

use jiff::Timestamp;

use crate::contract::driver::Driver;
use crate::rollout::vendor::pass::{PassError, Write};
use crate::rollout::vendor::predict::Step;
use crate::rollout::vendor::snapshot::{BuildError, Users};
use crate::rollout::vendor::state::State;

use super::{Holder, Wait};

/// The time in all samples: 2023-11-14T22:13:20Z.
pub(crate) const AT: Timestamp = Timestamp::constant(1_700_000_000, 0);
/// A tick of the controller later.
const LATER: Timestamp = Timestamp::constant(1_700_000_120, 0);

/// The driver pod in all samples.
const POD: &str = "nvidia-driver-daemonset-7x2kq";

fn holder(node: &str, state: State) -> Holder {
    Holder { node: node.into(), state, failed: state == State::Failed, cordoned: false, not_ready: false }
}

/// What nodes wait for.
pub(crate) fn waits() -> Vec<Wait> {
    [of_the_controller(), of_slots(), of_the_work(), of_the_driver()].concat()
}

/// What keeps the controller from moving anything, or one node.
fn of_the_controller() -> Vec<Wait> {
    vec![
        Wait::Off,
        Wait::SandboxWorkloads,
        Wait::Blocked { error: BuildError::NoNode { pod: POD.into() } },
        Wait::PassEnds { error: PassError::NoDrain },
        Wait::Asleep { step: Step::To(State::CordonRequired), since: Some(AT), until: Some(LATER) },
        Wait::Asleep { step: Step::To(State::CordonRequired), since: None, until: None },
        Wait::Asleep { step: Step::DeletePod, since: Some(AT), until: Some(LATER) },
        Wait::Asleep { step: Step::Evict, since: Some(AT), until: Some(LATER) },
        Wait::Asleep { step: Step::Drain, since: Some(AT), until: Some(LATER) },
        Wait::Asleep { step: Step::Load, since: Some(AT), until: Some(LATER) },
        Wait::Skipped { label: Driver::Gpu.traits().skip_label },
        Wait::UnknownState { label: "upgrade-paused".into() },
        Wait::NoDriverPod,
    ]
}

/// What keeps a node from its turn.
fn of_slots() -> Vec<Wait> {
    let unavailable = |counted, holders: Vec<Holder>, ahead: Vec<String>| Wait::Unavailable {
        limit: counted,
        written: "25%".into(),
        total: 8,
        counted,
        holders: holders.into_iter().collect(),
        ahead: ahead.into_iter().collect(),
    };
    let cordoned = Holder { cordoned: true, ..holder("gpu-2", State::Done) };
    let away = Holder { not_ready: true, ..holder("gpu-3", State::Done) };
    vec![
        Wait::Parallel {
            limit: 7,
            holders: (2..9).map(|node| holder(&format!("gpu-{node}"), State::PodRestartRequired)).collect(),
            ahead: std::iter::empty().collect(),
        },
        Wait::Parallel {
            limit: 2,
            holders: std::iter::once(holder("gpu-2", State::DrainRequired)).collect(),
            ahead: std::iter::once("gpu-3".to_owned()).collect(),
        },
        Wait::Parallel {
            limit: 1,
            holders: std::iter::once(holder("gpu-2", State::Failed)).collect(),
            ahead: std::iter::empty().collect(),
        },
        unavailable(1, vec![cordoned.clone()], Vec::new()),
        unavailable(2, vec![cordoned, away], vec!["gpu-4".into()]),
    ]
}

/// What goes on on a node whose turn has come, before its driver pod goes.
fn of_the_work() -> Vec<Wait> {
    let users = |budgets| Some(Users { wanted: 2, evictable: 1, budgets });
    vec![
        Wait::Jobs { count: 1, since: None, until: None },
        Wait::Jobs { count: 2, since: Some(AT), until: Some(LATER) },
        Wait::Evicting { users: None, timeout_seconds: 300, drain: false },
        Wait::Evicting { users: None, timeout_seconds: 0, drain: false },
        Wait::Evicting { users: users(Vec::new()), timeout_seconds: 300, drain: true },
        Wait::Evicting { users: users(vec!["inference/llm".into()]), timeout_seconds: 300, drain: true },
        Wait::Draining { timeout_seconds: 300 },
        Wait::Draining { timeout_seconds: 0 },
        Wait::Maintenance { found: Some("Scheduled".into()) },
        Wait::Maintenance { found: None },
        Wait::MaintenanceOff,
    ]
}

/// What its driver pod does, and what comes after it.
fn of_the_driver() -> Vec<Wait> {
    let trouble = || Some("nvidia-driver-ctr: CrashLoopBackOff".to_owned());
    vec![
        Wait::Terminating { pod: POD.into() },
        Wait::DriverStarting { pod: POD.into(), trouble: None, restarts: 0 },
        Wait::DriverStarting { pod: POD.into(), trouble: trouble(), restarts: 3 },
        Wait::NoValidator,
        Wait::Validating { pod: "nvidia-operator-validator-q8d5z".into(), until: Some(LATER) },
        Wait::Validating { pod: "nvidia-operator-validator-q8d5z".into(), until: None },
        Wait::FailedBefore,
        Wait::FailedDriver { pod: POD.into(), trouble: None },
        Wait::FailedDriver { pod: POD.into(), trouble: trouble() },
    ]
}

/// Why the controller does nothing for any node.
pub(crate) fn build_errors() -> Vec<BuildError> {
    let count = |owned, missing: &[&str], surplus: &[&str]| BuildError::PodCount {
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
        BuildError::NodeMissing { pod: POD.into(), node: "gpu-1".into() },
        BuildError::NoNode { pod: POD.into() },
    ]
}

/// What ends a pass.
pub(crate) fn pass_errors() -> Vec<PassError> {
    let traits = Driver::Gpu.traits();
    let node = || "gpu-1".to_owned();
    let errors = vec![
        PassError::Build(BuildError::NoNode { pod: POD.into() }),
        PassError::NoHash { node: node(), pod: POD.into() },
        PassError::NoRevision { node: node(), pod: POD.into() },
        PassError::MaxUnavailable { text: "a few".into() },
        PassError::NoDrain,
        PassError::NoPodDeletion { node: node() },
        PassError::StartTime { node: node(), key: traits.wait_start, value: "soon".into() },
    ];
    errors.into_iter().chain(writes().into_iter().map(|write| PassError::Refused { write })).collect()
}

/// What the controller writes, and may be refused.
fn writes() -> Vec<Write> {
    let (node, name) = (|| "gpu-1".to_owned(), || "nvidia-operator-gpu-1".to_owned());
    let key = Driver::Gpu.traits().safe_load;
    let pod = Write::DeletePod { node: node(), namespace: "gpu-operator".into(), name: POD.into(), uid: "5e0c".into() };
    vec![
        Write::State { node: node(), state: State::CordonRequired },
        Write::Annotate { node: node(), key, value: Some("true".into()) },
        Write::Annotate { node: node(), key, value: None },
        Write::Cordon { node: node() },
        Write::Uncordon { node: node() },
        pod,
        Write::Evict { node: node() },
        Write::Drain { node: node() },
        Write::CreateMaintenance { node: node(), name: name() },
        Write::JoinMaintenance { node: node(), name: name() },
        Write::LeaveMaintenance { node: node(), name: name() },
        Write::DeleteMaintenance { node: node(), name: name() },
    ]
}
