//! One node: are driver and container toolkit current on it?

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use contract::driver::{Driver, DriverTraits};
use contract::names;

use super::pools::DriverPools;
use super::reason::Reason;
use super::spec::{driver_daemon_sets, toolkit_daemon_sets};
use nvidia_upgrade::state::ControllerState;
use observed::version::DriverVersion;
use observed::{Labels, Observed, ObservedDaemonSet, ObservedNode, ObservedPod, Views, newest, selects, untolerated_taint};

/// The longest that a driver takes from its container's start to its first readiness: the chart's startup probe gives it 21 minutes
/// (60 s, then 120 times 10 s); twice that and some for those who gave it more.
const FIRST_READINESS: SignedDuration = SignedDuration::from_hours(1);

/// Pods of a node take about as long to start; what differs by more is the work of a clock that was set.
const CLOCK_STEP: SignedDuration = SignedDuration::from_mins(20);

/// What runs under a plugin on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginBase {
    /// `<pod UID>/<restarts>` of driver and toolkit: another driver container is another identity.
    pub identity: String,
    /// The latest moment at which a container of driver or toolkit started, or their pods became ready.
    pub served_since: Option<Timestamp>,
    /// The driver's version, where its image tells.
    pub driver_version: Option<DriverVersion>,
    /// How the youngest of these pods began, if its containers were never restarted.
    pub beginning: Option<PodStart>,
    /// At most so far is the node's clock ahead of the API server's, by its pods: none starts before it is created.
    pub clock_lead: Option<SignedDuration>,
}

/// How a pod began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodStart {
    /// When the object was created, by the API server's clock.
    pub created: Timestamp,
    /// How much later its first containers started, by the node's clock.
    pub delay: SignedDuration,
}

impl PodStart {
    /// `None`: nothing runs, or it was restarted.
    pub fn of_pod(pod: &ObservedPod) -> Option<Self> {
        let once = pod.containers.iter().all(|container| container.restarts == 0);
        clock_lead(pod).filter(|_| once).map(|delay| Self { created: pod.created, delay })
    }
}

impl PluginBase {
    /// Why a plugin that seems to have started later than what it serves is stale all the same: its pod is the older one by the API server's clock, and the
    /// node's clock was set in between, so that container times do not tell an order.
    pub fn replaced_under(&self, plugin: &ObservedPod) -> Option<String> {
        let (base, plugin) = (self.beginning?, PodStart::of_pod(plugin)?);
        let is_set = base.delay.saturating_sub(plugin.delay).abs() > CLOCK_STEP;
        (plugin.created < base.created && is_set).then(|| {
            format!("its pod was created {}, what it serves {}, and the node's clock was set in between", plugin.created, base.created)
        })
    }
}

/// By how much the node's clock is ahead of the API server's at most, as far as this pod tells.
pub fn clock_lead(pod: &ObservedPod) -> Option<SignedDuration> {
    let started = pod.containers.iter().filter_map(|container| container.started).min()?;
    Some(started.duration_since(pod.created))
}

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverStatus {
    /// Driver and toolkit are as asked for, ready, and the vendor's controller is done.
    Current(PluginBase),
    /// Driver and toolkit are as asked for and ready; the vendor's controller has still to finish (uncordon, label).
    Finishing(PluginBase, Reason),
    /// Left on its old driver by the user's label; what runs there runs.
    Skipped(Option<PluginBase>),
    /// Not there yet.
    Waiting(Reason),
}

/// Pods and DaemonSets of driver and toolkit.
#[derive(Debug)]
pub struct DriverOperands<'a> {
    driver: Driver,
    drivers: Vec<&'a ObservedDaemonSet>,
    toolkits: Vec<&'a ObservedDaemonSet>,
    newest: BTreeMap<&'a str, &'a str>,
    pods: &'a Views<ObservedPod>,
    /// UIDs of DaemonSets that want more pods than they have, where that counts.
    lacking: UnscheduledDaemonSets<'a>,
    /// Who asks for drivers, as far as nodes without a driver DaemonSet are concerned.
    asked: DriverRequester,
    /// Which NVIDIADriver nodes belong to.
    pools: DriverPools<'a>,
}

/// A node's driver pod.
#[derive(Clone, Debug)]
pub struct DriverPod<'a> {
    /// The pod: while one is replaced, the one that stays.
    pub pod: &'a ObservedPod,
    /// It is of its DaemonSet's newest revision.
    pub newest: bool,
    /// `DRIVER_CONFIG_DIGEST` of its DaemonSet's template.
    pub template_digest: Option<String>,
}

/// Who asks for drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DriverRequester {
    /// Nobody: the nodes have their own.
    Nobody,
    /// The operator's one custom resource, for every node with the device.
    Everywhere,
    /// Objects that each choose their nodes.
    Somewhere,
}

impl<'a> DriverOperands<'a> {
    /// Finds them in what is observed.
    pub fn new(observed: &'a Observed, driver: Driver) -> Self {
        let drivers = driver_daemon_sets(observed, driver);
        Self {
            driver,
            asked: asked(observed, driver),
            drivers,
            toolkits: if driver == Driver::Gpu { toolkit_daemon_sets(observed).collect() } else { Vec::new() },
            newest: newest(&observed.revisions),
            pods: &observed.pods,
            lacking: lacking(observed, driver),
            pools: if driver == Driver::Gpu { DriverPools::new(observed) } else { DriverPools::default() },
        }
    }

    fn traits(&self) -> &'static DriverTraits {
        self.driver.traits()
    }

    /// The node's driver pod, whether or not it is to have one.
    pub fn driver_pod(&self, node: &ObservedNode) -> Option<DriverPod<'a>> {
        let pod = self.pod(node, self.traits().label)?;
        let owner = self.drivers.iter().find(|daemon_set| pod.owner.as_deref() == Some(daemon_set.uid.as_str()));
        Some(DriverPod { pod, newest: self.is_newest(pod), template_digest: owner.and_then(|owner| owner.config_digest.clone()) })
    }

    /// Whether a pod is of its DaemonSet's newest revision. One that its DaemonSet let go of (migration to NVIDIADriver) is out of date
    /// whatever its hash.
    fn is_newest(&self, pod: &ObservedPod) -> bool {
        let owner = pod.owner.as_deref().unwrap_or_default();
        self.newest.get(owner).is_some_and(|hash| pod.revision.as_deref() == Some(*hash))
    }

    /// Whether the DaemonSet of a GPU driver pod still selects the node: after a change of its NVIDIADriver another one does.
    fn is_of_its_daemon_set(&self, pod: &ObservedPod, node: &ObservedNode) -> bool {
        let mut owners = self.drivers.iter().filter(|daemon_set| pod.owner.as_deref() == Some(daemon_set.uid.as_str()));
        self.driver != Driver::Gpu || owners.any(|daemon_set| selects(&daemon_set.node_selector, &node.labels))
    }

    /// Whether a driver DaemonSet is to have a pod on the node. Its node selector alone does not tell where it has an affinity: one
    /// that has all the pods that it wants has none to bring to a node without.
    pub fn driver_wanted(&self, node: &ObservedNode) -> bool {
        let mut selecting = self.drivers.iter().filter(|daemon_set| selects(&daemon_set.node_selector, &node.labels));
        match self.driver {
            Driver::Gpu => selecting.next().is_some(),
            Driver::Ofed | Driver::DaemonSet => selecting.any(|daemon_set| {
                let here = self.pods.on(&node.name).any(|pod| pod.owner.as_ref() == Some(&daemon_set.uid));
                let begun = node.annotations.contains_key(self.traits().own_record);
                let lacking = if begun { &self.lacking.at_most } else { &self.lacking.now };
                here || lacking.contains(daemon_set.uid.as_str())
            }),
        }
    }

    /// Whether the operator is to bring drivers, and the node has one of its own that keeps them away.
    pub fn has_own_driver(&self, node: &ObservedNode) -> bool {
        let label = node.labels.get(names::DEPLOY_DRIVER_LABEL);
        self.driver == Driver::Gpu
            && self.asked != DriverRequester::Nobody
            && label.is_some_and(|value| value == names::DRIVER_PRE_INSTALLED)
    }

    fn pod(&self, node: &ObservedNode, label: Option<(&str, Option<&str>)>) -> Option<&'a ObservedPod> {
        let of_kind = |pod: &&ObservedPod| {
            label.is_none_or(|(key, value)| pod.labels.get(key).is_some_and(|found| value.is_none_or(|value| found == value)))
        };
        // While a pod is replaced two stand there: the one that stays counts.
        self.pods.on(&node.name).filter(of_kind).max_by_key(|pod| (!pod.deleting, pod.created))
    }

    /// How far the node is.
    pub fn status(&self, node: &ObservedNode) -> DriverStatus {
        let driver_wanted = self.driver_wanted(node);
        let driver = self.pod(node, self.traits().label);
        let toolkit = self.pod(node, Some((names::TOOLKIT_APP.0, Some(names::TOOLKIT_APP.1)))).filter(|_| self.driver == Driver::Gpu);
        if !driver_wanted && let Some(reason) = self.undriven(node) {
            return DriverStatus::Waiting(not_ready(node).unwrap_or(reason));
        }
        let driver = driver.filter(|_| driver_wanted);
        if driver_wanted
            && let Some(reason) = self.pools.misplaced(node)
            && !self.skipped(node)
        {
            return DriverStatus::Waiting(not_ready(node).unwrap_or(reason));
        }
        // A state label that was left on a node without a driver of the operator's is nobody's: it would be waited for for ever.
        let state = node.labels.get(self.traits().state_label).filter(|state| driver_wanted && !state.is_empty());
        if driver_wanted && let Err(reason) = self.driver(node, driver) {
            if self.skipped(node) && matches!(reason, Reason::DriverOutOfDate { .. }) {
                let runs = [driver, toolkit].into_iter().flatten().all(|pod| pod.running && pod.ready && !pod.deleting);
                return DriverStatus::Skipped(self.base(driver, toolkit).filter(|_| runs));
            }
            return DriverStatus::Waiting(not_ready(node).unwrap_or(reason));
        }
        if let Err(reason) = self.toolkit(node, toolkit) {
            return DriverStatus::Waiting(not_ready(node).unwrap_or(reason));
        }
        let Some(base) = self.base(driver, toolkit) else {
            // Driver and toolkit both come from outside: nothing to wait for, and nothing that a plugin could be older than.
            return DriverStatus::Current(PluginBase {
                identity: "host".to_owned(),
                served_since: None,
                driver_version: None,
                beginning: None,
                clock_lead: None,
            });
        };
        match state.map(String::as_str) {
            None | Some("upgrade-done") => DriverStatus::Current(base),
            Some("upgrade-failed") => DriverStatus::Waiting(Reason::UpgradeFailed { trouble: driver.and_then(|pod| pod.trouble.clone()) }),
            Some(state) => DriverStatus::Finishing(base, Reason::UpgradeUnfinished { state: state.to_owned(), why: None }),
        }
    }

    /// Why a node that no driver DaemonSet selects is not done with; `None`: its driver is not the operator's business.
    fn undriven(&self, node: &ObservedNode) -> Option<Reason> {
        match self.driver {
            Driver::Gpu => self.unlabeled(node),
            // With an affinity the node may be none of the operator's.
            Driver::Ofed => {
                let selected = self.drivers.iter().any(|daemon_set| selects(&daemon_set.node_selector, &node.labels));
                (!selected && self.asked == DriverRequester::Everywhere).then_some(Reason::NodeWithoutDaemonSet)
            }
            // Whom it does not select it does not mean.
            Driver::DaemonSet => None,
        }
    }

    /// The same for the GPU operator, which labels nodes for its operands.
    fn unlabeled(&self, node: &ObservedNode) -> Option<Reason> {
        if node.labels.get(names::WORKLOAD_CONFIG_LABEL).is_some_and(|config| config != "container") {
            return None;
        }
        // The operator gives a node some label for its operands before anything of it can run there.
        let labeled = node.labels.keys().any(|key| key.starts_with(names::DEPLOY_LABEL_PREFIX) && key != names::DEPLOY_OPERANDS_LABEL);
        if !labeled {
            return Some(Reason::NodeNotLabeled);
        }
        match node.labels.text(names::DEPLOY_DRIVER_LABEL) {
            // With drivers off no node has one of the operator's.
            Some(_) | None if self.asked == DriverRequester::Nobody => None,
            // A node that no NVIDIADriver wants has none either.
            Some("true") if self.asked == DriverRequester::Somewhere && !self.pools.wants(node) => None,
            Some("true") if self.asked == DriverRequester::Somewhere => {
                Some(self.pools.misplaced(node).unwrap_or(Reason::NodeWithoutDaemonSet))
            }
            Some("true") => Some(Reason::DriverPodMissing),
            // None: the node's GPUs are for virtual machines. `false` is the user's, `pre-installed` the driver manager's word for a
            // driver of the host.
            Some(_) | None => None,
        }
    }

    fn driver(&self, node: &ObservedNode, pod: Option<&ObservedPod>) -> Result<(), Reason> {
        let state = node.labels.get(self.traits().state_label).cloned();
        let Some(pod) = pod.filter(|pod| !pod.deleting) else {
            if let Some(reason) = self.tainted(node) {
                return Err(reason);
            }
            return Err(if state.as_deref() == Some("upgrade-failed") {
                Reason::UpgradeFailed { trouble: None }
            } else {
                Reason::DriverPodMissing
            });
        };
        let newest = self.is_newest(pod) && self.is_of_its_daemon_set(pod, node);
        if state.as_deref() == Some("upgrade-failed") && !(newest && pod.ready) {
            return Err(Reason::UpgradeFailed { trouble: pod.trouble.clone() });
        }
        if !newest {
            // Its DaemonSet makes no other pod while the taint is there, and the vendor's controller moves no node meanwhile.
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

    /// The taint that keeps the driver's pod off the node.
    pub fn tainted(&self, node: &ObservedNode) -> Option<Reason> {
        let daemon_set = self.drivers.iter().find(|daemon_set| selects(&daemon_set.node_selector, &node.labels))?;
        node_tainted(daemon_set, node)
    }

    fn toolkit(&self, node: &ObservedNode, pod: Option<&ObservedPod>) -> Result<(), Reason> {
        // The driver manager pauses the toolkit by changing its label; it still belongs there then.
        let paused = node.labels.get(names::DEPLOY_TOOLKIT_LABEL).is_some_and(|value| value.contains("paused-for-driver-upgrade"));
        let wanted = self.toolkits.iter().find(|daemon_set| paused || selects(&daemon_set.node_selector, &node.labels));
        let Some(daemon_set) = wanted else { return Ok(()) };
        let Some(pod) = pod.filter(|pod| !pod.deleting) else { return Err(Reason::ToolkitNotReady { trouble: None }) };
        let newest =
            daemon_set.on_delete || self.newest.get(daemon_set.uid.as_str()).is_none_or(|hash| pod.revision.as_deref() == Some(*hash));
        if newest && pod.running && pod.ready { Ok(()) } else { Err(Reason::ToolkitNotReady { trouble: pod.trouble.clone() }) }
    }

    /// The user's skip label counts only until the vendor's controller has begun with the node.
    fn skipped(&self, node: &ObservedNode) -> bool {
        let label = |key: &str| node.labels.text(key);
        let begun = !ControllerState::from_label(label(self.traits().state_label)).is_idle();
        // A hold of ours is no wish: the node's turn comes.
        let held = node.annotations.contains_key(self.traits().hold);
        label(self.traits().skip_label) == Some("true") && !begun && !held
    }

    fn base(&self, driver: Option<&ObservedPod>, toolkit: Option<&ObservedPod>) -> Option<PluginBase> {
        let pods: Vec<&ObservedPod> = driver.into_iter().chain(toolkit).collect();
        if pods.is_empty() {
            return None;
        }
        let restarts = |pod: &ObservedPod| pod.containers.iter().map(|container| container.restarts).sum::<i32>();
        let identity: Vec<String> = pods.iter().map(|pod| format!("{}/{}", pod.uid, restarts(pod))).collect();
        let main = driver.and_then(|pod| pod.containers.iter().find(|container| container.name == self.traits().container));
        Some(PluginBase {
            identity: identity.join("+"),
            served_since: pods.iter().filter_map(|pod| serves_since(pod)).max(),
            driver_version: main.and_then(|container| DriverVersion::of_image(&container.image)),
            beginning: pods.iter().max_by_key(|pod| pod.created).and_then(|pod| PodStart::of_pod(pod)),
            clock_lead: pods.iter().filter_map(|pod| clock_lead(pod)).min(),
        })
    }
}

/// The taint of a node that pods of a DaemonSet do not tolerate.
pub fn node_tainted(daemon_set: &ObservedDaemonSet, node: &ObservedNode) -> Option<Reason> {
    let taint = untolerated_taint(daemon_set, node)?;
    let taint = format!("{}={}:{}", taint.key, taint.value, taint.effect);
    Some(Reason::NodeTainted { daemon_set: daemon_set.name.clone(), taint })
}

/// UIDs of driver DaemonSets that want more pods than they have, where their node selectors alone do not tell which nodes they mean.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UnscheduledDaemonSets<'a> {
    /// As the numbers are.
    pub now: BTreeSet<&'a str>,
    /// As far as anything speaks for it: it is asked of nodes whose pod we may have deleted. Pods that are on their way, or stand where none
    /// should or no node is any more, are none that it has.
    pub at_most: BTreeSet<&'a str>,
}

/// Which driver DaemonSets want more pods than they have.
pub fn lacking(observed: &Observed, driver: Driver) -> UnscheduledDaemonSets<'_> {
    let mut lacking = UnscheduledDaemonSets::default();
    if driver == Driver::Gpu {
        return lacking;
    }
    for daemon_set in driver_daemon_sets(observed, driver) {
        let uid = daemon_set.uid.as_str();
        let owned = || observed.pods.iter().filter(|pod| pod.owner.as_deref() == Some(uid));
        let of_node = |pod: &'_ ObservedPod| !pod.deleting && pod.node.as_deref().is_some_and(|node| observed.nodes.contains_key(node));
        let staying: BTreeSet<&str> = owned().filter(|pod| of_node(pod)).filter_map(|pod| pod.node.as_deref()).collect();
        let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        if i64::from(daemon_set.desired) > signed(owned().count()) {
            lacking.now.insert(uid);
        }
        let wanted = i64::from(daemon_set.desired) + i64::from(daemon_set.misscheduled);
        if !daemon_set.observed || wanted > signed(staying.len()) {
            lacking.at_most.insert(uid);
        }
    }
    lacking
}

fn asked(observed: &Observed, driver: Driver) -> DriverRequester {
    match driver {
        Driver::Gpu => match observed.live_cluster_policy() {
            Some(policy) if !policy.driver_enabled => DriverRequester::Nobody,
            Some(policy) if policy.uses_nvidia_drivers => DriverRequester::Somewhere,
            Some(_) | None => DriverRequester::Everywhere,
        },
        Driver::Ofed => match observed.live_nic_cluster_policy() {
            Some(policy) if policy.ofed.is_some() && policy.node_affinity => DriverRequester::Somewhere,
            Some(policy) if policy.ofed.is_some() => DriverRequester::Everywhere,
            Some(_) | None => DriverRequester::Nobody,
        },
        Driver::DaemonSet => DriverRequester::Somewhere,
    }
}

/// Nodes that need the driver and that its operator is to serve.
pub fn driver_nodes(observed: &Observed, driver: Driver) -> impl Iterator<Item = &ObservedNode> {
    let which = DriverNodes::new(observed, driver);
    observed.nodes.values().filter(move |node| which.contains(node))
}

/// Which nodes need the driver.
#[derive(Debug)]
pub struct DriverNodes<'a> {
    driver: Driver,
    pods: &'a Views<ObservedPod>,
    /// Where no label tells: the driver's DaemonSets, whose pods do, …
    daemon_sets: Vec<&'a ObservedDaemonSet>,
    /// … and what they select by where they still want more of them.
    lacking: Vec<&'a Labels>,
}

impl<'a> DriverNodes<'a> {
    /// Looked up once for a whole fleet.
    pub fn new(observed: &'a Observed, driver: Driver) -> Self {
        let daemon_sets = if driver.has_operator() { Vec::new() } else { driver_daemon_sets(observed, driver) };
        let uids = if driver.has_operator() { BTreeSet::new() } else { lacking(observed, driver).now };
        let lacks = |daemon_set: &&&ObservedDaemonSet| uids.contains(daemon_set.uid.as_str());
        let lacking = daemon_sets.iter().filter(lacks).map(|daemon_set| &daemon_set.node_selector).collect();
        Self { driver, pods: &observed.pods, daemon_sets, lacking }
    }

    /// Whether the node needs the driver.
    pub fn contains(&self, node: &ObservedNode) -> bool {
        if self.driver.has_operator() {
            return is_driver_node(node, self.driver);
        }
        let of_driver = |pod: &ObservedPod| self.daemon_sets.iter().any(|daemon_set| pod.owner.as_ref() == Some(&daemon_set.uid));
        self.pods.on(&node.name).any(of_driver) || self.lacking.iter().any(|selector| selects(selector, &node.labels))
    }
}

/// Whether a node needs the driver and its operator is to serve it. Of a driver without an operator any node may have one.
pub fn is_driver_node(node: &ObservedNode, driver: Driver) -> bool {
    !driver.has_operator() || has_device(node, driver) && (driver != Driver::Gpu || operands_wanted(node))
}

/// The operator's own label, or what node-feature-discovery found (the operator's own test: `pci-10de` with a display class or none).
fn has_device(node: &ObservedNode, driver: Driver) -> bool {
    driver.traits().device_labels.iter().any(|key| node.labels.has(key, "true"))
}

fn operands_wanted(node: &ObservedNode) -> bool {
    !node.labels.has(names::DEPLOY_OPERANDS_LABEL, "false")
}

fn not_ready(node: &ObservedNode) -> Option<Reason> {
    (!node.ready).then_some(Reason::NodeNotReady { since: node.ready_since })
}

/// When a pod's containers had started and it became ready. The Ready condition's time is renewed whenever the node or its kubelet goes
/// away for a moment: one that lies further from the start than a first readiness can is none, and the start counts alone.
fn serves_since(pod: &ObservedPod) -> Option<Timestamp> {
    let started = pod.containers.iter().filter_map(|container| container.started).max()?;
    let latest = started.saturating_add(FIRST_READINESS).unwrap_or(Timestamp::MAX);
    let ready = pod.ready_since.filter(|ready| pod.ready && *ready <= latest);
    Some(ready.map_or(started, |ready| ready.max(started)))
}
