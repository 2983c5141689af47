//! Finds the images that the releases of a bundle on disk pull, with edited values.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::directory::{BundleDirectory, EntryKind};
use super::error::BundleError;
use super::info::ReleaseInfo;
use contract::visible;
use deployer::layout::{CHART, FILES, SETTINGS, VALUES};
use release::acceptance;
use release::images::{ImageList, LocatedImage, of_chart, of_object, of_template};
use release::values::over;

/// The place of the hook's own image in its values.
pub(super) const HOOK_IMAGE: &str = "rollout.image";

/// Returns the images of the bundle in `directory`.
///
/// # Errors
/// The directory is not a bundle, or a file cannot be read.
pub fn images(directory: &Path) -> Result<ImageList, BundleError> {
    let bundle = BundleDirectory::open(directory)?;
    let mut found = ImageList::default();
    for release in &bundle.info()?.releases {
        let values = format!("{}/{VALUES}", release.folder);
        match release.kind.as_str() {
            "upstream" => {
                let version = release.version.as_deref().unwrap_or_default();
                let ImageList { images, unknown } =
                    of_chart(&release.name, version, &bundle.yaml(&values)?);
                found.images.extend(images);
                found.unknown.extend(unknown);
            }
            "manifests"
                if bundle.kind(&format!("{}/{FILES}", release.folder))
                    == Some(EntryKind::Directory) =>
            {
                for (name, text) in templates(&bundle, &format!("{}/{FILES}/", release.folder))? {
                    let ImageList { images, unknown } = of_template(&release.name, &name, &text);
                    found.images.extend(images);
                    found.unknown.extend(unknown);
                }
            }
            "manifests" if bundle.kind(&values).is_some() => {
                let values: Map<String, Value> = bundle.yaml(&values)?;
                let objects = values.get("objects").and_then(Value::as_array).into_iter().flatten();
                found.images.extend(objects.flat_map(|object| {
                    of_object(&release.name, release.component.as_deref(), object)
                }));
            }
            "kustomization" => found.unknown.push(format!(
                "{}: a kustomization, and its Git repository is not read",
                release.name
            )),
            "hook" => found.images.extend(hook(release, &bundle)?),
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the texts of the recipe's own templates in a folder, by name.
fn templates(bundle: &BundleDirectory, folder: &str) -> Result<Vec<(String, String)>, BundleError> {
    let names = bundle.files().filter_map(|path| Some((path, path.strip_prefix(folder)?)));
    let text = |(path, name): (&String, &str)| {
        Ok((name.to_owned(), String::from_utf8_lossy(&bundle.read(path)?).into_owned()))
    };
    names.map(text).collect()
}

/// Some images are built for nodes of a kind that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "some images are built for the operating system or the kernel of the nodes, which the bundle does not know"
)]
pub struct UnknownNodes;

impl UnknownNodes {
    /// Returns a hint for the user.
    pub fn hint(self) -> &'static str {
        "pass each operating system with --node-os (`ubuntu22.04` for Ubuntu 22.04), and each kernel with --node-kernel if drivers are precompiled; `kubectl get nodes -o wide` shows both"
    }
}

/// Returns one reference per line, sorted and each once, for tools that mirror images.
///
/// # Errors
/// A reference depends on the node.
pub fn list(images: &[LocatedImage]) -> Result<String, UnknownNodes> {
    if images.iter().any(|image| image.suffix.is_some()) {
        return Err(UnknownNodes);
    }
    let references: BTreeSet<String> = images.iter().map(LocatedImage::reference).collect();
    // A line feed in a value must not add an image to the list.
    let lines = references.iter().map(|reference| visible::line(reference));
    Ok(lines.fold(String::new(), |text, line| text + &line + "\n"))
}

/// The kinds of nodes for which some images are built.
#[derive(Clone, Debug, Default)]
pub struct NodeKinds {
    /// Operating systems, such as `ubuntu22.04`.
    pub systems: Vec<String>,
    /// Architectures, such as `amd64`.
    pub architectures: Vec<String>,
    /// Versions of the kernel, such as `5.15.0-105-generic`.
    pub kernels: Vec<String>,
}

impl NodeKinds {
    /// Returns the image for each kind of node, which is a suffix of the tag. The suffix keeps the
    /// placeholders of what is not known of the nodes.
    pub fn images(&self, image: LocatedImage) -> Vec<LocatedImage> {
        let Some(suffix) = image.suffix.clone() else { return vec![image] };
        let mut ends = vec![suffix];
        for (placeholder, values) in [
            ("{kernel}", &self.kernels),
            ("{os}", &self.systems),
            ("{architecture}", &self.architectures),
        ] {
            ends = ends.iter().flat_map(|end| filled(end, placeholder, values)).collect();
        }
        let for_node = |end: String| {
            if end.contains('{') {
                return LocatedImage { suffix: Some(end), ..image.clone() };
            }
            let tag = image.tag.as_deref().map(|tag| format!("{tag}{end}"));
            LocatedImage { tag, suffix: None, ..image.clone() }
        };
        ends.into_iter().map(for_node).collect()
    }
}

/// Returns the text with each of the values at the placeholder, or unchanged without values.
fn filled(text: &str, placeholder: &str, values: &[String]) -> Vec<String> {
    if values.is_empty() || !text.contains(placeholder) {
        return vec![text.to_owned()];
    }
    values.iter().map(|value| text.replace(placeholder, value)).collect()
}

/// Returns the image of a hook, and those of its acceptance tests: the release's settings over those
/// of the chart.
fn hook(release: &ReleaseInfo, bundle: &BundleDirectory) -> Result<Vec<LocatedImage>, BundleError> {
    let path = |file: &str| format!("{}/{file}", release.folder);
    let chart: Map<String, Value> = bundle.yaml(&path(CHART))?;
    let values = over(&bundle.yaml(&path(VALUES))?, &bundle.yaml(&path(SETTINGS))?);
    let image = values.get("rollout").and_then(|rollout| rollout.get("image"));
    let text = |key: &str| {
        image?.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let version = chart.get("appVersion").and_then(Value::as_str).map(str::to_owned);
    let digest = text("digest");
    let tag = text("tag").or_else(|| if digest.is_none() { version } else { None });
    let repository = text("repository").unwrap_or_default();
    let own = LocatedImage {
        release: release.name.clone(),
        place: HOOK_IMAGE.to_owned(),
        repository,
        tag,
        digest,
        suffix: None,
        enabled: true,
    };
    Ok(std::iter::once(own).chain(acceptance::images(&release.name, &values)).collect())
}
