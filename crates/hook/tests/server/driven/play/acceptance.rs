//! The scheduler and the kubelets of the pods of acceptance tests.

use serde_json::{Value, json};

use super::objects::{is_test, node_of_test, running};
use super::{Event, Play};
use crate::fake::store::Key;
use crate::world::edit;

/// The seconds that a test takes.
const TEST_SECONDS: u64 = 5;

impl Play {
    /// Binds the pods of tests to their nodes. The cordon of a node does not keep them away.
    pub(super) fn start_tests(&mut self) {
        for (key, pod) in self.pods(|pod| is_test(pod) && pod["spec"]["nodeName"].is_null()) {
            let node = node_of_test(&pod);
            if !self.server.state().store.objects.contains_key(&Key::new("nodes", "", node)) {
                continue;
            }
            let has_image = !self.script.imageless.contains(node);
            let now = self.server.clock.now();
            edit(&self.server, &key, |pod| {
                pod["spec"]["nodeName"] = json!(node);
                pod["status"] = if has_image { running(pod, now) } else { pulling() };
            });
            let deadline = pod["spec"]["activeDeadlineSeconds"].as_u64().unwrap();
            self.after(if has_image { TEST_SECONDS } else { deadline }, Event::TestEnds(key));
        }
    }

    /// Ends the pod of a test, if it still exists.
    pub(super) fn end_test(&self, key: &Key) {
        let Some(pod) = self.server.state().store.objects.get(key).cloned() else { return };
        let node = node_of_test(&pod);
        let status = if self.script.imageless.contains(node) {
            json!({"phase": "Failed", "reason": "DeadlineExceeded"})
        } else if self.script.rejected.contains(node) {
            ended(&pod, "Failed", 3)
        } else {
            ended(&pod, "Succeeded", 0)
        };
        edit(&self.server, key, |pod| pod["status"] = status);
    }
}

/// Returns the status of a pod whose image cannot be pulled.
pub(crate) fn pulling() -> Value {
    let state = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
    json!({"phase": "Pending", "containerStatuses": [{
        "name": "test", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": state,
    }]})
}

/// Returns the status of a pod whose container has ended.
pub(crate) fn ended(pod: &Value, phase: &str, exit_code: i32) -> Value {
    let mut status = pod["status"].clone();
    status["phase"] = json!(phase);
    status["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    status["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": exit_code}});
    status
}
