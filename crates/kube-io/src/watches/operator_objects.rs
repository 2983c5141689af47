//! The watches of the objects that determine which driver the nodes must get: the operator's
//! Deployment, its custom resources, the driver's DaemonSets and their revisions.

use contract::driver::Driver;
use contract::names;
use contract::settings::Settings;
use contract::task::Task;
use observed::{self, OptionalApi, project};

use super::starter::{TableGroup, WatchStarter};
use super::{CONTROLLER_REVISIONS, DAEMON_SETS, served};
use crate::api_collection::ResourceName;
use crate::cache::CacheTable;
use crate::list_watch::ObjectSelection;
use crate::network::NIC_CLUSTER_POLICIES;

const DEPLOYMENTS: ResourceName<'static> = ("apps/v1", "deployments");
const CLUSTER_POLICIES: ResourceName<'static> = ("nvidia.com/v1", "clusterpolicies");
const NVIDIA_DRIVERS: ResourceName<'static> = ("nvidia.com/v1alpha1", "nvidiadrivers");

pub(super) struct OperatorObjectWatches {
    deployment: CacheTable<observed::ObservedDeployment>,
    cluster_policy: CacheTable<observed::ClusterPolicy>,
    nic_cluster_policy: CacheTable<observed::NicClusterPolicy>,
    nvidia_drivers: CacheTable<observed::NvidiaDriver>,
    pub(super) daemon_sets: CacheTable<observed::ObservedDaemonSet>,
    pub(super) revisions: CacheTable<observed::ObservedRevision>,
}

impl OperatorObjectWatches {
    pub(super) fn start(watch: &mut WatchStarter, settings: &Settings) -> Self {
        let (holds, settles) = (settings.has(Task::Hold), settings.has(Task::Settle));
        let looks = settles || settings.has(Task::Preflight);
        let (gpu, ofed) = (settings.driver == Driver::Gpu, settings.driver == Driver::Ofed);
        let needs_operator = settles && settings.driver.has_operator() || holds && gpu;
        let (here, everywhere) = (Some(settings.operator_namespace.as_str()), None);
        let (all, named) = (ObjectSelection::default, ObjectSelection::named);
        let deployment = named(settings.operator_deployment());
        let daemon_set = settings.daemon_set.as_deref().map_or_else(all, named);
        watch.in_group(TableGroup::Fleet);
        // Requests are sent in this order.
        Self {
            deployment: watch.table(
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
                named(&settings.cluster_policy),
                project::cluster_policy,
            ),
            nic_cluster_policy: watch.table(
                looks && ofed,
                "nicclusterpolicies",
                (NIC_CLUSTER_POLICIES, everywhere),
                named(names::NIC_CLUSTER_POLICY),
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
        }
    }

    pub(super) fn deployment(&self) -> Option<observed::ObservedDeployment> {
        self.deployment.values().into_iter().next()
    }

    pub(super) fn cluster_policy(&self) -> OptionalApi<Option<observed::ClusterPolicy>> {
        served(&self.cluster_policy, first)
    }

    pub(super) fn nic_cluster_policy(&self) -> OptionalApi<Option<observed::NicClusterPolicy>> {
        served(&self.nic_cluster_policy, first)
    }

    pub(super) fn nvidia_drivers(&self) -> OptionalApi<Vec<observed::NvidiaDriver>> {
        served(&self.nvidia_drivers, CacheTable::values)
    }
}

fn first<V: Clone + PartialEq>(table: &CacheTable<V>) -> Option<V> {
    table.values().into_iter().next()
}
