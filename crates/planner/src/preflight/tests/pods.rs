//! Pods, budgets, claims.

use crate::pods::filter::Liveness;
use crate::pods::fixture::{at, bare, controller, gpu_pod, labeled, of_daemon_set, pod};
use contract::driver::Driver;
use contract::names;
use contract::policy::{DrainPolicy, PodDeletionPolicy};
use observed::OptionalApi;
use observed::workload::{DeviceClaim, DisruptionBudget, PodPhase, Workload};

use super::scene::PreflightScene;

fn found(change: impl FnOnce(&mut PreflightScene)) -> Vec<String> {
    let mut scene = PreflightScene::new(4);
    change(&mut scene);
    scene.texts()
}

fn none() -> Vec<String> {
    Vec::new()
}

fn memory(pod: Workload) -> Workload {
    Workload { memory_dir: true, ..pod }
}

fn with_drain(scene: &mut PreflightScene) -> &mut DrainPolicy {
    scene.policy.drain.insert(DrainPolicy::default())
}

#[test]
fn gpu_operator_454_pods_with_empty_dir_name_policy_key() {
    let text = "empty-dir: 1 pod with an emptyDir must be evicted: team/llm has an emptyDir in memory (shared memory), which would be lost \
                (podDeletion.deleteEmptyDir is off)";
    assert_eq!(found(|scene| scene.pods.push(memory(gpu_pod("llm")))), [text]);
    let lossy = |scene: &mut PreflightScene| {
        scene.pods.push(memory(gpu_pod("llm")));
        scene.policy.pod_deletion =
            Some(PodDeletionPolicy { delete_empty_dir: true, ..PodDeletionPolicy::default() });
    };
    assert_eq!(found(lossy), none());
    assert_eq!(
        found(|scene| scene.pods.push(memory(pod("cache")))),
        none(),
        "it has no GPU, and only those go"
    );
    assert_eq!(
        found(|scene| scene
            .pods
            .push(memory(Workload { phase: PodPhase::Succeeded, ..gpu_pod("job") }))),
        none()
    );
}

#[test]
fn kubernetes_57049_pods_that_nobody_brings_back_are_named() {
    let text = "unmanaged-pods: 2 pods that must be evicted would not be recreated: team/debug has no controller that would recreate it (podDeletion.force is off), team/old is left over from daemonset/gone, and no controller would recreate it (podDeletion.force is off)";
    let change = |scene: &mut PreflightScene| {
        scene.pods.extend([bare(gpu_pod("debug")), of_daemon_set("gone", gpu_pod("old"))]);
        scene.daemon_sets.insert(("team".into(), "gone".into()), Liveness::Gone);
    };
    assert_eq!(found(change), [text]);
    let forced = |scene: &mut PreflightScene| {
        change(scene);
        scene.policy.pod_deletion =
            Some(PodDeletionPolicy { force: true, ..PodDeletionPolicy::default() });
    };
    assert_eq!(found(forced), none());
}

#[test]
fn drain_decides_about_every_pod_it_selects() {
    let cache = |scene: &mut PreflightScene| scene.pods.push(memory(pod("cache")));
    let change = |scene: &mut PreflightScene| {
        cache(scene);
        with_drain(scene);
    };
    assert!(found(change)[0].ends_with("(drain.deleteEmptyDir is off)"), "{:?}", found(change));
    let lossy = |scene: &mut PreflightScene| {
        scene.pods.push(memory(gpu_pod("llm")));
        with_drain(scene).delete_empty_dir = true;
    };
    assert_eq!(found(lossy), none(), "what the pod deletion may not, the drain may");
    let skipped = |scene: &mut PreflightScene| {
        scene.pods.push(memory(labeled(names::DRAIN_SKIP_LABEL, "true", pod("cache"))));
        scene.pods.push(memory(labeled(names::DRAIN_SKIP_LABEL, "true", gpu_pod("llm"))));
        with_drain(scene);
    };
    assert!(
        found(skipped)[0]
            .starts_with("empty-dir: 1 pod with an emptyDir must be evicted: team/llm"),
        "{:?}",
        found(skipped)
    );
}

#[test]
fn gpu_operator_2570_daemon_set_and_static_pods_are_pinned() {
    let text = "unevictable-device-users: 2 pods using the GPU cannot be evicted: team/exporter of DaemonSet dcgm, team/static is a static pod";
    let change = |scene: &mut PreflightScene| {
        scene.pods.extend([
            of_daemon_set("dcgm", gpu_pod("exporter")),
            Workload { mirror: true, ..bare(gpu_pod("static")) },
        ]);
    };
    assert_eq!(found(change), [text]);
    let drained = |scene: &mut PreflightScene| {
        change(scene);
        with_drain(scene);
    };
    assert_eq!(found(drained), [text], "a drain leaves them, and the driver does not unload");
    let leaving = |scene: &mut PreflightScene| {
        scene.pods.push(Workload {
            deleted_at: Some(at(30)),
            ..of_daemon_set("dcgm", gpu_pod("exporter"))
        });
    };
    assert_eq!(found(leaving), none());
}

#[test]
fn gpu_operator_2570_pods_without_gpu_request_appear_before_cordon() {
    let class = |pod: Workload| Workload { runtime_class: Some("nvidia".into()), ..pod };
    let change = |scene: &mut PreflightScene| {
        scene.pods.push(class(labeled("app", "notebook", pod("notebook"))));
        scene.pods.push(Workload {
            namespace: "gpu-operator".into(),
            ..class(of_daemon_set("nvidia-dcgm-exporter", pod("exporter")))
        });
    };
    assert_eq!(
        found(change),
        [
            "undeclared-device-users: 1 pod may use the GPU without requesting it: team/notebook uses runtime class `nvidia` and requests no GPU"
        ]
    );
    let selected = |scene: &mut PreflightScene| {
        change(scene);
        scene.settings.upgrade.extra_consumers = vec!["app=notebook".into()];
    };
    assert_eq!(found(selected), none());
}

#[test]
fn hawk_1363_pods_that_terminate_without_end_are_named() {
    let change = |scene: &mut PreflightScene| {
        let leaving = |name: &str, due| Workload { deleted_at: Some(at(due)), ..gpu_pod(name) };
        scene.pods.push(leaving("wedged", -147_600));
        scene.pods.push(Workload {
            finalizers: vec!["example.com/hold".into()],
            ..leaving("held", -900)
        });
        scene.pods.push(leaving("quick", -300));
        scene.pods.push(Workload { grace_seconds: 3600, ..leaving("patient", 600) });
    };
    assert_eq!(
        found(change),
        [
            "terminating-pods: 2 pods stuck in termination: team/wedged for 2460 min, team/held for 15 min, held by example.com/hold"
        ]
    );
}

#[test]
fn kubernetes_57049_controllers_of_unknown_kinds_are_named() {
    let of = |api: &str, kind: &str, name: &str| Workload {
        controller: Some(controller(api, kind, "llm")),
        ..gpu_pod(name)
    };
    let change = |scene: &mut PreflightScene| {
        scene.pods.extend([
            of("kubeflow.org/v1", "PyTorchJob", "worker"),
            of("batch/v1", "Job", "job"),
            of("apps/v1", "StatefulSet", "set"),
            of("v1", "ReplicationController", "old"),
            of("apps.kruise.io/v1beta1", "StatefulSet", "kruise"),
        ]);
    };
    assert_eq!(
        found(change),
        [
            "foreign-controllers: 2 pods with a controller of an unknown kind must be evicted: team/worker of PyTorchJob llm (kubeflow.org/v1), \
          team/kruise of StatefulSet llm (apps.kruise.io/v1beta1)"
        ]
    );
}

fn strict(name: &str, selector: &str) -> DisruptionBudget {
    DisruptionBudget {
        namespace: "team".into(),
        name: name.into(),
        selector: Some(selector.parse().expect("a selector")),
        max_unavailable: Some("0".into()),
        healthy: 1,
        desired: 1,
        expected: 1,
        observed: true,
        ..DisruptionBudget::default()
    }
}

#[test]
fn kured_82_impossible_budget_is_found_before_cordon() {
    let change = |scene: &mut PreflightScene| {
        scene.pods.extend([
            labeled("app", "a", gpu_pod("a-0")),
            labeled("app", "a", gpu_pod("a-1")),
            labeled("app", "b", gpu_pod("b-0")),
        ]);
        scene.observed.workloads.budgets = vec![strict("a", "app=a"), strict("web", "app=web")];
        scene.pods.push(labeled("app", "web", pod("web-0")));
    };
    assert_eq!(
        found(change),
        [
            "blocking-budgets: poddisruptionbudget team/a never allows an eviction: maxUnavailable is 0; 2 pods must be evicted: team/a-0, team/a-1"
        ]
    );
    let slow = |scene: &mut PreflightScene| {
        change(scene);
        scene.observed.workloads.budgets = vec![DisruptionBudget {
            max_unavailable: Some("1".into()),
            expected: 2,
            ..strict("a", "app=a")
        }];
    };
    assert_eq!(found(slow), none(), "slow is not never");
}

#[test]
fn each_budget_has_its_own_advice() {
    let mut scene = PreflightScene::new(1);
    scene.pods = vec![labeled("app", "a", gpu_pod("a-0")), labeled("app", "b", gpu_pod("b-0"))];
    scene.observed.workloads.budgets =
        vec![strict("a", "app=a"), strict("b1", "app=b"), strict("b2", "app in (b)")];
    let advice: Vec<&str> = scene.findings().iter().map(|finding| finding.advice).collect();
    assert_eq!(
        advice,
        [
            "narrow the selectors so that one PodDisruptionBudget protects each pod",
            "set maxUnavailable to at least 1, or delete the PodDisruptionBudget during the rollout"
        ]
    );
}

fn claim(name: &str, reserved_for: &[&str]) -> DeviceClaim {
    DeviceClaim {
        namespace: "team".into(),
        name: name.into(),
        drivers: ["gpu.nvidia.com".to_owned()].into(),
        node: Some("gpu-0".into()),
        reserved_for: reserved_for.iter().map(|uid| (*uid).to_owned()).collect(),
        ..DeviceClaim::default()
    }
}

#[test]
fn aicr_980_claims_of_running_pods_are_named() {
    let change = |scene: &mut PreflightScene| {
        scene.pods.push(Workload { claims: vec![Some("gpu".into())], ..pod("trainer-0") });
        scene.observed.workloads.claims =
            OptionalApi::Served(vec![claim("gpu", &["uid-trainer-0"]), claim("free", &[])]);
    };
    assert_eq!(
        found(change),
        [
            "held-claims: 1 pod running with GPUs from ResourceClaims: team/trainer-0 (resourceclaim/gpu)"
        ]
    );
}

#[test]
fn dra_1278_claims_never_released_are_named() {
    let deleting = |since| DeviceClaim { deleting: Some(at(since)), ..claim("wedged", &[]) };
    let domain = DeviceClaim {
        drivers: ["compute-domain.nvidia.com".to_owned()].into(),
        ..claim("domain", &["gone"])
    };
    let change = |since| {
        move |scene: &mut PreflightScene| {
            scene.observed.workloads.claims =
                OptionalApi::Served(vec![claim("zombie", &["gone"]), deleting(since), domain]);
        }
    };
    assert_eq!(
        found(change(-601)),
        [
            "leftover-claims: 2 unreleased ResourceClaims: team/zombie is reserved for 1 deleted pod, team/wedged is stuck in deletion"
        ]
    );
}

#[test]
fn tuppr_310_the_hooks_own_pod_is_no_finding() {
    let change = |scene: &mut PreflightScene| {
        scene.pods.push(bare(memory(gpu_pod("hook"))));
        scene.own.uids.insert("uid-hook".into());
    };
    assert_eq!(found(change), none());
}

#[test]
fn invalid_selector_is_a_finding_not_a_panic() {
    assert_eq!(
        found(|scene| with_drain(scene).pod_selector = "a b".into()),
        ["selectors: drain.podSelector: `a b` is not a label selector: `a b` is not a label key"]
    );
    assert_eq!(
        found(|scene| scene.settings.upgrade.extra_consumers = vec![String::new()]),
        [
            "selectors: extraConsumers: an empty selector would evict every pod; use `drain` for that"
        ]
    );
}

#[test]
fn network_operator_263_ofed_checks_pods_on_its_networks() {
    let mut scene = PreflightScene::new(1);
    scene.settings.driver = Driver::Ofed;
    scene.node("gpu-0").labels.insert(names::NIC_PRESENT_LABEL.into(), "true".into());
    scene.pods =
        vec![memory(gpu_pod("llm")), memory(Workload { secondary_network: true, ..pod("mpi") })];
    let texts = scene.texts();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(
        texts[0].starts_with("empty-dir: 1 pod with an emptyDir must be evicted: team/mpi"),
        "{texts:?}"
    );
}
