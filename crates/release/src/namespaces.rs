//! The release that owns the namespaces, so that they exist with their Pod Security labels before
//! any other object.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::chosen::ChosenComponent;
use super::crds::KEEP;
use super::mode;
use super::model::{ManifestsRelease, Release, ReleaseKind};
use super::time::LOCAL_TIMEOUT_SECONDS;
use catalog::model::PodSecurity;
use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::driver::Driver;
use contract::names::GPU_OPERATOR;
use recipe::model::Recipe;

/// The release's name.
pub const RELEASE: &str = "gpu-rollout-namespaces";
/// The namespace of the release itself, which every cluster has.
pub const HOME: &str = "default";
/// Kubernetes' own namespaces.
const OF_KUBERNETES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Returns the namespaces of the components, and that of acceptance tests if a hook runs any, each
/// with its level. Of components in one namespace, the one with the fewest restrictions decides.
pub(super) fn levels(
    recipe: &Recipe,
    chosen: &[ChosenComponent<'_>],
) -> BTreeMap<String, PodSecurity> {
    let mut levels = BTreeMap::new();
    for choice in chosen {
        let level = levels.entry(choice.namespace.to_owned()).or_insert(choice.known.pod_security);
        *level = (*level).max(choice.known.pod_security);
    }
    let rollout = &recipe.rollout;
    let operator = chosen.iter().find(|choice| choice.name() == GPU_OPERATOR);
    let values = operator.map(|operator| &operator.values);
    let mode = mode::in_force(rollout, Driver::Gpu, values, None);
    if mode.decides() && !rollout.acceptance.is_empty() {
        levels.insert(ACCEPTANCE_NAMESPACE.to_owned(), rollout.acceptance_pod_security.into());
    }
    levels
}

/// Returns the release for the namespaces with their required levels; `None` if all are Kubernetes'
/// own.
pub(super) fn release(levels: &BTreeMap<String, PodSecurity>) -> Option<Release> {
    let objects: Vec<Value> = levels
        .iter()
        .filter(|(name, _)| !OF_KUBERNETES.contains(&name.as_str()))
        .map(|(name, level)| namespace(name, *level))
        .collect();
    if objects.is_empty() {
        return None;
    }
    Some(Release {
        name: RELEASE.to_owned(),
        namespace: HOME.to_owned(),
        needs: Vec::new(),
        timeout_seconds: LOCAL_TIMEOUT_SECONDS,
        kind: ReleaseKind::Manifests(ManifestsRelease {
            description: "Namespaces of the GPU stack, with their Pod Security levels".to_owned(),
            component: None,
            objects,
            shared: false,
        }),
    })
}

fn namespace(name: &str, level: PodSecurity) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {
                "pod-security.kubernetes.io/enforce": level,
                "pod-security.kubernetes.io/audit": level,
                "pod-security.kubernetes.io/warn": level,
            },
            "annotations": KEEP.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect::<Map<_, _>>(),
        },
    })
}
