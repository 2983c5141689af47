//! The single writes of a rollout, and all answers of the API server to them.

use std::time::Duration;

use contract::acceptance::{ACCEPTANCE_NAMESPACE, NODE_ANNOTATION};
use kube_io::actions::{
    ActionResult, EvictionAnswer, create_acceptance_pod, evict, patch_node, perform,
};
use kube_io::call::CallError;
use planner::action::{AcceptanceCreation, NodePatch, PodEviction, RequestedGpus};
use serde_json::json;

use crate::fake::fault::{Effect, Fault};
use crate::fake::store::Key;
use crate::rig::Rig;
use crate::world::edit;

fn eviction(name: &str) -> PodEviction {
    PodEviction {
        namespace: "jobs".into(),
        pod: name.into(),
        uid: name.into(),
        node: "node-1".into(),
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn node_is_cordoned_labeled_and_released() {
    let rig = Rig::new();
    let mut patch = rig.patch();
    patch.unschedulable = Some(true);
    patch.labels = [("state".into(), Some("cordoned".into())), ("old".into(), None)].into();
    patch.annotations = [("gpu-rollout.dev/upgrade".into(), Some("{}".into()))].into();
    assert_eq!(patch_node(&rig.client, &patch).await.unwrap(), ActionResult::Now);
    let node = rig.node();
    assert_eq!(node["spec"]["unschedulable"], true);
    assert_eq!(node["metadata"]["labels"], json!({"state": "cordoned"}));
    assert_eq!(node["metadata"]["annotations"], json!({"gpu-rollout.dev/upgrade": "{}"}));
    let mut back = rig.patch();
    back.unschedulable = Some(false);
    back.annotations = [("gpu-rollout.dev/upgrade".into(), None)].into();
    assert_eq!(patch_node(&rig.client, &back).await.unwrap(), ActionResult::Now);
    assert_eq!(rig.node()["spec"], json!({}));
    assert_eq!(rig.node()["metadata"]["annotations"], json!({}));
    let managers: Vec<_> = rig
        .server
        .state()
        .log
        .iter()
        .map(|entry| entry.request.query["fieldManager"].clone())
        .collect();
    assert_eq!(managers, ["gpu-rollout", "gpu-rollout"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn node_changed_meanwhile_waits_for_next_decision() {
    let rig = Rig::new();
    let stale = NodePatch { unschedulable: Some(true), ..rig.patch() };
    assert_eq!(
        patch_node(
            &rig.client,
            &NodePatch { labels: [("a".into(), Some("b".into()))].into(), ..rig.patch() }
        )
        .await
        .unwrap(),
        ActionResult::Now
    );
    assert_eq!(patch_node(&rig.client, &stale).await.unwrap(), ActionResult::Superseded);
    assert!(rig.node()["spec"]["unschedulable"].is_null());
    rig.server.change(|state| state.store.remove(&Key::new("nodes", "", "node-1")));
    assert_eq!(
        patch_node(&rig.client, &stale).await.unwrap(),
        ActionResult::Already,
        "a node that is gone needs no write"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn node_patch_with_lost_answer_is_not_repeated() {
    let rig = Rig::new();
    let patch = NodePatch { unschedulable: Some(true), ..rig.patch() };
    rig.fault(Effect::LoseAnswer);
    let lost = patch_node(&rig.client, &patch).await;
    assert!(matches!(lost, Err(CallError::Timeout)), "{lost:?}");
    assert_eq!(patch_node(&rig.client, &patch).await.unwrap(), ActionResult::Superseded);
    assert_eq!(rig.node()["spec"]["unschedulable"], true);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn evictions_get_every_answer_and_are_asked_once() {
    let rig = Rig::new();
    assert_eq!(evict(&rig.client, &eviction("train-0")).await, EvictionAnswer::Accepted);
    assert!(rig.is_evicted("train-0"));
    assert_eq!(
        evict(&rig.client, &eviction("train-0")).await,
        EvictionAnswer::Accepted,
        "a repeated request while it ends is harmless"
    );
    assert_eq!(evict(&rig.client, &eviction("train-9")).await, EvictionAnswer::Gone);
    let another = PodEviction { uid: "before".into(), ..eviction("train-1") };
    assert_eq!(
        evict(&rig.client, &another).await,
        EvictionAnswer::Gone,
        "another pod with this name exists"
    );
    assert!(!rig.is_evicted("train-1"));
    rig.budget("train", 0);
    let answer = evict(&rig.client, &eviction("train-1")).await;
    let message = "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget train needs 1 healthy pods and has 1 currently";
    assert_eq!(answer, EvictionAnswer::Blocked { retry_after: None, message: message.into() });
    rig.budget("other", 1);
    let answer = evict(&rig.client, &eviction("train-1")).await;
    assert!(
        matches!(&answer, EvictionAnswer::Refused { code: 500, message } if message.contains("more than one")),
        "{answer:?}"
    );
    rig.put("namespaces", "", "jobs", json!({"status": {"phase": "Terminating"}}));
    assert_eq!(
        evict(&rig.client, &eviction("train-1")).await,
        EvictionAnswer::NamespaceTerminating
    );
    rig.server.change(|state| state.denied.insert("create pods/eviction".into()));
    let answer = evict(&rig.client, &eviction("train-1")).await;
    assert!(matches!(answer, EvictionAnswer::Forbidden(_)), "{answer:?}");
    assert!(!rig.is_evicted("train-1"));
    assert_eq!(rig.requests(), 8);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_busy_server_is_no_budget() {
    // A 429 without a time comes from a webhook that first moves the workload (KubeVirt). A 504
    // comes from a budget whose status changes too often. Both concern only this pod, and must not
    // delay the others.
    for (code, expected) in [(429, "denied"), (503, "busy"), (504, "denied"), (500, "refused")] {
        let rig = Rig::new();
        rig.fault(Effect::Status(code));
        let answer = evict(&rig.client, &eviction("train-0")).await;
        let found = match &answer {
            EvictionAnswer::Busy { .. } => "busy",
            EvictionAnswer::Denied { .. } => "denied",
            EvictionAnswer::Refused { .. } => "refused",
            EvictionAnswer::Accepted
            | EvictionAnswer::Gone
            | EvictionAnswer::Blocked { .. }
            | EvictionAnswer::NamespaceTerminating
            | EvictionAnswer::Forbidden(_)
            | EvictionAnswer::Rejected(_)
            | EvictionAnswer::Lost(_) => "another",
        };
        assert_eq!(found, expected, "{code}: {answer:?}");
        assert!(!rig.is_evicted("train-0"));
    }
    let rig = Rig::new();
    rig.fault(Effect::Busy(7));
    let message = "Too many requests, please try again later.".to_owned();
    let expected = EvictionAnswer::Busy { retry_after: Some(Duration::from_secs(7)), message };
    assert_eq!(
        evict(&rig.client, &eviction("train-0")).await,
        expected,
        "the time is only in the header"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_eviction_without_an_answer_may_have_happened() {
    for (effect, happened) in [(Effect::LoseAnswer, true), (Effect::Hang, false)] {
        let rig = Rig::new();
        rig.fault(effect);
        let begin = tokio::time::Instant::now();
        let answer = evict(&rig.client, &eviction("train-0")).await;
        assert!(matches!(answer, EvictionAnswer::Lost(_)), "{answer:?}");
        assert_eq!(rig.is_evicted("train-0"), happened);
        assert!(begin.elapsed() <= Duration::from_secs(11), "{:?}", begin.elapsed());
    }
    let rig = Rig::new();
    rig.server.goes_away(60);
    let answer = evict(&rig.client, &eviction("train-0")).await;
    assert!(matches!(answer, EvictionAnswer::Lost(_)), "{answer:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn pods_are_evicted_until_an_answer_is_lost() {
    let rig = Rig::new();
    rig.fault(Effect::Hang);
    let evictions = [eviction("train-0"), eviction("train-1")];
    let act = async |eviction: &PodEviction| {
        let answer = evict(&rig.client, eviction).await;
        if matches!(answer, EvictionAnswer::Lost(_)) { Err(answer) } else { Ok(answer) }
    };
    let answers = perform(&evictions, |eviction| &eviction.node, || true, act).await;
    assert!(matches!(answers.as_slice(), [Some(Err(_)), None]), "{answers:?}");
    let answers = perform(&evictions, |eviction| &eviction.node, || true, act).await;
    assert_eq!(answers, [Some(Ok(EvictionAnswer::Accepted)), Some(Ok(EvictionAnswer::Accepted))]);
}

/// Returns the creation of a pod whose PodTemplate exists on the server.
fn creation(rig: &Rig) -> AcceptanceCreation {
    let spec = json!({"containers": [{"name": "main", "image": "dcgm:1"}]});
    let template = json!({"kind": "PodTemplate", "apiVersion": "v1", "template": {"spec": spec}});
    rig.put("podtemplates", ACCEPTANCE_NAMESPACE, "dcgm", template);
    AcceptanceCreation {
        node: "node-1".to_owned(),
        test: "dcgm".to_owned(),
        pod: "dcgm-0123456789".to_owned(),
        time: None,
        deadline_seconds: 600,
        gpus: RequestedGpus::Nothing,
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn existing_test_pod_is_not_created_again() {
    let rig = Rig::new();
    let creation = creation(&rig);
    let create = async || create_acceptance_pod(&rig.client, &creation, "digest").await;
    let fault = Fault::new(|request| request.is("create", "pods"), 0, 1, Effect::LoseAnswer);
    rig.server.state().faults.push(fault);
    let lost = create().await;
    assert!(matches!(lost, Err(CallError::Timeout)), "{lost:?}");
    assert_eq!(create().await.unwrap(), ActionResult::Already);
    let key = Key::new("pods", ACCEPTANCE_NAMESPACE, "dcgm-0123456789");
    let pod = rig.server.state().store.objects[&key].clone();
    assert_eq!(pod["metadata"]["annotations"], json!({NODE_ANNOTATION: "node-1"}));
    edit(&rig.server, &key, |pod| {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    assert_eq!(create().await.unwrap(), ActionResult::Superseded);
    rig.server.change(|state| state.store.remove(&key));
    assert_eq!(create().await.unwrap(), ActionResult::Now);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn test_pod_without_template_or_quota_is_denied() {
    let quota = "pods \"dcgm\" is forbidden: exceeded quota: tests, requested: pods=1, used: pods=1, limited: pods=1";
    for (has_template, answer, code, message) in [
        (false, None, 404, "deploy the hook release again"),
        (true, Some(Effect::Answer(403, quota)), 403, "exceeded quota"),
        (true, Some(Effect::Answer(422, "the pod is invalid")), 422, "invalid"),
        (true, Some(Effect::Answer(404, "namespaces not found")), 404, "namespaces not found"),
    ] {
        let rig = Rig::new();
        let mut creation = creation(&rig);
        if !has_template {
            creation.test = "another".to_owned();
        }
        if let Some(answer) = answer {
            rig.fault(answer);
        }
        let error = create_acceptance_pod(&rig.client, &creation, "digest").await.unwrap_err();
        let CallError::Denied { code: found, message: text } = &error else {
            panic!("not denied: {error:?}");
        };
        assert_eq!(*found, code);
        assert!(text.contains(message), "{text}");
    }
}
