//! The virtual clock and the queue of scheduled events.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::event::WorldEvent;

/// An event and its place in the order: by time, and then by the order of scheduling.
#[derive(Debug)]
struct ScheduledEvent {
    at: u64,
    sequence: u64,
    /// Boxed, because the queue moves what it orders.
    event: Box<WorldEvent>,
}

impl Ord for ScheduledEvent {
    /// The earlier event is the greater one: the heap has the greatest at its top.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScheduledEvent {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ScheduledEvent {}

/// The scheduled events.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    now: u64,
    events: BinaryHeap<ScheduledEvent>,
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
        let event = Box::new(event);
        self.events.push(ScheduledEvent { at, sequence: self.sequence, event });
    }

    pub(super) fn schedule_after(&mut self, milliseconds: u64, event: WorldEvent) {
        self.schedule_at(self.now.saturating_add(milliseconds), event);
    }

    /// Returns the time of the next event.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.events.peek().map(|event| event.at)
    }

    /// Takes the next event and advances the clock to it.
    pub(super) fn pop(&mut self) -> Option<WorldEvent> {
        let ScheduledEvent { at, event, .. } = self.events.pop()?;
        self.now = at;
        Some(*event)
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
