//! Mode `drive`: the hook performs the whole upgrade on nodes with workloads.

mod admission_policy;
mod both;
mod interrupted;
mod refused;
mod yielding;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use contract::record::NodeOutcome;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::apply::Applier;
use crate::harness::audit::Request;
use crate::harness::fleet::{NEW, first_image};
use crate::harness::helm::Said;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{Fault, OPERATOR_NAMESPACE, Script, driver_version};
use crate::harness::wait::until;
use crate::harness::workloads::NAMESPACE;

const LIMIT: Duration = Duration::from_mins(3);
const STATE: &str = "gpu-rollout.dev/gpu-driver-upgrade-state";
const RECORD: &str = "gpu-rollout.dev/gpu-driver-upgrade";

/// Returns the settings of the hook.
fn settings(parallel: usize, budget: u64) -> Value {
    json!({
        "component": {"version": NEW.chart}, "mode": "drive", "tasks": ["settle", "drive", "reroll"], "budgetSeconds": budget,
        "upgrade": {
            "policy": {"maxParallelUpgrades": parallel, "maxUnavailable": "50%", "podDeletion": {"timeoutSeconds": 60}},
            "attempts": 1,
            "startSeconds": 60,
        },
    })
}

async fn nodes(stack: &Stack) -> Result<BTreeMap<String, Node>> {
    let nodes = Api::<Node>::all(stack.client.clone()).list(&ListParams::default()).await?;
    Ok(nodes
        .into_iter()
        .filter(|node| node.name_any().starts_with("gpu-"))
        .map(|node| (node.name_any(), node))
        .collect())
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Deploys the new release and its hook in mode `drive`.
async fn upgrade(stack: &Stack, hook: &HookRelease<'_>, settings: &Value) -> Result<Said> {
    stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &NEW.driven_values()).await?;
    hook.deploy(&NEW.driven_values(), settings).await
}

/// Checks that every node except these runs the new driver, is not cordoned, and has nothing of
/// gpu-rollout.
async fn check_done(stack: &Stack, except: &[&str]) -> Result<()> {
    let drivers = stack.drivers().await?;
    for (name, node) in nodes(stack).await? {
        if except.contains(&name.as_str()) {
            continue;
        }
        ensure!(!is_cordoned(&node), "{name} is cordoned");
        let ours = |key: &&String| key.starts_with("gpu-rollout.dev/");
        ensure!(
            !node.labels().keys().any(|key| ours(&key))
                && !node.annotations().keys().any(|key| ours(&key)),
            "{name}: {node:?}"
        );
        let pod = drivers.get(&name).with_context(|| format!("no driver on {name}"))?;
        let image = first_image(pod);
        ensure!(driver_version(image) == NEW.driver, "{name} runs {image}");
    }
    Ok(())
}

/// Returns the requests per node, without evictions and the Lease.
fn requests_a_node(
    hook: &HookRelease<'_>,
    since: Timestamp,
    nodes: usize,
) -> Result<(usize, usize)> {
    let apart =
        |request: &Request| request.resource == "leases" || request.resource == "pods/eviction";
    let requests: Vec<Request> =
        hook.requests(since)?.into_iter().filter(|request| !apart(request)).collect();
    let writes = requests.iter().filter(|request| request.is_write()).count();
    Ok((requests.len().div_ceil(nodes), writes.div_ceil(nodes)))
}

/// Prints the number of requests per node and of evictions.
fn tell_cost(hook: &HookRelease<'_>, scenario: &str, since: Timestamp, nodes: usize) -> Result<()> {
    let (requests, writes) = requests_a_node(hook, since, nodes)?;
    let evictions = evictions_of(hook, since)?;
    let refused = evictions.iter().filter(|eviction| eviction.code == 429).count();
    eprintln!(
        "{scenario}: {requests} requests a node, of them {writes} writes; {} evictions, of them {refused} refused",
        evictions.len()
    );
    Ok(())
}

/// Returns the evictions that the hook requested.
fn evictions_of(hook: &HookRelease<'_>, since: Timestamp) -> Result<Vec<Request>> {
    Ok(hook
        .requests(since)?
        .into_iter()
        .filter(|request| request.resource == "pods/eviction")
        .collect())
}

/// Checks that the hook has deleted each old driver pod once and no others. Those on the nodes of
/// `except` must not be deleted.
fn check_deleted_once(
    hook: &HookRelease<'_>,
    namespace: &str,
    before: &BTreeMap<String, Pod>,
    except: &[&str],
) -> Result<()> {
    let mut deleted: Vec<String> = hook
        .deleted_pods()?
        .into_iter()
        .filter(|request| request.namespace == namespace)
        .map(|request| request.name)
        .collect();
    let old = before.iter().filter(|(node, _)| !except.contains(&node.as_str()));
    let mut wanted: Vec<String> = old.map(|(_, pod)| pod.name_any()).collect();
    deleted.sort();
    wanted.sort();
    ensure!(deleted == wanted, "deleted {deleted:?} instead of {wanted:?}");
    Ok(())
}

/// A node in maintenance by another tool.
struct Maintenance {
    node: &'static str,
    objects: Api<DynamicObject>,
}

impl Maintenance {
    async fn of(stack: &Stack, node: &'static str) -> Result<Self> {
        let crd = include_str!(
            "../../../bundles/components/network-operator/26.4.1/crds/maintenance/maintenance.nvidia.com_nodemaintenances.yaml"
        );
        let applier = Applier::new(&stack.client);
        applier.apply_crd(&yaml::from_str::<Value>(crd)?).await?;
        let object = json!({
            "apiVersion": "maintenance.nvidia.com/v1alpha1", "kind": "NodeMaintenance",
            "metadata": {"name": "others", "namespace": "default"}, "spec": {"nodeName": node, "requestorID": "somebody.else"},
        });
        applier.apply(&object, "default").await?;
        let kind = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk("maintenance.nvidia.com", "v1alpha1", "NodeMaintenance"),
            "nodemaintenances",
        );
        Ok(Self { node, objects: Api::namespaced_with(stack.client.clone(), "default", &kind) })
    }

    /// Ends the maintenance when the other nodes are done. Until then, the hook must not touch the
    /// node.
    async fn ends_when_the_others_are_done(self, stack: &Stack) -> Result<()> {
        until("the other nodes to be done", LIMIT, async || {
            Ok(check_done(stack, &[self.node]).await.is_ok().then_some(()))
        })
        .await?;
        let nodes = nodes(stack).await?;
        let theirs = nodes.get(self.node).context("the node")?;
        ensure!(
            !is_cordoned(theirs) && !theirs.labels().contains_key(STATE),
            "the hook changed {}: {theirs:?}",
            self.node
        );
        self.objects.delete("others", &DeleteParams::default()).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn workloads_leave_within_budgets_and_nodes_are_released() -> Result<()> {
    scenario("drive", async |stack| {
        stack.fleet(Script::seeded(51), 4, true).await?;
        let before = stack.plugins().await?;
        stack.create_namespace(NAMESPACE).await?;
        // One disruption is allowed. Further evictions are refused until a replacement is ready
        // elsewhere.
        stack.serve("serve", 6, Some(5)).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let maintenance = Maintenance::of(stack, "gpu-3").await?;

        let begin = Timestamp::now();
        let settings = settings(2, 240);
        let (said, ended) = tokio::join!(
            upgrade(stack, &hook, &settings),
            maintenance.ends_when_the_others_are_done(stack)
        );
        let said = said?;
        ended?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        check_done(stack, &[]).await?;
        stack.check_rerolled(&before, std::slice::from_ref(&hook), said.ended).await?;
        let went =
            evictions_of(&hook, begin)?.into_iter().filter(|eviction| eviction.code == 201).count();
        ensure!(went > 0, "nothing was evicted\n{}", hook.logs().await?);
        tell_cost(&hook, "drive", begin, 4)?;
        rights::check(stack, &hook, "drive").await
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn node_with_failing_driver_keeps_cordon_others_finish() -> Result<()> {
    scenario("drive-fails", async |stack| {
        let mut script = Script::seeded(52);
        script.faults.insert("gpu-1".into(), Fault::CrashLoop);
        script.driver = (500, 1_500);
        stack
            .fleet(Script { faults: std::collections::HashMap::new(), ..script.clone() }, 4, false)
            .await?;
        stack.rewrite(|live| *live = script)?;
        let hook = HookRelease::new(stack, "gpu-rollout");

        let said = upgrade(stack, &hook, &settings(1, 240)).await?;

        ensure!(!said.success, "{said:?}\n{}", hook.logs().await?);
        check_done(stack, &["gpu-1"]).await?;
        let nodes = nodes(stack).await?;
        let failed = nodes.get("gpu-1").context("gpu-1")?;
        ensure!(is_cordoned(failed), "{failed:?}");
        ensure!(
            failed.labels().get(STATE).map(String::as_str) == Some("upgrade-failed"),
            "{:?}",
            failed.labels()
        );
        ensure!(
            failed.annotations().get(RECORD).is_some_and(|text| text.contains("driver-failing")),
            "{:?}",
            failed.annotations()
        );
        ensure!(hook.named().await? == ["gpu-1:UpgradeFailed"], "{:?}", hook.named().await?);
        let (done, failed) = (hook.node_record("gpu-0").await?, hook.node_record("gpu-1").await?);
        let reason = failed.reason.as_ref().context("no reason")?;
        ensure!(
            reason.name == "UpgradeFailed"
                && failed.steps.iter().any(|step| step.state == "pod-restart-required"),
            "{failed:?}"
        );
        let events = hook.events_about("gpu-1").await?;
        ensure!(
            events.iter().any(|event| event.contains(&reason.text)),
            "no event on the node has the same reason: {events:?}"
        );
        ensure!(done.outcome == Some(NodeOutcome::Done), "{done:?}");
        Ok(())
    })
    .await
}

/// A complete upgrade of a fleet with a drain, and one node whose driver fails.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn fifty_nodes_are_drained_and_failure_is_reported() -> Result<()> {
    const NODES: usize = 50;
    scenario("drive-fifty", async |stack| {
        let mut script = Script::seeded(53);
        script.driver = (500, 1_500);
        script.driver_manager = false;
        stack.fleet(script.clone(), NODES, true).await?;
        stack.create_namespace(NAMESPACE).await?;
        stack.serve("serve", 60, Some(50)).await?;
        stack.serve("batch", 40, None).await?;
        stack.rewrite(|live| live.faults = [("gpu-7".to_owned(), Fault::CrashLoop)].into())?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let mut settings = settings(10, 480);
        // Ten drivers, their evictions and the whole stack share the CPU, so the timeout is long.
        // The bad node fails because of its restarts.
        settings["upgrade"]["startSeconds"] = json!(300);
        settings["upgrade"]["policy"]["drain"] = json!({"enable": true, "timeoutSeconds": 120});
        settings["upgrade"]["policy"]["podDeletion"] = json!({"enable": false});

        let begin = Timestamp::now();
        let said = upgrade(stack, &hook, &settings).await?;

        ensure!(
            !said.success,
            "the hook succeeded although one node fails\n{said:?}\n{}",
            hook.logs().await?
        );
        ensure!(
            hook.named().await? == ["gpu-7:UpgradeFailed"],
            "{:?}\n{}",
            hook.named().await?,
            hook.logs().await?
        );
        check_done(stack, &["gpu-7"]).await?;
        for node in nodes(stack).await?.keys() {
            let told = hook.node_record(node).await?;
            let outcome = if node == "gpu-7" { NodeOutcome::Failed } else { NodeOutcome::Done };
            let restarted = told.steps.iter().any(|step| step.state == "pod-restart-required");
            ensure!(told.outcome == Some(outcome) && restarted, "{node}: {told:?}");
            let events = hook.events_about(node).await?;
            ensure!(
                events.len() == 1 || node == "gpu-7",
                "expected one event about {node}: {events:?}"
            );
        }
        tell_cost(&hook, "drive-fifty", begin, NODES)?;
        let went =
            evictions_of(&hook, begin)?.into_iter().filter(|eviction| eviction.code == 201).count();
        ensure!(went >= 100, "expected at least 100 evictions, one per workload: {went}");
        Ok(())
    })
    .await
}
