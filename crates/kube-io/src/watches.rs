//! All watches of a hook Job, and the snapshot of their caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use contract::names;
use contract::settings::Settings;
use contract::task::Task;
use observed::acceptance::AcceptancePod;
use observed::pause::ObservedPause;
use observed::{self, Observed, project};

use super::api_collection::{CONFIG_MAPS, NODES, ResourceName};
use super::cache::{CacheTable, WatchHealth};
use super::granted_access::GrantedAccess;
use super::list_watch::ObjectSelection;

mod acceptance;
mod device_plugin;
mod discovery;
mod dra;
mod operator_lease;
mod operator_objects;
mod operator_pods;
mod starter;
mod workloads;

use device_plugin::DevicePluginWatches;
use dra::DraWatches;
use operator_lease::OperatorLeaseWatch;
use operator_objects::OperatorObjectWatches;
use operator_pods::OperatorPodWatches;
use starter::{TableGroup, WatchStarter, WatchedTable};
use workloads::WorkloadWatches;

pub use discovery::{dra_namespaces, slice_version};

const DAEMON_SETS: ResourceName<'static> = ("apps/v1", "daemonsets");
const CONTROLLER_REVISIONS: ResourceName<'static> = ("apps/v1", "controllerrevisions");

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
    operator_objects: OperatorObjectWatches,
    operator_pods: OperatorPodWatches,
    operator_lease: OperatorLeaseWatch,
    pauses: CacheTable<Vec<ObservedPause>>,
    dra: Option<DraWatches>,
    device_plugin: Option<DevicePluginWatches>,
    workloads: WorkloadWatches,
    acceptance: CacheTable<AcceptancePod>,
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
        let needs_nodes = [Task::Settle, Task::Preflight, Task::RestartPlugins, Task::Hold]
            .into_iter()
            .any(|task| settings.has(task));
        let node = watch.interner.sharing(project::node, |node| &mut node.labels);
        // One line per watch. Requests are sent in this order.
        Self {
            device_plugin: settings
                .has(Task::RestartPlugins)
                .then(|| DevicePluginWatches::start(&mut watch, &settings.device_plugin)),
            dra: settings
                .has(Task::Reroll)
                .then(|| DraWatches::start(&mut watch, dra_namespaces, slice_version)),
            workloads: WorkloadWatches::start(&mut watch, settings, slice_version),
            acceptance: acceptance::start(&mut watch, settings),
            operator_pods: OperatorPodWatches::start(&mut watch, settings),
            nodes: watch.in_group(TableGroup::Fleet).table(
                needs_nodes,
                "nodes",
                (NODES, None),
                ObjectSelection::default(),
                node,
            ),
            operator_objects: OperatorObjectWatches::start(&mut watch, settings),
            operator_lease: OperatorLeaseWatch::start(&mut watch, settings),
            pauses: watch.table(
                true,
                "the pauses",
                (CONFIG_MAPS, Some(names::LEASE_NAMESPACE)),
                ObjectSelection::named(names::PAUSE_NAME),
                project::pauses,
            ),
            tables: watch.take_tables(),
            changed: watch.changed,
            _followers: watch.followers,
        }
    }

    /// Waits until a cache has changed since the last call, or since [`Self::observed`] was called.
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
        // Forgets a notification of a change that the snapshot shows. Before the tables are read, so
        // that none is lost.
        let _ = self.changed.notified().now_or_never();
        Observed {
            nodes: self.nodes.named(|node| &node.name),
            operator: self.operator_objects.deployment(),
            operator_pods: self.operator_pods.operator.values(),
            operator_lease: self.operator_lease.observed(now),
            cluster_policy: self.operator_objects.cluster_policy(),
            nic_cluster_policy: self.operator_objects.nic_cluster_policy(),
            nvidia_drivers: self.operator_objects.nvidia_drivers(),
            daemon_sets: self.operator_objects.daemon_sets.values(),
            revisions: self.operator_objects.revisions.values(),
            pods: self.operator_pods.drivers_and_toolkits(),
            dra: self.dra.as_ref().map(DraWatches::observed).unwrap_or_default(),
            device_plugin: self
                .device_plugin
                .as_ref()
                .map(DevicePluginWatches::observed)
                .unwrap_or_default(),
            validators: self.operator_pods.validators.by_node(),
            operand_pods: self.operator_pods.operands.by_node(),
            workloads: self.workloads.observed(),
            acceptance: self.acceptance.by_node(),
            pauses: self.pauses.values().into_iter().flatten().collect(),
        }
    }
}

/// Returns the content of a table, or that the server does not serve the resource.
fn served<V: Clone + PartialEq, T>(
    table: &CacheTable<V>,
    content: impl FnOnce(&CacheTable<V>) -> T,
) -> observed::OptionalApi<T> {
    if table.health() == WatchHealth::Absent {
        observed::OptionalApi::Absent
    } else {
        observed::OptionalApi::Served(content(table))
    }
}
