//! Distributes changes: to the upgrade controller at once, to the hook with a lag.

use std::collections::BTreeMap;

use super::caches::WorldChange;
use super::controller_loop::ControllerLoop;
use super::event::WorldEvent;
use super::event_queue::EventQueue;
use super::random::DrawnTimes;
use super::setup::SimulationSetup;

/// The watches of the hook. Each of them delivers changes in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HookWatch {
    Nodes,
    Operands,
    Slices,
    Pods,
    TestPods,
    Budgets,
    Operator,
    Pauses,
}

/// Delivers each change to all watches.
pub(super) struct WatchFanOut {
    /// The resource version of the last change.
    pub(super) version: u64,
    /// The hook process that watches. `None`: no process does.
    pub(super) hook_process: Option<u32>,
    /// The time at which each watch has delivered all its changes so far.
    delivered_at: BTreeMap<HookWatch, u64>,
    pub(super) controller: Option<ControllerLoop>,
}

impl WatchFanOut {
    pub(super) fn new(controller: Option<ControllerLoop>) -> Self {
        Self { version: 0, hook_process: None, delivered_at: BTreeMap::new(), controller }
    }

    /// Increments and returns the resource version.
    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(super) fn publish(
        &mut self,
        change: WorldChange,
        setup: &SimulationSetup,
        queue: &mut EventQueue,
        times: &mut DrawnTimes,
    ) {
        let version = self.next_version();
        let node = self
            .controller
            .as_mut()
            .and_then(|controller| controller.apply(&change, version, setup));
        if let Some(process) = self.hook_process {
            let lag = times.draw(setup.times.watch, "watch", "");
            let delivered = self.delivered_at.entry(change.watch()).or_default();
            *delivered = (*delivered).max(queue.now() + lag);
            queue.schedule_at(*delivered, WorldEvent::Notify(process, version, Box::new(change)));
        }
        if let (Some(controller), Some(node)) = (&mut self.controller, node) {
            controller.notice_node(&node, queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::TimeSpread;
    use super::*;
    use crate::fixture::setup;

    fn published(watches: &mut WatchFanOut, lag: u64, queue: &mut EventQueue) {
        let mut setup = setup(1);
        setup.times.watch = TimeSpread::Constant(lag);
        watches.publish(WorldChange::Pauses(Vec::new()), &setup, queue, &mut DrawnTimes::new(0));
    }

    #[test]
    fn a_watch_delivers_in_order() {
        let (mut watches, mut queue) = (WatchFanOut::new(None), EventQueue::default());
        watches.hook_process = Some(0);
        published(&mut watches, 100, &mut queue);
        published(&mut watches, 20, &mut queue);
        let version =
            |event| if let Some(WorldEvent::Notify(_, version, _)) = event { version } else { 0 };
        assert_eq!(
            [version(queue.pop()), queue.now(), version(queue.pop()), queue.now()],
            [1, 100, 2, 100]
        );
    }

    #[test]
    fn without_a_process_nothing_is_delivered() {
        let (mut watches, mut queue) = (WatchFanOut::new(None), EventQueue::default());
        published(&mut watches, 100, &mut queue);
        assert_eq!((watches.version, queue.next_at()), (1, None));
    }
}
