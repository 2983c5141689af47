//! Signatures: cosign and the program verify what is unchanged. No changed byte is accepted.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use super::{render, without_cluster};
use crate::harness::cosign::{Cosign, signature};
use crate::harness::helm::Helm;
use crate::harness::oci_layout::OciLayout;
use crate::harness::published_hook::PublishedHook;
use crate::harness::registry::Registry;
use crate::harness::rendered::said;
use crate::harness::repository::gpu_rollout;

/// The list that a bundle's signature is for.
const CHECKSUMS: &str = "checksums.txt";
/// Manifest, configuration and layer of image and chart; manifest and content of both signatures.
const CHECKED_BLOBS: usize = 10;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn changed_byte_fails_both_verifications() -> Result<()> {
    without_cluster("released-signatures", async |directory| {
        let signer = Cosign::generate(directory, "cosign").await?;
        let stranger = Cosign::generate(directory, "stranger").await?;
        in_bundle(directory, &signer, &stranger).await?;
        in_registry(directory, &signer, &stranger).await
    })
    .await
}

async fn in_bundle(directory: &Path, signer: &Cosign, stranger: &Cosign) -> Result<()> {
    let bundle = directory.join("bundle");
    render("helm", &bundle, &[]).await?;
    let checksums = bundle.join(CHECKSUMS);
    signer.sign_blob(&checksums).await?;
    let verify = async |signer: &Cosign| -> Result<()> {
        let mut command = Command::new(gpu_rollout()?);
        command.args(["bundle", "verify"]).arg(&bundle).arg("--key").arg(signer.public_key());
        said(&mut command).await.map(drop)
    };
    signer.verify_blob(&checksums).await?;
    verify(signer).await?;
    ensure!(stranger.verify_blob(&checksums).await.is_err(), "cosign accepts another key");
    ensure!(verify(stranger).await.is_err(), "`bundle verify` accepts another key");

    for (file, place, is_signed) in [
        // The signature is only for the list, which names the digest of this file.
        (bundle.join("README.md"), "# ", false),
        (checksums.clone(), "", true),
        (signature(&checksums), "\"signature\":\"", true),
    ] {
        let change = Change::behind(&file, place)?;
        let name = file.display();
        ensure!(verify(signer).await.is_err(), "`bundle verify` accepts a changed {name}");
        let is_refused = signer.verify_blob(&checksums).await.is_err();
        ensure!(is_refused == is_signed, "cosign refuses a changed {name}: {is_refused}");
        change.undo()?;
    }
    signer.verify_blob(&checksums).await?;
    verify(signer).await
}

async fn in_registry(directory: &Path, signer: &Cosign, stranger: &Cosign) -> Result<()> {
    let registry = Registry::start(directory).await?;
    let place = directory.join("publisher");
    let hook = PublishedHook::publish(&registry, &helm(&place)?).await?;
    signer.sign(&hook.image).await?;
    signer.sign(&hook.chart).await?;
    ensure!(stranger.verify(&hook.image).await.is_err(), "cosign accepts another key");
    installs(directory, signer, &hook).await?;

    let mut checked = 0;
    for blob in registry.blobs()? {
        let change = Change::in_the_middle(&blob)?;
        if installs(directory, signer, &hook).await.is_err() {
            checked += 1;
        } else {
            ensure!(change.is_unused(), "a changed {} is accepted", blob.display());
        }
        change.undo()?;
    }
    ensure!(checked >= CHECKED_BLOBS, "only {checked} blobs are checked");
    installs(directory, signer, &hook).await
}

/// Verifies and pulls image and chart, as a new user does: without anything in a cache.
async fn installs(directory: &Path, signer: &Cosign, hook: &PublishedHook) -> Result<()> {
    let place = TempDir::with_prefix_in("user-", directory)?;
    signer.verify(&hook.image).await?;
    OciLayout::pull(&hook.image, place.path().join("image")).await?;
    signer.verify(&hook.chart).await?;
    let chart = format!("oci://{}", hook.chart);
    helm(&place.path().join("helm"))?.ok(&["pull", &chart, "--plain-http"]).await?;
    Ok(())
}

/// Returns Helm without a cluster.
fn helm(home: &Path) -> Result<Helm> {
    fs::create_dir(home)?;
    Helm::new(home, &home.join("no-kubeconfig"))
}

/// A file with a changed byte.
struct Change {
    file: PathBuf,
    original: Vec<u8>,
}

impl Change {
    /// Changes the byte behind the first occurrence of a text.
    fn behind(file: &Path, text: &str) -> Result<Self> {
        let content = fs::read_to_string(file)?;
        let place = content.find(text).with_context(|| format!("no {text} in {content}"))?;
        Self::at(file, place + text.len())
    }

    fn in_the_middle(file: &Path) -> Result<Self> {
        let middle = fs::metadata(file)?.len() / 2;
        Self::at(file, usize::try_from(middle)?)
    }

    fn at(file: &Path, place: usize) -> Result<Self> {
        let original = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        let mut content = original.clone();
        let byte = content.get_mut(place).context("a byte to change")?;
        // Text stays text, so that no parser refuses it for another reason.
        *byte = if *byte == b'0' { b'1' } else { b'0' };
        fs::write(file, content)?;
        Ok(Self { file: file.to_owned(), original })
    }

    fn undo(self) -> Result<()> {
        Ok(fs::write(self.file, self.original)?)
    }

    /// Whether the blob is one that a changed byte may not harm. From the list of signatures, cosign
    /// takes only digests, and it does not read the empty configuration of a signature.
    fn is_unused(&self) -> bool {
        let list = "application/vnd.oci.image.index.v1+json";
        let manifest = serde_json::from_slice::<Value>(&self.original);
        self.original == b"{}" || manifest.is_ok_and(|manifest| manifest["mediaType"] == list)
    }
}
