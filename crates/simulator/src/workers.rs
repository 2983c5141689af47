//! Workloads: their controllers, the scheduler, kubelets, and the disruption controller.

use std::collections::BTreeMap;

use contract::selector::Selector;
use observed::workload::{DisruptionBudget, PodPhase, Workload};

use super::budgets::BudgetGuard;
use super::found_fleet::FoundFleet;
use super::setup::{BudgetProtection, WorkloadKind, WorkloadSetup};
use super::view::WorldChange;
use super::workload_pods::{NAMESPACE, WorkloadPods};
use super::world::{HookWatch, World, WorldEvent};

/// The node of what runs outside of the fleet.
pub(super) const ELSEWHERE: &str = "(elsewhere)";

impl World<'_> {
    /// Makes the pods that there are at the beginning.
    pub(super) fn crew(&mut self, workers: &WorkloadSetup) {
        let places = self.places(&workers.placement);
        let selector: Option<Selector> = format!("app={}", workers.name).parse().ok();
        self.crews.push(WorkloadPods { wanted: places.len(), ..WorkloadPods::new(workers) });
        let crew = self.crews.len() - 1;
        for (index, protection) in workers.budgets.iter().enumerate() {
            let budget = DisruptionBudget {
                namespace: NAMESPACE.to_owned(),
                name: if index == 0 { workers.name.clone() } else { format!("{}-{index}", workers.name) },
                selector: selector.clone(),
                min_available: if let BudgetProtection::MinAvailable(count) = protection { Some(count.to_string()) } else { None },
                max_unavailable: if let BudgetProtection::MaxUnavailable(count) = protection { Some(count.to_string()) } else { None },
                observed: true,
                ..DisruptionBudget::default()
            };
            self.guards.push(BudgetGuard { budget, protection: Some(*protection), crews: vec![crew], outside: (0, 0), held: false });
        }
        for node in places {
            let mut pod = self.new_pod(crew);
            (pod.node, pod.phase, pod.ready) = (node, PodPhase::Running, true);
            let uid = pod.uid.clone();
            self.put_pod(pod);
            self.ends_some_time(crew, &uid);
        }
    }

    /// Takes the pods and PodDisruptionBudgets over that were found: those of a controller belong together.
    pub(super) fn crews_found(&mut self, found: &FoundFleet) {
        let mut crews: BTreeMap<String, usize> = BTreeMap::new();
        for pod in &found.pods {
            let owner = pod.workload.controller.as_ref().map_or(&pod.workload.uid, |controller| &controller.uid);
            let crew = *crews.entry(owner.clone()).or_insert_with(|| {
                let name = pod.workload.controller.as_ref().map_or(&pod.workload.name, |controller| &controller.name);
                self.crews.push(WorkloadPods::found(name, &pod.workload, pod.gpus, found.job_time));
                self.crews.len() - 1
            });
            self.crews[crew].wanted += usize::from(!pod.workload.phase.is_finished());
            self.members.insert(pod.workload.uid.clone(), crew);
            let (uid, runs) = (pod.workload.uid.clone(), pod.workload.phase == PodPhase::Running);
            self.put_pod(pod.workload.clone());
            if runs {
                self.ends_some_time(crew, &uid);
            }
        }
        self.guards_found(&found.budgets);
    }

    fn ends_some_time(&mut self, crew: usize, uid: &str) {
        let WorkloadPods { kind, ends, name, made, .. } = &self.crews[crew];
        if *kind == WorkloadKind::Job {
            // Those that were found have names of their own.
            let name = if *made == 0 { uid.to_owned() } else { format!("{name}-{made}") };
            let time = self.draw(*ends, "job", &name);
            self.after(time, WorldEvent::PodEnds(uid.to_owned()));
        }
    }

    /// A pod without a place.
    fn new_pod(&mut self, crew: usize) -> Workload {
        let uid = self.uid();
        let created = self.setup.clocks.of_server(self.now);
        let WorkloadPods { name, template, made, .. } = &mut self.crews[crew];
        *made += 1;
        let pod = Workload {
            name: format!("{name}-{made}"),
            uid: uid.clone(),
            node: String::new(),
            phase: PodPhase::Pending,
            ready: false,
            created,
            deleted_at: None,
            ..template.clone()
        };
        self.members.insert(uid, crew);
        pod
    }

    pub(super) fn put_pod(&mut self, pod: Workload) {
        if !pod.node.is_empty() {
            self.placed.entry(pod.node.clone()).or_default().insert(pod.uid.clone());
        }
        let uid = pod.uid.clone();
        self.pods.insert(uid.clone(), pod);
        self.touch_pod(&uid);
    }

    pub(super) fn touch_pod(&mut self, uid: &str) {
        let pod = self.pods.get(uid).cloned().map(Box::new);
        self.publish(HookWatch::Pods, Some(WorldChange::Pod(uid.to_owned(), pod)));
        if !self.guards.is_empty() {
            let lag = self.draw(self.setup.times.disruption, "disruption", "");
            self.after(lag, WorldEvent::Budgets);
        }
    }

    /// Changes every pod of a node.
    pub(super) fn pods_on(&mut self, node: &str, change: impl Fn(&mut Workload)) {
        let here: Vec<String> = self.placed.get(node).into_iter().flatten().cloned().collect();
        for uid in here {
            if let Some(pod) = self.pods.get_mut(&uid) {
                change(pod);
                self.touch_pod(&uid);
            }
        }
    }

    /// A pod's deletion is asked for, with its own grace period.
    pub(super) fn delete_pod(&mut self, uid: &str) {
        let (now, clocks) = (self.now, self.setup.clocks);
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.deleted_at.is_none()) else { return };
        let grace = pod.grace_seconds;
        pod.deleted_at = Some(clocks.of_server(now + grace * 1000));
        pod.ready = false;
        self.touch_pod(uid);
        let finalizer = self.members.get(uid).map_or(0, |crew| self.crews[*crew].finalizer);
        let ending = self.ending(grace, uid) + finalizer;
        self.after(ending, WorldEvent::PodGone(uid.to_owned()));
    }

    pub(super) fn pod_gone(&mut self, uid: &str) {
        let Some(node) = self.pods.get(uid).map(|pod| pod.node.clone()) else { return };
        if self.hosts.contains_key(&node) && !self.kubelet_does(&node, WorldEvent::PodGone(uid.to_owned())) {
            return;
        }
        let Some(pod) = self.pods.remove(uid) else { return };
        if let Some(here) = self.placed.get_mut(&node) {
            here.remove(uid);
        }
        self.touch_pod(uid);
        self.log(|| format!("{} {}/{} gone", pod.node, pod.namespace, pod.name));
        let Some(crew) = self.members.remove(uid) else { return };
        if pod.phase.is_finished() {
            return;
        }
        let replace = self.draw(self.setup.times.replace, "replace", &pod.name);
        match self.crews[crew].kind {
            WorkloadKind::ReplicaSet | WorkloadKind::Job => self.after(replace, WorldEvent::PodComes(crew)),
            WorkloadKind::DaemonSet => self.daemon_on(crew, &node),
            WorkloadKind::Bare => {}
        }
    }

    pub(super) fn pod_comes(&mut self, crew: usize) {
        let there = self.pods.values().filter(|pod| self.members.get(&pod.uid) == Some(&crew) && pod.deleted_at.is_none()).count();
        if there < self.crews[crew].wanted {
            let pod = self.new_pod(crew);
            self.put_pod(pod);
            self.place();
        }
    }

    /// A pod of a DaemonSet on this node.
    pub(super) fn daemon_on(&mut self, crew: usize, node: &str) {
        if self.hosts.contains_key(node) {
            let mut pod = self.new_pod(crew);
            node.clone_into(&mut pod.node);
            let (uid, name) = (pod.uid.clone(), pod.name.clone());
            self.put_pod(pod);
            let start = self.draw(self.setup.times.pod_start, "start", &name);
            self.after(start, WorldEvent::PodReady(uid));
        }
    }

    /// The scheduler: pods without a place go where there is room, the emptiest node first.
    pub(super) fn place(&mut self) {
        let waiting: Vec<String> = self.pods.values().filter(|pod| pod.node.is_empty()).map(|pod| pod.uid.clone()).collect();
        for uid in waiting {
            let crew = self.members.get(&uid).map(|crew| &self.crews[*crew]);
            let (gpus, elsewhere) = crew.map_or((0, false), |crew| (crew.gpus, crew.elsewhere));
            let used = |node: &String| -> usize {
                let here = self.placed.get(node).into_iter().flatten().filter_map(|uid| self.pods.get(uid));
                let takes = |pod: &Workload| self.members.get(&pod.uid).map_or(0, |crew| self.crews[*crew].gpus);
                here.filter(|pod| !pod.phase.is_finished()).map(takes).sum()
            };
            let open = self.hosts.values().filter(|host| host.node.ready && !host.node.unschedulable);
            let room = open.map(|host| (used(&host.node.name), host)).filter(|(used, host)| *used < host.gpus && used + gpus <= host.gpus);
            let best = room.map(|(used, host)| (used, &host.node.name)).min();
            let place = if elsewhere { Some(ELSEWHERE.to_owned()) } else { best.map(|(_, node)| node.clone()) };
            let (Some(node), Some(pod)) = (place, self.pods.get_mut(&uid)) else { continue };
            pod.node.clone_from(&node);
            let name = pod.name.clone();
            self.placed.entry(node).or_default().insert(uid.clone());
            self.touch_pod(&uid);
            let start = self.draw(self.setup.times.pod_start, "start", &name);
            self.after(start, WorldEvent::PodReady(uid));
        }
    }

    pub(super) fn pod_ready(&mut self, uid: &str) {
        let Some(node) = self.pods.get(uid).map(|pod| pod.node.clone()) else { return };
        if !self.kubelet_does(&node, WorldEvent::PodReady(uid.to_owned())) {
            return;
        }
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.deleted_at.is_none() && pod.phase == PodPhase::Pending) else { return };
        (pod.phase, pod.ready) = (PodPhase::Running, true);
        self.touch_pod(uid);
        if let Some(crew) = self.members.get(uid).copied() {
            self.ends_some_time(crew, uid);
        }
    }

    /// A job has done its work.
    pub(super) fn pod_ends(&mut self, uid: &str) {
        let Some(node) = self.pods.get(uid).map(|pod| pod.node.clone()) else { return };
        if !self.kubelet_does(&node, WorldEvent::PodEnds(uid.to_owned())) {
            return;
        }
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.deleted_at.is_none()) else { return };
        (pod.phase, pod.ready) = (PodPhase::Succeeded, false);
        let (name, namespace) = (pod.name.clone(), pod.namespace.clone());
        if let Some(crew) = self.members.get(uid).copied() {
            self.crews[crew].wanted = self.crews[crew].wanted.saturating_sub(1);
        }
        self.touch_pod(uid);
        self.log(|| format!("{node} {namespace}/{name} has ended"));
        self.after(0, WorldEvent::Place);
    }

    /// A pod of these workers is bound to a node by name, past the scheduler.
    pub(super) fn pod_bound(&mut self, workers: &str, node: &str) {
        let Some(crew) = self.crews.iter().position(|crew| crew.name == workers) else { return };
        self.crews[crew].wanted += 1;
        self.daemon_on(crew, node);
    }
}
