//! The doctor's report on a cluster: the findings of the checks of each rollout, of the rights of
//! hooks and of the recipe rules.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use diagnostics::diagnostic::{Diagnostic, Diagnostics, Severity};
use diagnostics::lint::Lint;
use kube_io::access::missing_rights_of;
use kube_io::call::CallError;

use super::left_policies::left_policies;
use super::{DoctorFinding, DoctorSeverity, examine};
use crate::deployed::{DEPLOYED_LINTS, DeployedRecipe};
use crate::observe::{ObserveError, RolloutSnapshot};
use crate::remedy::Remedy;
use crate::session::ClusterSession;
use crate::status::status;

/// The `-o json` document of `doctor`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorReport {
    /// The deployed components of the catalog.
    pub components: Vec<ComponentSummary>,
    /// The problems and warnings, problems first.
    pub findings: Vec<DoctorFinding>,
    /// Notes for people, for example about what could not be read.
    pub notes: Vec<String>,
    /// The findings of the recipe rules, with their places in the recipe.
    #[serde(skip)]
    pub diagnostics: Diagnostics,
}

/// A deployed component, without its values, which may contain private data.
#[derive(Serialize, JsonSchema)]
pub struct ComponentSummary {
    /// Name of the component in the catalog.
    pub name: String,
    /// Version of the chart.
    pub version: String,
    /// Namespace of the release.
    pub namespace: String,
}

impl DoctorReport {
    /// Creates the report. `namespace`: the only namespace in which the session looked for hook
    /// releases. RBAC: `create` on `subjectaccessreviews` for the rights of hooks, and `list` on
    /// `validatingadmissionpolicies.admissionregistration.k8s.io`; a refusal becomes a note.
    ///
    /// # Errors
    /// A call failed.
    pub async fn new(
        session: &ClusterSession,
        snapshots: &[RolloutSnapshot],
        deployed: DeployedRecipe,
        namespace: Option<&str>,
    ) -> Result<Self, ObserveError> {
        let mut notes: Vec<String> =
            session.notes().iter().chain(&deployed.notes).cloned().collect();
        let mut findings: Vec<DoctorFinding> =
            snapshots.iter().flat_map(|snapshot| examine(snapshot, &status(snapshot))).collect();
        findings.extend(missing_rights(session, snapshots, &mut notes).await?);
        let unchecked = "cannot check for admission policies that are left";
        if session.notes().is_empty() {
            match left_policies(session.client(), session.hooks(), namespace).await {
                Ok(finding) => findings.extend(finding),
                Err(CallError::Forbidden(message)) => notes.push(format!("{unchecked}: {message}")),
                Err(error) => return Err(error.into()),
            }
        } else {
            // The policies of a release that could not be read would seem to be left.
            notes.push(format!("{unchecked}, because not all hook releases could be read"));
        }
        let diagnostics = deployed.check(&mut notes);
        findings.extend(diagnostics.list.iter().map(rule_finding));
        findings.sort_by_key(|finding| finding.severity);
        let components = deployed.components.into_iter().map(|component| ComponentSummary {
            name: component.name,
            version: component.version.unwrap_or_default(),
            namespace: component.namespace.unwrap_or_default(),
        });
        Ok(Self { components: components.collect(), findings, notes, diagnostics })
    }

    /// Returns whether there is a finding with severity `problem`.
    pub fn has_problems(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == DoctorSeverity::Problem)
    }

    /// Returns the findings that are not about the recipe.
    pub fn cluster_findings(&self) -> impl Iterator<Item = &DoctorFinding> {
        self.findings
            .iter()
            .filter(|finding| DEPLOYED_LINTS.iter().all(|lint| lint.name() != finding.check))
    }
}

async fn missing_rights(
    session: &ClusterSession,
    snapshots: &[RolloutSnapshot],
    notes: &mut Vec<String>,
) -> Result<Vec<DoctorFinding>, ObserveError> {
    let namespaces: BTreeSet<&String> =
        snapshots.iter().flat_map(|snapshot| &snapshot.observed.dra.namespaces).collect();
    let namespaces: Vec<String> = namespaces.into_iter().cloned().collect();
    let mut findings = Vec::new();
    for settings in session.hooks() {
        match missing_rights_of(session.client(), settings, &namespaces).await {
            Ok(missing) if missing.is_empty() => {}
            Ok(missing) => findings.push(DoctorFinding::new(
                "missing-rights",
                DoctorSeverity::Problem,
                Vec::new(),
                format!("the hook {}/{} may not {}", settings.namespace, settings.release, missing.join("; nor ")),
                Remedy::words("deploy its release again: its chart contains the rules that docs/rights.md lists"),
            )),
            Err(CallError::Forbidden(message)) => notes.push(format!("cannot check the rights of hooks: {message}")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(findings)
}

fn rule_finding(diagnostic: &Diagnostic) -> DoctorFinding {
    let severity = match diagnostic.severity {
        Severity::Error => DoctorSeverity::Problem,
        Severity::Warning => DoctorSeverity::Warning,
    };
    let name = diagnostic.lint.map_or("", Lint::name);
    DoctorFinding::new(
        name,
        severity,
        Vec::new(),
        diagnostic.message.to_string(),
        Remedy::words(diagnostic.hints.join("; ")),
    )
}
