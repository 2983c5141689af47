//! What the server has allowed a moment ago.

use k8s_openapi::api::authorization::v1::ResourceAttributes;

/// A collection that was listed and is being watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedAccess {
    group: String,
    resource: String,
    /// `None`: in all namespaces, or it has none.
    namespace: Option<String>,
    /// `None`: all objects.
    name: Option<String>,
}

impl GrantedAccess {
    /// From the path of a collection. `None`: the path is of another form than those of the API, and says nothing.
    pub fn from_path(path: &str, name: Option<&str>) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => return None,
        };
        let (namespace, resource) = match rest {
            ["namespaces", namespace, resource] => (Some((*namespace).to_owned()), *resource),
            [resource] => (None, *resource),
            _ => return None,
        };
        Some(Self { group: group.to_owned(), resource: resource.to_owned(), namespace, name: name.map(str::to_owned) })
    }

    /// Whether whoever was shown this has the right that is asked for.
    pub fn covers(&self, question: &ResourceAttributes) -> bool {
        let within = |whole: &Option<String>, part: &Option<String>| whole.is_none() || whole == part;
        matches!(question.verb.as_deref(), Some("list" | "watch"))
            && question.group.as_deref() == Some(&self.group)
            && question.resource.as_deref() == Some(&self.resource)
            && question.subresource.is_none()
            && within(&self.namespace, &question.namespace)
            && within(&self.name, &question.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(verb: &str, group: &str, resource: &str, namespace: Option<&str>, name: Option<&str>) -> ResourceAttributes {
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
    fn what_was_shown_answers_for_itself_and_for_what_is_within_it_alone() {
        let nodes = GrantedAccess::from_path("/api/v1/nodes", None).unwrap();
        let pods = GrantedAccess::from_path("/api/v1/namespaces/gpu-operator/pods", None).unwrap();
        let policy = GrantedAccess::from_path("/apis/nvidia.com/v1/clusterpolicies", Some("a")).unwrap();
        let budgets = GrantedAccess::from_path("/apis/policy/v1/poddisruptionbudgets", None).unwrap();
        for (shown, question, expected) in [
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
            (&budgets, question("list", "policy", "poddisruptionbudgets", Some("default"), None), true),
        ] {
            assert_eq!(shown.covers(&question), expected, "{shown:?}: {question:?}");
        }
        let status = ResourceAttributes { subresource: Some("status".to_owned()), ..question("list", "", "nodes", None, None) };
        assert!(!nodes.covers(&status));
    }

    #[test]
    fn a_path_of_another_form_shows_nothing() {
        for path in ["", "/version", "/api/v1", "/apis/apps/v1", "/api/v1/nodes/a/proxy", "/apis/apps/v1/namespaces/a/daemonsets/b"] {
            assert_eq!(GrantedAccess::from_path(path, None), None, "{path}");
        }
    }
}
