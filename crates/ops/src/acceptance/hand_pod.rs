//! The pod of a test that a user runs by hand: as a hook builds it, but with another label.

use serde_json::Value;

use contract::acceptance::{
    AcceptanceGpus, AcceptanceTime, HAND_LABEL, RUN_LABEL, TEST_LABEL, pod_name,
};
use kube_io::acceptance_pod::acceptance_pod;
use planner::action::{AcceptanceCreation, RequestedGpus};

use super::{HandTest, HandTestNode};

/// Returns what to create for a test on a node. `attempt`: distinguishes calls of the command.
pub(super) fn creation(node: &HandTestNode, test: &HandTest, attempt: &str) -> AcceptanceCreation {
    AcceptanceCreation {
        node: node.name.clone(),
        test: test.name.clone(),
        pod: pod_name(&test.name, &node.uid, attempt),
        time: Some(AcceptanceTime::After),
        deadline_seconds: test.timeout_seconds,
        gpus: match test.gpus {
            AcceptanceGpus::All => node.gpus.clone(),
            AcceptanceGpus::Template => RequestedGpus::Nothing,
        },
    }
}

/// Builds the pod. This is the only call of the function with which a hook builds its pods.
pub(super) fn hand_pod(test: &HandTest, creation: &AcceptanceCreation) -> Value {
    let mut pod = acceptance_pod(&test.template, creation, "");
    if let Some(labels) = pod["metadata"]["labels"].as_object_mut() {
        labels.remove(TEST_LABEL);
        labels.remove(RUN_LABEL);
        labels.insert(HAND_LABEL.to_owned(), test.name.as_str().into());
    }
    pod
}
