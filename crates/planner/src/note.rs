//! Notes: what a decision reports but does not wait for. They are typed, and have a message.

use std::fmt;
use std::sync::Arc;

use contract::count::with_noun;
use contract::names;
use contract::record::VerdictReason;

use super::reason::{Reason, Wait};

/// Maximum number of nodes that a note names.
const NAMED: usize = 3;

/// A fact that is reported, but not waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    test,
    derive(strum::EnumDiscriminants),
    strum_discriminants(name(NoteKind), vis(pub(crate)), derive(strum::EnumIter))
)]
pub enum DecisionNote {
    /// The policy tolerates a reason of one node, or of the fleet.
    Tolerated {
        /// The node, or the whole fleet.
        node: Option<Arc<str>>,
        /// The tolerated reason.
        reason: Arc<Reason>,
    },
    /// An operand of the node was failing before the run, and still is.
    FailedBefore {
        /// The node.
        node: Arc<str>,
        /// The problem.
        reason: Arc<Reason>,
    },
    /// An operand that does not gate is not ready.
    OperandReported {
        /// Its DaemonSet.
        daemon_set: String,
        /// The nodes, and the problem on each.
        waits: Vec<Wait>,
        /// The hint for the first.
        advice: &'static str,
    },
    /// The DaemonSet of the rollout schedules no pod.
    DaemonSetWantsNoPod,
    /// No node has the device.
    NoNodesWithDevice {
        /// The device.
        device: &'static str,
    },
    /// No node has a GPU, and the GPU Operator confirms it.
    NoGpuNodesConfirmed,
    /// No object specifies an OFED driver: nodes use the driver of their host.
    OfedOfHost {
        /// Whether there is a NicClusterPolicy, without `ofedDriver`.
        has_policy: bool,
    },
    /// There is no DRA driver whose plugins could be re-rolled.
    NoDraDriver {
        /// The namespaces in which the hook looked for it.
        namespaces: Vec<String>,
    },
    /// The values name no ConfigMap for the device plugin.
    NoConfigNamed,
    /// The ConfigMap that the values name does not exist, and nothing uses it.
    ConfigNotUsed {
        /// Its name.
        config_map: String,
    },
    /// The ConfigMap exists, but no DaemonSet uses it.
    ConfigWithoutDaemonSet {
        /// Its name.
        config_map: String,
        /// The namespace of the device plugin.
        namespace: String,
    },
    /// Nodes request a configuration that the ConfigMap does not contain: their plugin is not
    /// restarted.
    ConfigKeyMissing {
        /// Each node with the requested key.
        nodes: Vec<(String, String)>,
    },
    /// Nodes use the driver of their operating system image.
    DriverOfImage {
        /// Number of nodes.
        nodes: usize,
    },
    /// Nodes joined after the run started; the hook does not wait for them.
    NodesJoined {
        /// Number of nodes.
        nodes: usize,
        /// Their device.
        device: &'static str,
    },
    /// The version of the operator is unknown, so the hook does not wake its controller.
    OperatorVersionUnknown,
    /// Nodes have holds of a hook in another mode, which this one must not release.
    HeldByOtherMode {
        /// Number of nodes.
        nodes: usize,
        /// The mode of this hook.
        mode: &'static str,
    },
    /// A pause covers nodes that NVIDIA's controller may start, and this mode changes no node.
    PauseNotHeld {
        /// The first one.
        node: Arc<str>,
        /// How many others there are.
        others: usize,
        /// The label that keeps NVIDIA's controller from a node.
        label: &'static str,
        /// The mode of this hook.
        mode: &'static str,
    },
}

impl DecisionNote {
    /// Returns a constant name, for records and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tolerated { reason, .. } => reason.name(),
            Self::FailedBefore { .. } => "FailedBefore",
            Self::OperandReported { .. } => "OperandReported",
            Self::DaemonSetWantsNoPod => "DaemonSetWantsNoPod",
            Self::NoNodesWithDevice { .. } => "NoNodesWithDevice",
            Self::NoGpuNodesConfirmed => "NoGpuNodesConfirmed",
            Self::OfedOfHost { .. } => "OfedOfHost",
            Self::NoDraDriver { .. } => "NoDraDriver",
            Self::NoConfigNamed => "NoConfigNamed",
            Self::ConfigNotUsed { .. } => "ConfigNotUsed",
            Self::ConfigWithoutDaemonSet { .. } => "ConfigWithoutDaemonSet",
            Self::ConfigKeyMissing { .. } => "ConfigKeyMissing",
            Self::DriverOfImage { .. } => "DriverOfImage",
            Self::NodesJoined { .. } => "NodesJoined",
            Self::OperatorVersionUnknown => "OperatorVersionUnknown",
            Self::HeldByOtherMode { .. } => "HeldByOtherMode",
            Self::PauseNotHeld { .. } => "PauseNotHeld",
        }
    }

    /// Returns the node; `None` if the note is about the fleet.
    pub fn node(&self) -> Option<&str> {
        if let Self::Tolerated { node: Some(node), .. } | Self::FailedBefore { node, .. } = self {
            Some(node)
        } else {
            None
        }
    }

    /// Returns the reason for the verdict.
    pub fn verdict_reason(&self) -> VerdictReason {
        VerdictReason::new(self.node(), self.name())
    }
}

impl fmt::Display for DecisionNote {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tolerated { node: Some(node), reason } => write!(formatter, "{node}: {reason}"),
            Self::Tolerated { node: None, reason } => write!(formatter, "{reason}"),
            Self::FailedBefore { node, reason } => {
                write!(formatter, "{node}: {reason}; it was not ready before the run either")
            }
            Self::OperandReported { daemon_set, waits, advice } => {
                let named: Vec<String> = waits.iter().take(NAMED).map(Wait::to_string).collect();
                let (nodes, named) = (with_noun(waits.len(), "node"), named.join("; "));
                write!(
                    formatter,
                    "daemonset/{daemon_set} is not ready on {nodes}, but the rollout does not wait for it: {named}; hint: {advice}"
                )
            }
            Self::DaemonSetWantsNoPod => formatter.write_str("the driver's DaemonSet schedules no pod: it selects no node"),
            Self::NoNodesWithDevice { device } => {
                write!(
                    formatter,
                    "there are no {device} nodes (label {})",
                    names::NIC_PRESENT_LABEL
                )
            }
            Self::NoGpuNodesConfirmed => {
                formatter.write_str("there are no GPU nodes, and the operator confirms it")
            }
            Self::OfedOfHost { has_policy } => {
                let what = if *has_policy {
                    "the NicClusterPolicy has no ofedDriver"
                } else {
                    "there is no NicClusterPolicy"
                };
                write!(formatter, "{what}: nodes use the OFED driver of their host")
            }
            Self::NoDraDriver { namespaces } if namespaces.is_empty() => {
                formatter.write_str("no DRA driver: rollout.dra.namespaces is empty")
            }
            Self::NoDraDriver { namespaces } => {
                write!(
                    formatter,
                    "no DRA driver in the namespaces {}: there is no DRA plugin to replace",
                    namespaces.join(", ")
                )
            }
            Self::NoConfigNamed => {
                formatter.write_str("the values name no ConfigMap for the device plugin")
            }
            Self::ConfigNotUsed { config_map } => {
                write!(formatter, "ConfigMap {config_map} does not exist, and nothing uses it")
            }
            Self::ConfigWithoutDaemonSet { config_map, namespace } => {
                write!(formatter, "no DaemonSet in {namespace} uses the ConfigMap {config_map}")
            }
            Self::ConfigKeyMissing { nodes } => {
                let first = nodes
                    .first()
                    .map(|(node, key)| format!("{node} (`{key}`)"))
                    .unwrap_or_default();
                let more = if nodes.len() > 1 {
                    format!(" and for {}", with_noun(nodes.len() - 1, "more node"))
                } else {
                    String::new()
                };
                write!(
                    formatter,
                    "the device plugin's ConfigMap does not contain the configuration for {first}{more}: the hook restarts no plugin there; add it, or correct the label nvidia.com/device-plugin.config of the node"
                )
            }
            Self::DriverOfImage { nodes } => {
                write!(
                    formatter,
                    "{} with a driver from the operating system image: the requested driver version does not apply there",
                    with_noun(*nodes, "GPU node")
                )
            }
            Self::NodesJoined { nodes, device } => {
                write!(
                    formatter,
                    "{} joined after the run started; the hook does not wait for such nodes",
                    with_noun(*nodes, &format!("{device} node"))
                )
            }
            Self::OperatorVersionUnknown => formatter
                .write_str("the version of the operator is unknown, so the hook cannot wake NVIDIA's controller: upgrades may start later"),
            Self::HeldByOtherMode { nodes, mode } => write!(
                formatter,
                "a hook in another mode holds {}, and mode `{mode}` cannot release such holds: when no hook is running, run `gpu-rollout abort`; NVIDIA's controller may then upgrade these nodes",
                with_noun(*nodes, "node")
            ),
            Self::PauseNotHeld { node, others, label, mode } => {
                write!(formatter, "NVIDIA's controller may upgrade node `{node}`")?;
                if *others > 0 {
                    write!(formatter, " and {}", with_noun(*others, "other paused node"))?;
                }
                write!(
                    formatter,
                    ": it does not know of the pause, and mode `{mode}` changes no node; \
                     run `gpu-rollout pause`, which sets {label}=true, or set that label yourself"
                )
            }
        }
    }
}
