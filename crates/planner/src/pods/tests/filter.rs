//! kubectl's rules, in their order.

use std::collections::{BTreeMap, BTreeSet};

use crate::pods::filter::{
    DaemonSetLiveness, EvictionBlock, EvictionStep, EvictionTerms, Liveness, OwnPods, PodFate,
    PodFilter, StayReason, drain_selector,
};
use crate::pods::fixture::{at, bare, controller, labeled, of_daemon_set, pod};
use contract::driver::Driver;
use contract::policy::{DrainPolicy, PodDeletionPolicy};
use contract::selector::Selector;
use observed::workload::{PodPhase, Workload};

const STRICT: EvictionTerms =
    EvictionTerms { step: EvictionStep::Drain, force: false, delete_empty_dir: false };
const FORCE: EvictionTerms = EvictionTerms { force: true, ..STRICT };
const LOSSY: EvictionTerms = EvictionTerms { delete_empty_dir: true, ..STRICT };

fn judge(terms: EvictionTerms, pod: &Workload) -> PodFate {
    let known = |name: &str, liveness| (("team".to_owned(), name.to_owned()), liveness);
    let daemon_sets: DaemonSetLiveness = [
        known("alive", Liveness::Alive),
        known("gone", Liveness::Gone),
        known("unreadable", Liveness::Unreadable),
    ]
    .into();
    let own = OwnPods {
        uids: BTreeSet::from(["uid-hook".to_owned()]),
        names: BTreeSet::from([("gpu-operator".to_owned(), "gpu-operator-post-x2z".to_owned())]),
    };
    PodFilter { terms, selector: Selector::default(), daemon_sets: &daemon_sets, own: &own }
        .judge(pod)
}

fn disk(pod: Workload) -> Workload {
    Workload { empty_dir: true, ..pod }
}

#[test]
fn drain_rules_apply_in_kubectl_order() {
    let daemon_set = |name: &str| of_daemon_set(name, pod("exporter"));
    let empty_dir = || PodFate::Blocked(EvictionBlock::EmptyDir { disk: true, memory: false });
    let cases: Vec<(&str, Workload, EvictionTerms, PodFate)> = vec![
        ("plain", pod("server"), STRICT, PodFate::Goes),
        (
            "alive",
            daemon_set("alive"),
            FORCE,
            PodFate::Stays(StayReason::DaemonSet("alive".into())),
        ),
        (
            "unknown whether alive",
            daemon_set("other"),
            FORCE,
            PodFate::Stays(StayReason::DaemonSet("other".into())),
        ),
        (
            "alive before emptyDir",
            disk(daemon_set("alive")),
            STRICT,
            PodFate::Stays(StayReason::DaemonSet("alive".into())),
        ),
        (
            "gone",
            daemon_set("gone"),
            STRICT,
            PodFate::Blocked(EvictionBlock::DaemonSetGone("gone".into())),
        ),
        ("gone, force", daemon_set("gone"), FORCE, PodFate::Goes),
        ("gone, force, emptyDir", disk(daemon_set("gone")), FORCE, empty_dir()),
        (
            "unreadable",
            daemon_set("unreadable"),
            FORCE,
            PodFate::Blocked(EvictionBlock::DaemonSetUnreadable("unreadable".into())),
        ),
        ("emptyDir", disk(pod("server")), STRICT, empty_dir()),
        ("emptyDir, force", disk(pod("server")), FORCE, empty_dir()),
        ("emptyDir may be lost", disk(pod("server")), LOSSY, PodFate::Goes),
        ("emptyDir before bare", disk(bare(pod("server"))), STRICT, empty_dir()),
        ("bare", bare(pod("server")), STRICT, PodFate::Blocked(EvictionBlock::Bare)),
        ("bare, lossy", disk(bare(pod("server"))), LOSSY, PodFate::Blocked(EvictionBlock::Bare)),
        ("bare, force", bare(pod("server")), FORCE, PodFate::Goes),
        (
            "any controller counts",
            Workload {
                controller: Some(controller("kubeflow.org/v1", "PyTorchJob", "llm")),
                ..pod("worker")
            },
            STRICT,
            PodFate::Goes,
        ),
    ];
    for (name, pod, terms, expected) in cases {
        assert_eq!(judge(terms, &pod), expected, "{name}");
    }
}

#[test]
fn kubernetes_26080_finished_pods_never_block() {
    for phase in [PodPhase::Succeeded, PodPhase::Failed] {
        let finished = Workload { phase, ready: false, ..pod("job") };
        for pod in [
            bare(finished.clone()),
            disk(finished.clone()),
            of_daemon_set("gone", finished.clone()),
            of_daemon_set("unreadable", finished),
        ] {
            assert_eq!(judge(STRICT, &pod), PodFate::Stays(StayReason::Finished), "{pod:?}");
        }
    }
}

#[test]
fn silent_assassin_35_static_pods_are_left_alone() {
    let pod = bare(disk(Workload { mirror: true, ..pod("kube-proxy") }));
    for terms in [STRICT, FORCE, LOSSY] {
        assert_eq!(judge(terms, &pod), PodFate::Stays(StayReason::Mirror));
    }
}

#[test]
fn what_is_being_deleted_needs_nobodys_permission() {
    let deleting = Workload { deleted_at: Some(at(0)), ..pod("server") };
    for pod in [
        bare(deleting.clone()),
        disk(deleting.clone()),
        of_daemon_set("gone", deleting.clone()),
        of_daemon_set("unreadable", deleting),
    ] {
        assert_eq!(judge(STRICT, &pod), PodFate::Goes, "{pod:?}");
    }
}

#[test]
fn tuppr_310_the_hooks_own_pod_never_goes() {
    assert_eq!(judge(FORCE, &pod("hook")), PodFate::Stays(StayReason::Own), "by its UID");
    let by_name = Workload { namespace: "gpu-operator".into(), ..pod("gpu-operator-post-x2z") };
    assert_eq!(judge(FORCE, &by_name), PodFate::Stays(StayReason::Own), "by its name");
    assert_eq!(
        judge(FORCE, &pod("gpu-operator-post-x2z")),
        PodFate::Goes,
        "another owner's of the same name"
    );
}

/// Lines 93 and 94 of the conformance list.
#[test]
fn drains_skip_pods_with_the_drivers_skip_label() {
    let skipped = |driver: Driver| {
        labeled(driver.traits().drain_skip_label, "true", labeled("app", "train", pod("server")))
    };
    for driver in Driver::ALL {
        for (selector, plain, other) in
            [("", true, true), ("app=train", true, false), ("app!=train", false, true)]
        {
            let drain = DrainPolicy { pod_selector: selector.into(), ..DrainPolicy::default() };
            let selector = drain_selector(driver, &drain).expect("a selector");
            let daemon_sets = DaemonSetLiveness::new();
            let own = OwnPods::default();
            let filter = PodFilter {
                terms: EvictionTerms::from(&drain),
                selector,
                daemon_sets: &daemon_sets,
                own: &own,
            };
            let goes = |pod: &Workload| filter.judge(pod) == PodFate::Goes;
            assert_eq!(goes(&labeled("app", "train", pod("server"))), plain, "{}", filter.selector);
            assert_eq!(goes(&pod("server")), other, "{}", filter.selector);
            assert!(!goes(&skipped(driver)), "{}", filter.selector);
            let off = labeled(
                driver.traits().drain_skip_label,
                "false",
                labeled("app", "train", pod("server")),
            );
            assert_eq!(goes(&off), plain, "only `true` skips");
        }
    }
    let gpu = drain_selector(
        Driver::Gpu,
        &DrainPolicy { pod_selector: "a=b".into(), ..DrainPolicy::default() },
    )
    .expect("a selector");
    assert_eq!(gpu.to_string(), "a=b,nvidia.com/gpu-driver-upgrade-drain.skip!=true");
    assert!(
        drain_selector(
            Driver::Gpu,
            &DrainPolicy { pod_selector: "a b".into(), ..DrainPolicy::default() }
        )
        .is_err()
    );
}

/// Users had to read pod names and causes out of a long error; the policy's key is what they need.
#[test]
fn gpu_operator_454_each_block_names_the_allowing_policy_key() {
    let empty = |disk, memory| EvictionBlock::EmptyDir { disk, memory };
    let cases: BTreeMap<&str, (EvictionBlock, Option<&str>)> = [
        (
            "has an emptyDir in memory (shared memory), which would be lost",
            (empty(false, true), Some("podDeletion.deleteEmptyDir")),
        ),
        (
            "has an emptyDir on disk, which would be lost",
            (empty(true, false), Some("podDeletion.deleteEmptyDir")),
        ),
        (
            "has emptyDirs on disk and in memory, which would be lost",
            (empty(true, true), Some("podDeletion.deleteEmptyDir")),
        ),
        (
            "has no controller that would recreate it",
            (EvictionBlock::Bare, Some("podDeletion.force")),
        ),
        (
            "is left over from daemonset/x, and no controller would recreate it",
            (EvictionBlock::DaemonSetGone("x".into()), Some("podDeletion.force")),
        ),
        (
            "belongs to daemonset/x, which would recreate it at once",
            (EvictionBlock::DaemonSet("x".into()), None),
        ),
        (
            "belongs to daemonset/x, which cannot be read",
            (EvictionBlock::DaemonSetUnreadable("x".into()), None),
        ),
        ("is a static pod of the node", (EvictionBlock::Mirror, None)),
    ]
    .into();
    for (text, (block, key)) in cases {
        assert_eq!(block.to_string(), text);
        assert_eq!(block.policy_key(EvictionStep::PodDeletion).as_deref(), key);
    }
    assert_eq!(EvictionBlock::Bare.policy_key(EvictionStep::Drain).as_deref(), Some("drain.force"));
}

#[test]
fn the_steps_terms_are_those_of_the_policy() {
    let deletion = PodDeletionPolicy { force: true, ..PodDeletionPolicy::default() };
    assert_eq!(
        EvictionTerms::from(&deletion),
        EvictionTerms { step: EvictionStep::PodDeletion, force: true, delete_empty_dir: false }
    );
    let drain = DrainPolicy { delete_empty_dir: true, ..DrainPolicy::default() };
    assert_eq!(
        EvictionTerms::from(&drain),
        EvictionTerms { step: EvictionStep::Drain, force: false, delete_empty_dir: true }
    );
}
