//! The facts of a bundle. Their JSON is the output of `gpu-rollout bundle facts`; `docs/parity.md`
//! describes it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// A fact from a deployer's files, or one that the deployer cannot express.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum DeployerFact<T> {
    /// The value.
    Is(T),
    /// The deployer cannot express the fact. It equals any value.
    #[serde(rename_all = "camelCase")]
    NotExpressible {
        /// The reason, and what limits it instead.
        not_expressible: &'static str,
    },
}

/// The key of [`DeployerFact::NotExpressible`] in JSON.
pub const NOT_EXPRESSIBLE: &str = "notExpressible";

/// Creates a [`DeployerFact::NotExpressible`].
pub const fn not_expressible<T>(not_expressible: &'static str) -> DeployerFact<T> {
    DeployerFact::NotExpressible { not_expressible }
}

/// All facts of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleFacts {
    /// The deployer, recognized by its files.
    pub deployer: String,
    /// The deployer's main file.
    pub file: String,
    /// Whether the timeout that covers all releases together is at least the sum of their own
    /// timeouts. True if there is no such timeout.
    pub timeout_of_all_is_sufficient: bool,
    /// The releases by name.
    pub releases: BTreeMap<String, ReleaseFacts>,
}

/// The facts of one release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseFacts {
    /// `upstream`, `crds`, `manifests`, `kustomization` or `hook`, as the deployer's and the chart's
    /// files show.
    pub kind: &'static str,
    /// The name of the Helm release.
    pub release_name: String,
    /// The namespace that it is installed in.
    pub namespace: String,
    /// The namespace of Helm's release record.
    pub record_namespace: DeployerFact<String>,
    /// The position in the order in which the deployer reads the releases, from 1.
    pub position: DeployerFact<usize>,
    /// The releases that must succeed before it starts.
    pub after: PredecessorFacts,
    /// Needs that are not releases of the bundle, so that this release never starts.
    pub unknown_needs: BTreeSet<String>,
    /// Needs in `bundle-info.yaml` that the deployer's files do not enforce.
    pub unmet_needs: BTreeSet<String>,
    /// The chart.
    pub chart: ChartFacts,
    /// The values that it is installed with.
    pub values: ValuesFacts,
    /// Every timeout of an operation of it, each once.
    pub timeout_seconds: DeployerFact<BTreeSet<u64>>,
    /// Whether the chart's own `crds/` are skipped, or it has none.
    pub skips_crds: DeployerFact<bool>,
    /// Whether the deployer creates a missing namespace, which would not have the labels of the
    /// bundle's own namespaces.
    pub creates_namespace: DeployerFact<bool>,
    /// Whether the deployer takes over objects of other owners.
    pub takes_ownership: DeployerFact<bool>,
    /// Whether the deployer waits until all objects are ready, which happens only after the driver
    /// upgrade.
    pub waits_for_objects: DeployerFact<bool>,
    /// Whether the deployer runs the chart's hooks.
    pub runs_hooks: DeployerFact<bool>,
    /// Whether a failure leads to a rollback, an uninstallation or a deletion.
    pub undoes_failures: DeployerFact<bool>,
    /// Whether objects are replaced instead of changed.
    pub replaces_objects: DeployerFact<bool>,
    /// Whether the deployer itself deletes what is removed from the bundle, without an upgrade.
    pub prunes: DeployerFact<bool>,
    /// Whether every commit upgrades it, regardless of its changes.
    pub fired_by_every_commit: DeployerFact<bool>,
    /// Whether its target cluster is the same as that of the others.
    pub same_cluster: DeployerFact<bool>,
    /// Whether the deployer is allowed to deploy it.
    pub is_permitted: DeployerFact<bool>,
    /// Whether the deployer reverts a change of a live object by the operator or the hook, without
    /// a new version or values.
    pub reverts_live_changes: DeployerFact<bool>,
    /// Facts of a hook release; `None` for other releases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<HookFacts>,
    /// The evidence of these facts. It differs between deployers, and is not compared.
    pub evidence: FactEvidence,
}

/// All releases that must succeed before a release starts, directly or indirectly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PredecessorFacts {
    /// Their names.
    pub releases: BTreeSet<String>,
    /// The releases for which the deployer declares whether they are needed. The release may also
    /// wait for others, if the deployer only has a sequence.
    pub exact_among: BTreeSet<String>,
}

/// A chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartFacts {
    /// The vendor's chart: repository and name, an `oci://` address or a file. A chart of the
    /// bundle: its folder. A kustomization: repository and directory.
    pub place: String,
    /// The version, or the revision of a kustomization; `None` means any version.
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
    /// A chart of the bundle: by file, the annotations for Helm, Argo CD and Flux: hooks, their
    /// order, and objects that are never pruned.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// The values of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ValuesFacts {
    /// The files, or the file that the values are a copy of; each overrides those before it.
    pub files: Vec<String>,
    /// The missing files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The file that the deployer's own file should contain a copy of, and whose values differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differs_from: Option<String>,
    /// SHA-256 of the merged values: JSON with sorted keys.
    pub digest: String,
    /// The files whose edits are deployed without a new chart version.
    pub edits_act: DeployerFact<Vec<String>>,
}

/// Facts of a hook release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookFacts {
    /// The component of the hook.
    pub component: String,
    /// The component's version that it was rendered for.
    pub component_version: String,
    /// The tasks of the Job.
    pub tasks: Vec<String>,
    /// The rights of the Job: the rows of the chart's table for these tasks.
    pub rights: BTreeSet<String>,
    /// The time budget (B) in seconds.
    pub budget_seconds: u64,
    /// Whether every timeout of the deployer includes the Job's whole budget and the time to end.
    pub timeout_is_sufficient: DeployerFact<bool>,
    /// The trigger: SHA-256 of the values and of the chart's name and version.
    pub trigger: String,
    /// Lines about the Job in the chart's template, verbatim.
    pub job: BTreeMap<String, Vec<String>>,
}

/// The evidence of facts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FactEvidence {
    /// The deployer's file that declares the release.
    pub file: String,
    /// What makes the release wait until the others have succeeded.
    pub gated_by: String,
    /// What fires its hook in addition to a change of the trigger.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub also_fired_by: String,
    /// Each timeout with its position.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeouts: Vec<TimeoutFact>,
}

/// A timeout in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeoutFact {
    /// The file.
    pub file: String,
    /// The deployer's name for it.
    pub setting: String,
    /// The timeout in seconds.
    pub seconds: u64,
}
