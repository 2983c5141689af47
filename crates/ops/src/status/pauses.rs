//! The pauses in a status, and when they end.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::count::with_noun;
use contract::settings::Mode;
use observed::Observed;
use observed::pause::{ObservedPause, annotated_nodes, pauses_in_force};
use planner::pods::listed;
use planner::reason::PAUSED;

use super::headline::nodes_wait;
use super::safe_wait::WaitAnswer;
use super::{BlockingCondition, NodeRow, NodeStage, RolloutStatus};

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseStatus {
    /// Who paused.
    pub by: String,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Label selector of the paused nodes; absent, with `nodes` absent too: all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The paused nodes, if the pause is the annotation `gpu-rollout.dev/pause`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// When the pause was set; absent: unknown, as an annotation has no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// When the pause ends by itself; absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl PauseStatus {
    fn from_pause(pause: &ObservedPause) -> Self {
        let ObservedPause { key: _, selector, by, reason, at, until } = pause.clone();
        let selector = selector.map(|selector| selector.to_string());
        Self { by, reason, selector, nodes: Vec::new(), at, until }
    }

    /// Returns all pauses of a cluster that have not ended. Nodes whose annotations have the same
    /// reason and the same end are one pause.
    pub(super) fn all(observed: &Observed, now: Timestamp) -> Vec<Self> {
        let mut pauses: Vec<Self> = pauses_in_force(observed, now).map(Self::from_pause).collect();
        let mut annotated: BTreeMap<(Option<String>, Option<Timestamp>), Self> = BTreeMap::new();
        for (node, pause) in annotated_nodes(observed, now) {
            let known = annotated.entry((pause.reason.clone(), pause.until));
            let known = known.or_insert_with(|| Self::from_pause(&pause));
            known.nodes.push(node.name.clone());
        }
        pauses.extend(annotated.into_values());
        pauses
    }
}

/// When the pauses of a rollout end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseEnd {
    /// One of them has no end: it lasts until a user ends it.
    Never,
    /// The last one ends at this time, and then there is time left in the run, if there is a run.
    InTime(Timestamp),
    /// The last one ends at this time, too late for a node that starts then in the run.
    TooLate(Timestamp),
}

impl PauseEnd {
    /// Returns the time at which the last pause ends; `None`: one has no end.
    fn at(self) -> Option<Timestamp> {
        match self {
            Self::Never => None,
            Self::InTime(at) | Self::TooLate(at) => Some(at),
        }
    }
}

impl RolloutStatus {
    fn paused_rows(&self) -> impl Iterator<Item = (&NodeRow, &BlockingCondition)> {
        let rows = self.nodes.iter().filter_map(|row| Some((row, row.waiting.as_ref()?)));
        rows.filter(|(_, waiting)| waiting.reason == PAUSED)
    }

    /// Returns when the pauses end for which nodes wait, or all pauses if no node waits for one.
    /// `None`: nothing is paused.
    pub fn pause_end(&self) -> Option<PauseEnd> {
        let of_nodes: Vec<Option<Timestamp>> =
            self.paused_rows().map(|(_, waiting)| waiting.until).collect();
        let of_pauses = self.pauses.iter().map(|pause| pause.until);
        let ends = if of_nodes.is_empty() { of_pauses.collect() } else { of_nodes };
        let last = ends.iter().copied().max()?;
        if ends.contains(&None) {
            return Some(PauseEnd::Never);
        }
        let until = last?;
        let deadline = self.run.as_ref().and_then(|run| run.deadline);
        let is_late = |(_, waiting): (&NodeRow, &BlockingCondition)| !waiting.resolves_itself;
        if self.paused_rows().any(is_late) || deadline.is_some_and(|deadline| until >= deadline) {
            Some(PauseEnd::TooLate(until))
        } else {
            Some(PauseEnd::InTime(until))
        }
    }

    /// Returns whether a pause lasts until a user ends it: a hook that starts during it starts no
    /// upgrade, however long it waits.
    pub(super) fn is_paused_without_end(&self) -> bool {
        self.pause_end() == Some(PauseEnd::Never)
    }

    /// Describes the nodes that wait for the end of a pause.
    pub(super) fn paused_nodes(&self) -> Option<String> {
        let paused = self.paused_rows().count();
        let wait = nodes_wait(paused);
        let at = self.pause_end().and_then(PauseEnd::at);
        let at = at.map(|at| format!(" at {at:.0}")).unwrap_or_default();
        let others = match self.totals.in_progress.saturating_sub(self.stopped_nodes().len()) {
            0 => String::new(),
            count => format!("; {} in progress", with_noun(count, "node")),
        };
        (paused > 0).then(|| format!("{wait} for the end of a pause{at}{others}"))
    }

    /// Returns the nodes whose upgrade has started, and does not continue during a pause.
    pub fn stopped_nodes(&self) -> Vec<String> {
        let stopped = self.paused_rows().filter(|(row, _)| row.stage == NodeStage::InProgress);
        stopped.map(|(row, _)| row.node.clone()).collect()
    }

    /// Returns whether waiting does no harm while nodes wait for the end of a pause.
    pub(super) fn wait_for_pause(&self) -> WaitAnswer {
        let limit = self.time_limit();
        let end = self.pause_end();
        let safe = match end {
            None => limit,
            Some(PauseEnd::Never) => self.next_run().unwrap_or(limit),
            Some(PauseEnd::TooLate(at)) if self.has_job() => {
                format!("{limit}: the pause ends at {at:.0}, so the run fails first")
            }
            Some(PauseEnd::InTime(at)) if !self.is_continued_by_user() => {
                format!("until the pause ends at {at:.0}, before the time limit of the run")
            }
            Some(PauseEnd::InTime(at) | PauseEnd::TooLate(at)) => match self.next_run() {
                Some(next) if self.mode != Mode::Observe.name() => {
                    format!("{next}; the next run waits until the pause ends at {at:.0}")
                }
                Some(_) | None => {
                    format!("until the pause ends at {at:.0}; then {}", self.after_pause())
                }
            },
        };
        let answer = self.with_held_run(self.harm_of_waiting(&safe));
        match (answer, end.and_then(PauseEnd::at)) {
            (WaitAnswer::Safe(safe), Some(at)) => {
                let out = self.paused_out_of_service();
                match out.len() {
                    0 => WaitAnswer::Safe(safe),
                    1 => WaitAnswer::Unsafe(format!(
                        "{} is out of service, and its upgrade continues only when the pause ends at {at:.0}",
                        out[0]
                    )),
                    _ => WaitAnswer::Unsafe(format!(
                        "{} are out of service, and their upgrades continue only when the pause ends at {at:.0}",
                        listed(&out)
                    )),
                }
            }
            (answer, _) => answer,
        }
    }

    /// Returns the nodes that are paused in the middle of their upgrade.
    fn paused_out_of_service(&self) -> Vec<String> {
        let out = self.paused_rows().filter(|(row, _)| row.is_paused_out_of_service());
        out.map(|(row, _)| row.node.clone()).collect()
    }

    /// Returns whether nothing continues by itself when a pause ends: no hook Job is running, or
    /// the hook releases no holds in its mode.
    fn is_continued_by_user(&self) -> bool {
        !self.has_job() || self.mode == Mode::Observe.name()
    }

    /// Returns what a user must do when a pause ends, if nothing continues by itself.
    fn after_pause(&self) -> &'static str {
        if self.release.is_none() || self.mode == Mode::Observe.name() {
            "run gpu-rollout resume, which releases the nodes that the pause holds"
        } else {
            "deploy the bundle again, because no hook Job is running"
        }
    }
}

impl NodeRow {
    /// Returns whether a pause keeps the node out of service, in the middle of its upgrade.
    pub(crate) fn is_paused_out_of_service(&self) -> bool {
        let is_paused = self.waiting.as_ref().is_some_and(|waiting| waiting.reason == PAUSED);
        is_paused && self.stage == NodeStage::InProgress && (self.cordoned || !self.driver_ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_with_the_same_reason_and_end_are_one_pause() {
        let now: Timestamp = "2027-01-01T00:00:00Z".parse().expect("a valid time");
        let mut observed = Observed::default();
        for (name, value) in [
            ("gpu-0", "INC-7"),
            ("gpu-1", "until 2027-01-04T06:00:00Z: INC-7"),
            ("gpu-2", "until 2027-01-04T07:00[Europe/Berlin]: INC-7"),
            ("gpu-3", "INC-7"),
            ("gpu-4", "until 2026-12-31T23:59:59Z: INC-7"),
        ] {
            let annotations = [(contract::pause::ANNOTATION.to_owned(), value.to_owned())];
            let node = observed::ObservedNode {
                name: name.to_owned(),
                annotations: annotations.into_iter().collect(),
                ..observed::ObservedNode::default()
            };
            observed.nodes.insert(name, node);
        }
        let ended = r#"{"by":"ada","at":"2026-01-01T00:00:00Z","until":"2027-01-01T00:00:00Z"}"#;
        observed.pauses = vec![ObservedPause::read("fleet", ended)];
        let pauses: Vec<(Vec<String>, Option<String>)> = PauseStatus::all(&observed, now)
            .into_iter()
            .map(|pause| (pause.nodes, pause.until.map(|until| until.to_string())))
            .collect();
        let names = |nodes: [&str; 2]| nodes.map(str::to_owned).to_vec();
        assert_eq!(
            pauses,
            [
                (names(["gpu-0", "gpu-3"]), None),
                (names(["gpu-1", "gpu-2"]), Some("2027-01-04T06:00:00Z".to_owned())),
            ]
        );
    }
}
