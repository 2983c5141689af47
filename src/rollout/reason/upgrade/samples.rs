//! A sample of everything that a node waits for in an upgrade that we do or steer, and of every form that it is told in, for the catalog
//! of messages (`rollout/messages.rs`).

use crate::contract::driver::Driver;
use crate::rollout::upgrade::cause::Cause;
use crate::rollout::upgrade::state::State;
use crate::rollout::upgrade::throttle::Refusal;
use crate::rollout::vendor::explain::samples::AT;

use super::Upgrading;

/// What is waited for.
pub(crate) fn upgrading() -> Vec<Upgrading> {
    let refused = refusals().into_iter().map(Upgrading::Refused);
    let failed = Cause::ALL.into_iter().map(failed);
    [of_the_turn(), of_others(), of_the_work(), of_the_end()].concat().into_iter().chain(refused).chain(failed).collect()
}

/// Why a node may not be started.
pub(crate) fn refusals() -> Vec<Refusal> {
    let two = || ["gpu-2".to_owned(), "gpu-3".to_owned()].into();
    vec![
        Refusal::Paused { key: "maxUnavailable" },
        Refusal::Slots { limit: 2, holders: two() },
        unavailable(),
        Refusal::Group { group: "rack-a".into(), limit: 2, holders: two() },
    ]
}

fn unavailable() -> Refusal {
    Refusal::Unavailable { limit: 1, total: 8, holders: ["gpu-2".to_owned()].into() }
}

/// What keeps a node from its turn.
fn of_the_turn() -> Vec<Upgrading> {
    vec![
        Upgrading::Paused { by: "ada@example.com".into(), why: None, at: AT },
        Upgrading::Paused { by: "ada@example.com".into(), why: Some("a benchmark runs".into()), at: AT },
        Upgrading::Soak { until: AT },
        Upgrading::FailureBudget { failed: ["gpu-2".to_owned()].into(), budget: 0 },
        Upgrading::FailureBudget { failed: ["gpu-2".to_owned(), "gpu-3".to_owned()].into(), budget: 1 },
        Upgrading::NoTime { deadline: AT, per_node: 1800, held: None },
        Upgrading::NoTime { deadline: AT, per_node: 1800, held: Some(unavailable()) },
        Upgrading::Queued,
    ]
}

/// Who else has the node.
fn of_others() -> Vec<Upgrading> {
    let other = |driver, state: &str, ours| Upgrading::OtherDriver { driver, state: state.into(), ours };
    vec![
        Upgrading::ForeignCordon,
        Upgrading::Maintenance { name: "gpu-1-firmware".into(), requestor: "platform.example.com".into() },
        Upgrading::Requestor,
        other(Driver::Gpu, "drain-required", false),
        other(Driver::Ofed, "upgrade-required", false),
        other(Driver::DaemonSet, State::PodRestartRequired.name(), true),
        Upgrading::NewerRecord { version: 2 },
    ]
}

/// What goes on on a node whose turn has come.
fn of_the_work() -> Vec<Upgrading> {
    let jobs = ["training/resnet-0-x7k2p", "training/resnet-1-m4d9s"].map(str::to_owned);
    let pod = "inference/llm-0 (asked to leave 3 times in 40 s, a PodDisruptionBudget forbids it for now; again in 20 s)";
    vec![
        Upgrading::Cordoning,
        Upgrading::Jobs { jobs: jobs[..1].to_vec(), until: None },
        Upgrading::Jobs { jobs: jobs.to_vec(), until: Some(AT) },
        Upgrading::Listing,
        Upgrading::Evicting { pods: vec![pod.into()], until: Some(AT) },
        Upgrading::Evicting { pods: vec![pod.into(), "inference/llm-1".into()], until: None },
        Upgrading::DriverEnding { pod: "nvidia-driver-daemonset-7x2kq".into() },
        Upgrading::DriverComing,
        Upgrading::Unwanted,
    ]
}

/// How it ends.
fn of_the_end() -> Vec<Upgrading> {
    let again = |attempts| Upgrading::Retry { message: why(Cause::EvictionTimeout).into(), attempts, limit: 3, at: AT };
    let (cause, message) = (Cause::DrainTimeout, why(Cause::DrainTimeout).to_owned());
    vec![
        Upgrading::Validating { trouble: "driver-validation: CrashLoopBackOff".into(), until: AT },
        again(1),
        Upgrading::Failed { cause, message, attempts: 1, cordoned: false },
        Upgrading::GivingBack,
    ]
}

/// A node that failed for this as often as it may.
fn failed(cause: Cause) -> Upgrading {
    Upgrading::Failed { cause, message: why(cause).into(), attempts: 3, cordoned: !cause.is_before_restart() }
}

/// What is said of one failure beside its cause.
fn why(cause: Cause) -> &'static str {
    match cause {
        Cause::PodsNotEvictable => {
            "no pod was touched: training/notebook has no controller, and nobody would bring it back (podDeletion.force would allow it)"
        }
        Cause::EvictionTimeout | Cause::DrainTimeout => "not gone after 300 s: inference/llm-0",
        Cause::DrainBlocked => {
            "no pod was touched: training/cache-0 has an emptyDir on disk, which would be lost (drain.deleteEmptyDir would allow it)"
        }
        Cause::CordonContested => "somebody uncordoned the node 4 times",
        Cause::DriverFailing => "11 restarts: nvidia-driver-ctr: CrashLoopBackOff",
        Cause::DriverTimeout => "not ready within 1800 s: it is not ready",
        Cause::ValidationTimeout => "driver-validation: CrashLoopBackOff",
        Cause::PluginNotServing => "no ResourceSlice of gpu.nvidia.com for the node",
        Cause::WriteRefused | Cause::WriteRefusedAfterRestart => {
            "admission webhook \"nodes.example.com\" denied the request: node gpu-1 is reserved"
        }
    }
}
