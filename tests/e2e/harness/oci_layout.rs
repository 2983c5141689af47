//! Images as OCI layouts: directories with the blobs of one image. skopeo copies them to and from
//! registries on loopback.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::process::Command;

use super::rendered::said;

/// A directory with one image.
pub(crate) struct OciLayout(PathBuf);

impl OciLayout {
    /// Returns the layout in a directory.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// Pulls the image with this reference into a new directory. Of an image for several
    /// architectures, it is the one for this machine.
    pub(crate) async fn pull(reference: &str, directory: PathBuf) -> Result<Self> {
        copy(&format!("docker://{reference}"), &format!("oci:{}", directory.display())).await?;
        Ok(Self(directory))
    }

    /// Pushes the image under this reference.
    pub(crate) async fn push(&self, reference: &str) -> Result<()> {
        copy(&format!("oci:{}", self.0.display()), &format!("docker://{reference}")).await
    }

    /// Returns the digest of the image.
    pub(crate) fn digest(&self) -> Result<String> {
        text(&read(&self.0.join("index.json"))?["manifests"][0]["digest"])
    }

    /// Returns the file of a blob, which a manifest describes.
    pub(crate) fn blob(&self, descriptor: &Value) -> Result<PathBuf> {
        self.file(&text(&descriptor["digest"])?)
    }

    /// Returns the manifest of the image.
    pub(crate) fn manifest(&self) -> Result<Value> {
        read(&self.file(&self.digest()?)?)
    }

    /// Returns the configuration of the image.
    pub(crate) fn config(&self) -> Result<Value> {
        let mut config = read(&self.blob(&self.manifest()?["config"])?)?;
        Ok(config["config"].take())
    }

    fn file(&self, digest: &str) -> Result<PathBuf> {
        let digest = digest.strip_prefix("sha256:").context("a SHA-256 digest")?;
        Ok(self.0.join("blobs/sha256").join(digest))
    }
}

fn read(file: &Path) -> Result<Value> {
    let content = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    serde_json::from_slice(&content).with_context(|| format!("reading {}", file.display()))
}

fn text(value: &Value) -> Result<String> {
    Ok(value.as_str().context("an OCI layout with one image")?.to_owned())
}

/// Copies an image, with the same digest, without the settings and logins of the user who runs the
/// tests.
async fn copy(from: &str, to: &str) -> Result<()> {
    let mut command = Command::new("skopeo");
    command
        .args(["--insecure-policy", "copy", "--quiet", "--preserve-digests"])
        .args(["--src-no-creds", "--src-tls-verify=false"])
        .args(["--dest-no-creds", "--dest-tls-verify=false"])
        .args([from, to]);
    said(&mut command).await?;
    Ok(())
}
