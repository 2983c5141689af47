//! Acceptance tests, canaries and halts. Each GPU node has a node agent, which runs the tests for
//! real: shells that see the version of their node's driver.

mod by_hand;
mod halted;
mod killed;
mod steered;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use contract::acceptance::{ACCEPTANCE_NAMESPACE, AcceptanceTime, TIME_ANNOTATION};
use contract::record::acceptance::AcceptanceResult;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::apply::Applier;
use crate::harness::fleet::{NEW, OLD, Release, first_image};
use crate::harness::helm::Said;
use crate::harness::hook_release::HookRelease;
use crate::harness::kwok::{KWOK_TAINT, REAL};
use crate::harness::node_agent::{DRIVER_VERSION, SHELL_IMAGE};
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script, driver_version};
use crate::harness::test_timeline::TestTimeline;
use crate::harness::turns::Turns;

const LIMIT: Duration = Duration::from_mins(3);
/// The release that fleets start with. Only the driver is older than that of [`NEW`], so no other
/// pod changes when a user goes back to it.
const PREVIOUS: Release = Release { chart: NEW.chart, driver: OLD.driver };

/// Sets up nodes with the previous driver. Each has a node agent.
async fn fleet(stack: &mut Stack, seed: u64, nodes: usize, values: &Value) -> Result<Vec<String>> {
    stack.play(Script { driver: (500, 1_500), ..Script::seeded(seed) }).await?;
    let nodes = stack.add_gpu_nodes(nodes).await?;
    for node in &nodes {
        stack.join(node)?;
    }
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    let metadata = json!({"name": ACCEPTANCE_NAMESPACE, "labels": labels});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    Applier::new(&stack.client).apply(&namespace, "").await?;
    stack.deploy("gpu-operator", PREVIOUS.chart, OPERATOR_NAMESPACE, values).await?;
    stack.await_policy("ready").await?;
    stack.await_validated(&nodes, LIMIT).await?;
    Ok(nodes)
}

/// Returns a test that runs a shell script. The script has the version of the node's driver in
/// [`DRIVER_VERSION`], and `before` or `after` in `TIME`.
fn shell_test(name: &str, script: &str) -> Value {
    let time = format!("metadata.annotations['{TIME_ANNOTATION}']");
    json!({
        "name": name,
        // More than any of them takes on a busy machine.
        "timeoutSeconds": 120,
        "template": {
            "metadata": {"annotations": {REAL: "true"}},
            "spec": {
                "tolerations": [{"key": KWOK_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
                "containers": [{
                    "name": "test", "image": SHELL_IMAGE, "command": ["/bin/sh", "-c", script],
                    "env": [{"name": "TIME", "valueFrom": {"fieldRef": {"fieldPath": time}}}],
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                }],
            },
        },
    })
}

/// Returns a script that succeeds if the node has this driver.
fn has_driver(version: &str) -> String {
    format!("test \"${DRIVER_VERSION}\" = {version}")
}

/// Returns a test that passes if the node has this driver.
fn driver_is(name: &str, version: &str) -> Value {
    shell_test(name, &has_driver(version))
}

/// Returns the settings of a hook in mode `drive`, with a canary and these tests.
fn driven(tests: &[Value]) -> Value {
    json!({
        "component": {"version": NEW.chart}, "mode": "drive",
        "tasks": ["settle", "drive", "reroll"],
        "upgrade": {
            "policy": {"maxParallelUpgrades": 2, "maxUnavailable": "50%"},
            "attempts": 1,
            "startSeconds": 60,
            "canary": {"nodes": 1},
            "acceptance": tests,
        },
    })
}

/// Deploys a release of the operator and its hook in mode `drive`.
async fn deploy(
    stack: &Stack,
    hook: &HookRelease<'_>,
    release: &Release,
    settings: &Value,
) -> Result<Said> {
    let values = release.driven_values();
    stack.deploy("gpu-operator", release.chart, OPERATOR_NAMESPACE, &values).await?;
    hook.deploy(&values, settings).await
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Returns the pods in the namespace of the tests.
async fn test_pods(stack: &Stack) -> Result<Vec<Pod>> {
    let pods = Api::<Pod>::namespaced(stack.client.clone(), ACCEPTANCE_NAMESPACE);
    Ok(pods.list(&ListParams::default()).await?.items)
}

/// Checks that no pod of a test is left.
async fn check_no_test_pods(stack: &Stack) -> Result<()> {
    let pods: Vec<String> = test_pods(stack).await?.iter().map(ResourceExt::name_any).collect();
    ensure!(pods.is_empty(), "left: {pods:?}");
    Ok(())
}

/// Checks that these nodes run a driver, are not cordoned, and have nothing of gpu-rollout. Checks
/// also that no pod of a test is left.
async fn check_done(stack: &Stack, names: &[String], driver: &str) -> Result<()> {
    let (nodes, drivers) = (Api::<Node>::all(stack.client.clone()), stack.drivers().await?);
    for name in names {
        let node = nodes.get(name).await?;
        ensure!(!is_cordoned(&node), "{name} is cordoned");
        let ours = |key: &&String| key.starts_with("gpu-rollout.dev/");
        let keys = node.labels().keys().chain(node.annotations().keys());
        let left: Vec<&String> = keys.filter(ours).collect();
        ensure!(left.is_empty(), "{name} keeps {left:?}");
        let pod = drivers.get(name).with_context(|| format!("no driver on {name}"))?;
        let image = first_image(pod);
        ensure!(driver_version(image) == driver, "{name} runs {image}");
    }
    check_no_test_pods(stack).await
}

/// Returns the results of a node in the run record as `TEST TIME VERDICT`. Those with the new
/// driver must be about the driver pod that the node has now.
async fn verdicts(stack: &Stack, hook: &HookRelease<'_>, node: &str) -> Result<Vec<String>> {
    let (results, drivers) = (hook.node_record(node).await?.acceptance, stack.drivers().await?);
    let driver = drivers.get(node).and_then(ResourceExt::uid);
    for result in results.iter().filter(|result| result.time == AcceptanceTime::After) {
        ensure!(driver.as_ref() == Some(&result.driver_pod), "{node}: {result:?}");
    }
    let verdict = |result: &AcceptanceResult| {
        format!("{} {} {}", result.test, result.time.name(), result.verdict.name())
    };
    Ok(results.iter().map(verdict).collect())
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn tests_pass_before_nodes_take_workloads() -> Result<()> {
    scenario("acceptance", async |stack| {
        let nodes = fleet(stack, 71, 4, &PREVIOUS.driven_values()).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let script = format!(
            "case $TIME in before) {};; after) {};; *) false;; esac",
            has_driver(PREVIOUS.driver),
            has_driver(NEW.driver)
        );
        let mut both = shell_test("driver", &script);
        both["when"] = json!(["before", "after"]);
        let mut long = driver_is("long", NEW.driver);
        long["nodes"] = "canaries".into();

        let (turns, timeline) = (Turns::record(&stack.client), TestTimeline::record(&stack.client));
        let said = deploy(stack, &hook, &NEW, &driven(&[both, long])).await?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        check_done(stack, &nodes, NEW.driver).await?;
        timeline.check(&nodes, &["driver"]).await?;
        let started = timeline.started();
        let every = ["driver before", "driver after"];
        let of_canary = ["driver before", "driver after", "long after"];
        let is_canary = |node: &&String| started.get(*node).is_some_and(|all| *all == of_canary);
        let [canary] = nodes.iter().filter(is_canary).collect::<Vec<_>>()[..] else {
            bail!("not one node ran the test of canaries: {started:?}")
        };
        for node in &nodes {
            let tests = if node == canary { &of_canary[..] } else { &every[..] };
            ensure!(started.get(node).is_some_and(|all| all == tests), "{node}: {started:?}");
            let passed: Vec<String> = tests.iter().map(|test| format!("{test} passed")).collect();
            let verdicts = verdicts(stack, &hook, node).await?;
            ensure!(verdicts == passed, "{node}: {verdicts:?}");
        }
        let (starts, ends) = (turns.starts(), turns.ends());
        ensure!(starts.len() == nodes.len() && ends.len() == nodes.len(), "{:#?}", turns.by_node());
        ensure!(ends[0] <= starts[1], "a node was started before the canary had ended");
        ensure!(turns.gpu_starts(canary) == 1, "{:#?}", turns.by_node().get(canary));
        let most = turns.most_cordoned();
        ensure!(most <= 2, "{most} nodes were cordoned at once");
        rights::check(stack, &hook, "acceptance").await?;
        let unused = rights::unused_in("acceptance", "acceptance")?;
        ensure!(unused.is_empty(), "granted and not used: {unused:?}");
        Ok(())
    })
    .await
}
