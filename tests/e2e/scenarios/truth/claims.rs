//! What must hold of the answers of the program, whatever happens. `rows` has the claims about nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::facts::{Facts, GpuNode};
use super::judge::{Answer, Judge, Server, array, count, text, time};
use super::rows::{self, STAGES, Waits};
use crate::harness::scrape::sample;

/// Phases of a run whose hook is running, or will be within seconds.
const ACTIVE: [&str; 4] = ["starting", "running", "waits-for-lease", "between-pods"];

/// Phases of a run that ended without a verdict.
const ENDED_EARLY: [&str; 2] = ["aborted", "lost"];

/// The claims, with the answers of the round before.
#[derive(Default)]
pub(super) struct Claims {
    pub(super) judge: Judge,
    waits: Waits,
    /// Metrics that did not agree with `status`, with what both said.
    doubts: BTreeMap<&'static str, (usize, usize)>,
}

impl Claims {
    /// Judges an answer that was given at this time of the story; returns the lies that are new.
    pub(super) fn check(&mut self, answer: &Answer, at: Duration) -> Vec<String> {
        let judge = &mut self.judge;
        exit_code(answer, judge);
        if answer.document.is_object() {
            texts(answer, judge);
            if answer.line.contains(" status ") {
                rows::totals(answer, judge);
                rows::fleet(answer, judge);
                rows::eta(answer, judge);
                phase(answer, judge);
                holds_unattended(answer, judge);
                metrics(answer, judge, &mut self.doubts);
            }
            if answer.line.contains(" status ") || answer.line.contains(" why ") {
                rows::rows(answer, judge);
                self.waits.since(answer, judge);
            }
            if answer.line.contains(" doctor ") {
                doctor(answer, judge);
            }
            if answer.line.contains(" report ") {
                report(answer, judge);
            }
        }
        self.judge.end(at, &answer.line)
    }
}

/// A command succeeds while the API server answers, and names the failure while it does not. `doctor` says by its code whether there are problems.
fn exit_code(answer: &Answer, judge: &mut Judge) {
    let problems = array(&answer.document["findings"]).any(|one| one["severity"] == "problem");
    let wanted = match answer.server {
        Server::Up if problems => 14,
        Server::Up => 0,
        Server::Down => 41,
        Server::Changing => return,
    };
    let is_document = answer.document.is_object() == (wanted != 41);
    judge.claim("exit-code", answer.code == Some(wanted) && is_document, || {
        format!("exit code {:?} instead of {wanted}: {}", answer.code, answer.document)
    });
}

/// Times in texts are to the second.
fn texts(answer: &Answer, judge: &mut Judge) {
    let mut texts = Vec::new();
    collect_texts(&answer.document, &mut texts);
    let is_long = |part: &str| {
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        digits > 3 && part[digits..].starts_with('Z')
    };
    let long = texts.iter().find(|text| text.split('.').skip(1).any(is_long));
    judge.claim("texts", long.is_none(), || format!("a time with nanoseconds: {long:?}"));
}

/// Strings for people. A string without a space is a name or a time.
fn collect_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.extend(text.contains(' ').then_some(text.as_str())),
        Value::Array(values) => values.iter().for_each(|value| collect_texts(value, texts)),
        Value::Object(fields) => fields.values().for_each(|value| collect_texts(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The phase of the run is that of the Job, its pods and the record.
fn phase(answer: &Answer, judge: &mut Judge) {
    let Some(phase) = answer.rollout()["run"]["phase"].as_str() else { return };
    let mut agrees = |fact: Option<(bool, String)>| {
        if let Some((holds, facts)) = fact {
            judge.claim("phase", holds, || format!("the run is called {phase}: {facts}"));
        }
    };
    let with = |of: &dyn Fn(&Facts) -> bool| {
        answer
            .fact(|facts| (of(facts), format!("{:?} {:?} {:?}", facts.job, facts.hooks, facts.run)))
    };
    match phase {
        "running" => agrees(with(&|facts| !facts.hooks.is_empty())),
        "between-pods" => agrees(with(&|facts| facts.hooks.is_empty())),
        "ended" => agrees(with(&|facts| {
            facts.verdict().is_some() || facts.job.as_ref().is_none_or(|job| job.is_complete)
        })),
        "never" | "lost" | "aborted" => agrees(with(&|facts| !facts.is_hook_active())),
        _ => {}
    }
    if answer.fact(Facts::is_hook_active) == Some(true) {
        agrees(with(&|_| ACTIVE.contains(&phase)));
    }
    if answer.fact(Facts::verdict).flatten().is_some() {
        agrees(with(&|_| phase == "ended"));
    }
}

/// Nodes are held without a hook exactly where hooks hold nodes and none is active.
fn holds_unattended(answer: &Answer, judge: &mut Judge) {
    let Some((held, attended)) = answer.fact(|facts| (holds(facts), is_attended(facts))) else {
        return;
    };
    let Some(attended) = attended else { return };
    let told = answer.rollout()["holdsUnattended"] == true;
    judge.claim("holds-unattended", told != (held.is_empty() || attended), || {
        format!("holdsUnattended is {told}; hooks hold {held:?}, attended: {attended}")
    });
}

fn holds(facts: &Facts) -> BTreeSet<String> {
    facts.names(|node| node.held)
}

/// Whether a hook is active that may release nodes; `None`: it is about to end.
fn is_attended(facts: &Facts) -> Option<bool> {
    if facts.lease_held { Some(true) } else { activity(facts) }
}

/// Whether a hook is active; `None`: it is about to end.
fn activity(facts: &Facts) -> Option<bool> {
    match (facts.is_hook_active(), facts.is_hook_gone()) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

/// Cordons and holds of hooks are findings exactly while no hook is active.
fn doctor(answer: &Answer, judge: &mut Judge) {
    let cordons = |facts: &Facts| (facts.names(GpuNode::is_cordoned_by_hook), is_attended(facts));
    let held = |facts: &Facts| (holds(facts), is_attended(facts));
    for (check, fact) in
        [("unattended-cordons", answer.fact(cordons)), ("held-nodes", answer.fact(held))]
    {
        let Some((nodes, Some(attended))) = fact else { continue };
        let findings = array(&answer.document["findings"]).filter(|one| one["check"] == check);
        let told: BTreeSet<String> = findings
            .flat_map(|one| array(&one["nodes"]))
            .map(|node| text(node).to_owned())
            .collect();
        let wanted = if attended { BTreeSet::new() } else { nodes };
        judge.claim(check, told == wanted, || {
            format!("{told:?} instead of {wanted:?}, a hook is active: {attended}")
        });
    }
}

/// The report is about the run in the record, and about nothing before it; after the verdict nothing is in progress.
fn report(answer: &Answer, judge: &mut Judge) {
    let rollout = answer.rollout();
    let run = &rollout["run"];
    let Some(facts) = answer.fact(|facts| (facts.run.clone(), facts.job.clone())) else { return };
    let told = (time(&run["startedAt"]), time(&run["endedAt"]), count(&run["verdict"]["exit"]));
    let verdict = facts.0.as_ref().and_then(|run| run.verdict);
    let wanted = (
        facts.0.as_ref().map(|run| run.started_at),
        verdict.map(|(_, at)| at),
        verdict.map(|(code, _)| usize::from(code)),
    );
    judge.claim("report-run", told == wanted, || format!("{run} instead of {wanted:?}"));
    if facts.1.as_ref().is_some_and(|job| job.is_open) {
        judge.claim("report-aborted", !ENDED_EARLY.contains(&text(&run["phase"])), || {
            format!("the run is called ended: {run}, {facts:?}")
        });
    }
    let (started, ended) = (told.0, told.1);
    for node in array(&rollout["nodes"]) {
        for one in array(&node["replaced"]).chain(array(&node["evicted"])) {
            judge.claim("report-pods", time(&one["at"]) >= started, || {
                format!("{one} is not of the run that started {started:?}")
            });
        }
        let Some(ended) = ended else { continue };
        let is_over = array(&node["spans"]).all(|span| time(&span["to"]) <= Some(ended));
        judge.claim("report-over", is_over, || format!("after the verdict of {ended}: {node}"));
        // Where the time is over, or a node fails, others may not be at an end.
        if verdict.is_some_and(|(code, _)| code == 0) {
            judge.claim("report-over", !node["outcome"].is_null(), || {
                format!("after the success of {ended} {node} has no outcome")
            });
        }
    }
}

/// Metrics count the same as `status`. They are of the hook's last decision, and `status` may see what the hook is about to: both have to disagree in
/// the same way twice, with metrics that were the same before and after.
fn metrics(
    answer: &Answer,
    judge: &mut Judge,
    doubts: &mut BTreeMap<&'static str, (usize, usize)>,
) {
    let doubtful = std::mem::take(doubts);
    let (Some((before, after)), Some(true)) = (
        &answer.metrics,
        answer.facts.as_ref().map(|(before, after)| before == after && after.is_hook_active()),
    ) else {
        return;
    };
    if sample(after, "gpu_rollout_in_step", "") != Some(1.0) {
        return;
    }
    for (stage, key) in STAGES {
        let label = format!("stage=\"{stage}\"");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few nodes")]
        let of = |text: &str| sample(text, "gpu_rollout_nodes", &label).map(|value| value as usize);
        let (Some(before), Some(after)) = (of(before), of(after)) else { continue };
        let Some(told) = count(&answer.rollout()["totals"][key]) else { continue };
        if before != after {
            continue;
        }
        let differs = (told != after).then_some((after, told));
        judge.claim(
            "metrics",
            differs.is_none() || doubtful.get(stage) != differs.as_ref(),
            || format!("metrics count {after} nodes {stage}, and status {told}"),
        );
        doubts.extend(differs.map(|differs| (stage, differs)));
    }
}
