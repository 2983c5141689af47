//! The common inputs of the decisions about all nodes.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::device_plugin::DevicePlugins;
use crate::dra_plugin::DraPlugins;
use crate::memory::RunMemory;
use crate::node::{DriverOperands, is_driver_node, node_tainted};
use crate::operands::OperandSets;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::driver::{Driver, DriverTraits};
use contract::exit::ExitCode;
use contract::settings::{DraRequired, Settings};
use contract::task::Task;
use nvidia_upgrade::controller_generation::ControllerGeneration;
use observed::Observed;

/// Inputs that are the same for every node of a decision.
pub(super) struct FleetInputs<'a> {
    pub(super) observed: &'a Observed,
    pub(super) settings: &'a Settings,
    pub(super) now: Timestamp,
    /// The memory before the nodes were assessed.
    pub(super) memory: &'a RunMemory,
    pub(super) traits: &'static DriverTraits,
    /// The DaemonSet of the run, if no operator installs the driver.
    pub(super) identity: Option<String>,
    /// The generation of NVIDIA's upgrade controller. `None`: the operator's version is unknown, or
    /// there is no operator.
    pub(super) generation: Option<ControllerGeneration>,
    /// `None`: no task settles drivers.
    pub(super) operands: Option<DriverOperands<'a>>,
    /// The operands other than driver and toolkit.
    pub(super) operand_sets: Option<OperandSets<'a>>,
    pub(super) plugins: DraPlugins<'a>,
    pub(super) devices: DevicePlugins<'a>,
    /// Whether stale pods of the device plugin are restarted.
    pub(super) restarts: bool,
    nowhere: OnceCell<BTreeSet<String>>,
}

impl<'a> FleetInputs<'a> {
    pub(super) fn new(
        observed: &'a Observed,
        settings: &'a Settings,
        memory: &'a RunMemory,
        now: Timestamp,
        plugins: DraPlugins<'a>,
        devices: DevicePlugins<'a>,
        restarts: bool,
    ) -> Self {
        let settles = settings.has(Task::Settle);
        Self {
            observed,
            settings,
            now,
            memory,
            traits: settings.driver.traits(),
            identity: settings.own_daemon_set(),
            generation: ControllerGeneration::from_version(
                settings.driver,
                observed.operator_version(),
            ),
            operands: settles.then(|| DriverOperands::new(observed, settings.driver)),
            operand_sets: (settles && settings.driver == Driver::Gpu)
                .then(|| OperandSets::new(observed, settings)),
            plugins,
            devices,
            restarts,
            nowhere: OnceCell::new(),
        }
    }

    pub(super) fn has(&self, task: Task) -> bool {
        self.settings.has(task)
    }

    /// Returns whether a node that waits for this reason is the same to the run, whatever the
    /// reason's numbers and names are: mode `drive` stores the reason nowhere, and the run record
    /// contains neither what NVIDIA's controller waits for nor which nodes reach a limit.
    pub(super) fn is_only_described(&self, reason: &Reason) -> bool {
        let is_refused = matches!(reason, Reason::Upgrading(UpgradeReason::Refused(_)));
        self.has(Task::Drive) || is_refused || reason.asks_why()
    }

    /// Returns whether the time of the run is over.
    pub(super) fn is_over(&self) -> bool {
        self.now >= self.memory.deadline
    }

    /// Returns whether the settings tolerate this problem of the DRA driver.
    pub(super) fn tolerates(&self, reason: &Reason) -> bool {
        let required = self.settings.dra.required;
        // With re-rolls off, the hook was not asked to replace a stale plugin.
        let asked = !matches!(reason, Reason::PluginStale { .. }) || required == DraRequired::True;
        reason.exit_code() == ExitCode::DraNotServing && (required == DraRequired::False || !asked)
    }

    /// Returns whether pods of a DaemonSet tolerate the taints of any GPU node: if they tolerate
    /// none, the problem is not one of single nodes.
    pub(super) fn gets_somewhere(&self, daemon_set: &str) -> bool {
        let nowhere = || {
            let tainted_everywhere = |daemon_set: &&observed::ObservedDaemonSet| {
                let mut nodes = self
                    .observed
                    .nodes
                    .values()
                    .filter(|node| is_driver_node(node, self.settings.driver));
                nodes.all(|node| node_tainted(daemon_set, node).is_some())
            };
            self.observed
                .daemon_sets
                .iter()
                .filter(tainted_everywhere)
                .map(|daemon_set| daemon_set.name.clone())
                .collect()
        };
        !self.nowhere.get_or_init(nowhere).contains(daemon_set)
    }
}
