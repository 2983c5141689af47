//! Finds the admission policies of hook releases that no longer exist or have disabled them. Argo CD
//! does not delete them.

use std::collections::BTreeSet;

use contract::settings::Settings;
use kube::Client;
use kube_io::admission_policies::{ReleasePolicy, release_policies};
use kube_io::call::CallError;

use super::{DoctorFinding, DoctorSeverity};
use crate::remedy::Remedy;

/// Returns a finding about policies that are left. `hooks`: the settings of all hook releases, or of
/// those in `namespace`; without one of them, its policies would seem to be left. RBAC: `list` on
/// `validatingadmissionpolicies.admissionregistration.k8s.io`.
///
/// # Errors
/// The policies cannot be listed.
pub async fn left_policies(
    client: &Client,
    hooks: impl Iterator<Item = &Settings>,
    namespace: Option<&str>,
) -> Result<Option<DoctorFinding>, CallError> {
    let wanted: BTreeSet<(&str, &str)> = hooks
        .filter(|settings| settings.admission_policy)
        .map(|settings| (settings.namespace.as_str(), settings.release.as_str()))
        .collect();
    let is_left = |policy: &ReleasePolicy| {
        namespace.is_none_or(|namespace| namespace == policy.namespace)
            && !wanted.contains(&(policy.namespace.as_str(), policy.release.as_str()))
    };
    let policies = match release_policies(client).await {
        // The API server does not serve admission policies.
        Err(CallError::NotFound(_)) => Vec::new(),
        policies => policies?,
    };
    let left: Vec<String> =
        policies.into_iter().filter(is_left).map(|policy| policy.name).collect();
    Ok((!left.is_empty()).then(|| {
        let names = left.join(" ");
        DoctorFinding::new(
            "left-policies",
            DoctorSeverity::Problem,
            Vec::new(),
            format!(
                "admission policies are left of hook releases that are gone or have disabled them: {}; they deny the Lease to hooks without policies, and pauses to users whom they do not name",
                left.join(", ")
            ),
            Remedy::words("delete the policies and their bindings").run(format!(
                "kubectl delete --ignore-not-found validatingadmissionpolicies,validatingadmissionpolicybindings {names}"
            )),
        )
    }))
}
