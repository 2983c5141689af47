//! Workloads: their controllers, the scheduler, kubelets, and the disruption controller.

use crate::contract::selector::Selector;
use crate::rollout::observed::workload::{Budget, Controller, Phase, Workload};

use super::objects::second;
use super::setup::{Kind, Protection, Workers};
use super::view::Change;
use super::world::{Event, Watch, World};

/// Where workloads are.
const NAMESPACE: &str = "ml";

/// Pods of one controller.
#[derive(Debug)]
pub(super) struct Crew {
    workers: Workers,
    /// Pods that there are to be.
    wanted: usize,
    made: usize,
    /// Its budgets let nothing go.
    held: bool,
    budgets: Vec<Budget>,
}

impl Crew {
    pub(super) fn is_daemon_set(&self) -> bool {
        self.workers.kind == Kind::DaemonSet
    }
}

pub(super) fn controller(api_version: &str, kind: &str, name: &str) -> Controller {
    Controller { api_version: api_version.to_owned(), kind: kind.to_owned(), name: name.to_owned(), uid: format!("of-{name}") }
}

/// The number of pods of a crew from a pod's name.
fn crew_of(pod: &Workload) -> Option<&str> {
    pod.labels.get("app").map(String::as_str)
}

impl World<'_> {
    /// Makes the pods that there are at the beginning.
    pub(super) fn crew(&mut self, workers: &Workers) {
        let places = self.places(&workers.placement);
        let selector: Option<Selector> = format!("app={}", workers.name).parse().ok();
        let budget = |(index, protection): (usize, &Protection)| Budget {
            namespace: NAMESPACE.to_owned(),
            name: if index == 0 { workers.name.clone() } else { format!("{}-{index}", workers.name) },
            selector: selector.clone(),
            min_available: if let Protection::MinAvailable(count) = protection { Some(count.to_string()) } else { None },
            max_unavailable: if let Protection::MaxUnavailable(count) = protection { Some(count.to_string()) } else { None },
            observed: true,
            ..Budget::default()
        };
        let budgets = workers.budgets.iter().enumerate().map(budget).collect();
        self.crews.push(Crew { workers: workers.clone(), wanted: places.len(), made: 0, held: false, budgets });
        let crew = self.crews.len() - 1;
        for node in places {
            let mut pod = self.new_pod(crew);
            (pod.node, pod.phase, pod.ready) = (node, Phase::Running, true);
            let uid = pod.uid.clone();
            self.put_pod(pod);
            self.ends_some_time(crew, &uid);
        }
    }

    fn ends_some_time(&mut self, crew: usize, uid: &str) {
        let workers = &self.crews[crew].workers;
        if workers.kind == Kind::Job {
            let ends = workers.ends;
            let name = format!("{}-{}", workers.name, self.crews[crew].made);
            let time = self.draw(ends, "job", &name);
            self.after(time, Event::PodEnds(uid.to_owned()));
        }
    }

    /// A pod without a place.
    fn new_pod(&mut self, crew: usize) -> Workload {
        let uid = self.uid();
        let now = self.now;
        let Crew { workers, made, .. } = &mut self.crews[crew];
        *made += 1;
        let mut labels = workers.labels.clone();
        labels.insert("app".to_owned(), workers.name.clone());
        let (api_version, kind) = match workers.kind {
            Kind::ReplicaSet => ("apps/v1", "ReplicaSet"),
            Kind::Job => ("batch/v1", "Job"),
            Kind::DaemonSet => ("apps/v1", "DaemonSet"),
            Kind::Bare => ("", ""),
        };
        Workload {
            namespace: NAMESPACE.to_owned(),
            name: format!("{}-{made}", workers.name),
            uid,
            labels,
            created: second(now),
            controller: (workers.kind != Kind::Bare).then(|| controller(api_version, kind, &workers.name)),
            grace_seconds: workers.grace_seconds,
            empty_dir: workers.empty_dir,
            resources: workers.gpu.then(|| "nvidia.com/gpu".to_owned()).into_iter().collect(),
            runtime_class: workers.hidden.then(|| "nvidia".to_owned()),
            finalizers: (workers.finalizer > 0).then(|| "example.com/hold".to_owned()).into_iter().collect(),
            ..Workload::default()
        }
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
        self.publish(Watch::Pods, Some(Change::Pod(uid.to_owned(), pod)));
        if self.crews.iter().any(|crew| !crew.budgets.is_empty()) {
            let lag = self.draw(self.setup.times.disruption, "disruption", "");
            self.after(lag, Event::Budgets);
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
        let now = self.now;
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.deleted_at.is_none()) else { return };
        let grace = pod.grace_seconds;
        pod.deleted_at = Some(second(now + grace * 1000));
        pod.ready = false;
        self.touch_pod(uid);
        let held = self.pods.get(uid).and_then(crew_of).and_then(|name| self.crews.iter().find(|crew| crew.workers.name == name));
        let finalizer = held.map_or(0, |crew| crew.workers.finalizer);
        let ending = self.ending(grace, uid) + finalizer;
        self.after(ending, Event::PodGone(uid.to_owned()));
    }

    pub(super) fn pod_gone(&mut self, uid: &str) {
        let Some(node) = self.pods.get(uid).map(|pod| pod.node.clone()) else { return };
        if self.hosts.contains_key(&node) && !self.kubelet_does(&node, Event::PodGone(uid.to_owned())) {
            return;
        }
        let Some(pod) = self.pods.remove(uid) else { return };
        if let Some(here) = self.placed.get_mut(&node) {
            here.remove(uid);
        }
        self.touch_pod(uid);
        self.tell(|| format!("{} {}/{} gone", pod.node, pod.namespace, pod.name));
        let Some(crew) = crew_of(&pod).and_then(|name| self.crews.iter().position(|crew| crew.workers.name == name)) else { return };
        if pod.phase.is_finished() {
            return;
        }
        let replace = self.draw(self.setup.times.replace, "replace", &pod.name);
        match self.crews[crew].workers.kind {
            Kind::ReplicaSet | Kind::Job => self.after(replace, Event::PodComes(crew)),
            Kind::DaemonSet => self.daemon_on(crew, &node),
            Kind::Bare => {}
        }
    }

    pub(super) fn pod_comes(&mut self, crew: usize) {
        let name = self.crews[crew].workers.name.clone();
        let there = self.pods.values().filter(|pod| crew_of(pod) == Some(&name) && pod.deleted_at.is_none()).count();
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
            self.after(start, Event::PodReady(uid));
        }
    }

    /// The scheduler: pods without a place go where there is room, the emptiest node first.
    pub(super) fn place(&mut self) {
        let waiting: Vec<String> = self.pods.values().filter(|pod| pod.node.is_empty()).map(|pod| pod.uid.clone()).collect();
        for uid in waiting {
            let used = |node: &String| {
                let here = self.placed.get(node).into_iter().flatten().filter_map(|uid| self.pods.get(uid));
                here.filter(|pod| !pod.resources.is_empty() && !pod.phase.is_finished()).count()
            };
            let open = self.hosts.values().filter(|host| host.node.ready && !host.node.unschedulable).map(|host| &host.node.name);
            let best = open.map(|node| (used(node), node)).filter(|(used, _)| *used < self.setup.gpus).min();
            let Some(node) = best.map(|(_, node)| node.clone()) else { return };
            let Some(pod) = self.pods.get_mut(&uid) else { continue };
            pod.node.clone_from(&node);
            let name = pod.name.clone();
            self.placed.entry(node).or_default().insert(uid.clone());
            self.touch_pod(&uid);
            let start = self.draw(self.setup.times.pod_start, "start", &name);
            self.after(start, Event::PodReady(uid));
        }
    }

    pub(super) fn pod_ready(&mut self, uid: &str) {
        let Some(node) = self.pods.get(uid).map(|pod| pod.node.clone()) else { return };
        if !self.kubelet_does(&node, Event::PodReady(uid.to_owned())) {
            return;
        }
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.deleted_at.is_none() && pod.phase == Phase::Pending) else { return };
        (pod.phase, pod.ready) = (Phase::Running, true);
        let crew = crew_of(pod).and_then(|name| self.crews.iter().position(|crew| crew.workers.name == name));
        self.touch_pod(uid);
        if let Some(crew) = crew {
            self.ends_some_time(crew, uid);
        }
    }

    /// A job has done its work.
    pub(super) fn pod_ends(&mut self, uid: &str) {
        let Some(node) = self.pods.get(uid).map(|pod| pod.node.clone()) else { return };
        if !self.kubelet_does(&node, Event::PodEnds(uid.to_owned())) {
            return;
        }
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.deleted_at.is_none()) else { return };
        (pod.phase, pod.ready) = (Phase::Succeeded, false);
        let (name, namespace) = (pod.name.clone(), pod.namespace.clone());
        let crew = crew_of(pod).and_then(|name| self.crews.iter().position(|crew| crew.workers.name == name));
        if let Some(crew) = crew {
            self.crews[crew].wanted = self.crews[crew].wanted.saturating_sub(1);
        }
        self.touch_pod(uid);
        self.tell(|| format!("{node} {namespace}/{name} has ended"));
        self.after(0, Event::Place);
    }

    /// A pod of these workers is bound to a node by name, past the scheduler.
    pub(super) fn pod_bound(&mut self, workers: &str, node: &str) {
        let Some(crew) = self.crews.iter().position(|crew| crew.workers.name == workers) else { return };
        self.crews[crew].wanted += 1;
        self.daemon_on(crew, node);
    }

    /// The disruption controller.
    pub(super) fn look_at_budgets(&mut self) {
        let mut changed = false;
        for crew in &mut self.crews {
            if crew.budgets.is_empty() {
                continue;
            }
            let of_crew = |pod: &&Workload| crew_of(pod) == Some(crew.workers.name.as_str());
            let pods = || self.pods.values().filter(of_crew);
            let healthy = pods().filter(|pod| pod.ready && pod.deleted_at.is_none()).count();
            // The controller's own number of replicas, where it has one.
            let expected = match crew.workers.kind {
                Kind::ReplicaSet | Kind::Job => crew.wanted,
                Kind::DaemonSet | Kind::Bare => pods().count(),
            };
            for (budget, protection) in crew.budgets.iter_mut().zip(&crew.workers.budgets) {
                let desired = match protection {
                    Protection::MinAvailable(count) => count.of(expected),
                    Protection::MaxUnavailable(count) => expected.saturating_sub(count.of(expected)),
                };
                let allowed = if crew.held { 0 } else { healthy.saturating_sub(desired) };
                let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
                let next = Budget {
                    allowed: number(allowed),
                    healthy: number(healthy),
                    desired: number(desired),
                    expected: number(expected),
                    ..budget.clone()
                };
                changed |= *budget != next;
                *budget = next;
            }
        }
        if changed {
            self.touch_budgets();
        }
    }

    pub(super) fn budgets(&self) -> Vec<Budget> {
        self.crews.iter().flat_map(|crew| crew.budgets.iter().cloned()).collect()
    }

    fn touch_budgets(&mut self) {
        let budgets = self.budgets();
        self.publish(Watch::Budgets, Some(Change::Budgets(budgets)));
    }

    pub(super) fn hold_budget(&mut self, workers: &str, milliseconds: Option<u64>) {
        let Some(crew) = self.crews.iter().position(|crew| crew.workers.name == workers) else { return };
        self.crews[crew].held = true;
        self.look_at_budgets();
        if let Some(milliseconds) = milliseconds {
            self.after(milliseconds, Event::BudgetYields(crew));
        }
    }

    pub(super) fn budget_yields(&mut self, crew: usize) {
        self.crews[crew].held = false;
        self.tell(|| "a budget yields".to_owned());
        self.look_at_budgets();
    }

    /// What the API server says to an eviction: the budgets that protect the pod, and whether they let it go. Takes what it grants.
    pub(super) fn ask_budgets(&mut self, pod: &Workload) -> Asked {
        let protects = |budget: &Budget| {
            budget.namespace == pod.namespace && budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
        };
        if pod.phase == Phase::Pending || pod.phase.is_finished() || pod.deleted_at.is_some() {
            return Asked::Granted;
        }
        let budgets: Vec<&mut Budget> =
            self.crews.iter_mut().flat_map(|crew| crew.budgets.iter_mut()).filter(|budget| protects(budget)).collect();
        let mut budgets = budgets.into_iter();
        let (first, second) = (budgets.next(), budgets.next());
        let Some(budget) = first else { return Asked::Granted };
        if second.is_some() {
            return Asked::Error;
        }
        let enough = budget.healthy >= budget.desired && budget.desired > 0;
        if !pod.ready && (budget.evicts_unhealthy || enough) {
            return Asked::Granted;
        }
        if budget.allowed <= 0 {
            return Asked::Blocked;
        }
        budget.allowed -= 1;
        self.touch_budgets();
        Asked::Granted
    }
}

/// The answer of the budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Granted,
    /// 429
    Blocked,
    /// 500: more than one budget.
    Error,
}
