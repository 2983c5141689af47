//! Checks of the whole fleet: the operator, a cluster without nodes for the driver, a required DRA
//! driver, the configurations of the device plugin.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::device_plugin::DevicePlugins;
use crate::dra_plugin::DraPlugins;
use crate::hold::is_expected_to_render;
use crate::memory::RunMemory;
use crate::note::DecisionNote;
use crate::reason::{Reason, Wait};
use crate::spec::leadership::{ObservationAge, OperatorActivity, leader_ends_at, quiet_seconds};
use crate::spec::{chart, driver_daemon_sets, observed_spec};
use contract::driver::Driver;
use contract::names;
use contract::record::RecordedPluginConfig;
use contract::settings::{DraRequired, Settings};
use contract::task::Task;
use observed::{Observed, ObservedConfigMap, ObservedNode};

use super::alarm::Alarm;
use crate::time::after;
use crate::waits::Waits;

/// The fleet while a decision is made.
pub(super) struct FleetDraft<'a> {
    pub(super) observed: &'a Observed,
    pub(super) settings: &'a Settings,
    pub(super) now: Timestamp,
    pub(super) memory: RunMemory,
    /// Without the end of the Lease of the operator's leader.
    pub(super) alarm: Alarm,
    /// When the leader counts as gone if no renewal of its Lease is observed until then.
    pub(super) leader_ends_at: Timestamp,
    pub(super) notes: Vec<DecisionNote>,
    pub(super) waits: Waits,
    /// Reasons for which nodes, or the fleet, failed or were deferred.
    pub(super) ended: Waits,
}

impl<'a> FleetDraft<'a> {
    pub(super) fn new(
        observed: &'a Observed,
        settings: &'a Settings,
        memory: RunMemory,
        now: Timestamp,
    ) -> Self {
        let alarm = Alarm::new(now, Timestamp::MAX);
        Self {
            observed,
            settings,
            now,
            memory,
            alarm,
            leader_ends_at: Timestamp::MAX,
            notes: Vec::new(),
            waits: Waits::default(),
            ended: Waits::default(),
        }
    }

    /// Checks that the operator has observed the live spec, if a task settles drivers. `drivers`:
    /// number of nodes that need the driver; `is_same_fleet`: whether nothing has changed since the
    /// last decision that concerns all nodes.
    ///
    /// # Errors
    /// The reason for which the fleet waits.
    pub(super) fn settles(&mut self, drivers: usize, is_same_fleet: bool) -> Result<(), Reason> {
        if !self.settings.has(Task::Settle) {
            return Ok(());
        }
        let quiet = self.operator_is_unchanged(is_same_fleet);
        let age = ObservationAge { since: self.memory.taken_over_at, now: self.now };
        let led = observed_spec(self.observed, self.settings, drivers > 0, age);
        if let Some(lease) = &self.observed.operator_lease {
            // A leader that stops renewing must be noticed although no object changes.
            let ends_at = leader_ends_at(lease, age.since);
            if ends_at > self.now {
                self.leader_ends_at = ends_at;
            }
        }
        let has_matched = self.memory.assessed.since.is_some();
        led.and_then(|()| self.without_nodes(drivers))
            .map_err(|reason| if has_matched { reason.changed_in_run() } else { reason })
            .and(quiet)
    }

    /// Checks that the operator has been the leader, and has left its DaemonSets and its spec
    /// unchanged, for a while.
    fn operator_is_unchanged(&mut self, is_same_fleet: bool) -> Result<(), Reason> {
        if self.settings.driver != Driver::Gpu {
            return Ok(());
        }
        let known = self.memory.operator.take();
        let activity = match known {
            Some(known) if is_same_fleet && known.is_led_by(self.observed) => known,
            known => OperatorActivity::updated(known.as_ref(), self.observed, self.now),
        };
        let since = activity.since;
        let settled = self.memory.settled_version.as_deref();
        let renders_until = activity
            .expected_until(self.now)
            .filter(|_| is_expected_to_render(self.observed, self.settings, settled));
        self.memory.operator = Some(activity);
        if let Some(until) = renders_until {
            self.alarm.set(until);
            return Err(Reason::OperatorActing { until });
        }
        let quiet = quiet_seconds(self.observed);
        if self.alarm.passed(since, quiet) {
            return Ok(());
        }
        Err(Reason::OperatorActing { until: after(since, quiet) })
    }

    /// Accepts a cluster without nodes for the driver only after node-feature-discovery has run.
    /// The GPU Operator must also confirm it; the Network Operator has no such status.
    fn without_nodes(&mut self, nodes: usize) -> Result<(), Reason> {
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
        let discovered = |node: &ObservedNode| {
            node.labels.keys().any(|key| key.starts_with(names::NFD_LABEL_PREFIX))
        };
        if !self.observed.nodes.values().any(discovered) {
            return Err(Reason::NoNodeFeatures);
        }
        // On a first install, node-feature-discovery labels one node after the other. Some
        // (virtual) nodes never get labels.
        let undiscovered =
            self.observed.nodes.values().filter(|node| node.ready && !discovered(node)).count();
        if undiscovered > 0
            && !self.alarm.passed(self.memory.started_at, self.settings.grace_seconds)
        {
            return Err(Reason::NodesUndiscovered { device, count: undiscovered });
        }
        if self.settings.driver == Driver::Ofed {
            self.notes.push(DecisionNote::NoNodesWithDevice { device });
            return Ok(());
        }
        let policy = self.observed.live_cluster_policy();
        let says = policy.and_then(|policy| policy.ready_reason.clone());
        if says.as_deref() == Some("NoGPUNodes") {
            self.notes.push(DecisionNote::NoGpuNodesConfirmed);
            return Ok(());
        }
        Err(Reason::NoGpuNodes { operator_says: says })
    }

    /// Returns whether no object specifies an OFED driver: every node uses its own.
    fn ofed_is_the_hosts(&mut self) -> bool {
        let policy = self.observed.live_nic_cluster_policy();
        if policy.is_some_and(|policy| policy.ofed.is_some())
            || !driver_daemon_sets(self.observed, Driver::Ofed).is_empty()
        {
            return false;
        }
        self.notes.push(DecisionNote::OfedOfHost { has_policy: policy.is_some() });
        true
    }

    /// Checks that the configurations match the values before any pod is restarted. Records since
    /// when each configuration has been unchanged.
    pub(super) fn configs(&mut self, devices: &DevicePlugins<'_>) -> Option<Reason> {
        if !self.settings.has(Task::RestartPlugins) {
            return None;
        }
        let Some(name) = &self.settings.device_plugin.config_map else {
            self.notes.push(DecisionNote::NoConfigNamed);
            return None;
        };
        let Some(config) = devices.config() else {
            // The name is left over from a device plugin that is switched off. GPU feature
            // discovery uses the ConfigMap too.
            if !devices.use_config()
                && self.alarm.passed(self.memory.started_at, self.settings.grace_seconds)
            {
                self.notes.push(DecisionNote::ConfigNotUsed { config_map: name.clone() });
                return None;
            }
            return Some(Reason::ConfigMissing {
                config_map: name.clone(),
                namespace: self.settings.device_plugin.namespace.clone(),
            });
        };
        let expected = self.settings.device_plugin.digests.iter().flatten();
        if let Some((key, _)) =
            expected.into_iter().find(|(key, digest)| config.digests.get(*key) != Some(digest))
        {
            return Some(Reason::ConfigNotApplied {
                config_map: name.clone(),
                key: key.clone(),
                found: if config.digests.contains_key(key) { "different text" } else { "nothing" },
            });
        }
        if !devices.use_config() {
            let namespace = self.settings.device_plugin.namespace.clone();
            self.notes
                .push(DecisionNote::ConfigWithoutDaemonSet { config_map: name.clone(), namespace });
        }
        self.memory.configs = self.seen(config);
        None
    }

    /// Returns since when each configuration has been unchanged. A known text keeps its time; a new
    /// text changed when the ConfigMap did, or now if the server reports no plausible time.
    fn seen(&self, config: &ObservedConfigMap) -> BTreeMap<String, RecordedPluginConfig> {
        let since = |key: &String, digest: &String| match self.memory.configs.get(key) {
            Some(before) if before.digest == *digest => before.since,
            Some(before) => {
                config.changed.filter(|changed| *changed > before.since).unwrap_or(self.now)
            }
            None => config.changed.unwrap_or(config.created),
        };
        let config = config.digests.iter();
        config
            .map(|(key, digest)| {
                (
                    key.clone(),
                    RecordedPluginConfig { digest: digest.clone(), since: since(key, digest) },
                )
            })
            .collect()
    }

    /// Checks for a DRA driver that is required, and for one that runs nowhere. `drivers`: number
    /// of nodes that need the driver.
    pub(super) fn required_driver(
        &mut self,
        plugins: &DraPlugins<'_>,
        drivers: usize,
    ) -> Option<Reason> {
        if !self.settings.has(Task::Reroll) {
            return None;
        }
        let namespaces = &self.settings.dra.namespaces;
        let is_required = self.settings.dra.required == DraRequired::True;
        if plugins.is_empty() {
            if is_required {
                return Some(Reason::DraMissing { namespaces: namespaces.clone() });
            }
            self.notes.push(DecisionNote::NoDraDriver { namespaces: namespaces.clone() });
            return None;
        }
        if let Err(reason) = chart::of_plugins(plugins.daemon_sets(), self.settings) {
            return Some(reason);
        }
        let wanted =
            plugins.daemon_sets().any(|daemon_set| !daemon_set.observed || daemon_set.desired > 0);
        // A plugin may be temporarily removed from a node while its driver is upgraded.
        let migrating = !self.waits.nodes.is_empty();
        let nowhere =
            plugins.daemon_sets().next().filter(|_| !wanted && !migrating && drivers > 0)?;
        let reason = Reason::DraScheduledNowhere {
            daemon_set: format!("{}/{}", nowhere.namespace, nowhere.name),
        };
        if is_required {
            return Some(reason);
        }
        self.notes.push(DecisionNote::Tolerated { node: None, reason: reason.into() });
        None
    }

    /// Returns whether the run fails because the whole fleet has waited for too long.
    pub(super) fn fails(&self) -> bool {
        !self.ended.fleet.is_empty()
    }

    /// Sets the reason for which the fleet waits, if any; a reason that lasts longer than the grace
    /// time ends the run with its own exit code.
    pub(super) fn waits_for(&mut self, reason: Option<Reason>) {
        let Some(reason) = reason else {
            self.memory.fleet_waiting = None;
            return;
        };
        let since = self.memory.fleet_waits(&reason, self.now);
        // A missing configuration must not end a run that still has drivers and DRA plugins to
        // handle.
        let sees_to_drivers =
            || self.waits.nodes.reasons().any(|reason| !reason.is_device_plugins());
        let held_back =
            matches!(reason, Reason::ConfigMissing { .. } | Reason::ConfigNotApplied { .. })
                && sees_to_drivers();
        let ends = reason.ends_run()
            && !held_back
            && self.alarm.passed(since, self.settings.grace_seconds);
        let wait = Wait { node: None, reason: reason.into(), since };
        self.ended.fleet.extend(ends.then(|| wait.clone()));
        self.waits.fleet.push(wait);
    }
}
