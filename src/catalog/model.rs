//! The catalog's types: what `bundles/components/<name>/component.yaml` says of a component.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::contract::duty::Duty;

/// Something deployable: one chart of a vendor, and what a bundle must know about it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Component {
    /// Name in recipes, and of its Helm release.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Name of the chart in its repository.
    pub chart: String,
    /// Where the chart comes from.
    pub repository: Repository,
    /// Namespace unless the recipe says another.
    pub namespace: String,
    /// The Pod Security level that its namespace needs.
    pub pod_security: PodSecurity,
    /// Components that are deployed before it where a recipe has both.
    #[serde(default)]
    pub after: Vec<String>,
    /// The hook release that follows it.
    #[serde(default)]
    pub hook: Option<Hook>,
    /// The version that a recipe gets that does not name one.
    pub default_version: String,
    /// The versions that the catalog knows.
    pub versions: Vec<Version>,
}

/// A chart repository.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repository {
    /// Short name, as in `--chart-repository NAME=URL`.
    pub name: String,
    /// `https://…` or `oci://…`.
    pub url: String,
}

/// Levels of Kubernetes' Pod Security Standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PodSecurity {
    /// The strictest.
    Restricted,
    /// In between.
    Baseline,
    /// No limits.
    Privileged,
}

impl PodSecurity {
    /// The value of the `pod-security.kubernetes.io/*` labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Restricted => "restricted",
            Self::Baseline => "baseline",
            Self::Privileged => "privileged",
        }
    }
}

/// The hook release `<component>-post`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hook {
    /// What its Job does.
    pub duties: Vec<Duty>,
}

/// One version of a component's chart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Version {
    /// As the chart's repository writes it.
    pub version: String,
    /// Whether the chart's default values name every key that it reads: then an unknown key is an error, else a warning.
    pub keys_complete: bool,
    /// Keys below which the chart takes anything (maps that are copied into objects, sub-charts), as dotted paths.
    #[serde(default)]
    pub open_keys: Vec<String>,
    /// Keys that the chart reads though its default values do not name them, as dotted paths.
    #[serde(default)]
    pub further_keys: Vec<String>,
    /// Keys that people still write and that this version does not read, as dotted paths, each with what to do instead.
    #[serde(default)]
    pub obsolete_keys: BTreeMap<String, String>,
    /// CRD files that the component owns, relative to the version's folder; [`Component::crds`] reads them.
    #[serde(default)]
    pub crds: Vec<String>,
    /// CRDs of other components that this chart's sub-charts need.
    #[serde(default)]
    pub shared_crds: Vec<SharedCrds>,
    /// Values that every bundle sets because it brings the CRDs itself, as dotted paths.
    #[serde(default)]
    pub bundle_values: serde_json::Map<String, serde_json::Value>,
}

/// CRDs that belong to another component, and that a sub-chart of this one needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SharedCrds {
    /// The component that owns them.
    pub component: String,
    /// Its version that the sub-chart's CRDs equal.
    pub version: String,
    /// The value, as a dotted path, that switches the sub-chart on.
    pub condition: String,
}
