//! The NVIDIADriver of each node, and whether the operator has acted on it. Since v26.7, the
//! operator labels each GPU node with its owner. But it examines a node without an owner, or of the
//! default NVIDIADriver, only when something else triggers a reconciliation: until then, everything
//! reports `ready`.

use contract::driver::Driver;
use contract::names;

use super::reason::Reason;
use nvidia_upgrade::controller_generation::ControllerGeneration;
use observed::selects;
use observed::{NvidiaDriver, Observed, ObservedNode};

/// The NVIDIADrivers that nodes may belong to.
#[derive(Debug, Default)]
pub struct DriverPools<'a> {
    drivers: Vec<&'a NvidiaDriver>,
    /// Whether the operator labels nodes with their owner.
    labels: bool,
}

/// The owner of a node by the node selectors.
#[derive(Debug, PartialEq, Eq)]
enum PoolMembership<'a> {
    /// No NVIDIADriver selects it.
    Nobody,
    /// One NVIDIADriver selects it.
    To(&'a str),
    /// Several select it; the operator reports that, and changes no label.
    Several,
}

impl<'a> DriverPools<'a> {
    /// Finds the pools of a cluster whose drivers come from NVIDIADrivers; in other clusters, no
    /// node has an owner.
    pub fn new(observed: &'a Observed) -> Self {
        if !observed.uses_nvidia_drivers() {
            return Self::default();
        }
        let live = observed.live_nvidia_drivers().filter(|driver| !driver.deleting);
        // If the operator's version is unknown, it is unknown whether it labels nodes.
        let labels = ControllerGeneration::from_version(Driver::Gpu, observed.operator_version())
            .is_some_and(|generation| generation.features().policy_per_driver);
        Self { drivers: live.collect(), labels }
    }

    fn belongs(&self, node: &ObservedNode) -> PoolMembership<'a> {
        let is_fallback = |driver: &NvidiaDriver| self.labels && driver.is_default;
        let mut selecting = self
            .drivers
            .iter()
            .filter(|driver| !is_fallback(driver) && selects(&driver.node_selector, &node.labels));
        match (selecting.next(), selecting.next()) {
            (Some(_), Some(_)) => PoolMembership::Several,
            (Some(one), None) => PoolMembership::To(&one.name),
            (None, _) => {
                let mut defaults = self.drivers.iter().filter(|driver| is_fallback(driver));
                match (defaults.next(), defaults.next()) {
                    (Some(default), None) => PoolMembership::To(&default.name),
                    (Some(_), Some(_)) => PoolMembership::Several,
                    (None, _) => PoolMembership::Nobody,
                }
            }
        }
    }

    /// Returns why a node that should have an operator's driver is not assigned to its
    /// NVIDIADriver.
    pub fn misplaced(&self, node: &ObservedNode) -> Option<Reason> {
        let is_gpu_node = node.labels.has(names::GPU_PRESENT_LABEL, "true");
        let takes_driver = node.labels.has(names::DEPLOY_DRIVER_LABEL, "true");
        if !self.labels || !is_gpu_node || !takes_driver {
            return None;
        }
        match self.belongs(node) {
            PoolMembership::To(wanted) if node.driver_owner() != Some(wanted) => {
                Some(Reason::NodeInOtherPool {
                    wanted: wanted.to_owned(),
                    found: node.driver_owner().map(str::to_owned),
                })
            }
            PoolMembership::Nobody | PoolMembership::To(_) | PoolMembership::Several => None,
        }
    }

    /// Returns whether an NVIDIADriver should install the driver of the node.
    pub fn wants(&self, node: &ObservedNode) -> bool {
        node.driver_owner().is_some() || self.belongs(node) != PoolMembership::Nobody
    }

    /// Returns whether a node depends on the NVIDIADriver: the NVIDIADriver owns the node, or
    /// selects it, alone or together with others.
    pub fn concerns(&self, driver: &NvidiaDriver, node: &ObservedNode) -> bool {
        node.driver_owner() == Some(driver.name.as_str())
            || match self.belongs(node) {
                PoolMembership::To(wanted) => wanted == driver.name,
                PoolMembership::Several => selects(&driver.node_selector, &node.labels),
                PoolMembership::Nobody => false,
            }
    }
}
