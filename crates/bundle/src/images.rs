//! Finds the images that the releases of a bundle on disk pull, with edited values.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::error::BundleError;
use super::info::{BundleInfo, INFO, ReleaseInfo};
use deployer::layout::{CHART, FILES, SETTINGS, VALUES};
use release::images::{ImageList, LocatedImage, of_chart, of_object, of_template};
use release::values::over;

/// Returns the images of the bundle in `directory`.
///
/// # Errors
/// The directory is not a bundle, or a file cannot be read.
pub fn images(directory: &Path) -> Result<ImageList, BundleError> {
    let info: BundleInfo = read(&directory.join(INFO))?;
    let mut found = ImageList::default();
    for release in &info.releases {
        let folder = directory.join(&release.folder);
        match release.kind.as_str() {
            "upstream" => {
                let version = release.version.as_deref().unwrap_or_default();
                let ImageList { images, unknown } =
                    of_chart(&release.name, version, &read(&folder.join(VALUES))?);
                found.images.extend(images);
                found.unknown.extend(unknown);
            }
            "manifests" if folder.join(FILES).is_dir() => {
                for (name, text) in templates(&folder.join(FILES))? {
                    let ImageList { images, unknown } = of_template(&release.name, &name, &text);
                    found.images.extend(images);
                    found.unknown.extend(unknown);
                }
            }
            "manifests" if folder.join(VALUES).exists() => {
                let values: Map<String, Value> = read(&folder.join(VALUES))?;
                let objects = values.get("objects").and_then(Value::as_array).into_iter().flatten();
                found.images.extend(objects.flat_map(|object| {
                    of_object(&release.name, release.component.as_deref(), object)
                }));
            }
            "hook" => found.images.push(hook(release, &folder)?),
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the texts of the recipe's own templates in a folder, by name.
fn templates(folder: &Path) -> Result<Vec<(String, String)>, BundleError> {
    let error = |source| BundleError::read(folder, source);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        let text = fs::read_to_string(entry.path());
        let text = text.map_err(|source| BundleError::read(&entry.path(), source))?;
        found.push((entry.file_name().to_string_lossy().into_owned(), text));
    }
    found.sort();
    Ok(found)
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

/// Returns the image of a hook: the release's settings over those of the chart.
fn hook(release: &ReleaseInfo, folder: &Path) -> Result<LocatedImage, BundleError> {
    let chart: Map<String, Value> = read(&folder.join(CHART))?;
    let values = over(&read(&folder.join(VALUES))?, &read(&folder.join(SETTINGS))?);
    let place = "rollout.image".to_owned();
    let image = values.get("rollout").and_then(|rollout| rollout.get("image"));
    let text = |key: &str| {
        image?.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let version = chart.get("appVersion").and_then(Value::as_str).map(str::to_owned);
    let digest = text("digest");
    let tag = text("tag").or_else(|| if digest.is_none() { version } else { None });
    let repository = text("repository").unwrap_or_default();
    Ok(LocatedImage {
        release: release.name.clone(),
        place,
        repository,
        tag,
        digest,
        suffix: None,
        enabled: true,
    })
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, BundleError> {
    let text = fs::read_to_string(path).map_err(|source| BundleError::read(path, source))?;
    yaml::from_str(&text).map_err(|error| BundleError::file(path, &error))
}
