//! Claims about the output of commands that must always be true.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use ops::doctor::DoctorSeverity;
use ops::run_phase::RunPhase;
use ops::status::{BlockingCondition, FleetTotals, NodeRow, NodeStage};

use super::alarms::{false_alarms, steps_of_absent_hook};
use super::messages::{Messages, has_nanoseconds};
use super::moment::{HookState, Moment, QUEUED};

/// How long an ETA may be postponed continuously. After half a minute, a node is known to be slower
/// than others.
const PUT_OFF: SignedDuration = SignedDuration::from_secs(40);

/// Checks the claims. Remembers the previous output.
#[derive(Default)]
pub(super) struct Claims {
    /// The reported wait of each node: reason, state and start.
    waiting: BTreeMap<String, (&'static str, Option<String>, Option<Timestamp>)>,
    messages: Messages,
    /// The last totals of `status`.
    totals: Option<FleetTotals>,
    /// The last ETA of each node, and the time since which it has been postponed.
    ends: BTreeMap<String, (Option<Timestamp>, Option<Timestamp>)>,
    /// The nodes in the report, each with the number of its spans, and the number of steps in `why`.
    reported: BTreeMap<String, (usize, usize)>,
    /// Nodes that had lost spans or steps in the moment before.
    forgotten: BTreeSet<String>,
    /// The times that the text of each node's wait announced, by the text around them.
    announced: BTreeMap<String, (String, Vec<Timestamp>)>,
    /// When the whole fleet last waited.
    fleet_waited_at: Option<Timestamp>,
    /// The fleet waited in the moment before: the hook may not have noticed the end of the wait.
    fleet_waits: bool,
    /// The hook has assessed nodes.
    has_assessed: bool,
    /// The metric of the ETA differed from that of `status` in the moment before.
    eta_differed: bool,
    /// Metrics that differed from the totals, with their values.
    doubtful: BTreeMap<(&'static str, &'static str), f64>,
}

/// Selects a total of `status`.
type Number = fn(&FleetTotals) -> usize;

impl Claims {
    /// Returns the false claims.
    pub(super) fn check(&mut self, moment: &Moment<'_>) -> Vec<String> {
        let mut lies = [
            nodes(moment),
            run(moment),
            eta(moment),
            texts(moment),
            doctor(moment),
            report(moment),
            operator(moment),
            steps_of_absent_hook(moment),
            false_alarms(moment),
        ]
        .concat();
        lies.extend(self.messages.check(moment));
        lies.extend(self.times(moment));
        lies.extend(self.fleet(moment));
        lies.extend(self.announced(moment));
        lies.extend(self.history(moment));
        lies.extend(self.metrics(moment));
        lies.extend(self.expected_end(moment));
        lies.extend(self.ends(moment));
        self.totals = Some(moment.status.totals.clone());
        lies
    }

    /// Checks that the start of a wait with the same reason and state does not move to a later
    /// time. Between the end of a state and the hook's next write, a command may report the reason
    /// of the next state with the time of the current one.
    fn times(&mut self, moment: &Moment<'_>) -> Vec<String> {
        let mut lies = Vec::new();
        let mut now = BTreeMap::new();
        let is_recorded = is_running(moment);
        for row in &moment.status.nodes {
            let Some(waiting) = &row.waiting else { continue };
            let since = waiting.since.at;
            let is_queued = QUEUED.contains(&waiting.reason);
            if is_queued && since.is_none() && is_recorded {
                lies.push(format!("{} waits for its turn since an unknown time", row.node));
            }
            if since.is_some_and(|since| since > moment.status.at) {
                lies.push(format!("{} waits since a time to come: {since:?}", row.node));
            }
            if let Some((reason, state, Some(before))) = self.waiting.get(&row.node)
                && (*reason, state) == (waiting.reason, &row.state)
                && since.is_some_and(|since| since > *before)
            {
                lies.push(format!(
                    "{} waits for {reason} since {before}, and later since {since:?}",
                    row.node
                ));
            }
            now.insert(row.node.clone(), (waiting.reason, row.state.clone(), since));
        }
        self.waiting = now;
        lies
    }

    /// Checks that the report and `why` do not forget the upgrade of a node. When a node ends, its
    /// annotation is removed shortly before its record is written, so a gap is only an error if it
    /// lasts for a second.
    fn history(&mut self, moment: &Moment<'_>) -> Vec<String> {
        let spans = |node: &str| {
            let reported = moment.report.nodes.iter().find(|reported| reported.node == node);
            reported.map_or(0, |reported| reported.spans.len())
        };
        let now: BTreeMap<String, (usize, usize)> = moment
            .steps
            .iter()
            .map(|(node, steps)| (node.clone(), (spans(node), steps.len())))
            .collect();
        let lost: BTreeSet<String> = now
            .iter()
            .filter(|(node, (spans, steps))| {
                let known = self.reported.get(*node);
                known.is_some_and(|(before, known)| spans < before || steps < known)
            })
            .map(|(node, _)| node.clone())
            .collect();
        let lies = lost
            .intersection(&self.forgotten)
            .map(|node| format!("the report or `why` has forgotten the upgrade of {node}"))
            .collect();
        for (node, counts) in now {
            if !lost.contains(&node) {
                self.reported.insert(node, counts);
            }
        }
        self.forgotten = lost;
        lies
    }

    /// Checks that no node waits for its turn since a time at which the whole fleet waited, and that
    /// a spec that matched before needs manual action.
    fn fleet(&mut self, moment: &Moment<'_>) -> Vec<String> {
        let mut lies = Vec::new();
        let status = &moment.status;
        let waited_at = self.fleet_waited_at.filter(|_| !self.fleet_waits && is_running(moment));
        for row in &status.nodes {
            let Some(waiting) = &row.waiting else { continue };
            let since = waiting.since.at.filter(|_| QUEUED.contains(&waiting.reason));
            if since.is_some_and(|since| waited_at.is_some_and(|at| since < at)) {
                lies.push(format!(
                    "{} waits for its turn since {since:?}, and the fleet waited at {waited_at:?}",
                    row.node
                ));
            }
        }
        let changed = status.fleet.iter().find(|waiting| waiting.reason == "Precondition");
        if self.has_assessed && changed.is_some_and(|waiting| waiting.resolves_itself) {
            lies.push("a spec that another user changed resolves itself".to_owned());
        }
        self.fleet_waits = !status.fleet.is_empty();
        if self.fleet_waits {
            self.fleet_waited_at = Some(status.at);
        }
        self.has_assessed |= is_running(moment) && !self.fleet_waits;
        lies
    }

    /// Checks that the times in the text of a wait do not move with the clock.
    fn announced(&mut self, moment: &Moment<'_>) -> Vec<String> {
        let mut lies = Vec::new();
        let mut now = BTreeMap::new();
        for row in &moment.status.nodes {
            let Some(waiting) = row.waiting.as_ref().filter(|waiting| !waiting.whole_fleet) else {
                continue;
            };
            // Without a running hook, the times are those of a hook that takes over now.
            if !is_running(moment) {
                continue;
            }
            let (text, times) = mask_times(&waiting.text);
            if let Some((before, earlier)) = self.announced.get(&row.node)
                && *before == text
                && times.iter().zip(earlier).any(|(time, earlier)| time > earlier)
            {
                lies.push(format!(
                    "{}: `{text}` announced {earlier:?}, and then {times:?}",
                    row.node
                ));
            }
            now.insert(row.node.clone(), (text, times));
        }
        self.announced = now;
        lies
    }

    /// Checks that metrics have an ETA exactly where `status` has one. They show the hook's last
    /// decision, so a difference is only an error if it lasts for a second. The times differ: in
    /// mode `drive`, the run record has the pace of the last nodes up to 30 s later.
    fn expected_end(&mut self, moment: &Moment<'_>) -> Vec<String> {
        let differed = std::mem::take(&mut self.eta_differed);
        let waits = || moment.status.nodes.iter().filter_map(|row| row.waiting.as_ref());
        // The hook's metrics do not know which pods block a node.
        let is_blocked = |waiting: &BlockingCondition| {
            waiting.obstacles.iter().any(|obstacle| !obstacle.kind.ends_in_time())
        };
        if !is_running(moment) || waits().any(is_blocked) {
            return Vec::new();
        }
        let name = "gpu_rollout_expected_end_timestamp_seconds";
        let is_told = moment.metrics.lines().any(|line| line.split('{').next() == Some(name));
        let end = moment.status.totals.end;
        self.eta_differed = is_told != end.is_some();
        (differed && self.eta_differed)
            .then(|| format!("{name} is present: {is_told}, and status expects the end at {end:?}"))
            .into_iter()
            .collect()
    }

    /// Checks that an ETA does not move with the clock.
    fn ends(&mut self, moment: &Moment<'_>) -> Vec<String> {
        let mut lies = Vec::new();
        for row in &moment.status.nodes {
            let (before, since) = self.ends.remove(&row.node).unwrap_or_default();
            let since =
                since.or(Some(moment.status.at)).filter(|_| before.is_some() && row.end > before);
            if since.is_some_and(|since| moment.status.at.duration_since(since) > PUT_OFF) {
                lies.push(format!(
                    "{} has been expected later and later since {since:?}",
                    row.node
                ));
            }
            self.ends.insert(row.node.clone(), (row.end, since));
        }
        lies
    }

    /// Checks that metrics have the same counts as `status`. They show the hook's last decision,
    /// and `status` may already observe its actions. So a difference is only an error if it lasts
    /// for a second.
    fn metrics(&mut self, moment: &Moment<'_>) -> Vec<String> {
        let known: Vec<&FleetTotals> = self.totals.iter().chain([&moment.status.totals]).collect();
        let sample = |name: &str, with: &str| {
            let line = moment
                .metrics
                .lines()
                .find(|line| line.split('{').next() == Some(name) && line.contains(with))?;
            line.rsplit(' ').next()?.parse::<f64>().ok()
        };
        let numbers: [(&'static str, &'static str, Number); 8] = [
            ("gpu_rollout_nodes", "stage=\"done\"", |totals| totals.done),
            ("gpu_rollout_nodes", "stage=\"in-progress\"", |totals| totals.in_progress),
            ("gpu_rollout_nodes", "stage=\"unknown\"", |totals| totals.unknown),
            ("gpu_rollout_nodes", "stage=\"failed\"", |totals| totals.failed),
            ("gpu_rollout_nodes", "stage=\"pending\"", |totals| totals.pending),
            ("gpu_rollout_nodes", "stage=\"deferred\"", |totals| totals.deferred),
            ("gpu_rollout_slots_used", "", |totals| totals.slots.used),
            ("gpu_rollout_nodes_unavailable", "", |totals| totals.unavailable.used),
        ];
        let mut lies = Vec::new();
        for (name, with, number) in numbers {
            let told: Vec<usize> = known.iter().map(|totals| number(totals)).collect();
            #[expect(clippy::cast_precision_loss, reason = "a few nodes")]
            let disagrees =
                |found: &f64| told.iter().all(|told| (*told as f64 - found).abs() > 0.1);
            let found = sample(name, with).filter(disagrees);
            let before = self.doubtful.remove(&(name, with));
            self.doubtful.extend(found.map(|found| ((name, with), found)));
            if let (Some(found), Some(_)) = (found, before) {
                lies.push(format!("{name} {with} is {found}, and status says {told:?}"));
            }
        }
        lies
    }
}

/// Checks that a node reported as done is done, that every other node has a reason, and that the
/// reported cordons are those of the nodes.
fn nodes(moment: &Moment<'_>) -> Vec<String> {
    let mut lies = Vec::new();
    for row in &moment.status.nodes {
        let Some(truth) = moment.nodes.get(&row.node) else {
            lies.push(format!("{} is not a node", row.node));
            continue;
        };
        if row.stage == NodeStage::Done && !(truth.has_new_driver && truth.ready) {
            lies.push(format!("{} is called done: {truth:?}", row.node));
        }
        if row.stage == NodeStage::Done && !moment.status.fleet.is_empty() {
            lies.push(format!("{} is called done while the whole fleet waits", row.node));
        }
        let validates = row.waiting.as_ref().filter(|waiting| waiting.reason == "Validating");
        let since = validates.and_then(|waiting| waiting.since.at);
        if since.is_some_and(|since| truth.driver_ready_since.is_some_and(|ready| since < ready)) {
            lies.push(format!("{} validates since {since:?}: {truth:?}", row.node));
        }
        if row.stage != NodeStage::Done && row.waiting.is_none() {
            lies.push(format!("{} is not done, and has no reason", row.node));
        }
        if row.stage == NodeStage::Unknown
            && row.waiting.as_ref().is_none_or(|waiting| !waiting.whole_fleet)
        {
            lies.push(format!("{} is unknown, and not because of the whole fleet", row.node));
        }
        // A node that reboots needs no action.
        let not_ready = row.waiting.as_ref().filter(|waiting| waiting.reason == "NodeNotReady");
        if let Some((waiting, since)) = not_ready.and_then(|waits| Some((waits, waits.since.at?))) {
            let lasts = moment.status.at.duration_since(since) > SignedDuration::from_mins(5);
            if waiting.is_stuck() != lasts {
                lies.push(format!("{} is stuck: {}, since {since}", row.node, !lasts));
            }
        }
        if row.cordoned != truth.cordoned {
            lies.push(format!(
                "{} is called cordoned: {}, and it is: {}",
                row.node, row.cordoned, truth.cordoned
            ));
        }
    }
    let totals = &moment.status.totals;
    let started = moment.nodes.values().filter(|truth| truth.in_progress).count();
    if totals.slots.used < started {
        lies.push(format!("{started} nodes are in progress, and {:?} are used", totals.slots));
    }
    let sum = totals.done
        + totals.in_progress
        + totals.pending
        + totals.failed
        + totals.unknown
        + totals.deferred;
    if (sum, totals.nodes) != (moment.nodes.len(), moment.nodes.len()) {
        lies.push(format!(
            "{sum} nodes have a stage, {} are counted, {} are there",
            totals.nodes,
            moment.nodes.len()
        ));
    }
    lies
}

/// Checks that a hook is reported as running only while it runs.
fn run(moment: &Moment<'_>) -> Vec<String> {
    let phase = moment.status.run.as_ref().map(|run| run.phase);
    let is_true = match (&moment.hook, moment.has_verdict) {
        (_, true) | (HookState::Ended, _) => phase == Some(RunPhase::Ended),
        (HookState::Running { has_led: true, .. }, false) => phase == Some(RunPhase::Running),
        (HookState::Running { has_led: false, .. }, false) => {
            matches!(phase, Some(RunPhase::Starting | RunPhase::WaitsForLease))
        }
        (HookState::Dead, false) => phase == Some(RunPhase::BetweenPods),
    };
    (!is_true).then(|| format!("the run is reported as {phase:?}")).into_iter().collect()
}

/// Checks that there is an ETA only while nodes progress.
fn eta(moment: &Moment<'_>) -> Vec<String> {
    let status = &moment.status;
    let (over, totals) =
        (moment.has_verdict || matches!(moment.hook, HookState::Ended), &status.totals);
    let mut lies = Vec::new();
    let resolves_itself =
        |row: &NodeRow| row.waiting.as_ref().is_some_and(|waiting| !waiting.needs_action());
    let only_leaves =
        |row: &NodeRow| moment.nodes.get(&row.node).is_some_and(|truth| truth.workloads_leave);
    let is_ready = |row: &NodeRow| moment.nodes.get(&row.node).is_some_and(|truth| truth.ready);
    for row in status.nodes.iter().filter(|row| row.end.is_some()) {
        if over || !status.fleet.is_empty() || !resolves_itself(row) || !is_ready(row) {
            lies.push(format!("{} has an expected end", row.node));
        }
    }
    if totals.end.is_some() && (over || !status.fleet.is_empty()) {
        lies.push("the rollout has an ETA".to_owned());
    }
    let stuck = totals.no_eta.as_ref().filter(|no_eta| no_eta.reason == "node-stuck");
    let stuck = stuck.and_then(|no_eta| no_eta.node.as_ref());
    lies.extend(
        status
            .nodes
            .iter()
            .filter(|row| Some(&row.node) == stuck && (resolves_itself(row) || only_leaves(row)))
            .map(|row| format!("{} needs manual action, and does not", row.node)),
    );
    let open = totals.in_progress + totals.pending + totals.unknown > 0;
    if open != (totals.end.is_some() || totals.no_eta.is_some()) {
        lies.push(format!(
            "nodes are left: {open}; end {:?}, or none because of {:?}",
            totals.end, totals.no_eta
        ));
    }
    lies
}

/// Checks that times are printed in whole seconds.
fn texts(moment: &Moment<'_>) -> Vec<String> {
    let waits = moment
        .status
        .nodes
        .iter()
        .filter_map(|row| row.waiting.as_ref())
        .chain(&moment.status.fleet);
    let texts = waits
        .map(|waiting| waiting.text.clone())
        .chain(moment.findings.iter().map(|finding| finding.text.clone()));
    texts
        .filter(|text| has_nanoseconds(text))
        .map(|text| format!("a time to the nanosecond: {text}"))
        .collect()
}

/// Returns whether `status` says that the hook is running.
fn is_running(moment: &Moment<'_>) -> bool {
    moment.status.run.as_ref().is_some_and(|run| run.phase == RunPhase::Running)
}

/// Splits a text at its times, which are in whole seconds.
fn mask_times(text: &str) -> (String, Vec<Timestamp>) {
    let mut times = Vec::new();
    let words = text.split_inclusive([' ', ';', ',', '(', ')', '`']);
    let mask = |word: &str| {
        let bare = word.trim_end_matches([' ', ';', ',', '(', ')', '`']);
        let Ok(time) = bare.parse::<Timestamp>() else { return word.to_owned() };
        times.push(time);
        word.replace(bare, "TIME")
    };
    (words.map(mask).collect(), times)
}

/// Checks that the cordons of a hook are a finding while no hook runs, and only then.
fn doctor(moment: &Moment<'_>) -> Vec<String> {
    let found = |check: &str| moment.findings.iter().find(|finding| finding.check == check);
    let mut lies = Vec::new();
    if let Some(finding) = found("unattended-cordons") {
        let attended = matches!(moment.hook, HookState::Running { .. }) && !moment.has_verdict;
        let idle: Vec<&String> = finding
            .nodes
            .iter()
            .filter(|node| moment.nodes.get(*node).is_none_or(|truth| !truth.cordoned))
            .collect();
        if attended || !idle.is_empty() {
            lies.push(format!("doctor: unattended cordons of {:?}", finding.nodes));
        }
    }
    let left: Vec<&String> = moment
        .nodes
        .iter()
        .filter(|(_, truth)| truth.cordoned && truth.has_own_record)
        .map(|(node, _)| node)
        .collect();
    let named: Vec<&String> =
        found("unattended-cordons").iter().flat_map(|finding| &finding.nodes).collect();
    if matches!(moment.hook, HookState::Ended) && named != left {
        lies.push(format!("doctor: the hook left cordons on {left:?}, and {named:?} are named"));
    }
    lies
}

/// Checks that an operator that is scaled to 0 needs manual action, for `status` and `doctor`.
fn operator(moment: &Moment<'_>) -> Vec<String> {
    if moment.operator_replicas != Some(0) {
        return Vec::new();
    }
    let waiting = moment.status.fleet.iter().find(|waiting| waiting.reason == "OperatorNotReady");
    let Some(waiting) = waiting else {
        return vec!["the operator is scaled to 0, and the fleet does not wait for it".to_owned()];
    };
    let is_found = moment.findings.iter().any(|finding| {
        finding.check == "fleet-waits" && finding.severity == DoctorSeverity::Problem
    });
    let mut lies = Vec::new();
    if waiting.resolves_itself {
        lies.push("an operator that is scaled to 0 resolves itself".to_owned());
    }
    if !is_found {
        lies.push("doctor: the operator is scaled to 0, and this is not a finding".to_owned());
    }
    lies
}

/// Checks that an unfinished run is not reported as aborted, and that a finished run has an end.
fn report(moment: &Moment<'_>) -> Vec<String> {
    let Some(run) = &moment.report.run else { return Vec::new() };
    let mut lies = Vec::new();
    if matches!(run.phase, RunPhase::Aborted | RunPhase::Lost | RunPhase::JobDeleted)
        && !matches!(moment.hook, HookState::Ended)
    {
        lies.push("report: the run is reported as aborted".to_owned());
    }
    if moment.has_verdict != run.ended_at.is_some() {
        lies.push(format!("report: the run ended at {:?}", run.ended_at));
    }
    lies
}
