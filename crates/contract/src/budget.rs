//! The time budget B of a hook Job, and the values derived from it.

use super::count::Count;

/// The pod's `terminationGracePeriodSeconds`: enough to finish the current write and to save the
/// record.
pub const TERMINATION_GRACE_SECONDS: u64 = 30;
/// S, in seconds: how much longer than B a deployer must wait, so that it never gives up before the
/// Job does (`terminationGracePeriodSeconds` + 60 s).
pub const SLACK_SECONDS: u64 = TERMINATION_GRACE_SECONDS + 60;
/// How many seconds before B the hook's own deadline is. After a failed verdict, Kubernetes starts
/// two more pods, 10 and 20 s apart, which end with the same verdict at once. Only then has the Job
/// failed, and the deployer reports its verdict instead of `DeadlineExceeded`.
pub const MARGIN_SECONDS: u64 = 90;

/// For how many seconds a run that fails may release nodes whose driver it did not touch, before its
/// verdict (mode `drive`). At the deadline, they are a part of the margin.
pub const RELEASE_SECONDS: u64 = MARGIN_SECONDS / 2;
/// Seconds that a run takes in addition to the nodes: image pull and scheduling of the hook, the
/// operator's own rollout, quiet period, re-rolls.
pub const OVERHEAD_SECONDS: u64 = 900;

/// Returns how many seconds of B a hook has for its work: all but the margin, and never less than
/// half.
pub const fn working_seconds(budget_seconds: u64) -> u64 {
    let half = budget_seconds / 2;
    budget_seconds - if half < MARGIN_SECONDS { half } else { MARGIN_SECONDS }
}

/// The inputs of a fleet's time budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetPace {
    /// GPU nodes.
    pub nodes: usize,
    /// How many nodes may be upgraded at once (`maxParallelUpgrades`); 0 is unlimited.
    pub max_parallel: u32,
    /// How many nodes may be unavailable (`maxUnavailable`).
    pub max_unavailable: Count,
    /// Seconds that one node is expected to take, including all waits of the policy.
    pub per_node_seconds: u64,
    /// Seconds between one wave of nodes and the next.
    pub soak_seconds: u64,
    /// Seconds for which the waves wait for maintenance windows at most.
    pub closed_seconds: u64,
    /// What canaries, ramp and the acceptance tests of some nodes add.
    pub steps: StepPace,
}

/// What the steps of a rollout add to its time: canaries, shares of the ramp, other nodes, and the
/// tests that only some nodes must pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepPace {
    /// How many canaries there are at most.
    pub canaries: usize,
    /// The number of steps after the first one.
    pub following: u64,
    /// The number of waves in addition to those without steps: nodes of two steps are never in one
    /// wave.
    pub more_waves: u64,
    /// Seconds between one step and the next.
    pub soak_seconds: u64,
    /// Seconds that acceptance tests of only some nodes take in all waves together.
    pub tests_seconds: u64,
}

impl StepPace {
    /// Returns the seconds between all steps.
    pub fn soaks_seconds(self) -> u64 {
        self.following.saturating_mul(self.soak_seconds)
    }
}

impl FleetPace {
    /// Returns how many nodes are upgraded at once: the smaller of both limits, at least one.
    pub fn parallel(self) -> usize {
        let unavailable = self.max_unavailable.resolve(self.nodes).max(1);
        let parallel = if self.max_parallel == 0 { self.nodes } else { self.max_parallel as usize };
        parallel.min(unavailable).max(1)
    }

    /// Returns the number of waves.
    pub fn waves(self) -> u64 {
        let waves = self.nodes.max(1).div_ceil(self.parallel()) as u64;
        waves.saturating_add(self.steps.more_waves)
    }

    /// Returns B in seconds: the waves of nodes one after another with their pauses, those between
    /// steps, their waits for windows and the tests of some nodes, plus the overhead.
    pub fn budget_seconds(self) -> u64 {
        let waves = self.waves();
        let pauses = (waves - 1).saturating_mul(self.soak_seconds);
        waves
            .saturating_mul(self.per_node_seconds)
            .saturating_add(pauses)
            .saturating_add(self.steps.soaks_seconds())
            .saturating_add(self.steps.tests_seconds)
            .saturating_add(self.closed_seconds)
            .saturating_add(OVERHEAD_SECONDS)
    }
}

/// Returns T in seconds: the minimum timeout of a deployer that waits for a Job with budget B.
pub const fn deployer_timeout_seconds(budget_seconds: u64) -> u64 {
    budget_seconds + SLACK_SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_of_the_vendor_count() {
        let fleet = FleetPace {
            nodes: 16,
            max_parallel: 5,
            max_unavailable: Count::Percent(25),
            per_node_seconds: 600,
            soak_seconds: 0,
            closed_seconds: 0,
            steps: StepPace::default(),
        };
        assert_eq!(fleet.parallel(), 4);
        assert_eq!(fleet.budget_seconds(), 4 * 600 + OVERHEAD_SECONDS);
        assert_eq!(
            FleetPace { soak_seconds: 60, ..fleet }.budget_seconds(),
            4 * 600 + 3 * 60 + OVERHEAD_SECONDS
        );
        assert_eq!(
            FleetPace { max_parallel: 0, max_unavailable: Count::Percent(100), ..fleet }.parallel(),
            16
        );
        assert_eq!(FleetPace { nodes: 0, ..fleet }.budget_seconds(), 600 + OVERHEAD_SECONDS);
        assert_eq!(FleetPace { max_unavailable: Count::Number(0), ..fleet }.parallel(), 1);
        let steps = StepPace {
            canaries: 1,
            following: 3,
            more_waves: 2,
            soak_seconds: 1800,
            tests_seconds: 0,
        };
        let in_steps = FleetPace { soak_seconds: 60, steps, ..fleet };
        assert_eq!(in_steps.waves(), 6);
        assert_eq!(in_steps.budget_seconds(), 6 * 600 + 5 * 60 + 3 * 1800 + OVERHEAD_SECONDS);
        let tested = StepPace { tests_seconds: 900, ..steps };
        assert_eq!(
            FleetPace { steps: tested, ..in_steps }.budget_seconds(),
            in_steps.budget_seconds() + 900
        );
        let endless = StepPace { soak_seconds: u64::MAX, ..steps };
        assert_eq!(FleetPace { steps: endless, ..fleet }.budget_seconds(), u64::MAX);
    }
}
