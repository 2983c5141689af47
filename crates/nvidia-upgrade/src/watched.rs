//! A hash over the objects that NVIDIA's controller watches: while it stays the same, nothing has
//! woken the controller.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use contract::driver::{Driver, DriverTraits};

use super::controller_generation::ControllerGeneration;
use super::snapshot::DriverSelection;
use super::wake::{WakingChange, driver_specs, policy_spec};
use observed::{Observed, ObservedDaemonSet, ObservedNode};

/// Returns the hash for this generation of the controller. It is a sum over the nodes: `before` is a
/// previous sum with its observed state and the nodes that have changed since then, so that the
/// other nodes need not be examined.
pub fn watched(
    observed: &Observed,
    driver: Driver,
    generation: ControllerGeneration,
    before: Option<(u64, &Observed, &BTreeSet<String>)>,
) -> u64 {
    let traits = driver.traits();
    let notices_skip = generation.is_woken_by(WakingChange::NodeSkip);
    let of_node = |node: Option<&ObservedNode>| of_node(node, traits, notices_skip);
    let Some((sum, then, changed)) = before else {
        return observed
            .nodes
            .values()
            .map(|node| of_node(Some(node)))
            .fold(of_fleet(observed, driver, generation), u64::wrapping_add);
    };
    changed.iter().fold(sum, |sum, name| {
        sum.wrapping_sub(of_node(then.nodes.get(name)))
            .wrapping_add(of_node(observed.nodes.get(name)))
    })
}

fn of_fleet(observed: &Observed, driver: Driver, generation: ControllerGeneration) -> u64 {
    let mut hasher = DefaultHasher::new();
    policy_spec(observed, driver).hash(&mut hasher);
    if generation.is_woken_by(WakingChange::DriverSpec) {
        driver_specs(observed).hash(&mut hasher);
    }
    let selection = DriverSelection::from_observed(observed, driver);
    let is_driver =
        |daemon_set: &&ObservedDaemonSet| selection.selects(&daemon_set.template_labels);
    for daemon_set in observed.daemon_sets.iter().filter(is_driver) {
        (
            &daemon_set.uid,
            &daemon_set.images,
            &daemon_set.template_labels,
            &daemon_set.config_digest,
        )
            .hash(&mut hasher);
    }
    hasher.finish()
}

fn of_node(node: Option<&ObservedNode>, traits: &DriverTraits, notices_skip: bool) -> u64 {
    let Some(node) = node else { return 0 };
    let mut hasher = DefaultHasher::new();
    (&node.name, &node.uid, node.labels.get(traits.state_label)).hash(&mut hasher);
    if notices_skip {
        node.labels.get(traits.skip_label).hash(&mut hasher);
    }
    hasher.finish()
}
