//! a, b, c. The complete workflow: a recipe is rendered into a bundle, and its `deploy.sh` installs
//! it, upgrades it, and runs again.

use anyhow::{Result, ensure};
use jiff::Timestamp;

use crate::harness::ask::Ask;
use crate::harness::audit::Request;
use crate::harness::fleet::{DRA_NAMESPACE, NEW};
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stand_in::Script;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn installed_upgraded_and_deployed_again() -> Result<()> {
    scenario("bundle", async |stack| {
        stack.play(Script::seeded(21)).await?;
        let nodes = stack.add_gpu_nodes(3).await?;
        let hooks = [
            HookRelease::new(stack, "gpu-operator-post"),
            HookRelease::in_namespace(stack, "nvidia-dra-driver-gpu-post", DRA_NAMESPACE),
        ];
        let deleted = || -> Result<Vec<Request>> {
            Ok([hooks[0].deleted_pods()?, hooks[1].deleted_pods()?].concat())
        };
        let logs = async || -> Result<String> {
            Ok(format!("{}\n{}", hooks[0].logs().await?, hooks[1].logs().await?))
        };

        // a. First install: the DRA driver starts after the drivers, so no plugin is stale.
        let ask = Ask { cert_manager: true, ..Ask::old(nodes.len()) };
        let bundle = stack.render(&ask).await?;
        let installed = stack.deploy_bundle(&bundle).await?;
        ensure!(installed.success, "{installed:?}\n{}", logs().await?);
        ensure!(
            deleted()?.is_empty(),
            "a plugin was replaced that was not stale: {:#?}",
            deleted()?
        );
        let before = stack.plugins().await?;
        ensure!(before.len() == nodes.len(), "a node has no plugin: {before:?}");

        // b. Upgrade: the new bundle replaces the old one.
        let bundle = stack.render(&ask.with(&NEW)).await?;
        let upgraded = stack.deploy_bundle(&bundle).await?;
        ensure!(upgraded.success, "{upgraded:?}\n{}", logs().await?);
        stack.check_rerolled(&before, &hooks, upgraded.ended).await?;

        // c. The same bundle again: every hook fires, and only reads.
        let (plugins, begin) = (stack.plugins().await?, Timestamp::now());
        let again = stack.deploy_bundle(&bundle).await?;
        ensure!(again.success, "{again:?}\n{}", logs().await?);
        for hook in &hooks {
            let requests = hook.requests(begin)?;
            ensure!(
                !requests.is_empty() && !requests.iter().any(Request::is_write),
                "{} wrote: {requests:#?}",
                hook.name()
            );
            rights::check(stack, hook, &format!("bundle-{}", hook.name())).await?;
        }
        ensure!(stack.plugins().await? == plugins, "a plugin was replaced");
        Ok(())
    })
    .await
}
