//! `docs/rights.md` is generated from the table of rights. `UPDATE=1` updates it.

use std::collections::BTreeSet;
use std::fmt::Write;

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::driver::Driver;
use contract::names::{
    LEASE_NAME, LEASE_NAMESPACE, NIC_CLUSTER_POLICY, OPERATOR_LEASE, PAUSE_NAME,
};
use contract::task::{
    AllowedNodeChanges, NODE_CHANGES, NodeChange, RIGHTS, Right, RightCondition, RightScope,
    RightTarget, Task,
};

use crate::root;

const HEAD: &str = "# Rights of the hook

<!-- Made from crates/contract/src/task/rights.rs; `UPDATE=1 cargo test --test docs` updates it. -->

This page lists every right (RBAC permission) of the hook for cluster administrators and security
reviewers: on which objects, in which scope, and for what purpose.

* Each hook Job runs under the ServiceAccount of its own release.
* The chart renders the hook's roles from these tables. The roles contain nothing else: no access to
  Secrets or CustomResourceDefinitions, and writes to nodes only for the tasks that need them
  ([which mode has which task](modes.md#tasks-of-the-hook-releases)).
* When the hook starts, it asks the API server for each of these rights. It names all missing rights
  in one message, before it writes anything.
* A rule that names an object is restricted to that object (`resourceNames`). RBAC cannot restrict
  `create`, or an object whose name is not known in advance.
* [Optional admission policies](#optional-admission-policies) narrow what RBAC cannot.

Each hook release gets the rights in the first table and those in the tables of its tasks. A row
that names a driver is only for hooks of that driver (`rollout.driver`). A row that names a setting
is only for hooks with that setting.
";

const ADMISSION_POLICIES: &str = "
## Optional admission policies

RBAC cannot restrict which parts of a node `patch nodes` changes. In addition, all users with the
role `edit` in namespace `default` may write the Lease and the pauses there. Set
`rollout.admissionPolicy.enabled: true` in the chart's values, or in the recipe, to add two
ValidatingAdmissionPolicies to each hook release. They work the same with every deployer. They are
cluster-scoped, have the name `gpu-rollout.NAMESPACE.RELEASE.nodes` and
`gpu-rollout.NAMESPACE.RELEASE.objects`, and are removed with the release. The identity that
installs the chart needs the right to create ValidatingAdmissionPolicies and their bindings.

**Nodes.** The hook of the release may change labels and annotations with the prefix
`gpu-rollout.dev/`, and what the following table lists for its tasks. A cordon is
`spec.unschedulable` and its taint `node.kubernetes.io/unschedulable`. The API server denies all
other changes, such as taints, finalizers and foreign labels. The policy applies to no other client.
";

const OBJECT_POLICY: &str = "
**Objects.** Only the identities in the table below may write these objects:

* the Lease `gpu-rollout` and the ConfigMap `gpu-rollout-pause` in `default`,
* the trigger and the run record of the release (`RELEASE-trigger`, `RELEASE-record…`).

Before you enable the policies, name your on-call group in `rollout.admissionPolicy.groups`:
otherwise only administrators can pause, resume or abort.

| Identity | How the policy recognizes it |
|---|---|
| hooks of all releases with the policies | the right `coordinate` on `rollouts.gpu-rollout.dev` in `default`, which their Roles contain |
| cluster administrators, and deployers that may install the chart with the policies | the same right, because RBAC lets an identity grant only rights that it has; or the right to update the policy itself |
| users of `gpu-rollout pause`, `resume`, `skip`, `unskip`, `retry`, `abort`; hooks of releases without the policies | `rollout.admissionPolicy.users` and `groups` |
| Kubernetes' own controllers in `kube-system`, which delete the objects of a deleted namespace, and remove finalizers | their names, only for deletions and for updates that change no data |

To allow a hook without the policies, such as that of an older chart version, add its user name
`system:serviceaccount:NAMESPACE:RELEASE` to `rollout.admissionPolicy.users`.

**Limits.**

* Enable the policies only while `gpu-rollout status` says `done`. Otherwise, a running hook whose
  release has no policies loses the Lease.
* A user who can impersonate the hook's ServiceAccount, or run pods with it, has its rights. The
  role `edit` allows both, so grant `edit` in the namespaces of hook releases only to
  administrators.
* Argo CD deletes no object of a bundle. After you disable the policies with Argo CD, or delete a
  namespace without its release, delete the policies by hand, or no hook without policies gets the
  Lease. `gpu-rollout doctor` finds such policies, and prints the command.
* If a mutating webhook adds labels, annotations or taints to each changed node, its additions count
  as the hook's, and are denied.

If a write to a node is denied, only that node fails: its run record, `gpu-rollout status` and
`gpu-rollout why` show the policy's message. If a write to the Lease is denied, the hook ends and
changes no node.
";

/// Returns what a task changes on nodes, as a row.
fn change_row(change: &NodeChange, driver: Driver) -> Option<String> {
    let allowed = AllowedNodeChanges::of_task(change.task, driver)?;
    let list = |keys: &BTreeSet<&str>| {
        keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
    };
    Some(format!(
        "| `{}` | `{}` | {} | {} | {} |",
        change.task.name(),
        driver.traits().name,
        match (allowed.cordon, allowed.uncordon) {
            (true, _) => "sets and removes",
            (false, true) => "removes",
            (false, false) => "no",
        },
        list(&allowed.labels),
        list(&allowed.annotations)
    ))
}

/// Returns the heading of a task's table.
fn heading(task: Option<Task>) -> &'static str {
    match task {
        None => "Every hook Job",
        Some(Task::PrepareNetwork) => {
            "Task `prepare-network`: retain the NicClusterPolicy when the Network Operator's chart drops it"
        }
        Some(Task::Preflight) => {
            "Task `preflight`: check the cluster before the operator sees the new spec"
        }
        Some(Task::Hold) => "Task `hold`: hold every node before the operator sees the new spec",
        Some(Task::Settle) => "Task `settle`: wait until the operators have finished on every node",
        Some(Task::Wake) => {
            "Task `wake`: wake NVIDIA's controller and retry failed nodes (with `settle`)"
        }
        Some(Task::Steer) => "Task `steer`: decide when each node is upgraded (with `settle`)",
        Some(Task::Drive) => "Task `drive`: upgrade node by node (with `settle`)",
        Some(Task::Reroll) => "Task `reroll`: replace stale DRA kubelet plugins",
        Some(Task::RestartPlugins) => {
            "Task `restart-plugins`: restart device plugin, GPU feature discovery and MPS daemon after a configuration change"
        }
    }
}

fn scope(right: &Right) -> String {
    match right.scope {
        RightScope::Cluster => "the cluster (ClusterRole)".to_owned(),
        RightScope::Release => "the hook's namespace".to_owned(),
        RightScope::Default => format!("namespace `{LEASE_NAMESPACE}`"),
        RightScope::Operator => {
            let (operator, own) = (
                "the operator's namespace (`rollout.operatorNamespace`)",
                "the DaemonSet's namespace (`rollout.daemonSet.namespace`)",
            );
            match right.driver {
                None => format!(
                    "{operator}; with the driver `{}`, {own}",
                    Driver::DaemonSet.traits().name
                ),
                Some(driver) if driver.has_operator() => operator.to_owned(),
                Some(_) => own.to_owned(),
            }
        }
        RightScope::Dra => "each namespace in `rollout.dra.namespaces`".to_owned(),
        RightScope::DevicePlugin => {
            "the device plugin's namespace (`rollout.devicePlugin.namespace`)".to_owned()
        }
        RightScope::Acceptance => format!("namespace `{ACCEPTANCE_NAMESPACE}`"),
    }
}

fn object(right: &Right) -> String {
    match right.object {
        RightTarget::Any => "any".to_owned(),
        RightTarget::Job => "its own Job".to_owned(),
        RightTarget::Record => "its own run record".to_owned(),
        RightTarget::Lease => format!("`{LEASE_NAME}`"),
        RightTarget::Pauses => format!("`{PAUSE_NAME}`"),
        RightTarget::OperatorDeployment => {
            let driver = right.driver.expect("the driver decides which operator has a Deployment");
            format!(
                "`{}`, or the one that `rollout.operatorDeployment` names",
                driver.traits().operator_deployment
            )
        }
        RightTarget::OperatorLease => format!("`{OPERATOR_LEASE}`"),
        RightTarget::DriverDaemonSet => "the one that `rollout.daemonSet.name` names".to_owned(),
        RightTarget::NicClusterPolicy => format!("`{NIC_CLUSTER_POLICY}`"),
        RightTarget::DevicePluginConfig => "the one that the component's values name".to_owned(),
        RightTarget::ClusterPolicy => "the one that `rollout.clusterPolicy` names".to_owned(),
        RightTarget::DraNamespaces => "those in `rollout.dra.namespaces`".to_owned(),
    }
}

/// Returns the settings with which the hook has a right.
fn condition(condition: RightCondition) -> &'static str {
    match condition {
        RightCondition::Reroll => "`rollout.dra.reroll: auto`",
        RightCondition::Eviction => {
            "`podDeletion` or `drain` of `rollout.upgrade.policy` is enabled"
        }
        RightCondition::AdmissionPolicy => "`rollout.admissionPolicy.enabled: true`",
        RightCondition::Acceptance => "acceptance tests in `rollout.upgrade.acceptance`",
        RightCondition::AcceptanceLogs => "`logLines` of a test in `rollout.upgrade.acceptance`",
        RightCondition::Hold => "not with `rollout.operatorUpgrade.hold: never` in mode `assist`",
    }
}

fn row(right: &Right) -> String {
    let resource = if right.group.is_empty() {
        right.resource.to_owned()
    } else {
        format!("{}.{}", right.resource, right.group)
    };
    let driver = right.driver.map(|driver| format!("driver `{}`", driver.traits().name));
    let only: Vec<String> =
        driver.into_iter().chain(right.when.map(|when| condition(when).to_owned())).collect();
    let only = if only.is_empty() { String::new() } else { format!(" ({})", only.join(", ")) };
    format!(
        "| `{resource}`{only} | {} | {} | {} | {} |",
        right.verbs.join(", "),
        object(right),
        scope(right),
        right.why
    )
}

#[test]
fn rights_are_those_of_the_task_table() {
    let mut expected = HEAD.to_owned();
    for task in std::iter::once(None).chain(Task::ALL.map(Some)) {
        write!(
            expected,
            "\n## {}\n\n| Resource | Verbs | Objects | Scope | Purpose |\n|---|---|---|---|---|\n",
            heading(task)
        )
        .unwrap();
        for right in RIGHTS.iter().filter(|right| right.task == task) {
            writeln!(expected, "{}", row(right)).unwrap();
        }
    }
    expected.push_str(ADMISSION_POLICIES);
    expected
        .push_str("\n| Task | Driver | Cordon | Labels | Annotations |\n|---|---|---|---|---|\n");
    for change in NODE_CHANGES {
        for row in Driver::ALL.into_iter().filter_map(|driver| change_row(change, driver)) {
            writeln!(expected, "{row}").unwrap();
        }
    }
    expected.push_str(OBJECT_POLICY);
    let path = root("docs/rights.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "docs/rights.md is stale: UPDATE=1 cargo test --test docs");
}
