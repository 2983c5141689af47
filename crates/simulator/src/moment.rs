//! What a test of commands can see of a simulation: the cluster and the hook after a decision.

use std::collections::BTreeSet;

use contract::record::Verdict;
use contract::settings::Settings;
use jiff::Timestamp;
use observed::Observed;
use planner::memory::RunMemory;

/// The simulation after a decision of the hook.
#[derive(Debug)]
pub struct SimulatedMoment<'a> {
    /// The objects as a client lists them now. The hook's own caches may be older.
    pub observed: Observed,
    /// The hook's settings.
    pub settings: &'a Settings,
    /// The hook's memory after the decision.
    pub memory: &'a RunMemory,
    /// The verdict, if the decision ended the run.
    pub verdict: Option<&'a Verdict>,
    /// The number of the hook's process: each restart increases it.
    pub process: u32,
    /// The nodes on which exactly one driver pod runs, of the newest revision and ready.
    pub upgraded: BTreeSet<String>,
    /// The time.
    pub now: Timestamp,
}

/// Called after each decision of the hook.
pub type MomentObserver<'o> = &'o mut dyn FnMut(&SimulatedMoment<'_>);
