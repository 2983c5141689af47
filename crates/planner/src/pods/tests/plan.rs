//! What a step does on a node.

use crate::pods::device_users::{DeviceRules, DeviceUsers, HiddenDeviceUse};
use crate::pods::filter::{
    DaemonSetLiveness, EvictionStep, EvictionTerms, Liveness, OwnPods, PodFilter, drain_selector,
};
use crate::pods::fixture::{at, bare, gpu_pod, labeled, of_daemon_set, pod};
use crate::pods::plan::{LeavingStage, PodPlan, PodProgress, StepObstacle};
use contract::driver::Driver;
use contract::policy::{DrainPolicy, PodDeletionPolicy};
use contract::selector::Selector;
use observed::OptionalApi;
use observed::workload::{DeviceClaim, PodPhase, Workload};

static SERVED: OptionalApi<Vec<DeviceClaim>> = OptionalApi::Served(Vec::new());

/// What became of the pods, by name: progress, evicted, leaving, obstacle.
fn names(plan: &PodPlan<'_>) -> (PodProgress, Vec<String>, Vec<String>, Option<String>) {
    let evict = plan.evict.iter().map(|going| going.pod.name.clone()).collect();
    let leaving = plan.leaving.iter().map(|leaving| leaving.pod.name.clone()).collect();
    (plan.progress(), evict, leaving, plan.obstacle().map(|obstacle| obstacle.to_string()))
}

fn deletion(
    policy: &PodDeletionPolicy,
    pods: &[Workload],
) -> (PodProgress, Vec<String>, Vec<String>, Option<String>) {
    let (daemon_sets, own) = known();
    let filter = PodFilter {
        terms: EvictionTerms::from(policy),
        selector: Selector::default(),
        daemon_sets: &daemon_sets,
        own: &own,
    };
    let [vendor, ours] = [DeviceRules::Vendor { claims: true }, DeviceRules::Ours].map(|rules| {
        names(&PodPlan::pod_deletion(pods, &DeviceUsers::new(Driver::Gpu, rules, &SERVED), &filter))
    });
    assert_eq!(vendor, ours, "the conformance list holds for both");
    ours
}

fn drain(
    policy: &DrainPolicy,
    pods: &[Workload],
) -> (PodProgress, Vec<String>, Vec<String>, Option<String>) {
    let (daemon_sets, own) = known();
    let selector = drain_selector(Driver::Gpu, policy).expect("a selector");
    let filter = PodFilter {
        terms: EvictionTerms::from(policy),
        selector,
        daemon_sets: &daemon_sets,
        own: &own,
    };
    names(&PodPlan::drain(
        pods,
        &DeviceUsers::new(Driver::Gpu, DeviceRules::Ours, &SERVED),
        &filter,
    ))
}

fn known() -> (DaemonSetLiveness, OwnPods) {
    let gone = (("team".to_owned(), "gone".to_owned()), Liveness::Gone);
    (
        DaemonSetLiveness::from([gone]),
        OwnPods { uids: ["uid-hook".to_owned()].into(), ..OwnPods::default() },
    )
}

fn force() -> PodDeletionPolicy {
    PodDeletionPolicy { force: true, ..PodDeletionPolicy::default() }
}

fn shared_memory(pod: Workload) -> Workload {
    Workload { memory_dir: true, ..pod }
}

fn over() -> (PodProgress, Vec<String>, Vec<String>, Option<String>) {
    (PodProgress::Over, vec![], vec![], None)
}

/// Lines 67 and 76 of the conformance list.
#[test]
fn bare_gpu_pods_need_force_others_are_ignored() {
    let mig =
        Workload { resources: ["nvidia.com/mig-1g.10gb".to_owned()].into(), ..bare(pod("slice")) };
    let others = [
        bare(pod("database")),
        Workload { empty_dir: true, ..pod("cache") },
        of_daemon_set("gone", pod("left-over")),
    ];
    let pods: Vec<Workload> = [bare(gpu_pod("trainer")), mig].into_iter().chain(others).collect();
    let (progress, evict, leaving, obstacle) = deletion(&force(), &pods);
    assert_eq!(
        (progress, evict, leaving, obstacle),
        (PodProgress::Going, vec!["trainer".into(), "slice".into()], vec![], None)
    );
}

/// Lines 68, 69, 71, 72 and 74: whether the drain follows or the node fails is decided elsewhere;
/// no pod is touched.
#[test]
fn gpu_operator_454_one_forbidden_pod_keeps_all_untouched() {
    for (name, blocked, policy, text) in [
        (
            "bare",
            bare(gpu_pod("trainer")),
            PodDeletionPolicy::default(),
            "has no controller that would recreate it; podDeletion.force would allow the eviction",
        ),
        (
            "emptyDir",
            shared_memory(gpu_pod("trainer")),
            force(),
            "has an emptyDir in memory (shared memory), which would be lost; podDeletion.deleteEmptyDir would allow the eviction",
        ),
        (
            "DaemonSet",
            of_daemon_set("exporter", gpu_pod("trainer")),
            force(),
            "belongs to daemonset/exporter, which would recreate it at once",
        ),
        (
            "static",
            Workload { mirror: true, ..gpu_pod("trainer") },
            force(),
            "is a static pod of the node",
        ),
    ] {
        let (progress, evict, leaving, obstacle) = deletion(&policy, &[gpu_pod("server"), blocked]);
        assert_eq!((progress, evict, leaving), (PodProgress::Blocked, vec![], vec![]), "{name}");
        assert_eq!(
            obstacle.expect("an obstacle"),
            format!("no pod was evicted: team/trainer {text}"),
            "{name}"
        );
    }
}

/// Line 70.
#[test]
fn gpu_pods_with_empty_dir_follow_the_policy() {
    let policy = PodDeletionPolicy { delete_empty_dir: true, ..force() };
    assert_eq!(deletion(&policy, &[bare(shared_memory(gpu_pod("trainer")))]).1, ["trainer"]);
}

/// Lines 73 and 80.
#[test]
fn kubernetes_26080_node_without_running_gpu_pods_is_done() {
    let finished = Workload { phase: PodPhase::Succeeded, ..bare(shared_memory(gpu_pod("job"))) };
    assert_eq!(
        deletion(&PodDeletionPolicy::default(), &[finished.clone(), bare(pod("database"))]),
        over()
    );
    assert_eq!(drain(&DrainPolicy::default(), &[finished]), over());
    assert_eq!(deletion(&PodDeletionPolicy::default(), &[]), over());
}

#[test]
fn kubernetes_34782_pod_is_gone_when_its_uid_is() {
    let leaving = Workload { deleted_at: Some(at(30)), ..gpu_pod("trainer") };
    assert_eq!(
        deletion(&PodDeletionPolicy::default(), std::slice::from_ref(&leaving)),
        (PodProgress::Going, vec![], vec!["trainer".into()], None)
    );
    let back = Workload { uid: "another".into(), ..gpu_pod("trainer") };
    assert_eq!(
        deletion(&PodDeletionPolicy::default(), &[leaving, back.clone()]).1,
        ["trainer"],
        "the new one has to go too"
    );
    assert_eq!(
        deletion(&PodDeletionPolicy::default(), &[Workload { node: "gpu-0".into(), ..back }]).0,
        PodProgress::Going
    );
    assert_eq!(deletion(&PodDeletionPolicy::default(), &[]), over());
}

/// A process that was killed in the middle finds some pods gone, some leaving, some untouched.
#[test]
fn kured_63_restart_continues_from_the_current_pods() {
    let pods = [
        Workload { deleted_at: Some(at(30)), ..bare(shared_memory(gpu_pod("first"))) },
        gpu_pod("second"),
    ];
    let (progress, evict, leaving, obstacle) = deletion(&PodDeletionPolicy::default(), &pods);
    assert_eq!(
        (progress, obstacle),
        (PodProgress::Going, None),
        "a pod that is being deleted is not an obstacle"
    );
    assert_eq!((evict, leaving), (vec!["second".to_owned()], vec!["first".to_owned()]));
}

/// A user removes the DaemonSet from the node: the hook waits until its pod is deleted. If the pod
/// is recreated, it blocks again.
#[test]
fn leaving_gpu_pod_of_daemon_set_is_awaited() {
    let exporter = of_daemon_set("exporter", gpu_pod("exporter"));
    let leaving = Workload { deleted_at: Some(at(30)), ..exporter.clone() };
    assert_eq!(
        deletion(&PodDeletionPolicy::default(), &[leaving]),
        (PodProgress::Going, vec![], vec!["exporter".into()], None)
    );
    assert_eq!(deletion(&PodDeletionPolicy::default(), &[exporter]).0, PodProgress::Blocked);
}

#[test]
fn tuppr_310_neither_step_touches_the_hooks_own_pod() {
    let hook = [bare(gpu_pod("hook"))];
    assert_eq!(deletion(&PodDeletionPolicy::default(), &hook), over());
    assert_eq!(drain(&DrainPolicy::default(), &hook), over());
}

/// A drain that protects some namespaces by name waits indefinitely for the pods that remain. Here
/// a rule skips such pods, or the hook names them before it evicts any pod.
#[test]
fn aicr_2626_drain_never_waits_for_skipped_pods() {
    let system = [
        of_daemon_set("kube-proxy", pod("kube-proxy")),
        of_daemon_set("exporter", gpu_pod("exporter")),
        Workload { mirror: true, ..bare(pod("etcd")) },
        labeled("nvidia.com/gpu-driver-upgrade-drain.skip", "true", pod("operator")),
    ];
    assert_eq!(drain(&DrainPolicy::default(), &system), over());
    let with_server: Vec<Workload> = system.iter().cloned().chain([pod("server")]).collect();
    assert_eq!(drain(&DrainPolicy::default(), &with_server).1, ["server"]);
    let with_bare: Vec<Workload> = with_server.into_iter().chain([bare(pod("debug"))]).collect();
    let (progress, evict, _, obstacle) = drain(&DrainPolicy::default(), &with_bare);
    assert_eq!((progress, evict), (PodProgress::Blocked, vec![]));
    assert_eq!(
        obstacle.expect("an obstacle"),
        "no pod was evicted: team/debug has no controller that would recreate it; drain.force would allow the eviction"
    );
}

#[test]
fn gpu_operator_2570_hidden_holders_are_named_and_not_touched() {
    let notebook = Workload { runtime_class: Some("nvidia".into()), ..pod("notebook") };
    let pods =
        [notebook, of_daemon_set("exporter", Workload { host_devices: true, ..pod("exporter") })];
    let (daemon_sets, own) = known();
    let policy = PodDeletionPolicy::default();
    let filter = PodFilter {
        terms: EvictionTerms::from(&policy),
        selector: Selector::default(),
        daemon_sets: &daemon_sets,
        own: &own,
    };
    let holders = DeviceUsers::new(Driver::Gpu, DeviceRules::Ours, &SERVED);
    let plan = PodPlan::pod_deletion(&pods, &holders, &filter);
    assert_eq!(plan.progress(), PodProgress::Over);
    assert_eq!(
        plan.hidden,
        [
            (&pods[0], HiddenDeviceUse::RuntimeClass("nvidia".into())),
            (&pods[1], HiddenDeviceUse::HostDevices)
        ]
    );
    let drained = PodPlan::drain(
        &pods,
        &holders,
        &PodFilter { terms: EvictionTerms::from(&DrainPolicy::default()), ..filter },
    );
    assert_eq!(
        (drained.evict.len(), drained.hidden.len()),
        (1, 1),
        "the drain takes the notebook; the DaemonSet stays hidden"
    );
}

#[test]
fn obstacle_lists_all_keys_that_remove_it() {
    let pods = [bare(gpu_pod("a")), shared_memory(gpu_pod("b")), bare(gpu_pod("c"))];
    let (daemon_sets, own) = known();
    let policy = PodDeletionPolicy::default();
    let filter = PodFilter {
        terms: EvictionTerms::from(&policy),
        selector: Selector::default(),
        daemon_sets: &daemon_sets,
        own: &own,
    };
    let holders = DeviceUsers::new(Driver::Gpu, DeviceRules::Ours, &SERVED);
    let obstacle = PodPlan::pod_deletion(&pods, &holders, &filter).obstacle().expect("an obstacle");
    assert_eq!((obstacle.step, obstacle.pods.len()), (EvictionStep::PodDeletion, 3));
    let keys = |obstacle: &StepObstacle| -> Vec<_> {
        obstacle.pods.iter().map(|(_, block)| block.policy_key(obstacle.step)).collect()
    };
    let (force, empty_dir) =
        (Some("podDeletion.force".to_owned()), Some("podDeletion.deleteEmptyDir".to_owned()));
    assert_eq!(keys(&obstacle), [force.clone(), empty_dir, force.clone()]);
    let pinned = [bare(gpu_pod("a")), of_daemon_set("exporter", gpu_pod("b"))];
    let obstacle =
        PodPlan::pod_deletion(&pinned, &holders, &filter).obstacle().expect("an obstacle");
    assert_eq!(keys(&obstacle), [force, None]);
}

#[test]
fn gpu_operator_303_long_grace_period_is_not_stuck() {
    let trainer =
        Workload { grace_seconds: 1800, deleted_at: Some(at(1800)), ..gpu_pod("trainer") };
    let held =
        Workload { finalizers: vec!["batch.kubernetes.io/job-tracking".into()], ..trainer.clone() };
    let pods = [trainer, held];
    let (daemon_sets, own) = known();
    let policy = PodDeletionPolicy::default();
    let filter = PodFilter {
        terms: EvictionTerms::from(&policy),
        selector: Selector::default(),
        daemon_sets: &daemon_sets,
        own: &own,
    };
    let plan = PodPlan::pod_deletion(
        &pods,
        &DeviceUsers::new(Driver::Gpu, DeviceRules::Ours, &SERVED),
        &filter,
    );
    let [trainer, held] = plan.leaving.as_slice() else { panic!("both leave") };
    assert_eq!(
        (trainer.since(), trainer.stage(at(1800)), held.stage(at(1800))),
        (at(0), LeavingStage::Grace, LeavingStage::Grace)
    );
    assert_eq!(
        (trainer.stage(at(1801)), held.stage(at(1801))),
        (LeavingStage::Overdue, LeavingStage::Finalizers)
    );
    assert_eq!(
        trainer.text(at(5)),
        "team/trainer is terminating; its grace period of 1800 s ends at 2023-11-14T22:43:20Z"
    );
    assert_eq!(
        trainer.text(at(1860)),
        "team/trainer is terminating: its grace period of 1800 s ended 60 s ago, but its node has not reported it gone"
    );
    assert_eq!(
        held.text(at(1860)),
        "team/trainer is terminating: its grace period of 1800 s ended 60 s ago, but finalizers keep it: batch.kubernetes.io/job-tracking"
    );
}
