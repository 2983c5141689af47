//! Operands beside driver and toolkit, where the setup has them: device plugin and exporter as pods of their own, the validator as the pod that
//! there is anyway. They go with the driver and come back behind the toolkit; they fail, are missing, or get a new revision that is rolled out
//! node by node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;

use contract::names;
use contract::operand::Operand;
use contract::record::NodeOutcome;
use observed::{
    ClusterPolicy, ImageSpec, Labels, Observed, ObservedDaemonSet, ObservedNode, ObservedPod, ObservedRevision, OperandPod, OperandSpec,
};

use super::fault::{Fault, OperandFault, ScheduledFault};
use super::objects::{self, OperatorObjects, timestamp};
use super::view::WorldChange;
use super::world::{HookWatch, World, WorldEvent};

/// The operands, with the suffix of the label that places them.
pub(super) const OPERANDS: [(Operand, &str); 3] =
    [(Operand::Validator, "operator-validator"), (Operand::DevicePlugin, "device-plugin"), (Operand::DcgmExporter, "dcgm-exporter")];
/// Those of them that are simulated here.
const EXTRAS: [Operand; 2] = [Operand::DevicePlugin, Operand::DcgmExporter];
/// The resource that the device plugin offers.
const GPU: &str = "nvidia.com/gpu";
/// How soon the DaemonSet controller looks again whether it may replace the next pod of a rolling update, in milliseconds.
const ROLL: u64 = 1_000;

/// What happens to them on a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum OperandEvent {
    /// Its DaemonSet makes a pod.
    Comes(Operand),
    /// The pod with this number is ready.
    Ready(Operand, u64),
    /// What broke it is mended.
    Mended(Operand),
    /// The rolling update goes on.
    Rolls(Operand),
}

/// The operands' pods of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeOperandPods {
    pods: BTreeMap<Operand, OperandPodState>,
    /// What does not become ready.
    broken: BTreeSet<Operand>,
    /// Nobody makes a validator's pod.
    pub(super) absent: bool,
    /// GPUs that the kubelet knows of no more.
    lost: usize,
}

#[derive(Clone, Debug)]
struct OperandPodState {
    pod: OperandPod,
    number: u64,
    /// Its containers are ready.
    works: bool,
}

fn crashes(pod: &mut OperandPod) {
    (pod.ready, pod.restarts, pod.trouble) = (false, pod.restarts + 1, Some("CrashLoopBackOff".into()));
}

fn revision(number: u32) -> String {
    format!("revision-{number}")
}

impl World<'_> {
    /// A node as it is before the rollout: all is well.
    pub(super) fn extras_at_rest(&mut self, name: &str) {
        if !self.setup.operands {
            return;
        }
        for operand in EXTRAS {
            self.extra_comes(name, operand);
            let Some(host) = self.hosts.get_mut(name) else { return };
            let Some(extra) = host.extras.pods.get_mut(&operand) else { return };
            extra.works = true;
            (extra.pod.ready, extra.pod.created) =
                (true, timestamp(0).saturating_sub(SignedDuration::from_hours(1)).unwrap_or(timestamp(0)));
        }
        let Some(host) = self.hosts.get_mut(name) else { return };
        for (_, suffix) in OPERANDS {
            host.node.labels.insert(format!("{}{suffix}", names::DEPLOY_LABEL_PREFIX), "true".to_owned());
        }
        self.offers(name);
    }

    /// The driver manager sends them away.
    pub(super) fn extras_go(&mut self, name: &str) {
        for operand in EXTRAS {
            self.extra_goes(name, operand);
        }
    }

    /// The toolkit is ready: they come back.
    pub(super) fn extras_come(&mut self, name: &str) {
        if self.setup.operands {
            for operand in EXTRAS {
                self.extra_comes(name, operand);
            }
        }
    }

    /// What the node's kubelet says of them has changed: it is gone, or back.
    pub(super) fn extras_follow(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        for extra in host.extras.pods.values_mut() {
            extra.pod.ready = extra.works && host.node.ready;
        }
        for operand in EXTRAS {
            self.tell_extra(name, operand);
        }
    }

    pub(super) fn operand_step(&mut self, name: &str, step: OperandEvent) {
        match step {
            OperandEvent::Comes(Operand::Validator) => {
                let Some(host) = self.hosts.get_mut(name) else { return };
                host.extras.absent = false;
                if host.operand(objects::SimulatedOperand::Toolkit).is_some_and(|pod| pod.containers_ready) {
                    self.operand_comes(name, objects::SimulatedOperand::Validator);
                }
            }
            OperandEvent::Comes(operand) => {
                // Without its toolkit there is nothing to come to.
                let toolkit = self.hosts.get(name).and_then(|host| host.operand(objects::SimulatedOperand::Toolkit));
                if toolkit.is_some_and(|pod| pod.containers_ready) {
                    self.extra_comes(name, operand);
                }
            }
            OperandEvent::Ready(operand, number) => self.extra_ready(name, operand, number),
            OperandEvent::Mended(operand) => {
                let Some(host) = self.hosts.get_mut(name) else { return };
                host.extras.broken.remove(&operand);
                self.log(|| format!("{name} {operand:?} is mended"));
                if operand == Operand::Validator {
                    self.validator_starts(name);
                } else if let Some(number) = self.hosts.get(name).and_then(|host| host.extras.pods.get(&operand)).map(|extra| extra.number)
                {
                    self.extra_ready(name, operand, number);
                }
            }
            OperandEvent::Rolls(operand) => self.rolls(operand),
        }
    }

    pub(super) fn operand_fault(&mut self, fault: &OperandFault) {
        match fault {
            OperandFault::Fails(node, operand, milliseconds) => {
                let Some(host) = self.hosts.get_mut(node) else { return };
                host.extras.broken.insert(*operand);
                if let Some(extra) = host.extras.pods.get_mut(operand) {
                    extra.works = false;
                    crashes(&mut extra.pod);
                }
                if *operand == Operand::Validator {
                    self.validator_fails(node);
                }
                self.offers(node);
                self.tell_extra(node, *operand);
                if let Some(milliseconds) = milliseconds {
                    self.after(*milliseconds, WorldEvent::OperandStep(node.clone(), OperandEvent::Mended(*operand)));
                }
            }
            OperandFault::Missing(node, operand, milliseconds) => {
                if *operand == Operand::Validator {
                    let Some(host) = self.hosts.get_mut(node) else { return };
                    host.extras.absent = true;
                    self.delete_operand(node, objects::SimulatedOperand::Validator);
                }
                self.extra_goes(node, *operand);
                self.after(*milliseconds, WorldEvent::OperandStep(node.clone(), OperandEvent::Comes(*operand)));
            }
            OperandFault::Rolls(operand, _) if !EXTRAS.contains(operand) => {}
            OperandFault::Rolls(operand, milliseconds) => {
                *self.fixed.operand_revisions.entry(*operand).or_default() += 1;
                self.publish(HookWatch::Operator, None);
                self.after(*milliseconds, WorldEvent::OperandStep(String::new(), OperandEvent::Rolls(*operand)));
            }
            OperandFault::GpuDies(node) => {
                if let Some(host) = self.hosts.get_mut(node) {
                    host.extras.lost = 1;
                }
                self.offers(node);
            }
        }
    }

    fn newest_of(&self, operand: Operand) -> u32 {
        self.fixed.operand_revisions.get(&operand).copied().unwrap_or(0)
    }

    fn extra_comes(&mut self, name: &str, operand: Operand) {
        let (newest, number) = (revision(self.newest_of(operand)), self.now);
        let created = self.setup.clocks.of_server(self.now);
        let Some(host) = self.hosts.get_mut(name).filter(|host| !host.extras.pods.contains_key(&operand)) else { return };
        let pod = OperandPod {
            owner: operand.traits().daemon_set.into(),
            node: Some(name.into()),
            revision: Some(newest.into()),
            created,
            ..OperandPod::default()
        };
        host.extras.pods.insert(operand, OperandPodState { pod, number, works: false });
        self.tell_extra(name, operand);
        let start = self.draw(self.setup.times.validator, operand.traits().daemon_set, name);
        self.after(start, WorldEvent::OperandStep(name.to_owned(), OperandEvent::Ready(operand, number)));
    }

    fn extra_goes(&mut self, name: &str, operand: Operand) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        if host.extras.pods.remove(&operand).is_some() {
            self.tell_extra(name, operand);
            self.offers(name);
        }
    }

    fn extra_ready(&mut self, name: &str, operand: Operand, number: u64) {
        if !self.kubelet_does(name, WorldEvent::OperandStep(name.to_owned(), OperandEvent::Ready(operand, number))) {
            return;
        }
        let Some(host) = self.hosts.get_mut(name) else { return };
        let broken = host.extras.broken.contains(&operand);
        let Some(extra) = host.extras.pods.get_mut(&operand).filter(|extra| extra.number == number) else { return };
        if broken {
            crashes(&mut extra.pod);
        } else {
            extra.works = true;
            (extra.pod.ready, extra.pod.trouble) = (true, None);
        }
        self.log(|| format!("{name} {operand:?} {}", if broken { "fails" } else { "ready" }));
        self.tell_extra(name, operand);
        self.offers(name);
    }

    /// The kubelet counts the GPUs that the device plugin offers.
    fn offers(&mut self, name: &str) {
        let (operands, gpus) = (self.setup.operands, self.setup.gpus);
        let Some(host) = self.hosts.get_mut(name).filter(|_| operands) else { return };
        let works = host.extras.pods.get(&Operand::DevicePlugin).is_some_and(|extra| extra.works);
        let capacity = gpus.saturating_sub(host.extras.lost);
        let count = |count: usize| Labels::from_iter([(GPU.to_owned(), count.to_string())]);
        let offered = (count(if works { capacity } else { 0 }), count(capacity));
        if (&host.node.gpus_allocatable, &host.node.gpus_capacity) != (&offered.0, &offered.1) {
            (host.node.gpus_allocatable, host.node.gpus_capacity) = offered;
            self.touch(name);
        }
    }

    fn tell_extra(&mut self, name: &str, operand: Operand) {
        let pod = self.hosts.get(name).and_then(|host| host.extras.pods.get(&operand)).map(|extra| Box::new(extra.pod.clone()));
        if self.setup.operands && EXTRAS.contains(&operand) {
            self.publish(HookWatch::Operands, Some(WorldChange::OperandPod(name.to_owned(), operand, pod)));
        }
    }

    /// One pod at a time is replaced; one that is not ready is, whatever the others are.
    fn rolls(&mut self, operand: Operand) {
        let newest = revision(self.newest_of(operand));
        let (mut old, mut down) = (Vec::new(), 0);
        for (name, host) in &self.hosts {
            match host.extras.pods.get(&operand) {
                Some(extra) if extra.pod.revision.as_deref() != Some(newest.as_str()) => old.push((extra.pod.ready, name.clone())),
                Some(extra) => down += usize::from(!extra.pod.ready),
                None => down += 1,
            }
        }
        old.sort();
        let Some((ready, name)) = old.first().cloned() else { return };
        // A pod of a node whose kubelet is gone stays, and counts.
        let alive = self.hosts.get(&name).is_some_and(|host| host.node.ready);
        if alive && (!ready || down == 0) {
            self.extra_goes(&name, operand);
            let recreate = self.draw(self.setup.times.recreate, "recreate", &name);
            self.after(recreate, WorldEvent::OperandStep(name, OperandEvent::Comes(operand)));
        }
        self.after(ROLL, WorldEvent::OperandStep(String::new(), OperandEvent::Rolls(operand)));
    }

    fn validator_fails(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        if let Some(pod) = &mut host.operands[objects::SimulatedOperand::Validator.index()] {
            (pod.ready, pod.containers_ready, pod.unready_restarts) = (false, false, pod.unready_restarts + 1);
            pod.trouble = Some("CrashLoopBackOff".to_owned());
        }
        self.touch_operand(name, objects::SimulatedOperand::Validator);
    }

    /// Whether the pod that would be ready now crashes instead.
    pub(super) fn crashes_instead(&mut self, name: &str, operand: objects::SimulatedOperand) -> bool {
        let broken = operand == objects::SimulatedOperand::Validator
            && self.hosts.get(name).is_some_and(|host| host.extras.broken.contains(&Operand::Validator));
        if broken {
            self.validator_fails(name);
        }
        broken
    }

    fn validator_starts(&mut self, name: &str) {
        let pod = self.hosts.get(name).and_then(|host| host.operand(objects::SimulatedOperand::Validator));
        if let Some(uid) = pod.filter(|pod| !pod.containers_ready && !pod.deleting).map(|pod| pod.uid.clone()) {
            self.after(ROLL, WorldEvent::OperandReady(name.to_owned(), objects::SimulatedOperand::Validator, uid));
        }
    }

    /// What of the operands that gate is not well on a node; `None`: all is, or the setup has none.
    pub(super) fn operand_trouble(&self, name: &str) -> Option<String> {
        let host = self.hosts.get(name).filter(|_| self.setup.operands)?;
        if host.operand(objects::SimulatedOperand::Validator).is_none_or(|pod| !pod.containers_ready) {
            return Some("its validator is not ready".to_owned());
        }
        let plugin = host.extras.pods.get(&Operand::DevicePlugin);
        let newest = revision(self.newest_of(Operand::DevicePlugin));
        if plugin.is_none_or(|extra| !extra.works || extra.pod.revision.as_deref() != Some(newest.as_str())) {
            return Some("its device plugin is not ready, or not the newest".to_owned());
        }
        host.node.gpus_allocatable.get(GPU).is_none_or(|count| count == "0").then(|| "it offers no GPU".to_owned())
    }

    /// A node that is left as it is for an operand: the operand was broken before the run.
    pub(super) fn check_excuse(&mut self, name: &str) {
        let record = self.hook.memory.nodes.get(name).filter(|_| self.outcome(name) == Some(NodeOutcome::Deferred));
        let Some(reason) = record.and_then(|record| record.reason.clone()).filter(|reason| reason.name == "OperandNotReady") else {
            return;
        };
        let broken = |scheduled: &ScheduledFault| {
            let Fault::Operand(OperandFault::Fails(node, operand, _)) = &scheduled.fault else { return false };
            scheduled.at == 0 && node == name && reason.text.contains(operand.traits().daemon_set)
        };
        if !self.setup.faults.iter().any(broken) {
            self.report.violation(self.now, &format!("{name}: it is excused, and was well before the run: {reason}"));
        }
    }

    /// Whether the hook has seen the operands of a node as they are.
    pub(super) fn knows_operands(&self, name: &str) -> bool {
        let Some(host) = self.hosts.get(name) else { return true };
        let seen = |operand: Operand| {
            let owner = operand.traits().daemon_set;
            self.hook.view.observed.operand_pods.on(name).find(|pod| *pod.owner == *owner)
        };
        EXTRAS.iter().all(|operand| seen(*operand) == host.extras.pods.get(operand).map(|extra| &extra.pod))
            && seen(Operand::Validator).is_some_and(|pod| pod.ready)
                == host.operand(objects::SimulatedOperand::Validator).is_some_and(|pod| pod.ready)
            && self.hook.view.operand_revisions == self.fixed.operand_revisions
    }

    /// All that there is on a node, for whoever sees everything as it is.
    pub(super) fn extras_of<'n>(&self, name: &str, node: &'n ObservedNode) -> impl Iterator<Item = WorldChange> + use<'n> {
        let host = self.hosts.get(name);
        let pods: Vec<(Operand, OperandPod)> =
            host.into_iter().flat_map(|host| &host.extras.pods).map(|(operand, extra)| (*operand, extra.pod.clone())).collect();
        pods.into_iter().map(|(operand, pod)| WorldChange::OperandPod(node.name.clone(), operand, Some(Box::new(pod))))
    }
}

/// The validator's pod as it is among the pods of operands.
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

/// What the operator has made for them.
pub(super) fn fixed(view: &mut Observed, policy: &mut ClusterPolicy, fixed: &OperatorObjects, desired: usize) {
    for (operand, suffix) in OPERANDS {
        let name = operand.traits().daemon_set;
        let spec = ImageSpec { repository: Some("nvcr.io/nvidia".into()), image: Some(name.into()), version: Some("v1".into()) };
        policy.operands.insert(operand, OperandSpec { enabled: true, image: spec });
        let number = fixed.operand_revisions.get(&operand).copied().unwrap_or(0);
        view.daemon_sets.push(ObservedDaemonSet {
            namespace: "gpu-operator".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            owner: Some(policy.uid.clone()),
            observed: true,
            generation: i64::from(number),
            desired: i32::try_from(desired).unwrap_or(i32::MAX),
            template_labels: Labels::from_iter([("app".to_owned(), name.to_owned())]),
            node_selector: Labels::from_iter([(format!("{}{suffix}", names::DEPLOY_LABEL_PREFIX), "true".to_owned())]),
            images: BTreeMap::from([(name.to_owned(), format!("nvcr.io/nvidia/{name}:v1"))]),
            ..ObservedDaemonSet::default()
        });
        let hashes =
            (0..=number).map(|number| ObservedRevision { owner: name.to_owned(), revision: i64::from(number), hash: revision(number) });
        view.revisions.extend(hashes);
    }
}
