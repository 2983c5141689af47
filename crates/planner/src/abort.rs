//! Release of nodes: removes everything that gpu-rollout set on a node, in any mode. Foreign
//! cordons, skip labels of others and the states of NVIDIA's controller stay unchanged.

use contract::driver::Driver;

use super::action::NodePatch;
use super::decide::WAKE_VALUE;
use super::drive_upgrade::record::{NodeRecordState, read};
use super::hold;
use super::node::is_driver_node;
use nvidia_upgrade::state::ControllerState;
use observed::pause::HOLD;
use observed::{Observed, ObservedNode};

/// Returns the patches that release all nodes, for every driver. Nodes with the record of a newer
/// program are left to that program. `paused`: the drivers for which a node is, or becomes, paused.
/// NVIDIA's controller does not know gpu-rollout's pauses, so holds keep it from such a node.
pub fn release_patches<'d>(
    observed: &Observed,
    paused: impl Fn(&ObservedNode) -> &'d [Driver],
) -> Vec<NodePatch> {
    observed.nodes.values().filter_map(|node| of_node(node, paused(node))).collect()
}

/// Returns the patch that releases one node; `None` if there is nothing to change on it, or if its
/// record is of a newer program.
pub fn of_node(node: &ObservedNode, paused: &[Driver]) -> Option<NodePatch> {
    let mut patch = NodePatch::for_node(node);
    for driver in Driver::ALL {
        restore_driver(node, driver, &mut patch)?;
        if paused.contains(&driver) {
            stays_paused(node, driver, &mut patch);
        }
    }
    (!patch.is_empty()).then_some(patch)
}

/// Keeps or adds the hold of a pause in a patch that releases the node. A skip label of others
/// stays unchanged. A node that NVIDIA's controller has already started gets no hold, because the
/// controller would ignore it.
fn stays_paused(node: &ObservedNode, driver: Driver, patch: &mut NodePatch) {
    let traits = driver.traits();
    let free = !node.labels.has(traits.skip_label, "true");
    let started = ControllerState::of_node(node, traits).is_busy();
    let held = hold::is_held(node, driver);
    if started || !(held || free && is_driver_node(node, driver)) {
        return;
    }
    for (parts, found, key, value) in [
        (&mut patch.labels, &node.labels, traits.skip_label, "true"),
        (&mut patch.annotations, &node.annotations, traits.hold, HOLD),
    ] {
        parts.remove(key);
        if found.get(key).is_none_or(|found| found != value) {
            parts.insert(key.to_owned(), Some(value.to_owned()));
        }
    }
}

/// Returns the patch that releases one node for one driver.
pub fn of_driver(node: &ObservedNode, driver: Driver) -> Option<NodePatch> {
    let mut patch = NodePatch::for_node(node);
    restore_driver(node, driver, &mut patch)?;
    (!patch.is_empty()).then_some(patch)
}

fn restore_driver(node: &ObservedNode, driver: Driver, patch: &mut NodePatch) -> Option<()> {
    let traits = driver.traits();
    let found = read(node, traits);
    if let NodeRecordState::Newer(_) = found {
        return None;
    }
    if found != NodeRecordState::Nothing {
        patch.labels.insert(traits.own_state_label.to_owned(), None);
        patch.annotations.insert(traits.own_record.to_owned(), None);
    }
    let state = ControllerState::of_node(node, traits);
    if let NodeRecordState::Record(record) = &found {
        // The controller does nothing with a failed node, so it would keep the cordon indefinitely.
        if record.cordoned && node.unschedulable && !state.is_busy() {
            patch.unschedulable = Some(false);
        }
        // The annotation because of which NVIDIA's controller keeps gpu-rollout's cordon: while the
        // controller upgrades the node, it must remove the cordon itself.
        if node.annotations.contains_key(traits.initially_unschedulable) && record.cordoned {
            patch.annotations.insert(traits.initially_unschedulable.to_owned(), None);
        }
    }
    hold::release(node, driver, patch);
    if node.labels.get(traits.skip_label).is_some_and(|value| value.starts_with(WAKE_VALUE)) {
        patch.labels.insert(traits.skip_label.to_owned(), None);
    }
    if node.annotations.contains_key(traits.wake) {
        if state == ControllerState::Done && !is_driver_node(node, driver) {
            patch.labels.insert(traits.state_label.to_owned(), None);
        }
        patch.annotations.insert(traits.wake.to_owned(), None);
    }
    if node.annotations.contains_key(traits.retries) {
        patch.annotations.insert(traits.retries.to_owned(), None);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(
        labels: &[(&str, &str)],
        annotations: &[(&str, &str)],
        unschedulable: bool,
    ) -> ObservedNode {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        ObservedNode {
            name: "gpu-0".into(),
            labels: map(labels),
            annotations: map(annotations),
            unschedulable,
            ..ObservedNode::default()
        }
    }

    const RECORD: &str = r#"{"version":1,"state":"drain-required","since":"2026-01-01T00:00:00Z","started":"2026-01-01T00:00:00Z","digest":"d","cordoned":true}"#;

    #[test]
    fn what_is_ours_goes_and_nothing_else() {
        let gpu = Driver::Gpu.traits();
        let driven = node(
            &[(gpu.own_state_label, "drain-required"), ("other", "x")],
            &[(gpu.own_record, RECORD), ("nvidia.com/gpu-driver-upgrade-enabled", "true")],
            true,
        );
        let patch = of_node(&driven, &[]).expect("something is ours");
        assert_eq!(patch.unschedulable, Some(false));
        assert_eq!(patch.labels.keys().collect::<Vec<_>>(), [gpu.own_state_label]);
        assert_eq!(patch.annotations.keys().collect::<Vec<_>>(), [gpu.own_record]);
    }

    #[test]
    fn abort_keeps_foreign_cordon_and_skip_label() {
        let gpu = Driver::Gpu.traits();
        assert_eq!(of_node(&node(&[(gpu.skip_label, "true")], &[], true), &[]), None);
        let found = RECORD.replace("\"cordoned\":true", "\"cordoned\":false");
        let patch =
            of_node(&node(&[], &[(gpu.own_record, &found)], true), &[]).expect("a record of ours");
        assert_eq!(
            patch.unschedulable, None,
            "system-upgrade-controller#71: only our own cordons go"
        );
    }

    #[test]
    fn abort_ends_our_work_and_keeps_the_vendors() {
        let gpu = Driver::Gpu.traits();
        let held = of_node(&node(&[(gpu.skip_label, "true")], &[(gpu.hold, "true")], false), &[])
            .expect("a hold");
        assert_eq!(held.labels[gpu.skip_label], None);
        let woken = of_node(
            &node(&[(gpu.skip_label, "gpu-rollout-wake-3")], &[(gpu.retries, "{}")], false),
            &[],
        )
        .expect("a wake");
        assert_eq!(
            (woken.labels[gpu.skip_label].clone(), woken.annotations[gpu.retries].clone()),
            (None, None)
        );
        let in_progress = node(
            &[(gpu.state_label, "pod-restart-required")],
            &[(gpu.own_record, RECORD), (gpu.initially_unschedulable, "true")],
            true,
        );
        let patch = of_node(&in_progress, &[]).expect("a record");
        assert_eq!(patch.unschedulable, None, "its controller uncordons it when it is done");
        assert_eq!(patch.annotations[gpu.initially_unschedulable], None);
    }

    /// The cordon stayed on a node that NVIDIA's controller had given up, and the next run took it
    /// for a foreign one.
    #[test]
    fn cordon_of_node_that_controller_gave_up_goes() {
        let gpu = Driver::Gpu.traits();
        let failed =
            node(&[(gpu.state_label, "upgrade-failed")], &[(gpu.own_record, RECORD)], true);
        assert_eq!(of_node(&failed, &[]).expect("a record").unschedulable, Some(false));
    }

    #[test]
    fn a_newer_record_is_left_alone() {
        let newer = RECORD.replace("\"version\":1", "\"version\":9");
        assert_eq!(
            of_node(&node(&[], &[(Driver::Gpu.traits().own_record, &newer)], true), &[]),
            None
        );
    }

    /// NVIDIA's controller does not know gpu-rollout's pauses: without holds, it continued two
    /// minutes after the abort.
    #[test]
    fn node_that_stays_paused_keeps_its_hold() {
        let gpu = Driver::Gpu.traits();
        let present = ("nvidia.com/gpu.present", "true");
        let held = |labels: &[(&str, &str)], annotations: &[(&str, &str)]| {
            of_node(&node(labels, annotations, false), &[Driver::Gpu])
        };
        assert_eq!(
            held(&[present, (gpu.skip_label, "true")], &[(gpu.hold, HOLD)]),
            None,
            "it is held already"
        );
        let steered = held(&[present, (gpu.skip_label, "true")], &[(gpu.hold, "true")])
            .expect("a hold of mode steer");
        assert_eq!(
            (steered.labels.len(), steered.annotations[gpu.hold].as_deref()),
            (0, Some(HOLD)),
            "resume releases it"
        );
        let free =
            held(&[present, (gpu.skip_label, "gpu-rollout-wake-1")], &[]).expect("it is not held");
        assert_eq!(free.labels[gpu.skip_label].as_deref(), Some("true"));
        assert_eq!(held(&[present, (gpu.skip_label, "true")], &[]), None, "a user's skip label");
        assert_eq!(held(&[("other", "x")], &[]), None, "it needs no driver");
        assert_eq!(
            held(&[present, (gpu.state_label, "drain-required")], &[]),
            None,
            "it is finished"
        );
    }
}
