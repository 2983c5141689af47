//! The eviction of pods, as in the API server (Kubernetes
//! `pkg/registry/core/pod/storage/eviction.go`).

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::perform::{Answer, refused};
use super::request::Request;
use super::store::{Key, text};
use super::{State, failure};

/// Returns a refusal with a machine-readable cause.
fn caused(code: u16, message: &str, reason: &str, cause: &str, retry_after: u32) -> Answer {
    let mut status = failure(code, message);
    status["details"] =
        json!({"causes": [{"reason": reason, "message": cause}], "retryAfterSeconds": retry_after});
    (code, status)
}

impl State {
    pub(super) fn evict(&mut self, request: &Request, now: Timestamp) -> Answer {
        let options = &request.body["deleteOptions"];
        let wanted = &options["preconditions"]["uid"];
        if request.body["apiVersion"] != "policy/v1"
            || request.body["kind"] != "Eviction"
            || wanted.is_null()
        {
            self.violations.push(format!("an eviction without version or UID: {request:?}"));
        }
        if !options["gracePeriodSeconds"].is_null() {
            self.violations
                .push(format!("an eviction that shortens the pod's grace period: {request:?}"));
        }
        let namespace = self.store.objects.get(&Key::new("namespaces", "", &request.namespace));
        if namespace.is_some_and(|namespace| namespace["status"]["phase"] == "Terminating") {
            return caused(
                403,
                "the namespace is being terminated",
                "NamespaceTerminating",
                "namespace is being terminated",
                0,
            );
        }
        let key = Key::new("pods", &request.namespace, &request.name);
        let Some(pod) = self.store.objects.get(&key).cloned() else {
            return refused(404, "pod not found");
        };
        let protects = |budget: &Value| {
            let labels = budget["spec"]["selector"]["matchLabels"].as_object();
            labels.is_some_and(|labels| {
                labels.iter().all(|(key, value)| pod["metadata"]["labels"][key] == *value)
            })
        };
        let in_namespace = |key: &&Key| {
            key.resource == "poddisruptionbudgets" && key.namespace == request.namespace
        };
        let budgets: Vec<Key> = self.store.objects.keys().filter(in_namespace).cloned().collect();
        let budgets: Vec<Key> =
            budgets.into_iter().filter(|key| protects(&self.store.objects[key])).collect();
        let deleting = !pod["metadata"]["deletionTimestamp"].is_null();
        match budgets.as_slice() {
            _ if deleting => {}
            [] => {}
            [key] => {
                let mut budget = self.store.objects[key].clone();
                let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
                if allowed <= 0 {
                    let message =
                        "Cannot evict pod as it would violate the pod's disruption budget.";
                    let cause = format!(
                        "The disruption budget {} needs 1 healthy pods and has 1 currently",
                        key.name
                    );
                    return caused(429, message, "DisruptionBudget", &cause, 0);
                }
                budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
                self.store.update(key, budget);
            }
            _ => {
                return refused(
                    500,
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                );
            }
        }
        // The budget is used up before the precondition is checked, as in the real server.
        if *wanted != pod["metadata"]["uid"] {
            return refused(409, "the UID in the precondition does not match the UID in record");
        }
        if !deleting {
            let mut pod = pod;
            let grace = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or_default();
            let until = now + SignedDuration::from_secs(grace);
            pod["metadata"]["deletionTimestamp"] = json!(text(until));
            self.store.update(&key, pod);
        }
        (
            201,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
        )
    }
}
