//! The pods of workloads, by UID and by node.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use observed::workload::{PodPhase, Workload};

/// All pods that are not the operator's.
#[derive(Debug, Default)]
pub(super) struct SimulatedPods {
    pods: BTreeMap<String, Workload>,
    /// UIDs by node.
    by_node: HashMap<String, BTreeSet<String>>,
    /// The workload that each pod belongs to, by UID.
    workloads: HashMap<String, usize>,
    /// The number of GPUs of each pod that uses some, by UID.
    gpus_of_pods: HashMap<String, usize>,
    /// UIDs of the pods without a node.
    unbound: BTreeSet<String>,
    /// Number of pods of each workload that are not being deleted.
    staying: BTreeMap<usize, usize>,
    gpus: GpuUse,
}

/// The GPUs that pods use on the nodes of the fleet.
#[derive(Debug, Default)]
struct GpuUse {
    by_node: HashMap<String, usize>,
    /// The nodes, those with the fewest GPUs in use first.
    ordered: BTreeSet<(usize, String)>,
}

impl GpuUse {
    fn change(&mut self, node: &str, change: impl FnOnce(usize) -> usize) {
        let Some(used) = self.by_node.get_mut(node) else { return };
        let mut entry = (*used, node.to_owned());
        self.ordered.remove(&entry);
        *used = change(*used);
        entry.0 = *used;
        self.ordered.insert(entry);
    }
}

impl SimulatedPods {
    pub(super) fn get(&self, uid: &str) -> Option<&Workload> {
        self.pods.get(uid)
    }

    pub(super) fn get_mut(&mut self, uid: &str) -> Option<&mut Workload> {
        self.pods.get_mut(uid)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Workload> {
        self.pods.values()
    }

    /// Returns the number of the workload that a pod belongs to.
    pub(super) fn workload(&self, uid: &str) -> Option<usize> {
        self.workloads.get(uid).copied()
    }

    /// Returns the number of GPUs that a pod uses.
    pub(super) fn gpus(&self, uid: &str) -> usize {
        self.gpus_of_pods.get(uid).copied().unwrap_or(0)
    }

    /// Iterates over the pods without a node.
    pub(super) fn unbound(&self) -> impl Iterator<Item = &Workload> {
        self.unbound.iter().filter_map(|uid| self.pods.get(uid))
    }

    /// Returns the number of pods of a workload that are not being deleted.
    pub(super) fn staying(&self, workload: usize) -> usize {
        self.staying.get(&workload).copied().unwrap_or(0)
    }

    /// Adds a node of the fleet.
    pub(super) fn add_node(&mut self, name: &str) {
        if self.gpus.by_node.insert(name.to_owned(), 0).is_none() {
            self.gpus.ordered.insert((0, name.to_owned()));
        }
    }

    /// Removes a node of the fleet, before its pods.
    pub(super) fn remove_node(&mut self, name: &str) {
        if let Some(used) = self.gpus.by_node.remove(name) {
            self.gpus.ordered.remove(&(used, name.to_owned()));
        }
    }

    /// Returns the number of GPUs in use on a node of the fleet.
    pub(super) fn gpus_in_use(&self, node: &str) -> usize {
        self.gpus.by_node.get(node).copied().unwrap_or(0)
    }

    /// Iterates over the nodes of the fleet with the number of GPUs in use, the fewest first, and
    /// then by name.
    pub(super) fn by_gpus_in_use(&self) -> impl Iterator<Item = (usize, &str)> {
        self.gpus.ordered.iter().map(|(used, name)| (*used, name.as_str()))
    }

    /// Marks a pod as being deleted.
    pub(super) fn mark_deleted(&mut self, uid: &str, at: Timestamp) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.ready = false;
        if pod.deleted_at.replace(at).is_none() {
            self.count_staying(uid, false);
        }
    }

    /// Marks a pod as finished, in this phase. It uses no GPU any more.
    pub(super) fn mark_finished(&mut self, uid: &str, phase: PodPhase) {
        let gpus = self.gpus(uid);
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let was_running = !pod.phase.is_finished();
        (pod.phase, pod.ready) = (phase, false);
        if was_running {
            self.gpus.change(&pod.node, |used| used.saturating_sub(gpus));
        }
    }

    fn count_staying(&mut self, uid: &str, is_added: bool) {
        let Some(workload) = self.workload(uid) else { return };
        let count = self.staying.entry(workload).or_default();
        *count = if is_added { *count + 1 } else { count.saturating_sub(1) };
    }

    pub(super) fn of_workload(&self, workload: usize) -> impl Iterator<Item = &Workload> {
        self.iter().filter(move |pod| self.workload(&pod.uid) == Some(workload))
    }

    /// Returns the UIDs of the pods on a node.
    pub(super) fn uids_on(&self, node: &str) -> Vec<String> {
        self.by_node.get(node).into_iter().flatten().cloned().collect()
    }

    pub(super) fn on_node(&self, node: &str) -> impl Iterator<Item = &Workload> {
        self.by_node.get(node).into_iter().flatten().filter_map(|uid| self.pods.get(uid))
    }

    /// Adds a pod, with its workload if it has one, and the number of its GPUs.
    pub(super) fn insert(&mut self, pod: Workload, workload: Option<usize>, gpus: usize) {
        if let Some(number) = workload {
            self.workloads.insert(pod.uid.clone(), number);
        }
        if gpus > 0 {
            self.gpus_of_pods.insert(pod.uid.clone(), gpus);
        }
        if pod.node.is_empty() {
            self.unbound.insert(pod.uid.clone());
        } else {
            self.by_node.entry(pod.node.clone()).or_default().insert(pod.uid.clone());
            if !pod.phase.is_finished() {
                self.gpus.change(&pod.node, |used| used + gpus);
            }
        }
        if pod.deleted_at.is_none() {
            self.count_staying(&pod.uid, true);
        }
        self.pods.insert(pod.uid.clone(), pod);
    }

    /// Binds a pod to a node. Returns the pod.
    pub(super) fn bind(&mut self, uid: &str, node: &str) -> Option<&Workload> {
        let gpus = self.gpus(uid);
        let pod = self.pods.get_mut(uid)?;
        self.unbound.remove(uid);
        self.gpus.change(node, |used| used + gpus);
        node.clone_into(&mut pod.node);
        self.by_node.entry(node.to_owned()).or_default().insert(uid.to_owned());
        Some(pod)
    }

    /// Removes a pod. Returns it with the number of its workload.
    pub(super) fn remove(&mut self, uid: &str) -> Option<(Workload, Option<usize>)> {
        let gpus = self.gpus(uid);
        let pod = self.pods.remove(uid)?;
        self.unbound.remove(uid);
        if pod.deleted_at.is_none() {
            self.count_staying(uid, false);
        }
        if !pod.phase.is_finished() {
            self.gpus.change(&pod.node, |used| used.saturating_sub(gpus));
        }
        if let Some(here) = self.by_node.get_mut(&pod.node) {
            here.remove(uid);
        }
        self.gpus_of_pods.remove(uid);
        Some((pod, self.workloads.remove(uid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_on_its_node_until_it_is_removed() {
        let mut pods = SimulatedPods::default();
        pods.insert(Workload { uid: "u1".to_owned(), ..Workload::default() }, Some(3), 1);
        pods.add_node("gpu-0");
        assert_eq!((pods.on_node("gpu-0").count(), pods.unbound().count()), (0, 1));
        assert!(pods.bind("u1", "gpu-0").is_some());
        assert_eq!(
            (pods.uids_on("gpu-0"), pods.of_workload(3).count()),
            (vec!["u1".to_owned()], 1)
        );
        assert_eq!(pods.by_gpus_in_use().collect::<Vec<_>>(), [(1, "gpu-0")]);
        assert_eq!(pods.gpus_in_use("gpu-0"), 1);
        assert_eq!((pods.unbound().count(), pods.staying(3)), (0, 1));
        assert_eq!(pods.remove("u1").and_then(|(_, workload)| workload), Some(3));
        assert_eq!((pods.on_node("gpu-0").count(), pods.workload("u1")), (0, None));
        assert_eq!(pods.by_gpus_in_use().collect::<Vec<_>>(), [(0, "gpu-0")]);
        assert_eq!(pods.staying(3), 0);
    }
}
