//! Equality of worlds. Time advances by making timestamps older, timestamps older than any limit
//! are equally old, and versions keep only their order.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use contract::record::RecordedReason;
use contract::record::acceptance::AcceptanceResult;
use jiff::{SignedDuration, Timestamp};
use planner::decide::Action;
use planner::drive_upgrade::record::UpgradeRecord;

use super::world::{World, index, now, test_uid};

/// The length of one time step, in seconds.
pub(super) const STEP: i64 = 10;

/// Returns the time made older by `seconds`, but at most `most` seconds ago.
fn older(moment: Timestamp, seconds: i64, most: i64) -> Timestamp {
    let earliest = now() - SignedDuration::from_secs(most);
    (moment - SignedDuration::from_secs(seconds)).max(earliest)
}

/// Returns the text of a record after this number of seconds, without fields that do not influence
/// decisions.
fn record(text: &str, seconds: i64) -> String {
    let Ok(mut record) = serde_json::from_str::<UpgradeRecord>(text) else {
        return text.to_owned();
    };
    record.since = older(record.since, seconds, 40);
    record.started = older(record.started, seconds, 40);
    record.steps.clear();
    record.acceptance.iter_mut().for_each(without_times);
    if let Some(failure) = &mut record.failure {
        failure.message.clear();
    }
    record.text()
}

/// Removes what does not influence decisions from a result.
fn without_times(result: &mut AcceptanceResult) {
    (result.at, result.seconds) = (now(), 0);
    result.message.clear();
    result.log.clear();
}

impl World {
    /// Advances the time by this number of seconds.
    pub(super) fn ages(&mut self, seconds: i64) {
        for host in self.hosts.iter_mut().chain(&mut self.seen).flatten() {
            if !host.ready {
                host.down = (host.down + seconds).min(40);
            }
            if seconds > 0 || host.fresh_record {
                host.record = host.record.as_ref().map(|text| record(text, seconds));
                host.fresh_record = false;
            }
        }
        let memory = &mut self.memory;
        for node in memory.nodes.values_mut() {
            // Only a soak needs this field.
            node.since = node.since.map(|_| now());
            // Only the kind of the reason matters.
            node.reason =
                node.reason.take().map(|reason| RecordedReason { text: String::new(), ..reason });
            node.acceptance.iter_mut().for_each(without_times);
            for replaced in node.replaced.values_mut() {
                (replaced.at, replaced.back_at) = (now(), replaced.back_at.map(|_| now()));
                replaced.cause.clear();
            }
        }
        memory.assessed.since = memory.assessed.since.map(|_| now());
        // Only forecasts need these times.
        memory.interruptions.clear();
        let apart = memory.waiting_apart.values_mut();
        let waiting = memory.waiting.values_mut().chain(apart).chain(&mut memory.fleet_waiting);
        waiting.for_each(|(_, since)| *since = older(*since, seconds, 40));
        for base in memory.ready.values_mut() {
            base.observed_since = older(base.observed_since, seconds, 10);
        }
        memory.outdated.values_mut().for_each(|pods| {
            for since in pods.values_mut() {
                *since = older(*since, seconds, 40);
            }
        });
        memory.issued.values_mut().for_each(|issued| issued.at = older(issued.at, seconds, 10));
        memory.patched.values_mut().for_each(|patched| patched.at = older(patched.at, seconds, 10));
        for history in memory.evictions.values_mut() {
            (history.since, history.last) = (now(), older(history.last, seconds, 60));
            history.attempts = history.attempts.min(3);
        }
        if let Some((_, since)) = &mut memory.well {
            *since = older(*since, seconds, 10);
        }
        let uids: BTreeSet<String> = self
            .hosts
            .iter()
            .chain(&self.seen)
            .enumerate()
            .flat_map(|(at, host)| {
                let at = at % self.hosts.len();
                let host = host.as_ref();
                let driver = host
                    .and_then(|host| host.driver)
                    .map(|driver| format!("driver-{at}-{}", driver.number));
                let plugin = host
                    .and_then(|host| host.plugin)
                    .map(|plugin| format!("plugin-{at}-{}", plugin.number));
                let pod = host.and_then(|host| host.pod).map(|(number, _)| format!("pod-{number}"));
                let test =
                    host.and_then(|host| host.test.as_ref()).map(|test| test_uid(&test.name));
                [driver, plugin, pod, test].into_iter().flatten()
            })
            .collect();
        memory.issued.retain(|uid, _| uids.contains(uid));
        memory.evictions.retain(|uid, _| uids.contains(uid));
        self.rank_versions();
    }

    /// Replaces versions by their ranks, because they are only compared with one another.
    fn rank_versions(&mut self) {
        for at in 0..self.hosts.len() {
            let name = super::world::name(at);
            let of = |host: &Option<super::world::Host>| host.as_ref().map(|host| host.version);
            let mut versions: BTreeSet<u32> =
                of(&self.hosts[at]).into_iter().chain(of(&self.seen[at])).collect();
            let patched: Option<u32> =
                self.memory.patched.get(&name).and_then(|patched| patched.version.parse().ok());
            versions.extend(patched);
            let pending = self.actions.iter().filter_map(|action| match action {
                Action::PatchNode(patch) if index(&patch.node) == at => {
                    patch.version.parse::<u32>().ok()
                }
                Action::PatchNode(_)
                | Action::Evict(_)
                | Action::DeleteDriver(_)
                | Action::ReplacePlugin { .. }
                | Action::CreateAcceptancePod(_)
                | Action::DeleteAcceptancePod(_)
                | Action::ReadTestLog(_) => None,
            });
            versions.extend(pending);
            let ranked: Vec<u32> = versions.into_iter().collect();
            let rank = |version: u32| {
                u32::try_from(
                    ranked.iter().position(|known| *known == version).expect("it is one of them"),
                )
                .expect("few")
            };
            for host in [&mut self.hosts[at], &mut self.seen[at]].into_iter().flatten() {
                host.version = rank(host.version);
            }
            if let Some(patched) = self.memory.patched.get_mut(&name) {
                patched.version = rank(patched.version.parse().expect("a number")).to_string();
            }
            for action in &mut self.actions {
                if let Action::PatchNode(patch) = action
                    && index(&patch.node) == at
                {
                    patch.version = rank(patch.version.parse().expect("a number")).to_string();
                }
            }
        }
    }

    /// Returns the key of a world. Two worlds with the same key behave alike (except for a
    /// collision of 128 bits).
    pub(super) fn key(&self) -> u128 {
        let text = if self.alive {
            format!("{:?}{:?}", self.memory, self.actions)
        } else {
            format!("{:?}", self.memory.nodes)
        };
        let half = |seed: u64| {
            let mut hasher = DefaultHasher::new();
            seed.hash(&mut hasher);
            (
                &self.hosts,
                &self.seen,
                self.alive,
                self.dirty,
                self.faults,
                self.over,
                &self.stale,
                &text,
            )
                .hash(&mut hasher);
            hasher.finish()
        };
        u128::from(half(1)) << 64 | u128::from(half(2))
    }
}
