//! The optional objects that restrict who writes what (`rollout.admissionPolicy`) and which
//! connections the hook's pod has (`rollout.networkPolicy`).

use contract::driver::Driver;
use contract::names::{COORDINATION, LEASE_NAME, LEASE_NAMESPACE, PAUSE_NAME, UNSCHEDULABLE_TAINT};
use contract::settings::Mode;
use contract::task::{AllowedNodeChanges, Task};
use serde_json::{Value, json};

use super::helm::{Objects, template, template_as};

const ENABLED: &str = "rollout.admissionPolicy.enabled=true";

/// Renders the chart with the admission policies.
fn with_policies(driver: Driver, mode: Mode, tasks: &[Task]) -> Objects {
    let names: Vec<&str> = tasks.iter().map(|task| task.name()).collect();
    template(&[
        "--set-json",
        &format!("rollout.tasks={}", json!(names)),
        "--set",
        &format!("{ENABLED},rollout.driver={},rollout.mode={}", driver.traits().name, mode.name()),
    ])
}

/// Returns the policy about nodes or about objects.
fn policy<'o>(objects: &'o Objects, about: &str) -> Option<&'o Value> {
    let name = format!("gpu-rollout.gpu-operator.post.{about}");
    objects
        .kind("ValidatingAdmissionPolicy")
        .find(|policy| policy["metadata"]["name"] == name.as_str())
}

/// Returns the expression of a variable of a policy.
fn variable<'p>(policy: &'p Value, name: &str) -> &'p str {
    let variables = policy["spec"]["variables"].as_array().unwrap();
    let found = variables.iter().find(|variable| variable["name"] == name);
    found.unwrap_or_else(|| panic!("no variable {name}"))["expression"].as_str().unwrap()
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn restrictions_are_off_by_default() {
    let objects = template(&[]);
    for object in &objects.0 {
        let group = object["apiVersion"].as_str().unwrap();
        assert!(!group.starts_with("admissionregistration.k8s.io/"), "{object}");
        assert!(!group.starts_with("networking.k8s.io/"), "{object}");
    }
    assert!(!objects.settings_text().contains("admissionPolicy"), "an older image would refuse it");
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn node_policy_allows_exactly_the_tasks_changes() {
    let cases: [(Driver, Mode, &[Task]); 5] = [
        (Driver::Gpu, Mode::Assist, &[Task::Settle, Task::Wake, Task::Reroll]),
        (Driver::Gpu, Mode::Assist, &[Task::Preflight, Task::Hold]),
        (Driver::Gpu, Mode::Steer, &[Task::Settle, Task::Wake, Task::Steer, Task::Reroll]),
        (Driver::Gpu, Mode::Drive, &[Task::Settle, Task::Drive, Task::Reroll]),
        (Driver::Ofed, Mode::Drive, &[Task::Settle, Task::Drive]),
    ];
    for (driver, mode, tasks) in cases {
        let objects = with_policies(driver, mode, tasks);
        let settings = objects.settings();
        assert!(settings.admission_policy);
        let allowed = AllowedNodeChanges::of_job(&settings);
        let policy = policy(&objects, "nodes").unwrap();
        let expected = |part: &str, keys: Value| {
            format!(
                "variables.changed{part}.filter(key, !key.startsWith(\"gpu-rollout.dev/\") && !(key in {keys}))"
            )
        };
        let (labels, annotations) = (json!(allowed.labels), json!(allowed.annotations));
        assert_eq!(variable(policy, "otherLabels"), expected("Labels", labels));
        assert_eq!(variable(policy, "otherAnnotations"), expected("Annotations", annotations));
        let fields = if allowed.uncordon { json!(["unschedulable", "taints"]) } else { json!([]) };
        assert_eq!(
            variable(policy, "otherFields"),
            format!("variables.changedFields.filter(key, !(key in {fields}))"),
            "{mode:?}"
        );
        let conditions = json!([{
            "name": "hook",
            "expression": "request.userInfo.username == \"system:serviceaccount:gpu-operator:post\"",
        }]);
        assert_eq!(policy["spec"]["matchConditions"], conditions);
        assert_eq!(policy["spec"]["failurePolicy"], "Fail");
        let validations = policy["spec"]["validations"].to_string();
        assert!(validations.contains(UNSCHEDULABLE_TAINT));
        assert_eq!(validations.contains("may not cordon"), !allowed.cordon, "{mode:?}");
    }
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn hook_without_node_writes_has_no_node_policy() {
    let objects = with_policies(Driver::Gpu, Mode::Observe, &[Task::Settle, Task::Reroll]);
    assert!(policy(&objects, "nodes").is_none());
    assert!(policy(&objects, "objects").is_some());
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn object_policy_names_objects_and_writers() {
    let users = r#"rollout.admissionPolicy.users=["ada@example.com","it's \"me\""]"#;
    let groups = r#"rollout.admissionPolicy.groups=["sre"]"#;
    let objects = template(&["--set", ENABLED, "--set-json", users, "--set-json", groups]);
    let policy = policy(&objects, "objects").unwrap();
    let protected = policy["spec"]["matchConditions"][0]["expression"].as_str().unwrap();
    let mut names = vec![
        format!("leases {LEASE_NAMESPACE}/{LEASE_NAME}"),
        format!("configmaps {LEASE_NAMESPACE}/{PAUSE_NAME}"),
    ];
    let maps = objects.kind("ConfigMap").map(|map| map["metadata"]["name"].as_str().unwrap());
    names.extend(maps.map(|name| format!("configmaps gpu-operator/{name}")));
    let (_, listed) = protected.split_once(" in ").unwrap();
    let mut listed: Vec<String> = serde_json::from_str(listed).unwrap();
    listed.sort();
    names.sort();
    assert_eq!(listed, names);
    let writers = policy["spec"]["validations"][0]["expression"].as_str().unwrap();
    assert!(writers.contains(r#"username in ["ada@example.com","it's \"me\""]"#), "{writers}");
    assert!(writers.contains(r#"group in ["sre"]"#), "{writers}");
    // The hook, and each identity that may install it, has the right that the policy asks for.
    let right = json!({
        "apiGroups": [COORDINATION.group],
        "resources": [COORDINATION.resource],
        "verbs": [COORDINATION.verb],
    });
    let mut roles = objects.kind("Role").filter(|role| role["metadata"]["namespace"] == "default");
    assert!(roles.any(|role| role["rules"].as_array().unwrap().contains(&right)));
    assert!(
        writers.contains(&format!(
            "authorizer.group(\"{}\").resource(\"{}\").namespace(\"default\").check(\"{}\").allowed()",
            COORDINATION.group, COORDINATION.resource, COORDINATION.verb
        )),
        "{writers}"
    );
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn every_policy_has_its_own_binding() {
    let mut seen = Vec::new();
    for (release, namespace) in [("post", "a"), ("post", "b"), ("pre", "a")] {
        let objects = template_as(release, namespace, &["--set", ENABLED]);
        for policy in objects.kind("ValidatingAdmissionPolicy") {
            let name = &policy["metadata"]["name"];
            let binding = objects
                .kind("ValidatingAdmissionPolicyBinding")
                .find(|binding| binding["metadata"]["name"] == *name)
                .unwrap();
            let specification = json!({"policyName": name, "validationActions": ["Deny"]});
            assert_eq!(binding["spec"], specification);
            assert!(!seen.contains(name), "{name}");
            seen.push(name.clone());
        }
    }
    assert_eq!(seen.len(), 6);
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn network_policy_allows_api_server_and_dns() {
    let on = "rollout.networkPolicy.enabled=true";
    let ports = |rule: &Value| {
        let ports = rule["ports"].as_array().unwrap().iter();
        ports.map(|port| port["port"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let objects = template(&["--set", on]);
    let specification = &objects.kind("NetworkPolicy").next().unwrap()["spec"];
    let labels = &objects.job()["spec"]["template"]["metadata"]["labels"];
    for (key, value) in specification["podSelector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(labels[key], *value, "{key}");
    }
    assert_eq!(specification["policyTypes"], json!(["Ingress", "Egress"]));
    assert!(specification.get("ingress").is_none(), "nothing is served");
    let egress = specification["egress"].as_array().unwrap();
    assert_eq!((ports(&egress[0]), ports(&egress[1])), (vec![443, 6443], vec![53, 53, 5353, 5353]));
    assert!(egress.len() == 2 && egress.iter().all(|rule| rule.get("to").is_none()));

    let more = format!("{on},rollout.metrics.enabled=true,rollout.metrics.port=9900");
    let cidrs = r#"rollout.networkPolicy.apiServer={"ports": [6443], "cidrs": ["10.0.0.1/32"]}"#;
    let objects = template(&["--set", &more, "--set-json", cidrs]);
    let specification = &objects.kind("NetworkPolicy").next().unwrap()["spec"];
    assert_eq!(ports(&specification["ingress"][0]), [9900]);
    let server = json!({
        "ports": [{"protocol": "TCP", "port": 6443}],
        "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}],
    });
    assert_eq!(specification["egress"][0], server);
}
