//! The images that a node pulls from registries on loopback.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::Mutex;

use super::{Content, Image, find};
use crate::harness::node_agent::specification::Refusal;
use crate::harness::oci_layout::OciLayout;
use crate::harness::rendered::said;

/// The images of one node, by reference. A new node has none.
#[derive(Default)]
pub(in crate::harness::node_agent) struct PulledImages(Mutex<HashMap<String, Image>>);

impl PulledImages {
    /// Returns an image. Pulls it into `directory`, unless the node has it. Pulls wait for each
    /// other, as in a kubelet.
    pub(in crate::harness::node_agent) async fn get(
        &self,
        directory: &Path,
        reference: &str,
    ) -> Result<Image, Refusal> {
        if let Some(image) = find(reference) {
            return Ok(image);
        }
        let mut pulled = self.0.lock().await;
        if let Some(image) = pulled.get(reference) {
            return Ok(image.clone());
        }
        let image = pull(directory, reference).await.map_err(|error| Refusal {
            reason: "ErrImagePull",
            message: format!("failed to pull and unpack image \"{reference}\": {error:#}"),
        })?;
        pulled.insert(reference.to_owned(), image.clone());
        Ok(image)
    }
}

/// Pulls an image and unpacks its layers. A layer that deletes files of another one is not
/// supported.
async fn pull(directory: &Path, reference: &str) -> Result<Image> {
    let is_loopback = ["127.0.0.1:", "localhost:"].iter().any(|host| reference.starts_with(host));
    ensure!(is_loopback, "not found");
    let place = TempDir::with_prefix_in("image-", directory)?;
    let layout = OciLayout::pull(reference, place.path().join("oci")).await?;
    let root = place.path().join("rootfs");
    fs::create_dir(&root)?;
    for layer in layout.manifest()?["layers"].as_array().context("a manifest without layers")? {
        let mut command = Command::new("tar");
        command.args(["--extract", "--no-same-owner", "--file"]).arg(layout.blob(layer)?);
        said(command.arg("--directory").arg(&root)).await?;
    }
    let config = layout.config()?;
    let environment = texts(&config["Env"]);
    let environment = environment.iter().filter_map(|variable| variable.split_once('='));
    let image = Image {
        content: Content::Root(root),
        entrypoint: texts(&config["Entrypoint"]),
        arguments: texts(&config["Cmd"]),
        environment: environment.map(|(name, value)| (name.into(), value.into())).collect(),
        user: user(&config)?,
    };
    // The directory is removed together with that of the run.
    _ = place.keep();
    Ok(image)
}

/// Returns a list of texts; `null` is an empty one.
fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the user of the image. A kubelet cannot check that a user with a name is not root.
fn user(config: &Value) -> Result<i64> {
    let user = config["User"].as_str().unwrap_or_default();
    let user = user.split(':').next().filter(|user| !user.is_empty()).unwrap_or("0");
    user.parse().with_context(|| format!("the user of the image is not a number: {user}"))
}
