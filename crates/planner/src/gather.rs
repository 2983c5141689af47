//! How long the hook gathers changes before it decides.

use std::time::Duration;

/// The time for each node. A larger fleet has more changes, and each snapshot and decision costs
/// more. Gathering for longer keeps the total cost linear in the number of nodes. In a small fleet,
/// changes are hardly delayed.
const PER_NODE: Duration = Duration::from_millis(1);
/// The shortest time: an object often changes twice within a few milliseconds.
const SHORTEST: Duration = Duration::from_millis(10);
/// The longest time. A node needs few decisions one after the other, and minutes in between, so this
/// delays an upgrade by a few seconds at most.
pub const LONGEST: Duration = Duration::from_millis(500);

/// Returns how long the hook gathers changes in a fleet of `nodes` nodes.
pub fn gather_time(nodes: usize) -> Duration {
    PER_NODE.saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX)).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_larger_fleets_are_gathered_for_longer() {
        let gathered = [0, 10, 11, 50, 500, 10_000].map(|nodes| gather_time(nodes).as_millis());
        assert_eq!(gathered, [10, 10, 11, 50, 500, 500]);
    }
}
