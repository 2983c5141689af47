//! The watch of the pods in the operator's namespace.

use contract::driver::Driver;
use contract::names;
use contract::settings::Settings;
use contract::task::Task;
use observed::{self, Views, object, project};

use super::starter::{TableGroup, WatchStarter};
use crate::api_collection::PODS;
use crate::cache::CacheTable;
use crate::granted_access::GrantedAccess;
use crate::list_watch::ObjectSelection;
use crate::merged_views::MergedViews;
use crate::sink::ProjectedTable;

pub(super) struct OperatorPodWatches {
    drivers: CacheTable<observed::ObservedPod>,
    toolkits: CacheTable<observed::ObservedPod>,
    pub(super) validators: CacheTable<observed::ObservedPod>,
    /// Pods of all operands except driver and toolkit.
    pub(super) operands: CacheTable<observed::OperandPod>,
    pub(super) operator: CacheTable<observed::OperatorPod>,
    merged: MergedViews<observed::ObservedPod>,
}

impl OperatorPodWatches {
    pub(super) fn start(watch: &mut WatchStarter, settings: &Settings) -> Self {
        watch.in_group(TableGroup::OperatorPods);
        if settings.has(Task::Settle) && settings.driver == Driver::Gpu {
            return Self::start_all(watch, &settings.operator_namespace);
        }
        // If one DaemonSet is the driver, only its pods are needed.
        let own = settings.daemon_set.clone();
        let project = watch
            .interner
            .sharing(move |pod| project::driver_pod(pod, own.as_deref()), |pod| &mut pod.labels);
        let needed = settings.has(Task::Settle) || settings.has(Task::Preflight);
        let selection = settings
            .driver
            .traits()
            .label
            .map_or_else(ObjectSelection::default, ObjectSelection::labeled);
        let pods = (PODS, Some(settings.operator_namespace.as_str()));
        Self {
            drivers: watch.table(needed, "driver pods", pods, selection, project),
            toolkits: watch.absent(),
            validators: watch.absent(),
            operands: watch.absent(),
            operator: watch.absent(),
            merged: MergedViews::default(),
        }
    }

    /// Starts a single watch of all pods in the namespace, which fills five tables.
    fn start_all(watch: &mut WatchStarter, namespace: &str) -> Self {
        let collection = watch.collection((PODS, Some(namespace)));
        let watches = Self {
            drivers: watch.add("driver pods", Some(GrantedAccess::new(&collection.address, None))),
            toolkits: watch.add("toolkit pods", None),
            validators: watch.add("validator pods", None),
            operands: watch.add("operand pods", None),
            operator: watch.add("operator pods", None),
            merged: MergedViews::default(),
        };
        let interner = &watch.interner;
        let labeled = |table: &CacheTable<observed::ObservedPod>,
                       (key, value): (&'static str, &'static str)| {
            let project = interner.sharing(project::pod, |pod| &mut pod.labels);
            ProjectedTable::new(table.clone(), move |object: &object::Pod| {
                let labels = object.metadata.labels.as_ref()?;
                labels.get(key).filter(|found| *found == value)?;
                project(object)
            })
        };
        let drivers = labeled(&watches.drivers, names::DRIVER_COMPONENT);
        let toolkits = labeled(&watches.toolkits, names::TOOLKIT_APP);
        let validators = labeled(&watches.validators, names::VALIDATOR_APP);
        let operands =
            ProjectedTable::new(watches.operands.clone(), project::operand_pods(interner));
        let operator = ProjectedTable::new(watches.operator.clone(), project::operator_pod);
        watch.follow(
            collection,
            ObjectSelection::default(),
            (drivers, ((toolkits, validators), (operands, operator))),
        );
        watches
    }

    pub(super) fn drivers_and_toolkits(&self) -> Views<observed::ObservedPod> {
        self.merged.merge([&self.drivers, &self.toolkits])
    }
}
