//! Access that the API server has recently granted.

use k8s_openapi::api::authorization::v1::ResourceAttributes;

use super::api_collection::CollectionAddress;

/// A collection, or one object of it, that was listed and is being watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedAccess {
    address: CollectionAddress,
    /// The name of the object. `None`: all objects.
    name: Option<String>,
}

impl GrantedAccess {
    /// Returns the access to the object of a collection with this name, or to all objects without a
    /// name.
    pub(crate) fn new(address: &CollectionAddress, name: Option<&str>) -> Self {
        Self { address: address.clone(), name: name.map(str::to_owned) }
    }

    /// Returns whether this access proves the right that a review asks for.
    pub(crate) fn covers(&self, question: &ResourceAttributes) -> bool {
        let within =
            |whole: &Option<String>, part: &Option<String>| whole.is_none() || whole == part;
        matches!(question.verb.as_deref(), Some("list" | "watch"))
            && question.group.as_deref() == Some(self.address.group())
            && question.resource.as_deref() == Some(&self.address.resource)
            && question.subresource.is_none()
            && within(&self.address.namespace, &question.namespace)
            && within(&self.name, &question.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_collection::{NODES, PODS};

    fn question(
        verb: &str,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> ResourceAttributes {
        ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            ..ResourceAttributes::default()
        }
    }

    #[test]
    fn granted_access_covers_itself_and_its_parts_only() {
        let granted = |resource, namespace, name| {
            GrantedAccess::new(&CollectionAddress::new(resource, namespace), name)
        };
        let nodes = granted(NODES, None, None);
        let pods = granted(PODS, Some("gpu-operator"), None);
        let policy = granted(("nvidia.com/v1", "clusterpolicies"), None, Some("a"));
        let budgets = granted(("policy/v1", "poddisruptionbudgets"), None, None);
        for (granted, question, expected) in [
            (&nodes, question("list", "", "nodes", None, None), true),
            (&nodes, question("watch", "", "nodes", None, None), true),
            (&nodes, question("patch", "", "nodes", None, None), false),
            (&nodes, question("list", "", "pods", None, None), false),
            (&pods, question("list", "", "pods", Some("gpu-operator"), None), true),
            (&pods, question("list", "", "pods", Some("default"), None), false),
            (&pods, question("list", "", "pods", None, None), false),
            (&pods, question("delete", "", "pods", Some("gpu-operator"), None), false),
            (&policy, question("watch", "nvidia.com", "clusterpolicies", None, Some("a")), true),
            (&policy, question("watch", "nvidia.com", "clusterpolicies", None, Some("b")), false),
            (&policy, question("watch", "nvidia.com", "clusterpolicies", None, None), false),
            (&policy, question("watch", "mellanox.com", "clusterpolicies", None, Some("a")), false),
            (
                &budgets,
                question("list", "policy", "poddisruptionbudgets", Some("default"), None),
                true,
            ),
        ] {
            assert_eq!(granted.covers(&question), expected, "{granted:?}: {question:?}");
        }
        let status = ResourceAttributes {
            subresource: Some("status".to_owned()),
            ..question("list", "", "nodes", None, None)
        };
        assert!(!nodes.covers(&status));
    }
}
