//! How long the hook gathers changes before it decides.

use std::time::Duration;

use contract::settings::Mode;

/// The time for each node. A larger fleet has more changes, and each snapshot and decision costs
/// more. Gathering for longer keeps the total cost linear in the number of nodes. In a small fleet,
/// changes are hardly delayed.
const PER_NODE: Duration = Duration::from_millis(1);
/// The shortest time: an object often changes twice within a few milliseconds.
const SHORTEST: Duration = Duration::from_millis(10);
/// The longest time if the hook decides when nodes are upgraded. A node needs few decisions one after the other, and minutes in between, so this
/// delays an upgrade by a few seconds at most.
pub const LONGEST: Duration = Duration::from_millis(500);
/// How many times longer the hook gathers if only NVIDIA's controller decides when nodes are
/// upgraded. No longer than a second: what the hook does after a change, such as replacing a plugin
/// that serves the old driver, comes later by up to that time.
const IF_CONTROLLER_DECIDES: u32 = 2;

/// Returns how long the hook gathers changes in a fleet of `nodes` nodes.
pub fn gather_time(nodes: usize, mode: Mode) -> Duration {
    let factor = if mode.decides() { 1 } else { IF_CONTROLLER_DECIDES };
    let time = PER_NODE.saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX));
    time.saturating_mul(factor).clamp(SHORTEST, LONGEST * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_larger_fleets_are_gathered_for_longer() {
        let gathered = |mode| {
            [0, 2, 10, 11, 50, 500, 10_000].map(|nodes| gather_time(nodes, mode).as_millis())
        };
        for mode in [Mode::Steer, Mode::Drive] {
            assert_eq!(gathered(mode), [10, 10, 10, 11, 50, 500, 500], "{mode:?}");
        }
        for mode in [Mode::Observe, Mode::Assist] {
            assert_eq!(gathered(mode), [10, 10, 20, 22, 100, 1_000, 1_000], "{mode:?}");
        }
    }
}
