//! Where the charts and images of a bundle come from, if no option of `bundle render` replaces
//! their repositories and registries.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use serde_json::json;

use super::error::AirGapError;
use crate::images::HOOK_IMAGE;
use crate::info::BundleInfo;
use crate::read::recipe_path;
use catalog::hook_chart;
use recipe::load::load;
use recipe::read::FileSystemReader;
use release::hook_image::HookImage;
use release::images::{LocatedImage, of_chart, of_object, of_template};
use release::{EmbeddedCatalog, PlanOptions, Release, ReleaseKind, ReleasePlan, acceptance};

/// Plans the recipe in a bundle, without mirrors.
///
/// # Errors
/// The recipe cannot be read or planned.
pub(super) fn plan(directory: &Path, info: &BundleInfo) -> Result<ReleasePlan, AirGapError> {
    let path = recipe_path(directory)?.display().to_string();
    let recipe = load(&path, &[], &mut FileSystemReader).map_err(|findings| {
        AirGapError::Origin(format!("`{path}` cannot be used: {}", findings.summary()))
    })?;
    let hook_image = match &info.hook_image {
        None => None,
        Some(text) => Some(text.parse::<HookImage>().map_err(|error| origin_error(&error))?),
    };
    let options = PlanOptions { hook_image, ..PlanOptions::default() };
    release::plan(&recipe.recipe, &EmbeddedCatalog, &options).map_err(|error| origin_error(&error))
}

fn origin_error(error: &impl ToString) -> AirGapError {
    AirGapError::Origin(error.to_string())
}

/// Returns the images of a bundle as `plan` names them, in the same order.
///
/// # Errors
/// The plan does not have an image of the bundle.
pub(super) fn sources(
    images: &[LocatedImage],
    plan: &ReleasePlan,
) -> Result<Vec<LocatedImage>, AirGapError> {
    // A template may name several images, so its images keep their order.
    let mut planned: BTreeMap<(String, String), VecDeque<String>> = BTreeMap::new();
    for image in plan.releases.iter().flat_map(planned_images) {
        planned.entry((image.release, image.place)).or_default().push_back(image.repository);
    }
    let source = |image: &LocatedImage| {
        let place = (image.release.clone(), image.place.clone());
        match planned.get_mut(&place).and_then(VecDeque::pop_front) {
            Some(repository) => Ok(LocatedImage { repository, ..image.clone() }),
            None => Err(AirGapError::Origin(format!(
                "its recipe does not have the image `{}` of {}",
                image.place, image.release
            ))),
        }
    };
    images.iter().map(source).collect()
}

/// Returns the images of a planned release.
fn planned_images(release: &Release) -> Vec<LocatedImage> {
    let name = &release.name;
    match &release.kind {
        ReleaseKind::Upstream(upstream) => {
            of_chart(name, &upstream.version, &upstream.values).images
        }
        ReleaseKind::Manifests(manifests) => {
            let component = manifests.component.as_deref();
            let objects = manifests.objects.iter();
            objects.flat_map(|object| of_object(name, component, object)).collect()
        }
        ReleaseKind::Templates(templates) => {
            let files = templates.files.iter();
            files.flat_map(|(file, text)| of_template(name, file, text).images).collect()
        }
        ReleaseKind::Hook(hook) => {
            let repository = hook.image_repository().unwrap_or(hook_chart::image_repository());
            let own = LocatedImage {
                release: name.clone(),
                place: HOOK_IMAGE.to_owned(),
                repository: repository.to_owned(),
                // Mirrors change only repositories.
                tag: None,
                digest: None,
                suffix: None,
                enabled: true,
            };
            let values = [("rollout".to_owned(), json!(hook.settings))].into_iter().collect();
            std::iter::once(own).chain(acceptance::images(name, &values)).collect()
        }
        ReleaseKind::Crds(_) | ReleaseKind::Kustomization(_) => Vec::new(),
    }
}
