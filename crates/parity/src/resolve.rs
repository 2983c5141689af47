//! Resolves a deployer's declarations about a release to facts.

use std::collections::BTreeSet;

use crate::ReadbackError;
use crate::chart::{self, local};
use crate::declared::{ChartLocation, DeclaredRelease, DeployedEdits};
use crate::facts::{ChartFacts, DeployerFact, FactEvidence, HookFacts, ReleaseFacts, ValuesFacts};
use crate::files::TextFiles;
use crate::hook;
use crate::values::{digest, merged};
use contract::budget::deployer_timeout_seconds;
use contract::chart_files::VALUES;

/// Resolves a deployer's declarations about a release, and the files that it names, to facts.
/// `needs` are the releases that must succeed before it.
///
/// # Errors
/// A file of the chart, or a values file, cannot be read.
pub(crate) fn resolve_release(
    files: &TextFiles,
    declared: DeclaredRelease,
    needs: &[String],
) -> Result<ReleaseFacts, ReadbackError> {
    let (kind, chart) = resolve_chart(files, &declared)?;
    let read = values_files(files, &declared, kind);
    let values = merged(files, &read, declared.inline.as_ref())?;
    let original = merged(files, declared.copied.as_slice(), None)?;
    // A correct copy of a file means the same as the file.
    let (listed, differs_from) = match &declared.copied {
        Some(file) if original == values => (vec![file.clone()], None),
        copied => (read, copied.clone()),
    };
    let hook = match &declared.chart {
        ChartLocation::Local(folder) if kind == "hook" => {
            let read = hook::read(files, folder, &values, &chart)?;
            Some(with_timeouts(read, &declared))
        }
        ChartLocation::Local(_)
        | ChartLocation::Remote { .. }
        | ChartLocation::Kustomization { .. } => None,
    };
    let digest = digest(&values);
    let values = ValuesFacts {
        edits_act: map(&declared.edits_act, |edits| deployed_edits(&listed, *edits, &declared)),
        missing: listed.iter().filter(|path| files.get(path).is_none()).cloned().collect(),
        differs_from,
        digest,
        files: listed,
    };
    let has_crds = has_crds(files, &declared.chart);
    Ok(ReleaseFacts {
        unmet_needs: unmet_needs(needs, &declared),
        kind,
        release_name: declared.release_name,
        namespace: declared.namespace,
        record_namespace: declared.record_namespace,
        position: declared.position,
        unknown_needs: BTreeSet::new(),
        after: declared.after,
        chart,
        values,
        timeout_seconds: map(&declared.timeouts, |timeouts| {
            timeouts.iter().map(|timeout| timeout.seconds).collect::<BTreeSet<u64>>()
        }),
        skips_crds: if has_crds { declared.skips_crds } else { DeployerFact::Is(true) },
        creates_namespace: declared.creates_namespace,
        takes_ownership: declared.takes_ownership,
        waits_for_objects: declared.waits_for_objects,
        runs_hooks: declared.runs_hooks,
        undoes_failures: declared.undoes_failures,
        replaces_objects: declared.replaces_objects,
        prunes: declared.prunes,
        fired_by_every_commit: declared.fired_by_every_commit,
        same_cluster: declared.same_cluster,
        is_permitted: declared.is_permitted,
        reverts_live_changes: declared.reverts_live_changes,
        hook,
        evidence: FactEvidence {
            file: declared.file,
            gated_by: declared.gated_by,
            also_fired_by: declared.also_fired_by,
            timeouts: match declared.timeouts {
                DeployerFact::Is(timeouts) => timeouts,
                DeployerFact::NotExpressible { .. } => Vec::new(),
            },
        },
    })
}

/// Returns the kind of a chart's release, and the facts of the chart.
fn resolve_chart(
    files: &TextFiles,
    declared: &DeclaredRelease,
) -> Result<(&'static str, ChartFacts), ReadbackError> {
    Ok(match &declared.chart {
        ChartLocation::Remote { place, version } => (
            "upstream",
            ChartFacts { place: place.clone(), version: version.clone(), ..ChartFacts::default() },
        ),
        ChartLocation::Kustomization { place, revision } => (
            "kustomization",
            ChartFacts {
                place: place.clone(),
                version: Some(revision.clone()),
                ..ChartFacts::default()
            },
        ),
        ChartLocation::Local(folder) => {
            let chart = local(files, folder)?;
            let version = declared.declared_version.clone().or_else(|| chart.version.clone());
            (chart::kind(files, folder), ChartFacts { version, ..chart })
        }
    })
}

/// Returns the paths of the values files of a release, in the order in which they are merged.
fn values_files(files: &TextFiles, declared: &DeclaredRelease, kind: &str) -> Vec<String> {
    let mut listed = declared.values.clone();
    if let ChartLocation::Local(folder) = &declared.chart {
        let own = format!("{folder}/{VALUES}");
        // The hook chart's own values file contains its defaults; that of a chart of objects
        // contains the objects.
        if kind == "manifests" && files.get(&own).is_some() && !listed.contains(&own) {
            listed.insert(0, own);
        }
    }
    listed
}

/// Completes the facts of a hook: whether the deployer waits long enough for its Job.
fn with_timeouts(hook: HookFacts, declared: &DeclaredRelease) -> HookFacts {
    let least = deployer_timeout_seconds(hook.budget_seconds);
    let timeout_is_sufficient =
        map(&declared.timeouts, |timeouts| timeouts.iter().all(|timeout| timeout.seconds >= least));
    HookFacts { timeout_is_sufficient, ..hook }
}

/// Returns whether the chart may have a directory of CRDs: a chart that is not in the bundle may.
fn has_crds(files: &TextFiles, chart: &ChartLocation) -> bool {
    match chart {
        ChartLocation::Local(folder) => {
            files.below(folder).any(|(path, _)| path.starts_with("crds/"))
        }
        ChartLocation::Remote { .. } => true,
        ChartLocation::Kustomization { .. } => false,
    }
}

/// Returns the releases that the deployer does not deploy before this one.
fn unmet_needs(needs: &[String], declared: &DeclaredRelease) -> BTreeSet<String> {
    needs.iter().filter(|need| !declared.after.releases.contains(*need)).cloned().collect()
}

/// Returns the values files whose edits are deployed.
fn deployed_edits(
    listed: &[String],
    edits: DeployedEdits,
    declared: &DeclaredRelease,
) -> Vec<String> {
    let acts = |path: &&String| match edits {
        DeployedEdits::All => true,
        DeployedEdits::Named => declared.values.contains(path),
        DeployedEdits::Ignored => false,
    };
    listed.iter().filter(acts).cloned().collect()
}

fn map<T, U>(fact: &DeployerFact<T>, with: impl FnOnce(&T) -> U) -> DeployerFact<U> {
    match fact {
        DeployerFact::Is(value) => DeployerFact::Is(with(value)),
        DeployerFact::NotExpressible { not_expressible } => {
            DeployerFact::NotExpressible { not_expressible }
        }
    }
}
