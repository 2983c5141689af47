//! A canary fails its test, the rollout halts, and a user goes on in one of two ways.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use contract::exit::ExitCode;
use contract::record::proof::Halted;
use contract::record::{RUN_KEY, RunRecord};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{
    PREVIOUS, check_done, check_no_test_pods, deploy, driven, driver_is, fleet, is_cordoned,
    shell_test, verdicts,
};
use crate::harness::console::Console;
use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::node_agent::DRIVER_VERSION;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::test_timeline::TestTimeline;
use crate::harness::turns::Turns;

/// What the test prints with the new driver.
const COMPLAINT: &str = "the GPUs are too slow";

/// Returns a test that fails with the new driver.
fn slow() -> Value {
    let fails = format!("{{ echo {COMPLAINT}; exit 3; }}");
    shell_test("slow", &format!("test \"${DRIVER_VERSION}\" != {} || {fails}", NEW.driver))
}

/// Returns the halt in the run record.
async fn halt(hook: &HookRelease<'_>) -> Result<Halted> {
    let record = hook.record().await?;
    let run: RunRecord = serde_json::from_str(record.get(RUN_KEY).context("no run")?)?;
    run.proof.context("no proof")?.halt.context("no halt")
}

/// Checks that exactly these nodes have been started or cordoned since the recording began.
fn check_touched(turns: &Turns, touched: &[&str]) -> Result<()> {
    for (node, looks) in turns.by_node() {
        let is_touched = looks.iter().any(|look| look.gpu.is_some() || look.cordoned);
        ensure!(is_touched == touched.contains(&node.as_str()), "{node}: {looks:#?}");
    }
    Ok(())
}

/// Deploys the new driver, which fails the test `slow`. Checks that the rollout halts after its
/// canary. Returns the canary.
async fn halts(
    stack: &Stack,
    hook: &HookRelease<'_>,
    console: &Console,
    settings: &Value,
) -> Result<String> {
    let (turns, before) = (Turns::record(&stack.client), stack.drivers().await?);
    let said = deploy(stack, hook, &NEW, settings).await?;
    let log = hook.logs().await?;
    ensure!(!said.success, "the rollout did not halt: {said:?}\n{log}");
    let code = hook.end().await?.exit_code;
    ensure!(code == i32::from(ExitCode::Halted.number()), "exit code {code}\n{log}");
    let halt = halt(hook).await?;
    let [canary] = halt.nodes.as_slice() else { bail!("not one node: {halt:?}") };
    let named = hook.named().await?;
    let failed = format!("{canary}:UpgradeFailed");
    ensure!(named.first().is_some_and(|first| first == "*:Halted"), "{named:?}");
    ensure!(named.contains(&failed), "{named:?}");

    check_touched(&turns, &[canary.as_str()])?;
    let after = stack.drivers().await?;
    let is_replaced =
        |(node, pod): &(&String, &Pod)| before.get(*node).and_then(ResourceExt::uid) != pod.uid();
    let replaced: Vec<&String> = after.iter().filter(is_replaced).map(|(node, _)| node).collect();
    ensure!(replaced == [canary], "driver pods were replaced on {replaced:?}");
    let node = Api::<Node>::all(stack.client.clone()).get(canary).await?;
    ensure!(is_cordoned(&node), "{canary} takes workloads");
    let verdicts = verdicts(stack, hook, canary).await?;
    ensure!(verdicts.contains(&"slow after failed".to_owned()), "{verdicts:?}");
    check_no_test_pods(stack).await?;
    check_told(console, canary).await?;
    Ok(canary.clone())
}

/// Checks that `status` and `why` name the canary and the exit code of its test.
async fn check_told(console: &Console, canary: &str) -> Result<()> {
    let status = console.status().await?;
    ensure!(status["run"]["verdict"] == ExitCode::Halted.name(), "{:#}", status["run"]);
    ensure!(status["proof"]["halt"]["nodes"] == json!([canary]), "{:#}", status["proof"]);
    let mut rows = status["nodes"].as_array().into_iter().flatten();
    let row = rows.find(|row| row["node"] == canary).context("no row of the canary")?;
    ensure!(row["cordoned"] == true && row["waiting"]["reason"] == "UpgradeFailed", "{row:#}");
    let text = console.types("gpu-rollout status").await?;
    ensure!(text.contains(canary), "{text}");

    let why: Value =
        serde_json::from_str(&console.types(&format!("gpu-rollout why {canary} -o json")).await?)?;
    let mut results = why["rollouts"][0]["acceptance"].as_array().into_iter().flatten();
    let slow = results.find(|result| result["test"] == "slow").context("no result of the test")?;
    let message = slow["message"].as_str().unwrap_or_default();
    ensure!(message.contains("exit code 3") && message.contains(COMPLAINT), "{slow:#}");
    let text = console.types(&format!("gpu-rollout why {canary}")).await?;
    ensure!(text.contains("exit code 3"), "{text}");
    Ok(())
}

/// The test is wrong: a user takes the canary as proven, and deploys the same again.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn accepted_canary_lets_the_others_start() -> Result<()> {
    scenario("acceptance-accepted", async |stack| {
        let nodes = fleet(stack, 72, 3, &PREVIOUS.driven_values()).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let console = Console::new(stack)?;
        let mut slow = slow();
        slow["nodes"] = "canaries".into();
        let settings = driven(&[driver_is("driver", NEW.driver), slow]);
        let timeline = TestTimeline::record(&stack.client);
        let canary = halts(stack, &hook, &console, &settings).await?;

        let turns = Turns::record(&stack.client);
        let resume = format!("gpu-rollout resume --accept {canary} --reason INC-4711 --yes");
        console.types(&resume).await?;
        let said = deploy(stack, &hook, &NEW, &settings).await?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        check_done(stack, &nodes, NEW.driver).await?;
        let others: Vec<String> = nodes.into_iter().filter(|node| *node != canary).collect();
        timeline.check(&others, &["driver"]).await?;
        for (node, tests) in timeline.started() {
            let expected: &[&str] =
                if node == canary { &["driver after", "slow after"] } else { &["driver after"] };
            ensure!(tests == expected, "{node}: {tests:?}");
        }
        ensure!(turns.gpu_starts(&canary) == 0, "{canary} was upgraded again");
        let report = console.types("gpu-rollout report").await?;
        ensure!(report.contains("INC-4711"), "{report}");
        rights::check(stack, &hook, "acceptance-accepted").await
    })
    .await
}

/// The driver is bad: a user deploys the previous one.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn previous_driver_redoes_only_touched_node() -> Result<()> {
    scenario("acceptance-previous", async |stack| {
        let nodes = fleet(stack, 73, 3, &PREVIOUS.driven_values()).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let console = Console::new(stack)?;
        let settings = driven(&[slow()]);
        let (turns, timeline) = (Turns::record(&stack.client), TestTimeline::record(&stack.client));
        // The deployment before the bad one. Every node has its driver.
        let said = deploy(stack, &hook, &PREVIOUS, &settings).await?;
        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        check_touched(&turns, &[])?;
        let before = stack.drivers().await?;
        let canary = halts(stack, &hook, &console, &settings).await?;

        let said = deploy(stack, &hook, &PREVIOUS, &settings).await?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        check_done(stack, &nodes, PREVIOUS.driver).await?;
        check_touched(&turns, &[canary.as_str()])?;
        let after = stack.drivers().await?;
        for node in nodes.iter().filter(|node| **node != canary) {
            let uid = |pods: &BTreeMap<String, Pod>| pods.get(node).and_then(ResourceExt::uid);
            ensure!(uid(&before) == uid(&after), "the driver pod of {node} was replaced");
        }
        timeline.check(std::slice::from_ref(&canary), &["slow"]).await?;
        let expected = BTreeMap::from([(canary, vec!["slow after".to_owned(); 2])]);
        ensure!(timeline.started() == expected, "{:?}", timeline.started());
        rights::check(stack, &hook, "acceptance-previous").await
    })
    .await
}
