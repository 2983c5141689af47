//! The pods of workloads, by UID and by node.

use std::collections::{BTreeMap, BTreeSet};

use observed::workload::Workload;

/// All pods that are not the operator's.
#[derive(Debug, Default)]
pub(super) struct SimulatedPods {
    pods: BTreeMap<String, Workload>,
    /// UIDs by node.
    by_node: BTreeMap<String, BTreeSet<String>>,
    /// The number of the workload that each pod belongs to, by UID.
    workloads: BTreeMap<String, usize>,
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

    /// Adds a pod, with its workload if it has one.
    pub(super) fn insert(&mut self, pod: Workload, workload: Option<usize>) {
        if !pod.node.is_empty() {
            self.by_node.entry(pod.node.clone()).or_default().insert(pod.uid.clone());
        }
        if let Some(workload) = workload {
            self.workloads.insert(pod.uid.clone(), workload);
        }
        self.pods.insert(pod.uid.clone(), pod);
    }

    /// Binds a pod to a node. Returns the pod.
    pub(super) fn bind(&mut self, uid: &str, node: &str) -> Option<&Workload> {
        let pod = self.pods.get_mut(uid)?;
        node.clone_into(&mut pod.node);
        self.by_node.entry(node.to_owned()).or_default().insert(uid.to_owned());
        Some(pod)
    }

    /// Removes a pod. Returns it with the number of its workload.
    pub(super) fn remove(&mut self, uid: &str) -> Option<(Workload, Option<usize>)> {
        let pod = self.pods.remove(uid)?;
        if let Some(here) = self.by_node.get_mut(&pod.node) {
            here.remove(uid);
        }
        Some((pod, self.workloads.remove(uid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_on_its_node_until_it_is_removed() {
        let mut pods = SimulatedPods::default();
        pods.insert(Workload { uid: "u1".to_owned(), ..Workload::default() }, Some(3));
        assert_eq!(pods.on_node("gpu-0").count(), 0);
        assert!(pods.bind("u1", "gpu-0").is_some());
        assert_eq!(
            (pods.uids_on("gpu-0"), pods.of_workload(3).count()),
            (vec!["u1".to_owned()], 1)
        );
        assert_eq!(pods.remove("u1").and_then(|(_, workload)| workload), Some(3));
        assert_eq!((pods.on_node("gpu-0").count(), pods.workload("u1")), (0, None));
    }
}
