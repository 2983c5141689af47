//! A node of the simulated world.

use contract::driver::Driver;
use observed::{ObservedNode, ObservedPod, ObservedSlice};

use super::objects::SimulatedOperand;
use super::operand_pods::NodeOperandPods;
use super::world::WorldEvent;

/// A node and what runs on it for the operator.
#[derive(Clone, Debug)]
pub(super) struct SimulatedNode {
    pub(super) node: ObservedNode,
    /// The hook has cordoned it.
    pub(super) ours: bool,
    pub(super) operands: [Option<ObservedPod>; 4],
    pub(super) slice: Option<ObservedSlice>,
    /// What its kubelet has to do when it is back.
    pub(super) frozen: Vec<WorldEvent>,
    /// GPUs that its pods may take.
    pub(super) gpus: usize,
    /// At how many starts its driver still fails; `None`: at every one.
    pub(super) driver_fails: Option<u32>,
    pub(super) plugin_fails: bool,
    /// Device plugin and exporter, where there are any.
    pub(super) extras: NodeOperandPods,
    /// Somebody has changed labels or annotations by hand: what follows from that is not the hook's fault.
    pub(super) meddled: bool,
}

impl SimulatedNode {
    pub(super) fn operand(&self, operand: SimulatedOperand) -> Option<&ObservedPod> {
        self.operands[operand.index()].as_ref()
    }

    /// The record on the node says that its cordon is ours.
    pub(super) fn claims_cordon(&self, driver: Driver) -> bool {
        self.node.annotations.get(driver.traits().own_record).is_some_and(|text| text.contains("\"cordoned\":true"))
    }
}
