//! What concerns the fleet as a whole: the operator, a cluster without nodes for the driver, a DRA driver that must be there.

use crate::note::DecisionNote;
use crate::plugin::DraPlugins;
use crate::reason::{Reason, Wait};
use crate::spec::{chart, driver_daemon_sets};
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::settings::DraRequired;
use contract::task::Task;
use observed::ObservedNode;

use super::Deciding;

/// The quiet period at the least where the operator does not tell which generation it has acted on.
const SILENT_QUIET_SECONDS: u64 = 60;

impl Deciding<'_> {
    /// No nodes for the driver is fine only when node-feature-discovery has run. The GPU operator must also say so itself; the network
    /// operator has no word for it.
    pub(super) fn without_nodes(&mut self, nodes: usize) -> Result<(), Reason> {
        if self.settings.driver == Driver::Ofed && self.ofed_is_the_hosts() {
            return Ok(());
        }
        if nodes > 0 {
            return Ok(());
        }
        if !self.settings.driver.has_operator() {
            self.notes.push(DecisionNote::DaemonSetWantsNoPod);
            return Ok(());
        }
        let device = self.settings.driver.traits().device;
        let discovered = |node: &ObservedNode| node.labels.keys().any(|key| key.starts_with(names::NFD_LABEL_PREFIX));
        if !self.observed.nodes.values().any(discovered) {
            return Err(Reason::NoNodeFeatures);
        }
        // On a first install node-feature-discovery comes to one node after the other. Some nodes (virtual ones) it never labels.
        let undiscovered = self.observed.nodes.values().filter(|node| node.ready && !discovered(node)).count();
        if undiscovered > 0 && !self.passed(self.memory.started_at, self.settings.grace_seconds) {
            return Err(Reason::NodesUndiscovered { device, count: undiscovered });
        }
        if self.settings.driver == Driver::Ofed {
            self.notes.push(DecisionNote::NoNodesWithDevice { device });
            return Ok(());
        }
        let policy = self.observed.cluster_policy.served().and_then(Option::as_ref);
        let says = policy.and_then(|policy| policy.ready_reason.clone());
        if says.as_deref() == Some("NoGPUNodes") {
            self.notes.push(DecisionNote::NoGpuNodesConfirmed);
            return Ok(());
        }
        Err(Reason::NoGpuNodes { operator_says: says })
    }

    /// Nobody asks for an OFED driver: every node uses its own.
    fn ofed_is_the_hosts(&mut self) -> bool {
        let policy = self.observed.nic_cluster_policy.served().and_then(Option::as_ref);
        if policy.is_some_and(|policy| policy.ofed.is_some()) || !driver_daemon_sets(self.observed, Driver::Ofed).is_empty() {
            return false;
        }
        self.notes.push(DecisionNote::OfedOfHost { has_policy: policy.is_some() });
        true
    }

    /// For how long all must have been well. Before 26.7 the network operator does not tell whether it has acted on an edit that changes
    /// no image tag.
    pub(super) fn quiet_seconds(&self) -> u64 {
        let policy = self.observed.nic_cluster_policy.served().and_then(Option::as_ref);
        let silent = policy.is_some_and(|policy| policy.ofed.is_some() && policy.observed_generation.is_none());
        let settles = self.settings.has(Task::Settle) && self.settings.driver == Driver::Ofed;
        if settles && silent { self.settings.quiet_seconds.max(SILENT_QUIET_SECONDS) } else { self.settings.quiet_seconds }
    }

    /// A DRA driver that the settings require, and one that runs nowhere.
    pub(super) fn required_driver(&mut self, plugins: &DraPlugins<'_>, gpu_nodes: usize) -> Option<Reason> {
        if !self.rerolls() {
            return None;
        }
        let namespaces = &self.settings.dra.namespaces;
        if plugins.is_empty() {
            if self.settings.dra.required == DraRequired::True {
                return Some(Reason::DraMissing { namespaces: namespaces.clone() });
            }
            self.notes.push(DecisionNote::NoDraDriver { namespaces: namespaces.clone() });
            return None;
        }
        if let Err(reason) = chart::of_plugins(plugins.daemon_sets(), self.settings) {
            return Some(reason);
        }
        let wanted = plugins.daemon_sets().any(|daemon_set| !daemon_set.observed || daemon_set.desired > 0);
        // A plugin may be sent away from a node while its driver migrates.
        let migrating = self.waits.iter().any(|wait| wait.node.is_some());
        let nowhere = plugins.daemon_sets().next().filter(|_| !wanted && !migrating && gpu_nodes > 0)?;
        let reason = Reason::DraScheduledNowhere { daemon_set: format!("{}/{}", nowhere.namespace, nowhere.name) };
        if self.settings.dra.required == DraRequired::True {
            return Some(reason);
        }
        self.notes.push(DecisionNote::Tolerated { node: None, reason: reason.into() });
        None
    }

    /// Whether a node waits for more than its device plugin.
    fn sees_to_drivers(&self) -> bool {
        self.waits.iter().any(|wait| wait.node.is_some() && !wait.reason.is_device_plugins())
    }

    /// The fleet waits for something; what does not come within the grace time ends the run with its own code.
    pub(super) fn fleet_waits(&mut self, reason: Reason) {
        let since = self.wait(None, reason.clone());
        let ends = match reason.exit_code() {
            ExitCode::ApiMissing | ExitCode::OperatorMissing | ExitCode::Precondition | ExitCode::NoGpuNodes | ExitCode::DraMissing => true,
            ExitCode::Success
            | ExitCode::Input
            | ExitCode::Usage
            | ExitCode::Different
            | ExitCode::Rights
            | ExitCode::Preflight
            | ExitCode::Budget
            | ExitCode::NodesFailed
            | ExitCode::DraNotServing
            | ExitCode::PluginsNotServing
            | ExitCode::LeaseHeld
            | ExitCode::ApiUnreachable
            | ExitCode::NewerFormat
            | ExitCode::Interrupted
            | ExitCode::Record
            | ExitCode::Internal => false,
        };
        // A configuration that is not there must not end a run that still has drivers and DRA plugins to see to.
        let held_back = matches!(reason, Reason::ConfigMissing { .. } | Reason::ConfigNotApplied { .. }) && self.sees_to_drivers();
        if ends && !held_back && self.passed(since, self.settings.grace_seconds) {
            self.failures.push(Wait { node: None, reason: reason.into(), since });
        }
    }
}
