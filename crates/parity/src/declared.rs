//! The declarations of a deployer's own files about a release. All readers share these types.

use serde_json::{Map, Value};

use crate::facts::{DeployerFact, PredecessorFacts, TimeoutFact};

/// The declarations about one release.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredRelease {
    /// The deployer's file that declares it.
    pub(crate) file: String,
    /// The release's name in the bundle.
    pub(crate) name: String,
    /// The name of the Helm release.
    pub(crate) release_name: String,
    /// The namespace that it is installed in.
    pub(crate) namespace: String,
    /// The namespace of Helm's release record.
    pub(crate) record_namespace: DeployerFact<String>,
    /// The position, from 1.
    pub(crate) position: DeployerFact<usize>,
    /// The releases that must succeed before it.
    pub(crate) after: PredecessorFacts,
    /// The chart.
    pub(crate) chart: ChartLocation,
    /// The declared version of a chart of the bundle, if there is one.
    pub(crate) declared_version: Option<String>,
    /// Values files below the bundle, in order. They may omit the values file of a chart of the
    /// bundle.
    pub(crate) values: Vec<String>,
    /// Values in the deployer's own file, over all others.
    pub(crate) inline: Option<Map<String, Value>>,
    /// The values file of the bundle that the deployer does not read, because its own file contains
    /// a copy of these values.
    pub(crate) copied: Option<String>,
    /// The values files whose edits are deployed without a new chart version.
    pub(crate) edits_act: DeployerFact<DeployedEdits>,
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

/// The declarations of all releases of a bundle.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredBundle {
    /// A timeout for all releases together, in seconds.
    pub(crate) timeout_of_all: Option<u64>,
    /// The releases.
    pub(crate) releases: Vec<DeclaredRelease>,
}

/// The values files whose edits are deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeployedEdits {
    /// All.
    All,
    /// Those that the deployer's files name, but not one that is only in a chart.
    Named,
    /// None.
    Ignored,
}

/// The location of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChartLocation {
    /// In the bundle, in this folder.
    Local(String),
    /// In the vendor's repository.
    Remote {
        /// Repository and name, or an address.
        place: String,
        /// The version, if one is declared.
        version: Option<String>,
    },
    /// No chart, but a kustomization in a Git repository.
    Kustomization {
        /// Repository and directory.
        place: String,
        /// The tag or commit.
        revision: String,
    },
}

impl ChartLocation {
    /// Returns the location of the kustomization in a directory of a Git repository.
    pub(crate) fn kustomization(repository: &str, path: &str, revision: String) -> Self {
        let path = path.trim_start_matches("./");
        Self::Kustomization { place: format!("{repository}//{path}"), revision }
    }
}
