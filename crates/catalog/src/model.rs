//! The catalog's types: what `bundles/components/<name>/component.yaml` says of a component.

use std::collections::BTreeMap;

use semver::VersionReq;
use serde::{Deserialize, Serialize};

use contract::driver::Driver;
use contract::task::Task;

/// Something deployable: one chart of a vendor, and what a bundle must know about it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CatalogComponent {
    /// Name in recipes, and of its Helm release.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Name of the chart in its repository.
    pub chart: String,
    /// Where the chart comes from.
    pub repository: ChartRepository,
    /// Namespace unless the recipe says another.
    pub namespace: String,
    /// The Pod Security level that its namespace needs.
    pub pod_security: PodSecurity,
    /// Components that are deployed before it where a recipe has both.
    #[serde(default)]
    pub after: Vec<String>,
    /// The hook releases before and after it.
    #[serde(default)]
    pub hooks: ComponentHooks,
    /// Where its chart takes node selectors and tolerations.
    #[serde(default)]
    pub node_scheduling: SchedulingPaths,
    /// What its values do not say of its images.
    #[serde(default)]
    pub images: ComponentImages,
    /// Values, as dotted paths, that must be one of some texts.
    #[serde(default)]
    pub choices: BTreeMap<String, Vec<String>>,
    /// Versions of an earlier numbering, which are older than all others whatever their numbers say.
    #[serde(default)]
    pub earlier_numbering: Option<VersionReq>,
    /// The version that a recipe gets that does not name one.
    pub default_version: String,
    /// The versions that the catalog knows, the oldest first.
    pub versions: Vec<ComponentVersion>,
}

/// A chart repository.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChartRepository {
    /// Short name, as in `--chart-repository NAME=URL`.
    pub name: String,
    /// `https://…` or `oci://…`.
    pub url: String,
}

/// Levels of Kubernetes' Pod Security Standards, as the labels `pod-security.kubernetes.io/*` have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PodSecurity {
    /// The strictest.
    Restricted,
    /// In between.
    Baseline,
    /// No limits.
    Privileged,
}

/// What the Jobs of the hook releases of a component do. No tasks, no release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ComponentHooks {
    /// Tasks of `<component>-pre`, which comes after the component's CRDs and before the component.
    pub pre: Vec<Task>,
    /// Tasks of `<component>-post`, which comes after everything else of the component.
    pub post: Vec<Task>,
    /// The driver that the component installs, and whose part of the recipe's `rollout` the hooks follow.
    pub driver: Driver,
}

/// What must be known of a component's images beside its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ComponentImages {
    /// Top-level keys (sub-charts, operands) that are used only where another value, a dotted path, is true.
    pub conditions: BTreeMap<String, String>,
    /// Images that are built for an operating system: their place in values (or in the custom resource's `spec`), and what the
    /// operator puts behind the tag, with `{os}` (such as `ubuntu22.04`) and `{architecture}` (such as `amd64`).
    pub node_suffixes: BTreeMap<String, String>,
    /// Whether its values take Secrets to pull images with as plain names; else as references, as a pod has them.
    pub pull_secrets_by_name: bool,
}

/// Where a chart takes node selectors and tolerations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SchedulingPaths {
    /// For pods that may run on any node: operators, controllers, webhooks.
    pub system: ValuePaths,
    /// For pods on nodes with the hardware.
    pub accelerated: ValuePaths,
}

/// Values of a chart, as dotted paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ValuePaths {
    /// Maps of node labels.
    pub node_selector: Vec<String>,
    /// Lists of tolerations.
    pub tolerations: Vec<String>,
}

/// One version of a component's chart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentVersion {
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
    /// CRD files that the component owns, relative to the version's folder; [`CatalogComponent::crds`] reads them.
    #[serde(default)]
    pub crds: Vec<String>,
    /// CRD files that the component owns too, but that a bundle brings only where a value is true.
    #[serde(default)]
    pub optional_crds: Vec<OptionalCrds>,
    /// CRDs of other components that this chart or its sub-charts need.
    #[serde(default)]
    pub shared_crds: Vec<SharedCrds>,
    /// Other components that this chart contains.
    #[serde(default)]
    pub nested: Vec<NestedComponent>,
    /// Custom resources that a recipe may bring for it.
    #[serde(default)]
    pub custom_resources: Vec<CustomResource>,
    /// Where this version's chart comes from, if not from the component's repository.
    #[serde(default)]
    pub repository: Option<ChartRepository>,
    /// The chart's name, if it is not the component's.
    #[serde(default)]
    pub chart: Option<String>,
    /// Hooks, where they are not the component's.
    #[serde(default)]
    pub hooks: Option<ComponentHooks>,
    /// The first version that works as this one does, if that is not this one: versions in between that the catalog does not know
    /// are taken for alike.
    #[serde(default)]
    pub since: Option<String>,
    /// Values that every bundle sets because it brings the CRDs itself, as dotted paths.
    #[serde(default)]
    pub bundle_values: serde_json::Map<String, serde_json::Value>,
    /// Values that every bundle sets so that objects keep the names that they have from an earlier version, as dotted paths.
    #[serde(default)]
    pub kept_names: serde_json::Map<String, serde_json::Value>,
}

impl ComponentVersion {
    /// All values that every bundle sets.
    pub fn fixed_values(&self) -> impl Iterator<Item = (&String, &serde_json::Value)> {
        self.bundle_values.iter().chain(&self.kept_names)
    }
}

/// CRD files that are needed only where something is switched on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OptionalCrds {
    /// The value, as a dotted path, that must be true.
    pub condition: String,
    /// The files.
    pub crds: Vec<String>,
}

/// Another component that a chart contains as a sub-chart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NestedComponent {
    /// The component.
    pub component: String,
    /// The top-level key below which the sub-chart takes its values.
    pub key: String,
    /// Helm's condition: dotted paths, the first one that is set decides. The first one is the switch.
    pub conditions: Vec<String>,
}

/// A kind of custom resource that the component's operator works from and that its chart does not bring.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomResource {
    /// Its kind: the key below `customResources`.
    pub kind: String,
    /// Its group and version.
    pub api_version: String,
    /// The one name that the operator looks at.
    pub name: String,
    /// The CRD file with its schema, relative to the version's folder.
    pub crd: String,
    /// Fields that people still write and that this version does not have, as dotted paths below `spec`, each with what to do instead.
    #[serde(default)]
    pub obsolete_fields: BTreeMap<String, String>,
}

/// CRDs that belong to another component, and that this one or a sub-chart of it needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SharedCrds {
    /// The component that owns them.
    pub component: String,
    /// Its version that the sub-chart's CRDs equal.
    pub version: String,
    /// Helm's condition of what needs them: dotted paths, the first one that is set decides.
    pub conditions: Vec<String>,
}
