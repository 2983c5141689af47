//! The state of the simulated hook: settings, run record, caches and memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::budget::working_seconds;
use contract::driver::Driver;
use contract::mode::Mode;
use contract::operand::Operand;
use contract::policy::UpgradeSettings;
use contract::settings::Settings;
use contract::task::Task;
use contract::user_request::{RequestCommand, UserRequest, accepted_nodes};
use jiff::Timestamp;
use observed::Observed;
use planner::drive_upgrade::record::read;
use planner::memory::RunMemory;
use planner::pods::filter::OwnPods;
use planner::spec::{driver_identity, installed_driver};

use super::caches::ClusterCaches;
use super::cluster::SimulatedCluster;
use super::objects::{SimulatedOperand, config_digest, driver_image, timestamp};
use super::operand_pods::PLUGIN_AND_EXPORTER;
use super::setup::SimulationSetup;

/// The hook's settings, run record and caches.
pub(super) struct HookState {
    pub(super) settings: Settings,
    pub(super) memory: RunMemory,
    pub(super) caches: ClusterCaches,
    /// What users have asked for with `resume`, as the run record has it.
    requests: Vec<UserRequest>,
    pub(super) is_running: bool,
    /// Whether the next decision follows at once, because a write was refused.
    pub(super) decides_at_once: bool,
}

/// Returns the trigger digest of a Job. Labels contain only its first characters.
fn digest(job: u32) -> String {
    format!("{job:08x}{:056x}", 0)
}

fn deadline(settings: &Settings, from: u64) -> Timestamp {
    timestamp(from.saturating_add(working_seconds(settings.budget_seconds).saturating_mul(1000)))
}

impl HookState {
    pub(super) fn new(setup: &SimulationSetup) -> Self {
        let mut settings = setup.settings.clone();
        settings.digest = digest(0);
        if setup.operator_upgrade.is_some() {
            settings.component_version.clone_from(&setup.operator);
        }
        if settings.mode == Mode::Assist {
            // In this mode, the settings contain no other part of the policy.
            settings.upgrade = UpgradeSettings {
                attempts: settings.upgrade.attempts,
                ..UpgradeSettings::default()
            };
        }
        // The hook watches jobs only in mode `drive`.
        let wait = settings
            .upgrade
            .policy
            .wait_for_completion
            .as_ref()
            .filter(|_| settings.has(Task::Drive));
        // An earlier run has succeeded with the driver that the fleet has.
        let memory = RunMemory {
            proven_driver: Some(match settings.driver {
                Driver::Gpu => installed_driver(
                    &driver_image(&setup.from),
                    Some(&config_digest(setup, &setup.from)),
                ),
                Driver::Ofed | Driver::DaemonSet => driver_image(&setup.from),
            }),
            ..RunMemory::new(timestamp(0), deadline(&settings, 0))
        };
        Self {
            memory,
            caches: ClusterCaches::new(wait.and_then(|wait| wait.pod_selector.parse().ok())),
            requests: Vec::new(),
            is_running: false,
            decides_at_once: false,
            settings,
        }
    }

    /// Returns namespace and name of the hook's own pod.
    pub(super) fn own_pod(&self) -> (String, String) {
        (self.settings.namespace.clone(), format!("{}-hook", self.settings.release))
    }

    fn own_pods(&self) -> OwnPods {
        OwnPods { names: BTreeSet::from([self.own_pod()]), ..OwnPods::default() }
    }

    /// Drops the state that is only in the memory of the process.
    pub(super) fn forget(&mut self) {
        let own = self.own_pods();
        let memory = &mut self.memory;
        let nodes = std::mem::take(&mut memory.nodes);
        let (cohort, baseline) = (memory.cohort.take(), memory.baseline.take());
        let earlier_baseline = memory.earlier_baseline.take();
        // The record is written before the actions that depend on it.
        let (proof, proven_driver) = (memory.proof.take(), memory.proven_driver.take());
        *memory = RunMemory {
            cohort,
            nodes,
            baseline,
            earlier_baseline,
            proof,
            accepted: accepted_nodes(&self.requests),
            proven_driver,
            own,
            ..RunMemory::new(memory.started_at, memory.deadline)
        };
    }

    /// Returns the memory of a run that follows the last one, which has not succeeded.
    fn following_memory(&mut self, now: u64) -> RunMemory {
        let nodes = std::mem::take(&mut self.memory.nodes);
        let mut proof = self.memory.proof.take();
        if let Some(proof) = &mut proof {
            Arc::make_mut(proof).resume(&self.requests);
        }
        let proven_driver = self.memory.proven_driver.take();
        let accepted = accepted_nodes(&self.requests);
        // Damage by that run must not become part of the next baseline.
        let earlier_baseline = self.memory.baseline.take().or(self.memory.earlier_baseline.take());
        let following = RunMemory::following(&nodes, timestamp(now), deadline(&self.settings, now));
        RunMemory { proof, accepted, proven_driver, earlier_baseline, ..following }
    }

    /// Starts a new Job. Its number is part of the trigger digest, so the digest changes.
    pub(super) fn start_job(&mut self, job: u32, now: u64) {
        self.settings.digest = digest(job);
        self.memory = self.following_memory(now);
    }

    /// Starts another Job of the same deployment for a user who has ended the halt, and takes
    /// failed nodes as proven.
    pub(super) fn resume(&mut self, accepted: &[String], observed: &Observed, now: u64) {
        let driver = self.settings.driver;
        let failed = |name: &String| {
            let since = read(observed.nodes.get(name)?, driver.traits()).record()?.since;
            Some((name.clone(), since))
        };
        let halt = self.memory.proof.as_ref().and_then(|proof| proof.halt.as_ref());
        self.requests.push(UserRequest {
            halt: halt.map(|halt| halt.at),
            accepts: accepted.iter().filter_map(failed).collect(),
            driver: Some(driver_identity(observed, driver)),
            ..UserRequest::new(RequestCommand::Resume, "ada".to_owned(), timestamp(now))
        });
        self.memory = self.following_memory(now);
    }

    /// Whether a user takes a node as proven that has failed since this time.
    pub(super) fn accepts(&self, name: &str, failed_at: Timestamp) -> bool {
        self.requests.iter().any(|request| request.accepts.get(name) == Some(&failed_at))
    }

    /// Returns the memory of another run of the same deployment, after a run that has succeeded.
    pub(super) fn second_run(&mut self, now: u64) -> RunMemory {
        let own = self.own_pods();
        RunMemory { own, earlier_baseline: None, ..self.following_memory(now) }
    }

    /// Whether the caches have the current state of the node.
    pub(super) fn knows_node(&self, name: &str, cluster: &SimulatedCluster) -> bool {
        let known = self.caches.observed.nodes.get(name).map(|node| &node.version);
        known == cluster.nodes.get(name).map(|node| &node.node.version)
    }

    /// Whether the caches have the newest revision.
    pub(super) fn knows_revision(&self, cluster: &SimulatedCluster) -> bool {
        self.caches.revisions == cluster.operator.objects.revisions.len()
    }

    pub(super) fn knows_pauses(&self, cluster: &SimulatedCluster) -> bool {
        self.caches.observed.pauses == cluster.pauses.as_slice()
    }

    /// Whether the caches have this pod of a test.
    pub(super) fn knows_test_pod(&self, node: &str, uid: &str) -> bool {
        self.caches.observed.acceptance.on(node).any(|pod| pod.uid == uid)
    }

    /// Whether the caches have this driver pod of a node, with ready containers.
    pub(super) fn knows_driver(&self, node: &str, uid: &str) -> bool {
        let mut pods = self.caches.observed.pods.on(node);
        pods.any(|pod| pod.uid == uid && pod.containers_ready)
    }

    pub(super) fn knows_pod(&self, node: &str, uid: &str) -> bool {
        let pods = self.caches.observed.workloads.pods.get(node);
        pods.is_some_and(|pods| pods.iter().any(|pod| pod.uid == uid))
    }

    /// Whether the caches have the current state of a node's operands.
    pub(super) fn knows_operands(&self, name: &str, cluster: &SimulatedCluster) -> bool {
        if !cluster.nodes.contains(name) {
            return true;
        }
        let known = |operand: Operand| {
            let owner = operand.traits().daemon_set;
            self.caches.observed.operand_pods.on(name).find(|pod| *pod.owner == *owner)
        };
        let validator = cluster.operands.pod(name, SimulatedOperand::Validator);
        PLUGIN_AND_EXPORTER
            .iter()
            .all(|operand| known(*operand) == cluster.operands.pods.pod(name, *operand))
            && known(Operand::Validator).is_some_and(|pod| pod.ready)
                == validator.is_some_and(|pod| pod.ready)
            && self.caches.operand_revisions == cluster.operator.objects.operand_revisions
    }
}
