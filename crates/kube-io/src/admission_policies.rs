//! The admission policies of hook releases (`rollout.admissionPolicy` in the hook chart).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use serde::Deserialize;

use super::api_collection::ApiCollection;
use super::call::CallError;
use super::list::list_pages;
use super::list_watch::ObjectSelection;

/// The label that the hook chart sets on all its objects.
const SELECTOR: &str = "app.kubernetes.io/name=gpu-rollout";
/// What the names of the policies begin with (`_admission.tpl` of the hook chart).
const PREFIX: &str = "gpu-rollout.";

/// An admission policy of a hook release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleasePolicy {
    /// Name of the policy, and of its binding.
    pub name: String,
    /// Namespace of the release.
    pub namespace: String,
    /// Name of the release.
    pub release: String,
}

impl ReleasePolicy {
    /// Reads `gpu-rollout.NAMESPACE.RELEASE.nodes`. A release's name may contain dots, and a
    /// namespace's name does not.
    fn from_name(name: String) -> Option<Self> {
        let (namespace, rest) = name.strip_prefix(PREFIX)?.split_once('.')?;
        let (release, _) = rest.rsplit_once('.')?;
        let (namespace, release) = (namespace.to_owned(), release.to_owned());
        Some(Self { name, namespace, release })
    }
}

#[derive(Deserialize)]
struct NamedObject {
    metadata: ObjectMeta,
}

/// Lists the admission policies of all hook releases. RBAC: `list` on
/// `validatingadmissionpolicies.admissionregistration.k8s.io`.
///
/// # Errors
/// The call failed.
pub async fn release_policies(client: &Client) -> Result<Vec<ReleasePolicy>, CallError> {
    let resource = ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies");
    let mut policies = Vec::new();
    let each = |object: NamedObject| {
        policies.extend(object.metadata.name.and_then(ReleasePolicy::from_name));
    };
    let collection = ApiCollection::new(client, resource, None);
    list_pages(&collection, &ObjectSelection::matching(SELECTOR), each).await?;
    Ok(policies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_policy_has_namespace_and_release() {
        for (name, expected) in [
            ("gpu-rollout.gpu-operator.post.nodes", Some(("gpu-operator", "post"))),
            ("gpu-rollout.gpu-operator.post.v2.objects", Some(("gpu-operator", "post.v2"))),
            ("gpu-rollout.post", None),
            ("another.gpu-operator.post.nodes", None),
        ] {
            let found = ReleasePolicy::from_name(name.to_owned());
            let found = found.map(|policy| (policy.namespace, policy.release));
            let expected = expected.map(|(one, other)| (one.to_owned(), other.to_owned()));
            assert_eq!(found, expected, "{name}");
        }
    }
}
