//! Pods of acceptance tests, by template and by what the engine asks for.

use contract::acceptance::AcceptanceTime;

use super::*;

fn creation(gpus: RequestedGpus) -> AcceptanceCreation {
    AcceptanceCreation {
        node: "gpu-1".to_owned(),
        test: "dcgm".to_owned(),
        pod: "dcgm-0123456789".to_owned(),
        time: Some(AcceptanceTime::After),
        deadline_seconds: 600,
        gpus,
    }
}

/// Returns the pod of a template with this spec.
fn built(spec: &Value, gpus: RequestedGpus) -> Value {
    let template = json!({
        "metadata": {"name": "dcgm", "uid": "t1"},
        "template": {
            "metadata": {
                "name": "unused", "finalizers": ["example.com/wait"],
                "labels": {"team": "ml", TEST_LABEL: "another"}, "annotations": {"note": "x"},
            },
            "spec": spec,
        },
    });
    acceptance_pod(&template, &creation(gpus), &"0123456789abcdef".repeat(4))
}

fn spec_of(spec: &Value) -> Value {
    built(spec, RequestedGpus::Nothing)["spec"].clone()
}

fn gpus(count: &str) -> RequestedGpus {
    RequestedGpus::Resources([("nvidia.com/gpu".to_owned(), count.to_owned())].into())
}

#[test]
fn pod_has_its_name_labels_and_owner() {
    let pod = built(&json!({"containers": [{"name": "main"}]}), RequestedGpus::Nothing);
    assert_eq!((&pod["apiVersion"], &pod["kind"]), (&json!("v1"), &json!("Pod")));
    assert_eq!(
        pod["metadata"],
        json!({
            "namespace": "gpu-rollout-acceptance",
            "name": "dcgm-0123456789",
            "labels": {"team": "ml", TEST_LABEL: "dcgm", RUN_LABEL: "0123456789abcdef"},
            "annotations": {"note": "x", NODE_ANNOTATION: "gpu-1", TIME_ANNOTATION: "after"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "PodTemplate", "name": "dcgm", "uid": "t1"},
            ],
        })
    );
}

#[test]
fn pod_runs_once_until_its_deadline_without_a_token() {
    let spec = spec_of(&json!({"containers": [{"name": "main", "newField": 1}], "nodeName": "b"}));
    assert_eq!(
        (&spec["restartPolicy"], &spec["activeDeadlineSeconds"]),
        (&json!("Never"), &json!(600))
    );
    assert_eq!(spec["automountServiceAccountToken"], json!(false));
    assert_eq!(spec["containers"], json!([{"name": "main", "newField": 1}]));
    for absent in ["nodeName", "preemptionPolicy"] {
        assert_eq!(spec.get(absent), None, "{absent}");
    }
    let asked = spec_of(&json!({
        "restartPolicy": "Always", "activeDeadlineSeconds": 5, "automountServiceAccountToken": true,
    }));
    assert_eq!(
        (&asked["restartPolicy"], &asked["activeDeadlineSeconds"]),
        (&json!("Never"), &json!(600))
    );
    assert_eq!(asked["automountServiceAccountToken"], json!(true));
}

#[test]
fn every_alternative_of_the_affinity_requires_the_node() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["gpu-1"]});
    let zone = |name: &str| json!([{"key": "zone", "operator": "In", "values": [name]}]);
    let own = json!({"key": "metadata.name", "operator": "NotIn", "values": ["gpu-2"]});
    let terms = |terms: Value| json!({"nodeAffinity": {required: {"nodeSelectorTerms": terms}}});
    for (affinity, expected) in [
        (Value::Null, terms(json!([{"matchFields": [field]}]))),
        (
            terms(json!([{"matchExpressions": zone("a")}, {"matchExpressions": zone("b")}])),
            terms(json!([
                {"matchExpressions": zone("a"), "matchFields": [field]},
                {"matchExpressions": zone("b"), "matchFields": [field]},
            ])),
        ),
        (terms(json!([{"matchFields": [own]}])), terms(json!([{"matchFields": [own, field]}]))),
        (
            json!({"podAntiAffinity": {}, "nodeAffinity": {"preferred": [1]}}),
            json!({"podAntiAffinity": {}, "nodeAffinity": {
                "preferred": [1], required: {"nodeSelectorTerms": [{"matchFields": [field]}]},
            }}),
        ),
    ] {
        let spec = spec_of(&json!({"affinity": affinity}));
        assert_eq!(spec["affinity"], expected, "{affinity}");
    }
}

#[test]
fn tolerations_are_added_only_once() {
    let cordon = json!({"key": UNSCHEDULABLE_TAINT, "operator": "Exists", "effect": "NoSchedule"});
    let gpu = json!({"key": "nvidia.com/gpu", "operator": "Exists"});
    let every = json!({"operator": "Exists"});
    let valued = json!({"key": "nvidia.com/gpu", "operator": "Equal", "value": "a"});
    let weaker = json!({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"});
    for (own, expected) in [
        (json!([]), json!([cordon, gpu])),
        (json!([gpu]), json!([gpu, cordon])),
        (json!([cordon, gpu]), json!([cordon, gpu])),
        (json!([every]), json!([every])),
        (json!([valued]), json!([valued, cordon, gpu])),
        (json!([weaker]), json!([weaker, cordon, gpu])),
    ] {
        assert_eq!(spec_of(&json!({"tolerations": own}))["tolerations"], expected, "{own}");
    }
}

#[test]
fn first_container_gets_the_gpus_and_keeps_its_limits() {
    let two = |limits: Value| {
        json!({
            "initContainers": [{"name": "init"}],
            "containers": [{"name": "main", "resources": {"limits": limits}}, {"name": "log"}],
        })
    };
    for (own, expected) in [
        (json!({}), json!({"nvidia.com/gpu": "8"})),
        (json!({"memory": "1Gi"}), json!({"memory": "1Gi", "nvidia.com/gpu": "8"})),
        (json!({"nvidia.com/gpu": "1"}), json!({"nvidia.com/gpu": "1"})),
    ] {
        let spec = built(&two(own.clone()), gpus("8"))["spec"].clone();
        assert_eq!(spec["containers"], two(expected)["containers"], "{own}");
        assert_eq!(spec["initContainers"], json!([{"name": "init"}]));
    }
    let bare = built(&json!({"containers": [{"name": "main"}]}), gpus("8"))["spec"].clone();
    assert_eq!(bare["containers"][0]["resources"], json!({"limits": {"nvidia.com/gpu": "8"}}));
}

#[test]
fn claim_is_one_for_all_containers() {
    let spec = json!({"containers": [
        {"name": "main", "resources": {"limits": {"cpu": "1"}}}, {"name": "log"},
    ]});
    let own = json!({"name": "gpus", "resourceClaimName": "mine"});
    let template = json!({"name": "gpus", "resourceClaimTemplateName": "all-gpus"});
    for (claims, expected) in [
        (json!([]), json!([template])),
        (json!([{"name": "nic"}]), json!([{"name": "nic"}, template])),
        (json!([own]), json!([own])),
    ] {
        let mut spec = spec.clone();
        spec["resourceClaims"] = claims;
        let found = built(&spec, RequestedGpus::Claim)["spec"].clone();
        assert_eq!(found["resourceClaims"], expected);
        assert_eq!(
            found["containers"],
            json!([
                {"name": "main", "resources": {"limits": {"cpu": "1"}, "claims": [{"name": "gpus"}]}},
                {"name": "log", "resources": {"claims": [{"name": "gpus"}]}},
            ])
        );
    }
}

/// A template that the API server accepted has a spec; another one must not end the process.
#[test]
fn template_without_a_spec_makes_a_pod_that_the_server_refuses() {
    let pod = acceptance_pod(&json!({}), &creation(gpus("8")), "");
    assert_eq!(pod["spec"]["containers"], json!([]));
    assert_eq!(pod["metadata"]["labels"][RUN_LABEL], "");
}
