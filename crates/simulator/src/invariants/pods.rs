//! Checks of the pods that the hook evicts and deletes.

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use observed::workload::{PodPhase, Workload};
use planner::action::{PodDeletion, PodEviction};
use planner::drive_upgrade::record::UpgradeRecord;

use super::InvariantChecker;
use crate::objects::SimulatedOperand;

impl InvariantChecker<'_, '_> {
    /// Checks that no action disturbs a node with an untouched driver while the fleet is paused.
    pub(super) fn pause(&mut self, name: &str, what: &str) {
        let Some(node) = self.cluster.nodes.get(name).filter(|_| self.is_paused()) else { return };
        let started = self
            .record(&node.node)
            .filter(|record| !record.has_failed())
            .map(|record| record.started);
        let driver = self
            .cluster
            .operands
            .pod(name, SimulatedOperand::Driver)
            .filter(|pod| pod.containers_ready && !pod.deleting);
        if started.zip(driver).is_some_and(|(started, pod)| pod.created <= started) {
            let is_known = self.hook.knows_pauses(self.cluster) && self.knows_node(name);
            self.violates_if_known(is_known, &format!("{name}: {what} while the fleet is paused"));
        }
    }

    /// Whether the node accepts new pods.
    pub(super) fn is_open(&self, name: &str) -> bool {
        self.cluster.nodes.get(name).is_some_and(|node| !node.node.unschedulable)
    }

    pub(crate) fn eviction(&mut self, eviction: &PodEviction) {
        let node = &eviction.node;
        self.pause(node, &format!("{} is evicted", eviction.pod));
        if self.is_open(node) {
            let text =
                format!("{node}: {} is evicted from a node that accepts new pods", eviction.pod);
            self.violates_if_known(self.knows_node(node), &text);
        }
        if (eviction.namespace.clone(), eviction.pod.clone()) == self.hook.own_pod() {
            self.context.violation(&format!("{node}: the hook evicts its own pod"));
        }
        if eviction.namespace == ACCEPTANCE_NAMESPACE {
            self.context
                .violation(&format!("{node}: {} tests the node, but is evicted", eviction.pod));
        }
        let policy = &self.hook.settings.upgrade.policy;
        let (drain, deletion) = (policy.drain.as_ref(), policy.pod_deletion.as_ref());
        let forces = drain.is_some_and(|drain| drain.force)
            || deletion.is_some_and(|deletion| deletion.force);
        let empties = drain.is_some_and(|drain| drain.delete_empty_dir)
            || deletion.is_some_and(|deletion| deletion.delete_empty_dir);
        let pod =
            self.cluster.workloads.pods.get(&eviction.uid).filter(|pod| pod.deleted_at.is_none());
        if pod.is_some_and(|pod| {
            pod.controller.is_none() && !forces || (pod.empty_dir || pod.memory_dir) && !empties
        }) {
            self.context
                .violation(&format!("{node}: {} may not be evicted by this policy", eviction.pod));
        }
    }

    pub(crate) fn driver(&mut self, deletion: &PodDeletion) {
        let name = &deletion.node;
        self.pause(name, "its driver is deleted");
        let Some(node) = self.cluster.nodes.get(name) else { return };
        if self.is_open(name) {
            self.violates_if_known(
                self.knows_node(name),
                &format!("{name}: its driver is deleted while it accepts new pods"),
            );
        }
        let record = self.record(&node.node);
        let newest = self.cluster.operator.objects.newest();
        let driver = self.cluster.operands.pod(name, SimulatedOperand::Driver);
        let is_retried = record.as_deref().is_some_and(UpgradeRecord::has_failed);
        if driver.is_some_and(|pod| pod.revision.as_deref() == Some(newest)) && !is_retried {
            let is_known = self.hook.knows_revision(self.cluster);
            self.violates_if_known(
                is_known,
                &format!("{name}: its driver is up to date, but is deleted"),
            );
        }
        self.tested_before(deletion, record.as_deref());
        if !record.is_some_and(|record| record.restart_only) {
            self.device_users(name);
        }
    }

    /// Checks that no pod uses the GPU when the driver is deleted, if the policy removes such pods.
    fn device_users(&mut self, name: &str) {
        let policy = &self.hook.settings.upgrade.policy;
        if policy.pod_deletion.is_none() && policy.drain.is_none() {
            return;
        }
        let own = self.hook.own_pod();
        let uses_gpu = |pod: &&Workload| {
            let is_daemon =
                pod.controller.as_ref().is_some_and(|controller| controller.kind == "DaemonSet");
            let runs =
                matches!(pod.phase, PodPhase::Running | PodPhase::Pending | PodPhase::Unknown);
            let is_own = (pod.namespace.clone(), pod.name.clone()) == own;
            let stays = is_own || is_daemon && policy.drain.is_some();
            runs && !pod.resources.is_empty() && !stays
        };
        if let Some(pod) = self.cluster.workloads.pods.on_node(name).find(uses_gpu) {
            let text = format!("{name}: its driver is deleted while {} uses the GPU", pod.name);
            self.violates_if_known(self.hook.knows_pod(name, &pod.uid), &text);
        }
    }

    /// Checks that the plugin is replaced only once for each start of driver and toolkit.
    pub(crate) fn plugin(&mut self, name: &str) {
        let container = |operand| {
            let pod = self.cluster.operands.pod(name, operand);
            pod.map_or(String::new(), |pod| format!("{}/{}", pod.uid, pod.containers[0].restarts))
        };
        let containers = format!(
            "{}+{}",
            container(SimulatedOperand::Driver),
            container(SimulatedOperand::Toolkit)
        );
        let count = self.context.report.replaced.entry((name.to_owned(), containers)).or_default();
        *count += 1;
        if *count > 1 {
            self.context
                .violation(&format!("{name}: its plugin is replaced twice for the same driver"));
        }
    }
}
