//! Other minor versions of Kubernetes than the one that everything else runs on: an install, an upgrade, nothing at all, a hook that fails.

use anyhow::Result;

use super::short::short_on;
use crate::harness::deployers::Kind;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn kubernetes_1_32_with_helm() -> Result<()> {
    short_on(Some("1.32"), Kind::Helm4).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn kubernetes_1_32_with_flux() -> Result<()> {
    short_on(Some("1.32"), Kind::Flux).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn kubernetes_1_33_with_helm() -> Result<()> {
    short_on(Some("1.33"), Kind::Helm4).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn kubernetes_1_33_with_flux() -> Result<()> {
    short_on(Some("1.33"), Kind::Flux).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn kubernetes_1_35_with_helm() -> Result<()> {
    short_on(Some("1.35"), Kind::Helm4).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn kubernetes_1_35_with_flux() -> Result<()> {
    short_on(Some("1.35"), Kind::Flux).await
}
