//! g. Two hook Jobs at once: one works, the other waits for the Lease, and nothing is done twice.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn one_waits_for_the_lease() -> Result<()> {
    scenario("two-hooks", async |stack| {
        stack.fleet(Script::seeded(81), 3, true).await?;
        let before = stack.plugins().await?;
        let hooks = [HookRelease::new(stack, "gpu-rollout"), HookRelease::new(stack, "gpu-rollout-two")];
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &NEW.values()).await?;

        let (values, settings) = (NEW.values(), json!({}));
        let (first, second) = tokio::join!(hooks[0].deploy(&values, &settings), hooks[1].deploy(&values, &settings));

        let (first, second) = (first?, second?);
        let logs = [hooks[0].logs().await?, hooks[1].logs().await?];
        ensure!(first.success && second.success, "{first:?}\n{second:?}\n{logs:?}");
        ensure!(logs.iter().any(|log| log.contains("waiting for the Lease")), "one has waited: {logs:?}");
        for hook in &hooks {
            rights::check(stack, hook, &format!("two-hooks-{}", hook.name())).await?;
        }
        stack.check_rerolled(&before, &hooks, first.ended.max(second.ended)).await
    })
    .await
}
