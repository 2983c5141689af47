//! b. An upgrade of the operator and its driver, with order and times from a seed.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn every_plugin_is_replaced_once_after_its_driver() -> Result<()> {
    for seed in [31, 32] {
        scenario(&format!("upgrade-{seed}"), async |stack| {
            stack.fleet(Script::seeded(seed), 3, true).await?;
            let before = stack.plugins().await?;
            let hook = HookRelease::new(stack, "gpu-rollout");

            // Helm returns at once. The ClusterPolicy is still `ready`, but the new drivers are
            // not.
            stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &NEW.values()).await?;
            let said =
                hook.deploy(&NEW.values(), &json!({"component": {"version": NEW.chart}})).await?;

            ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
            rights::check(stack, &hook, &format!("upgrade-{seed}")).await?;
            stack.check_rerolled(&before, &[hook], said.ended).await
        })
        .await?;
    }
    Ok(())
}
