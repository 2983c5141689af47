//! Judges the nodes: those of which something has changed. What is known of the others is taken over.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::memory::RunMemory;
use crate::note::DecisionNote;
use crate::reason::{Reason, Wait};
use contract::record::{MOST_STEPS, NodeOutcome, RecordedStep};
use contract::settings::Settings;
use contract::task::Task;
use nvidia_upgrade::snapshot::Roll;
use nvidia_upgrade::state::ControllerState as VendorState;
use observed::named::Named;
use observed::{Observed, ObservedNode};

use super::replace::is_open;
use super::rest::{Driven, Rest, Standing};
use super::sweep::{Seen, Sweep};
use super::{Deciding, Decision, FleetInputs};

/// A node that is judged.
pub(super) struct Judged<'a> {
    /// Its place among those that the decision is about.
    pub(super) place: usize,
    pub(super) node: &'a ObservedNode,
    /// What it waits for apart from its upgrade, where the vendor's controller acts.
    left: Option<Arc<Reason>>,
    /// What it waits for; first without its upgrade, then with it.
    pub(super) reason: Option<Arc<Reason>>,
    /// When it has to be judged again though nothing has changed.
    pub(super) moment: Timestamp,
    pub(super) driven: Driven,
}

/// What was found of the nodes.
pub(super) struct Standings {
    all: Named<Standing>,
    /// Nodes with a plugin that is not back.
    open: BTreeSet<Arc<str>>,
    /// Nodes that have to be judged again in any case.
    restless: BTreeSet<Arc<str>>,
    /// What the vendor's controller sees of them.
    roll: Option<Roll>,
}

impl Deciding<'_> {
    /// Judges every node of the cohort; nodes that joined later are served but not waited for.
    pub(super) fn each_node(&mut self, sweep: &mut Sweep<'_>, fleet: &FleetInputs<'_>) -> Standings {
        self.outcomes = sweep.since.map(|since| since.last.outcomes.clone()).unwrap_or_default();
        let mut open = self.open(sweep);
        for name in self.gone(sweep).into_iter().chain(self.close_replacements(&mut open, fleet)) {
            sweep.wake(&name);
            self.restless.insert(name);
        }
        let is_member = |seen: &&Seen<'_>| seen.rest.map_or_else(|| self.is_member(seen.node), |standing| standing.is_member);
        let members = sweep.listed.iter().filter(is_member).count();
        let tolerated = self.settings.tolerate_not_ready.resolve(members).min(members.saturating_sub(1));
        let sweep = &*sweep;
        let mut judged: Vec<Judged<'_>> = Vec::new();
        for (place, seen) in sweep.listed.iter().enumerate().filter(|(_, seen)| seen.rest.is_none()) {
            self.moment = Timestamp::MAX;
            let reason = self.node(seen.node, fleet).map(Arc::new);
            judged.push(Judged { place, node: seen.node, left: None, reason, moment: self.moment, driven: Driven::default() });
        }
        let mut standings = sweep.since.map(|since| since.last.standings.clone()).unwrap_or_default();
        for name in sweep.since.iter().flat_map(|since| &since.changed).filter(|name| !self.observed.nodes.contains_key(name)) {
            standings.remove(name);
        }
        for (name, has_driver) in &sweep.others {
            standings.insert(Arc::clone(name), Standing::unlisted(*has_driver));
            self.has_no_outcome(name);
        }
        if self.settings.has(Task::Drive) {
            let turns = self.drive(sweep, &mut judged, fleet);
            self.ends_driven(sweep, &mut judged, &turns, tolerated);
        } else {
            self.ends_of_all(sweep, &mut judged, fleet, tolerated);
        }
        let own = |node: &ObservedNode| fleet.operands.as_ref().is_some_and(|operands| operands.has_own_driver(node));
        for one in judged {
            let seen = &sweep.listed[one.place];
            standings.insert(
                Arc::clone(seen.name),
                Standing {
                    has_driver: seen.has_driver,
                    listed: true,
                    is_member: self.is_member(one.node),
                    own_driver: own(one.node),
                    rests: !one.driven.in_progress,
                    moment: one.moment,
                    left: one.left,
                    reason: one.reason,
                    driven: one.driven,
                },
            );
        }
        self.note_unconfigured();
        let own = sweep.listed.iter().filter(|seen| seen.rest.map_or_else(|| own(seen.node), |standing| standing.own_driver)).count();
        if own > 0 {
            self.notes.push(DecisionNote::DriverOfImage { nodes: own });
        }
        let joined = sweep.listed.len() - members;
        if joined > 0 {
            self.notes.push(DecisionNote::NodesJoined { nodes: joined, device: self.settings.driver.traits().device });
        }
        Standings { all: standings, open, restless: std::mem::take(&mut self.restless), roll: self.roll.take() }
    }

    /// Nodes with a plugin that is not back, as it is remembered now.
    fn open(&self, sweep: &Sweep<'_>) -> BTreeSet<Arc<str>> {
        let Some(since) = sweep.since else {
            return self.memory.nodes.iter().filter(|(_, record)| is_open(record)).map(|(name, _)| Arc::clone(name)).collect();
        };
        let mut open = since.last.open.clone();
        for name in &since.changed {
            open.remove(*name);
            if self.memory.nodes.get(name).is_some_and(is_open) {
                open.insert(Arc::from(*name));
            }
        }
        open
    }

    /// How it stands with all nodes, where nodes are driven. What those at rest wait for is what they waited for; whoever waits for its turn
    /// may wait for something else now.
    fn ends_driven(&mut self, sweep: &Sweep<'_>, judged: &mut [Judged<'_>], turns: &[Option<Arc<Reason>>], tolerated: usize) {
        let mut not_ready = 0;
        let mut judged = judged.iter_mut().peekable();
        for (place, seen) in sweep.listed.iter().enumerate() {
            let turn = turns.get(place).and_then(Option::as_ref);
            let Some(standing) = seen.rest else {
                let Some(one) = judged.next_if(|one| one.place == place) else { continue };
                one.reason = turn.cloned().or_else(|| one.reason.take());
                self.moment = one.moment;
                (one.driven.outcome, one.driven.waits) = self.comes_to(seen, one.reason.as_ref(), &mut not_ready, tolerated);
                one.moment = self.moment;
                continue;
            };
            let known = standing.driven.waits;
            self.wake_at = self.wake_at.min(standing.moment);
            if let Some(reason) = turn
                && (standing.driven.outcome.is_some() || known.is_none_or(|(kind, _)| kind != reason.name()) || !standing.is_member)
            {
                self.judge_again(seen.node);
                self.comes_to(seen, Some(reason), &mut not_ready, tolerated);
                continue;
            }
            self.stays(seen, standing, turn);
        }
    }

    /// A node that waits as it did, or has ended as it had. `turn`: what it waits for, if that is not what it waited for.
    fn stays(&mut self, seen: &Seen<'_>, standing: &Standing, turn: Option<&Arc<Reason>>) {
        let Some((reason, (_, since))) = turn.or(standing.reason.as_ref()).zip(standing.driven.waits) else { return };
        let wait = Wait { node: Some(Arc::clone(seen.name)), reason: Arc::clone(reason), since };
        match standing.driven.outcome {
            None => self.waits.push(wait),
            Some(NodeOutcome::Failed) => self.failures.push(wait),
            Some(NodeOutcome::Deferred) => self.deferred.push(wait),
            Some(NodeOutcome::Done | NodeOutcome::Gone) => {}
        }
    }

    /// The same where the vendor's controller acts: what keeps a node there is looked at for all of them.
    fn ends_of_all(&mut self, sweep: &Sweep<'_>, judged: &mut [Judged<'_>], fleet: &FleetInputs<'_>, tolerated: usize) {
        for one in &mut *judged {
            one.left = one.reason.take();
        }
        let mut own = judged.iter().peekable();
        let left = |(place, seen): (usize, &Seen<'_>)| {
            let one = own.next_if(|one| one.place == place);
            one.map_or_else(|| seen.rest.and_then(|standing| standing.left.clone()), |one| one.left.clone())
        };
        let left: Vec<Option<Arc<Reason>>> = sweep.listed.iter().enumerate().map(left).collect();
        let reasons = if self.settings.has(Task::Steer) {
            self.steer(sweep, left, fleet)
        } else if self.settings.has(Task::Wake) {
            self.assist(sweep, left, fleet)
        } else {
            self.explained(sweep, left)
        };
        let or_refused = |(reason, seen): (Option<Arc<Reason>>, &Seen<'_>)| {
            let reason = reason?;
            Some(self.or_refused(seen.node, &reason).map_or(reason, Arc::new))
        };
        let reasons: Vec<Option<Arc<Reason>>> = reasons.into_iter().zip(&sweep.listed).map(or_refused).collect();
        let mut not_ready = 0;
        let mut own = judged.iter_mut().peekable();
        for (place, (seen, reason)) in sweep.listed.iter().zip(reasons).enumerate() {
            self.wake_at = seen.rest.map_or(self.wake_at, |standing| self.wake_at.min(standing.moment));
            match (seen.rest, own.next_if(|one| one.place == place)) {
                (Some(standing), _) if standing.comes_to_the_same(reason.as_ref()) => self.stays(seen, standing, reason.as_ref()),
                (_, None) => {
                    self.judge_again(seen.node);
                    self.comes_to(seen, reason.as_ref(), &mut not_ready, tolerated);
                }
                (_, Some(one)) => {
                    self.moment = one.moment;
                    (one.driven.outcome, one.driven.waits) = self.comes_to(seen, reason.as_ref(), &mut not_ready, tolerated);
                    one.moment = self.moment;
                    // Why it is not moved is told anew each time: kept, it would hold on to who was in its way at this moment.
                    one.reason = reason.map(|reason| if reason.asks_why() { Arc::new(reason.lasting()) } else { reason });
                }
            }
        }
    }

    /// What has become of a node, and since when it waits for what it waits for.
    fn comes_to(
        &mut self,
        seen: &Seen<'_>,
        reason: Option<&Arc<Reason>>,
        not_ready: &mut usize,
        tolerated: usize,
    ) -> (Option<NodeOutcome>, Option<(&'static str, Timestamp)>) {
        if !self.settings.mode.decides() && self.is_member(seen.node) {
            self.follow_state(seen.node);
        }
        let (outcome, waits) = if self.is_member(seen.node) {
            match reason {
                None => {
                    self.ends(seen.node, NodeOutcome::Done, None);
                    (Some(NodeOutcome::Done), None)
                }
                Some(reason) => {
                    let (outcome, since) = self.waits_or_ends(seen, reason, not_ready, tolerated);
                    (outcome, Some((reason.name(), since)))
                }
            }
        } else {
            (None, None)
        };
        if outcome.is_none() {
            self.has_no_outcome(seen.name);
        }
        (outcome, waits)
    }

    /// Notes the states through which the vendor's controller leads a node, from the moment on at which it has begun with it.
    fn follow_state(&mut self, node: &ObservedNode) {
        let label = node.labels.get(self.settings.driver.traits().state_label).map_or("", String::as_str);
        let record = self.memory.nodes.get(&node.name).filter(|record| record.uid == node.uid);
        let steps = record.map_or(&[][..], |record| &record.steps);
        let begun = !steps.is_empty() || VendorState::from_label(Some(label)).is_busy();
        let known = steps.last().is_some_and(|step| step.state == label);
        if label.is_empty() || !begun || known || steps.len() >= MOST_STEPS {
            return;
        }
        let step = RecordedStep { state: label.to_owned(), at: self.now };
        self.record(node, |record| record.steps.push(step));
    }

    /// Nothing has become of the node so far, unless it is a node that left.
    fn has_no_outcome(&mut self, name: &str) {
        if self.memory.nodes.get(name).is_none_or(|record| record.outcome != Some(NodeOutcome::Gone)) {
            self.outcomes.remove(name);
        }
    }

    /// Whether the run is about the node: it belongs to the cohort, or its upgrade is ours.
    fn is_member(&self, node: &ObservedNode) -> bool {
        let ours = node.annotations.contains_key(self.settings.driver.traits().own_record);
        let started = self.memory.patched.get(&node.name).is_some_and(|patched| patched.starts);
        self.memory.is_in_cohort(&node.uid) || ours || started
    }

    /// Nodes of the run that left the cluster; the answer: those of which that is news.
    fn gone(&mut self, sweep: &Sweep<'_>) -> Vec<Arc<str>> {
        let now = self.now;
        let names: Vec<Arc<str>> = match sweep.since {
            None => self.memory.nodes.keys().cloned().collect(),
            Some(since) => since.changed.iter().map(|name| Arc::from(*name)).collect(),
        };
        let mut news = Vec::new();
        for name in names {
            self.outcomes.remove(&name);
            let node = self.observed.nodes.get(&name);
            if node.is_none() {
                self.memory.waiting.remove(&name);
                self.memory.ready.remove(&name);
                self.memory.outdated.remove(&name);
            }
            let Some(record) = self.memory.nodes.get(&name) else { continue };
            let there = node.is_some_and(|node| node.uid == record.uid);
            if !there && record.outcome != Some(NodeOutcome::Gone) {
                if let Some(record) = self.memory.nodes.get_mut(&name) {
                    record.outcome = Some(NodeOutcome::Gone);
                    record.reason = None;
                    record.since = Some(now);
                    for replacement in record.replaced.values_mut() {
                        replacement.back_at.get_or_insert(now);
                    }
                }
                news.push(Arc::clone(&name));
            }
            if self.memory.nodes.get(&name).is_some_and(|record| record.outcome == Some(NodeOutcome::Gone)) {
                self.outcomes.insert(name, NodeOutcome::Gone);
            }
        }
        if sweep.since.is_none() {
            let nodes = &self.observed.nodes;
            self.memory.waiting.retain(|name, _| nodes.contains_key(name));
            self.memory.ready.retain(|name, _| nodes.contains_key(name));
            self.memory.outdated.retain(|name, _| nodes.contains_key(name));
        }
        news
    }
}

impl Standing {
    /// Whether the node, which is at rest, comes to what it came to. Why the vendor's controller does not move it is only told.
    fn comes_to_the_same(&self, reason: Option<&Arc<Reason>>) -> bool {
        match (reason, &self.reason) {
            (Some(reason), Some(before)) if reason.asks_why() => reason.name() == before.name(),
            (reason, before) => reason == before.as_ref(),
        }
    }

    fn unlisted(has_driver: bool) -> Self {
        Self {
            has_driver,
            listed: false,
            is_member: false,
            own_driver: false,
            rests: true,
            moment: Timestamp::MAX,
            left: None,
            reason: None,
            driven: Driven::default(),
        }
    }
}

impl Standings {
    /// What the next decision may take over: nothing of nodes for which something was done or written down.
    pub(super) fn rest(
        mut self,
        decision: &Decision,
        before: &RunMemory,
        (observed, settings, now): (&Observed, &Settings, Timestamp),
        restarts: bool,
    ) -> Rest {
        let after = &decision.memory;
        let mut names: BTreeSet<&str> = self.restless.iter().map(|name| &**name).collect();
        names.extend(before.differing(after));
        names.extend(decision.actions.iter().map(super::Action::node));
        // What was asked for and has not been seen is asked for again some time.
        names.extend(after.patched.keys().map(|name| &**name));
        names.extend(decision.focus.iter().map(String::as_str));
        for name in names {
            if self.all.get(name).is_some_and(|standing| standing.rests)
                && let Some(standing) = self.all.get_mut(name)
            {
                standing.rests = false;
            }
        }
        for name in before.nodes.differing(&after.nodes) {
            self.open.remove(name);
            if after.nodes.get(name).is_some_and(is_open) {
                self.open.insert(Arc::clone(name));
            }
        }
        let found = (self.all, decision.outcomes.clone(), self.open, restarts);
        Rest::of(&before.rest, settings, (observed, after, now), found, self.roll)
    }
}
