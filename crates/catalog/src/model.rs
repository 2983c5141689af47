//! The catalog's types: the format of `bundles/components/<name>/component.yaml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use semver::VersionReq;
use serde::{Deserialize, Serialize};

use contract::driver::Driver;
use contract::task::Task;

use crate::keys::ChartKeys;

/// A component: one chart of a vendor, and what a bundle must know about it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CatalogComponent {
    /// Name in recipes, and of its Helm release.
    pub name: String,
    /// A description in one line.
    pub description: String,
    /// Name of the chart in its repository.
    pub chart: String,
    /// The chart's repository.
    pub repository: ChartRepository,
    /// The default namespace.
    pub namespace: String,
    /// The Pod Security level that its namespace needs.
    pub pod_security: PodSecurity,
    /// Components that are deployed before it, if the recipe has them.
    #[serde(default)]
    pub after: Vec<String>,
    /// The hook releases before and after it.
    #[serde(default)]
    pub hooks: ComponentHooks,
    /// The keys of its chart for node selectors and tolerations.
    #[serde(default)]
    pub node_scheduling: SchedulingPaths,
    /// Sub-charts and operands whose pods exist only if values are these, all by dotted path. A
    /// value that the chart does not have fulfills its condition.
    #[serde(default)]
    pub conditions: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// Facts about its images that are not in its values.
    #[serde(default)]
    pub images: ComponentImages,
    /// Values that would move or rename what the hook looks for.
    #[serde(default)]
    pub moving_values: Vec<MovingValue>,
    /// Allowed strings of values, by dotted path.
    #[serde(default)]
    pub choices: BTreeMap<String, Vec<String>>,
    /// Versions of an earlier numbering, which are older than all others regardless of their
    /// numbers.
    #[serde(default)]
    pub earlier_numbering: Option<VersionReq>,
    /// Versions below which later versions must not be downgraded.
    #[serde(default)]
    pub downgrade_limits: Vec<DowngradeLimit>,
    /// The version for a recipe that does not set one.
    pub default_version: String,
    /// The versions in the catalog, oldest first.
    pub versions: Vec<ComponentVersion>,
}

/// A version below which later versions must not be downgraded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DowngradeLimit {
    /// The version.
    pub version: String,
    /// Why, in one clause without a period.
    pub reason: String,
}

/// A value of a chart that would move or rename objects that the hook looks for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MovingValue {
    /// Its keys, of which some contain dots.
    pub keys: Vec<String>,
    /// What the hook would not find.
    pub lost: String,
    /// What to do instead.
    pub hint: String,
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

/// Levels of Kubernetes' Pod Security Standards, with the values of the labels
/// `pod-security.kubernetes.io/*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PodSecurity {
    /// The strictest level.
    Restricted,
    /// The middle level.
    Baseline,
    /// No restrictions.
    Privileged,
}

/// The tasks of a component's hook releases. A release without tasks does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ComponentHooks {
    /// Tasks of `<component>-pre`, which comes after the component's CRDs and before the component.
    pub pre: Vec<Task>,
    /// Tasks of `<component>-post`, which comes after everything else of the component.
    pub post: Vec<Task>,
    /// The driver that the component installs, and whose part of the recipe's `rollout` the hooks
    /// follow.
    pub driver: Driver,
}

/// Facts about a component's images that are not in its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ComponentImages {
    /// Images that are built for an operating system: their path in values (or in the custom
    /// resource's `spec`), and the suffix that the operator appends to the tag, with `{os}` (such
    /// as `ubuntu22.04`) and `{architecture}` (such as `amd64`).
    pub node_suffixes: BTreeMap<String, String>,
    /// Images that are also built for a kernel if a value is true: their path, and that of the
    /// value. The operator then appends `-{kernel}` before the suffix above.
    pub kernel_switches: BTreeMap<String, String>,
    /// The path in custom resources with repository and version of the images that do not set their
    /// own.
    pub shared: Option<String>,
    /// Whether its values take image pull Secrets as plain names, otherwise as references like in a
    /// pod.
    pub pull_secrets_by_name: bool,
    /// Values for image pull Secrets in sub-charts whose keys the catalog does not have, by dotted
    /// path, each with its form. A version has those below its [`ComponentVersion::open_keys`].
    pub sub_chart_pull_secrets: BTreeMap<String, PullSecretForm>,
}

/// How a value names image pull Secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PullSecretForm {
    /// A list of names.
    Names,
    /// A list of references, as in a pod.
    References,
}

/// The keys of a chart for node selectors and tolerations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SchedulingPaths {
    /// For pods that may run on any node: operators, controllers, webhooks.
    pub system: ValuePaths,
    /// For pods on nodes with the hardware.
    pub accelerated: ValuePaths,
    /// The tolerations that the pods of sub-charts have by default, by dotted path, where the
    /// catalog does not have the sub-chart's values.
    pub default_tolerations: BTreeMap<String, Vec<serde_json::Value>>,
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
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentVersion {
    /// The version, as written in the chart's repository.
    pub version: String,
    /// Keys below which the chart accepts any key although it also reads single keys there (maps
    /// that it copies), and sub-charts whose keys the catalog does not have, as dotted paths.
    #[serde(default)]
    pub open_keys: Vec<String>,
    /// Maps that the chart copies into an object whose schema is known, as dotted paths, each with
    /// the schema's fields.
    #[serde(default)]
    pub object_fields: BTreeMap<String, Vec<String>>,
    /// Keys that the templates read without any effect, or only to refuse them, as dotted paths.
    #[serde(default)]
    pub ineffective_keys: Vec<String>,
    /// Obsolete keys that users still write and this version does not read, as dotted paths, each
    /// with a hint.
    #[serde(default)]
    pub obsolete_keys: BTreeMap<String, String>,
    /// Strings that the templates write into an object without quotes.
    #[serde(default)]
    pub unquoted_values: Vec<UnquotedValue>,
    /// CRD files that the component owns, relative to the version's folder;
    /// [`CatalogComponent::crds`] reads them.
    #[serde(default)]
    pub crds: Vec<String>,
    /// Whether the chart contains no CRDs at all.
    #[serde(default)]
    pub has_no_crds: bool,
    /// CRD files that the component also owns, but that a bundle deploys only if a value is true.
    #[serde(default)]
    pub optional_crds: Vec<OptionalCrds>,
    /// CRDs of other components that this chart or its sub-charts need.
    #[serde(default)]
    pub shared_crds: Vec<SharedCrds>,
    /// Other components that this chart contains.
    #[serde(default)]
    pub nested: Vec<NestedComponent>,
    /// Custom resources that a recipe may define for it.
    #[serde(default)]
    pub custom_resources: Vec<CustomResource>,
    /// The repository of this version's chart, if it is not the component's.
    #[serde(default)]
    pub repository: Option<ChartRepository>,
    /// The chart's name, if it is not the component's.
    #[serde(default)]
    pub chart: Option<String>,
    /// The hooks, if they are not the component's.
    #[serde(default)]
    pub hooks: Option<ComponentHooks>,
    /// The keys for node selectors and tolerations, if they are not the component's.
    #[serde(default)]
    pub node_scheduling: Option<SchedulingPaths>,
    /// The first version that works like this one, if it is an earlier one. Versions in between
    /// that the catalog does not have are treated like this one.
    #[serde(default)]
    pub since: Option<String>,
    /// Values that every bundle sets because it deploys the CRDs itself, by dotted path.
    #[serde(default)]
    pub bundle_values: serde_json::Map<String, serde_json::Value>,
    /// Values that every bundle sets so that objects keep their names from an earlier version, by
    /// dotted path.
    #[serde(default)]
    pub kept_names: serde_json::Map<String, serde_json::Value>,
    /// The keys that the chart reads ([`ChartKeys::of_version`]), once they were needed. A changed
    /// copy keeps those of the original.
    #[serde(skip)]
    pub(crate) chart_keys: OnceLock<Option<ChartKeys>>,
}

impl ComponentVersion {
    /// Returns all values that every bundle sets.
    pub fn fixed_values(&self) -> impl Iterator<Item = (&String, &serde_json::Value)> {
        self.bundle_values.iter().chain(&self.kept_names)
    }
}

/// A string that the templates write into an object without quotes, so that YAML reads some strings
/// as something else.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnquotedValue {
    /// Its dotted path in the values.
    pub path: String,
    /// The values with which the string reaches the operator, by dotted path.
    pub conditions: BTreeMap<String, serde_json::Value>,
}

/// CRD files that are needed only if a value is true.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OptionalCrds {
    /// The dotted path of the value.
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
    /// The top-level key with the sub-chart's values.
    pub key: String,
    /// The component's version, which the catalog may not have.
    pub version: String,
    /// Helm's condition: dotted paths, of which the first one that is set decides. A bundle sets
    /// the first one.
    pub conditions: Vec<String>,
    /// Default tolerations that differ from those of the version that the catalog has, by their
    /// paths below the key.
    #[serde(default)]
    pub default_tolerations: BTreeMap<String, Vec<serde_json::Value>>,
}

/// A kind of custom resource that the component's operator reads and its chart does not create.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomResource {
    /// Its kind: the key below `customResources`.
    pub kind: String,
    /// Its group and version.
    pub api_version: String,
    /// The only name that the operator reads.
    pub name: String,
    /// The CRD file with its schema, relative to the version's folder.
    pub crd: String,
    /// Obsolete fields that users still write and this version does not have, as dotted paths below
    /// `spec`, each with a hint.
    #[serde(default)]
    pub obsolete_fields: BTreeMap<String, String>,
}

/// CRDs of another component that this one or one of its sub-charts needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SharedCrds {
    /// The component that owns them.
    pub component: String,
    /// The owner's version with the same CRDs as the sub-chart.
    pub version: String,
    /// Helm's condition of the sub-chart that needs them: dotted paths, of which the first one that
    /// is set decides.
    pub conditions: Vec<String>,
}
