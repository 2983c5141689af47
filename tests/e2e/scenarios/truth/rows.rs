//! What must hold of the rows and totals of `status`, and of the row of `why`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::facts::{Facts, GpuNode};
use super::judge::{Answer, Judge, array, count, text, time};

/// Each stage, with its number in the totals.
pub(super) const STAGES: [(&str, &str); 6] = [
    ("done", "done"),
    ("in-progress", "inProgress"),
    ("pending", "pending"),
    ("failed", "failed"),
    ("unknown", "unknown"),
    ("deferred", "deferred"),
];

/// What a node waits for, in which state, since when.
type Wait = (String, String, Timestamp);

/// Since when nodes waited in the answer before.
#[derive(Default)]
pub(super) struct Waits(BTreeMap<String, Wait>);

impl Waits {
    /// A wait for one reason in one state starts once, and in the past.
    pub(super) fn since(&mut self, answer: &Answer, judge: &mut Judge) {
        for row in answer.rows() {
            let (node, waiting) = (text(&row["node"]).to_owned(), &row["waiting"]);
            let before = self.0.remove(&node);
            let Some(since) = time(&waiting["since"]["at"]) else { continue };
            let now = (text(&waiting["reason"]).to_owned(), text(&row["state"]).to_owned(), since);
            if let Some(before) = before.filter(|before| before.0 == now.0 && before.1 == now.1) {
                judge.claim("since-stays", since <= before.2, || {
                    format!("{node} waits since {}, and later since {since}: {waiting}", before.2)
                });
            }
            // `why` does not say when it looked.
            if let Some(at) = time(&answer.rollout()["at"]) {
                judge.claim("since-is-past", since <= at, || {
                    format!("{node} waits since {since}, which is after {at}: {waiting}")
                });
            }
            self.0.insert(node, now);
        }
    }
}

/// The claims about each row.
pub(super) fn rows(answer: &Answer, judge: &mut Judge) {
    for row in answer.rows() {
        done(answer, row, judge);
        cordon(answer, row, judge);
        driver(answer, row, judge);
        reason(row, judge);
        end(answer, row, judge);
    }
}

/// A fact about the node of a row; `None` also where there is no such node.
fn of_node<T: PartialEq>(answer: &Answer, row: &Value, of: impl Fn(&GpuNode) -> T) -> Option<T> {
    answer.fact(|facts| facts.nodes.get(text(&row["node"])).map(&of)).flatten()
}

/// A node that is called done has the driver, and takes workloads.
fn done(answer: &Answer, row: &Value, judge: &mut Judge) {
    let node = text(&row["node"]);
    let fact = |facts: &Facts| (facts.nodes.get(node).cloned(), facts.wanted.clone());
    let Some((Some(is), wanted)) = answer.fact(fact) else { return };
    if row["stage"] == "done" {
        judge.claim("done", is.is_done(wanted.as_deref()), || {
            format!("{node} is called done, {wanted:?} is wanted: {is:?}")
        });
    }
}

/// A cordon is shown exactly where one is.
fn cordon(answer: &Answer, row: &Value, judge: &mut Judge) {
    let Some(cordoned) = of_node(answer, row, |node| node.cordoned) else { return };
    judge.claim("cordoned", row["cordoned"] == cordoned, || {
        format!("{} is cordoned: {cordoned}, and the row says {}", row["node"], row["cordoned"])
    });
}

/// The driver that is shown is that of the node's pod.
fn driver(answer: &Answer, row: &Value, judge: &mut Judge) {
    let Some(pods) = of_node(answer, row, |node| node.drivers.clone()) else { return };
    let now = row["driverNow"].as_str();
    let holds = match now {
        Some(now) => pods.iter().any(|pod| pod.version == now),
        None => pods.is_empty(),
    };
    judge.claim("driver-now", holds, || format!("{} runs {now:?}: {pods:?}", row["node"]));
}

/// A node that is not done has a reason; one that was not assessed has that of the fleet.
fn reason(row: &Value, judge: &mut Judge) {
    let waiting = &row["waiting"];
    if row["stage"] != "done" {
        let told = !text(&waiting["reason"]).is_empty() && !text(&waiting["text"]).is_empty();
        judge.claim("reason", told, || {
            format!("{} is not done without a reason: {row}", row["node"])
        });
    }
    if row["stage"] == "unknown" {
        judge.claim("reason-of-fleet", waiting["wholeFleet"] == true, || {
            format!("{} was not assessed, and not because of the fleet: {row}", row["node"])
        });
    }
}

/// An end is expected only of a node that is Ready and moves.
fn end(answer: &Answer, row: &Value, judge: &mut Judge) {
    if row["end"].is_null() {
        return;
    }
    let waiting = &row["waiting"];
    let moves = (row["stage"] == "in-progress" || row["stage"] == "pending")
        && waiting["resolvesItself"] == true
        && array(&waiting["obstacles"]).all(|obstacle| obstacle["kind"] == "GracePeriod");
    judge.claim("end-moves", moves, || {
        format!("{} has an end and does not move: {row}", row["node"])
    });
    if let Some(ready) = of_node(answer, row, |node| node.ready) {
        judge.claim("end-ready", ready, || {
            format!("{} has an end and is not Ready: {row}", row["node"])
        });
    }
    if let Some(active) = answer.fact(Facts::is_hook_active) {
        judge.claim("end-active", active, || {
            format!("{} has an end without a hook: {row}", row["node"])
        });
    }
}

/// The numbers are those of the rows, and every node that needs the driver has one.
pub(super) fn totals(answer: &Answer, judge: &mut Judge) {
    let totals = &answer.rollout()["totals"];
    let rows = || answer.rows();
    judge.claim("totals", count(&totals["nodes"]) == Some(rows().count()), || {
        format!("{} rows, and {totals}", rows().count())
    });
    for (stage, key) in STAGES {
        let of_stage = rows().filter(|row| row["stage"] == stage).count();
        judge.claim("totals", count(&totals[key]) == Some(of_stage), || {
            format!("{of_stage} rows are {stage}, and {totals}")
        });
    }
    let shown: BTreeSet<String> = rows().map(|row| text(&row["node"]).to_owned()).collect();
    if let Some(all) = answer.fact(|facts| facts.names(|_| true)) {
        judge.claim("rows", shown == all, || format!("rows of {shown:?}, nodes {all:?}"));
    }
    let away = |facts: &Facts| facts.names(|node| node.cordoned || !node.ready);
    if let Some(away) = answer.fact(away) {
        judge.claim(
            "unavailable",
            count(&totals["unavailable"]["used"]) == Some(away.len()),
            || format!("{away:?} are cordoned or not Ready, and {totals}"),
        );
    }
}

/// While the whole fleet waits, each node that was not assessed names that wait, and no end is expected.
pub(super) fn fleet(answer: &Answer, judge: &mut Judge) {
    let rollout = answer.rollout();
    let reasons: Vec<&Value> = array(&rollout["fleet"]).map(|wait| &wait["reason"]).collect();
    for row in answer.rows().filter(|row| row["stage"] == "unknown") {
        judge.claim("fleet-reason", reasons.contains(&&row["waiting"]["reason"]), || {
            format!("{} was not assessed, and the fleet waits for {reasons:?}: {row}", row["node"])
        });
    }
    if !reasons.is_empty() {
        let ends = answer.rows().any(|row| !row["end"].is_null());
        judge.claim("fleet-no-end", !ends && rollout["totals"]["end"].is_null(), || {
            format!("an end is expected while the fleet waits for {reasons:?}: {rollout}")
        });
    }
}

/// The rollout has an end, or a reason why none is known, exactly while nodes are left.
pub(super) fn eta(answer: &Answer, judge: &mut Judge) {
    let totals = &answer.rollout()["totals"];
    let left: usize =
        ["inProgress", "pending", "unknown"].iter().filter_map(|key| count(&totals[*key])).sum();
    let no_eta = &totals["noEta"];
    let is_told = totals["end"].is_null() == no_eta.is_object()
        && (no_eta.is_null()
            || !text(&no_eta["reason"]).is_empty() && !text(&no_eta["text"]).is_empty());
    let is_silent = totals["end"].is_null() && no_eta.is_null();
    judge.claim("eta", if left > 0 { is_told } else { is_silent }, || {
        format!("{left} nodes are left, and {totals}")
    });
    let ends =
        |stage: &str| answer.rows().any(|row| row["stage"] == stage && !row["end"].is_null());
    let slots = &totals["slots"];
    let is_free = count(&slots["limit"]).is_none_or(|limit| count(&slots["used"]) < Some(limit));
    if ends("pending") {
        judge.claim("end-behind", is_free || ends("in-progress"), || {
            format!(
                "pending nodes have an end, and nothing before them moves: {}",
                answer.rollout()
            )
        });
    }
}
