//! The hook as it is published: its image and its chart in a registry. The chart names the image by
//! its digest, so users need no further settings.

use std::fs;

use anyhow::{Context, Result};
use tokio::process::Command;

use super::helm::Helm;
use super::registry::Registry;
use super::rendered::said;
use super::repository::repository;

/// The version of program, image and chart.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// References with digests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PublishedHook {
    /// The image.
    pub(crate) image: String,
    /// The chart.
    pub(crate) chart: String,
}

impl PublishedHook {
    /// Publishes the chart of this checkout with the image that the scenarios run. It uses the same
    /// scripts as a release.
    pub(crate) async fn publish(registry: &Registry, helm: &Helm) -> Result<Self> {
        let image = registry.push_hook_image().await?;
        let (name, digest) = image.split_once('@').context("a reference with a digest")?;
        let place = helm.directory().join("published-chart");
        fs::create_dir(&place)?;
        said(Command::new("cp").arg("-R").arg(repository("charts/gpu-rollout")).arg(&place))
            .await?;
        let chart = place.join("gpu-rollout");
        let mut stamp = Command::new(repository("scripts/release/stamp.sh"));
        said(stamp.arg(&chart).args([name, digest])).await?;
        let archive = place.join(format!("gpu-rollout-{VERSION}.tgz"));
        let mut pack = Command::new(repository("scripts/release/pack.sh"));
        said(pack.arg(&archive).arg(&chart).env("SOURCE_DATE_EPOCH", "0")).await?;
        let archive = archive.display().to_string();
        let pushed = helm.ok(&["push", &archive, &registry.url("charts"), "--plain-http"]).await?;
        let output = pushed.stdout + &pushed.stderr;
        let digest = output.lines().find_map(|line| line.strip_prefix("Digest: "));
        let digest = digest.with_context(|| format!("no digest: {output}"))?;
        let chart = format!("{}/charts/gpu-rollout@{digest}", registry.address());
        Ok(Self { image, chart })
    }

    /// Returns the URL of the chart, without a version.
    pub(crate) fn chart_url(&self) -> String {
        format!("oci://{}", self.chart.split('@').next().unwrap_or_default())
    }
}
