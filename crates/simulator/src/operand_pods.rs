//! Device plugin and exporter, if the setup has them. Their pods are removed with the driver and
//! created again after the toolkit. They can fail, be missing, or get a new revision that is rolled
//! out node by node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;

use contract::names;
use contract::operand::Operand;
use observed::{
    ClusterPolicy, ImageSpec, Labels, Observed, ObservedDaemonSet, ObservedNode, ObservedPod,
    ObservedRevision, OperandPod, OperandSpec,
};

use super::caches::WorldChange;
use super::event::WorldEvent;
use super::objects::timestamp;
use super::operands::OperandScope;
use super::operator_objects::OperatorObjects;

/// The operands, with the suffix of their node label.
pub(super) const OPERANDS: [(Operand, &str); 3] = [
    (Operand::Validator, "operator-validator"),
    (Operand::DevicePlugin, "device-plugin"),
    (Operand::DcgmExporter, "dcgm-exporter"),
];
/// The operands that this module simulates.
pub(super) const PLUGIN_AND_EXPORTER: [Operand; 2] = [Operand::DevicePlugin, Operand::DcgmExporter];
/// The resource that the device plugin offers.
const GPU: &str = "nvidia.com/gpu";
/// Milliseconds until the DaemonSet controller checks again whether it can replace the next pod of
/// a rolling update.
pub(super) const ROLL: u64 = 1_000;

/// An event of an operand on a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum OperandEvent {
    /// The operand's DaemonSet creates a pod.
    Create(Operand),
    /// The pod with this number is ready.
    Ready(Operand, u64),
    /// A broken operand is repaired.
    Repaired(Operand),
    /// The rolling update continues.
    Roll(Operand),
}

/// The pods of one node.
#[derive(Debug, Default)]
struct NodeOperandPods {
    pods: BTreeMap<Operand, OperandPodState>,
    /// The operands whose pods do not become ready.
    broken: BTreeSet<Operand>,
    /// Number of GPUs that the kubelet has lost.
    lost: usize,
}

#[derive(Debug)]
struct OperandPodState {
    pod: OperandPod,
    number: u64,
    /// Whether its containers are ready.
    works: bool,
}

impl OperandPodState {
    fn crash(&mut self) {
        let pod = &mut self.pod;
        (pod.ready, pod.restarts, pod.trouble) =
            (false, pod.restarts + 1, Some("CrashLoopBackOff".into()));
    }

    fn is_of(&self, revision: &str) -> bool {
        self.pod.revision.as_deref() == Some(revision)
    }
}

fn revision(number: u32) -> String {
    format!("revision-{number}")
}

fn newest(operator: &OperatorObjects, operand: Operand) -> String {
    revision(operator.operand_revisions.get(&operand).copied().unwrap_or(0))
}

/// The pods of all nodes.
#[derive(Debug, Default)]
pub(super) struct OperandPods(BTreeMap<String, NodeOperandPods>);

impl OperandPods {
    /// Adds the pods of a node before the rollout, all of them ready.
    pub(super) fn add_running(&mut self, name: &str, scope: &mut OperandScope<'_, '_>) {
        self.0.insert(name.to_owned(), NodeOperandPods::default());
        if !scope.context.setup.operands {
            return;
        }
        for operand in PLUGIN_AND_EXPORTER {
            self.create(name, operand, scope);
            let Some(state) = self.state_mut(name, operand) else { return };
            state.works = true;
            state.pod.ready = true;
            state.pod.created =
                timestamp(0).saturating_sub(SignedDuration::from_hours(1)).unwrap_or(timestamp(0));
        }
        let Some(node) = scope.nodes.get_mut(name) else { return };
        for (_, suffix) in OPERANDS {
            node.node
                .labels
                .insert(format!("{}{suffix}", names::DEPLOY_LABEL_PREFIX), "true".to_owned());
        }
        self.offer_gpus(name, scope);
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        self.0.remove(name);
    }

    fn state(&self, name: &str, operand: Operand) -> Option<&OperandPodState> {
        self.0.get(name)?.pods.get(&operand)
    }

    fn state_mut(&mut self, name: &str, operand: Operand) -> Option<&mut OperandPodState> {
        self.0.get_mut(name)?.pods.get_mut(&operand)
    }

    pub(super) fn pod(&self, name: &str, operand: Operand) -> Option<&OperandPod> {
        self.state(name, operand).map(|state| &state.pod)
    }

    /// Returns the pods of a node.
    pub(super) fn on_node(&self, name: &str) -> impl Iterator<Item = (Operand, &OperandPod)> {
        self.0
            .get(name)
            .into_iter()
            .flat_map(|node| &node.pods)
            .map(|(operand, state)| (*operand, &state.pod))
    }

    /// Removes all pods of a node, as the driver manager does.
    pub(super) fn remove_all(&mut self, name: &str, scope: &mut OperandScope<'_, '_>) {
        for operand in PLUGIN_AND_EXPORTER {
            self.remove(name, operand, scope);
        }
    }

    /// Creates all pods of a node again, as their DaemonSets do when the toolkit is ready.
    pub(super) fn create_all(&mut self, name: &str, scope: &mut OperandScope<'_, '_>) {
        if scope.context.setup.operands {
            for operand in PLUGIN_AND_EXPORTER {
                self.create(name, operand, scope);
            }
        }
    }

    /// Updates the readiness of the node's pods after its kubelet stopped or restarted.
    pub(super) fn follow_kubelet(&mut self, name: &str, scope: &mut OperandScope<'_, '_>) {
        let Some(node) = self.0.get_mut(name) else { return };
        for state in node.pods.values_mut() {
            state.pod.ready = state.works && scope.nodes.is_ready(name);
        }
        for operand in PLUGIN_AND_EXPORTER {
            self.publish(name, operand, scope);
        }
    }

    fn publish(&self, name: &str, operand: Operand, scope: &mut OperandScope<'_, '_>) {
        if scope.context.setup.operands && PLUGIN_AND_EXPORTER.contains(&operand) {
            let pod = self.pod(name, operand).cloned().map(Arc::new);
            scope.context.publish(WorldChange::OperandPod(name.to_owned(), operand, pod));
        }
    }

    pub(super) fn create(
        &mut self,
        name: &str,
        operand: Operand,
        scope: &mut OperandScope<'_, '_>,
    ) {
        let context = &mut *scope.context;
        let number = context.now();
        let Some(node) = self.0.get_mut(name).filter(|node| !node.pods.contains_key(&operand))
        else {
            return;
        };
        let pod = OperandPod {
            owner: operand.traits().daemon_set.into(),
            node: Some(name.into()),
            revision: Some(newest(scope.operator, operand).into()),
            created: context.setup.clocks.of_server(number),
            ..OperandPod::default()
        };
        node.pods.insert(operand, OperandPodState { pod, number, works: false });
        self.publish(name, operand, scope);
        let start = scope.context.draw(
            scope.context.setup.times.validator,
            operand.traits().daemon_set,
            name,
        );
        scope.after(start, name, OperandEvent::Ready(operand, number));
    }

    pub(super) fn remove(
        &mut self,
        name: &str,
        operand: Operand,
        scope: &mut OperandScope<'_, '_>,
    ) {
        if self.0.get_mut(name).is_some_and(|node| node.pods.remove(&operand).is_some()) {
            self.publish(name, operand, scope);
            self.offer_gpus(name, scope);
        }
    }

    pub(super) fn ready(
        &mut self,
        name: &str,
        operand: Operand,
        number: u64,
        scope: &mut OperandScope<'_, '_>,
    ) {
        if !scope.nodes.kubelet_acts(name, || {
            WorldEvent::OperandPod(name.to_owned(), OperandEvent::Ready(operand, number))
        }) {
            return;
        }
        let Some(node) = self.0.get_mut(name) else { return };
        let is_broken = node.broken.contains(&operand);
        let Some(state) = node.pods.get_mut(&operand).filter(|state| state.number == number) else {
            return;
        };
        if is_broken {
            state.crash();
        } else {
            state.works = true;
            (state.pod.ready, state.pod.trouble) = (true, None);
        }
        scope
            .context
            .log(|| format!("{name} {operand:?} {}", if is_broken { "fails" } else { "ready" }));
        self.publish(name, operand, scope);
        self.offer_gpus(name, scope);
    }

    /// Makes the pod of the operand crash until it is repaired.
    pub(super) fn break_pod(
        &mut self,
        name: &str,
        operand: Operand,
        scope: &mut OperandScope<'_, '_>,
    ) {
        let Some(node) = self.0.get_mut(name) else { return };
        node.broken.insert(operand);
        if let Some(state) = node.pods.get_mut(&operand) {
            state.works = false;
            state.crash();
        }
        self.offer_gpus(name, scope);
        self.publish(name, operand, scope);
    }

    pub(super) fn repair(
        &mut self,
        name: &str,
        operand: Operand,
        scope: &mut OperandScope<'_, '_>,
    ) {
        let Some(node) = self.0.get_mut(name) else { return };
        node.broken.remove(&operand);
        if let Some(number) = node.pods.get(&operand).map(|state| state.number) {
            self.ready(name, operand, number, scope);
        }
    }

    pub(super) fn lose_gpu(&mut self, name: &str, scope: &mut OperandScope<'_, '_>) {
        if let Some(node) = self.0.get_mut(name) {
            node.lost = 1;
        }
        self.offer_gpus(name, scope);
    }

    /// Updates the GPUs that the device plugin offers through the kubelet.
    fn offer_gpus(&self, name: &str, scope: &mut OperandScope<'_, '_>) {
        let setup = scope.context.setup;
        let Some(operands) = self.0.get(name).filter(|_| setup.operands) else { return };
        let works = operands.pods.get(&Operand::DevicePlugin).is_some_and(|state| state.works);
        let capacity = setup.gpus.saturating_sub(operands.lost);
        let count = |count: usize| Labels::from_iter([(GPU.to_owned(), count.to_string())]);
        let offered = (count(if works { capacity } else { 0 }), count(capacity));
        let differs = |node: &ObservedNode| {
            (&node.gpus_allocatable, &node.gpus_capacity) != (&offered.0, &offered.1)
        };
        if scope.nodes.get(name).is_some_and(|node| differs(&node.node)) {
            scope.nodes.update(name, scope.context, |node| {
                (node.node.gpus_allocatable, node.node.gpus_capacity) = offered;
            });
        }
    }

    /// Replaces one pod of a rolling update at a time. A pod that is not ready is replaced
    /// regardless of the others.
    pub(super) fn roll(&mut self, operand: Operand, scope: &mut OperandScope<'_, '_>) {
        let newest = newest(scope.operator, operand);
        let (mut old, mut down) = (Vec::new(), 0);
        for (name, node) in &self.0 {
            match node.pods.get(&operand) {
                Some(state) if !state.is_of(&newest) => old.push((state.pod.ready, name.clone())),
                Some(state) => down += usize::from(!state.pod.ready),
                None => down += 1,
            }
        }
        old.sort();
        let Some((ready, name)) = old.first().cloned() else { return };
        // If the kubelet of a node has stopped, its pod remains and counts.
        if scope.nodes.is_ready(&name) && (!ready || down == 0) {
            self.remove(&name, operand, scope);
            let recreate =
                scope.context.draw(scope.context.setup.times.recreate, "recreate", &name);
            scope.after(recreate, &name, OperandEvent::Create(operand));
        }
        scope.after(ROLL, "", OperandEvent::Roll(operand));
    }

    /// Returns the problem of a node's device plugin, if there is one.
    pub(super) fn trouble(
        &self,
        node: &ObservedNode,
        operator: &OperatorObjects,
    ) -> Option<String> {
        let newest = newest(operator, Operand::DevicePlugin);
        if self
            .state(&node.name, Operand::DevicePlugin)
            .is_none_or(|state| !state.works || !state.is_of(&newest))
        {
            return Some("its device plugin is not ready or not the newest".to_owned());
        }
        node.gpus_allocatable
            .get(GPU)
            .is_none_or(|count| count == "0")
            .then(|| "it offers no GPU".to_owned())
    }
}

/// Converts the validator's pod to a pod of an operand.
pub(super) fn validator(pod: &ObservedPod) -> OperandPod {
    OperandPod {
        owner: Operand::Validator.traits().daemon_set.into(),
        node: pod.node.as_deref().map(Arc::from),
        revision: Some(revision(0).into()),
        created: pod.created,
        deleting: pod.deleting,
        ready: pod.ready,
        restarts: pod.unready_restarts,
        trouble: pod.trouble.as_deref().map(Box::from),
    }
}

/// Writes the operands' DaemonSets and their part of the ClusterPolicy.
pub(super) fn write_daemon_sets(
    view: &mut Observed,
    policy: &mut ClusterPolicy,
    operator: &OperatorObjects,
    desired: usize,
) {
    for (operand, suffix) in OPERANDS {
        let name = operand.traits().daemon_set;
        let spec = ImageSpec {
            repository: Some("nvcr.io/nvidia".into()),
            image: Some(name.into()),
            version: Some("v1".into()),
        };
        policy.operands.insert(operand, OperandSpec { enabled: true, image: spec });
        let number = operator.operand_revisions.get(&operand).copied().unwrap_or(0);
        view.daemon_sets.push(ObservedDaemonSet {
            namespace: "gpu-operator".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            owner: Some(policy.uid.clone()),
            observed: true,
            generation: i64::from(number),
            desired: i32::try_from(desired).unwrap_or(i32::MAX),
            template_labels: Labels::from_iter([("app".to_owned(), name.to_owned())]),
            node_selector: Labels::from_iter([(
                format!("{}{suffix}", names::DEPLOY_LABEL_PREFIX),
                "true".to_owned(),
            )]),
            images: BTreeMap::from([(name.to_owned(), format!("nvcr.io/nvidia/{name}:v1"))]),
            ..ObservedDaemonSet::default()
        });
        let hashes = (0..=number).map(|number| ObservedRevision {
            owner: name.to_owned(),
            revision: i64::from(number),
            hash: revision(number),
        });
        view.revisions.extend(hashes);
    }
}
