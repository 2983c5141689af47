//! c. The same deployment again: the hook fires, finds no work, and writes nothing.

use anyhow::{Result, ensure};
use jiff::Timestamp;
use serde_json::json;

use crate::harness::audit::Request;
use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn a_second_run_writes_nothing() -> Result<()> {
    scenario("again", async |stack| {
        stack.fleet(Script::seeded(41), 3, true).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &NEW.values()).await?;
        let first = hook.deploy(&NEW.values(), &json!({})).await?;
        ensure!(first.success, "{first:?}\n{}", hook.logs().await?);
        let (plugins, pods) = (stack.plugins().await?, hook.pods().await?);

        let begin = Timestamp::now();
        let second = hook.deploy(&NEW.values(), &json!({})).await?;

        ensure!(second.success, "{second:?}\n{}", hook.logs().await?);
        ensure!(hook.pods().await? != pods, "the hook did not run again");
        let requests = hook.requests(begin)?;
        ensure!(
            !requests.is_empty() && !requests.iter().any(Request::is_write),
            "the hook wrote: {requests:#?}"
        );
        ensure!(stack.plugins().await? == plugins, "a plugin was replaced");
        rights::check(stack, &hook, "again").await
    })
    .await
}
