//! What the commands say in simulated worlds is compared with the state of these worlds, after
//! every decision of the hook: nodes that reboot, drivers that fail, pauses, kills, an operator
//! that is away.

use std::collections::BTreeMap;

use contract::count::Count;
use contract::driver::Driver;
use contract::record::RunRecord;
use contract::settings::{Mode, Settings};
use contract::task::Task;
use jiff::Timestamp;
use kube_io::lease::LeaseHolder;
use kube_io::record::StoredRecord;
use kube_io::releases::{HookJob, HookPod, JobEnd};
use planner::decide::decide;
use planner::policies::NodePools;
use planner::preflight::policy;
use simulator::fault::{Fault, ScheduledFault};
use simulator::moment::SimulatedMoment;
use simulator::random::SeededRandom;
use simulator::setup::SimulationSetup;
use simulator::simulate_observed;

use super::followed_run::{FollowedRun, LiveJob};
use super::{RolloutSnapshot, RolloutTarget};
use crate::doctor::examine;
use crate::report::report;
use crate::run_phase::RunPhase;
use crate::status::{NodeRow, NodeStage, RolloutStatus, status};
use crate::why::explain_node;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const JOB: &str = "job-1";
const POD: &str = "gpu-operator-post-x7x2p";

/// Returns a world with a few faults. `operator`: the version whose controller does the upgrades;
/// `None`: the hook drives.
fn world(seed: u64, operator: Option<&str>) -> SimulationSetup {
    let mut random = SeededRandom::new(seed);
    let nodes = 2 + usize::try_from(random.below(4)).unwrap();
    let tasks = match operator {
        Some(_) => vec![Task::Settle, Task::Wake, Task::Reroll],
        None => vec![Task::Settle, Task::Drive, Task::Reroll],
    };
    let mut settings = Settings {
        mode: if operator.is_some() { Mode::Assist } else { Mode::Drive },
        tasks,
        budget_seconds: 2 * 3600,
        per_node_seconds: 300,
        ..fixture::settings::settings()
    };
    settings.upgrade.policy.max_parallel_upgrades = u32::try_from(1 + random.below(2)).unwrap();
    settings.upgrade.policy.max_unavailable = Some(Count::Percent(50));
    settings.upgrade.attempts = u32::try_from(1 + random.below(2)).unwrap();
    settings.upgrade.start_seconds = 300;
    let faults = (0..=random.below(3)).map(|_| ScheduledFault {
        at: random.below(10 * MINUTE),
        fault: fault(&mut random, nodes),
    });
    SimulationSetup {
        faults: faults.collect(),
        dra: true,
        operator: operator.map(str::to_owned),
        ..SimulationSetup::new(settings, nodes, seed)
    }
}

fn fault(random: &mut SeededRandom, nodes: usize) -> Fault {
    let node = format!("gpu-{}", random.below(nodes as u64));
    let lasts = 10 * SECOND + random.below(10 * MINUTE);
    let skip = Driver::Gpu.traits().skip_label.to_owned();
    match random.below(11) {
        0 => Fault::NotReady(node, Some(lasts)),
        1 => Fault::NotReady(node, None),
        2 => Fault::Cordon(node),
        3 => Fault::DriverFails(node, Some(1)),
        4 => Fault::DriverFails(node, None),
        5 => Fault::PluginFails(node, Some(lasts)),
        6 => Fault::KillHook(lasts.min(MINUTE)),
        7 => Fault::OperatorDown(lasts.min(90 * SECOND)),
        8 if lasts.is_multiple_of(3) => Fault::Freeze(lasts),
        8 => Fault::Pause(lasts),
        9 => Fault::Label(node, skip, Some("true".to_owned())),
        _ => Fault::NodeGone(node),
    }
}

/// Returns the run record as the hook writes it after a decision.
fn recorded(moment: &SimulatedMoment<'_>) -> StoredRecord {
    let memory = moment.memory;
    let run = serde_json::json!({
        "formatVersion": 2, "digest": "d", "job": JOB, "startedAt": memory.started_at,
        "takenOverAt": memory.taken_over_at, "assessedSince": memory.assessed.since,
        "interruptions": memory.interruptions, "verdict": moment.verdict,
        "fleetWait": memory.fleet_waiting.map(|(reason, since)| {
            serde_json::json!({"reason": reason, "since": since})
        }),
    });
    let run: RunRecord = serde_json::from_value(run).unwrap();
    let (cohort, baseline) = (memory.cohort.clone(), memory.baseline.clone());
    let run = RunRecord { cohort, baseline, ..run };
    StoredRecord { run: Some(run), nodes: memory.nodes.clone(), requests: Vec::new() }
}

/// Returns what a command that is run now observes.
fn snapshot(moment: &SimulatedMoment<'_>) -> RolloutSnapshot {
    let (record, now) = (recorded(moment), moment.now);
    let release = format!("{}/{}", moment.settings.namespace, moment.settings.release);
    let target =
        RolloutTarget { settings: moment.settings.clone(), release: Some(release), deployer: None };
    let is_running = moment.verdict.is_none();
    let started = moment.memory.taken_over_at;
    let job = HookJob {
        name: moment.settings.release.clone(),
        uid: JOB.to_owned(),
        started: Some(moment.memory.started_at),
        end: (!is_running).then_some(JobEnd::Complete),
        has_pod: is_running,
        has_failed_pod: moment.process > 0,
        pods: Some(vec![HookPod { name: POD.to_owned(), created: started }]),
    };
    let settings = target.observation_settings(is_running);
    let followed =
        FollowedRun::new(&record, is_running.then_some(LiveJob { job: &job, is_running }));
    let mut observed = moment.observed.clone();
    if let Some(lease) = &mut observed.operator_lease {
        lease.renewed = lease.renewed.or_else(|| followed.assumed_renewal(lease, now, now));
    }
    let memory = followed.memory(&settings, &observed, now);
    let decision = decide(&observed, &settings, &memory, now);
    RolloutSnapshot {
        policy: policy(&observed, &settings),
        pools: NodePools::in_force(&observed, &settings),
        holder: is_running.then(|| LeaseHolder { name: POD.to_owned(), until: None }),
        job: Some(job),
        times: BTreeMap::new(),
        notes: Vec::new(),
        target,
        settings,
        observed,
        decision,
        record,
        now,
    }
}

/// Checks the output of every moment of a world. Remembers since when each node has been waiting.
#[derive(Default)]
struct Claims {
    waits: BTreeMap<String, (&'static str, Option<String>, Option<Timestamp>)>,
    /// The process of the hook in the moment before.
    process: u32,
    lies: Vec<String>,
    moments: usize,
}

impl Claims {
    fn check(&mut self, moment: &SimulatedMoment<'_>) {
        let snapshot = snapshot(moment);
        let status = status(&snapshot);
        self.moments += 1;
        let mut lies = Vec::new();
        for row in &status.nodes {
            lies.extend(row_lies(row, &status, moment));
        }
        lies.extend(total_lies(&status, moment));
        lies.extend(self.wait_lies(&status, moment));
        lies.extend(command_lies(&snapshot, &status, moment));
        self.lies.extend(lies.into_iter().map(|lie| format!("{}: {lie}", moment.now)));
    }

    /// Checks that the start of a wait does not move to a later time while the hook's process lives.
    fn wait_lies(&mut self, status: &RolloutStatus, moment: &SimulatedMoment<'_>) -> Vec<String> {
        let is_same_process =
            std::mem::replace(&mut self.process, moment.process) == moment.process;
        let before = std::mem::take(&mut self.waits);
        let mut lies = Vec::new();
        for row in &status.nodes {
            let Some(waiting) = &row.waiting else { continue };
            let (now, since) = ((waiting.reason, &row.state), waiting.since.at);
            if since.is_some_and(|since| since > status.at) {
                lies.push(format!("{} waits since a time to come: {since:?}", row.node));
            }
            if let Some((reason, state, Some(known))) = before.get(&row.node)
                && now == (*reason, state)
                && since.is_some_and(|since| since > *known)
                && is_same_process
            {
                lies.push(format!(
                    "{} waits for {reason} since {known}, and later since {since:?}",
                    row.node
                ));
            }
            self.waits.insert(row.node.clone(), (waiting.reason, row.state.clone(), since));
        }
        lies
    }
}

fn row_lies(row: &NodeRow, status: &RolloutStatus, moment: &SimulatedMoment<'_>) -> Vec<String> {
    let mut lies = Vec::new();
    let mut claim = |is_true: bool, lie: &str| {
        if !is_true {
            lies.push(format!("{}: {lie}: {row:?}", row.node));
        }
    };
    let node = moment.observed.nodes.get(&row.node);
    let is_done = row.stage == NodeStage::Done;
    let waiting = row.waiting.as_ref();
    let has_fleet_wait = waiting.is_some_and(|waiting| waiting.whole_fleet);
    claim(!is_done || moment.upgraded.contains(&row.node), "done, without the new driver");
    claim(!is_done || status.fleet.is_empty(), "done, while the whole fleet waits");
    claim(is_done || waiting.is_some(), "not done, and without a reason");
    claim(row.stage != NodeStage::Unknown || has_fleet_wait, "unknown, not because of the fleet");
    claim(node.is_some_and(|node| node.unschedulable == row.cordoned), "not cordoned as shown");
    let moves = waiting.is_some_and(|waiting| !waiting.needs_action());
    let is_ready = node.is_some_and(|node| node.ready);
    claim(row.not_ready.is_none() == is_ready, "not Ready or NotReady as shown");
    claim(row.end.is_none() || moves && is_ready, "has an end, and does not move");
    claim(row.end.is_none_or(|end| end >= status.at), "has an end in the past");
    lies
}

fn total_lies(status: &RolloutStatus, moment: &SimulatedMoment<'_>) -> Vec<String> {
    let totals = &status.totals;
    let mut lies = Vec::new();
    let staged = totals.done
        + totals.in_progress
        + totals.pending
        + totals.failed
        + totals.unknown
        + totals.deferred;
    if staged != totals.nodes || totals.nodes != status.nodes.len() {
        lies.push(format!("{staged} nodes have a stage: {totals:?}"));
    }
    let own_state = Driver::Gpu.traits().own_state_label;
    let is_driven = |row: &&NodeRow| {
        let label = moment.observed.nodes.get(&row.node).map(|node| node.labels.text(own_state));
        row.stage == NodeStage::InProgress && label.flatten().is_some()
    };
    let in_progress = status.nodes.iter().filter(is_driven).count();
    if totals.slots.used < in_progress {
        lies.push(format!("{in_progress} nodes are in progress: {:?}", totals.slots));
    }
    let is_over = moment.verdict.is_some() || !status.fleet.is_empty();
    if totals.end.is_some() && is_over {
        lies.push("the rollout has an ETA".to_owned());
    }
    let is_open = totals.in_progress + totals.pending + totals.unknown > 0;
    if is_open != (totals.end.is_some() || totals.no_eta.is_some()) {
        lies.push(format!("nodes are left: {is_open}; {:?}, {:?}", totals.end, totals.no_eta));
    }
    lies
}

/// Checks `report`, `why` and `doctor` against `status`.
fn command_lies(
    snapshot: &RolloutSnapshot,
    status: &RolloutStatus,
    moment: &SimulatedMoment<'_>,
) -> Vec<String> {
    let mut lies = Vec::new();
    let is_over = moment.verdict.is_some();
    let phase = status.run.as_ref().map(|run| run.phase);
    let expected = if is_over { RunPhase::Ended } else { RunPhase::Running };
    if phase != Some(expected) {
        lies.push(format!("the run is {phase:?}"));
    }
    let reported = report(snapshot).run;
    if reported.is_none_or(|run| run.ended_at.is_some() != is_over) {
        lies.push("report: whether the run has ended is wrong".to_owned());
    }
    for row in &status.nodes {
        let explained = explain_node(snapshot, &row.node).map(|explained| explained.row);
        if explained.as_ref() != Some(row) {
            lies.push(format!("why {}: {explained:?} instead of {row:?}", row.node));
        }
    }
    let findings = examine(snapshot, status);
    let unattended = findings.iter().find(|finding| finding.check == "unattended-cordons");
    if let Some(finding) = unattended.filter(|_| !is_over) {
        lies.push(format!("doctor: {finding:?}"));
    }
    let left: Vec<&String> = moment
        .observed
        .nodes
        .values()
        .filter(|node| {
            let record = node.annotations.get(Driver::Gpu.traits().own_record);
            node.unschedulable && record.is_some_and(|text| text.contains("\"cordoned\":true"))
        })
        .map(|node| &node.name)
        .collect();
    let named: Vec<&String> = unattended.iter().flat_map(|finding| &finding.nodes).collect();
    if is_over && left != named {
        lies.push(format!("doctor: cordons are left on {left:?}, and {named:?} are named"));
    }
    lies
}

/// Plays worlds, and fails with the first lies of each.
fn are_told_truly(seeds: std::ops::Range<u64>, operator: Option<&str>) {
    let mut failures = Vec::new();
    let mut moments = 0;
    for seed in seeds {
        let setup = world(seed, operator);
        let mut claims = Claims::default();
        let _report = simulate_observed(&setup, &mut |moment| claims.check(moment));
        moments += claims.moments;
        if !claims.lies.is_empty() {
            let first: Vec<String> = claims.lies.into_iter().take(3).collect();
            failures.push(format!("seed {seed}, {:?}:\n  {}", setup.faults, first.join("\n  ")));
        }
    }
    assert!(moments > 100, "only {moments} moments");
    assert!(failures.is_empty(), "{} worlds:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn driven_worlds_are_told_truly() {
    are_told_truly(0..40, None);
}

#[test]
fn assisted_worlds_are_told_truly() {
    are_told_truly(40..60, Some("v26.7.0"));
    are_told_truly(60..70, Some("v26.3.1"));
}
