//! Whether driver and container toolkit of a node are current.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use contract::driver::{Driver, DriverTraits};
use contract::names;

use super::pools::DriverPools;
use super::reason::Reason;
use super::reason::upgrade::UpgradeReason;
use super::rolling_update::UnreadyNodes;
use super::spec::{driver_daemon_sets, toolkit_daemon_sets};
use nvidia_upgrade::state::ControllerState;
use observed::version::DriverVersion;
use observed::{
    Observed, ObservedDaemonSet, ObservedNode, ObservedPod, Views, newest, selects,
    untolerated_taint,
};

mod driver_nodes;
mod plugin_base;

pub use driver_nodes::{DriverNodes, UnscheduledDaemonSets, driver_nodes, is_driver_node, lacking};
pub use plugin_base::{PluginBase, PodStart, clock_lead};

use plugin_base::serves_since;

/// The status of driver and toolkit on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverStatus {
    /// Driver and toolkit match the spec and are ready, and NVIDIA's controller is done.
    Current(PluginBase),
    /// Driver and toolkit match the spec and are ready; NVIDIA's controller has not finished yet
    /// (uncordon, label).
    Finishing(PluginBase, Reason),
    /// The user's skip label keeps the node on its old driver, which runs.
    Skipped(Option<PluginBase>),
    /// Not current yet.
    Waiting(Reason),
}

/// Pods and DaemonSets of driver and toolkit.
#[derive(Debug)]
pub struct DriverOperands<'a> {
    driver: Driver,
    drivers: Vec<&'a ObservedDaemonSet>,
    toolkits: Vec<ToolkitSet<'a>>,
    newest: BTreeMap<&'a str, &'a str>,
    pods: &'a Views<ObservedPod>,
    /// UIDs of DaemonSets that need more pods than they have, if that matters.
    lacking: UnscheduledDaemonSets<'a>,
    /// Which objects specify drivers, for nodes without a driver DaemonSet.
    asked: DriverRequester,
    /// The NVIDIADriver that each node belongs to.
    pools: DriverPools<'a>,
    observed: &'a Observed,
}

/// A DaemonSet of the container toolkit.
#[derive(Debug)]
struct ToolkitSet<'a> {
    daemon_set: &'a ObservedDaemonSet,
    /// It is determined only when a pod with an older revision is found.
    unready: OnceCell<UnreadyNodes>,
}

/// A node's driver pod.
#[derive(Clone, Debug)]
pub struct DriverPod<'a> {
    /// The pod; while a pod is being replaced, the one that stays.
    pub pod: &'a ObservedPod,
    /// Whether it has its DaemonSet's newest revision.
    pub newest: bool,
    /// `DRIVER_CONFIG_DIGEST` of its DaemonSet's template.
    pub template_digest: Option<String>,
}

/// Which objects specify drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DriverRequester {
    /// None: the nodes have their own drivers.
    Nobody,
    /// The operator's single custom resource, for every node with the device.
    Everywhere,
    /// Objects that each select their nodes.
    Somewhere,
}

impl DriverPod<'_> {
    /// Returns whether it is the newest one, and works.
    pub fn is_current(&self) -> bool {
        self.newest && !self.pod.deleting && self.pod.containers_ready
    }
}

impl<'a> DriverOperands<'a> {
    /// Finds the pods and DaemonSets in the observed state.
    pub fn new(observed: &'a Observed, driver: Driver) -> Self {
        let drivers = driver_daemon_sets(observed, driver);
        Self {
            driver,
            asked: asked(observed, driver),
            drivers,
            toolkits: if driver == Driver::Gpu {
                let set = |daemon_set| ToolkitSet { daemon_set, unready: OnceCell::new() };
                toolkit_daemon_sets(observed).map(set).collect()
            } else {
                Vec::new()
            },
            newest: newest(&observed.revisions),
            pods: &observed.pods,
            lacking: lacking(observed, driver),
            pools: if driver == Driver::Gpu {
                DriverPools::new(observed)
            } else {
                DriverPools::default()
            },
            observed,
        }
    }

    fn traits(&self) -> &'static DriverTraits {
        self.driver.traits()
    }

    /// Returns the node's driver pod, even if the node should have none.
    pub fn driver_pod(&self, node: &ObservedNode) -> Option<DriverPod<'a>> {
        let pod = self.pod(node, self.traits().label)?;
        let owner = self
            .drivers
            .iter()
            .find(|daemon_set| pod.owner.as_deref() == Some(daemon_set.uid.as_str()));
        Some(DriverPod {
            pod,
            newest: self.is_newest(pod),
            template_digest: owner.and_then(|owner| owner.config_digest.clone()),
        })
    }

    /// Returns whether a pod has its DaemonSet's newest revision. A pod that its DaemonSet has
    /// orphaned (migration to NVIDIADriver) is out of date, whatever its hash.
    fn is_newest(&self, pod: &ObservedPod) -> bool {
        let owner = pod.owner.as_deref().unwrap_or_default();
        self.newest.get(owner).is_some_and(|hash| pod.revision.as_deref() == Some(*hash))
    }

    /// Returns whether the DaemonSet of a GPU driver pod still selects the node. It does not after
    /// a change of the node's NVIDIADriver.
    fn is_of_its_daemon_set(&self, pod: &ObservedPod, node: &ObservedNode) -> bool {
        let mut owners = self
            .drivers
            .iter()
            .filter(|daemon_set| pod.owner.as_deref() == Some(daemon_set.uid.as_str()));
        self.driver != Driver::Gpu
            || owners.any(|daemon_set| selects(&daemon_set.node_selector, &node.labels))
    }

    /// Returns whether a driver DaemonSet should have a pod on the node. The node selector is not
    /// sufficient for a DaemonSet with an affinity: if it has as many pods as it needs, it does not
    /// need one on a node without a pod.
    pub fn driver_wanted(&self, node: &ObservedNode) -> bool {
        let mut selecting = self
            .drivers
            .iter()
            .filter(|daemon_set| selects(&daemon_set.node_selector, &node.labels));
        match self.driver {
            Driver::Gpu => selecting.next().is_some(),
            Driver::Ofed | Driver::DaemonSet => selecting.any(|daemon_set| {
                let here =
                    self.pods.on(&node.name).any(|pod| pod.owner.as_ref() == Some(&daemon_set.uid));
                let started = node.annotations.contains_key(self.traits().own_record);
                let lacking = if started { &self.lacking.at_most } else { &self.lacking.now };
                here || lacking.contains(daemon_set.uid.as_str())
            }),
        }
    }

    /// Returns whether the operator should install drivers, but the node has its own driver, which
    /// keeps them away.
    pub fn has_own_driver(&self, node: &ObservedNode) -> bool {
        let label = node.labels.get(names::DEPLOY_DRIVER_LABEL);
        self.driver == Driver::Gpu
            && self.asked != DriverRequester::Nobody
            && label.is_some_and(|value| value == names::DRIVER_PRE_INSTALLED)
    }

    fn pod(
        &self,
        node: &ObservedNode,
        label: Option<(&str, Option<&str>)>,
    ) -> Option<&'a ObservedPod> {
        let of_kind = |pod: &&ObservedPod| {
            label.is_none_or(|(key, value)| {
                pod.labels.get(key).is_some_and(|found| value.is_none_or(|value| found == value))
            })
        };
        // While a pod is being replaced, there are two: the one that stays counts.
        self.pods.on(&node.name).filter(of_kind).max_by_key(|pod| (!pod.deleting, pod.created))
    }

    /// Returns the status of the node.
    pub fn status(&self, node: &ObservedNode) -> DriverStatus {
        let driver_wanted = self.driver_wanted(node);
        let driver = self.pod(node, self.traits().label);
        let toolkit = self
            .pod(node, Some((names::TOOLKIT_APP.0, Some(names::TOOLKIT_APP.1))))
            .filter(|_| self.driver == Driver::Gpu);
        if !driver_wanted && let Some(reason) = self.undriven(node, driver) {
            return DriverStatus::Waiting(not_ready(node).unwrap_or(reason));
        }
        let driver = driver.filter(|_| driver_wanted);
        if driver_wanted
            && let Some(reason) = self.pools.misplaced(node)
            && !self.skipped(node)
        {
            return DriverStatus::Waiting(not_ready(node).unwrap_or(reason));
        }
        // A state label that was left on a node without an operator's driver has no owner: the hook
        // would wait for it indefinitely.
        let state = node
            .labels
            .get(self.traits().state_label)
            .filter(|state| driver_wanted && !state.is_empty());
        if driver_wanted && let Err(reason) = self.driver(node, driver) {
            if self.skipped(node) && matches!(reason, Reason::DriverOutOfDate { .. }) {
                let runs = [driver, toolkit]
                    .into_iter()
                    .flatten()
                    .all(|pod| pod.running && pod.ready && !pod.deleting);
                return DriverStatus::Skipped(self.base(driver, toolkit).filter(|_| runs));
            }
            return DriverStatus::Waiting(not_ready(node).unwrap_or(reason));
        }
        if let Err(reason) = self.toolkit(node, toolkit) {
            return DriverStatus::Waiting(not_ready(node).unwrap_or(reason));
        }
        let Some(base) = self.base(driver, toolkit) else {
            // Neither driver nor toolkit is the operator's: there is nothing to wait for, and
            // nothing that a plugin could be older than.
            return DriverStatus::Current(PluginBase {
                identity: "host".to_owned(),
                ..PluginBase::default()
            });
        };
        match state.map(String::as_str) {
            None | Some("upgrade-done") => DriverStatus::Current(base),
            Some("upgrade-failed") => DriverStatus::Waiting(Reason::UpgradeFailed {
                trouble: driver.and_then(|pod| pod.trouble.clone()),
            }),
            Some(state) => DriverStatus::Finishing(
                base,
                Reason::UpgradeUnfinished { state: state.to_owned(), why: None },
            ),
        }
    }

    /// Returns why a node that no driver DaemonSet selects is not done; `None` if the operator is
    /// not responsible for its driver.
    fn undriven(&self, node: &ObservedNode, driver: Option<&ObservedPod>) -> Option<Reason> {
        match self.driver {
            Driver::Gpu => self.unlabeled(node, driver),
            // With an affinity, the operator may not be responsible for the node.
            Driver::Ofed => {
                let selected = self
                    .drivers
                    .iter()
                    .any(|daemon_set| selects(&daemon_set.node_selector, &node.labels));
                (!selected && self.asked == DriverRequester::Everywhere)
                    .then_some(Reason::NodeWithoutDaemonSet)
            }
            // A node that the DaemonSet does not select does not need the driver.
            Driver::DaemonSet => None,
        }
    }

    /// Returns the same for the GPU Operator, which labels nodes for its operands.
    fn unlabeled(&self, node: &ObservedNode, driver: Option<&ObservedPod>) -> Option<Reason> {
        if node.labels.get(names::WORKLOAD_CONFIG_LABEL).is_some_and(|config| config != "container")
        {
            return None;
        }
        // The operator sets at least one operand label on a node before any operand can run there.
        let labeled = node.labels.keys().any(|key| {
            key.starts_with(names::DEPLOY_LABEL_PREFIX) && key != names::DEPLOY_OPERANDS_LABEL
        });
        if !labeled {
            return Some(Reason::NodeNotLabeled);
        }
        match node.labels.text(names::DEPLOY_DRIVER_LABEL) {
            // With drivers off, no node has an operator's driver.
            Some(_) | None if self.asked == DriverRequester::Nobody => None,
            // A node that no NVIDIADriver selects has none either.
            Some("true") if self.asked == DriverRequester::Somewhere && !self.pools.wants(node) => {
                None
            }
            Some("true") if self.asked == DriverRequester::Somewhere => {
                Some(self.pools.misplaced(node).unwrap_or(Reason::NodeWithoutDaemonSet))
            }
            Some("true") => Some(without_driver_pod(driver)),
            // None: the node's GPUs are for virtual machines. The user sets `false`; the driver
            // manager sets `pre-installed` for a driver of the host.
            Some(_) | None => None,
        }
    }

    fn driver(&self, node: &ObservedNode, present: Option<&ObservedPod>) -> Result<(), Reason> {
        let state = node.labels.get(self.traits().state_label).cloned();
        let Some(pod) = present.filter(|pod| !pod.deleting) else {
            if let Some(reason) = self.tainted(node) {
                return Err(reason);
            }
            return Err(if state.as_deref() == Some("upgrade-failed") {
                Reason::UpgradeFailed { trouble: None }
            } else {
                without_driver_pod(present)
            });
        };
        let newest = self.is_newest(pod) && self.is_of_its_daemon_set(pod, node);
        if state.as_deref() == Some("upgrade-failed") && !(newest && pod.ready) {
            return Err(Reason::UpgradeFailed { trouble: pod.trouble.clone() });
        }
        if !newest {
            // While the taint exists, the DaemonSet creates no other pod, and NVIDIA's controller
            // does not upgrade the node.
            if let Some(reason) = self.tainted(node).filter(|_| !self.skipped(node)) {
                return Err(reason);
            }
            return Err(Reason::DriverOutOfDate { state, why: None });
        }
        if let Some(message) = &pod.unschedulable {
            return Err(Reason::DriverPodUnschedulable { message: message.clone() });
        }
        if !(pod.running && pod.ready) {
            let restarts = pod.containers.iter().map(|container| container.restarts).sum();
            return Err(Reason::DriverNotReady { state, trouble: pod.trouble.clone(), restarts });
        }
        Ok(())
    }

    /// Returns the taint that keeps the driver's pod off the node.
    pub fn tainted(&self, node: &ObservedNode) -> Option<Reason> {
        let daemon_set = self
            .drivers
            .iter()
            .find(|daemon_set| selects(&daemon_set.node_selector, &node.labels))?;
        node_tainted(daemon_set, node)
    }

    fn toolkit(&self, node: &ObservedNode, pod: Option<&ObservedPod>) -> Result<(), Reason> {
        // The driver manager pauses the toolkit by changing its label; the toolkit still belongs
        // there.
        let paused = node
            .labels
            .get(names::DEPLOY_TOOLKIT_LABEL)
            .is_some_and(|value| value.contains("paused-for-driver-upgrade"));
        let wanted = self
            .toolkits
            .iter()
            .find(|toolkit| paused || selects(&toolkit.daemon_set.node_selector, &node.labels));
        let Some(toolkit) = wanted else { return Ok(()) };
        let Some(pod) = pod.filter(|pod| !pod.deleting) else {
            return Err(Reason::ToolkitNotReady { trouble: None });
        };
        if !(pod.running && pod.ready) {
            return Err(Reason::ToolkitNotReady { trouble: pod.trouble.clone() });
        }
        let newest = toolkit.daemon_set.on_delete
            || self
                .newest
                .get(toolkit.daemon_set.uid.as_str())
                .is_none_or(|hash| pod.revision.as_deref() == Some(*hash));
        if newest {
            return Ok(());
        }
        let unready = toolkit.unready.get_or_init(|| self.unready(toolkit.daemon_set));
        Err(Reason::ToolkitOutdated { awaited: unready.awaited_before(&node.name) })
    }

    fn unready(&self, daemon_set: &ObservedDaemonSet) -> UnreadyNodes {
        let is_unready = |pod: &&ObservedPod| {
            pod.owner.as_ref() == Some(&daemon_set.uid)
                && !(pod.running && pod.ready && !pod.deleting)
        };
        let places = self.pods.iter().filter(is_unready).filter_map(|pod| pod.node.as_deref());
        UnreadyNodes::new(self.observed, daemon_set, places)
    }

    /// Returns whether the user's skip label applies: only until NVIDIA's controller has started
    /// the node.
    fn skipped(&self, node: &ObservedNode) -> bool {
        let label = |key: &str| node.labels.text(key);
        let started = !ControllerState::from_label(label(self.traits().state_label)).is_idle();
        // A hold is not the user's request to skip the node: the hook will start the node.
        let held = node.annotations.contains_key(self.traits().hold);
        label(self.traits().skip_label) == Some("true") && !started && !held
    }

    fn base(
        &self,
        driver: Option<&ObservedPod>,
        toolkit: Option<&ObservedPod>,
    ) -> Option<PluginBase> {
        let pods: Vec<&ObservedPod> = driver.into_iter().chain(toolkit).collect();
        if pods.is_empty() {
            return None;
        }
        let restarts = |pod: &ObservedPod| {
            pod.containers.iter().map(|container| container.restarts).sum::<i32>()
        };
        let identity: Vec<String> =
            pods.iter().map(|pod| format!("{}/{}", pod.uid, restarts(pod))).collect();
        let main = driver.and_then(|pod| {
            pod.containers.iter().find(|container| container.name == self.traits().container)
        });
        Some(PluginBase {
            identity: identity.join("+"),
            served_since: pods.iter().filter_map(|pod| serves_since(pod)).max(),
            driver_version: main.and_then(|container| DriverVersion::of_image(&container.image)),
            beginning: pods
                .iter()
                .max_by_key(|pod| pod.created)
                .and_then(|pod| PodStart::of_pod(pod)),
            clock_lead: pods.iter().filter_map(|pod| clock_lead(pod)).min(),
        })
    }
}

/// Returns the reason of a node that has no driver pod, or only one that is terminating.
fn without_driver_pod(pod: Option<&ObservedPod>) -> Reason {
    pod.filter(|pod| pod.deleting).map_or(Reason::DriverPodMissing, |pod| {
        Reason::Upgrading(UpgradeReason::DriverEnding { pod: pod.name.clone(), trouble: None })
    })
}

/// Returns the taint of a node that the pods of a DaemonSet do not tolerate.
pub fn node_tainted(daemon_set: &ObservedDaemonSet, node: &ObservedNode) -> Option<Reason> {
    let taint = untolerated_taint(daemon_set, node)?;
    let taint = format!("{}={}:{}", taint.key, taint.value, taint.effect);
    Some(Reason::NodeTainted { daemon_set: daemon_set.name.clone(), taint })
}

fn asked(observed: &Observed, driver: Driver) -> DriverRequester {
    match driver {
        Driver::Gpu => match observed.live_cluster_policy() {
            Some(policy) if !policy.driver_enabled => DriverRequester::Nobody,
            Some(policy) if policy.uses_nvidia_drivers => DriverRequester::Somewhere,
            Some(_) | None => DriverRequester::Everywhere,
        },
        Driver::Ofed => match observed.live_nic_cluster_policy() {
            Some(policy) if policy.ofed.is_some() && policy.node_affinity => {
                DriverRequester::Somewhere
            }
            Some(policy) if policy.ofed.is_some() => DriverRequester::Everywhere,
            Some(_) | None => DriverRequester::Nobody,
        },
        Driver::DaemonSet => DriverRequester::Somewhere,
    }
}

fn not_ready(node: &ObservedNode) -> Option<Reason> {
    (!node.ready).then_some(Reason::NodeNotReady { since: node.ready_since })
}
