//! The acceptance tests of a node: which of them apply, which one is next, the name of its pod, and
//! which GPUs the pod requests. All of it follows from the settings, the node and its record.

use std::collections::BTreeMap;

use contract::acceptance::{
    AcceptanceGpus, AcceptanceNodes, AcceptanceTest, AcceptanceTime, pod_name,
};
use contract::digest::sha256;
use contract::names::{DRA_GPU_DRIVER, GPU_SHARING_LABEL, MPS_SHARING};
use contract::proof::RampShare;
use contract::record::acceptance::AcceptanceResult;
use contract::settings::Settings;
use observed::{Observed, ObservedNode};

use super::action::RequestedGpus;
use super::drive_upgrade::record::UpgradeRecord;
use super::memory::RunMemory;

/// How many hexadecimal digits of the hash of a name decide about its share.
const HASH_DIGITS: usize = 7;

/// The tests of a node at one time, with one driver pod.
#[derive(Clone, Copy, Debug)]
pub struct NodeTests<'a> {
    /// The settings with all tests.
    pub settings: &'a Settings,
    /// The node.
    pub node: &'a ObservedNode,
    /// UID of its driver pod.
    pub driver_pod: &'a str,
    /// The names of the canaries ([`canaries`]).
    pub canaries: &'a [String],
    /// Whether the node was a canary when it was started ([`UpgradeRecord::canary`]).
    pub was_canary: bool,
    /// The time.
    pub time: AcceptanceTime,
}

impl<'a> NodeTests<'a> {
    /// Returns the tests that apply to the node, in the order in which they run.
    pub fn all(self) -> impl Iterator<Item = &'a AcceptanceTest> {
        let Self { settings, node, canaries, was_canary, time, .. } = self;
        let is_run = move |test: &&AcceptanceTest| {
            test.runs(time) && (was_canary || applies(test, &node.name, canaries))
        };
        settings.upgrade.acceptance.iter().filter(is_run)
    }

    /// Returns the results of this time with this driver pod that count.
    pub fn results(self, record: &UpgradeRecord) -> impl Iterator<Item = &AcceptanceResult> {
        let results = record.results(&self.settings.digest).iter();
        results
            .filter(move |result| result.time == self.time && result.driver_pod == self.driver_pod)
    }

    /// Returns the first test without a result. `None`: all tests that apply have one.
    pub fn current(self, record: &UpgradeRecord) -> Option<&'a AcceptanceTest> {
        self.all().find(|test| self.results(record).all(|result| result.test != test.name))
    }

    /// Returns the name of the pod of a test. Another deployment, a new start of the node's upgrade
    /// and another driver pod are other attempts.
    pub fn pod(self, test: &AcceptanceTest, record: &UpgradeRecord) -> String {
        let started = record.started.to_string();
        let digest = self.settings.digest.as_str();
        let attempt = [digest, started.as_str(), self.driver_pod, self.time.name()];
        pod_name(&test.name, &self.node.uid, &attempt.join("/"))
    }
}

/// Returns the names of the canaries, as far as they are chosen.
pub fn canaries(memory: &RunMemory) -> &[String] {
    memory.proof.as_ref().map_or(&[][..], |proof| proof.canaries.as_slice())
}

/// Returns whether a test applies to the node of this name.
pub fn applies(test: &AcceptanceTest, node: &str, canaries: &[String]) -> bool {
    let is_canary = || canaries.iter().any(|name| name == node);
    match test.nodes {
        AcceptanceNodes::All => true,
        AcceptanceNodes::Canaries => is_canary(),
        AcceptanceNodes::Share(share) => is_canary() || is_in_share(node, share),
    }
}

/// Returns whether the node of this name is in a share of the fleet. A larger share contains the
/// nodes of each smaller one.
fn is_in_share(node: &str, share: RampShare) -> bool {
    let hash = sha256(node.as_bytes());
    let place = usize::from_str_radix(&hash[..HASH_DIGITS], 16).unwrap_or_default() % 100;
    place < share.resolve(100)
}

/// Returns what the pod of a test requests. `None`: it needs the GPUs of the node, and the node
/// offers none, neither through a device plugin nor through a DRA driver. Of a resource that MPS
/// shares, the device plugin allocates no more than one to a pod (k8s-device-plugin
/// `internal/rm/allocate.go`).
pub fn requested_gpus(
    gpus: AcceptanceGpus,
    node: &ObservedNode,
    observed: &Observed,
) -> Option<RequestedGpus> {
    if gpus == AcceptanceGpus::Template {
        return Some(RequestedGpus::Nothing);
    }
    let is_shared = node.labels.has(GPU_SHARING_LABEL, MPS_SHARING);
    let count = |offered: &str| if is_shared { "1".to_owned() } else { offered.to_owned() };
    let offered = node.gpus_allocatable.iter().filter(|(_, count)| *count != "0");
    let resources: BTreeMap<String, String> =
        offered.map(|(resource, offered)| (resource.clone(), count(offered))).collect();
    if !resources.is_empty() {
        return Some(RequestedGpus::Resources(resources));
    }
    let mut slices =
        observed.dra.slices.served().into_iter().flat_map(|slices| slices.on(&node.name));
    let is_offered = slices.any(|slice| slice.driver == DRA_GPU_DRIVER && slice.devices > 0);
    is_offered.then_some(RequestedGpus::Claim)
}

#[cfg(test)]
mod tests;
