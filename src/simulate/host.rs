//! A node of the simulated world.

use crate::contract::driver::Driver;
use crate::rollout::observed::{Node, Pod, Slice};

use super::objects::Operand;
use super::operand_pods::Extras;
use super::world::Event;

/// A node and what runs on it for the operator.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) node: Node,
    /// The hook has cordoned it.
    pub(super) ours: bool,
    pub(super) operands: [Option<Pod>; 4],
    pub(super) slice: Option<Slice>,
    /// What its kubelet has to do when it is back.
    pub(super) frozen: Vec<Event>,
    /// GPUs that its pods may take.
    pub(super) gpus: usize,
    /// At how many starts its driver still fails; `None`: at every one.
    pub(super) driver_fails: Option<u32>,
    pub(super) plugin_fails: bool,
    /// Device plugin and exporter, where there are any.
    pub(super) extras: Extras,
    /// Somebody has changed labels or annotations by hand: what follows from that is not the hook's fault.
    pub(super) meddled: bool,
}

impl Host {
    pub(super) fn operand(&self, operand: Operand) -> Option<&Pod> {
        self.operands[operand.index()].as_ref()
    }

    /// The record on the node says that its cordon is ours.
    pub(super) fn claims_cordon(&self, driver: Driver) -> bool {
        self.node.annotations.get(driver.traits().own_record).is_some_and(|text| text.contains("\"cordoned\":true"))
    }
}
