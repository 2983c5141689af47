//! All watches of a hook Job, and the snapshot of their caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use contract::driver::Driver;
use contract::names;
use contract::settings::Settings;
use contract::task::Task;
use observed::pause::ObservedPause;
use observed::{self, Observed, Views, project};

use super::api_collection::{CONFIG_MAPS, NODES, ResourceName};
use super::cache::{CacheTable, WatchHealth};
use super::granted_access::GrantedAccess;
use super::list_watch::ObjectSelection;
use super::network::NIC_CLUSTER_POLICIES;

mod device_plugin;
mod discovery;
mod dra;
mod operator_lease;
mod operator_pods;
mod starter;
mod workloads;

use device_plugin::DevicePluginWatches;
use dra::DraWatches;
use operator_lease::OperatorLeaseWatch;
use operator_pods::OperatorPodWatches;
use starter::{TableGroup, WatchStarter, WatchedTable};
use workloads::WorkloadWatches;

pub use discovery::{dra_namespaces, slice_version};

const DEPLOYMENTS: ResourceName<'static> = ("apps/v1", "deployments");
const DAEMON_SETS: ResourceName<'static> = ("apps/v1", "daemonsets");
const CONTROLLER_REVISIONS: ResourceName<'static> = ("apps/v1", "controllerrevisions");
const CLUSTER_POLICIES: ResourceName<'static> = ("nvidia.com/v1", "clusterpolicies");
const NVIDIA_DRIVERS: ResourceName<'static> = ("nvidia.com/v1alpha1", "nvidiadrivers");

/// Whether the engine can decide on the caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// All caches are in step with the API server.
    InStep,
    /// Some caches are not in step (yet).
    Behind(String),
    /// The server refuses some watches.
    Forbidden(String),
    /// The server's history went back (a restored etcd): all caches must be started again.
    Past(String),
}

/// The caches of a hook Job.
pub struct Watches {
    changed: Arc<Notify>,
    nodes: CacheTable<observed::ObservedNode>,
    operator: CacheTable<observed::ObservedDeployment>,
    cluster_policy: CacheTable<observed::ClusterPolicy>,
    nic_cluster_policy: CacheTable<observed::NicClusterPolicy>,
    nvidia_drivers: CacheTable<observed::NvidiaDriver>,
    daemon_sets: CacheTable<observed::ObservedDaemonSet>,
    revisions: CacheTable<observed::ObservedRevision>,
    operator_pods: OperatorPodWatches,
    operator_lease: OperatorLeaseWatch,
    pauses: CacheTable<Vec<ObservedPause>>,
    dra: Option<DraWatches>,
    device_plugin: Option<DevicePluginWatches>,
    workloads: WorkloadWatches,
    /// The tables that a watch fills, without the per-node pod watches: unknown pods of one node
    /// affect only that node.
    tables: Vec<WatchedTable>,
    /// Ends the followers when dropped.
    _followers: JoinSet<()>,
}

impl Watches {
    /// Starts the watches that the settings' tasks need, each in its own async task, so that no
    /// cache becomes outdated while the loop is busy. RBAC: `list` and `watch` as in the task
    /// table.
    pub fn start(
        client: &Client,
        settings: &Settings,
        dra_namespaces: Vec<String>,
        slice_version: Option<&str>,
    ) -> Self {
        let mut watch = WatchStarter::new(client);
        let (holds, settles) = (settings.has(Task::Hold), settings.has(Task::Settle));
        let looks = settles || settings.has(Task::Preflight);
        let (gpu, ofed) = (settings.driver == Driver::Gpu, settings.driver == Driver::Ofed);
        let (here, everywhere) = (Some(settings.operator_namespace.as_str()), None);
        let (all, named) = (ObjectSelection::default, ObjectSelection::named);
        let needs_nodes = looks || settings.has(Task::RestartPlugins) || holds;
        let needs_operator = settles && settings.driver.has_operator() || holds && gpu;
        let node = watch.interner.sharing(project::node, |node| &mut node.labels);
        let (policy, nic_policy) =
            (named(&settings.cluster_policy), named(names::NIC_CLUSTER_POLICY));
        let (nic_policies, pauses) =
            ((NIC_CLUSTER_POLICIES, everywhere), (CONFIG_MAPS, Some(names::LEASE_NAMESPACE)));
        let deployment = named(settings.operator_deployment());
        let daemon_set = settings.daemon_set.as_deref().map_or_else(all, named);
        // One line per watch. Requests are sent in this order.
        Self {
            device_plugin: settings
                .has(Task::RestartPlugins)
                .then(|| DevicePluginWatches::start(&mut watch, &settings.device_plugin)),
            dra: settings
                .has(Task::Reroll)
                .then(|| DraWatches::start(&mut watch, dra_namespaces, slice_version)),
            workloads: WorkloadWatches::start(&mut watch, settings, slice_version),
            operator_pods: OperatorPodWatches::start(&mut watch, settings),
            nodes: watch.in_group(TableGroup::Fleet).table(
                needs_nodes,
                "nodes",
                (NODES, everywhere),
                all(),
                node,
            ),
            operator: watch.table(
                needs_operator,
                "deployments",
                (DEPLOYMENTS, here),
                deployment,
                project::deployment,
            ),
            cluster_policy: watch.table(
                looks && gpu,
                "clusterpolicies",
                (CLUSTER_POLICIES, everywhere),
                policy,
                project::cluster_policy,
            ),
            nic_cluster_policy: watch.table(
                looks && ofed,
                "nicclusterpolicies",
                nic_policies,
                nic_policy,
                project::nic_cluster_policy,
            ),
            nvidia_drivers: watch.table(
                looks && gpu,
                "nvidiadrivers",
                (NVIDIA_DRIVERS, everywhere),
                all(),
                project::nvidia_driver,
            ),
            daemon_sets: watch.table(
                looks,
                "daemonsets",
                (DAEMON_SETS, here),
                daemon_set,
                project::daemon_set,
            ),
            revisions: watch.table(
                settles,
                "controllerrevisions",
                (CONTROLLER_REVISIONS, here),
                all(),
                project::revision,
            ),
            operator_lease: OperatorLeaseWatch::start(&mut watch, settings),
            pauses: watch.table(
                true,
                "the pauses",
                pauses,
                named(names::PAUSE_NAME),
                project::pauses,
            ),
            tables: watch.take_tables(),
            changed: watch.changed,
            _followers: watch.followers,
        }
    }

    /// Waits until a cache has changed since the last call.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Follows the pods of exactly these nodes, for [`Observed::workloads`]. RBAC: `list` and
    /// `watch` on `pods`.
    pub fn focus(&mut self, nodes: &BTreeSet<String>) {
        self.workloads.focus.set(nodes);
    }

    /// Returns the lists and watches that the server has allowed. A resource that the server does
    /// not serve is not included.
    pub fn granted(&self) -> Vec<GrantedAccess> {
        let in_step = self.tables.iter().filter(|table| (table.health)() == WatchHealth::InStep);
        in_step.filter_map(|table| table.access.clone()).collect()
    }

    /// Returns whether the engine can decide on all caches, and otherwise which cache prevents it.
    pub fn sync(&self) -> CacheState {
        let mut behind = CacheState::InStep;
        if let Some(message) = self.workloads.focus.forbidden() {
            return CacheState::Forbidden(message);
        }
        let mut past = self.workloads.focus.past();
        for WatchedTable { name, health, .. } in &self.tables {
            match health() {
                WatchHealth::InStep | WatchHealth::Absent => {}
                WatchHealth::Forbidden(message) => {
                    return CacheState::Forbidden(format!("{name}: {message}"));
                }
                WatchHealth::Starting => {
                    behind = CacheState::Behind(format!("{name}: not listed yet"));
                }
                WatchHealth::Failing(message) => {
                    behind = CacheState::Behind(format!("{name}: {message}"));
                }
                WatchHealth::Past(message) => past = Some(format!("{name}: {message}")),
            }
        }
        past.map_or(behind, CacheState::Past)
    }

    /// Returns the content of all caches. `now`: the time by the clock that decisions use.
    pub fn observed(&self, now: Timestamp) -> Observed {
        Observed {
            nodes: self.nodes.named(|node| &node.name),
            operator: self.operator.values().into_iter().next(),
            operator_pods: self.operator_pods.operator.values(),
            operator_lease: self.operator_lease.observed(now),
            cluster_policy: served(&self.cluster_policy, first),
            nic_cluster_policy: served(&self.nic_cluster_policy, first),
            nvidia_drivers: served(&self.nvidia_drivers, copies),
            daemon_sets: self.daemon_sets.values(),
            revisions: self.revisions.values(),
            pods: self.operator_pods.drivers_and_toolkits(),
            dra: self.dra.as_ref().map(DraWatches::observed).unwrap_or_default(),
            device_plugin: self
                .device_plugin
                .as_ref()
                .map(DevicePluginWatches::observed)
                .unwrap_or_default(),
            validators: self.operator_pods.validators.snapshot(),
            operand_pods: self.operator_pods.operands.snapshot(),
            workloads: self.workloads.observed(),
            pauses: self.pauses.values().into_iter().flatten().collect(),
        }
    }
}

/// Returns the content of a table, or that the server does not serve the resource.
fn served<V: Clone + PartialEq, T>(
    table: &CacheTable<V>,
    content: impl FnOnce(&Views<V>) -> T,
) -> observed::OptionalApi<T> {
    if table.health() == WatchHealth::Absent {
        observed::OptionalApi::Absent
    } else {
        observed::OptionalApi::Served(content(&table.snapshot()))
    }
}

fn first<V: Clone>(views: &Views<V>) -> Option<V> {
    views.first().cloned()
}

fn copies<V: Clone>(views: &Views<V>) -> Vec<V> {
    views.iter().cloned().collect()
}
