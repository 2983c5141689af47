//! The whole road: a recipe becomes a bundle, its `deploy.sh` installs it, upgrades it, and finds nothing to do.

use anyhow::{Result, ensure};
use jiff::Timestamp;

use crate::harness::audit::Request;
use crate::harness::bundle::Bundle;
use crate::harness::fleet::{DRA_NAMESPACE, NEW, OLD};
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script, published};

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn a_bundle_installs_upgrades_and_rests() -> Result<()> {
    scenario("bundle", async |stack| {
        stack.play(Script::seeded(91)).await?;
        let nodes = stack.add_gpu_nodes(3).await?;
        let hooks = [
            HookRelease::in_namespace(stack, OPERATOR_NAMESPACE, "gpu-operator-post"),
            HookRelease::in_namespace(stack, DRA_NAMESPACE, "nvidia-dra-driver-gpu-post"),
        ];

        let installed = Bundle::render(stack, &OLD, 3)?.deploy(stack).await?;
        ensure!(installed.success, "{installed:?}");
        let served = stack.served().await?;
        ensure!(nodes.iter().all(|node| served.get(node) == Some(&published(OLD.driver))), "every node is served: {served:?}");
        let before = stack.plugins().await?;

        let bundle = Bundle::render(stack, &NEW, 3)?;
        let upgraded = bundle.deploy(stack).await?;
        ensure!(upgraded.success, "{upgraded:?}\n{}", hooks[0].logs().await?);
        stack.check_rerolled(&before, &hooks, upgraded.ended).await?;

        let (plugins, begin) = (stack.plugins().await?, Timestamp::now());
        let again = bundle.deploy(stack).await?;
        ensure!(again.success, "{again:?}");
        for hook in &hooks {
            let requests = hook.requests(begin)?;
            ensure!(!requests.is_empty() && !requests.iter().any(Request::is_write), "{} has only read: {requests:#?}", hook.name());
            rights::check(stack, hook, &format!("bundle-{}", hook.name())).await?;
        }
        ensure!(stack.plugins().await? == plugins, "every plugin is the one that it was");
        Ok(())
    })
    .await
}
