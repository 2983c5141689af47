//! What the stand-ins play: times and faults. Times that are ranges are drawn from the seed, for each node its own.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::random::between;

/// What goes wrong on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its container runs and never becomes ready.
    NeverReady,
    /// Its container ends again and again.
    CrashLoop,
}

/// The script.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// Decides times.
    pub(crate) seed: u64,
    /// Milliseconds from a change of the ClusterPolicy's spec until the driver DaemonSet has it.
    pub(crate) template_after: (u64, u64),
    /// Milliseconds for which `status.state` stays what it was after a change of the spec (recorded: 0.4–2.8 s).
    pub(crate) stale_ready: (u64, u64),
    /// Milliseconds from the last driver pod's readiness until `status.state` says so (recorded: 0.2–5 s).
    pub(crate) ready_after: (u64, u64),
    /// The period in which the upgrade controller looks by itself: 2 minutes for the real one.
    pub(crate) tick: Duration,
    /// Milliseconds that a driver container takes from its start until it is ready.
    pub(crate) driver: (u64, u64),
    /// Milliseconds that a driver pod takes to end.
    pub(crate) driver_end: (u64, u64),
    /// Whether the nodes' own image has a driver, so that operands wait for no driver pod.
    pub(crate) host_driver: bool,
    /// Whether driver pods begin with the driver manager, which sends the other operands of the node away.
    pub(crate) driver_manager: bool,
    /// How long the operator's Lease lasts, in whole seconds: 15 s for the real one. When the instance that leads has ended, nobody leads for
    /// so long.
    pub(crate) lease: Duration,
    /// Milliseconds that a container of the operator takes from its start until it is ready. It wants to lead from its start.
    pub(crate) operator: (u64, u64),
    /// Whether an operator that is being replaced goes on with its work, as the real one does: it makes operands of a new version's
    /// ClusterPolicy with its own assets. Without, an upgrade makes one revision and not two.
    pub(crate) two_writers: bool,
    /// The GPUs of a node, where they are not eight.
    pub(crate) gpus: HashMap<String, u32>,
    /// What goes wrong with an operand (the name of its DaemonSet) on a node, other than the driver.
    pub(crate) operand_faults: HashMap<(String, String), Fault>,
    /// Nodes on which something goes wrong with the GPU driver.
    pub(crate) faults: HashMap<String, Fault>,
    /// A version of the GPU driver that crashes on every node.
    pub(crate) bad_driver: Option<&'static str>,
    /// The same with the network driver.
    pub(crate) network_faults: HashMap<String, Fault>,
    /// Nodes whose network driver pods ask to be told when the driver may be loaded (`safeLoad`), and wait for that.
    pub(crate) safe_load: HashSet<String>,
}

impl Script {
    /// A quick rollout whose times come from `seed`.
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

    /// A time of one of the ranges, for one purpose.
    pub(super) fn time(&self, range: (u64, u64), purpose: &str) -> Duration {
        Duration::from_millis(between(self.seed, purpose, range))
    }
}
