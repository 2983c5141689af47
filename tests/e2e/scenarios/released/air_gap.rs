//! Without Internet access: the archive of a bundle deploys from another directory, with charts
//! only from the archive, and the hook's image only from a registry of the cluster's own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use tokio::process::Command;

use super::registry_and_bundle;
use crate::harness::deployers::Kind;
use crate::harness::rendered::said;
use crate::harness::repository::gpu_rollout;
use crate::harness::scenario::scenario;
use crate::harness::terminal::Terminal;
use crate::scenarios::deployers::fired;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn archive_deploys_without_network() -> Result<()> {
    scenario("released-air-gap", async |stack| {
        let (_registry, bundle) = registry_and_bundle(stack).await?;
        let (stack, begin) = (&*stack, Timestamp::now());
        let directory = stack.helm.directory();

        let (charts, archive) = (directory.join("charts"), directory.join("air-gap.tar.gz"));
        stack.move_charts(&charts)?;
        let mut pack = Command::new(gpu_rollout()?);
        pack.args(["bundle", "archive"]).arg(&bundle).arg("-o").arg(&archive);
        said(pack.arg("--charts").arg(&charts).args(["--node-os", "ubuntu22.04"])).await?;
        fs::remove_dir_all(&bundle)?;
        fs::remove_dir_all(&charts)?;

        let place = directory.join("elsewhere");
        fs::create_dir(&place)?;
        said(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&place)).await?;
        let mut terminal = Terminal::open(stack, Kind::Helm4).await?;
        terminal.enter(root(&place)?);
        terminal.run("sha256sum --check --quiet checksums.txt").await?;
        for block in terminal.blocks("Deploy")? {
            terminal.run(&block).await?;
        }
        ensure!(fired(stack, begin)? == [1, 1, 1], "{:?}", fired(stack, begin)?);
        Ok(())
    })
    .await
}

/// Returns the directory of the archive's README.md: that of the archive, or the only one in it.
fn root(place: &Path) -> Result<PathBuf> {
    if place.join("README.md").exists() {
        return Ok(place.to_owned());
    }
    let entry = fs::read_dir(place)?.next().context("an empty archive")?;
    Ok(entry?.path())
}
