//! A release that `scripts/release.sh` built: `scripts/release/push.sh` publishes it in a registry,
//! and users verify and install it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::hook_chart::reaches_first_line;
use crate::harness::cosign::Cosign;
use crate::harness::published_hook::PublishedHook;
use crate::harness::registry::Registry;
use crate::harness::rendered::said;
use crate::harness::repository::repository;
use crate::harness::scenario::scenario;
use crate::harness::stand_in::Script;

/// The variable with the registry for which the release in `target/dist` was built. `make e2e-full`
/// builds it. The address is a part of the chart and of the program.
const RELEASED: &str = "GPU_ROLLOUT_RELEASED";

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn released_chart_reaches_first_line_within_a_minute() -> Result<()> {
    let address = std::env::var(RELEASED)
        .with_context(|| format!("{RELEASED} does not name the registry of target/dist"))?;
    scenario("released-build", async |stack| {
        stack.fleet(Script::seeded(21), 1, false).await?;
        let directory = stack.helm.directory();
        let signer = Cosign::generate(directory, "cosign").await?;
        verify_files(directory, &signer).await?;
        let _registry = Registry::start_at(directory, &address).await?;
        let published = publish(&signer).await?;
        let again = publish(&signer).await?;
        ensure!(published == again, "the digests differ: {published:?}, {again:?}");
        signer.verify(&published.image).await?;
        signer.verify(&published.chart).await?;
        reaches_first_line(stack, &published).await
    })
    .await
}

/// Signs a copy of the files for download, and verifies them as the documentation says.
async fn verify_files(directory: &Path, signer: &Cosign) -> Result<()> {
    let files = directory.join("files");
    let source = repository("target/dist/files");
    said(Command::new("cp").arg("-R").arg(&source).arg(&files)).await?;
    let mut sign = Command::new(repository("scripts/release/sign.sh"));
    said(with_key(&mut sign, signer).arg(&files)).await?;
    signer.verify_blob(&files.join("checksums.txt")).await?;
    let mut check = Command::new("sha256sum");
    said(check.args(["--check", "--quiet", "checksums.txt"]).current_dir(&files)).await?;
    Ok(())
}

async fn publish(signer: &Cosign) -> Result<PublishedHook> {
    let mut push = Command::new(repository("scripts/release/push.sh"));
    push.env("PLAIN_HTTP", "true");
    let output = said(with_key(&mut push, signer)).await?;
    let mut pushed = output.lines().filter_map(|line| line.strip_prefix("pushed "));
    let (image, chart) = pushed.next().zip(pushed.next()).context("an image and a chart")?;
    Ok(PublishedHook { image: image.to_owned(), chart: chart.to_owned() })
}

/// Lets a script of a release sign with a key.
fn with_key<'c>(command: &'c mut Command, signer: &Cosign) -> &'c mut Command {
    command.env("COSIGN_KEY", signer.private_key()).env("COSIGN_PASSWORD", "")
}
