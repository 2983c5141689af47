//! What a deployer's own files state of a release: the vocabulary of the readers, and how it becomes facts.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::chart::{self, local};
use super::files::Files;
use super::model::{After, Chart, Evidence, Fact, Release, Timeout, Values};
use super::values::{digest, merged};
use super::{FactsError, hook};
use crate::contract::budget::deployer_timeout_seconds;
use crate::deployer::layout::VALUES;

/// What is stated of one release.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// The deployer's file that states it.
    pub(super) file: String,
    /// The release's name in the bundle.
    pub(super) name: String,
    /// The name of the Helm release.
    pub(super) release_name: String,
    /// Where it is installed.
    pub(super) namespace: String,
    /// Where Helm keeps its record.
    pub(super) record_namespace: Fact<String>,
    /// Its place, from 1.
    pub(super) position: Fact<usize>,
    /// What must have succeeded before.
    pub(super) after: After,
    /// The chart.
    pub(super) chart: Place,
    /// The version that is stated of a chart of the bundle, if one is.
    pub(super) stated_version: Option<String>,
    /// Values files below the bundle, in order. The values file of a chart of the bundle need not be among them.
    pub(super) values: Vec<String>,
    /// Values that stand in the deployer's own file, over all others.
    pub(super) inline: Option<Map<String, Value>>,
    /// Of which values files an edit is deployed although the chart's version stays.
    pub(super) edits_act: Edits,
    /// Every timeout of an operation.
    pub(super) timeouts: Fact<Vec<Timeout>>,
    /// As in [`Release`]; likewise below.
    pub(super) skips_crds: Fact<bool>,
    /// As above.
    pub(super) creates_namespace: Fact<bool>,
    /// As above.
    pub(super) takes_ownership: Fact<bool>,
    /// As above.
    pub(super) waits_for_objects: Fact<bool>,
    /// As above.
    pub(super) runs_hooks: Fact<bool>,
    /// As above.
    pub(super) undoes_failures: Fact<bool>,
    /// As above.
    pub(super) replaces_objects: Fact<bool>,
    /// As above.
    pub(super) prunes: Fact<bool>,
    /// As above.
    pub(super) fired_by_every_commit: Fact<bool>,
    /// As above.
    pub(super) same_cluster: Fact<bool>,
    /// As above.
    pub(super) is_permitted: Fact<bool>,
    /// As above.
    pub(super) reverts_live_changes: Fact<bool>,
    /// As in [`Evidence`]; likewise below.
    pub(super) gated_by: String,
    /// As above.
    pub(super) also_fired_by: String,
}

/// What all releases of a bundle state.
#[derive(Clone, Debug, Default)]
pub(super) struct Statements {
    /// A timeout over all of them, in seconds.
    pub(super) timeout_of_all: Option<u64>,
    /// One after the other.
    pub(super) releases: Vec<Statement>,
}

/// Of which values files an edit is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edits {
    /// Of all.
    All,
    /// Of those that the deployer's files name; not of one that only stands in a chart.
    Named,
    /// Of none.
    Ignored,
}

/// Where a chart lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
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
pub(super) fn release(files: &Files, statement: Statement, needs: &[String]) -> Result<Release, FactsError> {
    let (kind, chart) = match &statement.chart {
        Place::Remote { place, version } => ("upstream", Chart { place: place.clone(), version: version.clone(), ..Chart::default() }),
        Place::Local(folder) => {
            let chart = local(files, folder)?;
            let version = statement.stated_version.clone().or_else(|| chart.version.clone());
            (chart::kind(files, folder), Chart { version, ..chart })
        }
    };
    let mut listed = statement.values.clone();
    if let Place::Local(folder) = &statement.chart {
        let own = format!("{folder}/{VALUES}");
        // The hook chart's own values are its defaults; those of a chart of objects are the objects.
        if kind == "manifests" && files.get(&own).is_some() && !listed.contains(&own) {
            listed.insert(0, own);
        }
    }
    let acts = |path: &&String| match statement.edits_act {
        Edits::All => true,
        Edits::Named => statement.values.contains(path),
        Edits::Ignored => false,
    };
    let edits_act = listed.iter().filter(acts).cloned().collect();
    let missing = listed.iter().filter(|path| files.get(path).is_none()).cloned().collect();
    let merged = merged(files, &listed, statement.inline.as_ref())?;
    let timeouts = statement.timeouts.clone();
    let has_crds = match &statement.chart {
        Place::Local(folder) => files.below(folder).any(|(path, _)| path.starts_with("crds/")),
        Place::Remote { .. } => true,
    };
    let hook = match &statement.chart {
        Place::Local(folder) if kind == "hook" => {
            let read = hook::read(files, folder, &merged, &chart)?;
            let least = deployer_timeout_seconds(read.budget_seconds);
            Some(super::model::Hook {
                timeout_is_sufficient: map(&timeouts, |timeouts| timeouts.iter().all(|timeout| timeout.seconds >= least)),
                ..read
            })
        }
        Place::Local(_) | Place::Remote { .. } => None,
    };
    Ok(Release {
        kind,
        release_name: statement.release_name,
        namespace: statement.namespace,
        record_namespace: statement.record_namespace,
        position: statement.position,
        unknown_needs: BTreeSet::new(),
        unmet_needs: needs.iter().filter(|need| !statement.after.releases.contains(*need)).cloned().collect(),
        after: statement.after,
        chart,
        values: Values { files: listed, missing, digest: digest(&merged), edits_act },
        timeout_seconds: map(&timeouts, |timeouts| timeouts.iter().map(|timeout| timeout.seconds).collect::<BTreeSet<u64>>()),
        skips_crds: if has_crds { statement.skips_crds } else { Fact::Is(true) },
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
        evidence: Evidence {
            file: statement.file,
            gated_by: statement.gated_by,
            also_fired_by: statement.also_fired_by,
            timeouts: match timeouts {
                Fact::Is(timeouts) => timeouts,
                Fact::NotExpressible { .. } => Vec::new(),
            },
        },
    })
}

fn map<T, U>(fact: &Fact<T>, with: impl FnOnce(&T) -> U) -> Fact<U> {
    match fact {
        Fact::Is(value) => Fact::Is(with(value)),
        Fact::NotExpressible { not_expressible } => Fact::NotExpressible { not_expressible },
    }
}
