//! The policy of driver upgrades: the part that both NVIDIA operators share (k8s-operator-libs
//! `api/upgrade/v1alpha1`, `DriverUpgradePolicySpec`), and gpu-rollout's additions for the modes in
//! which the hook decides.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::acceptance::{AcceptanceTest, TestPace};
use super::budget::{FleetPace, StepPace};
use super::count::Count;
use super::proof::{self, Canary, Halt, RampShare};
use super::window::{self, MaintenanceWindow};

/// NVIDIA's upgrade policy, with its defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    /// How many nodes are upgraded at once; 0 is unlimited.
    pub max_parallel_upgrades: u32,
    /// How many nodes may be unavailable. `None`: all (the Network Operator has no such limit). If
    /// the key is absent, the default applies.
    pub max_unavailable: Option<Count>,
    /// Jobs that must end before a node is changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_completion: Option<CompletionPolicy>,
    /// Eviction of the pods that use the device. `None`: there is no such step, and `drain` removes
    /// the pods. If the key is absent, the default applies.
    pub pod_deletion: Option<PodDeletionPolicy>,
    /// Drain of the whole node. `None`: no drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainPolicy>,
}

impl Default for Policy {
    /// The gpu-operator chart's defaults.
    fn default() -> Self {
        Self {
            max_parallel_upgrades: 1,
            max_unavailable: Some(Count::Percent(25)),
            wait_for_completion: None,
            pod_deletion: Some(PodDeletionPolicy::default()),
            drain: None,
        }
    }
}

impl Policy {
    /// Returns whether the policy removes pods from a node.
    pub fn evicts(&self) -> bool {
        self.pod_deletion.is_some() || self.drain.is_some()
    }
}

/// Jobs that must end first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompletionPolicy {
    /// Label selector of the pods, in all namespaces. Never empty.
    pub pod_selector: String,
    /// Seconds after which the wait for jobs ends; 0 is unlimited.
    #[serde(default)]
    pub timeout_seconds: u64,
}

/// How the pods that use the device are evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PodDeletionPolicy {
    /// Also evict pods that no controller would recreate.
    pub force: bool,
    /// Seconds that the evictions of one node may take; 0 is unlimited.
    pub timeout_seconds: u64,
    /// Also evict pods whose emptyDir is lost by the eviction.
    pub delete_empty_dir: bool,
}

impl Default for PodDeletionPolicy {
    fn default() -> Self {
        Self { force: false, timeout_seconds: 300, delete_empty_dir: false }
    }
}

/// How a node is drained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DrainPolicy {
    /// Also evict pods that no controller would recreate.
    pub force: bool,
    /// Label selector of the pods; empty for all. Pods with the driver's drain-skip label always
    /// stay.
    pub pod_selector: String,
    /// Seconds that the drain of one node may take; 0 is unlimited.
    pub timeout_seconds: u64,
    /// Also evict pods whose emptyDir is lost by the eviction.
    pub delete_empty_dir: bool,
}

impl Default for DrainPolicy {
    fn default() -> Self {
        Self {
            force: false,
            pod_selector: String::new(),
            timeout_seconds: 300,
            delete_empty_dir: false,
        }
    }
}

/// The policy of a hook that decides when a node starts ([`super::settings::Mode::Steer`],
/// [`super::settings::Mode::Drive`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UpgradeSettings {
    /// The recipe's policy.
    pub policy: Policy,
    /// How many nodes may fail. If more fail, no more nodes start.
    pub failure_budget: Count,
    /// How many attempts a node gets for one cause under one trigger digest.
    pub attempts: u32,
    /// Seconds between the end of one node and the start of the next.
    pub soak_seconds: u64,
    /// When nodes may be started; empty: always.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<MaintenanceWindow>,
    /// The nodes that are upgraded before all others. `None`: there are no canaries, and no soak
    /// between steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// The shares of the cohort at which a step ends; they rise. The canary's soak is between the
    /// steps, so without canaries there is none. Empty: one step.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "proof::read_ramp")]
    pub ramp: Vec<RampShare>,
    /// When the rollout halts, if it is set; [`Self::halts`] has the default too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt: Option<Halt>,
    /// The tests that a node must pass before it takes workloads again, in the order in which they
    /// run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acceptance: Vec<AcceptanceTest>,
    /// The limit for nodes with the same value of a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyLimit>,
    /// How the hook treats nodes with a foreign cordon.
    pub foreign_cordon: ForeignCordon,
    /// Label selectors of pods that use the device without requesting it. They are evicted with the
    /// others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_consumers: Vec<String>,
    /// Seconds within which a driver pod must become ready.
    pub start_seconds: u64,
    /// Seconds within which the operator's validator must succeed after the driver is ready.
    pub validation_seconds: u64,
}

impl Default for UpgradeSettings {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            failure_budget: Count::Number(1),
            attempts: 2,
            soak_seconds: 0,
            windows: Vec::new(),
            canary: None,
            ramp: Vec::new(),
            halt: None,
            acceptance: Vec::new(),
            topology: None,
            foreign_cordon: ForeignCordon::Skip,
            extra_consumers: Vec::new(),
            // The chart's startup probe gives the driver 21 minutes (60 s, then 120 times 10 s).
            start_seconds: 1800,
            // k8s-operator-libs `validationTimeoutSeconds`.
            validation_seconds: 600,
        }
    }
}

impl UpgradeSettings {
    /// Returns when the rollout halts. With canaries or a ramp, it halts after the first failed
    /// proof unless the settings differ. `None`: never.
    pub fn halts(&self) -> Option<Halt> {
        self.halt.or_else(|| Halt::of_steps(self.canary.is_some(), &self.ramp))
    }

    /// Returns how many nodes may fail while others still start. `halt.failedNodes` replaces the
    /// failure budget, whose default would otherwise end every rollout at the second failed node.
    pub fn tolerated_failures(&self) -> Count {
        let halts = self.halt.and_then(|halt| halt.failed_nodes);
        halts.map_or(self.failure_budget, |nodes| Count::Number(nodes.saturating_sub(1)))
    }

    /// Returns how many seconds the acceptance tests of every node take at most. They are a part of
    /// a node's expected time, as the wait for its jobs is.
    pub fn every_node_test_seconds(&self) -> u64 {
        TestPace::of_tests(&self.acceptance).every_node_seconds
    }

    /// Returns the inputs of the time budget for a number of nodes. Failed nodes stay unavailable,
    /// so the tolerated ones are subtracted from the limits. Limits of topology groups are ignored,
    /// because the groups are not known in advance. `per_node_seconds` includes the acceptance
    /// tests of every node ([`Self::every_node_test_seconds`]).
    pub fn fleet(&self, nodes: usize, per_node_seconds: u64) -> FleetPace {
        let unavailable = self.policy.max_unavailable.map_or(nodes, |count| count.resolve(nodes));
        let failed = self.tolerated_failures().resolve(nodes);
        let left = u32::try_from(unavailable.saturating_sub(failed)).unwrap_or(u32::MAX);
        let pace = FleetPace {
            nodes,
            max_parallel: self.policy.max_parallel_upgrades,
            max_unavailable: Count::Number(left),
            per_node_seconds,
            soak_seconds: self.soak_seconds,
            closed_seconds: 0,
            steps: StepPace::default(),
        };
        let canary = self.canary.as_ref();
        let sizes = proof::step_sizes(canary, &self.ramp, nodes.max(1));
        let mut waves: Vec<u64> =
            sizes.iter().map(|size| size.div_ceil(pace.parallel()) as u64).collect();
        let canaries = canary.map_or(0, |canary| canary.most(nodes.max(1)));
        let first_wave = canaries.div_ceil(pace.parallel()) as u64;
        let others = nodes.saturating_sub(canaries);
        let left = waves.iter().sum::<u64>().saturating_sub(first_wave);
        let tests = TestPace::of_tests(&self.acceptance);
        let of_canaries = tests.canary_seconds.saturating_mul(first_wave);
        let of_others = tests.shares_seconds(others, left);
        let steps = StepPace {
            canaries,
            following: (waves.len() as u64).saturating_sub(1),
            more_waves: waves.iter().sum::<u64>().saturating_sub(pace.waves()),
            soak_seconds: canary.map_or(0, |canary| canary.soak_seconds),
            tests_seconds: of_canaries.saturating_add(of_others),
        };
        let cycle = per_node_seconds.saturating_add(self.soak_seconds);
        // While tests run, windows close as they do while nodes are upgraded.
        let more = |seconds: u64| seconds.div_ceil(cycle.max(1));
        if let Some(first) = waves.first_mut() {
            *first = first.saturating_add(more(of_canaries));
        }
        if let Some(last) = waves.last_mut() {
            *last = last.saturating_add(more(of_others));
        }
        let closed_seconds =
            window::closed_seconds(&self.windows, &waves, cycle, steps.soak_seconds);
        FleetPace { closed_seconds, steps, ..pace }
    }
}

/// A limit for groups of nodes, such as the nodes of one NVLink domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TopologyLimit {
    /// The node label whose value names the group. Nodes without it belong to no group.
    #[schemars(extend("x-grammar" = "labelKey"))]
    pub label: String,
    /// How many nodes of a group may be unavailable.
    pub max_unavailable: Count,
}

/// How the hook treats nodes with a foreign cordon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ForeignCordon {
    /// The hook does not upgrade them, and reports them.
    #[default]
    Skip,
    /// The hook upgrades them, and they stay cordoned.
    Include,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::OVERHEAD_SECONDS;

    #[test]
    fn disabled_checks_stay_so_when_read_again() {
        let policy = Policy { max_unavailable: None, pod_deletion: None, ..Policy::default() };
        let text = serde_json::to_string(&policy).expect("a policy can be written");
        assert_eq!(serde_json::from_str::<Policy>(&text).expect("and read"), policy, "{text}");
        assert_eq!(serde_json::from_str::<Policy>("{}").expect("defaults"), Policy::default());
    }

    #[test]
    fn nodes_that_failed_leave_less_to_be_unavailable() {
        let policy = Policy {
            max_parallel_upgrades: 4,
            max_unavailable: Some(Count::Percent(25)),
            ..Policy::default()
        };
        let upgrade = UpgradeSettings { policy, ..UpgradeSettings::default() };
        let parallel = |failures| {
            UpgradeSettings { failure_budget: failures, ..upgrade.clone() }.fleet(16, 60).parallel()
        };
        assert_eq!(
            parallel(Count::Number(1)),
            3,
            "one may fail, and the rollout goes on without it"
        );
        assert_eq!(parallel(Count::Number(2)), 2);
        assert_eq!(parallel(Count::Percent(100)), 1, "never none");
    }

    /// Sixteen nodes, two of which may be upgraded at once, for a minute each.
    fn pace(settings: &str) -> FleetPace {
        let policy = Policy {
            max_parallel_upgrades: 2,
            max_unavailable: Some(Count::Percent(100)),
            ..Policy::default()
        };
        let read = serde_json::from_str(settings).expect("valid settings");
        UpgradeSettings { policy, ..read }.fleet(16, 60)
    }

    #[test]
    fn steps_add_soaks_and_waves_to_the_budget() {
        for (settings, following, waves, seconds) in [
            ("{}", 0, 8, 8 * 60),
            (r#"{"ramp": ["100%"]}"#, 0, 8, 8 * 60),
            // 2, 6 and 8 nodes. Without canaries, no step has a soak.
            (r#"{"ramp": ["10%", "50%"]}"#, 2, 8, 8 * 60),
            // 1 and 15 nodes.
            (r#"{"canary": {"soakSeconds": 600}}"#, 1, 9, 9 * 60 + 600),
            // 1, 1, 6 and 8 nodes.
            (
                r#"{"canary": {"soakSeconds": 600}, "ramp": ["10%", "50%", "100%"]}"#,
                3,
                9,
                9 * 60 + 3 * 600,
            ),
            // 10 nodes at most, none, none and 6 nodes: the steps without nodes have a soak too,
            // because fewer canaries than assumed leave them nodes.
            (
                r#"{"canary": {"per": ["zone"], "soakSeconds": 600}, "ramp": ["10%", "50%"]}"#,
                3,
                8,
                8 * 60 + 3 * 600,
            ),
            (
                r#"{"canary": {"nodes": 3}, "ramp": ["50%"], "soakSeconds": 5}"#,
                2,
                9,
                9 * 60 + 8 * 5,
            ),
        ] {
            let pace = pace(settings);
            assert_eq!((pace.steps.following, pace.waves()), (following, waves), "{settings}");
            assert_eq!(pace.budget_seconds(), seconds + OVERHEAD_SECONDS, "{settings}");
        }
    }

    #[test]
    fn tests_of_some_nodes_add_the_waves_that_they_may_be_in() {
        let test = |nodes: &str, more: &str| {
            format!(
                r#"{{"acceptance": [{{"name": "a", "timeoutSeconds": 600, "when": ["after"],
                    "nodes": "{nodes}"}}]{more}}}"#
            )
        };
        let canary = r#", "canary": {"nodes": 3}"#;
        for (settings, every_node, some_nodes) in [
            (test("all", canary), 600, 0),
            (test("100%", canary), 600, 0),
            // Three canaries are two waves.
            (test("canaries", canary), 0, 2 * 600),
            // Of the 13 other nodes, twice the share: 2 nodes, rounded up.
            (test("10%", canary), 0, (2 + 4) * 600),
            // Each of the other nodes, in 7 waves.
            (test("80%", canary), 0, (2 + 7) * 600),
        ] {
            let read: UpgradeSettings = serde_json::from_str(&settings).expect("valid settings");
            assert_eq!(read.every_node_test_seconds(), every_node, "{settings}");
            assert_eq!(pace(&settings).steps.tests_seconds, some_nodes, "{settings}");
        }
    }

    #[test]
    fn windows_close_during_soaks() {
        let settings = r#"{
            "canary": {"soakSeconds": 28800}, "windows": ["daily 22:00-05:00 UTC"]
        }"#;
        // The second step may start at 06:01, and waits until 22:00.
        assert_eq!(pace(settings).closed_seconds, 17 * 3600 + 16 * 3600 - 60);
    }

    #[test]
    fn rollout_with_steps_halts_after_the_first_failed_proof() {
        let halts = |settings: &str| {
            let read: UpgradeSettings = serde_json::from_str(settings).expect("valid settings");
            read.halts().map(|halt| (halt.failed_proofs, halt.failed_nodes))
        };
        for (settings, expected) in [
            ("{}", None),
            (r#"{"halt": {}}"#, Some((1, None))),
            (r#"{"canary": {}}"#, Some((1, None))),
            (r#"{"ramp": ["10%"]}"#, Some((1, None))),
            (r#"{"canary": {}, "halt": {"failedProofs": 3}}"#, Some((3, None))),
            (r#"{"halt": {"failedNodes": 2}}"#, Some((1, Some(2)))),
        ] {
            assert_eq!(halts(settings), expected, "{settings}");
        }
    }

    #[test]
    fn failed_nodes_of_a_halt_replace_the_failure_budget() {
        for (settings, tolerated) in [
            ("{}", Count::Number(1)),
            (r#"{"failureBudget": "10%", "halt": {}}"#, Count::Percent(10)),
            (r#"{"halt": {"failedNodes": 5}}"#, Count::Number(4)),
            (r#"{"halt": {"failedNodes": 1}}"#, Count::Number(0)),
        ] {
            let read: UpgradeSettings = serde_json::from_str(settings).expect("valid settings");
            assert_eq!(read.tolerated_failures(), tolerated, "{settings}");
        }
    }

    #[test]
    fn settings_of_steps_are_read_as_they_are_written() {
        let text = r#"{
            "canary": {"nodes": 2, "per": ["zone"], "soakSeconds": 60}, "ramp": ["10%", "100%"],
            "halt": {"failedProofs": 2, "failedNodes": 3}
        }"#;
        let settings: UpgradeSettings = serde_json::from_str(text).expect("valid settings");
        let written = serde_json::to_value(&settings).expect("settings can be written");
        for (key, value) in serde_json::from_str::<serde_json::Value>(text)
            .expect("valid JSON")
            .as_object()
            .expect("a map")
        {
            assert_eq!(written.get(key), Some(value), "{key}");
        }
        let again: UpgradeSettings = serde_json::from_value(written).expect("and read");
        assert_eq!(again, settings);
        let absent = serde_json::to_value(UpgradeSettings::default()).expect("settings");
        assert!(["canary", "ramp", "halt"].iter().all(|key| absent.get(key).is_none()));
        let error = serde_json::from_str::<UpgradeSettings>(r#"{"ramp": ["50%", "10%"]}"#);
        let error = error.expect_err("a ramp that does not rise").to_string();
        assert!(error.starts_with("a ramp must rise, and `10%` at index 1"), "{error}");
    }
}
