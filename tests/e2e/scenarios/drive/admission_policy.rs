//! The chart's own admission policies (`rollout.admissionPolicy`). They deny nothing that the hook
//! does. They deny all other changes in the name of the hook, and all writes of other users to the
//! objects of the hooks, with the reason.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Taint};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};

use super::{check_done, settings, upgrade};
use crate::harness::apply::Applier;
use crate::harness::console::Console;
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};
use crate::harness::wait::until;
use crate::harness::workloads::NAMESPACE;

const NODES: usize = 3;
const HOOK: &str = "gpu-rollout";
/// The user that `rollout.admissionPolicy.users` names, and another one with the same rights.
const OPERATOR: &str = "operator@example.com";
const EDITOR: &str = "editor@example.com";

/// Returns a client of another user.
async fn client_of(stack: &Stack, user: &str, groups: &[&str]) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(&stack.control_plane.kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.auth_info.impersonate = Some(user.to_owned());
    let groups = groups.iter().chain(&["system:authenticated"]);
    config.auth_info.impersonate_groups = Some(groups.map(|group| (*group).to_owned()).collect());
    Ok(Client::try_from(config)?)
}

/// Gives the users the right to write Leases and ConfigMaps, as the role `edit` does.
async fn let_edit(stack: &Stack) -> Result<()> {
    let applier = Applier::new(&stack.client);
    for namespace in ["default", OPERATOR_NAMESPACE] {
        let metadata = json!({"name": "edit-objects", "namespace": namespace});
        let all_of = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["*"]});
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
            "rules": [all_of("", "configmaps"), all_of("coordination.k8s.io", "leases")],
        });
        let users = [OPERATOR, EDITOR].map(
            |name| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}),
        );
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "edit-objects"},
            "subjects": users,
        });
        applier.apply(&role, namespace).await?;
        applier.apply(&binding, namespace).await?;
    }
    Ok(())
}

/// Checks that the policies are valid: the API server has checked the types of all expressions.
async fn check_types(stack: &Stack) -> Result<()> {
    let policies = Api::<ValidatingAdmissionPolicy>::all(stack.client.clone());
    for about in ["nodes", "objects"] {
        let name = format!("gpu-rollout.{OPERATOR_NAMESPACE}.{HOOK}.{about}");
        let checked = until(&format!("the types of {name}"), super::LIMIT, async || {
            Ok(policies.get(&name).await?.status.and_then(|status| status.type_checking))
        })
        .await?;
        ensure!(checked.expression_warnings.is_none(), "{name}: {checked:?}");
    }
    Ok(())
}

/// Checks the answer to a write: accepted, or denied with this text.
fn check<T>(answer: kube::Result<T>, denied: Option<&str>, what: &str) -> Result<()> {
    match (answer, denied) {
        (Ok(_), None) => Ok(()),
        (Err(kube::Error::Api(status)), Some(text)) => {
            let by_policy = status.message.contains("ValidatingAdmissionPolicy");
            ensure!(
                status.code == 403 && by_policy && status.message.contains(text),
                "{what}: {status:?}"
            );
            Ok(())
        }
        (Ok(_), Some(_)) => Err(anyhow::anyhow!("{what} was accepted")),
        (Err(error), _) => Err(error).context(what.to_owned()),
    }
}

fn dry_run() -> PatchParams {
    PatchParams { dry_run: true, ..PatchParams::default() }
}

/// Changes of a node with these taints in the name of the hook, and the text of the denial.
fn node_changes(taints: &[Taint]) -> [(Value, Option<&'static str>); 10] {
    let taint = |key: &str| {
        let more = Taint { key: key.into(), effect: "NoSchedule".into(), ..Taint::default() };
        let all = [taints, &[more]].concat();
        json!({"spec": {"taints": all}})
    };
    let metadata = |part: &str, value: Value| json!({"metadata": {part: value}});
    [
        (metadata("labels", json!({"gpu-rollout.dev/any": "x"})), None),
        (metadata("annotations", json!({"nvidia.com/gpu-driver-upgrade-requested": "true"})), None),
        (json!({"spec": {"unschedulable": true}}), None),
        (taint("node.kubernetes.io/unschedulable"), None),
        (
            metadata("labels", json!({"nvidia.com/gpu.deploy.driver": "false"})),
            Some("may not change the label nvidia.com/gpu.deploy.driver"),
        ),
        (
            metadata("labels", json!({"nvidia.com/gpu.present": null})),
            Some("may not change the label nvidia.com/gpu.present"),
        ),
        (
            metadata("annotations", json!({"example.com/note": "x"})),
            Some("may not change the annotation example.com/note"),
        ),
        (taint("example.com/broken"), Some("no taint except that of a cordon")),
        (
            metadata("finalizers", json!(["example.com/keep"])),
            Some("neither finalizers nor owners"),
        ),
        (json!({"spec": {"providerID": "x://y"}}), Some("may not change spec.providerID")),
    ]
}

async fn check_nodes(stack: &Stack) -> Result<()> {
    let account = format!("system:serviceaccount:{OPERATOR_NAMESPACE}:{HOOK}");
    let group = format!("system:serviceaccounts:{OPERATOR_NAMESPACE}");
    let hook = client_of(stack, &account, &["system:serviceaccounts", &group]).await?;
    let (as_hook, as_admin) = (Api::<Node>::all(hook), Api::<Node>::all(stack.client.clone()));
    let taints = as_admin.get("gpu-0").await?.spec.and_then(|spec| spec.taints).unwrap_or_default();
    for (change, denied) in node_changes(&taints) {
        let patch = Patch::Merge(&change);
        let what = format!("the hook: {change}");
        check(as_hook.patch("gpu-0", &dry_run(), &patch).await, denied, &what)?;
        check(
            as_admin.patch("gpu-0", &dry_run(), &patch).await,
            None,
            &format!("admin: {change}"),
        )?;
    }
    Ok(())
}

/// Checks all writes of a user to the objects of the hooks.
async fn check_objects(stack: &Stack, user: &str, denied: Option<&str>) -> Result<()> {
    let client = client_of(stack, user, &[]).await?;
    let create = PostParams { dry_run: true, ..PostParams::default() };
    let delete = DeleteParams { dry_run: true, ..DeleteParams::default() };
    let what = |what: &str| format!("{user}: {what}");

    let leases = Api::<Lease>::namespaced(client.clone(), "default");
    let seize = json!({"spec": {"holderIdentity": "x", "leaseDurationSeconds": 2_147_483_647}});
    let answer = leases.patch("gpu-rollout", &dry_run(), &Patch::Merge(&seize)).await;
    check(answer, denied, &what("patches the Lease"))?;
    check(leases.delete("gpu-rollout", &delete).await, denied, &what("deletes the Lease"))?;

    let here = Api::<ConfigMap>::namespaced(client.clone(), "default");
    for (name, denied) in [("gpu-rollout-pause", denied), ("another", None)] {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        check(here.create(&create, &object).await, denied, &what(&format!("creates {name}")))?;
    }

    let maps = Api::<ConfigMap>::namespaced(client, OPERATOR_NAMESPACE);
    for name in ["gpu-rollout-trigger", "gpu-rollout-record", "gpu-rollout-record-1"] {
        let change = json!({"data": {"x": "y"}});
        let answer = maps.patch(name, &dry_run(), &Patch::Merge(&change)).await;
        check(answer, denied, &what(&format!("patches {name}")))?;
        check(maps.delete(name, &delete).await, denied, &what(&format!("deletes {name}")))?;
    }
    let all = maps.delete_collection(&delete, &ListParams::default()).await;
    check(all, denied, &what("deletes all ConfigMaps"))
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn policies_deny_all_but_the_hooks_own_writes() -> Result<()> {
    scenario("admission-policy", async |stack| {
        stack.fleet(Script::seeded(58), NODES, false).await?;
        stack.create_namespace(NAMESPACE).await?;
        stack.serve("serve", NODES, None).await?;
        let hook = HookRelease::new(stack, HOOK);
        let mut settings = settings(2, 300);
        settings["admissionPolicy"] = json!({"enabled": true, "users": [OPERATOR]});

        let said = upgrade(stack, &hook, &settings).await?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        check_done(stack, &[]).await?;
        check_types(stack).await?;
        check_nodes(stack).await?;
        let_edit(stack).await?;
        check_objects(stack, OPERATOR, None).await?;
        check_objects(stack, EDITOR, Some("editor@example.com is none of them")).await?;

        // The garbage collector may remove its finalizer.
        let maps = Api::<ConfigMap>::namespaced(stack.client.clone(), OPERATOR_NAMESPACE);
        maps.delete("gpu-rollout-trigger", &DeleteParams::foreground()).await?;
        until("the end of the trigger", super::LIMIT, async || {
            Ok(maps.get_opt("gpu-rollout-trigger").await?.is_none().then_some(()))
        })
        .await?;

        // The policies end with their release.
        stack.helm.ok(&["uninstall", HOOK, "-n", OPERATOR_NAMESPACE]).await?;
        let left = Api::<ValidatingAdmissionPolicy>::all(stack.client.clone())
            .list(&ListParams::default())
            .await?;
        let ours = left.iter().filter(|policy| policy.name_any().starts_with("gpu-rollout."));
        ensure!(ours.count() == 0, "{left:?}");
        Ok(())
    })
    .await
}

/// Kubernetes' own controllers delete the protected objects of a namespace that is deleted.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn deleted_namespace_is_not_kept_by_policies() -> Result<()> {
    scenario("admission-policy-namespace", async |stack| {
        const TEAM: &str = "team";
        stack.fleet(Script::seeded(59), 1, false).await?;
        stack.create_namespace(TEAM).await?;
        let hook = HookRelease::in_namespace(stack, HOOK, TEAM);
        let rollout = json!({
            "mode": "observe", "tasks": ["settle"], "operatorNamespace": OPERATOR_NAMESPACE,
            "admissionPolicy": {"enabled": true},
        });
        let said = hook.deploy(&json!({}), &rollout).await?;
        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        let namespaces = Api::<Namespace>::all(stack.client.clone());
        namespaces.delete(TEAM, &DeleteParams::default()).await?;
        until("the end of the namespace", super::LIMIT, async || {
            Ok(namespaces.get_opt(TEAM).await?.is_none().then_some(()))
        })
        .await?;

        // The policies are in no namespace, so they are left.
        let console = Console::new(stack)?;
        let left = left_policies(&console).await?.context("no finding about the policies")?;
        let commands: Vec<&str> = left["remedy"]["run"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        ensure!(!commands.is_empty(), "{left:#}");
        for command in commands {
            console.types(command).await?;
        }
        let left = left_policies(&console).await?;
        ensure!(left.is_none(), "{left:#?}");
        Ok(())
    })
    .await
}

/// Returns the finding of `doctor` about policies that no hook release wants.
async fn left_policies(console: &Console) -> Result<Option<Value>> {
    let said = console.tries("gpu-rollout doctor -o json").await?;
    let document: Value = serde_json::from_slice(&said.stdout)?;
    let findings = document["findings"].as_array().context("no findings")?;
    Ok(findings.iter().find(|finding| finding["check"] == "left-policies").cloned())
}
