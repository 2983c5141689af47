use super::*;
use jiff::{SignedDuration, Timestamp};

use crate::progress::{self, NodeProgress, NodeStage, RolloutPace};
use crate::reason::{Reason, Wait};
use contract::count::Count;
use observed::{ClusterPolicy, ObservedDeployment, OptionalApi};

fn policy(auto_upgrade: bool, max_parallel: u32) -> LiveUpgradePolicy {
    LiveUpgradePolicy {
        stated: true,
        auto_upgrade,
        max_parallel: Some(max_parallel),
        max_unavailable: Some("25%".to_owned()),
        pod_deletion: Some(PodDeletionPolicy::default()),
        ..LiveUpgradePolicy::default()
    }
}

fn driver(name: &str, max_parallel: u32) -> NvidiaDriver {
    NvidiaDriver {
        name: name.to_owned(),
        upgrade_policy: policy(true, max_parallel),
        ..NvidiaDriver::default()
    }
}

fn node(name: &str, owner: Option<&str>) -> ObservedNode {
    let label = |owner: &str| (names::DRIVER_OWNER_LABEL.to_owned(), owner.to_owned());
    ObservedNode {
        name: name.to_owned(),
        labels: owner.map(label).into_iter().collect(),
        ..ObservedNode::default()
    }
}

/// Two NVIDIADrivers next to a ClusterPolicy with another limit.
fn cluster(version: &str) -> Observed {
    Observed {
        operator: Some(ObservedDeployment {
            version: Some(version.to_owned()),
            ..ObservedDeployment::default()
        }),
        cluster_policy: OptionalApi::Served(Some(ClusterPolicy {
            driver_enabled: true,
            uses_nvidia_drivers: true,
            upgrade_policy: policy(false, 7),
            ..ClusterPolicy::default()
        })),
        nvidia_drivers: OptionalApi::Served(vec![driver("default", 3), driver("blue", 1)]),
        ..Observed::default()
    }
}

fn settings() -> Settings {
    serde_json::from_value(serde_json::json!({
        "formatVersion": 1, "digest": "d", "release": "gpu-operator-post", "namespace": "gpu-operator", "record": "record",
        "component": "gpu-operator", "tasks": ["settle"], "mode": "assist", "gate": "settled", "budgetSeconds": 3600,
        "perNodeSeconds": 600, "quietSeconds": 15, "graceSeconds": 120, "operatorNamespace": "gpu-operator",
        "clusterPolicy": "cluster-policy", "tolerateNotReady": 0, "expected": {},
        "dra": {"reroll": "auto", "required": "auto", "namespaces": [], "maxUnavailable": "100%", "replacementSeconds": 300}
    }))
    .expect("settings")
}

fn named(policies: &[LivePolicy]) -> Vec<(String, Option<u32>)> {
    policies.iter().map(|live| (live.object(), live.policy.max_parallel)).collect()
}

#[test]
fn cluster_policy_governs_every_driver_before_26_7() {
    let found = live(&cluster("v26.3.3"), &settings());
    assert_eq!(named(&found), [("ClusterPolicy `cluster-policy`".to_owned(), Some(7))]);
    assert!(found[0].governs(&node("a", Some("blue"))) && found[0].governs(&node("b", None)));
}

#[test]
fn each_nvidia_driver_governs_nodes_from_26_7() {
    for version in ["v26.7.0", "main-latest"] {
        let found = live(&cluster(version), &settings());
        let expected = [
            ("NVIDIADriver `default`".to_owned(), Some(3)),
            ("NVIDIADriver `blue`".to_owned(), Some(1)),
        ];
        assert_eq!(named(&found), expected, "{version}");
        assert!(
            found[1].governs(&node("a", Some("blue")))
                && !found[0].governs(&node("a", Some("blue")))
        );
        assert!(!found[0].governs(&node("b", None)), "nobody's yet");
    }
}

#[test]
fn coming_values_replace_only_the_charts_own_objects() {
    let mut settings = settings();
    settings.expected.upgrade_policy.max_parallel_upgrades = Some(1);
    let observed = cluster("v26.7.0");
    let limits = |settings: &Settings| {
        named(&coming(&observed, settings)).into_iter().map(|(_, limit)| limit).collect::<Vec<_>>()
    };
    assert_eq!(limits(&settings), [Some(3), Some(1)], "the chart makes no NVIDIADriver");
    settings.expected.default_nvidia_driver =
        Some(contract::settings::ExpectedNvidiaDriver::default());
    settings.expected.upgrade_policy.max_parallel_upgrades = Some(2);
    assert_eq!(limits(&settings), [Some(2), Some(1)]);
}

#[test]
fn pools_have_their_own_sizes_and_limits() {
    let pools = NodePools::in_force(&cluster("v26.7.0"), &settings());
    let nodes = [
        node("a", Some("default")),
        node("b", Some("blue")),
        node("c", Some("blue")),
        node("d", Some("gone")),
        node("e", None),
    ];
    let sizes: Vec<(Option<&str>, usize)> =
        pools.sizes(&nodes).iter().map(|(pool, size)| (pool.owner.as_deref(), *size)).collect();
    assert_eq!(sizes, [(Some("default"), 1), (Some("blue"), 2)]);
    assert!(
        pools.is_split()
            && pools.pool_of(&nodes[3]).is_none()
            && pools.pool_of(&nodes[4]).is_none()
    );
    assert_eq!(pools.common().max_parallel_upgrades, 4, "parallelism adds up");
}

/// One pool uses its only slot, the other three of three. Together this was reported as "slots 4 of
/// 1".
#[test]
fn slots_are_counted_per_nvidia_driver() {
    let pools = NodePools::in_force(&cluster("v26.7.0"), &settings());
    let nodes: Vec<ObservedNode> = [
        ("a", "blue"),
        ("b", "blue"),
        ("c", "default"),
        ("d", "default"),
        ("e", "default"),
        ("f", "default"),
    ]
    .map(|(name, owner)| node(name, Some(owner)))
    .to_vec();
    let stage = |node: &ObservedNode| {
        if ["b", "f"].contains(&node.name.as_str()) {
            NodeStage::Pending
        } else {
            NodeStage::InProgress
        }
    };
    let progress = |node| NodeProgress {
        node,
        stage: stage(node),
        state: None,
        wait: None,
        moves: true,
        started: None,
        ended: None,
        waits_since: None,
    };
    let all: Vec<NodeProgress<'_>> = nodes.iter().map(progress).collect();
    let limit = |used, limit| progress::LimitUse { used, limit: Some(limit) };
    let found: Vec<(Option<&str>, progress::LimitUse)> = progress::by_pool(&all, &pools)
        .iter()
        .map(|of| (of.pool.owner.as_deref(), of.slots(&settings())))
        .collect();
    assert_eq!(found, [(Some("default"), limit(3, 3)), (Some("blue"), limit(1, 1))]);
    assert_eq!(progress::slots(&all, &settings(), &pools), limit(4, 4));
    // 25% of two nodes and of four.
    assert_eq!(progress::unavailable(&all, &pools).limit, Some(2));
}

/// An ETA that slid with the clock for minutes: nodes that waited for their container toolkit were
/// queued for a slot, and the slot of a failed node counted as free.
#[test]
fn wait_that_needs_no_slot_ends_or_is_late() {
    let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
    let pace = RolloutPace { per_node_seconds: 20, measured_nodes: 1 };
    let toolkit = || Reason::ToolkitNotReady { trouble: None };
    let turn = || Reason::DriverOutOfDate { state: None, why: None };
    let second = |seconds: i64| now + SignedDuration::from_secs(seconds);
    for (case, reason, since, with_failed, expected) in [
        ("just started", toolkit(), Some(-5), false, Ok(Some(second(15)))),
        ("slightly late", toolkit(), Some(-30), false, Ok(Some(now))),
        ("late", toolkit(), Some(-51), false, Err("node-late")),
        ("for minutes", Reason::GpusNotOffered, Some(-240), false, Err("node-late")),
        ("unknown start", toolkit(), None, false, Err("start-unknown")),
        ("next to a failed node", toolkit(), Some(-5), true, Ok(Some(second(15)))),
        ("its turn", turn(), Some(-5), false, Ok(Some(second(15)))),
        ("its turn, but not started", turn(), Some(-240), false, Err("not-started")),
        ("no free slot", turn(), Some(-240), true, Err("no-slot")),
    ] {
        let nodes = ["gpu-1", "gpu-0"].map(|name| ObservedNode { ready: true, ..node(name, None) });
        let wait = Wait { node: None, reason: reason.into(), since: now };
        let waiting = NodeProgress {
            node: &nodes[0],
            stage: NodeStage::Pending,
            state: None,
            wait: Some(wait.clone()),
            moves: true,
            started: None,
            ended: None,
            waits_since: since.map(second),
        };
        let failed = NodeProgress {
            node: &nodes[1],
            stage: NodeStage::Failed,
            state: Some("upgrade-failed".to_owned()),
            wait: None,
            moves: false,
            ..waiting.clone()
        };
        let mut all = vec![waiting];
        all.extend(with_failed.then_some(failed));
        let limits = Policy {
            max_parallel_upgrades: 1,
            max_unavailable: Some(Count::Number(2)),
            ..Policy::default()
        };
        let ends = progress::foresee(&all, &settings(), &NodePools::single(limits), pace, now);
        let eta = |has_job| {
            progress::rollout_eta(&all, &ends, pace, std::iter::empty(), (has_job, now))
                .map_err(|error| error.name())
        };
        assert_eq!(eta(true), expected, "{case}");
        // A run that had ended still had an ETA.
        assert_eq!(eta(false), Err("no-hook-running"), "{case}");
    }
}
