//! Why something waits, or ended as it did: typed, with a text for people, whether it can resolve by itself, and what to do.

use std::fmt;

use jiff::Timestamp;

use crate::contract::exit::ExitCode;

/// What is waited for. Every wait of the engine is one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The CustomResourceDefinition of ClusterPolicy is missing.
    ClusterPolicyApiMissing,
    /// The operator's Deployment is not there.
    OperatorMissing {
        /// Where it was looked for.
        namespace: String,
    },
    /// The operator's Deployment is not rolled out.
    OperatorNotReady {
        /// Replicas that are available and of the newest template.
        available: i32,
        /// Replicas that are wanted.
        replicas: i32,
    },
    /// There is no ClusterPolicy.
    ClusterPolicyMissing {
        /// Its expected name.
        name: String,
    },
    /// There is no NVIDIADriver though the ClusterPolicy leaves the driver to them.
    NvidiaDriverMissing,
    /// The live custom resource does not say what the bundle's values say.
    Precondition {
        /// Field path, from `spec` on.
        field: &'static str,
        /// What the values say.
        expected: String,
        /// What the live object says.
        found: String,
        /// Who set the field last, if the server tells.
        manager: Option<String>,
    },
    /// The operator has not yet made its objects from the live spec.
    SpecNotObserved {
        /// The object that is behind.
        object: String,
        /// What in it.
        field: String,
        /// What the custom resource asks for.
        expected: String,
        /// What it has.
        found: String,
    },
    /// There are GPU nodes but the operator has not made a DaemonSet that it should have.
    DaemonSetMissing {
        /// Whose.
        what: &'static str,
    },
    /// No GPU node was found, and node-feature-discovery has not been to every node.
    NodesUndiscovered {
        /// How many ready nodes it has not labelled.
        count: usize,
    },
    /// node-feature-discovery has not labelled any node.
    NoNodeFeatures,
    /// No node has a GPU, and the operator does not (yet) say so itself.
    NoGpuNodes {
        /// What the ClusterPolicy's Ready condition gives as reason.
        operator_says: Option<String>,
    },
    /// The operator has not labelled the node for its operands.
    NodeNotLabelled,
    /// Node condition Ready is not True.
    NodeNotReady {
        /// Since when.
        since: Option<Timestamp>,
    },
    /// No driver pod on the node.
    DriverPodMissing,
    /// The driver pod cannot be scheduled.
    DriverPodUnschedulable {
        /// What the scheduler says.
        message: String,
    },
    /// The node's driver pod is of an older revision.
    DriverOutOfDate {
        /// The vendor's upgrade state of the node.
        state: Option<String>,
    },
    /// The driver pod is of the newest revision and not ready.
    DriverNotReady {
        /// The vendor's upgrade state of the node.
        state: Option<String>,
        /// What is wrong with a container, if anything.
        trouble: Option<String>,
        /// Restarts of its containers.
        restarts: i32,
    },
    /// The vendor's controller has not finished with the node.
    UpgradeUnfinished {
        /// The vendor's upgrade state of the node.
        state: String,
    },
    /// The vendor's controller has given the node up.
    UpgradeFailed {
        /// What is wrong with the driver pod, if anything.
        trouble: Option<String>,
    },
    /// The user's skip label keeps the node on its old driver.
    Skipped,
    /// The container toolkit's pod is missing or not ready.
    ToolkitNotReady {
        /// What is wrong with a container, if anything.
        trouble: Option<String>,
    },
    /// The DRA plugin is stale and its turn has not come.
    PluginQueued {
        /// Why it is stale.
        cause: String,
        /// Plugins that are away because of us.
        away: usize,
        /// How many may be.
        limit: usize,
    },
    /// The DRA plugin is stale and its turn will not come: the plugins that went before it did not come back.
    PluginHeldUp {
        /// Why it is stale.
        cause: String,
        /// How many did not come back.
        failed: usize,
    },
    /// The DRA plugin is stale and is not replaced because the settings say so.
    PluginStale {
        /// Why it is stale.
        cause: String,
    },
    /// The DRA plugin pod is not there.
    PluginMissing,
    /// The DRA plugin pod cannot be scheduled.
    PluginUnschedulable {
        /// What the scheduler says.
        message: String,
    },
    /// The DRA plugin pod is not ready.
    PluginNotReady {
        /// What is wrong with a container, if anything.
        trouble: Option<String>,
    },
    /// The plugin has not published the node's devices.
    SliceMissing {
        /// The DRA driver's name.
        driver: String,
    },
    /// The plugin still publishes another driver version, even after it was replaced.
    SliceOutdated {
        /// The version that it publishes.
        published: String,
        /// The version that is loaded.
        loaded: String,
    },
    /// A DRA driver is required and there is none.
    DraMissing {
        /// Where it was looked for.
        namespaces: Vec<String>,
    },
    /// There is a DRA driver, but its DaemonSet wants no pod although there are GPU nodes.
    DraScheduledNowhere {
        /// The DaemonSet.
        daemon_set: String,
    },
    /// All is well; it must stay so for a while.
    Quiet {
        /// Until when.
        until: Timestamp,
    },
}

impl Reason {
    /// A constant name for events, metrics and logs.
    pub fn name(&self) -> &'static str {
        self.row().0
    }

    /// Whether waiting can help.
    pub fn resolves_itself(&self) -> bool {
        self.row().1
    }

    /// The exit code of a run that ends for this reason.
    pub fn exit_code(&self) -> ExitCode {
        self.row().2
    }

    /// Whether it only waits for others: what they wait for is the more telling.
    pub fn waits_for_others(&self) -> bool {
        if let Self::DriverOutOfDate { state } = self {
            return matches!(state.as_deref(), None | Some("" | "upgrade-done" | "upgrade-required"));
        }
        matches!(self, Self::PluginQueued { .. } | Self::PluginHeldUp { .. } | Self::Quiet { .. })
    }

    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        self.row().3
    }

    /// The table: name, whether it can resolve by itself, exit code of a run that ends for it, advice.
    fn row(&self) -> (&'static str, bool, ExitCode, &'static str) {
        use ExitCode::{ApiMissing, Budget, DraMissing, DraNotServing, NoGpuNodes, NodesFailed, OperatorMissing, Precondition, Success};
        match self {
            Self::ClusterPolicyApiMissing => (
                "ClusterPolicyApiMissing",
                false,
                ApiMissing,
                "install the CustomResourceDefinitions of the GPU operator (the bundle's *-crds release) first",
            ),
            Self::OperatorMissing { .. } => {
                ("OperatorMissing", false, OperatorMissing, "install the GPU operator, or set rollout.operatorNamespace to where it is")
            }
            Self::OperatorNotReady { .. } => (
                "OperatorNotReady",
                true,
                OperatorMissing,
                "look at the pods of deployment/gpu-operator: kubectl describe pod -l app=gpu-operator",
            ),
            Self::ClusterPolicyMissing { .. } => (
                "ClusterPolicyMissing",
                false,
                OperatorMissing,
                "with the operator's chart, set clusterPolicy.deployCR; under another name, set rollout.clusterPolicy; clusters that use a GPUCluster instead are not supported",
            ),
            Self::NvidiaDriverMissing => {
                ("NvidiaDriverMissing", false, OperatorMissing, "create an NVIDIADriver, or set driver.nvidiaDriverCRD.enabled to false")
            }
            Self::Precondition { .. } => (
                "Precondition",
                true,
                Precondition,
                "deploy the operator's release with the same values as its hook release; see who manages the field",
            ),
            Self::SpecNotObserved { .. } => {
                ("SpecNotObserved", true, Budget, "the operator has not acted on the newest spec: look at its log")
            }
            Self::DaemonSetMissing { .. } => (
                "DaemonSetMissing",
                true,
                Budget,
                "look at the operator's log and at the conditions of the ClusterPolicy (and of the NVIDIADrivers)",
            ),
            Self::NodesUndiscovered { .. } => {
                ("NodesUndiscovered", true, Budget, "look at the workers of node-feature-discovery on these nodes")
            }
            Self::NoNodeFeatures => {
                ("NoNodeFeatures", true, NoGpuNodes, "node-feature-discovery has not run: check its pods (chart value nfd.enabled)")
            }
            Self::NoGpuNodes { .. } => (
                "NoGpuNodes",
                true,
                NoGpuNodes,
                "if there should be GPU nodes, look at node-feature-discovery; if not, wait until the operator says so itself",
            ),
            Self::NodeNotLabelled => ("NodeNotLabelled", true, Budget, "the operator has not labelled the node: look at its log"),
            Self::NodeNotReady { .. } => ("NodeNotReady", true, Budget, "repair or remove the node, or raise rollout.tolerateNotReady"),
            Self::DriverPodMissing => {
                ("DriverPodMissing", true, Budget, "see why the DaemonSet controller makes no pod: kubectl describe daemonset")
            }
            Self::DriverPodUnschedulable { .. } => {
                ("DriverPodUnschedulable", true, Budget, "make room for the driver pod, or fix taints and selectors")
            }
            Self::DriverOutOfDate { .. } => (
                "DriverOutOfDate",
                true,
                Budget,
                "the vendor's controller takes nodes by driver.upgradePolicy; with autoUpgrade false delete the driver pod yourself",
            ),
            Self::DriverNotReady { .. } => {
                ("DriverNotReady", true, Budget, "look at the driver pod's log: kubectl logs -c nvidia-driver-ctr")
            }
            Self::UpgradeUnfinished { .. } => {
                ("UpgradeUnfinished", true, Budget, "the vendor's controller goes on by itself, at the latest at its next two-minute tick")
            }
            Self::UpgradeFailed { .. } => (
                "UpgradeFailed",
                false,
                NodesFailed,
                "repair the driver on the node, then label it nvidia.com/gpu-driver-upgrade-state=upgrade-required to try again",
            ),
            Self::Skipped => ("Skipped", false, Success, "remove the label nvidia.com/gpu-driver-upgrade.skip to let the node be upgraded"),
            Self::ToolkitNotReady { .. } => {
                ("ToolkitNotReady", true, Budget, "look at the pod of nvidia-container-toolkit-daemonset on the node")
            }
            Self::PluginQueued { .. } => {
                ("PluginQueued", true, Budget, "its turn comes when another plugin is back; rollout.dra.maxUnavailable is the limit")
            }
            Self::PluginHeldUp { .. } => {
                ("PluginHeldUp", true, DraNotServing, "repair the plugins that did not come back, then deploy again")
            }
            Self::PluginStale { .. } => {
                ("PluginStale", false, DraNotServing, "delete the plugin pod of the node, or set rollout.dra.reroll to auto")
            }
            Self::PluginMissing => ("PluginMissing", true, DraNotServing, "see why the plugin's DaemonSet makes no pod for the node"),
            Self::PluginUnschedulable { .. } => {
                ("PluginUnschedulable", true, DraNotServing, "make room for the plugin pod, or fix taints and selectors of the DRA driver")
            }
            Self::PluginNotReady { .. } => ("PluginNotReady", true, DraNotServing, "look at the plugin pod's log on the node"),
            Self::SliceMissing { .. } => {
                ("SliceMissing", true, DraNotServing, "the plugin published no devices: look at its log on the node")
            }
            Self::SliceOutdated { .. } => (
                "SliceOutdated",
                true,
                DraNotServing,
                "the plugin still sees the old driver: look at its log, and at nvidiaDriverRoot in the DRA driver's values",
            ),
            Self::DraMissing { .. } => (
                "DraMissing",
                false,
                DraMissing,
                "install the DRA driver, set rollout.dra.namespaces to where it is, or rollout.dra.required to auto",
            ),
            Self::DraScheduledNowhere { .. } => (
                "DraScheduledNowhere",
                false,
                DraMissing,
                "compare the DaemonSet's node selector and affinity with the labels of the GPU nodes",
            ),
            Self::Quiet { .. } => ("Quiet", true, Budget, "nothing: it only has to stay so"),
        }
    }
}

/// ` (trouble)`, or nothing.
struct Trouble<'a>(&'a Option<String>);

impl fmt::Display for Trouble<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |trouble| write!(formatter, " ({trouble})"))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterPolicyApiMissing => write!(out, "the API server does not know clusterpolicies.nvidia.com"),
            Self::OperatorMissing { namespace } => write!(out, "no deployment/gpu-operator in namespace `{namespace}`"),
            Self::OperatorNotReady { available, replicas } => {
                write!(out, "deployment/gpu-operator is not rolled out: {available} of {replicas} replicas current and available")
            }
            Self::ClusterPolicyMissing { name } => write!(out, "no ClusterPolicy `{name}`"),
            Self::NvidiaDriverMissing => write!(out, "the ClusterPolicy leaves the driver to NVIDIADriver objects and there is none"),
            Self::Precondition { field, expected, found, manager } => {
                write!(out, "the ClusterPolicy's {field} is `{found}`, the bundle's values say `{expected}`")?;
                manager.as_ref().map_or(Ok(()), |manager| write!(out, " (field manager `{manager}`)"))
            }
            Self::SpecNotObserved { object, field, expected, found } => {
                write!(out, "the operator has not observed the newest spec: {field} of {object} is `{found}`, asked for is `{expected}`")
            }
            Self::DaemonSetMissing { what } => write!(out, "there are GPU nodes and the operator has made no DaemonSet of the {what}"),
            Self::NodesUndiscovered { count } => {
                write!(out, "no GPU node so far, and node-feature-discovery has not labelled {count} of the ready nodes")
            }
            Self::NoNodeFeatures => write!(out, "node-feature-discovery has not labelled any node"),
            Self::NoGpuNodes { operator_says } => write!(
                out,
                "no node has a GPU, and the operator says {}",
                operator_says.as_deref().map_or_else(|| "nothing about it".to_owned(), |reason| format!("`{reason}`"))
            ),
            Self::NodeNotLabelled => write!(out, "the operator has not labelled the node for its operands"),
            Self::NodeNotReady { since } => {
                write!(out, "the node is NotReady")?;
                since.map_or(Ok(()), |since| write!(out, " since {since}"))
            }
            Self::DriverPodMissing => write!(out, "no driver pod on the node"),
            Self::DriverPodUnschedulable { message } => write!(out, "the driver pod cannot be scheduled: {message}"),
            Self::DriverOutOfDate { state } => {
                write!(out, "the driver pod is of an older revision, upgrade state `{}`", state.as_deref().unwrap_or("none"))
            }
            Self::DriverNotReady { state, trouble, restarts } => {
                let state = state.as_deref().unwrap_or("none");
                write!(out, "the new driver pod is not ready{}, {restarts} restarts, upgrade state `{state}`", Trouble(trouble))
            }
            Self::UpgradeUnfinished { state } => write!(out, "the vendor's controller has not finished: upgrade state `{state}`"),
            Self::UpgradeFailed { trouble } => write!(out, "upgrade state `upgrade-failed`{}", Trouble(trouble)),
            Self::Skipped => write!(out, "left on its old driver: label nvidia.com/gpu-driver-upgrade.skip"),
            Self::ToolkitNotReady { trouble } => write!(out, "the container toolkit is not ready{}", Trouble(trouble)),
            Self::PluginQueued { cause, away, limit } => {
                write!(out, "the DRA plugin is stale ({cause}) and waits for its turn: {away} of at most {limit} plugins are away")
            }
            Self::PluginHeldUp { cause, failed } => {
                write!(
                    out,
                    "the DRA plugin is stale ({cause}) and is left so, because {failed} plugins that were replaced did not come back"
                )
            }
            Self::PluginStale { cause } => write!(out, "the DRA plugin is stale ({cause}) and rollout.dra.reroll is off"),
            Self::PluginMissing => write!(out, "no DRA plugin pod on the node"),
            Self::PluginUnschedulable { message } => write!(out, "the DRA plugin pod cannot be scheduled: {message}"),
            Self::PluginNotReady { trouble } => write!(out, "the DRA plugin pod is not ready{}", Trouble(trouble)),
            Self::SliceMissing { driver } => write!(out, "no ResourceSlice of {driver} for the node"),
            Self::SliceOutdated { published, loaded } => write!(out, "the DRA plugin publishes driver {published}, loaded is {loaded}"),
            Self::DraMissing { namespaces } if namespaces.is_empty() => {
                write!(out, "a DRA driver is required and no namespace to look in is set")
            }
            Self::DraMissing { namespaces } => write!(out, "a DRA driver is required and there is none in {}", namespaces.join(", ")),
            Self::DraScheduledNowhere { daemon_set } => {
                write!(out, "DaemonSet {daemon_set} of the DRA driver wants no pod on any node although there are GPU nodes")
            }
            Self::Quiet { until } => write!(out, "all is well; it must stay so until {until}"),
        }
    }
}

/// One wait: what, where, since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The node, or the whole fleet.
    pub node: Option<String>,
    /// What is waited for.
    pub reason: Reason,
    /// Since when it has been this reason.
    pub since: Timestamp,
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(formatter, "{node}: {}", self.reason),
            None => write!(formatter, "{}", self.reason),
        }
    }
}
