//! The server's handling of requests.

use contract::acceptance::{ACCEPTANCE_NAMESPACE, HAND_LABEL, TEST_LABEL};
use contract::task::AllowedNodeChanges;
use jiff::Timestamp;
use ops::abort::HOLDER;
use serde_json::{Value, json};

use super::request::Request;
use super::store::{Key, merge, text};
use super::{State, convert, failure};
use crate::person::PERSON;

/// The largest ConfigMap: 1 MiB (the `MaxSecretSize` rule of Kubernetes for data).
const LARGEST_CONFIG_MAP: usize = 1024 * 1024;

/// The largest request to etcd (`--max-request-bytes`).
const LARGEST_REQUEST: usize = 1536 * 1024;

/// The log of every container.
const LOG: &str = "2026-01-02T03:04:05.000000001Z starts\n2026-01-02T03:04:06.000000001Z login with password=hunter2hunter2\n2026-01-02T03:04:07.000000001Z 7 of 8 GPUs are fast enough\n";

pub(super) type Answer = (u16, Value);

/// Validates a ConfigMap as the API server does, and the request as etcd does.
fn config_map_refusal(request: &Request, object: &Value) -> Option<Answer> {
    if request.resource != "configmaps" {
        return None;
    }
    let data = || object["data"].as_object().into_iter().flatten();
    let admitted = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let invalid = |key: &str| {
        key.is_empty()
            || key.len() > 253
            || !key.bytes().all(admitted)
            || key == "."
            || key.starts_with("..")
    };
    if let Some((key, _)) = data().find(|(key, _)| invalid(key)) {
        return Some(refused(
            422,
            &format!(
                "data[{key}]: Invalid value: a valid config key must consist of ... and be at most 253 bytes"
            ),
        ));
    }
    let values: usize = data().map(|(_, text)| text.as_str().map_or(0, str::len)).sum();
    if values > LARGEST_CONFIG_MAP {
        return Some(refused(422, "data: Too long: may not be more than 1048576 bytes"));
    }
    // `metadata.managedFields` contains every key again, with some overhead.
    let keys: usize = data().map(|(key, _)| 2 * key.len() + 10).sum();
    (values + keys > LARGEST_REQUEST).then(|| refused(500, "etcdserver: request is too large"))
}

pub(super) fn refused(code: u16, message: &str) -> Answer {
    (code, failure(code, message))
}

impl State {
    /// Returns 404 for a resource that is not served, and 403 for a request without a right.
    pub(super) fn refusal(&mut self, request: &Request) -> Option<Answer> {
        let versions = self.served.get(&(request.group.as_str(), request.resource.as_str()));
        let unserved =
            !versions.is_some_and(|versions| versions.contains(&request.version.as_str()));
        // Without a right, the answer does not show whether the resource is served.
        if request.resource != "selfsubjectaccessreviews" {
            let grant = self.grants.iter().find(|grant| grant.covers_request(request));
            let Some(grant) = grant else {
                self.violations.push(format!("outside the task table: {request:?}"));
                return Some(refused(403, "outside the task table"));
            };
            if self.denied.contains(&grant.short()) {
                return Some(refused(403, &format!("{} is forbidden", grant.short())));
            }
            self.used.insert((grant.row, grant.verb));
        }
        unserved.then(|| refused(404, "the server could not find the requested resource"))
    }

    pub(super) fn perform(&mut self, request: &Request, now: Timestamp) -> Answer {
        if request.verb == "discover" {
            return (200, self.groups());
        }
        if let Some(refusal) = self.refusal(request) {
            return refusal;
        }
        if request.resource == "selfsubjectaccessreviews" {
            return self.review(request);
        }
        let key = request.key();
        let visible = self.visible(&request.resource);
        let existing = || {
            let found = self
                .store
                .list_at(&request.resource, visible)
                .into_iter()
                .find(|(found, _)| *found == key);
            found.map(|(_, object)| object)
        };
        match request.verb {
            "get" if request.resource == "pods/log" => self.read_log(request),
            "get" => existing().map_or_else(
                || refused(404, "not found"),
                |object| (200, convert(request, &object)),
            ),
            "list" => self.list(request),
            "create" if request.resource == "pods/eviction" => self.evict(request, now),
            "create" => self.create(request, now),
            "update" => self.update(request),
            "patch" => self.patch(request),
            "delete" => self.delete(request, now),
            verb => panic!("{verb} is never used"),
        }
    }

    fn groups(&self) -> Value {
        let mut groups: Vec<Value> = Vec::new();
        for ((group, _), versions) in self.served.iter().filter(|((group, _), _)| !group.is_empty())
        {
            if groups.iter().any(|known| known["name"] == *group) {
                continue;
            }
            let entry = |version: &&str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
            let entries: Vec<Value> = versions.iter().map(entry).collect();
            groups
                .push(json!({"name": group, "versions": entries, "preferredVersion": entries[0]}));
        }
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    fn review(&self, request: &Request) -> Answer {
        let attributes = &request.body["spec"]["resourceAttributes"];
        let part = |name: &str| attributes[name].as_str().unwrap_or_default();
        let (verb, group) = (part("verb"), part("group"));
        // RBAC writes a subresource after a slash. A resource name that contains a slash itself
        // matches no right.
        let resource = match (part("resource"), part("subresource")) {
            (resource, _) if resource.contains('/') => String::new(),
            (resource, "") => resource.to_owned(),
            (resource, subresource) => format!("{resource}/{subresource}"),
        };
        let covers = |grant: &&super::Grant| {
            grant.covers(verb, group, &resource, part("namespace"), part("name"))
                && !self.denied.contains(&grant.short())
        };
        let mut answer = request.body.clone();
        answer["status"] = json!({"allowed": self.grants.iter().any(|grant| covers(&grant))});
        (201, answer)
    }

    /// Returns the last lines of a pod's log. A test may give the pod one; a hook's pod has [`LOG`].
    fn read_log(&self, request: &Request) -> Answer {
        let key = Key::new("pods", &request.namespace, &request.name);
        let pod = self.store.objects.get(&key);
        let is_of_hook = pod.is_some_and(|pod| pod["metadata"]["labels"][TEST_LABEL].is_string());
        let log = self.logs.get(&key).map(String::as_str).or(is_of_hook.then_some(LOG));
        let Some(log) = log.filter(|_| pod.is_some()) else { return refused(404, "not found") };
        let most = request.query.get("tailLines").and_then(|text| text.parse().ok());
        let lines: Vec<&str> = log.lines().collect();
        let first = lines.len().saturating_sub(most.unwrap_or(usize::MAX));
        (200, json!(lines[first..].join("\n")))
    }

    fn list(&self, request: &Request) -> Answer {
        let continued = request.query.get("continue").and_then(|token| token.split_once(':'));
        let (version, offset) = match continued {
            Some((version, offset)) => (version.parse().unwrap(), offset.parse().unwrap()),
            None => (self.visible(&request.resource), 0_usize),
        };
        if continued.is_some() && version < self.compacted {
            return refused(410, "the provided continue parameter is too old");
        }
        let limit: usize =
            request.query.get("limit").and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
        let all = self.store.list_at(&request.resource, version);
        let mut found =
            all.iter().filter(|(key, object)| request.selects(key, object)).skip(offset);
        let items: Vec<Value> =
            found.by_ref().take(limit).map(|(_, object)| convert(request, object)).collect();
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if found.next().is_some() {
            metadata["continue"] = json!(format!("{version}:{}", offset + items.len()));
        }
        let api_version = if request.group.is_empty() {
            request.version.clone()
        } else {
            format!("{}/{}", request.group, request.version)
        };
        // Clients accept any kind that ends in List, except for types with a fixed kind.
        let kind = items
            .first()
            .and_then(|item| item["kind"].as_str())
            .map_or_else(|| list_kind(&request.resource), |kind| format!("{kind}List"));
        (
            200,
            json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items}),
        )
    }

    fn create(&mut self, request: &Request, now: Timestamp) -> Answer {
        if request.resource == "events" {
            self.check_event(request);
        }
        let metadata = &request.body["metadata"];
        let name = match (metadata["name"].as_str(), metadata["generateName"].as_str()) {
            (Some(name), _) => name.to_owned(),
            (None, Some(prefix)) => format!("{prefix}{:05x}", self.store.unique()),
            (None, None) => return refused(422, "name or generateName is required"),
        };
        let key = Key::new(&request.resource, &request.namespace, &name);
        if let Some(existing) = self.store.objects.get(&key) {
            let ends = existing["metadata"]["deletionTimestamp"].is_string();
            let prefix = if ends { "object is being deleted: " } else { "" };
            return refused(409, &format!("{prefix}{} \"{name}\" already exists", key.resource));
        }
        if request.resource == "pods" {
            self.check_pod(request);
        }
        (201, self.store.create(key, request.body.clone(), now))
    }

    /// Checks the created pod of an acceptance test: a scheduler places it, a real server accepts
    /// it, and no hook takes the pod of a user for its own.
    fn check_pod(&mut self, request: &Request) {
        let (labels, spec) = (&request.body["metadata"]["labels"], &request.body["spec"]);
        let (own, other) =
            if request.who == PERSON { (HAND_LABEL, TEST_LABEL) } else { (TEST_LABEL, HAND_LABEL) };
        let valid = request.body["kind"] == "Pod"
            && labels[own].is_string()
            && labels[other].is_null()
            && spec["nodeName"].is_null()
            && spec["preemptionPolicy"].is_null()
            && spec["restartPolicy"] == "Never"
            && spec["activeDeadlineSeconds"].is_u64()
            && spec["containers"].as_array().is_some_and(|containers| !containers.is_empty());
        if !valid {
            self.violations.push(format!("a pod that the API rejects: {}", request.body));
        }
    }

    fn update(&mut self, request: &Request) -> Answer {
        let key = request.key();
        let Some(current) = self.store.objects.get(&key) else { return refused(404, "not found") };
        let version = &request.body["metadata"]["resourceVersion"];
        if !version.is_null() && *version != current["metadata"]["resourceVersion"] {
            return refused(409, "the object has been modified");
        }
        let object = request.body.clone();
        (200, self.store.update(&key, object))
    }

    fn patch(&mut self, request: &Request) -> Answer {
        assert_eq!(request.content_type, "application/merge-patch+json");
        let key = request.key();
        let Some(current) = self.store.objects.get(&key) else { return refused(404, "not found") };
        let version = &request.body["metadata"]["resourceVersion"];
        if !version.is_null() && *version != current["metadata"]["resourceVersion"] {
            return refused(409, "the object has been modified");
        }
        let uid = &request.body["metadata"]["uid"];
        if !uid.is_null() && *uid != current["metadata"]["uid"] {
            return refused(422, "metadata.uid: field is immutable");
        }
        let mut object = current.clone();
        merge(&mut object, &request.body);
        if let Some(refusal) = config_map_refusal(request, &object) {
            return refusal;
        }
        self.check_node_change(request);
        (200, self.store.update(&key, object))
    }

    /// Checks a hook's patch of a node against the table of node changes, as the chart's admission
    /// policy does.
    fn check_node_change(&mut self, request: &Request) {
        let by_hook = ![PERSON, HOLDER].contains(&request.who.as_str());
        if request.resource != "nodes" || !by_hook || self.node_changes.is_empty() {
            return;
        }
        let allowed = |may: fn(&AllowedNodeChanges, &str) -> bool, key: &str| {
            self.node_changes.values().any(|changes| may(changes, key))
        };
        let keys = |part: &str| {
            request.body["metadata"][part].as_object().into_iter().flatten().map(|(key, _)| key)
        };
        let labels = keys("labels").all(|key| allowed(AllowedNodeChanges::has_label, key));
        let annotations =
            keys("annotations").all(|key| allowed(AllowedNodeChanges::has_annotation, key));
        let cordon = match request.body.get("spec").map(|spec| spec["unschedulable"] == true) {
            None => true,
            Some(true) => allowed(|changes, _| changes.has_unschedulable(true), ""),
            Some(false) => allowed(|changes, _| changes.has_unschedulable(false), ""),
        };
        if !(labels && annotations && cordon) {
            self.violations.push(format!("outside the table of node changes: {request:?}"));
        }
    }

    fn delete(&mut self, request: &Request, now: Timestamp) -> Answer {
        let key = request.key();
        let Some(current) = self.store.objects.get(&key) else { return refused(404, "not found") };
        let wanted = &request.body["preconditions"]["uid"];
        // A pod that a user runs by hand has a name that no other pod ever has.
        let is_by_hand = request.who == PERSON && request.namespace == ACCEPTANCE_NAMESPACE;
        if wanted.is_null() && !is_by_hand {
            self.violations.push(format!("a deletion without a UID: {request:?}"));
        }
        if !(wanted.is_null() && is_by_hand) && *wanted != current["metadata"]["uid"] {
            return refused(409, "the UID in the precondition does not match");
        }
        let mut object = current.clone();
        if request.resource != "pods" && request.body["propagationPolicy"] != "Foreground" {
            // No object has finalizers here, and only pods, and objects that wait for them, have
            // time to end.
            self.store.remove(&key);
            return (200, object);
        }
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = json!(text(now));
        }
        (200, self.store.update(&key, object))
    }

    /// Validates an event as the API server does. Otherwise a rejected event would go unnoticed.
    fn check_event(&mut self, request: &Request) {
        let body = &request.body;
        let length = |field: &str| body[field].as_str().map_or(0, str::len);
        let filled = ["action", "reason", "reportingController", "reportingInstance"];
        let regarding = body["regarding"]["namespace"].as_str().unwrap_or("default");
        // The API refuses a dot before the generated suffix, because the part after it would be an
        // empty label.
        let prefix = body["metadata"]["generateName"].as_str().unwrap_or_default();
        let admitted = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
        };
        let valid = prefix.bytes().all(admitted)
            && prefix.ends_with('-')
            && filled.iter().all(|field| (1..=128).contains(&length(field)))
            && length("note") <= 1024
            && regarding == request.namespace
            && body["eventTime"].is_string()
            && matches!(body["type"].as_str(), Some("Normal" | "Warning"));
        if !valid {
            self.violations.push(format!("an event that the API rejects: {body}"));
        }
    }
}

fn list_kind(resource: &str) -> String {
    match resource {
        "nodes" => "NodeList",
        "pods" => "PodList",
        "podtemplates" => "PodTemplateList",
        "deployments" => "DeploymentList",
        "daemonsets" => "DaemonSetList",
        "controllerrevisions" => "ControllerRevisionList",
        "leases" => "LeaseList",
        "jobs" => "JobList",
        "gpuclusters" => "GPUClusterList",
        "configmaps" => "ConfigMapList",
        "clusterpolicies" => "ClusterPolicyList",
        "nicclusterpolicies" => "NicClusterPolicyList",
        "nvidiadrivers" => "NVIDIADriverList",
        "resourceslices" => "ResourceSliceList",
        "resourceclaims" => "ResourceClaimList",
        "poddisruptionbudgets" => "PodDisruptionBudgetList",
        "nodemaintenances" => "NodeMaintenanceList",
        "validatingadmissionpolicies" => "ValidatingAdmissionPolicyList",
        other => panic!("nobody lists {other}"),
    }
    .to_owned()
}
