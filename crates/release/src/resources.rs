//! The release of a component's custom resources, which its operator reads and its chart does not
//! create.

use serde_json::{Map, Value, json};

use super::chosen::ChosenComponent;
use super::crds::KEEP;
use super::error::PlanError;
use super::model::{ManifestsRelease, Release, ReleaseKind};
use super::time::LOCAL_TIMEOUT_SECONDS;
use super::values;
use recipe::model::RecipeRollout;

/// Suffix of the release's name.
pub const SUFFIX: &str = "-resources";

/// Returns the release, if the recipe has custom resources for the component.
///
/// # Errors
/// The component does not have the kind, or a setting is set twice.
pub(super) fn release(
    choice: &ChosenComponent<'_>,
    rollout: &RecipeRollout,
) -> Result<Option<Release>, PlanError> {
    let (component, asked) = (choice.name(), choice.asked);
    let known = &choice.known.closest_version(choice.version).custom_resources;
    let mut objects = Vec::new();
    for (kind, spec) in &asked.custom_resources {
        let resource = known.iter().find(|resource| resource.kind == *kind).ok_or_else(|| {
            PlanError::UnknownKind {
                component: component.to_owned(),
                version: choice.version.to_owned(),
                kind: kind.clone(),
            }
        })?;
        let spec = spec.as_object().ok_or_else(|| {
            PlanError::value(
                component,
                format!("customResources.{kind}"),
                "expected a map, the resource's `spec`",
            )
        })?;
        objects.push(json!({
            "apiVersion": resource.api_version,
            "kind": kind,
            "metadata": {
                "name": resource.name,
                "annotations": KEEP.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect::<Map<_, _>>(),
            },
            "spec": values::spec(asked, kind, spec, rollout)?,
        }));
    }
    if objects.is_empty() {
        return Ok(None);
    }
    let kinds: Vec<&str> = asked.custom_resources.keys().map(String::as_str).collect();
    Ok(Some(Release {
        name: format!("{component}{SUFFIX}"),
        namespace: choice.namespace.to_owned(),
        needs: vec![component.to_owned()],
        timeout_seconds: LOCAL_TIMEOUT_SECONDS,
        kind: ReleaseKind::Manifests(ManifestsRelease {
            description: format!("{} of {component} {}", kinds.join(", "), choice.version),
            component: Some(component.to_owned()),
            objects,
            shared: true,
        }),
    }))
}

/// Returns the spec of the custom resource with the driver's policy, as in the release.
pub(super) fn policy(release: &Release) -> Option<&Map<String, Value>> {
    let ReleaseKind::Manifests(manifests) = &release.kind else { return None };
    manifests
        .objects
        .iter()
        .filter_map(|object| object["spec"].as_object())
        .find(|spec| spec.contains_key("ofedDriver"))
}
