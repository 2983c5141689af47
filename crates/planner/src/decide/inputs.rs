//! What all nodes are decided from.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::device_plugin::DevicePlugins;
use crate::dra_plugin::DraPlugins;
use crate::memory::RunMemory;
use crate::node::{DriverOperands, is_driver_node, node_tainted};
use crate::operands::OperandSets;
use crate::reason::Reason;
use contract::driver::{Driver, DriverTraits};
use contract::exit::ExitCode;
use contract::settings::{DraRequired, Settings};
use contract::task::Task;
use nvidia_upgrade::controller_generation::ControllerGeneration;
use observed::Observed;

/// The same for every node of a decision.
pub(super) struct FleetInputs<'a> {
    pub(super) observed: &'a Observed,
    pub(super) settings: &'a Settings,
    pub(super) now: Timestamp,
    /// What was remembered before the nodes were assessed.
    pub(super) memory: &'a RunMemory,
    pub(super) traits: &'static DriverTraits,
    /// The DaemonSet that the run is about, where nothing else tells.
    pub(super) identity: Option<String>,
    /// Which upgrade controller of NVIDIA's the operator has. `None`: its version is not known, or there is no operator.
    pub(super) generation: Option<ControllerGeneration>,
    /// `None`: no task settles drivers.
    pub(super) operands: Option<DriverOperands<'a>>,
    /// The operands besides driver and toolkit.
    pub(super) operand_sets: Option<OperandSets<'a>>,
    pub(super) plugins: DraPlugins<'a>,
    pub(super) devices: DevicePlugins<'a>,
    /// Stale pods of the device plugin are restarted.
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

    /// The time of the run is over.
    pub(super) fn is_over(&self) -> bool {
        self.now >= self.memory.deadline
    }

    /// Whether the settings take a DRA driver that does not serve for no failure.
    pub(super) fn tolerates(&self, reason: &Reason) -> bool {
        let required = self.settings.dra.required;
        // With re-rolls off nobody was asked to mend a stale plugin.
        let asked = !matches!(reason, Reason::PluginStale { .. }) || required == DraRequired::True;
        reason.exit_code() == ExitCode::DraNotServing && (required == DraRequired::False || !asked)
    }

    /// Whether pods of a DaemonSet get past the taints of any GPU node: where they do on none, that is no matter of single nodes.
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
