//! What is known of a bundle. The JSON of these types is the output of `gpu-rollout bundle facts`; `docs/parity.md` describes it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// Something that a deployer's files say, or that this deployer has no words for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum DeployerFact<T> {
    /// What they say.
    Is(T),
    /// Nothing that they could say; equals anything.
    #[serde(rename_all = "camelCase")]
    NotExpressible {
        /// Why, and what bounds it instead.
        not_expressible: &'static str,
    },
}

/// The key of [`DeployerFact::NotExpressible`] in JSON.
pub const NOT_EXPRESSIBLE: &str = "notExpressible";

/// Short form of [`DeployerFact::NotExpressible`].
pub const fn not_expressible<T>(not_expressible: &'static str) -> DeployerFact<T> {
    DeployerFact::NotExpressible { not_expressible }
}

/// All facts of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleFacts {
    /// The deployer, recognized by its files.
    pub deployer: String,
    /// The file that it starts from.
    pub file: String,
    /// Whether a timeout over all releases leaves each one its own, one after the other. Without such a timeout it does.
    pub timeout_of_all_is_sufficient: bool,
    /// The releases by name.
    pub releases: BTreeMap<String, ReleaseFacts>,
}

/// The facts of one release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseFacts {
    /// `upstream`, `crds`, `manifests` or `hook`, as the chart's files show.
    pub kind: &'static str,
    /// The name of the Helm release.
    pub release_name: String,
    /// Where it is installed.
    pub namespace: String,
    /// Where Helm keeps its record of the release.
    pub record_namespace: DeployerFact<String>,
    /// Its place in the order in which the deployer reads the releases, from 1.
    pub position: DeployerFact<usize>,
    /// What must have succeeded before it starts.
    pub after: PredecessorFacts,
    /// Needs that are not releases of the bundle: this release never starts.
    pub unknown_needs: BTreeSet<String>,
    /// Needs according to `bundle-info.yaml` that the deployer's files do not enforce.
    pub unmet_needs: BTreeSet<String>,
    /// The chart.
    pub chart: ChartFacts,
    /// The values that it is installed with.
    pub values: ValuesFacts,
    /// Every timeout that is stated for an operation of it, each one once.
    pub timeout_seconds: DeployerFact<BTreeSet<u64>>,
    /// Whether the chart's own `crds/` are left out, or there are none.
    pub skips_crds: DeployerFact<bool>,
    /// Whether the namespace is created if it is not there; then it would lack the labels that the bundle's own namespaces have.
    pub creates_namespace: DeployerFact<bool>,
    /// Whether objects that something else has created are taken over.
    pub takes_ownership: DeployerFact<bool>,
    /// Whether the deployer waits for all objects to be ready, which a driver upgrade would have to come before.
    pub waits_for_objects: DeployerFact<bool>,
    /// Whether the chart's hooks are run.
    pub runs_hooks: DeployerFact<bool>,
    /// Whether a failure is answered with a rollback, an uninstallation or a deletion.
    pub undoes_failures: DeployerFact<bool>,
    /// Whether objects are replaced instead of changed.
    pub replaces_objects: DeployerFact<bool>,
    /// Whether the deployer itself deletes what has left the bundle, without an upgrade that does.
    pub prunes: DeployerFact<bool>,
    /// Whether it is upgraded with every commit, whatever that changes.
    pub fired_by_every_commit: DeployerFact<bool>,
    /// Whether it goes to the same cluster as the others.
    pub same_cluster: DeployerFact<bool>,
    /// Whether the deployer is allowed to deploy it.
    pub is_permitted: DeployerFact<bool>,
    /// Whether a change of a live object, made by the operator or the hook, is undone without a new version or values.
    pub reverts_live_changes: DeployerFact<bool>,
    /// Facts of a hook release; `None` for other releases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<HookFacts>,
    /// Where these facts come from; differs between deployers by nature and is not compared.
    pub evidence: FactEvidence,
}

/// What must have succeeded before a release starts: everything, whether named by it or by what it waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PredecessorFacts {
    /// Names.
    pub releases: BTreeSet<String>,
    /// The releases of which the deployer states whether they are needed. Others it may hold the release back for as well, because all
    /// that it has is a sequence.
    pub exact_among: BTreeSet<String>,
}

/// A chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartFacts {
    /// The vendor's chart: repository and name, an `oci://` address or a file. A chart of the bundle: its folder.
    pub place: String,
    /// Its version; `None`: whatever is there.
    pub version: Option<String>,
    /// A chart of the bundle: its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A chart of the bundle: the version of the component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    /// A chart of the bundle: SHA-256 of each file but the values files.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// A chart of the bundle: by file, what is said to Helm, Argo CD and Flux about an object: hooks, their order, and what is never pruned.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// The values of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ValuesFacts {
    /// The files, each one over those before it.
    pub files: Vec<String>,
    /// Those of them that are not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// SHA-256 of the merged values: JSON with sorted keys.
    pub digest: String,
    /// The files of which an edit alone, without another chart version, is deployed.
    pub edits_act: Vec<String>,
}

/// Facts of a hook release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookFacts {
    /// The component of the hook.
    pub component: String,
    /// The component's version that it is made for.
    pub component_version: String,
    /// What the Job does.
    pub tasks: Vec<String>,
    /// What it may do: the rows of the chart's table for these tasks.
    pub rights: BTreeSet<String>,
    /// B.
    pub budget_seconds: u64,
    /// Whether every timeout of the deployer leaves the Job its whole budget and the time to end.
    pub timeout_is_sufficient: DeployerFact<bool>,
    /// What fires it: SHA-256 of the values and of the chart's name and version.
    pub trigger: String,
    /// Lines about the Job in the chart's template, verbatim.
    pub job: BTreeMap<String, Vec<String>>,
}

/// Where facts come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FactEvidence {
    /// The deployer's file that states the release.
    pub file: String,
    /// What holds the release back until the others have succeeded.
    pub gated_by: String,
    /// What fires its hook in addition to a change of the trigger.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub also_fired_by: String,
    /// Each timeout with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeouts: Vec<TimeoutFact>,
}

/// A timeout that a file states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeoutFact {
    /// The file.
    pub file: String,
    /// What the deployer calls it.
    pub setting: String,
    /// Seconds.
    pub seconds: u64,
}
