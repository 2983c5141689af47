//! Admission refuses writes of single nodes: the cordon of one, the state label of another, an
//! eviction, the deletion of a driver pod, the end of a cordon. Each of these nodes fails with the
//! policy's message, and the others are upgraded.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{check_done, is_cordoned, nodes, settings, upgrade};
use crate::harness::apply::Applier;
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;
use crate::harness::workloads::NAMESPACE;

const NODES: usize = 7;
/// The nodes whose writes are refused: cordon, label, eviction, driver pod, end of the cordon.
const REFUSED: [&str; 5] = ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5"];
const HOOK: &str = "system:serviceaccount:gpu-operator:gpu-rollout";

/// Creates a ValidatingAdmissionPolicy for writes of the hook, with its binding.
async fn refuse(
    stack: &Stack,
    name: &str,
    (operation, resource): (&str, &str),
    expression: &str,
) -> Result<()> {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]},
            ]},
            "matchConditions": [{"name": "hook", "expression": format!("request.userInfo.username == '{HOOK}'")}],
            "validations": [{"expression": expression, "message": format!("{name}: ask the platform team")}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    let applier = Applier::new(&stack.client);
    applier.apply(&policy, "default").await?;
    applier.apply(&binding, "default").await
}

fn told(said: &Value, node: &str) -> bool {
    said.as_str().is_some_and(|text| text.contains(node))
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn refused_write_fails_its_node_alone() -> Result<()> {
    scenario("drive-refused", async |stack| {
        stack.fleet(Script::seeded(57), NODES, false).await?;
        stack.create_namespace(NAMESPACE).await?;
        stack.serve("serve", NODES, None).await?;
        let pods = stack.pods_by_node(NAMESPACE, "app=serve").await?;
        let on_node =
            |node: &str| pods.get(node).map_or_else(|| "none".to_owned(), ResourceExt::name_any);
        let uncordoned = "!has(object.spec.unschedulable) || !object.spec.unschedulable";
        refuse(
            stack,
            "cordon",
            ("UPDATE", "nodes"),
            &format!("object.metadata.name != 'gpu-1' || {uncordoned}"),
        )
        .await?;
        let label = "gpu-rollout.dev/gpu-driver-upgrade-state";
        let labeled = format!("has(object.metadata.labels) && '{label}' in object.metadata.labels");
        refuse(
            stack,
            "label",
            ("UPDATE", "nodes"),
            &format!("object.metadata.name != 'gpu-2' || !({labeled})"),
        )
        .await?;
        refuse(
            stack,
            "eviction",
            ("CREATE", "pods/eviction"),
            &format!("object.metadata.name != '{}'", on_node("gpu-3")),
        )
        .await?;
        let was_cordoned = "has(oldObject.spec.unschedulable) && oldObject.spec.unschedulable";
        refuse(
            stack,
            "uncordon",
            ("UPDATE", "nodes"),
            &format!("object.metadata.name != 'gpu-5' || !({was_cordoned}) || !({uncordoned})"),
        )
        .await?;
        refuse(stack, "driver", ("DELETE", "pods"), "oldObject.spec.nodeName != 'gpu-4'").await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let mut settings = settings(2, 300);
        settings["upgrade"]["failureBudget"] = json!("100%");

        let said = upgrade(stack, &hook, &settings).await?;

        ensure!(!said.success, "{said:?}\n{}", hook.logs().await?);
        let verdict = serde_json::to_value(hook.verdict().await?)?;
        ensure!(verdict["code"] == "nodes-failed", "{verdict}\n{}", hook.logs().await?);
        check_done(stack, &REFUSED).await?;
        let nodes = nodes(stack).await?;
        for (node, policy) in
            REFUSED.into_iter().zip(["cordon", "label", "eviction", "driver", "uncordon"])
        {
            if policy == "eviction" && on_node(node) == "none" {
                // The scheduler placed no pod there, so no eviction was refused.
                continue;
            }
            ensure!(told(&verdict["message"], node), "{node}: {verdict}");
            let reason = hook
                .node_record(node)
                .await?
                .reason
                .with_context(|| format!("no reason of {node}"))?;
            ensure!(reason.name == "WriteRefused", "{node}: {reason}");
            ensure!(
                reason.text.contains(&format!("{policy}: ask the platform team")),
                "the reason lacks the policy's message: {reason}"
            );
            // A cordon that cannot be removed stays, and the reason above names the policy.
            ensure!(
                is_cordoned(&nodes[node]) == (policy == "uncordon"),
                "{node}: its driver was replaced, or its cordon is wrong"
            );
        }
        Ok(())
    })
    .await
}
