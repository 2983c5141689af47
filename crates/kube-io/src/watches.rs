//! All watches of a hook Job, and the snapshot that they make together.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1 as policy;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use contract::driver::Driver;
use contract::names;
use contract::settings::Settings;
use contract::task::Task;
use observed::pause::ObservedPause;
use observed::{self, Observed, Views};

use super::cache::{CacheTable, WatchHealth};
use super::call::{CallError, call};
use super::granted_access::GrantedAccess;
use super::list_watch::{ObjectSelection, follow};
use super::merged::MergedViews;
use super::network;
use super::node_pods::FocusedNodes;
use super::sink::ProjectedTable;
use super::version_floor::ResourceVersionFloors;
use observed::intern::LabelInterner;
use observed::project;

mod workloads;

use workloads::{WorkloadWatches, job_selector, sees_budgets, sees_maintenances};

/// Whether the caches can be decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// All are in step with the API server.
    InStep,
    /// Some are not (yet).
    Behind(String),
    /// The server refuses some.
    Forbidden(String),
    /// The server's history went back (a restored etcd): all have to be begun anew.
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
    drivers: CacheTable<observed::ObservedPod>,
    toolkits: CacheTable<observed::ObservedPod>,
    validators: CacheTable<observed::ObservedPod>,
    /// Pods of all operands except driver and toolkit.
    operand_pods: CacheTable<observed::OperandPod>,
    operator_pods: CacheTable<observed::OperatorPod>,
    operator_lease: CacheTable<(observed::OperatorLease, String)>,
    /// The `renewTime` of the operator's Lease that was seen last, and when it was first seen otherwise than before.
    renewed: Mutex<(String, Option<Timestamp>)>,
    /// Pods of driver and toolkit.
    operands: MergedViews<observed::ObservedPod>,
    dra: Option<DraWatches>,
    device_plugin: Option<DevicePluginWatches>,
    workloads: WorkloadWatches,
    pauses: CacheTable<Vec<ObservedPause>>,
    /// What is followed, and whether the server has allowed it.
    followed: Vec<(GrantedAccess, Box<dyn Fn() -> WatchHealth>)>,
    /// Ends the followers when it is dropped.
    _followers: JoinSet<()>,
}

struct DraWatches {
    namespaces: Vec<String>,
    daemon_sets: Vec<CacheTable<observed::ObservedDaemonSet>>,
    pods: Vec<CacheTable<observed::ObservedPod>>,
    joined: MergedViews<observed::ObservedPod>,
    slices: CacheTable<observed::ObservedSlice>,
}

struct DevicePluginWatches {
    config: CacheTable<observed::ObservedConfigMap>,
    daemon_sets: CacheTable<observed::ObservedDaemonSet>,
    revisions: CacheTable<observed::ObservedRevision>,
    pods: CacheTable<observed::ObservedPod>,
}

/// After so long without a renewal of the operator's Lease it is listed: its leader is gone, or the watch is deaf.
const OPERATOR_SILENCE: Duration = Duration::from_secs(20);
/// Versions of `resource.k8s.io` whose objects [`project::slice`] and [`project::claim`] read, newest first.
const SLICE_VERSIONS: [&str; 3] = ["v1", "v1beta2", "v1beta1"];

/// Which of the configured namespaces exist. RBAC: `get` on `namespaces`, named.
///
/// # Errors
/// A call failed.
pub async fn dra_namespaces(client: &Client, settings: &Settings) -> Result<Vec<String>, CallError> {
    let api: Api<core::Namespace> = Api::all(client.clone());
    let mut present = Vec::new();
    if settings.tasks.contains(&Task::Reroll) {
        for name in &settings.dra.namespaces {
            match call(api.get(name)).await {
                // One that is being deleted takes no Role any more, and what is in it is on its way out.
                Ok(namespace) if namespace.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Terminating") => {}
                Ok(_) => present.push(name.clone()),
                Err(CallError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(present)
}

/// The newest version of `resource.k8s.io` that server and program both know, where a task needs it. Every authenticated user may ask.
///
/// # Errors
/// The call failed.
pub async fn slice_version(client: &Client, settings: &Settings) -> Result<Option<&'static str>, CallError> {
    if !settings.has(Task::Reroll) && !sees_budgets(settings) {
        return Ok(None);
    }
    let groups = call(client.list_api_groups()).await?;
    let group = groups.groups.into_iter().find(|group| group.name == "resource.k8s.io");
    let served: Vec<String> = group.map(|group| group.versions.into_iter().map(|version| version.version).collect()).unwrap_or_default();
    Ok(SLICE_VERSIONS.into_iter().find(|known| served.iter().any(|version| version == known)))
}

fn dynamic(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

impl Watches {
    /// Starts the watches that the settings' tasks need, each in a task of its own, so that no cache grows old while the loop is busy.
    /// RBAC: `list` and `watch` as the task table says.
    pub fn start(client: &Client, settings: &Settings, dra_namespaces: Vec<String>, slice_version: Option<&str>) -> Self {
        let changed = Arc::new(Notify::new());
        let interner = Arc::new(LabelInterner::default());
        let horizons = ResourceVersionFloors::default();
        let pod = || interner.sharing(project::pod, |pod| &mut pod.labels);
        let mut followers: JoinSet<()> = JoinSet::new();
        let mut followed: Vec<(GrantedAccess, Box<dyn Fn() -> WatchHealth>)> = Vec::new();
        let operator = settings.operator_namespace.as_str();
        let all = ObjectSelection::default;
        // One line a watch: resource, namespace, selection, projection. What nobody needs is not asked for, and absent.
        macro_rules! watch {
            ($api:expr, $selection:expr, $project:expr) => {{
                let (table, api, selection) = (CacheTable::new(Arc::clone(&changed)), $api, $selection);
                if let Some(shown) = GrantedAccess::from_path(api.resource_url(), selection.name()) {
                    let table = table.clone();
                    followed.push((shown, Box::new(move || table.health())));
                }
                let horizon = horizons.for_path(api.resource_url());
                followers.spawn(follow(api, selection, ProjectedTable::new(table.clone(), $project), horizon));
                table
            }};
        }
        macro_rules! watch_if {
            ($needed:expr, $api:expr, $selection:expr, $project:expr) => {{ if $needed { watch!($api, $selection, $project) } else { CacheTable::absent(Arc::clone(&changed)) } }};
        }
        let settles = settings.has(Task::Settle);
        let looks = settles || settings.has(Task::Preflight);
        let (gpu, ofed) = (looks && settings.driver == Driver::Gpu, looks && settings.driver == Driver::Ofed);
        let pods = || Api::<core::Pod>::namespaced(client.clone(), operator);
        // Where one DaemonSet is the driver's, it and its pods alone are seen.
        let (own, named) = (settings.daemon_set.clone(), settings.daemon_set.as_deref().map_or_else(all, ObjectSelection::named));
        let driver_pod = interner.sharing(move |pod| project::driver_pod(pod, own.as_deref()), |pod| &mut pod.labels);
        let policies = dynamic("nvidia.com", "v1", "ClusterPolicy", "clusterpolicies");
        let drivers = dynamic("nvidia.com", "v1alpha1", "NVIDIADriver", "nvidiadrivers");
        let nic_policies = network::resource();
        let restarts = settings.has(Task::RestartPlugins);
        let plugin = &settings.device_plugin;
        let config = plugin.config_map.as_deref().unwrap_or_default();
        let device_plugin = restarts.then(|| DevicePluginWatches {
            config: watch_if!(
                plugin.config_map.is_some(),
                Api::<core::ConfigMap>::namespaced(client.clone(), &plugin.namespace),
                ObjectSelection::named(config),
                project::config_map
            ),
            daemon_sets: watch!(Api::<apps::DaemonSet>::namespaced(client.clone(), &plugin.namespace), all(), project::daemon_set),
            revisions: watch!(Api::<apps::ControllerRevision>::namespaced(client.clone(), &plugin.namespace), all(), project::revision),
            pods: watch!(Api::<core::Pod>::namespaced(client.clone(), &plugin.namespace), all(), pod()),
        });
        let dra = settings.has(Task::Reroll).then(|| DraWatches {
            daemon_sets: dra_namespaces
                .iter()
                .map(|namespace| watch!(Api::<apps::DaemonSet>::namespaced(client.clone(), namespace), all(), project::daemon_set))
                .collect(),
            pods: dra_namespaces
                .iter()
                .map(|namespace| watch!(Api::<core::Pod>::namespaced(client.clone(), namespace), all(), pod()))
                .collect(),
            joined: MergedViews::default(),
            slices: if let Some(version) = slice_version {
                let slices = dynamic("resource.k8s.io", version, "ResourceSlice", "resourceslices");
                watch!(Api::<DynamicObject>::all_with(client.clone(), &slices), all(), project::slice)
            } else {
                CacheTable::absent(Arc::clone(&changed))
            },
            namespaces: dra_namespaces,
        });
        let claims = |version| dynamic("resource.k8s.io", version, "ResourceClaim", "resourceclaims");
        let maintenances = dynamic("maintenance.nvidia.com", "v1alpha1", "NodeMaintenance", "nodemaintenances");
        let budgets = sees_budgets(settings);
        let jobs = job_selector(settings);
        let workloads = WorkloadWatches {
            focus: FocusedNodes::new(client, Arc::clone(&changed), Arc::clone(&interner), horizons.clone()),
            jobs: watch_if!(
                jobs.is_some(),
                Api::<core::Pod>::all(client.clone()),
                ObjectSelection::matching(jobs.unwrap_or_default()),
                project::job
            ),
            budgets: watch_if!(budgets, Api::<policy::PodDisruptionBudget>::all(client.clone()), all(), project::budget),
            claims: match slice_version.filter(|_| budgets) {
                Some(version) => watch!(Api::<DynamicObject>::all_with(client.clone(), &claims(version)), all(), project::claim),
                None => CacheTable::absent(Arc::clone(&changed)),
            },
            maintenances: watch_if!(
                sees_maintenances(settings),
                Api::<DynamicObject>::all_with(client.clone(), &maintenances),
                all(),
                project::maintenance
            ),
        };
        // Where the GPU operator's operands are settled, one watch of all pods in its namespace fills five tables.
        let settles_gpu = settles && settings.driver == Driver::Gpu;
        let absent = || CacheTable::absent(Arc::clone(&changed));
        let (mut toolkits, mut validators, mut operand_pods, mut operator_pods) =
            (absent(), absent(), CacheTable::absent(Arc::clone(&changed)), CacheTable::absent(Arc::clone(&changed)));
        let driver_pods = if settles_gpu {
            let table = || CacheTable::new(Arc::clone(&changed));
            let full = |(key, value): (&'static str, &'static str)| {
                let project = pod();
                move |object: &observed::object::Pod| {
                    let labels = object.metadata.labels.as_ref()?;
                    labels.get(key).filter(|found| *found == value)?;
                    project(object)
                }
            };
            let drivers = table();
            (toolkits, validators) = (table(), table());
            (operand_pods, operator_pods) = (CacheTable::new(Arc::clone(&changed)), CacheTable::new(Arc::clone(&changed)));
            let operands = (
                ProjectedTable::new(operand_pods.clone(), project::operand_pods(&interner)),
                ProjectedTable::new(operator_pods.clone(), project::operator_pod),
            );
            let known = (
                ProjectedTable::new(toolkits.clone(), full(names::TOOLKIT_APP)),
                ProjectedTable::new(validators.clone(), full(names::VALIDATOR_APP)),
            );
            let sink = (ProjectedTable::new(drivers.clone(), full(names::DRIVER_COMPONENT)), (known, operands));
            let api = pods();
            if let Some(shown) = GrantedAccess::from_path(api.resource_url(), None) {
                let table = drivers.clone();
                followed.push((shown, Box::new(move || table.health())));
            }
            let horizon = horizons.for_path(api.resource_url());
            followers.spawn(follow(api, all(), sink, horizon));
            drivers
        } else {
            watch_if!(looks, pods(), settings.driver.traits().label.map_or_else(all, ObjectSelection::labeled), driver_pod)
        };
        Self {
            nodes: watch_if!(
                looks || restarts || settings.has(Task::Hold),
                Api::<core::Node>::all(client.clone()),
                all(),
                interner.sharing(project::node, |node| &mut node.labels)
            ),
            operator: watch_if!(
                settles && settings.driver.has_operator() || settings.has(Task::Hold) && settings.driver == Driver::Gpu,
                Api::<apps::Deployment>::namespaced(client.clone(), operator),
                ObjectSelection::named(settings.operator_deployment()),
                project::deployment
            ),
            cluster_policy: watch_if!(
                gpu,
                Api::<DynamicObject>::all_with(client.clone(), &policies),
                ObjectSelection::named(&settings.cluster_policy),
                project::cluster_policy
            ),
            nic_cluster_policy: watch_if!(
                ofed,
                Api::<DynamicObject>::all_with(client.clone(), &nic_policies),
                ObjectSelection::named(names::NIC_CLUSTER_POLICY),
                project::nic_cluster_policy
            ),
            nvidia_drivers: watch_if!(gpu, Api::<DynamicObject>::all_with(client.clone(), &drivers), all(), project::nvidia_driver),
            daemon_sets: watch_if!(looks, Api::<apps::DaemonSet>::namespaced(client.clone(), operator), named, project::daemon_set),
            revisions: watch_if!(settles, Api::<apps::ControllerRevision>::namespaced(client.clone(), operator), all(), project::revision),
            drivers: driver_pods,
            toolkits,
            validators,
            operand_pods,
            operator_pods,
            operator_lease: watch_if!(
                settles_gpu,
                Api::<coordination::Lease>::namespaced(client.clone(), operator),
                ObjectSelection::named(names::OPERATOR_LEASE).changing_within(OPERATOR_SILENCE),
                project::operator_lease
            ),
            renewed: Mutex::default(),
            pauses: watch!(
                Api::<core::ConfigMap>::namespaced(client.clone(), names::LEASE_NAMESPACE),
                ObjectSelection::named(names::PAUSE_NAME),
                project::pauses
            ),
            operands: MergedViews::default(),
            dra,
            device_plugin,
            workloads,
            followed,
            changed,
            _followers: followers,
        }
    }

    /// Waits until something has changed in a cache since this was last awaited.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    fn healths(&self) -> Vec<(&'static str, WatchHealth)> {
        let mut all = vec![
            ("nodes", self.nodes.health()),
            ("deployments", self.operator.health()),
            ("clusterpolicies", self.cluster_policy.health()),
            ("nicclusterpolicies", self.nic_cluster_policy.health()),
            ("nvidiadrivers", self.nvidia_drivers.health()),
            ("daemonsets", self.daemon_sets.health()),
            ("controllerrevisions", self.revisions.health()),
            ("driver pods", self.drivers.health()),
            ("toolkit pods", self.toolkits.health()),
            ("validator pods", self.validators.health()),
            ("operand pods", self.operand_pods.health()),
            ("operator pods", self.operator_pods.health()),
            ("the operator's Lease", self.operator_lease.health()),
            ("the pauses", self.pauses.health()),
        ];
        if let Some(dra) = &self.dra {
            all.extend(dra.daemon_sets.iter().map(|table| ("DRA daemonsets", table.health())));
            all.extend(dra.pods.iter().map(|table| ("DRA pods", table.health())));
            all.push(("resourceslices", dra.slices.health()));
        }
        if let Some(plugin) = &self.device_plugin {
            all.push(("device plugin configmap", plugin.config.health()));
            all.push(("device plugin daemonsets", plugin.daemon_sets.health()));
            all.push(("device plugin controllerrevisions", plugin.revisions.health()));
            all.push(("device plugin pods", plugin.pods.health()));
        }
        all.extend(self.workloads.healths());
        all
    }

    /// Follows the pods of these nodes, and of no others any more; what is seen of them is in [`Observed::workloads`]. RBAC: `list` and
    /// `watch` on `pods`.
    pub fn focus(&mut self, nodes: &BTreeSet<String>) {
        self.workloads.focus.set(nodes);
    }

    /// What the server has allowed to be listed and watched. What it does not serve is not in it: to look for it is not to watch it.
    pub fn shown(&self) -> Vec<GrantedAccess> {
        self.followed.iter().filter(|(_, health)| health() == WatchHealth::InStep).map(|(shown, _)| shown.clone()).collect()
    }

    /// Whether all caches can be decided on; what is not, by name.
    pub fn sync(&self) -> CacheState {
        let mut behind = CacheState::InStep;
        if let Some(message) = self.workloads.focus.forbidden() {
            return CacheState::Forbidden(message);
        }
        let mut past = self.workloads.focus.past();
        for (name, health) in self.healths() {
            match health {
                WatchHealth::InStep | WatchHealth::Absent => {}
                WatchHealth::Forbidden(message) => return CacheState::Forbidden(format!("{name}: {message}")),
                WatchHealth::Starting => behind = CacheState::Behind(format!("{name}: not listed yet")),
                WatchHealth::Failing(message) => behind = CacheState::Behind(format!("{name}: {message}")),
                WatchHealth::Past(message) => past = Some(format!("{name}: {message}")),
            }
        }
        past.map_or(behind, CacheState::Past)
    }

    /// What all caches hold. `now`: the moment by the clock that decisions use.
    pub fn observed(&self, now: Timestamp) -> Observed {
        Observed {
            nodes: self.nodes.named(|node| &node.name),
            operator: self.operator.values().into_iter().next(),
            operator_pods: self.operator_pods.values(),
            operator_lease: self.lease_of_operator(now),
            cluster_policy: served(&self.cluster_policy, first),
            nic_cluster_policy: served(&self.nic_cluster_policy, first),
            nvidia_drivers: served(&self.nvidia_drivers, copies),
            daemon_sets: self.daemon_sets.values(),
            revisions: self.revisions.values(),
            pods: self.operands.merge([&self.drivers, &self.toolkits]),
            dra: self.dra.as_ref().map(DraWatches::observed).unwrap_or_default(),
            device_plugin: self.device_plugin.as_ref().map(DevicePluginWatches::observed).unwrap_or_default(),
            validators: self.validators.snapshot(),
            operand_pods: self.operand_pods.snapshot(),
            workloads: self.workloads.observed(),
            pauses: self.pauses.values().into_iter().flatten().collect(),
        }
    }
}

impl Watches {
    /// The operator's Lease, with the moment at which its renewal was last seen. The first look proves nothing: the holder may be gone.
    fn lease_of_operator(&self, now: Timestamp) -> Option<observed::OperatorLease> {
        let (lease, renewal) = self.operator_lease.values().into_iter().next()?;
        // Nothing panics while this is held.
        let mut known = self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != renewal {
            let at = (!known.0.is_empty()).then_some(now);
            *known = (renewal, at);
        }
        Some(observed::OperatorLease { renewed: known.1, ..lease })
    }
}

impl DevicePluginWatches {
    fn observed(&self) -> observed::ObservedDevicePlugin {
        observed::ObservedDevicePlugin {
            config: self.config.values().into_iter().next(),
            daemon_sets: self.daemon_sets.values(),
            revisions: self.revisions.values(),
            pods: self.pods.snapshot(),
        }
    }
}

impl DraWatches {
    fn observed(&self) -> observed::ObservedDra {
        observed::ObservedDra {
            namespaces: self.namespaces.clone(),
            daemon_sets: self.daemon_sets.iter().flat_map(CacheTable::values).collect(),
            pods: self.joined.merge(&self.pods),
            slices: served(&self.slices, Views::clone),
        }
    }
}

fn served<V: Clone + PartialEq, T>(table: &CacheTable<V>, content: impl FnOnce(&Views<V>) -> T) -> observed::OptionalApi<T> {
    match table.health() {
        WatchHealth::Absent => observed::OptionalApi::Absent,
        WatchHealth::Starting | WatchHealth::InStep | WatchHealth::Forbidden(_) | WatchHealth::Failing(_) | WatchHealth::Past(_) => {
            observed::OptionalApi::Served(content(&table.snapshot()))
        }
    }
}

fn first<V: Clone>(views: &Views<V>) -> Option<V> {
    views.first().cloned()
}

fn copies<V: Clone>(views: &Views<V>) -> Vec<V> {
    views.iter().cloned().collect()
}
