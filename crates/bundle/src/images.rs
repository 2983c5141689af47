//! Finds the images that the releases of a bundle on disk pull, with edited values.

use std::path::Path;

use serde_json::{Map, Value};

use super::directory::BundleDirectory;
use super::error::BundleError;
use super::info::ReleaseInfo;
use deployer::layout::{CHART, SETTINGS, VALUES};
use release::images::{ImageList, LocatedImage, of_chart, of_object};
use release::values::over;

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
            "manifests" if bundle.kind(&values).is_some() => {
                let values: Map<String, Value> = bundle.yaml(&values)?;
                let objects = values.get("objects").and_then(Value::as_array).into_iter().flatten();
                found.images.extend(objects.flat_map(|object| {
                    of_object(&release.name, release.component.as_deref(), object)
                }));
            }
            "hook" => found.images.push(hook(release, &bundle)?),
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the image for each of `systems`, if it is built for an operating system, which is then a
/// suffix of the tag. Without `systems`, the image stays unchanged.
pub fn for_nodes(
    image: LocatedImage,
    systems: &[String],
    architectures: &[String],
) -> Vec<LocatedImage> {
    let Some(suffix) = image.suffix.clone().filter(|_| !systems.is_empty()) else {
        return vec![image];
    };
    let mut images = Vec::new();
    for system in systems {
        for architecture in architectures {
            let end = suffix.replace("{os}", system).replace("{architecture}", architecture);
            let tag = image.tag.as_deref().map(|tag| format!("{tag}{end}"));
            let for_node = LocatedImage { tag, suffix: None, ..image.clone() };
            if !images.contains(&for_node) {
                images.push(for_node);
            }
        }
    }
    images
}

/// Returns the image of a hook: the release's settings over those of the chart.
fn hook(release: &ReleaseInfo, bundle: &BundleDirectory) -> Result<LocatedImage, BundleError> {
    let path = |file: &str| format!("{}/{file}", release.folder);
    let chart: Map<String, Value> = bundle.yaml(&path(CHART))?;
    let values = over(&bundle.yaml(&path(VALUES))?, &bundle.yaml(&path(SETTINGS))?);
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
