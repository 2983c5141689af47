//! Reads state files strictly, like helmfile. Knows only the keys that bundles use.

use bundle::BundleTree;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct State {
    #[serde(default)]
    pub(crate) helmfiles: Vec<Earlier>,
    #[serde(default)]
    pub(crate) repositories: Vec<Repository>,
    pub(crate) helm_defaults: Defaults,
    pub(crate) releases: Vec<Release>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Earlier {
    pub(crate) path: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repository {
    pub(crate) name: String,
    pub(crate) url: String,
    #[serde(default)]
    #[expect(dead_code, reason = "known, and nothing here depends on it")]
    pub(crate) oci: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the keys of helmfile's format")]
pub(crate) struct Defaults {
    pub(crate) wait: bool,
    pub(crate) atomic: bool,
    pub(crate) cleanup_on_fail: bool,
    pub(crate) create_namespace: bool,
    #[expect(dead_code, reason = "known, and nothing here depends on it")]
    pub(crate) history_max: u32,
    #[serde(default, rename = "skipCRDs")]
    pub(crate) skip_crds: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the keys of helmfile's format")]
pub(crate) struct Release {
    pub(crate) name: String,
    pub(crate) namespace: String,
    #[expect(dead_code, reason = "known, and nothing here depends on it")]
    pub(crate) labels: std::collections::BTreeMap<String, String>,
    pub(crate) chart: String,
    pub(crate) version: Option<String>,
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    pub(crate) timeout: u64,
    #[serde(default)]
    pub(crate) take_ownership: bool,
    #[serde(default)]
    #[expect(dead_code, reason = "known, and nothing here depends on it")]
    pub(crate) skip_deps: bool,
    #[serde(default)]
    pub(crate) disable_validation: bool,
    #[serde(default)]
    pub(crate) disable_validation_on_install: bool,
    #[serde(default)]
    pub(crate) values: Vec<String>,
}

impl Release {
    /// What `needs` call it.
    pub(crate) fn id(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The state files of a bundle in the order in which helmfile deploys them: what a file names comes
/// before its own releases.
pub(crate) fn states(tree: &BundleTree) -> Vec<State> {
    let mut states: Vec<State> = Vec::new();
    let mut next = Some("helmfile.yaml".to_owned());
    while let Some(path) = next {
        let text = String::from_utf8(tree.get(&path).unwrap().content.to_vec()).unwrap();
        let state: State =
            yaml::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}\n{text}"));
        next = state.helmfiles.first().map(|earlier| earlier.path.clone());
        states.insert(0, state);
    }
    states
}
