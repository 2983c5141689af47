//! What a step does on a node.

use crate::contract::driver::Driver;
use crate::contract::policy::{Drain, PodDeletion};
use crate::contract::selector::Selector;
use crate::rollout::observed::Api;
use crate::rollout::observed::workload::{Claim, Phase, Workload};
use crate::rollout::pods::filter::{DaemonSets, Filter, Liveness, Own, Step, Terms, drain_selector};
use crate::rollout::pods::fixture::{at, bare, gpu_pod, labeled, of_daemon_set, pod};
use crate::rollout::pods::holders::{Hidden, Holders, Rules};
use crate::rollout::pods::plan::{Plan, Progress, Stage};

static SERVED: Api<Vec<Claim>> = Api::Served(Vec::new());

/// What became of the pods, by name: progress, evicted, leaving, obstacle.
fn names(plan: &Plan<'_>) -> (Progress, Vec<String>, Vec<String>, Option<String>) {
    let evict = plan.evict.iter().map(|going| going.pod.name.clone()).collect();
    let leaving = plan.leaving.iter().map(|leaving| leaving.pod.name.clone()).collect();
    (plan.progress(), evict, leaving, plan.obstacle().map(|obstacle| obstacle.to_string()))
}

fn deletion(policy: &PodDeletion, pods: &[Workload]) -> (Progress, Vec<String>, Vec<String>, Option<String>) {
    let (daemon_sets, own) = known();
    let filter = Filter { terms: Terms::from(policy), selector: Selector::default(), daemon_sets: &daemon_sets, own: &own };
    let [vendor, ours] = [Rules::Vendor { claims: true }, Rules::Ours]
        .map(|rules| names(&Plan::pod_deletion(pods, &Holders::new(Driver::Gpu, rules, &SERVED), &filter)));
    assert_eq!(vendor, ours, "the conformance list holds for both");
    ours
}

fn drain(policy: &Drain, pods: &[Workload]) -> (Progress, Vec<String>, Vec<String>, Option<String>) {
    let (daemon_sets, own) = known();
    let selector = drain_selector(Driver::Gpu, policy).expect("a selector");
    let filter = Filter { terms: Terms::from(policy), selector, daemon_sets: &daemon_sets, own: &own };
    names(&Plan::drain(pods, &Holders::new(Driver::Gpu, Rules::Ours, &SERVED), &filter))
}

fn known() -> (DaemonSets, Own) {
    let gone = (("team".to_owned(), "gone".to_owned()), Liveness::Gone);
    (DaemonSets::from([gone]), Own { uids: ["uid-hook".to_owned()].into(), ..Own::default() })
}

fn force() -> PodDeletion {
    PodDeletion { force: true, ..PodDeletion::default() }
}

fn shared_memory(pod: Workload) -> Workload {
    Workload { memory_dir: true, ..pod }
}

fn over() -> (Progress, Vec<String>, Vec<String>, Option<String>) {
    (Progress::Over, vec![], vec![], None)
}

/// Lines 67 and 76 of the conformance list.
#[test]
fn bare_gpu_pods_go_with_force_and_other_pods_do_not_matter() {
    let mig = Workload { resources: ["nvidia.com/mig-1g.10gb".to_owned()].into(), ..bare(pod("slice")) };
    let others = [bare(pod("database")), Workload { empty_dir: true, ..pod("cache") }, of_daemon_set("gone", pod("left-over"))];
    let pods: Vec<Workload> = [bare(gpu_pod("trainer")), mig].into_iter().chain(others).collect();
    let (progress, evict, leaving, obstacle) = deletion(&force(), &pods);
    assert_eq!((progress, evict, leaving, obstacle), (Progress::Going, vec!["trainer".into(), "slice".into()], vec![], None));
}

/// Lines 68, 69, 71, 72 and 74: whether the drain follows or the node fails is decided elsewhere; no pod is touched.
#[test]
fn gpu_operator_454_one_pod_that_may_not_go_and_none_is_touched() {
    for (name, blocked, policy, text) in [
        (
            "bare",
            bare(gpu_pod("trainer")),
            PodDeletion::default(),
            "has no controller, and nobody would bring it back (podDeletion.force would allow it)",
        ),
        (
            "emptyDir",
            shared_memory(gpu_pod("trainer")),
            force(),
            "has an emptyDir in memory (shared memory), which would be lost (podDeletion.deleteEmptyDir would allow it)",
        ),
        (
            "DaemonSet",
            of_daemon_set("exporter", gpu_pod("trainer")),
            force(),
            "belongs to daemonset/exporter, which would bring it back at once",
        ),
        ("static", Workload { mirror: true, ..gpu_pod("trainer") }, force(), "is a static pod of the node"),
    ] {
        let (progress, evict, leaving, obstacle) = deletion(&policy, &[gpu_pod("server"), blocked]);
        assert_eq!((progress, evict, leaving), (Progress::Blocked, vec![], vec![]), "{name}");
        assert_eq!(obstacle.expect("an obstacle"), format!("no pod was touched: team/trainer {text}"), "{name}");
    }
}

/// Line 70.
#[test]
fn gpu_pods_with_empty_dirs_go_where_the_policy_lets_them() {
    let policy = PodDeletion { delete_empty_dir: true, ..force() };
    assert_eq!(deletion(&policy, &[bare(shared_memory(gpu_pod("trainer")))]).1, ["trainer"]);
}

/// Lines 73 and 80.
#[test]
fn kubernetes_26080_a_node_without_running_gpu_pods_is_done() {
    let finished = Workload { phase: Phase::Succeeded, ..bare(shared_memory(gpu_pod("job"))) };
    assert_eq!(deletion(&PodDeletion::default(), &[finished.clone(), bare(pod("database"))]), over());
    assert_eq!(drain(&Drain::default(), &[finished]), over());
    assert_eq!(deletion(&PodDeletion::default(), &[]), over());
}

#[test]
fn kubernetes_34782_a_pod_is_gone_when_its_uid_is() {
    let leaving = Workload { deleted_at: Some(at(30)), ..gpu_pod("trainer") };
    assert_eq!(deletion(&PodDeletion::default(), std::slice::from_ref(&leaving)), (Progress::Going, vec![], vec!["trainer".into()], None));
    let back = Workload { uid: "another".into(), ..gpu_pod("trainer") };
    assert_eq!(deletion(&PodDeletion::default(), &[leaving, back.clone()]).1, ["trainer"], "the new one has to go too");
    assert_eq!(deletion(&PodDeletion::default(), &[Workload { node: "gpu-0".into(), ..back }]).0, Progress::Going);
    assert_eq!(deletion(&PodDeletion::default(), &[]), over());
}

/// A process that was killed in the middle finds some pods gone, some leaving, some untouched.
#[test]
fn kured_63_whoever_starts_again_goes_on_from_the_pods_as_they_are() {
    let pods = [Workload { deleted_at: Some(at(30)), ..bare(shared_memory(gpu_pod("first"))) }, gpu_pod("second")];
    let (progress, evict, leaving, obstacle) = deletion(&PodDeletion::default(), &pods);
    assert_eq!((progress, obstacle), (Progress::Going, None), "what goes already is no obstacle");
    assert_eq!((evict, leaving), (vec!["second".to_owned()], vec!["first".to_owned()]));
}

/// Somebody takes the DaemonSet off the node: its pod goes, and is waited for. If it comes back, it is in the way again.
#[test]
fn a_daemon_sets_gpu_pod_that_leaves_is_waited_for() {
    let exporter = of_daemon_set("exporter", gpu_pod("exporter"));
    let leaving = Workload { deleted_at: Some(at(30)), ..exporter.clone() };
    assert_eq!(deletion(&PodDeletion::default(), &[leaving]), (Progress::Going, vec![], vec!["exporter".into()], None));
    assert_eq!(deletion(&PodDeletion::default(), &[exporter]).0, Progress::Blocked);
}

#[test]
fn tuppr_310_neither_step_touches_the_hooks_own_pod() {
    let hook = [bare(gpu_pod("hook"))];
    assert_eq!(deletion(&PodDeletion::default(), &hook), over());
    assert_eq!(drain(&Drain::default(), &hook), over());
}

/// The vendor's default drain protects some namespaces by name and then waits for ever for what is left: here whatever cannot go is
/// either left alone by rule or named before anything is touched.
#[test]
fn aicr_2626_a_drain_never_waits_for_what_it_leaves_alone() {
    let system = [
        of_daemon_set("kube-proxy", pod("kube-proxy")),
        of_daemon_set("exporter", gpu_pod("exporter")),
        Workload { mirror: true, ..bare(pod("etcd")) },
        labeled("nvidia.com/gpu-driver-upgrade-drain.skip", "true", pod("operator")),
    ];
    assert_eq!(drain(&Drain::default(), &system), over());
    let with_server: Vec<Workload> = system.iter().cloned().chain([pod("server")]).collect();
    assert_eq!(drain(&Drain::default(), &with_server).1, ["server"]);
    let with_bare: Vec<Workload> = with_server.into_iter().chain([bare(pod("debug"))]).collect();
    let (progress, evict, _, obstacle) = drain(&Drain::default(), &with_bare);
    assert_eq!((progress, evict), (Progress::Blocked, vec![]));
    assert_eq!(
        obstacle.expect("an obstacle"),
        "no pod was touched: team/debug has no controller, and nobody would bring it back (drain.force would allow it)"
    );
}

#[test]
fn gpu_operator_2570_hidden_holders_are_named_and_not_touched() {
    let notebook = Workload { runtime_class: Some("nvidia".into()), ..pod("notebook") };
    let pods = [notebook, of_daemon_set("exporter", Workload { host_devices: true, ..pod("exporter") })];
    let (daemon_sets, own) = known();
    let policy = PodDeletion::default();
    let filter = Filter { terms: Terms::from(&policy), selector: Selector::default(), daemon_sets: &daemon_sets, own: &own };
    let holders = Holders::new(Driver::Gpu, Rules::Ours, &SERVED);
    let plan = Plan::pod_deletion(&pods, &holders, &filter);
    assert_eq!(plan.progress(), Progress::Over);
    assert_eq!(plan.hidden, [(&pods[0], Hidden::RuntimeClass("nvidia".into())), (&pods[1], Hidden::HostDevices)]);
    let drained = Plan::drain(&pods, &holders, &Filter { terms: Terms::from(&Drain::default()), ..filter });
    assert_eq!((drained.evict.len(), drained.hidden.len()), (1, 1), "the drain takes the notebook; the DaemonSet stays hidden");
}

#[test]
fn an_obstacle_sums_up_the_keys_that_would_remove_it() {
    let pods = [bare(gpu_pod("a")), shared_memory(gpu_pod("b")), bare(gpu_pod("c"))];
    let (daemon_sets, own) = known();
    let policy = PodDeletion::default();
    let filter = Filter { terms: Terms::from(&policy), selector: Selector::default(), daemon_sets: &daemon_sets, own: &own };
    let holders = Holders::new(Driver::Gpu, Rules::Ours, &SERVED);
    let obstacle = Plan::pod_deletion(&pods, &holders, &filter).obstacle().expect("an obstacle");
    assert_eq!((obstacle.step, obstacle.pods.len()), (Step::PodDeletion, 3));
    assert_eq!(obstacle.policy_keys(), Some(vec!["podDeletion.deleteEmptyDir".to_owned(), "podDeletion.force".to_owned()]));
    let pinned = [bare(gpu_pod("a")), of_daemon_set("exporter", gpu_pod("b"))];
    assert_eq!(Plan::pod_deletion(&pinned, &holders, &filter).obstacle().expect("an obstacle").policy_keys(), None);
}

#[test]
fn gpu_operator_303_a_long_grace_period_is_not_called_stuck() {
    let trainer = Workload { grace_seconds: 1800, deleted_at: Some(at(1800)), ..gpu_pod("trainer") };
    let held = Workload { finalizers: vec!["batch.kubernetes.io/job-tracking".into()], ..trainer.clone() };
    let pods = [trainer, held];
    let (daemon_sets, own) = known();
    let policy = PodDeletion::default();
    let filter = Filter { terms: Terms::from(&policy), selector: Selector::default(), daemon_sets: &daemon_sets, own: &own };
    let plan = Plan::pod_deletion(&pods, &Holders::new(Driver::Gpu, Rules::Ours, &SERVED), &filter);
    assert_eq!(plan.longest_grace_seconds(), 1800);
    let [trainer, held] = plan.leaving.as_slice() else { panic!("both leave") };
    assert_eq!((trainer.since(), trainer.stage(at(1800)), held.stage(at(1800))), (at(0), Stage::Grace, Stage::Grace));
    assert_eq!((trainer.stage(at(1801)), held.stage(at(1801))), (Stage::Overdue, Stage::Finalizers));
    assert_eq!(trainer.text(at(5)), "team/trainer is terminating (grace 1800 s, until 2023-11-14T22:43:20Z)");
    assert_eq!(trainer.text(at(1860)), "team/trainer is terminating, and 60 s past its grace of 1800 s its node has not reported it gone");
    assert_eq!(
        held.text(at(1860)),
        "team/trainer is terminating, and 60 s past its grace of 1800 s finalizers hold it: batch.kubernetes.io/job-tracking"
    );
}
