//! The script of the stand-ins: times and faults. Times in ranges are drawn from the seed,
//! separately for each node.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::random::between;

/// A fault on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its container runs and never becomes ready.
    NeverReady,
    /// Its container crashes repeatedly.
    CrashLoop,
}

/// The times and faults of the stand-ins.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// The seed of all times.
    pub(crate) seed: u64,
    /// Milliseconds from a change of the ClusterPolicy's spec until the driver DaemonSet has it.
    pub(crate) template_after: (u64, u64),
    /// Milliseconds for which `status.state` stays unchanged after a change of the spec
    /// (recorded: 0.4–2.8 s).
    pub(crate) stale_ready: (u64, u64),
    /// Milliseconds from the last driver pod's readiness until `status.state` is ready (recorded:
    /// 0.2–5 s).
    pub(crate) ready_after: (u64, u64),
    /// The interval at which the upgrade controller checks without a trigger. The real one uses 2
    /// minutes.
    pub(crate) tick: Duration,
    /// Milliseconds that a driver container takes from its start until it is ready.
    pub(crate) driver: (u64, u64),
    /// Milliseconds that a driver pod takes to end.
    pub(crate) driver_end: (u64, u64),
    /// Whether the nodes' own image has a driver, so that operands wait for no driver pod.
    pub(crate) host_driver: bool,
    /// Whether driver pods start with the driver manager, which removes the other operands of the
    /// node.
    pub(crate) driver_manager: bool,
    /// The duration of the operator's Lease, in whole seconds. The real one uses 15 s. After the
    /// leading instance has ended, no instance leads for this time.
    pub(crate) lease: Duration,
    /// Milliseconds that a container of the operator takes from its start until it is ready. It
    /// wants to lead from its start.
    pub(crate) operator: (u64, u64),
    /// Whether an operator that is being replaced continues its work, as the real one does. It
    /// renders operands from a new version's ClusterPolicy with its own assets. Otherwise an
    /// upgrade creates one revision instead of two.
    pub(crate) two_writers: bool,
    /// The number of GPUs of a node, if not eight.
    pub(crate) gpus: HashMap<String, u32>,
    /// The faults of operands other than the driver, by node and name of the DaemonSet.
    pub(crate) operand_faults: HashMap<(String, String), Fault>,
    /// The faults of GPU drivers, by node.
    pub(crate) faults: HashMap<String, Fault>,
    /// A version of the GPU driver that crashes on every node.
    pub(crate) bad_driver: Option<&'static str>,
    /// The faults of network drivers, by node.
    pub(crate) network_faults: HashMap<String, Fault>,
    /// Nodes whose network driver pods request permission to load the driver (`safeLoad`), and wait
    /// for it.
    pub(crate) safe_load: HashSet<String>,
}

impl Script {
    /// Returns the script of a quick rollout with times from `seed`.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            seed,
            template_after: (200, 600),
            stale_ready: (1_000, 2_800),
            ready_after: (300, 1_500),
            tick: Duration::from_secs(3),
            driver: (1_500, 4_500),
            driver_end: (100, 100),
            driver_manager: true,
            lease: Duration::from_secs(3),
            operator: (100, 300),
            two_writers: false,
            host_driver: false,
            gpus: HashMap::new(),
            operand_faults: HashMap::new(),
            faults: HashMap::new(),
            bad_driver: None,
            network_faults: HashMap::new(),
            safe_load: HashSet::new(),
        }
    }

    /// Draws a time from a range for one purpose.
    pub(super) fn time(&self, range: (u64, u64), purpose: &str) -> Duration {
        Duration::from_millis(between(self.seed, purpose, range))
    }
}
