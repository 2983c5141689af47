//! `docs/rights.md` is made from the duty table; `UPDATE=1 cargo test --test docs` writes it.

use std::fmt::Write;

use gpu_rollout::contract::driver::Driver;
use gpu_rollout::contract::duty::{Duty, Object, RIGHTS, Right, Scope};
use gpu_rollout::contract::names::{LEASE_NAME, LEASE_NAMESPACE, NIC_CLUSTER_POLICY, OPERATOR_LEASE, PAUSE_NAME};

use crate::root;

const HEAD: &str = "# What the hook may do, and why

<!-- Made from src/contract/duty/table.rs; `UPDATE=1 cargo test --test docs` writes it anew. -->

Each hook Job runs under a ServiceAccount of its own release. Its roles are rendered from this table and hold nothing else: no Secrets, nothing about
CustomResourceDefinitions, and no writes to nodes but with the duties of the [modes](modes.md) that need them. At its start the hook asks the API server for every one of these rights and names all missing
ones in one message, before it writes anything.

A rule that names an object is restricted to it (`resourceNames`). RBAC cannot restrict `create`, nor an object whose name is not known beforehand.
";

/// The heading of a duty's table.
fn heading(duty: Option<Duty>) -> &'static str {
    match duty {
        None => "Every hook Job",
        Some(Duty::PrepareNetwork) => "Duty `prepare-network`: keep the NicClusterPolicy when the network operator's chart lets go of it",
        Some(Duty::Preflight) => "Duty `preflight`: look for what would stop the upgrade, before the operator sees the new spec",
        Some(Duty::Hold) => "Duty `hold`: keep every node where it is, before the operator sees the new spec",
        Some(Duty::Settle) => "Duty `settle`: wait until the operators have really finished",
        Some(Duty::Wake) => "Duty `wake`: wake the vendor's controller, and have failed nodes tried again (with `settle`)",
        Some(Duty::Steer) => "Duty `steer`: decide when each node goes (with `settle`)",
        Some(Duty::Drive) => "Duty `drive`: do the whole upgrade, node by node (with `settle`)",
        Some(Duty::Reroll) => "Duty `reroll`: replace the DRA kubelet plugins that would go on serving the old driver",
        Some(Duty::RestartPlugins) => {
            "Duty `restart-plugins`: restart device plugin, GPU feature discovery and MPS daemon where a changed configuration needs it"
        }
    }
}

fn scope(scope: Scope) -> String {
    match scope {
        Scope::Cluster => "the cluster (ClusterRole)".to_owned(),
        Scope::Release => "the hook's namespace".to_owned(),
        Scope::Default => format!("namespace `{LEASE_NAMESPACE}`"),
        Scope::Operator => "the operator's namespace (`rollout.operatorNamespace`; `rollout.daemonSet.namespace`)".to_owned(),
        Scope::Dra => "each namespace of `rollout.dra.namespaces`".to_owned(),
        Scope::DevicePlugin => "the device plugin's namespace (`rollout.devicePlugin.namespace`)".to_owned(),
    }
}

fn object(object: Object) -> String {
    match object {
        Object::Any => "any".to_owned(),
        Object::Job => "its own Job".to_owned(),
        Object::Record => "its own run record".to_owned(),
        Object::Lease => format!("`{LEASE_NAME}`"),
        Object::Pauses => format!("`{PAUSE_NAME}`"),
        Object::OperatorDeployment => {
            let of = |driver: Driver| format!("`{}` (driver `{}`)", driver.traits().operator_deployment, driver.traits().name);
            let drivers: Vec<String> = Driver::ALL.into_iter().filter(|driver| driver.has_operator()).map(of).collect();
            format!("{}, or `rollout.operatorDeployment`", drivers.join(", "))
        }
        Object::OperatorLease => format!("`{OPERATOR_LEASE}`"),
        Object::DriverDaemonSet => "the one of `rollout.daemonSet.name`".to_owned(),
        Object::NicClusterPolicy => format!("`{NIC_CLUSTER_POLICY}`"),
        Object::DevicePluginConfig => "the one that the component's values name".to_owned(),
        Object::ClusterPolicy => "the one of `rollout.clusterPolicy`".to_owned(),
        Object::DraNamespaces => "those of `rollout.dra.namespaces`".to_owned(),
    }
}

fn row(right: &Right) -> String {
    let resource = if right.group.is_empty() { right.resource.to_owned() } else { format!("{}.{}", right.resource, right.group) };
    let only = right.driver.map(|driver| format!(" (driver `{}`)", driver.traits().name)).unwrap_or_default();
    format!("| `{resource}`{only} | {} | {} | {} | {} |", right.verbs.join(", "), object(right.object), scope(right.scope), right.why)
}

#[test]
fn rights_are_those_of_the_duty_table() {
    let mut expected = HEAD.to_owned();
    for duty in std::iter::once(None).chain(Duty::ALL.map(Some)) {
        write!(expected, "\n## {}\n\n| Resource | Verbs | Objects | Where | What for |\n|---|---|---|---|---|\n", heading(duty)).unwrap();
        for right in RIGHTS.iter().filter(|right| right.duty == duty) {
            writeln!(expected, "{}", row(right)).unwrap();
        }
    }
    let path = root("docs/rights.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "docs/rights.md is stale: UPDATE=1 cargo test --test docs");
}
