//! Every image that the releases of a bundle on disk pull, as it stands there: edits of values count.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use super::info::{BundleInfo, INFO, ReleaseInfo};
use deployer::layout::{CHART, SETTINGS, VALUES};
use release::images::{ChartImages, LocatedImage, of_chart, of_object};
use release::values::over;

/// The images of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleImages {
    /// In the order of the releases.
    pub images: Vec<LocatedImage>,
    /// Charts whose images are not known, because the catalog does not have their default values: a sentence each.
    pub unknown: Vec<String>,
}

/// Why the images of a bundle cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// A file cannot be read.
    #[error("unable to read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not as bundles have it.
    #[error("`{}` is not as a bundle has it: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// The images of the bundle in `directory`.
///
/// # Errors
/// It is no bundle, or a file of it cannot be read.
pub fn images(directory: &Path) -> Result<BundleImages, ImagesError> {
    let info: BundleInfo = read(&directory.join(INFO))?;
    let mut found = BundleImages::default();
    for release in &info.releases {
        let folder = directory.join(&release.folder);
        match release.kind.as_str() {
            "upstream" => found.chart(release, &read(&folder.join(VALUES))?),
            "manifests" if folder.join(VALUES).exists() => found.objects(release, &read(&folder.join(VALUES))?),
            "hook" => found.images.push(hook(release, &folder)?),
            _ => {}
        }
    }
    Ok(found)
}

impl BundleImages {
    fn chart(&mut self, release: &ReleaseInfo, values: &Map<String, Value>) {
        let ChartImages { images, unknown } = of_chart(&release.name, release.version.as_deref().unwrap_or_default(), values);
        self.images.extend(images);
        self.unknown.extend(unknown);
    }

    fn objects(&mut self, release: &ReleaseInfo, values: &Map<String, Value>) {
        for object in values.get("objects").and_then(Value::as_array).into_iter().flatten() {
            self.images.extend(of_object(&release.name, release.component.as_deref(), object));
        }
    }
}

/// The image of a hook: the chart's, with the release's own settings on top.
fn hook(release: &ReleaseInfo, folder: &Path) -> Result<LocatedImage, ImagesError> {
    let chart: Map<String, Value> = read(&folder.join(CHART))?;
    let values = over(&read(&folder.join(VALUES))?, &read(&folder.join(SETTINGS))?);
    let place = "rollout.image".to_owned();
    let image = values.get("rollout").and_then(|rollout| rollout.get("image"));
    let text = |key: &str| image?.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let version = chart.get("appVersion").and_then(Value::as_str).map(str::to_owned);
    let digest = text("digest");
    let tag = text("tag").or_else(|| if digest.is_none() { version } else { None });
    let repository = text("repository").unwrap_or_default();
    Ok(LocatedImage { release: release.name.clone(), place, repository, tag, digest, suffix: None, enabled: true })
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ImagesError> {
    let text = fs::read_to_string(path).map_err(|source| ImagesError::Read { path: path.to_owned(), source })?;
    yaml::from_str(&text).map_err(|error| ImagesError::File { path: path.to_owned(), reason: error.to_string() })
}
