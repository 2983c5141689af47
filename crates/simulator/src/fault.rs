//! Faults, and what others do to the cluster.

use std::fmt;

use contract::count::Count;
use contract::operand::Operand;

use super::refusals::WriteAdmission;
use super::report::SecondsText;

/// A fault at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledFault {
    /// Milliseconds from the beginning.
    pub at: u64,
    /// The fault.
    pub fault: Fault,
}

/// A fault, or an action of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node's kubelet stops for so many milliseconds; `None`: permanently.
    NotReady(String, Option<u64>),
    /// A node leaves the cluster.
    NodeGone(String),
    /// A node joins it.
    NodeJoins(String),
    /// A user cordons a node.
    Cordon(String),
    /// A user uncordons a node.
    Uncordon(String),
    /// A user sets a label (`Some`) or removes it.
    Label(String, String, Option<String>),
    /// The same with an annotation.
    Annotate(String, String, Option<String>),
    /// A node's driver fails at its next so many starts; `None`: at every one.
    DriverFails(String, Option<u32>),
    /// A node's DRA plugin does not become ready until its pod is replaced after so many milliseconds; `None`: never.
    PluginFails(String, Option<u64>),
    /// A fault of another operand than driver and toolkit.
    Operand(OperandFault),
    /// The PodDisruptionBudgets of a workload permit nothing for so many milliseconds; `None`: permanently.
    HoldBudget(String, Option<u64>),
    /// The hook's process is killed; another one starts after so many milliseconds.
    KillHook(u64),
    /// It loses its Lease for so long.
    LoseLease(u64),
    /// The operator is not available for so long.
    OperatorDown(u64),
    /// Another driver version is requested.
    Template(String),
    /// A new hook Job is deployed, with this limit of unavailable nodes.
    Deploy(Count),
    /// NVIDIA's maintenance-operator is asked for a node, for so long.
    Maintenance(String, u64),
    /// A pod of a workload is bound to a node, cordoned or not.
    PodComes(String, String),
    /// A user pauses the fleet for so long.
    Pause(u64),
    /// From now on this happens to the hook's writes of a node; `None`: they are admitted again.
    Admission(String, Option<WriteAdmission>),
}

/// What goes wrong with device plugin, validator or exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperandFault {
    /// A node's pod crashes until it is repaired after so many milliseconds; `None`: permanently.
    Fails(String, Operand, Option<u64>),
    /// A node's pod is gone for so many milliseconds.
    Missing(String, Operand, u64),
    /// It gets a new revision, which is rolled out node by node after so many milliseconds.
    Rolls(Operand, u64),
    /// A node loses a GPU.
    GpuDies(String),
}

/// ` for 30 s`, or that it never ends.
struct FaultDuration<'a>(&'a Option<u64>);

impl fmt::Display for FaultDuration<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => write!(out, " for {}", SecondsText(*time)),
            None => write!(out, " for ever"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = |value: &Option<String>| {
            value.as_ref().map_or_else(|| "removed".to_owned(), |value| format!("set to `{value}`"))
        };
        match self {
            Self::NotReady(node, time) => write!(out, "{node} is NotReady{}", FaultDuration(time)),
            Self::NodeGone(node) => write!(out, "{node} leaves the cluster"),
            Self::NodeJoins(node) => write!(out, "{node} joins the cluster"),
            Self::Cordon(node) => write!(out, "somebody cordons {node}"),
            Self::Uncordon(node) => write!(out, "somebody uncordons {node}"),
            Self::Label(node, key, value) => write!(out, "{node}: label {key} is {}", set(value)),
            Self::Annotate(node, key, value) => {
                write!(out, "{node}: annotation {key} is {}", set(value))
            }
            Self::DriverFails(node, Some(times)) => {
                write!(out, "the driver of {node} will fail {times} times")
            }
            Self::DriverFails(node, None) => write!(out, "the driver of {node} will fail for ever"),
            Self::PluginFails(node, time) => {
                write!(out, "the DRA plugin of {node} will not become ready{}", FaultDuration(time))
            }
            Self::Operand(fault) => fault.fmt(out),
            Self::HoldBudget(workers, time) => {
                write!(out, "the budget of {workers} lets nothing go{}", FaultDuration(time))
            }
            Self::KillHook(time) => {
                write!(out, "the hook is killed{}", FaultDuration(&Some(*time)))
            }
            Self::LoseLease(time) => {
                write!(out, "the Lease is lost{}", FaultDuration(&Some(*time)))
            }
            Self::OperatorDown(time) => {
                write!(out, "the operator is down{}", FaultDuration(&Some(*time)))
            }
            Self::Template(version) => write!(out, "driver {version} is asked for"),
            Self::Deploy(count) => {
                write!(out, "a new hook is deployed with maxUnavailable {count}")
            }
            Self::Maintenance(node, time) => {
                write!(out, "others have {node} in maintenance{}", FaultDuration(&Some(*time)))
            }
            Self::PodComes(workers, node) => write!(out, "a pod of {workers} is bound to {node}"),
            Self::Admission(node, Some(admission)) => write!(out, "{node}: {admission}"),
            Self::Admission(node, None) => write!(out, "{node}: admission denies nothing any more"),
            Self::Pause(time) => write!(out, "the fleet is paused{}", FaultDuration(&Some(*time))),
        }
    }
}

impl fmt::Display for OperandFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |operand: &Operand| operand.traits().daemon_set;
        match self {
            Self::Fails(node, operand, time) => {
                write!(out, "{} of {node} crashes{}", name(operand), FaultDuration(time))
            }
            Self::Missing(node, operand, time) => {
                write!(out, "{} of {node} is missing{}", name(operand), FaultDuration(&Some(*time)))
            }
            Self::Rolls(operand, time) => {
                write!(
                    out,
                    "{} has a new revision, and nobody replaces pods{}",
                    name(operand),
                    FaultDuration(&Some(*time))
                )
            }
            Self::GpuDies(node) => write!(out, "a GPU of {node} dies"),
        }
    }
}
