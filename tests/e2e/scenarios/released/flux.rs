//! Flux and signatures: without a signature of the trusted signer, nothing of a bundle reaches the
//! cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;

use crate::harness::ask::Ask;
use crate::harness::cosign::Cosign;
use crate::harness::deployers::flux::{Flux, SYNC};
use crate::harness::deployers::{Deployer, Outcome};
use crate::harness::registry::Registry;
use crate::harness::scenario::scenario_within;
use crate::harness::stand_in::Script;
use crate::harness::wait::until;
use crate::scenarios::deployers::fired;

/// One deployment, on a busy machine.
const DEADLINE: Duration = Duration::from_mins(15);
const LIMIT: Duration = Duration::from_mins(5);
const NODES: usize = 2;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn flux_takes_only_a_signed_bundle() -> Result<()> {
    scenario_within(DEADLINE, "released-flux", async |stack| {
        stack.play(Script::seeded(23)).await?;
        stack.add_gpu_nodes(NODES).await?;
        let (stack, begin) = (&*stack, Timestamp::now());
        let directory = stack.helm.directory();
        let signer = Cosign::generate(directory, "cosign").await?;
        let stranger = Cosign::generate(directory, "stranger").await?;
        let registry = Registry::start(directory).await?;
        let ask = Ask { hook_image: registry.push_hook_image().await?, ..Ask::old(NODES) };
        let flux = Flux::start_from_registry(stack, registry, &signer).await?;

        // Flux refuses the bundle without a signature, and with that of another signer. Nothing is
        // applied: the sources of the charts would be part of the bundle.
        flux.deploy(stack, &ask).await?;
        let only_bundle = BTreeMap::from([(SYNC.to_owned(), false)]);
        ensure!(flux.verified(stack).await? == only_bundle, "Flux accepts an unsigned bundle");
        let pushed = flux.pushed();
        for reference in &pushed {
            stranger.sign(reference).await?;
        }
        ensure!(flux.verified(stack).await? == only_bundle, "Flux accepts any signature");

        // With a signed bundle, Flux still refuses the charts, and no release starts.
        let (bundle, charts) = pushed.split_last().context("a bundle")?;
        signer.sign(bundle).await?;
        until("Flux to accept the bundle, and to refuse its charts", LIMIT, async || {
            let mut verified = flux.verified(stack).await?;
            let is_bundle_accepted = verified.remove(SYNC) == Some(true);
            let are_charts_refused =
                !verified.is_empty() && verified.values().all(|accepted| !accepted);
            Ok((is_bundle_accepted && are_charts_refused).then_some(()))
        })
        .await?;
        ensure!(fired(stack, begin)? == [0, 0, 0], "{:?}", fired(stack, begin)?);

        for chart in charts {
            signer.sign(chart).await?;
        }
        let verified = flux.verified(stack).await?;
        ensure!(verified.values().all(|accepted| *accepted), "{verified:?}");
        flux.wait(stack, Outcome::Succeeded).await?;
        ensure!(fired(stack, begin)? == [1, 1, 1], "{:?}", fired(stack, begin)?);
        Ok(())
    })
    .await
}
