//! The upgrade policy of each node. Up to v26.3, the ClusterPolicy's policy governs every node.
//! Since v26.7, if drivers come from NVIDIADrivers, each NVIDIADriver has its own policy: limits
//! apply to the nodes of one NVIDIADriver, and parallelism adds up over all of them (gpu-operator
//! `controllers/upgrade_controller.go`, `reconcileNVIDIADriverUpgrades`).

use std::collections::BTreeMap;

use contract::budget::{FleetPace, StepPace};
use contract::count::Count;
use contract::driver::Driver;
use contract::names;
use contract::policy::{CompletionPolicy, DrainPolicy, PodDeletionPolicy, Policy};
use contract::settings::{Mode, Settings};

use nvidia_upgrade::controller_generation::ControllerGeneration;
use nvidia_upgrade::policy_rules::PolicyRules;
use observed::{
    ClusterPolicy, LiveUpgradePolicy, NicClusterPolicy, NvidiaDriver, Observed, ObservedNode,
};

/// Paths of the fields of an upgrade policy in a custom resource.
#[derive(Debug, PartialEq, Eq)]
pub struct PolicyFields {
    /// Path of `autoUpgrade`.
    pub auto_upgrade: &'static str,
    /// Path of `maxParallelUpgrades`.
    pub max_parallel: &'static str,
    /// Path of `maxUnavailable`.
    pub max_unavailable: &'static str,
}

const CLUSTER_POLICY: PolicyFields = PolicyFields {
    auto_upgrade: "spec.driver.upgradePolicy.autoUpgrade",
    max_parallel: "spec.driver.upgradePolicy.maxParallelUpgrades",
    max_unavailable: "spec.driver.upgradePolicy.maxUnavailable",
};

const NIC_CLUSTER_POLICY: PolicyFields = PolicyFields {
    auto_upgrade: "spec.ofedDriver.upgradePolicy.autoUpgrade",
    max_parallel: "spec.ofedDriver.upgradePolicy.maxParallelUpgrades",
    max_unavailable: "spec.ofedDriver.upgradePolicy.maxUnavailable",
};

/// The paths in an NVIDIADriver.
pub const NVIDIA_DRIVER: PolicyFields = PolicyFields {
    auto_upgrade: "spec.upgradePolicy.autoUpgrade",
    max_parallel: "spec.upgradePolicy.maxParallelUpgrades",
    max_unavailable: "spec.upgradePolicy.maxUnavailable",
};

/// An upgrade policy that NVIDIA's controller uses, and the custom resource that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivePolicy {
    /// Kind of the custom resource.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Whether it governs only the nodes that this custom resource owns. Otherwise it governs all.
    pub is_pool: bool,
    /// The policy.
    pub policy: LiveUpgradePolicy,
    /// The paths of its fields.
    pub fields: &'static PolicyFields,
    /// The field manager that last set it, if the API server reports it.
    pub manager: Option<String>,
}

impl LivePolicy {
    /// Returns the custom resource, for messages.
    pub fn object(&self) -> String {
        format!("{} `{}`", self.kind, self.name)
    }

    fn of_fleet(
        driver: Driver,
        name: String,
        policy: LiveUpgradePolicy,
        fields: &'static PolicyFields,
        manager: Option<String>,
    ) -> Self {
        Self { kind: driver.traits().policy_kind, name, is_pool: false, policy, fields, manager }
    }

    fn of_nvidia_driver(driver: &NvidiaDriver) -> Self {
        Self {
            kind: names::NVIDIA_DRIVER_KIND,
            name: driver.name.clone(),
            is_pool: true,
            policy: driver.upgrade_policy.clone(),
            fields: &NVIDIA_DRIVER,
            manager: driver.field_manager.clone(),
        }
    }

    /// Returns whether it governs the node.
    pub fn governs(&self, node: &ObservedNode) -> bool {
        !self.is_pool || node.driver_owner() == Some(self.name.as_str())
    }
}

/// Returns whether the operator of this version has a policy for each NVIDIADriver. An unknown
/// version counts as new.
pub fn has_policy_per_driver(version: Option<&str>) -> bool {
    ControllerGeneration::from_version(Driver::Gpu, version)
        .is_none_or(|generation| generation.features().policy_per_driver)
}

/// Returns the policies that NVIDIA's controller uses now; empty if no custom resource has one.
pub fn live(observed: &Observed, settings: &Settings) -> Vec<LivePolicy> {
    let per_driver =
        observed.uses_nvidia_drivers() && has_policy_per_driver(observed.operator_version());
    policies(observed, settings, per_driver)
}

/// Returns the policies that it uses after the release is deployed: the values replace the contents
/// of the chart's own objects.
pub fn coming(observed: &Observed, settings: &Settings) -> Vec<LivePolicy> {
    let (coming, expected) = (&settings.preflight.coming, &settings.expected);
    let own = Some(settings.component.as_str())
        .filter(|component| *component == Driver::Gpu.traits().component);
    let version =
        own.and(settings.component_version.as_deref()).or_else(|| observed.operator_version());
    let uses = coming.nvidia_drivers.unwrap_or_else(|| observed.uses_nvidia_drivers());
    let mut policies = policies(observed, settings, uses && has_policy_per_driver(version));
    let is_charts = |policy: &LivePolicy| {
        !policy.is_pool
            || expected.default_nvidia_driver.is_some()
                && policy.name == names::DEFAULT_NVIDIA_DRIVER
    };
    for LivePolicy { policy, is_pool, .. } in policies.iter_mut().filter(|policy| is_charts(policy))
    {
        let asked = &expected.upgrade_policy;
        let default = if *is_pool { None } else { coming.auto_upgrade };
        policy.auto_upgrade = asked.auto_upgrade.or(default).unwrap_or(policy.auto_upgrade);
        policy.max_parallel = asked.max_parallel_upgrades.or(policy.max_parallel);
        policy.max_unavailable =
            asked.max_unavailable.clone().or_else(|| policy.max_unavailable.take());
    }
    policies
}

fn policies(observed: &Observed, settings: &Settings, per_driver: bool) -> Vec<LivePolicy> {
    match settings.driver {
        Driver::DaemonSet => Vec::new(),
        Driver::Gpu if per_driver => {
            observed.live_nvidia_drivers().map(LivePolicy::of_nvidia_driver).collect()
        }
        Driver::Gpu => {
            let fleet_policy = |policy: &ClusterPolicy| {
                let (name, manager) =
                    (settings.cluster_policy.clone(), policy.driver_field_manager.clone());
                LivePolicy::of_fleet(
                    Driver::Gpu,
                    name,
                    policy.upgrade_policy.clone(),
                    &CLUSTER_POLICY,
                    manager,
                )
            };
            observed.live_cluster_policy().map(fleet_policy).into_iter().collect()
        }
        Driver::Ofed => {
            let fleet_policy = |policy: &NicClusterPolicy| {
                let (name, manager) =
                    (names::NIC_CLUSTER_POLICY.to_owned(), policy.driver_field_manager.clone());
                LivePolicy::of_fleet(
                    Driver::Ofed,
                    name,
                    policy.upgrade_policy.clone(),
                    &NIC_CLUSTER_POLICY,
                    manager,
                )
            };
            observed.live_nic_cluster_policy().map(fleet_policy).into_iter().collect()
        }
    }
}

/// A set of nodes with one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePool {
    /// The NVIDIADriver that owns its nodes. `None`: the pool contains all nodes.
    pub owner: Option<String>,
    /// Its policy.
    pub policy: Policy,
}

/// The policies that govern the upgrade of nodes. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePools(Vec<NodePool>);

impl NodePools {
    /// Creates one policy for all nodes.
    pub fn single(policy: Policy) -> Self {
        Self(vec![NodePool { owner: None, policy }])
    }

    /// Returns the settings' policy if the hook decides, otherwise the policies that NVIDIA's
    /// controller uses.
    pub fn in_force(observed: &Observed, settings: &Settings) -> Self {
        let live = match settings.mode {
            Mode::Steer | Mode::Drive => Vec::new(),
            Mode::Observe | Mode::Assist => live(observed, settings),
        };
        if live.is_empty() {
            return Self::single(settings.upgrade.policy.clone());
        }
        Self(
            live.into_iter()
                .map(|live| NodePool {
                    owner: live.is_pool.then(|| live.name.clone()),
                    policy: PolicyRules::from_live(&live.policy).policy,
                })
                .collect(),
        )
    }

    /// Iterates over all pools.
    pub fn iter(&self) -> impl Iterator<Item = &NodePool> {
        self.0.iter()
    }

    /// Returns whether nodes have different policies, or may have.
    pub fn is_split(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns the pool of a node; `None` if no NVIDIADriver owns it.
    pub fn pool_of(&self, node: &ObservedNode) -> Option<&NodePool> {
        self.0
            .iter()
            .find(|pool| pool.owner.is_none() || pool.owner.as_deref() == node.driver_owner())
            .or_else(|| {
                match self.0.as_slice() {
                    // As long as no node is labeled, the only NVIDIADriver gets every node.
                    [only] if node.driver_owner().is_none() => Some(only),
                    _ => None,
                }
            })
    }

    /// Returns the pools that contain some of these nodes, each with the number of them.
    pub fn sizes<'n>(
        &self,
        nodes: impl IntoIterator<Item = &'n ObservedNode>,
    ) -> Vec<(&NodePool, usize)> {
        let mut sizes: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for pool in nodes.into_iter().filter_map(|node| self.pool_of(node)) {
            *sizes.entry(pool.owner.as_deref()).or_default() += 1;
        }
        self.0.iter().filter_map(|pool| Some((pool, *sizes.get(&pool.owner.as_deref())?))).collect()
    }

    /// Returns the policy of all nodes. If nodes have different policies, it permits only what all
    /// of them permit. Its limits are the sums over all pools.
    pub fn common(&self) -> Policy {
        let (first, others) = match self.0.split_first() {
            Some((first, [])) => return first.policy.clone(),
            Some((first, others)) => (first, others),
            None => return Policy::default(),
        };
        others.iter().fold(first.policy.clone(), |common, pool| least(common, &pool.policy))
    }
}

/// Returns the pace of a number of nodes under a policy that NVIDIA's controller uses: it does not
/// pause between nodes.
pub fn controller_pace(policy: &Policy, settings: &Settings, nodes: usize) -> FleetPace {
    FleetPace {
        nodes,
        max_parallel: policy.max_parallel_upgrades,
        max_unavailable: policy.max_unavailable.unwrap_or(Count::Percent(100)),
        per_node_seconds: settings.per_node_seconds,
        soak_seconds: 0,
        closed_seconds: 0,
        steps: StepPace::default(),
    }
}

fn least(one: Policy, other: &Policy) -> Policy {
    let no_limit = one.max_parallel_upgrades == 0 || other.max_parallel_upgrades == 0;
    let waits = |one: Option<CompletionPolicy>, other: &Option<CompletionPolicy>| {
        one.or_else(|| other.clone())
    };
    let deletes = |one: PodDeletionPolicy, other: &PodDeletionPolicy| PodDeletionPolicy {
        force: one.force && other.force,
        timeout_seconds: one.timeout_seconds.min(other.timeout_seconds),
        delete_empty_dir: one.delete_empty_dir && other.delete_empty_dir,
    };
    let drains = |one: DrainPolicy, other: &DrainPolicy| DrainPolicy {
        force: one.force && other.force,
        timeout_seconds: one.timeout_seconds.min(other.timeout_seconds),
        delete_empty_dir: one.delete_empty_dir && other.delete_empty_dir,
        ..one
    };
    Policy {
        max_parallel_upgrades: if no_limit {
            0
        } else {
            one.max_parallel_upgrades.saturating_add(other.max_parallel_upgrades)
        },
        max_unavailable: one
            .max_unavailable
            .filter(|_| one.max_unavailable == other.max_unavailable),
        wait_for_completion: waits(one.wait_for_completion, &other.wait_for_completion),
        pod_deletion: one
            .pod_deletion
            .zip(other.pod_deletion.as_ref())
            .map(|(one, other)| deletes(one, other)),
        drain: one.drain.zip(other.drain.as_ref()).map(|(one, other)| drains(one, other)),
    }
}

#[cfg(test)]
mod tests;
