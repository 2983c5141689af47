//! Builds the pod of an acceptance test from its PodTemplate. Both are JSON, so that fields that
//! are newer than this program stay as they are.

use contract::acceptance::{
    ACCEPTANCE_NAMESPACE, ALL_GPUS_CLAIM_TEMPLATE, NODE_ANNOTATION, RUN_LABEL, TEST_LABEL,
    TIME_ANNOTATION,
};
use contract::names::UNSCHEDULABLE_TAINT;
use planner::action::{AcceptanceCreation, RequestedGpus};
use serde_json::{Map, Value, json};

/// How many characters of the trigger digest [`RUN_LABEL`] has, as the labels of the hook chart: a
/// whole digest is too long for a label.
const DIGEST_LENGTH: usize = 16;
/// The name of the claim in the pod.
const CLAIM: &str = "gpus";
/// The taints that the pod tolerates, with their effect (`None`: each): the hook's cordon, and the
/// taint that keeps pods without GPUs away.
const TOLERATED: [(&str, Option<&str>); 2] =
    [(UNSCHEDULABLE_TAINT, Some("NoSchedule")), ("nvidia.com/gpu", None)];

/// Returns the pod. `template`: the PodTemplate object; `digest`: the trigger digest of the run.
///
/// The pod runs only on its node, tolerates the cordon, runs once, and ends at its deadline. The
/// scheduler places it, because a pod with `spec.nodeName` gets no devices of DRA drivers. It has
/// no token for the API server unless the template asks for one. Its owner is the PodTemplate, so
/// Kubernetes deletes it when the test is removed from the cluster.
///
/// `preemptionPolicy` is not set: the API server refuses one that differs from that of the pod's
/// PriorityClass (Kubernetes `plugin/pkg/admission/priority`). The hook chart gives its PodTemplates
/// a PriorityClass that never preempts.
pub fn acceptance_pod(template: &Value, creation: &AcceptanceCreation, digest: &str) -> Value {
    let mut spec = template["template"]["spec"].as_object().cloned().unwrap_or_default();
    spec.remove("nodeName");
    spec.insert("restartPolicy".to_owned(), "Never".into());
    spec.insert("activeDeadlineSeconds".to_owned(), creation.deadline_seconds.into());
    spec.entry("automountServiceAccountToken").or_insert(false.into());
    bind(&mut spec, &creation.node);
    tolerate(&mut spec);
    match &creation.gpus {
        RequestedGpus::Nothing => {}
        RequestedGpus::Resources(resources) => {
            edit_containers(&mut spec, |index, container| {
                if index == 0 {
                    limit(container, resources.iter().map(|(name, count)| (&**name, &**count)));
                }
            });
        }
        RequestedGpus::Claim => claim(&mut spec),
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(template, creation, digest),
        "spec": spec,
    })
}

fn metadata(template: &Value, creation: &AcceptanceCreation, digest: &str) -> Value {
    let of_template = |part: &str| {
        template["template"]["metadata"][part].as_object().cloned().unwrap_or_default()
    };
    let mut labels = of_template("labels");
    let digest: String = digest.chars().take(DIGEST_LENGTH).collect();
    labels.insert(TEST_LABEL.to_owned(), creation.test.as_str().into());
    labels.insert(RUN_LABEL.to_owned(), digest.into());
    let mut annotations = of_template("annotations");
    annotations.insert(NODE_ANNOTATION.to_owned(), creation.node.as_str().into());
    if let Some(time) = creation.time {
        annotations.insert(TIME_ANNOTATION.to_owned(), time.name().into());
    }
    let mut metadata = json!({
        "namespace": ACCEPTANCE_NAMESPACE,
        "name": creation.pod,
        "labels": labels,
        "annotations": annotations,
    });
    if let Some(uid) = template["metadata"]["uid"].as_str() {
        metadata["ownerReferences"] = json!([
            {"apiVersion": "v1", "kind": "PodTemplate", "name": creation.test, "uid": uid},
        ]);
    }
    metadata
}

/// Restricts the pod to one node, in addition to what its template requires of nodes. The
/// alternatives of a node affinity are alternatives also with this requirement.
fn bind(spec: &mut Map<String, Value>, node: &str) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let requirement = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let mut affinity = take_object(spec, "affinity");
    let mut of_nodes = take_object(&mut affinity, "nodeAffinity");
    let mut required = take_object(&mut of_nodes, REQUIRED);
    let mut terms = take_list(&mut required, "nodeSelectorTerms");
    if terms.is_empty() {
        terms.push(json!({}));
    }
    for term in terms.iter_mut().filter_map(Value::as_object_mut) {
        let mut fields = take_list(term, "matchFields");
        fields.push(requirement.clone());
        term.insert("matchFields".to_owned(), fields.into());
    }
    required.insert("nodeSelectorTerms".to_owned(), terms.into());
    of_nodes.insert(REQUIRED.to_owned(), required.into());
    affinity.insert("nodeAffinity".to_owned(), of_nodes.into());
    spec.insert("affinity".to_owned(), affinity.into());
}

/// Adds the tolerations that the template does not have.
fn tolerate(spec: &mut Map<String, Value>) {
    let mut tolerations = take_list(spec, "tolerations");
    for (key, effect) in TOLERATED {
        if tolerations.iter().any(|known| is_covered(known, key, effect)) {
            continue;
        }
        let mut toleration = json!({"key": key, "operator": "Exists"});
        if let Some(effect) = effect {
            toleration["effect"] = effect.into();
        }
        tolerations.push(toleration);
    }
    spec.insert("tolerations".to_owned(), tolerations.into());
}

/// Returns whether a toleration covers a taint with any value. An empty key or effect covers each.
fn is_covered(toleration: &Value, key: &str, effect: Option<&str>) -> bool {
    let text = |part: &str| toleration[part].as_str().filter(|text| !text.is_empty());
    text("operator") == Some("Exists")
        && text("key").is_none_or(|known| known == key)
        && (text("effect").is_none() || text("effect") == effect)
}

/// Adds the claim of all GPUs of the node to the pod and to each container, unless the template has
/// a claim of this name.
fn claim(spec: &mut Map<String, Value>) {
    let has_claim = |claims: &[Value]| claims.iter().any(|claim| claim["name"] == CLAIM);
    let mut claims = take_list(spec, "resourceClaims");
    if !has_claim(&claims) {
        claims.push(json!({"name": CLAIM, "resourceClaimTemplateName": ALL_GPUS_CLAIM_TEMPLATE}));
    }
    spec.insert("resourceClaims".to_owned(), claims.into());
    edit_containers(spec, |_, container| {
        let mut resources = take_object(container, "resources");
        let mut claims = take_list(&mut resources, "claims");
        if !has_claim(&claims) {
            claims.push(json!({"name": CLAIM}));
        }
        resources.insert("claims".to_owned(), claims.into());
        container.insert("resources".to_owned(), resources.into());
    });
}

/// Adds limits to a container. It keeps those that it has.
fn limit<'a>(
    container: &mut Map<String, Value>,
    resources: impl Iterator<Item = (&'a str, &'a str)>,
) {
    let mut all = take_object(container, "resources");
    let mut limits = take_object(&mut all, "limits");
    for (resource, quantity) in resources {
        limits.entry(resource).or_insert(quantity.into());
    }
    all.insert("limits".to_owned(), limits.into());
    container.insert("resources".to_owned(), all.into());
}

/// Changes the containers, each with its index. Init containers stay as they are.
fn edit_containers(
    spec: &mut Map<String, Value>,
    mut edit: impl FnMut(usize, &mut Map<String, Value>),
) {
    let mut containers = take_list(spec, "containers");
    for (index, container) in containers.iter_mut().filter_map(Value::as_object_mut).enumerate() {
        edit(index, container);
    }
    spec.insert("containers".to_owned(), containers.into());
}

/// Removes an object from another one, and returns it; empty if there is none.
fn take_object(parent: &mut Map<String, Value>, key: &str) -> Map<String, Value> {
    if let Some(Value::Object(object)) = parent.remove(key) { object } else { Map::new() }
}

/// Removes a list from an object, and returns it; empty if there is none.
fn take_list(parent: &mut Map<String, Value>, key: &str) -> Vec<Value> {
    if let Some(Value::Array(list)) = parent.remove(key) { list } else { Vec::new() }
}

#[cfg(test)]
mod tests;
