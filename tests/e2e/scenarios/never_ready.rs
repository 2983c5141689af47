//! f. A node that never becomes ready: Helm reports the failure before the time budget is exhausted,
//! and all outputs name the node.

use std::time::Duration;

use anyhow::{Result, ensure};
use contract::exit::ExitCode;
use serde_json::json;

use crate::harness::fleet::NEW;
use crate::harness::hook_release::{BUDGET_SECONDS, HookRelease};
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stand_in::{Fault, OPERATOR_NAMESPACE, Script};

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn a_driver_that_hangs() -> Result<()> {
    fails("hangs", 71, Fault::NeverReady, "pod-restart-required").await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn a_driver_that_crashes() -> Result<()> {
    fails("crashes", 72, Fault::CrashLoop, "the upgrade by NVIDIA's controller failed").await
}

async fn fails(name: &str, seed: u64, fault: Fault, cause: &str) -> Result<()> {
    scenario(name, async |stack| {
        let nodes = stack.fleet(Script::seeded(seed), 2, true).await?;
        let broken = nodes[1].clone();
        stack.rewrite(|script| script.faults.extend([(broken.clone(), fault)]))?;
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &NEW.values()).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");

        let budget = 120;
        let said = hook.deploy(&NEW.values(), &json!({"budgetSeconds": budget})).await?;

        let end = hook.end().await?;
        let message = end.message.unwrap_or_default();
        ensure!(
            !said.success && said.elapsed < Duration::from_secs(budget.min(BUDGET_SECONDS)),
            "{said:?}\n{message}"
        );
        let codes = [ExitCode::Budget, ExitCode::NodesFailed].map(|code| i32::from(code.number()));
        ensure!(codes.contains(&end.exit_code), "{}: {message}", end.exit_code);
        let record = hook.record().await?;
        let events = hook.events_about(&broken).await?;
        let of_node = record.get(&format!("node.{broken}")).cloned().unwrap_or_default();
        ensure!(
            message.contains(&broken) && message.contains(cause),
            "the message does not name node and cause: {message}"
        );
        ensure!(of_node.contains(cause), "the record does not name the cause: {of_node}");
        ensure!(
            events.iter().any(|note| note.contains(cause)),
            "no event on the node names the cause: {events:?}"
        );
        rights::check(stack, &hook, name).await
    })
    .await
}
