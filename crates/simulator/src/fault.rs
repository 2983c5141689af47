//! Faults, and actions of others in the cluster.

use std::fmt;

use contract::count::Count;
use contract::operand::Operand;

use super::acceptance::AcceptanceFault;
use super::refusals::WriteAdmission;
use super::report::SecondsText;

/// A fault at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledFault {
    /// Milliseconds from the start of the run.
    pub at: u64,
    /// The fault.
    pub fault: Fault,
}

/// A fault, or an action of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The kubelet of a node stops for a time in milliseconds. `None`: permanently.
    NotReady(String, Option<u64>),
    /// A node leaves the cluster.
    NodeGone(String),
    /// A node joins the cluster.
    NodeJoins(String),
    /// A user cordons a node.
    Cordon(String),
    /// A user uncordons a node.
    Uncordon(String),
    /// A user sets a label (`Some`) or removes it.
    Label(String, String, Option<String>),
    /// A user sets an annotation (`Some`) or removes it.
    Annotate(String, String, Option<String>),
    /// A node's driver fails at this number of its next starts. `None`: at every start.
    DriverFails(String, Option<u32>),
    /// The driver container of a node that is ready crashes, and runs again after a time in
    /// milliseconds. `None`: never.
    DriverCrashes(String, Option<u64>),
    /// Others delete a node's driver pod. Its DaemonSet replaces it.
    DeleteDriver(String),
    /// A node's DRA plugin does not become ready until its pod is replaced, after a time in
    /// milliseconds. `None`: never.
    PluginFails(String, Option<u64>),
    /// A fault of an operand other than driver and toolkit.
    Operand(OperandFault),
    /// The PodDisruptionBudgets of a workload permit no eviction for a time in milliseconds.
    /// `None`: permanently.
    HoldBudget(String, Option<u64>),
    /// The hook's process is killed. Another one starts after this time in milliseconds.
    KillHook(u64),
    /// The hook loses its Lease for this time in milliseconds.
    LoseLease(u64),
    /// The operator is not available for this time in milliseconds.
    OperatorDown(u64),
    /// A user requests another driver version.
    Template(String),
    /// A user deploys a new hook Job with this limit of unavailable nodes.
    Deploy(Count),
    /// A user ends the halt of the rollout, takes these failed nodes as proven, and runs the hook
    /// again.
    Resume(Vec<String>),
    /// NVIDIA's maintenance-operator gets a node for this time in milliseconds.
    Maintenance(String, u64),
    /// A pod of a workload is bound to a node, even if the node is cordoned.
    PodComes(String, String),
    /// A user pauses the fleet, and resumes it after this time in milliseconds.
    Pause(u64),
    /// A user pauses the fleet with a pause that ends by itself after this time in milliseconds.
    Freeze(u64),
    /// What happens to the pods of acceptance tests that are created from now on changes: a fault
    /// that applies before all others. `None`: all pods succeed.
    Acceptance(Option<AcceptanceFault>),
    /// A user deletes the pods of acceptance tests on a node.
    DeleteTestPods(String),
    /// Admission of the hook's writes to a node changes. `None`: it admits all of them again.
    Admission(String, Option<WriteAdmission>),
}

/// A fault of device plugin, validator or exporter, or of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperandFault {
    /// A node's pod crashes until it is repaired, after a time in milliseconds. `None`:
    /// permanently.
    Fails(String, Operand, Option<u64>),
    /// A node's pod is missing for this time in milliseconds.
    Missing(String, Operand, u64),
    /// The operand gets a new revision, which is rolled out node by node after this time in
    /// milliseconds.
    Rolls(Operand, u64),
    /// A node loses a GPU.
    GpuDies(String),
}

/// Formats a duration, such as ` for 30.0s` or ` permanently`.
struct FaultDuration<'a>(&'a Option<u64>);

impl fmt::Display for FaultDuration<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => write!(out, " for {}", SecondsText(*time)),
            None => write!(out, " permanently"),
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
            Self::Cordon(node) => write!(out, "a user cordons {node}"),
            Self::Uncordon(node) => write!(out, "a user uncordons {node}"),
            Self::Label(node, key, value) => write!(out, "{node}: label {key} is {}", set(value)),
            Self::Annotate(node, key, value) => {
                write!(out, "{node}: annotation {key} is {}", set(value))
            }
            Self::DriverFails(node, Some(times)) => {
                write!(out, "the driver of {node} will fail at its next {times} starts")
            }
            Self::DriverFails(node, None) => {
                write!(out, "the driver of {node} will fail at every start")
            }
            Self::DriverCrashes(node, time) => {
                write!(out, "the driver of {node} crashes{}", FaultDuration(time))
            }
            Self::DeleteDriver(node) => write!(out, "a user deletes the driver pod of {node}"),
            Self::PluginFails(node, time) => {
                write!(out, "the DRA plugin of {node} will not become ready{}", FaultDuration(time))
            }
            Self::Operand(fault) => fault.fmt(out),
            Self::HoldBudget(workers, time) => {
                write!(out, "the budget of {workers} permits no eviction{}", FaultDuration(time))
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
            Self::Template(version) => write!(out, "a user requests driver {version}"),
            Self::Deploy(count) => {
                write!(out, "a new hook is deployed with maxUnavailable {count}")
            }
            Self::Resume(nodes) if nodes.is_empty() => {
                write!(out, "a user ends the halt, and runs the hook again")
            }
            Self::Resume(nodes) => {
                let nodes = nodes.join(", ");
                write!(out, "a user ends the halt, accepts {nodes}, and runs the hook again")
            }
            Self::Maintenance(node, time) => {
                write!(out, "the maintenance-operator has {node}{}", FaultDuration(&Some(*time)))
            }
            Self::PodComes(workers, node) => write!(out, "a pod of {workers} is bound to {node}"),
            Self::Acceptance(Some(fault)) => write!(out, "from now on, {fault}"),
            Self::Acceptance(None) => write!(out, "from now on, every test passes"),
            Self::DeleteTestPods(node) => write!(out, "a user deletes the test pods of {node}"),
            Self::Admission(node, Some(admission)) => write!(out, "{node}: {admission}"),
            Self::Admission(node, None) => write!(out, "{node}: admission denies nothing any more"),
            Self::Pause(time) => write!(out, "the fleet is paused{}", FaultDuration(&Some(*time))),
            Self::Freeze(time) => write!(out, "the fleet is frozen{}", FaultDuration(&Some(*time))),
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
                    "{} has a new revision, and no controller replaces pods{}",
                    name(operand),
                    FaultDuration(&Some(*time))
                )
            }
            Self::GpuDies(node) => write!(out, "a GPU of {node} dies"),
        }
    }
}
