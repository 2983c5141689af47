//! The incrementally updated snapshot must equal a snapshot of all nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::count::Count;
use contract::driver::Driver;
use contract::names;
use contract::policy::Policy;
use jiff::Timestamp;
use nvidia_upgrade::explain::explain_pass;
use nvidia_upgrade::snapshot::{EntryClass, SnapshotCache, SnapshotInputs, SnapshotTables};
use nvidia_upgrade::throttle::slots;
use nvidia_upgrade::{
    ControllerGeneration, ControllerState, PassOptions, PolicyRules, UpgradeSnapshot, pass,
};
use observed::{
    ClusterPolicy, Observed, ObservedDaemonSet, ObservedNode, ObservedPod, ObservedRevision,
    OptionalApi,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::conformance::fixture::enabled;

/// A generated node. Most nodes are done or pending, without problems.
#[derive(Clone, Debug)]
struct OneNode {
    state: ControllerState,
    cordoned: bool,
    ready: Option<bool>,
    skip: Option<&'static str>,
    requested: bool,
    loads: bool,
    owner: Option<&'static str>,
}

/// A generated pod.
#[derive(Clone, Debug)]
struct OnePod {
    /// Its DaemonSet. `None`: it has no owner.
    owner: Option<&'static str>,
    revision: Option<&'static str>,
    unbound: bool,
    running: bool,
    name: u8,
}

/// A node number's node, if it exists, with its pods.
type Place = (Option<OneNode>, Vec<OnePod>);

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.08)
}

fn node() -> impl Strategy<Value = OneNode> {
    let state = prop_oneof![
        4 => Just(ControllerState::UpgradeRequired),
        4 => Just(ControllerState::Done),
        3 => select([ControllerState::ALL.as_slice(), &[ControllerState::Unrecognized]].concat()),
    ];
    let ready = prop_oneof![8 => Just(Some(true)), 1 => Just(None), 1 => Just(Some(false))];
    let skip = prop_oneof![6 => Just(None), 1 => Just(Some("true")), 1 => Just(Some("gpu-rollout-wake-1"))];
    let owner = select(vec![Some("one"), Some("one"), Some("two"), None]);
    (state, rarely(), ready, skip, rarely(), rarely(), owner).prop_map(
        |(state, cordoned, ready, skip, requested, loads, owner)| OneNode {
            state,
            cordoned,
            ready,
            skip,
            requested,
            loads,
            owner,
        },
    )
}

fn pod() -> impl Strategy<Value = OnePod> {
    let owner = prop_oneof![12 => Just(Some("a")), 4 => Just(Some("b")), 1 => Just(Some("other")), 2 => Just(None)];
    let revision = prop_oneof![6 => Just(Some("new")), 6 => Just(Some("old")), 1 => Just(None)];
    (owner, revision, prop::bool::weighted(0.02), prop::bool::weighted(0.9), any::<u8>()).prop_map(
        |(owner, revision, unbound, running, name)| OnePod {
            owner,
            revision,
            unbound,
            running,
            name,
        },
    )
}

fn place() -> impl Strategy<Value = Place> {
    let node = prop_oneof![30 => node().prop_map(Some), 1 => Just(None)];
    let pods =
        prop_oneof![20 => pod().prop_map(|pod| vec![pod]), 3 => prop::collection::vec(pod(), 0..3)];
    (node, pods)
}

fn policy() -> impl Strategy<Value = Policy> {
    let limit = prop_oneof![
        3 => Just(None),
        2 => (0..12_u32).prop_map(|number| Some(Count::Number(number))),
        2 => (0..110_u32).prop_map(|share| Some(Count::Percent(share))),
    ];
    (0..9_u32, limit).prop_map(|(max_parallel_upgrades, max_unavailable)| Policy {
        max_parallel_upgrades,
        max_unavailable,
        ..Policy::default()
    })
}

/// Returns the observed state. `wrong`: a DaemonSet whose desired number differs from its pods.
fn observed(places: &[Place], nowhere: &[OnePod], wrong: bool) -> Observed {
    let traits = Driver::Gpu.traits();
    let app = [("app".to_owned(), "nvidia-driver-daemonset".to_owned())];
    let mut observed = Observed {
        cluster_policy: OptionalApi::Served(Some(ClusterPolicy::default())),
        ..Observed::default()
    };
    let as_pod = |node: Option<String>, number: usize, one: &OnePod| ObservedPod {
        // Neither names nor UIDs are in the order of the nodes.
        name: format!("driver-{:03}-{number}", one.name),
        uid: format!("{node:?}-{number}-{}", one.name),
        node,
        owner: one.owner.map(str::to_owned),
        orphaned: one.owner.is_none(),
        revision: one.revision.map(str::to_owned),
        unbound: one.unbound,
        running: one.running,
        containers_ready: one.running,
        labels: app.clone().into(),
        ..ObservedPod::default()
    };
    for (number, (node, pods)) in places.iter().enumerate() {
        let name = format!("n{number:02}");
        observed
            .pods
            .edit()
            .extend(pods.iter().map(|one| Arc::new(as_pod(Some(name.clone()), number, one))));
        let Some(node) = node else { continue };
        let mut view = ObservedNode {
            name: name.clone(),
            uid: name.clone(),
            unschedulable: node.cordoned,
            ..ObservedNode::default()
        };
        view.ready = node.ready == Some(true);
        view.ready_since = node.ready.map(|_| Timestamp::UNIX_EPOCH);
        if node.state != ControllerState::Unknown {
            view.labels.insert(traits.state_label.into(), node.state.label().into());
        }
        view.labels.extend(node.skip.map(|value| (traits.skip_label.to_owned(), value.to_owned())));
        view.labels.extend(
            node.owner.map(|owner| (names::DRIVER_OWNER_LABEL.to_owned(), owner.to_owned())),
        );
        view.annotations
            .extend(node.requested.then(|| (traits.requested.to_owned(), "true".to_owned())));
        view.annotations
            .extend(node.loads.then(|| (traits.safe_load.to_owned(), "true".to_owned())));
        observed.nodes.insert(name, view);
    }
    observed.pods.edit().extend(
        nowhere.iter().enumerate().map(|(number, one)| Arc::new(as_pod(None, 100 + number, one))),
    );
    for uid in ["b", "a"] {
        let owned = observed.pods.iter().filter(|pod| pod.owner.as_deref() == Some(uid)).count();
        let desired = i32::try_from(owned).expect("few") + i32::from(wrong && uid == "b");
        let set = ObservedDaemonSet {
            uid: uid.into(),
            name: uid.into(),
            desired,
            template_labels: app.clone().into(),
            ..ObservedDaemonSet::default()
        };
        observed.daemon_sets.push(set);
        observed.revisions.push(ObservedRevision {
            owner: uid.into(),
            revision: 1,
            hash: "new".into(),
        });
    }
    observed
}

/// Compares the incremental snapshot with a complete one.
fn agree(
    roll: &SnapshotCache,
    observed: &Observed,
    rules: &PolicyRules,
    owner: Option<&str>,
) -> Result<(), TestCaseError> {
    let inputs = SnapshotInputs::from_observed(observed, Driver::Gpu);
    let all = UpgradeSnapshot::from_observed(observed, &inputs);
    let all = owner.map_or_else(|| all.clone(), |owner| all.owned_by(owner));
    let tables = SnapshotTables::new(observed, &inputs);
    let quiet = roll.snapshot(observed, &tables, owner, &rules.policy);
    prop_assert_eq!(&quiet.blocked, &all.blocked);
    prop_assert_eq!(slots(&quiet, &rules.policy), slots(&all, &rules.policy));
    let options = PassOptions::new(ControllerGeneration::Gpu26_7, Timestamp::UNIX_EPOCH)
        .seen_from_outside(&all);
    prop_assert_eq!(pass(&quiet, rules, &options), pass(&all, rules, &options));
    let (ours, theirs) =
        (explain_pass(&quiet, rules, &options, None), explain_pass(&all, rules, &options, None));
    prop_assert_eq!(ours.moves, theirs.moves);
    let mut own = theirs.waits;
    for (class, number, wait) in [
        (EntryClass::Pending, quiet.counted.pending, &ours.pending_wait),
        (EntryClass::Skipped, quiet.counted.skipped, &ours.skipped_wait),
    ] {
        let counted = roll.counted_nodes(&quiet, class, owner);
        let (of_class, others): (Vec<_>, Vec<_>) =
            own.into_iter().partition(|waiting| counted.contains(waiting.node.as_str()));
        own = others;
        prop_assert_eq!(of_class.len(), number);
        prop_assert_eq!(
            of_class.iter().map(|waiting| waiting.node.as_str()).collect::<BTreeSet<_>>(),
            counted
        );
        prop_assert!(of_class.iter().all(|waiting| Some(&waiting.wait) == wait.as_ref()));
    }
    prop_assert_eq!(ours.waits, own);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stored_aggregates_equal_a_full_recount(
        places in prop::collection::vec(place(), 1..24),
        others in prop::collection::vec((0..24_usize, place()), 0..6),
        nowhere in prop_oneof![9 => Just(Vec::new()), 1 => prop::collection::vec(pod(), 1..3)],
        policy in policy(),
        wrong in prop::bool::weighted(0.05),
        off in prop::bool::weighted(0.05),
    ) {
        let rules = PolicyRules { auto_upgrade: !off, ..enabled(policy) };
        let before = observed(&places, &nowhere, wrong);
        let inputs = SnapshotInputs::from_observed(&before, Driver::Gpu);
        let mut roll = SnapshotCache::new(&before, &SnapshotTables::new(&before, &inputs));
        for owner in [None, Some("one"), Some("two")] {
            agree(&roll, &before, &rules, owner)?;
        }
        let mut later = places;
        let mut changed = BTreeSet::new();
        for (number, place) in others {
            if let Some(slot) = later.get_mut(number) {
                *slot = place;
                changed.insert(format!("n{number:02}"));
            }
        }
        let after = observed(&later, &[], wrong);
        let tables = SnapshotTables::new(&after, &inputs);
        roll.update(&after, &tables, changed.iter().map(String::as_str));
        prop_assert_eq!(&roll, &SnapshotCache::new(&after, &tables));
        for owner in [None, Some("one"), Some("two")] {
            agree(&roll, &after, &rules, owner)?;
        }
    }
}
