//! The watches of the device plugin's namespace.

use contract::settings::DevicePluginSettings;
use observed::{self, project};

use super::starter::{TableGroup, WatchStarter};
use super::{CONTROLLER_REVISIONS, DAEMON_SETS};
use crate::api_collection::{CONFIG_MAPS, PODS};
use crate::cache::CacheTable;
use crate::list_watch::ObjectSelection;

pub(super) struct DevicePluginWatches {
    config: CacheTable<observed::ObservedConfigMap>,
    daemon_sets: CacheTable<observed::ObservedDaemonSet>,
    revisions: CacheTable<observed::ObservedRevision>,
    pods: CacheTable<observed::ObservedPod>,
}

impl DevicePluginWatches {
    pub(super) fn start(watch: &mut WatchStarter, plugin: &DevicePluginSettings) -> Self {
        watch.in_group(TableGroup::DevicePlugin);
        let (here, all) = (Some(plugin.namespace.as_str()), ObjectSelection::default);
        let config = plugin.config_map.as_deref();
        let selection = ObjectSelection::named(config.unwrap_or_default());
        let pod = watch.interner.sharing(project::pod, |pod| &mut pod.labels);
        let revisions = (CONTROLLER_REVISIONS, here);
        Self {
            config: watch.table(
                config.is_some(),
                "device plugin configmap",
                (CONFIG_MAPS, here),
                selection,
                project::config_map,
            ),
            daemon_sets: watch.table(
                true,
                "device plugin daemonsets",
                (DAEMON_SETS, here),
                all(),
                project::daemon_set,
            ),
            revisions: watch.table(
                true,
                "device plugin controllerrevisions",
                revisions,
                all(),
                project::revision,
            ),
            pods: watch.table(true, "device plugin pods", (PODS, here), all(), pod),
        }
    }

    pub(super) fn observed(&self) -> observed::ObservedDevicePlugin {
        observed::ObservedDevicePlugin {
            config: self.config.values().into_iter().next(),
            daemon_sets: self.daemon_sets.values(),
            revisions: self.revisions.values(),
            pods: self.pods.by_node(),
        }
    }
}
