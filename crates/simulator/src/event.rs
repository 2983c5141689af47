//! The events of a simulated run.

use jiff::Timestamp;

use super::caches::WorldChange;
use super::fault::Fault;
use super::objects::SimulatedOperand;
use super::operand_pods::OperandEvent;
use super::test_pods::TestPodStep;

/// An event of the simulation.
#[derive(Clone, Debug)]
pub(super) enum WorldEvent {
    /// A deleted pod of an operand is removed: node, operand, UID.
    OperandRemoved(String, SimulatedOperand, String),
    /// The DaemonSet creates a new pod.
    CreateOperand(String, SimulatedOperand),
    /// The containers of the pod with this UID are ready.
    OperandReady(String, SimulatedOperand, String),
    /// The container of the pod with this UID fails.
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
    /// The next step of the test's pod with this UID.
    TestPod(String, TestPodStep),
    /// The pods of tests on a node that has not been Ready since this time are evicted.
    TaintEviction(String, Option<Timestamp>),
    /// The disruption controller counts the pods again.
    RecountBudgets,
    /// A fault, or an action of others.
    Fault(Fault),
    /// A node's kubelet runs again.
    NodeRecovers(String),
    /// A DRA plugin that never became ready is repaired by hand.
    PluginRepaired(String),
    /// A held PodDisruptionBudget of this workload is released.
    BudgetReleased(usize),
    OperatorAvailable,
    /// The pod of the operator's new version is ready.
    OperatorReplaced,
    /// This pod of the operator takes the expired Lease of its predecessor and leads.
    OperatorLeads(u32),
    TemplateRendered,
    MaintenanceEnds(String),
    /// A pause ends, by its key.
    PauseEnds(String),
    /// A watch notifies the hook: process, resource version, change.
    Notify(u32, u64, Box<WorldChange>),
    /// A LIST of a node's pods is answered.
    PodsListed(u32, String),
    /// The upgrade controller performs the scheduled pass with this number.
    ControllerPass(u64),
    /// The next round of the controller's eviction or drain: node, number of the task.
    ControllerTask(String, u64),
    /// The hook decides: process, number of the scheduled decision.
    Decide(u32, u64),
    /// A call of the hook reaches the API server: process, number of the action.
    Call(u32, usize),
    HookStarts(u32),
}
