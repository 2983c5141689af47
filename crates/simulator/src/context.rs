//! The context that all parts of the world share: setup, clock, random times and sinks of effects.

use super::caches::WorldChange;
use super::controller_loop::ControllerLoop;
use super::event::WorldEvent;
use super::event_queue::EventQueue;
use super::random::{DrawnTimes, TimeSpread};
use super::report::{SecondsText, SimulationReport};
use super::setup::SimulationSetup;
use super::watches::WatchFanOut;

/// The input that all parts share, and the sinks of their effects: events, changes of objects, and
/// the report.
pub(super) struct SimulationContext<'a> {
    pub(super) setup: &'a SimulationSetup,
    pub(super) queue: EventQueue,
    times: DrawnTimes,
    pub(super) watches: WatchFanOut,
    pub(super) report: SimulationReport,
}

impl<'a> SimulationContext<'a> {
    pub(super) fn new(setup: &'a SimulationSetup) -> Self {
        Self {
            setup,
            queue: EventQueue::default(),
            times: DrawnTimes::new(setup.seed),
            watches: WatchFanOut::new(ControllerLoop::new(setup)),
            report: SimulationReport::new(setup.seed),
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.queue.now()
    }

    pub(super) fn after(&mut self, milliseconds: u64, event: WorldEvent) {
        self.queue.schedule_after(milliseconds, event);
    }

    /// Draws the next time of a stream for a name.
    pub(super) fn draw(&mut self, spread: TimeSpread, stream: &'static str, name: &str) -> u64 {
        self.times.draw(spread, stream, name)
    }

    /// Publishes a change of an object to all watches.
    pub(super) fn publish(&mut self, change: WorldChange) {
        self.watches.publish(change, self.setup, &mut self.queue, &mut self.times);
    }

    /// Whether NVIDIA's controller performs the upgrades.
    pub(super) fn has_controller(&self) -> bool {
        self.watches.controller.is_some()
    }

    /// Adds a line to the story, if the setup asks for one.
    pub(super) fn log(&mut self, line: impl FnOnce() -> String) {
        if self.setup.tells {
            self.report.story.push((self.queue.now(), line()));
        }
    }

    /// Reports a violated invariant.
    pub(super) fn violation(&mut self, what: &str) {
        self.report.violations.push(format!("{}: {what}", SecondsText(self.queue.now())));
    }
}
