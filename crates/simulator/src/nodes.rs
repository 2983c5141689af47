//! The nodes of the simulated cluster, and whether their kubelets run.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use contract::driver::Driver;
use nvidia_upgrade::state::ControllerState;
use observed::{Labels, ObservedNode};
use planner::action::NodePatch;

use super::caches::WorldChange;
use super::context::SimulationContext;
use super::event::WorldEvent;
use super::invariants::is_in_progress;

/// The node name of pods outside of the fleet.
pub(super) const ELSEWHERE: &str = "(elsewhere)";

/// A simulated node.
#[derive(Clone, Debug)]
pub(super) struct SimulatedNode {
    pub(super) node: ObservedNode,
    /// Number of GPUs that its pods can use.
    pub(super) gpus: usize,
    /// Whether the hook has cordoned it.
    pub(super) is_cordoned_by_hook: bool,
    /// Whether labels or annotations were edited by hand. The hook is not responsible for the
    /// consequences.
    pub(super) is_edited: bool,
    /// Events that its kubelet handles when it runs again.
    deferred: Vec<WorldEvent>,
}

impl SimulatedNode {
    pub(super) fn new(node: ObservedNode, gpus: usize) -> Self {
        Self { node, gpus, is_cordoned_by_hook: false, is_edited: false, deferred: Vec::new() }
    }

    /// Sets or removes a label by hand.
    pub(super) fn edit_label(&mut self, key: &str, value: Option<&str>) {
        self.is_edited = true;
        set_or_remove(&mut self.node.labels, key, value);
    }

    /// Sets or removes an annotation by hand.
    pub(super) fn edit_annotation(&mut self, key: &str, value: Option<&str>, driver: Driver) {
        // Without the record, the hook cannot recognize its cordon.
        self.is_cordoned_by_hook &= key != driver.traits().own_record;
        self.is_edited = true;
        set_or_remove(&mut self.node.annotations, key, value);
    }

    /// Whether the record on the node claims the cordon for the hook.
    pub(super) fn claims_cordon(&self, driver: Driver) -> bool {
        self.node
            .annotations
            .get(driver.traits().own_record)
            .is_some_and(|text| text.contains("\"cordoned\":true"))
    }
}

/// Sets a key (`Some`) or removes it.
pub(super) fn set_or_remove(map: &mut Labels, key: &str, value: Option<&str>) {
    match value {
        Some(value) => drop(map.insert(key.to_owned(), value.to_owned())),
        None => drop(map.remove(key)),
    }
}

/// Applies a patch.
pub(super) fn apply_patch(node: &mut ObservedNode, patch: &NodePatch) {
    for (key, value) in &patch.labels {
        set_or_remove(&mut node.labels, key, value.as_deref());
    }
    for (key, value) in &patch.annotations {
        set_or_remove(&mut node.annotations, key, value.as_deref());
    }
    node.unschedulable = patch.unschedulable.unwrap_or(node.unschedulable);
}

/// All nodes by name.
#[derive(Debug, Default)]
pub(super) struct SimulatedNodes {
    by_name: HashMap<String, SimulatedNode>,
    /// The nodes in certain states, which are counted at every write.
    pub(super) sets: NodeSets,
    /// The largest number of GPUs of a node.
    pub(super) most_gpus: usize,
}

/// The names of nodes in certain states.
#[derive(Debug, Default)]
pub(super) struct NodeSets {
    /// The hook's own upgrade is in progress.
    pub(super) in_progress: BTreeSet<String>,
    pub(super) cordoned_by_hook: BTreeSet<String>,
    /// NVIDIA's upgrade controller has started them, and has not finished.
    pub(super) busy: BTreeSet<String>,
    pub(super) unschedulable: BTreeSet<String>,
}

impl NodeSets {
    /// Updates the sets after a change of a node. `None`: it was removed.
    fn update(&mut self, name: &str, node: Option<&SimulatedNode>, driver: Driver) {
        let is = |test: &dyn Fn(&SimulatedNode) -> bool| node.is_some_and(test);
        let state =
            |node: &SimulatedNode| ControllerState::of_node(&node.node, Driver::Gpu.traits());
        for (set, belongs) in [
            (&mut self.in_progress, is(&|node| is_in_progress(&node.node, driver))),
            (&mut self.cordoned_by_hook, is(&|node| node.is_cordoned_by_hook)),
            (&mut self.busy, is(&|node| state(node).is_busy())),
            (&mut self.unschedulable, is(&|node| node.node.unschedulable)),
        ] {
            if !belongs {
                set.remove(name);
            } else if !set.contains(name) {
                set.insert(name.to_owned());
            }
        }
    }
}

impl SimulatedNodes {
    pub(super) fn get(&self, name: &str) -> Option<&SimulatedNode> {
        self.by_name.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut SimulatedNode> {
        self.by_name.get_mut(name)
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Iterates over all nodes, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &SimulatedNode> {
        self.by_name.values()
    }

    /// Returns all nodes, in the order of their names.
    pub(super) fn sorted(&self) -> Vec<&SimulatedNode> {
        let mut nodes: Vec<&SimulatedNode> = self.iter().collect();
        nodes.sort_unstable_by_key(|node| &node.node.name);
        nodes
    }

    /// Returns the nodes as the API server stores them, in the order of their names.
    pub(super) fn observed(&self) -> impl Iterator<Item = &ObservedNode> {
        self.sorted().into_iter().map(|node| &node.node)
    }

    /// Adds a node. Its first change publishes it.
    pub(super) fn insert(&mut self, node: SimulatedNode) {
        self.most_gpus = self.most_gpus.max(node.gpus);
        self.by_name.insert(node.node.name.clone(), node);
    }

    /// Removes a node. Returns `false` if no node has this name.
    pub(super) fn remove(&mut self, name: &str, context: &mut SimulationContext<'_>) -> bool {
        let found = self.by_name.remove(name).is_some();
        if found {
            self.sets.update(name, None, context.setup.settings.driver);
            context.publish(WorldChange::Node(name.to_owned(), None));
        }
        found
    }

    /// Gives the node a new resource version and publishes it.
    pub(super) fn publish(&mut self, name: &str, context: &mut SimulationContext<'_>) {
        let Some(node) = self.by_name.get_mut(name) else { return };
        self.sets.update(name, Some(node), context.setup.settings.driver);
        node.node.version = (context.watches.version + 1).to_string();
        context.publish(WorldChange::Node(name.to_owned(), Some(Arc::new(node.node.clone()))));
    }

    /// Changes a node and publishes it. Returns `false` if no node has this name.
    pub(super) fn update(
        &mut self,
        name: &str,
        context: &mut SimulationContext<'_>,
        change: impl FnOnce(&mut SimulatedNode),
    ) -> bool {
        let Some(node) = self.by_name.get_mut(name) else { return false };
        change(node);
        self.publish(name, context);
        true
    }

    /// Patches existing nodes, regardless of their resource version.
    pub(super) fn patch_all(&mut self, patches: &[NodePatch], context: &mut SimulationContext<'_>) {
        for patch in patches {
            self.update(&patch.node, context, |node| apply_patch(&mut node.node, patch));
        }
    }

    /// Cordons or uncordons a node on behalf of others. Returns `false` if the node is already so.
    pub(super) fn set_cordon(
        &mut self,
        name: &str,
        cordoned: bool,
        driver: Driver,
        context: &mut SimulationContext<'_>,
    ) -> bool {
        let differs =
            self.by_name.get(name).is_some_and(|node| node.node.unschedulable != cordoned);
        differs
            && self.update(name, context, |node| {
                // A cordon that the hook's record claims looks like the hook's own.
                (node.node.unschedulable, node.is_cordoned_by_hook) =
                    (cordoned, cordoned && node.claims_cordon(driver));
            })
    }

    /// Stops or restarts the kubelet. Returns `false` if it is already so.
    pub(super) fn set_ready(
        &mut self,
        name: &str,
        ready: bool,
        context: &mut SimulationContext<'_>,
    ) -> bool {
        let at = context.setup.clocks.of_node(name, context.now());
        let differs = self.by_name.get(name).is_some_and(|node| node.node.ready != ready);
        differs
            && self.update(name, context, |node| {
                (node.node.ready, node.node.ready_since) = (ready, Some(at));
            })
    }

    pub(super) fn is_ready(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|node| node.node.ready)
    }

    /// Whether the kubelet acts now. A stopped kubelet gets the event when it runs again.
    pub(super) fn kubelet_acts(&mut self, name: &str, event: impl FnOnce() -> WorldEvent) -> bool {
        match self.by_name.get_mut(name) {
            Some(node) if node.node.ready => true,
            Some(node) => {
                node.deferred.push(event());
                false
            }
            None => name == ELSEWHERE,
        }
    }

    /// Schedules the events that the kubelet missed while it was stopped.
    pub(super) fn resume_kubelet(&mut self, name: &str, context: &mut SimulationContext<'_>) {
        let deferred = self
            .by_name
            .get_mut(name)
            .map(|node| std::mem::take(&mut node.deferred))
            .unwrap_or_default();
        for (later, event) in (0_u64..).zip(deferred) {
            context.after(100 + later * 10, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelet_that_stopped_acts_when_it_is_back() {
        let setup = crate::fixture::setup(1);
        let mut context = SimulationContext::new(&setup);
        let mut nodes = SimulatedNodes::default();
        nodes.insert(SimulatedNode::new(
            ObservedNode { name: "gpu-0".to_owned(), ready: true, ..ObservedNode::default() },
            8,
        ));
        assert!(nodes.kubelet_acts("gpu-0", || WorldEvent::SchedulePods));
        assert!(nodes.set_ready("gpu-0", false, &mut context));
        assert!(!nodes.kubelet_acts("gpu-0", || WorldEvent::SchedulePods));
        assert_eq!(context.queue.next_at(), None);
        assert!(nodes.set_ready("gpu-0", true, &mut context));
        nodes.resume_kubelet("gpu-0", &mut context);
        assert_eq!(context.queue.next_at(), Some(100));
    }
}
