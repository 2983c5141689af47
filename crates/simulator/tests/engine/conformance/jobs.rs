//! Lines 56 to 65: jobs.

use contract::driver::Driver;
use contract::policy::{CompletionPolicy, Policy};
use nvidia_upgrade::pass::{PassError, PassWrite, pass_with};
use nvidia_upgrade::snapshot::{NodeEntry, SnapshotInputs};
use nvidia_upgrade::{ControllerState, PassOptions, PolicyRules, UpgradeSnapshot, pass};
use observed::workload::{AwaitedPod, PodPhase};
use observed::{
    ClusterPolicy, Observed, ObservedDaemonSet, ObservedNode, ObservedPod, OptionalApi,
};

use super::fixture::{NOW, cordoned, enabled, old, one, options, rules, snapshot, with, writes};

const NOTHING: [&str; 0] = [];
const STARTED: &str = "a: nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time";
const GONE: &str = "a: nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time removed";

fn waiting(jobs: usize, start: Option<&'static str>) -> NodeEntry<'static> {
    with(cordoned(old("a", ControllerState::WaitForJobsRequired)), |entry| {
        (entry.jobs, entry.notes.wait_start) = (jobs, start);
    })
}

fn wait(timeout_seconds: u64) -> PolicyRules {
    let wait_for_completion =
        Some(CompletionPolicy { pod_selector: "app=train".into(), timeout_seconds });
    enabled(Policy { wait_for_completion, ..rules().policy })
}

fn run(entry: NodeEntry<'static>, rules: &PolicyRules) -> Vec<String> {
    writes(&pass(&snapshot([entry]), rules, &options()))
}

#[test]
fn line_056_node_drains_without_selector_and_pod_deletion() {
    let no_filter = PassOptions { pod_deletion: false, ..options() };
    assert_eq!(
        writes(&pass(&snapshot([waiting(0, None)]), &rules(), &no_filter)),
        ["a: drain-required"]
    );
}

#[test]
fn line_057_without_selector_the_pods_go() {
    assert_eq!(one(waiting(3, None)), ["a: pod-deletion-required"]);
}

#[test]
fn line_058_pods_go_when_all_jobs_finished() {
    assert_eq!(run(waiting(0, Some("1")), &wait(30)), [GONE, "a: pod-deletion-required"]);
}

#[test]
fn line_059_running_job_is_awaited_without_limit() {
    assert_eq!(run(waiting(1, None), &wait(0)), NOTHING);
    assert_eq!(run(waiting(1, Some("1")), &wait(0)), NOTHING);
}

#[test]
fn line_060_a_running_job_starts_the_time() {
    assert_eq!(run(waiting(1, None), &wait(30)), [format!("{STARTED}={NOW}")]);
}

#[test]
fn line_061_overdue_job_is_not_awaited() {
    assert_eq!(run(waiting(1, Some("1799999965")), &wait(30)), ["a: pod-deletion-required", GONE]);
}

#[test]
fn line_063_at_the_limit_nothing_happens_yet() {
    assert_eq!(run(waiting(1, Some("1799999970")), &wait(30)), NOTHING);
    assert_eq!(run(waiting(1, Some("1799999969")), &wait(30)), ["a: pod-deletion-required", GONE]);
}

#[test]
fn line_065_selector_removes_pods_without_pod_deletion() {
    let no_filter = PassOptions { pod_deletion: false, ..options() };
    assert_eq!(
        writes(&pass(&snapshot([waiting(0, None)]), &wait(0), &no_filter)),
        [GONE, "a: pod-deletion-required"]
    );
}

#[test]
fn invalid_start_time_is_only_logged() {
    let outcome = pass(&snapshot([waiting(1, Some("soon"))]), &wait(30), &options());
    assert_eq!(writes(&outcome), NOTHING);
    let key = Driver::Gpu.traits().wait_start;
    assert_eq!(
        outcome.swallowed,
        [PassError::StartTime { node: "a".into(), key, value: "soon".into() }]
    );
}

#[test]
fn refused_label_does_not_end_the_pass() {
    let refused =
        PassWrite::State { node: "a".into(), state: ControllerState::PodDeletionRequired };
    let entries = [waiting(0, None), old("b", ControllerState::PodRestartRequired)];
    let outcome =
        pass_with(&snapshot(entries), &rules(), &options(), &mut |write| *write != refused);
    assert_eq!(writes(&outcome), ["b: delete pod/driver"]);
    assert_eq!(outcome.swallowed, [PassError::Refused { write: refused }]);
}

#[test]
fn line_062_and_064_active_jobs_count_in_every_namespace() {
    let job = |namespace: &str, node: &str, phase| AwaitedPod {
        namespace: namespace.into(),
        name: "train".into(),
        node: node.into(),
        phase,
    };
    let app = [("app".to_owned(), "nvidia-driver-daemonset".to_owned())];
    let mut observed = Observed {
        cluster_policy: OptionalApi::Served(Some(ClusterPolicy::default())),
        ..Observed::default()
    };
    for name in ["a", "b"] {
        observed.nodes.insert(name, ObservedNode { name: name.into(), ..ObservedNode::default() });
        let pod = ObservedPod {
            name: name.into(),
            node: Some(name.into()),
            owner: Some("ds".into()),
            labels: app.clone().into(),
            ..ObservedPod::default()
        };
        observed.pods.push(pod);
    }
    observed.daemon_sets.push(ObservedDaemonSet {
        uid: "ds".into(),
        desired: 2,
        template_labels: app.into(),
        ..ObservedDaemonSet::default()
    });
    observed.workloads.jobs = vec![
        job("one", "a", PodPhase::Running),
        job("two", "a", PodPhase::Pending),
        job("one", "a", PodPhase::Unknown),
        job("one", "a", PodPhase::Failed),
        job("one", "a", PodPhase::Succeeded),
    ];
    let seen = UpgradeSnapshot::from_observed(
        &observed,
        &SnapshotInputs::from_observed(&observed, Driver::Gpu),
    );
    assert_eq!(
        seen.entries.iter().map(|entry| (entry.node, entry.jobs)).collect::<Vec<_>>(),
        [("a", 2), ("b", 0)]
    );
}
