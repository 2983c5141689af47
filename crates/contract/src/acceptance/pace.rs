//! The time that acceptance tests take, for time budgets.

use super::{AcceptanceNodes, AcceptanceTest};
use crate::proof::RampShare;

/// How many seconds the tests of one node take at most, by the nodes that they run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestPace {
    /// The tests of every node.
    pub every_node_seconds: u64,
    /// The tests that run on canaries, and not on every node.
    pub canary_seconds: u64,
    /// The tests that also run on a share of the other nodes, each with its share.
    shares: Vec<(RampShare, u64)>,
}

impl TestPace {
    /// Returns the times of these tests. Each takes its whole timeout, each time that it runs.
    pub fn of_tests(tests: &[AcceptanceTest]) -> Self {
        let mut pace = Self::default();
        for test in tests {
            let seconds = test.timeout_seconds.saturating_mul(test.when.len() as u64);
            match test.nodes {
                AcceptanceNodes::All | AcceptanceNodes::Share(RampShare::ALL) => {
                    pace.every_node_seconds = pace.every_node_seconds.saturating_add(seconds);
                }
                AcceptanceNodes::Canaries => {
                    pace.canary_seconds = pace.canary_seconds.saturating_add(seconds);
                }
                AcceptanceNodes::Share(share) => {
                    pace.canary_seconds = pace.canary_seconds.saturating_add(seconds);
                    pace.shares.push((share, seconds));
                }
            }
        }
        pace
    }

    /// Returns how many seconds the tests of shares take on nodes that are not canaries, in this
    /// number of waves. Which nodes are tested is left to a hash, so twice the share is assumed, and
    /// that no two of them are in one wave.
    pub fn shares_seconds(&self, nodes: usize, waves: u64) -> u64 {
        if nodes == 0 {
            return 0;
        }
        let seconds = self.shares.iter().map(|(share, seconds)| {
            let tested = share.resolve(nodes).saturating_mul(2).min(nodes) as u64;
            seconds.saturating_mul(tested.min(waves))
        });
        seconds.fold(0, u64::saturating_add)
    }
}
