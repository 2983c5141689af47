//! e. A cluster without a DRA driver: the run succeeds unless a DRA driver is required.

use anyhow::{Result, ensure};
use contract::exit::ExitCode;
use serde_json::json;

use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn no_dra_driver_is_fine_unless_required() -> Result<()> {
    scenario("no-dra", async |stack| {
        stack.fleet(Script::seeded(61), 2, false).await?;
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &NEW.values()).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");

        let said = hook.deploy(&NEW.values(), &json!({})).await?;
        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        ensure!(hook.named().await? == ["*:Settled", "*:NoDraDriver"], "{:?}", hook.named().await?);

        let said = hook.deploy(&NEW.values(), &json!({"dra": {"required": true}})).await?;
        ensure!(!said.success, "{said:?}");
        let end = hook.end().await?;
        let message = end.message.unwrap_or_default();
        ensure!(
            end.exit_code == i32::from(ExitCode::DraMissing.number()),
            "{}: {message}",
            end.exit_code
        );
        ensure!(hook.named().await? == ["*:DraMissing"], "{:?}", hook.named().await?);
        rights::check(stack, &hook, "no-dra").await
    })
    .await
}
