//! The ClusterPolicy's status.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::observed::{Observed, is_ready};
use super::operands::Operand;

/// What the status is to say.
pub(super) struct Verdict {
    state: &'static str,
    reason: &'static str,
    message: String,
}

/// Judges the operands as the operator does.
pub(super) fn verdict(observed: &Observed) -> Verdict {
    if observed.gpu_nodes.is_empty() {
        let (reason, message) =
            if observed.nfd_labels { ("NoGPUNodes", "No GPU nodes found") } else { ("NFDLabelsMissing", "No NFD labels found") };
        return Verdict { state: "ready", reason, message: message.to_owned() };
    }
    let waiting: Vec<&str> = Operand::ALL.into_iter().filter(|operand| !operand_is_ready(*operand, observed)).map(Operand::state).collect();
    if waiting.is_empty() {
        let message = "ClusterPolicy is ready as all resources have been successfully reconciled".to_owned();
        return Verdict { state: "ready", reason: "Reconciled", message };
    }
    let message = format!("ClusterPolicy is not ready; states not ready: [{}]", waiting.join(" "));
    Verdict { state: "notReady", reason: "OperandNotReady", message }
}

fn operand_is_ready(operand: Operand, observed: &Observed) -> bool {
    let Some(daemon_set) = observed.daemon_set(operand) else {
        return super::operands::daemon_set(operand, observed).is_none();
    };
    let Some(status) = &daemon_set.status else { return false };
    if status.observed_generation != daemon_set.metadata.generation || status.number_unavailable.unwrap_or(0) > 0 {
        return false;
    }
    let mut pods = observed.pods_of(operand);
    match operand {
        Operand::Driver => pods.all(|pod| is_ready(pod) && observed.is_in_sync(operand, pod)),
        Operand::Toolkit | Operand::Validator => status.updated_number_scheduled.unwrap_or(0) == status.desired_number_scheduled,
    }
}

impl Verdict {
    /// Whether the state is `ready`.
    pub(super) fn is_ready(&self) -> bool {
        self.state == "ready"
    }

    /// The writes that bring a ClusterPolicy's status there: none, the conditions, or the state and then the conditions.
    pub(super) fn patches(&mut self, policy: &DynamicObject) -> Vec<Value> {
        let status = &policy.data["status"];
        let mut patches = Vec::new();
        if status["state"] != self.state {
            let namespace = super::OPERATOR_NAMESPACE;
            patches.push(json!({"status": {"state": self.state, "namespace": namespace}}));
        }
        let conditions = self.conditions();
        let same = |wanted: &Value| {
            let live = status["conditions"].as_array().into_iter().flatten().find(|live| live["type"] == wanted["type"]);
            live.is_some_and(|live| ["status", "reason", "message"].iter().all(|field| live[field] == wanted[field]))
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
            [condition("Ready", "True", self.reason, &self.message), condition("Error", "False", "Ready", "")]
        } else {
            [condition("Ready", "False", "Error", ""), condition("Error", "True", self.reason, &self.message)]
        }
    }
}
