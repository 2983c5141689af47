//! What a deployer's own files declare about a release: the vocabulary that all readers share.

use serde_json::{Map, Value};

use crate::facts::{DeployerFact, PredecessorFacts, TimeoutFact};

/// What is declared about one release.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredRelease {
    /// The deployer's file that declares it.
    pub(crate) file: String,
    /// The release's name in the bundle.
    pub(crate) name: String,
    /// The name of the Helm release.
    pub(crate) release_name: String,
    /// Where it is installed.
    pub(crate) namespace: String,
    /// Where Helm keeps its record.
    pub(crate) record_namespace: DeployerFact<String>,
    /// Its place, from 1.
    pub(crate) position: DeployerFact<usize>,
    /// What must have succeeded before.
    pub(crate) after: PredecessorFacts,
    /// The chart.
    pub(crate) chart: ChartLocation,
    /// The version that is declared for a chart of the bundle, if one is.
    pub(crate) declared_version: Option<String>,
    /// Values files below the bundle, in order. The values file of a chart of the bundle need not be among them.
    pub(crate) values: Vec<String>,
    /// Values in the deployer's own file, over all others.
    pub(crate) inline: Option<Map<String, Value>>,
    /// Of which values files an edit is deployed although the chart's version stays.
    pub(crate) edits_act: DeployedEdits,
    /// Every timeout of an operation.
    pub(crate) timeouts: DeployerFact<Vec<TimeoutFact>>,
    /// As in [`crate::facts::ReleaseFacts`]; likewise below.
    pub(crate) skips_crds: DeployerFact<bool>,
    /// As above.
    pub(crate) creates_namespace: DeployerFact<bool>,
    /// As above.
    pub(crate) takes_ownership: DeployerFact<bool>,
    /// As above.
    pub(crate) waits_for_objects: DeployerFact<bool>,
    /// As above.
    pub(crate) runs_hooks: DeployerFact<bool>,
    /// As above.
    pub(crate) undoes_failures: DeployerFact<bool>,
    /// As above.
    pub(crate) replaces_objects: DeployerFact<bool>,
    /// As above.
    pub(crate) prunes: DeployerFact<bool>,
    /// As above.
    pub(crate) fired_by_every_commit: DeployerFact<bool>,
    /// As above.
    pub(crate) same_cluster: DeployerFact<bool>,
    /// As above.
    pub(crate) is_permitted: DeployerFact<bool>,
    /// As above.
    pub(crate) reverts_live_changes: DeployerFact<bool>,
    /// As in [`crate::facts::FactEvidence`]; likewise below.
    pub(crate) gated_by: String,
    /// As above.
    pub(crate) also_fired_by: String,
}

/// What all releases of a bundle declare.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredBundle {
    /// A timeout over all of them, in seconds.
    pub(crate) timeout_of_all: Option<u64>,
    /// One after the other.
    pub(crate) releases: Vec<DeclaredRelease>,
}

/// Of which values files an edit is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeployedEdits {
    /// Of all.
    All,
    /// Of those that the deployer's files name; not of one that is only in a chart.
    Named,
    /// Of none.
    Ignored,
}

/// Where a chart is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChartLocation {
    /// In the bundle, in this folder.
    Local(String),
    /// With the vendor.
    Remote {
        /// Repository and name, or an address.
        place: String,
        /// The version, if one is declared.
        version: Option<String>,
    },
}
