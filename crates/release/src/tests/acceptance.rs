//! Acceptance tests in a plan: values of the hooks, the namespace, images and time budgets.

use serde_json::{Value, json};

use super::{hook, release};
use crate::acceptance::images;
use crate::fixture::{catalog, recipe};
use crate::model::{ReleaseKind, ReleasePlan};
use crate::{PlanError, PlanOptions, plan};
use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::budget::OVERHEAD_SECONDS;

/// The plan of a recipe with these tests, in a mode, with a policy.
fn tested(mode: &str, policy: &Value, tests: &Value) -> Result<ReleasePlan, PlanError> {
    planned(mode, policy, tests, &PlanOptions::default())
}

fn planned(
    mode: &str,
    policy: &Value,
    tests: &Value,
    options: &PlanOptions,
) -> Result<ReleasePlan, PlanError> {
    let driver = json!({"version": "1.0", "mode": mode, "policy": policy});
    let rollout = json!({"acceptance": tests, "gpuDriver": driver});
    plan(&recipe(json!({"rollout": rollout})), &catalog(), options)
}

/// A test in the short form.
fn smi(more: &Value) -> Value {
    let mut test =
        json!({"name": "smi", "pod": {"image": "nvcr.io/a/cuda:1", "command": ["nvidia-smi"]}});
    if let (Some(test), Some(more)) = (test.as_object_mut(), more.as_object()) {
        test.extend(more.clone());
    }
    test
}

fn tests_of<'a>(plan: &'a ReleasePlan, name: &str) -> &'a Value {
    &hook(plan, name).settings["upgrade"]["acceptance"]
}

#[test]
fn hook_that_drives_gets_tests_with_their_pods() {
    let pod = json!({
        "image": "nvcr.io/a/dcgm:2", "args": ["-r", "2"], "env": {"A": "b"},
        "resources": {"limits": {"memory": "8Gi"}}, "imagePullSecrets": [{"name": "pull"}],
        "runtimeClassName": "nvidia", "securityContext": {"runAsUser": 0},
    });
    let template = json!({
        "metadata": {"labels": {"team": "ml"}},
        "spec": {"containers": [{"name": "a", "image": "r.example.com/a:1"}]},
    });
    let tests = json!([
        {"name": "dcgm", "pod": pod, "timeout": "30m", "when": ["before", "after"], "gpus": "template", "logLines": 20},
        {"name": "own", "podTemplate": template},
    ]);
    for mode in ["steer", "drive"] {
        let plan = tested(mode, &json!({}), &tests).unwrap();
        assert_eq!(
            *tests_of(&plan, "gpu-operator-post"),
            json!([
                {
                    "name": "dcgm", "timeoutSeconds": 1800, "when": ["before", "after"], "nodes": "all",
                    "gpus": "template", "logLines": 20,
                    "template": {"spec": {
                        "automountServiceAccountToken": false, "runtimeClassName": "nvidia",
                        "imagePullSecrets": [{"name": "pull"}],
                        "containers": [{
                            "name": "test", "image": "nvcr.io/a/dcgm:2", "args": ["-r", "2"],
                            "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"memory": "8Gi"}},
                            "securityContext": {"runAsUser": 0},
                        }],
                        "restartPolicy": "Never",
                    }},
                },
                {
                    "name": "own", "timeoutSeconds": 600, "when": ["after"], "nodes": "all", "gpus": "all",
                    "template": {"metadata": {"labels": {"team": "ml"}}, "spec": {
                        "containers": [{"name": "a", "image": "r.example.com/a:1"}], "restartPolicy": "Never",
                    }},
                },
            ])
        );
        // It computes the time budget, and runs no test.
        let before = tests_of(&plan, "gpu-operator-pre").as_array().unwrap();
        assert!(before.iter().all(|test| test.get("template").is_none()), "{before:?}");
        assert_eq!(before.len(), 2);
        assert_eq!(*tests_of(&plan, "nvidia-dra-driver-gpu-post"), json!([]));
        assert_eq!(plan.acceptance_namespace(), Some(ACCEPTANCE_NAMESPACE));
    }
}

/// The objects of the release with the namespaces: name and level.
fn namespaces(plan: &ReleasePlan) -> Vec<(String, String)> {
    let ReleaseKind::Manifests(manifests) = &release(plan, "gpu-rollout-namespaces").kind else {
        panic!("the namespaces are of another kind")
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let level =
        |object: &Value| text(&object["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]);
    let objects = manifests.objects.iter();
    objects.map(|object| (text(&object["metadata"]["name"]), level(object))).collect()
}

#[test]
fn namespace_exists_only_with_tests() {
    let has = |plan: &ReleasePlan, level: &str| {
        namespaces(plan).contains(&(ACCEPTANCE_NAMESPACE.to_owned(), level.to_owned()))
    };
    let with = tested("drive", &json!({}), &json!([smi(&json!({}))])).unwrap();
    assert!(has(&with, "baseline"), "{:?}", namespaces(&with));
    let without = tested("drive", &json!({}), &json!([])).unwrap();
    assert!(namespaces(&without).iter().all(|(name, _)| name != ACCEPTANCE_NAMESPACE));
    assert_eq!(without.acceptance_namespace(), None);
    let rollout = json!({
        "acceptance": [smi(&json!({}))], "acceptancePodSecurity": "privileged",
        "gpuDriver": {"mode": "drive"},
    });
    let open = recipe(json!({"rollout": rollout}));
    let open = plan(&open, &catalog(), &PlanOptions::default()).unwrap();
    assert!(has(&open, "privileged"), "{:?}", namespaces(&open));
    let off = json!([{"name": "gpu-operator", "values": {"driver": {"enabled": false}}}]);
    let off = recipe(json!({"rollout": rollout, "components": off}));
    let off = plan(&off, &catalog(), &PlanOptions::default()).unwrap();
    assert!(namespaces(&off).iter().all(|(name, _)| name != ACCEPTANCE_NAMESPACE));
}

#[test]
fn images_of_tests_are_listed_and_mirrored() {
    let options = PlanOptions {
        registry_mirrors: vec!["nvcr.io=mirror.example.com/nvcr".parse().unwrap()],
        pull_secrets: vec!["pull".to_owned()],
        ..PlanOptions::default()
    };
    let tests = json!([
        smi(&json!({})),
        {"name": "own", "podTemplate": {"spec": {
            "initContainers": [{"name": "a", "image": "nvcr.io/a@sha256:0a"}],
            "containers": [{"name": "b", "image": "r.example.com/b"}],
            "imagePullSecrets": [{"name": "own"}],
        }}},
    ]);
    let plan = planned("drive", &json!({}), &tests, &options).unwrap();
    let values = json!({"rollout": hook(&plan, "gpu-operator-post").settings});
    let found: Vec<(String, String)> = images("post", values.as_object().unwrap())
        .into_iter()
        .map(|image| (image.place.clone(), image.reference()))
        .collect();
    let row = |place: &str, reference: &str| {
        (format!("rollout.upgrade.acceptance.{place}.image"), reference.to_owned())
    };
    assert_eq!(
        found,
        [
            row("0.template.spec.containers.0", "mirror.example.com/nvcr/a/cuda:1"),
            row("1.template.spec.initContainers.0", "mirror.example.com/nvcr/a@sha256:0a"),
            row("1.template.spec.containers.0", "r.example.com/b"),
        ]
    );
    let secrets = |test: usize| {
        tests_of(&plan, "gpu-operator-post")[test]["template"]["spec"]["imagePullSecrets"].clone()
    };
    assert_eq!((secrets(0), secrets(1)), (json!([{"name": "pull"}]), json!([{"name": "own"}])));
    assert!(plan.notes.iter().any(|note| note.contains(ACCEPTANCE_NAMESPACE)), "{:?}", plan.notes);
}

#[test]
fn budgets_contain_the_tests() {
    let budget = |policy: Value, tests: Value| {
        let plan = tested("drive", &policy, &tests).unwrap();
        hook(&plan, "gpu-operator-post").budget.clone()
    };
    let limits = json!({
        "maxParallelUpgrades": 4, "waitForCompletion": {"podSelector": "a=b", "timeout": "1h"},
    });
    let all = budget(limits, json!([smi(&json!({"when": ["before", "after"]}))]));
    assert_eq!(all.per_node_seconds, 720 + 3600 + 2 * 600);
    assert_eq!(all.seconds, 6 * (720 + 3600 + 2 * 600) + OVERHEAD_SECONDS);
    insta::assert_snapshot!(all.explanation, @"9h27m: 16 GPU nodes, 3 upgraded at once, 1h32m per node (including 1h to wait for jobs and 20m for acceptance tests), 15m for everything else");
    let steps = json!({"maxParallelUpgrades": 4, "canary": {"nodes": 2}});
    let some = budget(steps, json!([smi(&json!({"nodes": "canaries", "timeout": "30m"}))]));
    assert_eq!(some.per_node_seconds, 720);
    assert_eq!(some.seconds, (1 + 5) * 720 + 1800 + OVERHEAD_SECONDS);
    insta::assert_snapshot!(some.explanation, @"1h57m: 16 GPU nodes, 3 upgraded at once, 12m per node, 2 steps (first up to 2 canaries), at most 30m for tests of some nodes, 15m for everything else");
}

#[test]
fn budget_that_tests_make_too_long_says_so() {
    let tests = json!([smi(&json!({"timeout": "24h"})), {"name": "b", "pod": {"image": "b:1"}, "timeout": "24h"}]);
    let error = tested("drive", &json!({"maxParallelUpgrades": 1}), &tests).unwrap_err();
    assert!(matches!(error, PlanError::TooLong { tests: true, .. }), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("`rollout.acceptance`")));
}
