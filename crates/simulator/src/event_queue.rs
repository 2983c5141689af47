//! The virtual clock and the queue of scheduled events.

use std::collections::BTreeMap;

use super::event::WorldEvent;

/// The scheduled events, ordered by time and then by the order of scheduling.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    now: u64,
    events: BTreeMap<(u64, u64), WorldEvent>,
    /// Numbers events and UIDs.
    sequence: u64,
}

impl EventQueue {
    /// Returns the milliseconds since the start of the run.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn next_uid(&mut self) -> String {
        self.sequence += 1;
        format!("u{}", self.sequence)
    }

    pub(super) fn schedule_at(&mut self, at: u64, event: WorldEvent) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    pub(super) fn schedule_after(&mut self, milliseconds: u64, event: WorldEvent) {
        self.schedule_at(self.now.saturating_add(milliseconds), event);
    }

    /// Returns the time of the next event.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next event and advances the clock to it.
    pub(super) fn pop(&mut self) -> Option<WorldEvent> {
        let ((at, _), event) = self.events.pop_first()?;
        self.now = at;
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_time_keep_their_order() {
        let mut queue = EventQueue::default();
        for (at, process) in [(20, 1), (10, 2), (10, 3)] {
            queue.schedule_at(at, WorldEvent::HookStarts(process));
        }
        let order =
            std::iter::from_fn(|| queue.pop().map(|event| (format!("{event:?}"), queue.now())));
        let expected = [("HookStarts(2)", 10), ("HookStarts(3)", 10), ("HookStarts(1)", 20)];
        assert_eq!(order.collect::<Vec<_>>(), expected.map(|(event, at)| (event.to_owned(), at)));
    }

    #[test]
    fn uids_and_events_share_one_sequence() {
        let mut queue = EventQueue::default();
        assert_eq!(queue.next_uid(), "u1");
        queue.schedule_after(5, WorldEvent::SchedulePods);
        assert_eq!((queue.next_uid().as_str(), queue.next_at()), ("u3", Some(5)));
    }
}
