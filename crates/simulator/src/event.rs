//! The events of a simulated run.

use super::caches::WorldChange;
use super::fault::Fault;
use super::objects::SimulatedOperand;
use super::operand_pods::OperandEvent;

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub(super) enum WorldEvent {
    /// A deleted pod of an operand is removed: node, operand, UID.
    OperandRemoved(String, SimulatedOperand, String),
    /// The DaemonSet creates a new pod.
    CreateOperand(String, SimulatedOperand),
    /// The containers of the pod with this UID are ready.
    OperandReady(String, SimulatedOperand, String),
    /// Its container fails.
    OperandFailed(String, SimulatedOperand, String),
    /// An event of device plugin, exporter or a broken validator on a node.
    OperandPod(String, OperandEvent),
    /// The DRA plugin with this UID publishes its ResourceSlice.
    PublishSlice(String, String),
    /// The controller of this workload replaces a pod.
    ReplacePod(usize),
    /// The scheduler binds pods without a node.
    SchedulePods,
    /// The pod with this UID is ready.
    PodReady(String),
    /// A job's pod succeeds.
    PodSucceeded(String),
    /// A deleted pod is removed.
    PodRemoved(String),
    /// The disruption controller counts the pods again.
    RecountBudgets,
    /// Something from outside of the model.
    Fault(Fault),
    /// A node's kubelet is back.
    NodeRecovers(String),
    /// A DRA plugin that never became ready is repaired by hand.
    PluginRepaired(String),
    /// A held PodDisruptionBudget of this workload is released.
    BudgetReleased(usize),
    OperatorAvailable,
    /// The pod of the operator's new version is ready.
    OperatorReplaced,
    /// The Lease of its predecessor has expired: this pod of the operator leads.
    OperatorLeads(u32),
    TemplateRendered,
    MaintenanceEnds(String),
    /// A pause ends, by its key.
    PauseEnds(String),
    /// A watch notifies the hook: process, resource version, change.
    Notify(u32, u64, Box<WorldChange>),
    /// A LIST of a node's pods is answered.
    PodsListed(u32, String),
    /// The upgrade controller makes a pass: the number of the appointment.
    ControllerPass(u64),
    /// The next round of its eviction or drain of a node: the node, the task's number.
    ControllerTask(String, u64),
    /// The hook decides: process, number of the appointment.
    Decide(u32, u64),
    /// A call of the hook reaches the API server: process, number of the action.
    Call(u32, usize),
    HookStarts(u32),
}
