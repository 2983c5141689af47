//! kubectl's rules, in their order.

use std::collections::{BTreeMap, BTreeSet};

use crate::contract::driver::Driver;
use crate::contract::policy::{Drain, PodDeletion};
use crate::contract::selector::Selector;
use crate::rollout::observed::workload::{Phase, Workload};
use crate::rollout::pods::filter::{Answer, Block, DaemonSets, Filter, Liveness, Own, Stay, Step, Terms, drain_selector};
use crate::rollout::pods::fixture::{at, bare, controller, labeled, of_daemon_set, pod};

const STRICT: Terms = Terms { step: Step::Drain, force: false, delete_empty_dir: false };
const FORCE: Terms = Terms { force: true, ..STRICT };
const LOSSY: Terms = Terms { delete_empty_dir: true, ..STRICT };

fn judge(terms: Terms, pod: &Workload) -> Answer {
    let known = |name: &str, liveness| (("team".to_owned(), name.to_owned()), liveness);
    let daemon_sets: DaemonSets =
        [known("alive", Liveness::Alive), known("gone", Liveness::Gone), known("unreadable", Liveness::Unreadable)].into();
    let own = Own {
        uids: BTreeSet::from(["uid-hook".to_owned()]),
        names: BTreeSet::from([("gpu-operator".to_owned(), "gpu-operator-post-x2z".to_owned())]),
    };
    Filter { terms, selector: Selector::default(), daemon_sets: &daemon_sets, own: &own }.judge(pod)
}

fn disk(pod: Workload) -> Workload {
    Workload { empty_dir: true, ..pod }
}

#[test]
fn the_rules_come_in_kubectls_order_and_the_first_refusal_counts() {
    let daemon_set = |name: &str| of_daemon_set(name, pod("exporter"));
    let empty_dir = || Answer::Blocked(Block::EmptyDir { disk: true, memory: false });
    let cases: Vec<(&str, Workload, Terms, Answer)> = vec![
        ("plain", pod("server"), STRICT, Answer::Goes),
        ("alive", daemon_set("alive"), FORCE, Answer::Stays(Stay::DaemonSet("alive".into()))),
        ("nobody has asked", daemon_set("other"), FORCE, Answer::Stays(Stay::DaemonSet("other".into()))),
        ("alive before emptyDir", disk(daemon_set("alive")), STRICT, Answer::Stays(Stay::DaemonSet("alive".into()))),
        ("gone", daemon_set("gone"), STRICT, Answer::Blocked(Block::DaemonSetGone("gone".into()))),
        ("gone, force", daemon_set("gone"), FORCE, Answer::Goes),
        ("gone, force, emptyDir", disk(daemon_set("gone")), FORCE, empty_dir()),
        ("unreadable", daemon_set("unreadable"), FORCE, Answer::Blocked(Block::DaemonSetUnreadable("unreadable".into()))),
        ("emptyDir", disk(pod("server")), STRICT, empty_dir()),
        ("emptyDir, force", disk(pod("server")), FORCE, empty_dir()),
        ("emptyDir may be lost", disk(pod("server")), LOSSY, Answer::Goes),
        ("emptyDir before bare", disk(bare(pod("server"))), STRICT, empty_dir()),
        ("bare", bare(pod("server")), STRICT, Answer::Blocked(Block::Bare)),
        ("bare, lossy", disk(bare(pod("server"))), LOSSY, Answer::Blocked(Block::Bare)),
        ("bare, force", bare(pod("server")), FORCE, Answer::Goes),
        (
            "any controller counts",
            Workload { controller: Some(controller("kubeflow.org/v1", "PyTorchJob", "llm")), ..pod("worker") },
            STRICT,
            Answer::Goes,
        ),
    ];
    for (name, pod, terms, expected) in cases {
        assert_eq!(judge(terms, &pod), expected, "{name}");
    }
}

#[test]
fn kubernetes_26080_finished_pods_never_block() {
    for phase in [Phase::Succeeded, Phase::Failed] {
        let finished = Workload { phase, ready: false, ..pod("job") };
        for pod in
            [bare(finished.clone()), disk(finished.clone()), of_daemon_set("gone", finished.clone()), of_daemon_set("unreadable", finished)]
        {
            assert_eq!(judge(STRICT, &pod), Answer::Stays(Stay::Finished), "{pod:?}");
        }
    }
}

#[test]
fn silent_assassin_35_static_pods_are_left_alone() {
    let pod = bare(disk(Workload { mirror: true, ..pod("kube-proxy") }));
    for terms in [STRICT, FORCE, LOSSY] {
        assert_eq!(judge(terms, &pod), Answer::Stays(Stay::Mirror));
    }
}

#[test]
fn what_is_being_deleted_needs_nobodys_permission() {
    let deleting = Workload { deleted_at: Some(at(0)), ..pod("server") };
    for pod in
        [bare(deleting.clone()), disk(deleting.clone()), of_daemon_set("gone", deleting.clone()), of_daemon_set("unreadable", deleting)]
    {
        assert_eq!(judge(STRICT, &pod), Answer::Goes, "{pod:?}");
    }
}

#[test]
fn tuppr_310_the_hooks_own_pod_never_goes() {
    assert_eq!(judge(FORCE, &pod("hook")), Answer::Stays(Stay::Own), "by its UID");
    let by_name = Workload { namespace: "gpu-operator".into(), ..pod("gpu-operator-post-x2z") };
    assert_eq!(judge(FORCE, &by_name), Answer::Stays(Stay::Own), "by its name");
    assert_eq!(judge(FORCE, &pod("gpu-operator-post-x2z")), Answer::Goes, "somebody else's of the same name");
}

/// Lines 93 and 94 of the conformance list.
#[test]
fn drains_leave_out_what_carries_the_drivers_skip_label() {
    let skipped = |driver: Driver| labeled(driver.traits().drain_skip_label, "true", labeled("app", "train", pod("server")));
    for driver in Driver::ALL {
        for (selector, plain, other) in [("", true, true), ("app=train", true, false), ("app!=train", false, true)] {
            let drain = Drain { pod_selector: selector.into(), ..Drain::default() };
            let selector = drain_selector(driver, &drain).expect("a selector");
            let daemon_sets = DaemonSets::new();
            let own = Own::default();
            let filter = Filter { terms: Terms::from(&drain), selector, daemon_sets: &daemon_sets, own: &own };
            let goes = |pod: &Workload| filter.judge(pod) == Answer::Goes;
            assert_eq!(goes(&labeled("app", "train", pod("server"))), plain, "{}", filter.selector);
            assert_eq!(goes(&pod("server")), other, "{}", filter.selector);
            assert!(!goes(&skipped(driver)), "{}", filter.selector);
            let off = labeled(driver.traits().drain_skip_label, "false", labeled("app", "train", pod("server")));
            assert_eq!(goes(&off), plain, "only `true` skips");
        }
    }
    let gpu = drain_selector(Driver::Gpu, &Drain { pod_selector: "a=b".into(), ..Drain::default() }).expect("a selector");
    assert_eq!(gpu.to_string(), "a=b,nvidia.com/gpu-driver-upgrade-drain.skip!=true");
    assert!(drain_selector(Driver::Gpu, &Drain { pod_selector: "a b".into(), ..Drain::default() }).is_err());
}

/// Users had to read pod names and causes out of a long error; the policy's key is what they need.
#[test]
fn gpu_operator_454_each_block_names_the_policy_key_that_would_allow_it() {
    let empty = |disk, memory| Block::EmptyDir { disk, memory };
    let cases: BTreeMap<&str, (Block, Option<&str>)> = [
        ("has an emptyDir in memory (shared memory), which would be lost", (empty(false, true), Some("podDeletion.deleteEmptyDir"))),
        ("has an emptyDir on disk, which would be lost", (empty(true, false), Some("podDeletion.deleteEmptyDir"))),
        ("has emptyDirs on disk and in memory, which would be lost", (empty(true, true), Some("podDeletion.deleteEmptyDir"))),
        ("has no controller, and nobody would bring it back", (Block::Bare, Some("podDeletion.force"))),
        ("is left over from daemonset/x, and nobody would bring it back", (Block::DaemonSetGone("x".into()), Some("podDeletion.force"))),
        ("belongs to daemonset/x, which would bring it back at once", (Block::DaemonSet("x".into()), None)),
        ("belongs to daemonset/x, which could not be read", (Block::DaemonSetUnreadable("x".into()), None)),
        ("is a static pod of the node", (Block::Mirror, None)),
    ]
    .into();
    for (text, (block, key)) in cases {
        assert_eq!(block.to_string(), text);
        assert_eq!(block.policy_key(Step::PodDeletion).as_deref(), key);
    }
    assert_eq!(Block::Bare.policy_key(Step::Drain).as_deref(), Some("drain.force"));
}

#[test]
fn the_steps_terms_are_those_of_the_policy() {
    let deletion = PodDeletion { force: true, ..PodDeletion::default() };
    assert_eq!(Terms::from(&deletion), Terms { step: Step::PodDeletion, force: true, delete_empty_dir: false });
    let drain = Drain { delete_empty_dir: true, ..Drain::default() };
    assert_eq!(Terms::from(&drain), Terms { step: Step::Drain, force: false, delete_empty_dir: true });
}
