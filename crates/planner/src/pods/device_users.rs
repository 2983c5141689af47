//! The pods that use a driver's device: by NVIDIA's rules (gpu-operator `cmd/gpu-operator`, the pod
//! filter of its upgrade controller), or by gpu-rollout's, which also cover pods that NVIDIA's
//! rules miss: sidecars, and for OFED the pods on networks of the device.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use contract::driver::Driver;
use contract::names;
use contract::policy::UpgradeSettings;
use contract::selector::{Selector, SelectorError};
use observed::OptionalApi;
use observed::workload::{DeviceClaim, PodPhase, Workload};

/// The rules to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRules {
    /// The GPU Operator's rules, to predict its controller. The Network Operator has none: its pod
    /// deletion is off.
    Vendor {
        /// Whether it checks ResourceClaims (v26.7 and later).
        claims: bool,
    },
    /// gpu-rollout's rules.
    Ours,
}

/// How a pod uses the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceUse {
    /// A container requests this extended resource.
    Resource(String),
    /// A sidecar (a restartable init container) requests it.
    Sidecar(String),
    /// This ResourceClaim has a GPU.
    Claim(String),
    /// This ResourceClaim cannot be read: it may have a GPU.
    UnreadableClaim(String),
    /// It uses a secondary network.
    Network,
    /// The policy's `extraConsumers` selects it.
    Selected(String),
}

/// How a pod may use the device without requesting it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HiddenDeviceUse {
    /// Its runtime class gives it the GPUs.
    RuntimeClass(String),
    /// It mounts the host's device files.
    HostDevices,
}

/// The relation of a pod to the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceRelation {
    /// It uses the device: it must leave.
    Holds(DeviceUse),
    /// It may use it: it is reported, and evicted only if the policy selects it.
    Hidden(HiddenDeviceUse),
    /// It does not use the device.
    No,
}

/// Why the policy's `extraConsumers` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsumersError {
    /// One of them is not a selector.
    #[error("extraConsumers: {0}")]
    Selector(#[from] SelectorError),
    /// One of them selects every pod of the cluster.
    #[error("extraConsumers: an empty selector would evict every pod; use `drain` for that")]
    Everything,
}

/// Returns the selectors of the policy's `extraConsumers`.
///
/// # Errors
/// The first selector that is not valid, or that selects everything.
pub fn consumers(upgrade: &UpgradeSettings) -> Result<Vec<Selector>, ConsumersError> {
    let parse = |text: &String| {
        let selector: Selector = text.parse()?;
        if selector.is_everything() { Err(ConsumersError::Everything) } else { Ok(selector) }
    };
    upgrade.extra_consumers.iter().map(parse).collect()
}

/// Returns the prefixes of the extended resources of the device. GPU: NVIDIA's filter. OFED: the
/// default names of k8s-rdma-shared-dev-plugin (`rdma/`), the Network Operator (`nvidia.com/rdma`)
/// and the SR-IOV operator (`openshift.io/`); SR-IOV resources with other names belong to a
/// secondary network.
pub const fn resource_prefixes(driver: Driver) -> &'static [&'static str] {
    match driver {
        Driver::Gpu => &["nvidia.com/gpu", "nvidia.com/mig-"],
        Driver::Ofed => &["nvidia.com/rdma", "rdma/", "openshift.io/"],
        // The device of the driver is unknown: the policy must name its users.
        Driver::DaemonSet => &[],
    }
}

/// Prefix of the runtime classes of the container toolkit (`nvidia`, `nvidia-cdi`,
/// `nvidia-legacy`).
const RUNTIME_CLASS: &str = "nvidia";

/// Determines which pods use the device.
#[derive(Debug)]
pub struct DeviceUsers<'a> {
    driver: Driver,
    rules: DeviceRules,
    /// By namespace and name. `None`: the API server does not serve ResourceClaims.
    claims: Option<BTreeMap<(&'a str, &'a str), &'a DeviceClaim>>,
    consumers: &'a [Selector],
    operands: BTreeSet<&'a str>,
}

impl<'a> DeviceUsers<'a> {
    /// Creates it with NVIDIA's or gpu-rollout's rules, and all ResourceClaims of the cluster.
    pub fn new(
        driver: Driver,
        rules: DeviceRules,
        claims: &'a OptionalApi<Vec<DeviceClaim>>,
    ) -> Self {
        let by_name = |claims: &'a Vec<DeviceClaim>| {
            claims
                .iter()
                .map(|claim| ((claim.namespace.as_str(), claim.name.as_str()), claim))
                .collect()
        };
        Self {
            driver,
            rules,
            claims: claims.served().map(by_name),
            consumers: &[],
            operands: BTreeSet::new(),
        }
    }

    /// Adds selectors ([`consumers`]) of pods that use the device. NVIDIA's rules have none.
    #[must_use]
    pub fn with_consumers(self, consumers: &'a [Selector]) -> Self {
        Self { consumers, ..self }
    }

    /// Adds namespaces in which no use is hidden: the operators' own pods run there, which the
    /// driver manager removes.
    #[must_use]
    pub fn with_operands_in(self, namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        Self { operands: namespaces.into_iter().collect(), ..self }
    }

    /// Returns the relation of a pod to the device.
    pub fn judge(&self, pod: &Workload) -> DeviceRelation {
        match self.rules {
            DeviceRules::Vendor { claims } => {
                self.vendor(pod, claims).map_or(DeviceRelation::No, DeviceRelation::Holds)
            }
            // A pod whose node is unreachable may still run.
            DeviceRules::Ours if pod.phase.is_finished() => DeviceRelation::No,
            DeviceRules::Ours => self.ours(pod),
        }
    }

    fn vendor(&self, pod: &Workload, claims: bool) -> Option<DeviceUse> {
        if self.driver != Driver::Gpu || !matches!(pod.phase, PodPhase::Running | PodPhase::Pending)
        {
            return None;
        }
        self.resource(&pod.resources)
            .map(DeviceUse::Resource)
            .or_else(|| if claims { self.claim(pod) } else { None })
    }

    fn ours(&self, pod: &Workload) -> DeviceRelation {
        let by_device = match self.driver {
            Driver::Gpu => self.claim(pod),
            Driver::Ofed => pod.secondary_network.then_some(DeviceUse::Network),
            Driver::DaemonSet => None,
        };
        let selected = || {
            self.consumers
                .iter()
                .find(|selector| selector.matches(&pod.labels))
                .map(|selector| DeviceUse::Selected(selector.to_string()))
        };
        let hold = self.resource(&pod.resources).map(DeviceUse::Resource);
        let hold = hold
            .or_else(|| self.resource(&pod.sidecar_resources).map(DeviceUse::Sidecar))
            .or(by_device)
            .or_else(selected);
        match hold {
            Some(hold) => DeviceRelation::Holds(hold),
            None => self.hidden(pod).map_or(DeviceRelation::No, DeviceRelation::Hidden),
        }
    }

    fn resource(&self, resources: &BTreeSet<String>) -> Option<String> {
        let comes_with_device = |name: &&String| {
            resource_prefixes(self.driver).iter().any(|prefix| name.starts_with(prefix))
        };
        resources.iter().find(comes_with_device).cloned()
    }

    /// A claim without a name has no device yet; a claim without an allocation, or with admin
    /// access only, uses none.
    fn claim(&self, pod: &Workload) -> Option<DeviceUse> {
        pod.claims.iter().flatten().find_map(|name| {
            match self.claims.as_ref().and_then(|claims| claims.get(&(&pod.namespace, name))) {
                Some(claim) => claim
                    .drivers
                    .contains(names::DRA_GPU_DRIVER)
                    .then(|| DeviceUse::Claim(name.clone())),
                None => Some(DeviceUse::UnreadableClaim(name.clone())),
            }
        })
    }

    fn hidden(&self, pod: &Workload) -> Option<HiddenDeviceUse> {
        if self.driver != Driver::Gpu || self.operands.contains(pod.namespace.as_str()) {
            return None;
        }
        let class = pod.runtime_class.as_ref().filter(|class| class.starts_with(RUNTIME_CLASS));
        class
            .map(|class| HiddenDeviceUse::RuntimeClass(class.clone()))
            .or(pod.host_devices.then_some(HiddenDeviceUse::HostDevices))
    }
}

impl fmt::Display for DeviceUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(name) => write!(out, "requests {name}"),
            Self::Sidecar(name) => write!(out, "requests {name} in a sidecar"),
            Self::Claim(name) => write!(out, "has a GPU through resourceclaim/{name}"),
            Self::UnreadableClaim(name) => {
                write!(out, "uses resourceclaim/{name}, which cannot be read")
            }
            Self::Network => write!(out, "uses a secondary network"),
            Self::Selected(selector) => write!(out, "is selected by extraConsumers (`{selector}`)"),
        }
    }
}

impl fmt::Display for HiddenDeviceUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RuntimeClass(name) => {
                write!(out, "uses runtime class `{name}` and requests no GPU")
            }
            Self::HostDevices => write!(out, "uses the host's device files"),
        }
    }
}
