//! RBAC as the chart renders it from the task table. In every test, a request without a right is a
//! bug.

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::names;
use contract::record::{OBJECTS, object_name};
use contract::settings::Settings;
use contract::task::{RIGHTS, RightScope, RightTarget, rights};

use super::request::Request;

/// A right: one verb on one resource, with namespace and name.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    /// The row of the table.
    pub(crate) row: usize,
    pub(crate) verb: &'static str,
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    /// `None`: a ClusterRole.
    pub(crate) namespace: Option<String>,
    /// `None`: any.
    pub(crate) name: Option<String>,
}

/// Returns the rights of the ServiceAccount of a release with these settings.
pub(crate) fn grants(settings: &Settings) -> Vec<Grant> {
    let mut all = Vec::new();
    for right in rights(settings) {
        let row = RIGHTS.iter().position(|row| row == right).unwrap();
        let namespaces: Vec<Option<String>> = match right.scope {
            RightScope::Cluster => vec![None],
            RightScope::Release => vec![Some(settings.namespace.clone())],
            RightScope::Default => vec![Some("default".into())],
            RightScope::Operator => vec![Some(settings.operator_namespace.clone())],
            RightScope::Dra => settings.dra.namespaces.iter().cloned().map(Some).collect(),
            RightScope::DevicePlugin => vec![Some(settings.device_plugin.namespace.clone())],
            RightScope::Acceptance => vec![Some(ACCEPTANCE_NAMESPACE.into())],
        };
        let objects: Vec<Option<String>> = match right.object {
            RightTarget::Any => vec![None],
            RightTarget::Job => vec![Some(settings.release.clone())],
            RightTarget::Record => {
                (0..OBJECTS).map(|index| Some(object_name(&settings.record, index))).collect()
            }
            RightTarget::Lease => vec![Some(names::LEASE_NAME.into())],
            RightTarget::Pauses => vec![Some(names::PAUSE_NAME.into())],
            RightTarget::OperatorDeployment => vec![Some(settings.operator_deployment().into())],
            RightTarget::OperatorLease => vec![Some(names::OPERATOR_LEASE.into())],
            RightTarget::DriverDaemonSet => settings.daemon_set.iter().cloned().map(Some).collect(),
            RightTarget::ClusterPolicy => vec![Some(settings.cluster_policy.clone())],
            RightTarget::NicClusterPolicy => vec![Some(names::NIC_CLUSTER_POLICY.into())],
            RightTarget::DraNamespaces => {
                settings.dra.namespaces.iter().cloned().map(Some).collect()
            }
            RightTarget::DevicePluginConfig => {
                settings.device_plugin.config_map.iter().cloned().map(Some).collect()
            }
        };
        for verb in right.verbs {
            for namespace in &namespaces {
                for name in &objects {
                    let (namespace, name) = (namespace.clone(), name.clone());
                    all.push(Grant {
                        row,
                        verb,
                        group: right.group,
                        resource: right.resource,
                        namespace,
                        name,
                    });
                }
            }
        }
    }
    all
}

impl Grant {
    /// Returns a right outside of the table, for tests of single calls.
    pub(crate) fn everywhere(
        verb: &'static str,
        group: &'static str,
        resource: &'static str,
    ) -> Self {
        Self { row: usize::MAX, verb, group, resource, namespace: None, name: None }
    }

    pub(crate) fn covers(
        &self,
        verb: &str,
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> bool {
        // For RBAC, the namespace of a Namespace object is the object itself. A rule of a
        // ClusterRole covers it too.
        self.verb == verb
            && self.group == group
            && self.resource == resource
            && self.namespace.as_ref().is_none_or(|own| own == namespace)
            && self.name.as_ref().is_none_or(|own| own == name)
    }

    pub(crate) fn covers_request(&self, request: &Request) -> bool {
        self.covers(
            request.verb,
            &request.group,
            &request.resource,
            &request.namespace,
            &request.name,
        )
    }

    /// Returns the short form that tests use to deny it, such as `delete pods`.
    pub(crate) fn short(&self) -> String {
        format!("{} {}", self.verb, self.resource)
    }
}
