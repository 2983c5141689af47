//! The ClusterPolicy's status.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::observed::{Observed, is_ready};
use super::operands::Operand;

/// The status to write.
pub(super) struct Verdict {
    state: &'static str,
    reason: &'static str,
    message: String,
}

/// Assesses the operands as the operator's version does. `written`: the operands whose DaemonSets
/// this pass has written.
pub(super) fn verdict(observed: &Observed, written: &[Operand]) -> Verdict {
    if observed.gpu_nodes.is_empty() {
        let (reason, message) = if observed.nfd_labels {
            ("NoGPUNodes", "No GPU nodes found")
        } else {
            ("NFDLabelsMissing", "No NFD labels found")
        };
        return Verdict { state: "ready", reason, message: message.to_owned() };
    }
    let waits = |operand: &Operand| {
        let ready = if observed.is_at_least(26, 7) {
            !written.contains(operand) && is_settled(*operand, observed)
        } else {
            seems_ready(*operand, observed)
        };
        operand.is_enabled(observed) && !ready
    };
    let waiting: Vec<&str> = Operand::ALL.into_iter().filter(waits).map(Operand::state).collect();
    if waiting.is_empty() {
        let message =
            "ClusterPolicy is ready as all resources have been successfully reconciled".to_owned();
        return Verdict { state: "ready", reason: "Reconciled", message };
    }
    let message = format!("ClusterPolicy is not ready; states not ready: [{}]", waiting.join(" "));
    Verdict { state: "notReady", reason: "OperandNotReady", message }
}

/// Whether an operand is ready, as v26.7 and later decide.
fn is_settled(operand: Operand, observed: &Observed) -> bool {
    let Some(daemon_set) = observed.daemon_set(operand) else { return false };
    let Some(status) = &daemon_set.status else { return false };
    if status.desired_number_scheduled == 0 {
        return true;
    }
    if status.number_unavailable.unwrap_or(0) > 0 {
        return false;
    }
    if is_on_delete(daemon_set) {
        let mut pods = observed.pods_of(operand).peekable();
        return pods.peek().is_some()
            && pods.all(|pod| is_ready(pod) && observed.is_in_sync(operand, pod));
    }
    let desired = Some(status.desired_number_scheduled);
    status.observed_generation == daemon_set.metadata.generation
        && status.updated_number_scheduled == desired
        && status.number_available == desired
}

/// Whether an operand is ready, as versions up to v26.3 decide. A missing or not started operand is
/// ready, an old revision counts, and only driver pods with the labels of the newest template are
/// checked.
fn seems_ready(operand: Operand, observed: &Observed) -> bool {
    let Some(daemon_set) = observed.daemon_set(operand) else { return true };
    let Some(status) =
        daemon_set.status.as_ref().filter(|status| status.desired_number_scheduled > 0)
    else {
        return true;
    };
    if status.number_unavailable.unwrap_or(0) > 0 {
        return false;
    }
    if !is_on_delete(daemon_set) {
        return true;
    }
    let template = daemon_set
        .spec
        .as_ref()
        .and_then(|spec| spec.template.metadata.as_ref()?.labels.clone())
        .unwrap_or_default();
    let is_listed =
        |pod: &&Pod| template.iter().all(|(key, value)| pod.labels().get(key) == Some(value));
    let mut pods = observed.pods_of(operand).filter(is_listed).peekable();
    pods.peek().is_some() && pods.all(|pod| is_ready(pod) && observed.is_in_sync(operand, pod))
}

fn is_on_delete(daemon_set: &DaemonSet) -> bool {
    let strategy =
        daemon_set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref()?.type_.as_deref());
    strategy == Some("OnDelete")
}

impl Verdict {
    /// Whether the state is `ready`.
    pub(super) fn is_ready(&self) -> bool {
        self.state == "ready"
    }

    /// Returns the writes that update a ClusterPolicy's status: none, the conditions, or the state
    /// and then the conditions.
    pub(super) fn patches(&mut self, policy: &DynamicObject) -> Vec<Value> {
        let status = &policy.data["status"];
        let mut patches = Vec::new();
        if status["state"] != self.state {
            let namespace = super::OPERATOR_NAMESPACE;
            patches.push(json!({"status": {"state": self.state, "namespace": namespace}}));
        }
        let conditions = self.conditions();
        let same = |wanted: &Value| {
            let live = status["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|live| live["type"] == wanted["type"]);
            live.is_some_and(|live| {
                ["status", "reason", "message"].iter().all(|field| live[field] == wanted[field])
            })
        };
        if !conditions.iter().all(same) {
            patches.push(json!({"status": {"conditions": conditions}}));
        }
        patches
    }

    fn conditions(&self) -> [Value; 2] {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
        if self.is_ready() {
            [
                condition("Ready", "True", self.reason, &self.message),
                condition("Error", "False", "Ready", ""),
            ]
        } else {
            [
                condition("Ready", "False", "Error", ""),
                condition("Error", "True", self.reason, &self.message),
            ]
        }
    }
}
