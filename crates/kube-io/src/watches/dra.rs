//! The watches of the DRA driver.

use observed::{self, project};

use super::starter::{TableGroup, WatchStarter};
use super::{DAEMON_SETS, served};
use crate::api_collection::PODS;
use crate::cache::CacheTable;
use crate::list_watch::ObjectSelection;
use crate::merged_views::MergedViews;

pub(super) struct DraWatches {
    namespaces: Vec<String>,
    daemon_sets: Vec<CacheTable<observed::ObservedDaemonSet>>,
    pods: Vec<CacheTable<observed::ObservedPod>>,
    merged_pods: MergedViews<observed::ObservedPod>,
    slices: CacheTable<observed::ObservedSlice>,
}

impl DraWatches {
    pub(super) fn start(
        watch: &mut WatchStarter,
        namespaces: Vec<String>,
        slice_version: Option<&str>,
    ) -> Self {
        watch.in_group(TableGroup::Dra);
        let all = ObjectSelection::default;
        let daemon_sets = namespaces
            .iter()
            .map(|here| {
                watch.table(
                    true,
                    "DRA daemonsets",
                    (DAEMON_SETS, Some(here)),
                    all(),
                    project::daemon_set,
                )
            })
            .collect();
        let pods = namespaces.iter().map(|here| {
            let pod = watch.interner.sharing(project::pod, |pod| &mut pod.labels);
            watch.table(true, "DRA pods", (PODS, Some(here)), all(), pod)
        });
        let pods = pods.collect();
        let slices = match slice_version.map(|version| format!("resource.k8s.io/{version}")) {
            Some(api) => watch.table(
                true,
                "resourceslices",
                ((&api, "resourceslices"), None),
                all(),
                project::slice,
            ),
            None => watch.absent(),
        };
        Self { namespaces, daemon_sets, pods, merged_pods: MergedViews::default(), slices }
    }

    pub(super) fn observed(&self) -> observed::ObservedDra {
        observed::ObservedDra {
            namespaces: self.namespaces.clone(),
            daemon_sets: self.daemon_sets.iter().flat_map(CacheTable::values).collect(),
            pods: self.merged_pods.merge(&self.pods),
            slices: served(&self.slices, CacheTable::by_node),
        }
    }
}
