//! a. A first install: nothing is stale, so nothing is replaced.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::harness::fleet::OLD;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stand_in::Script;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn nothing_is_stale_after_a_first_install() -> Result<()> {
    scenario("first-install", async |stack| {
        stack.fleet(Script::seeded(21), 3, true).await?;
        let before = stack.plugins().await?;
        let hook = HookRelease::new(stack, "gpu-rollout");

        let said = hook.deploy(&OLD.values(), &json!({})).await?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        ensure!(hook.deleted_pods()?.is_empty(), "a pod was deleted");
        ensure!(stack.plugins().await? == before, "a plugin was replaced");
        rights::check(stack, &hook, "first-install").await
    })
    .await
}
