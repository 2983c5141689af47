//! The labels by which the controller finds DaemonSets and pods of the driver.

use contract::driver::Driver;
use contract::names;

use observed::{Labels, Observed};

/// Labels that DaemonSets and pods of the driver must all have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverSelection {
    /// gpu-operator with a ClusterPolicy.
    ClusterPolicy,
    /// gpu-operator with a ClusterPolicy on OpenShift with the driver toolkit.
    OpenShift,
    /// gpu-operator with NVIDIADrivers.
    NvidiaDrivers,
    /// network-operator, DaemonSets of the NicClusterPolicy.
    Network,
    /// network-operator before DaemonSets had owner labels.
    NetworkWithoutOwner,
}

impl DriverSelection {
    /// Returns the selection in use.
    pub fn from_observed(observed: &Observed, driver: Driver) -> Self {
        let any = |key: &str| {
            observed
                .daemon_sets
                .iter()
                .any(|daemon_set| daemon_set.template_labels.contains_key(key))
        };
        match driver {
            Driver::Ofed if any(names::OFED_OWNER_LABEL) => Self::Network,
            // No controller selects pods here.
            Driver::Ofed | Driver::DaemonSet => Self::NetworkWithoutOwner,
            Driver::Gpu => match observed.live_cluster_policy() {
                Some(policy) if policy.uses_nvidia_drivers => Self::NvidiaDrivers,
                None => Self::NvidiaDrivers,
                Some(_) if any(names::DRIVER_TOOLKIT_LABEL) => Self::OpenShift,
                Some(_) => Self::ClusterPolicy,
            },
        }
    }

    /// Returns the labels with their values.
    pub fn labels(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::ClusterPolicy => &[("app", "nvidia-driver-daemonset")],
            Self::OpenShift => &[(names::DRIVER_TOOLKIT_LABEL, "true")],
            Self::NvidiaDrivers => &[names::DRIVER_COMPONENT],
            Self::Network => &[
                (names::OFED_DRIVER_LABEL, ""),
                (names::OFED_OWNER_LABEL, names::OFED_OWNER_POLICY),
            ],
            Self::NetworkWithoutOwner => &[(names::OFED_DRIVER_LABEL, "")],
        }
    }

    /// Returns whether an object with these labels is selected.
    pub fn selects(self, labels: &Labels) -> bool {
        self.labels().iter().all(|(key, value)| labels.has(key, value))
    }
}
