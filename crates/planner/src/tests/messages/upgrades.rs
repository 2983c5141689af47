//! A sample of every condition that a node waits for in the modes `drive` and `steer`, in every
//! form of its message, for the catalog of messages.

use std::sync::Arc;

use jiff::Timestamp;

use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::start_limits::StartRefusal;
use crate::drive_upgrade::state::UpgradeState;
use contract::acceptance::AcceptanceTime;
use contract::driver::Driver;
use contract::record::proof::HaltCause;

use super::{AT, LATER};
use crate::reason::upgrade::UpgradeReason;

/// Every blocking condition.
pub(super) fn upgrading() -> Vec<UpgradeReason> {
    let refused = refusals().into_iter().map(UpgradeReason::Refused);
    // A node that fails for this cause is not accepted.
    let is_failed = |cause: &FailureCause| *cause != FailureCause::AcceptanceFailedBefore;
    let failed = FailureCause::ALL.into_iter().filter(is_failed).map(failed);
    [of_the_turn(), of_others(), of_the_work(), of_the_end()]
        .concat()
        .into_iter()
        .chain(refused)
        .chain(failed)
        .collect()
}

/// Why a node may not be started.
pub(super) fn refusals() -> Vec<StartRefusal> {
    let two = || ["gpu-2".to_owned(), "gpu-3".to_owned()].into();
    vec![
        StartRefusal::Paused { key: "maxUnavailable" },
        StartRefusal::Slots { limit: 2, holders: two() },
        unavailable(),
        StartRefusal::Group { group: "rack-a".into(), limit: 2, holders: two() },
    ]
}

fn unavailable() -> StartRefusal {
    StartRefusal::Unavailable { limit: 1, total: 8, holders: ["gpu-2".to_owned()].into() }
}

fn paused(why: Option<&str>, until: Option<Timestamp>, is_late: bool) -> UpgradeReason {
    let (by, why) = ("ada@example.com".to_owned(), why.map(str::to_owned));
    UpgradeReason::Paused { by, why, at: Some(AT), until, is_late }
}

/// What keeps a node from its turn.
fn of_the_turn() -> Vec<UpgradeReason> {
    vec![
        paused(None, None, false),
        UpgradeReason::Paused {
            by: "annotation gpu-rollout.dev/pause".into(),
            why: Some("INC-4711".into()),
            at: None,
            until: None,
            is_late: false,
        },
        paused(Some("a benchmark runs"), None, false),
        paused(None, Some(LATER), false),
        paused(Some("a benchmark runs"), Some(LATER), true),
        UpgradeReason::Soak { until: LATER },
        UpgradeReason::OutsideWindow { opens: LATER, deadline: None },
        UpgradeReason::OutsideWindow { opens: LATER, deadline: Some(LATER) },
        UpgradeReason::CanariesFirst {
            canaries: Arc::default(),
            proven: 0,
            awaited: Arc::default(),
        },
        UpgradeReason::CanariesFirst {
            canaries: ["gpu-2".to_owned(), "gpu-3".to_owned()].into(),
            proven: 1,
            awaited: Arc::default(),
        },
        UpgradeReason::CanariesFirst {
            canaries: ["gpu-2".to_owned()].into(),
            proven: 1,
            awaited: ["gpu-3".to_owned()].into(),
        },
        UpgradeReason::RampStep { share: "10%".parse().expect("a share"), limit: 12, total: 120 },
        UpgradeReason::StepSoak {
            step: "the canaries".into(),
            until: LATER,
            next: "10% = 12 of 120 nodes".into(),
        },
        UpgradeReason::Halted {
            cause: HaltCause::FailedProofs,
            nodes: ["gpu-2".to_owned()].into(),
            labels: ["nvidia.com/gpu.product=NVIDIA-L4".to_owned()].into(),
            at: AT,
        },
        UpgradeReason::Halted {
            cause: HaltCause::FailedNodes,
            nodes: ["gpu-2".to_owned(), "gpu-3".to_owned()].into(),
            labels: [].into(),
            at: AT,
        },
        UpgradeReason::Halted {
            cause: HaltCause::FailedTests,
            nodes: ["gpu-2".to_owned(), "gpu-3".to_owned()].into(),
            labels: [].into(),
            at: AT,
        },
        UpgradeReason::FailureBudget { failed: ["gpu-2".to_owned()].into(), budget: 0 },
        UpgradeReason::FailureBudget {
            failed: ["gpu-2".to_owned(), "gpu-3".to_owned()].into(),
            budget: 1,
        },
        UpgradeReason::NoTime { deadline: LATER, per_node: 1800, held: None },
        UpgradeReason::NoTime { deadline: LATER, per_node: 1800, held: Some(unavailable()) },
        UpgradeReason::Queued,
    ]
}

/// Who else has the node.
fn of_others() -> Vec<UpgradeReason> {
    let other = |driver, state: &str, ours| UpgradeReason::OtherDriver {
        driver,
        state: state.into(),
        ours,
    };
    vec![
        UpgradeReason::ForeignCordon,
        UpgradeReason::Maintenance {
            name: "gpu-1-firmware".into(),
            requestor: "platform.example.com".into(),
        },
        UpgradeReason::Requestor,
        other(Driver::Gpu, "drain-required", false),
        other(Driver::Ofed, "upgrade-required", false),
        other(Driver::DaemonSet, UpgradeState::PodRestartRequired.name(), true),
        UpgradeReason::NewerRecord { version: 2 },
    ]
}

/// Steps of a started node.
fn of_the_work() -> Vec<UpgradeReason> {
    let jobs = ["training/resnet-0-x7k2p", "training/resnet-1-m4d9s"].map(str::to_owned);
    let ending = |trouble: Option<&str>| UpgradeReason::DriverEnding {
        pod: "nvidia-driver-daemonset-7x2kq".into(),
        trouble: trouble.map(str::to_owned),
    };
    let pod = "inference/llm-0 (eviction requested 3 times in 40 s: a PodDisruptionBudget forbids it for now; next request in 20 s)";
    vec![
        UpgradeReason::Cordoning,
        UpgradeReason::Jobs { jobs: jobs[..1].to_vec(), until: None },
        UpgradeReason::Jobs { jobs: jobs.to_vec(), until: Some(LATER) },
        UpgradeReason::Listing,
        UpgradeReason::Evicting { pods: vec![pod.into()], until: Some(LATER) },
        UpgradeReason::Evicting { pods: vec![pod.into(), "inference/llm-1".into()], until: None },
        ending(None),
        ending(Some("the node is NotReady")),
        UpgradeReason::DriverComing,
        UpgradeReason::Unwanted,
    ]
}

/// How it ends.
fn of_the_end() -> Vec<UpgradeReason> {
    let again = |attempts| UpgradeReason::Retry {
        message: why(FailureCause::EvictionTimeout).into(),
        attempts,
        limit: 3,
        at: LATER,
    };
    let (cause, message) = (FailureCause::DrainTimeout, why(FailureCause::DrainTimeout).to_owned());
    vec![
        UpgradeReason::Validating {
            trouble: "driver-validation: CrashLoopBackOff".into(),
            until: LATER,
        },
        accepting(AcceptanceTime::Before, None),
        accepting(AcceptanceTime::After, None),
        accepting(AcceptanceTime::After, Some("ImagePullBackOff: registry.example.com/dcgm:4.2")),
        UpgradeReason::AcceptanceEnding { pod: "dcgm-0a1b2c3d4e".into() },
        not_accepted(false),
        not_accepted(true),
        again(1),
        UpgradeReason::Failed { cause, message, attempts: 1, cordoned: false },
        UpgradeReason::Releasing,
    ]
}

/// A node whose acceptance test has not ended.
fn accepting(time: AcceptanceTime, trouble: Option<&str>) -> UpgradeReason {
    let trouble = trouble.map(str::to_owned);
    UpgradeReason::Accepting { test: "dcgm".into(), time, trouble, until: LATER }
}

/// A node that keeps its old driver because a test failed with it.
fn not_accepted(cordoned: bool) -> UpgradeReason {
    let message = why(FailureCause::AcceptanceFailedBefore).into();
    UpgradeReason::NotAccepted { message, cordoned }
}

/// A node that failed for this as often as it may.
fn failed(cause: FailureCause) -> UpgradeReason {
    UpgradeReason::Failed {
        cause,
        message: why(cause).into(),
        attempts: 3,
        cordoned: !cause.is_before_restart(),
    }
}

/// Returns the details of one failure with this cause.
fn why(cause: FailureCause) -> &'static str {
    match cause {
        FailureCause::PodsNotEvictable => {
            "no pod was evicted: training/notebook has no controller that would recreate it; podDeletion.force would allow the eviction"
        }
        FailureCause::EvictionTimeout | FailureCause::DrainTimeout => {
            "pods did not leave within 300 s: inference/llm-0"
        }
        FailureCause::DrainBlocked => {
            "no pod was evicted: training/cache-0 has an emptyDir on disk, which would be lost; drain.deleteEmptyDir would allow the eviction"
        }
        FailureCause::CordonContested => "another user or controller uncordoned the node 4 times",
        FailureCause::TerminationTimeout => "the old driver pod did not terminate within 1800 s",
        FailureCause::DriverFailing => "11 restarts: nvidia-driver-ctr: CrashLoopBackOff",
        FailureCause::DriverTimeout => {
            "the driver pod did not become ready within 1800 s: nvidia-driver-ctr: CreateContainerError"
        }
        FailureCause::ValidationTimeout => "driver-validation: CrashLoopBackOff",
        FailureCause::AcceptanceFailedBefore => {
            "acceptance test `dcgm` failed with the old driver: dcgm: exit code 226"
        }
        FailureCause::AcceptanceFailed => {
            "acceptance test `dcgm` could not be scheduled: 0/3 nodes are available: 1 Insufficient nvidia.com/gpu"
        }
        FailureCause::PluginNotServing => "no ResourceSlice of gpu.nvidia.com for the node",
        FailureCause::WriteRefused | FailureCause::WriteRefusedAfterRestart => {
            "admission webhook \"nodes.example.com\" denied the request: node gpu-1 is reserved"
        }
    }
}
