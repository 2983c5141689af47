//! What a deployer's own files state of a release: the vocabulary of the readers, and how it becomes facts.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::chart::{self, local};
use super::files::TextFiles;
use super::model::{ChartFacts, DeployerFact, FactEvidence, PredecessorFacts, ReleaseFacts, TimeoutFact, ValuesFacts};
use super::values::{digest, merged};
use super::{ReadbackError, hook};
use crate::layout::VALUES;
use contract::budget::deployer_timeout_seconds;

/// What is stated of one release.
#[derive(Clone, Debug)]
pub(super) struct ReleaseStatement {
    /// The deployer's file that states it.
    pub(super) file: String,
    /// The release's name in the bundle.
    pub(super) name: String,
    /// The name of the Helm release.
    pub(super) release_name: String,
    /// Where it is installed.
    pub(super) namespace: String,
    /// Where Helm keeps its record.
    pub(super) record_namespace: DeployerFact<String>,
    /// Its place, from 1.
    pub(super) position: DeployerFact<usize>,
    /// What must have succeeded before.
    pub(super) after: PredecessorFacts,
    /// The chart.
    pub(super) chart: ChartPlace,
    /// The version that is stated of a chart of the bundle, if one is.
    pub(super) stated_version: Option<String>,
    /// Values files below the bundle, in order. The values file of a chart of the bundle need not be among them.
    pub(super) values: Vec<String>,
    /// Values that stand in the deployer's own file, over all others.
    pub(super) inline: Option<Map<String, Value>>,
    /// Of which values files an edit is deployed although the chart's version stays.
    pub(super) edits_act: DeployedEdits,
    /// Every timeout of an operation.
    pub(super) timeouts: DeployerFact<Vec<TimeoutFact>>,
    /// As in [`ReleaseFacts`]; likewise below.
    pub(super) skips_crds: DeployerFact<bool>,
    /// As above.
    pub(super) creates_namespace: DeployerFact<bool>,
    /// As above.
    pub(super) takes_ownership: DeployerFact<bool>,
    /// As above.
    pub(super) waits_for_objects: DeployerFact<bool>,
    /// As above.
    pub(super) runs_hooks: DeployerFact<bool>,
    /// As above.
    pub(super) undoes_failures: DeployerFact<bool>,
    /// As above.
    pub(super) replaces_objects: DeployerFact<bool>,
    /// As above.
    pub(super) prunes: DeployerFact<bool>,
    /// As above.
    pub(super) fired_by_every_commit: DeployerFact<bool>,
    /// As above.
    pub(super) same_cluster: DeployerFact<bool>,
    /// As above.
    pub(super) is_permitted: DeployerFact<bool>,
    /// As above.
    pub(super) reverts_live_changes: DeployerFact<bool>,
    /// As in [`FactEvidence`]; likewise below.
    pub(super) gated_by: String,
    /// As above.
    pub(super) also_fired_by: String,
}

/// What all releases of a bundle state.
#[derive(Clone, Debug, Default)]
pub(super) struct BundleStatements {
    /// A timeout over all of them, in seconds.
    pub(super) timeout_of_all: Option<u64>,
    /// One after the other.
    pub(super) releases: Vec<ReleaseStatement>,
}

/// Of which values files an edit is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeployedEdits {
    /// Of all.
    All,
    /// Of those that the deployer's files name; not of one that only stands in a chart.
    Named,
    /// Of none.
    Ignored,
}

/// Where a chart lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChartPlace {
    /// In the bundle, in this folder.
    Local(String),
    /// With the vendor.
    Remote {
        /// Repository and name, or an address.
        place: String,
        /// The version, if one is stated.
        version: Option<String>,
    },
}

/// Statement and files → facts. `needs` is what must have succeeded before.
///
/// # Errors
/// A file of the chart, or a values file, that cannot be read.
pub(super) fn release(files: &TextFiles, statement: ReleaseStatement, needs: &[String]) -> Result<ReleaseFacts, ReadbackError> {
    let (kind, chart) = match &statement.chart {
        ChartPlace::Remote { place, version } => {
            ("upstream", ChartFacts { place: place.clone(), version: version.clone(), ..ChartFacts::default() })
        }
        ChartPlace::Local(folder) => {
            let chart = local(files, folder)?;
            let version = statement.stated_version.clone().or_else(|| chart.version.clone());
            (chart::kind(files, folder), ChartFacts { version, ..chart })
        }
    };
    let mut listed = statement.values.clone();
    if let ChartPlace::Local(folder) = &statement.chart {
        let own = format!("{folder}/{VALUES}");
        // The hook chart's own values are its defaults; those of a chart of objects are the objects.
        if kind == "manifests" && files.get(&own).is_some() && !listed.contains(&own) {
            listed.insert(0, own);
        }
    }
    let acts = |path: &&String| match statement.edits_act {
        DeployedEdits::All => true,
        DeployedEdits::Named => statement.values.contains(path),
        DeployedEdits::Ignored => false,
    };
    let edits_act = listed.iter().filter(acts).cloned().collect();
    let missing = listed.iter().filter(|path| files.get(path).is_none()).cloned().collect();
    let merged = merged(files, &listed, statement.inline.as_ref())?;
    let timeouts = statement.timeouts.clone();
    let has_crds = match &statement.chart {
        ChartPlace::Local(folder) => files.below(folder).any(|(path, _)| path.starts_with("crds/")),
        ChartPlace::Remote { .. } => true,
    };
    let hook = match &statement.chart {
        ChartPlace::Local(folder) if kind == "hook" => {
            let read = hook::read(files, folder, &merged, &chart)?;
            let least = deployer_timeout_seconds(read.budget_seconds);
            Some(super::model::HookFacts {
                timeout_is_sufficient: map(&timeouts, |timeouts| timeouts.iter().all(|timeout| timeout.seconds >= least)),
                ..read
            })
        }
        ChartPlace::Local(_) | ChartPlace::Remote { .. } => None,
    };
    Ok(ReleaseFacts {
        kind,
        release_name: statement.release_name,
        namespace: statement.namespace,
        record_namespace: statement.record_namespace,
        position: statement.position,
        unknown_needs: BTreeSet::new(),
        unmet_needs: needs.iter().filter(|need| !statement.after.releases.contains(*need)).cloned().collect(),
        after: statement.after,
        chart,
        values: ValuesFacts { files: listed, missing, digest: digest(&merged), edits_act },
        timeout_seconds: map(&timeouts, |timeouts| timeouts.iter().map(|timeout| timeout.seconds).collect::<BTreeSet<u64>>()),
        skips_crds: if has_crds { statement.skips_crds } else { DeployerFact::Is(true) },
        creates_namespace: statement.creates_namespace,
        takes_ownership: statement.takes_ownership,
        waits_for_objects: statement.waits_for_objects,
        runs_hooks: statement.runs_hooks,
        undoes_failures: statement.undoes_failures,
        replaces_objects: statement.replaces_objects,
        prunes: statement.prunes,
        fired_by_every_commit: statement.fired_by_every_commit,
        same_cluster: statement.same_cluster,
        is_permitted: statement.is_permitted,
        reverts_live_changes: statement.reverts_live_changes,
        hook,
        evidence: FactEvidence {
            file: statement.file,
            gated_by: statement.gated_by,
            also_fired_by: statement.also_fired_by,
            timeouts: match timeouts {
                DeployerFact::Is(timeouts) => timeouts,
                DeployerFact::NotExpressible { .. } => Vec::new(),
            },
        },
    })
}

fn map<T, U>(fact: &DeployerFact<T>, with: impl FnOnce(&T) -> U) -> DeployerFact<U> {
    match fact {
        DeployerFact::Is(value) => DeployerFact::Is(with(value)),
        DeployerFact::NotExpressible { not_expressible } => DeployerFact::NotExpressible { not_expressible },
    }
}
