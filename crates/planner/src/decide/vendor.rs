//! What the vendor's controller would do now, and why it does not move the nodes. What is seen of the nodes is kept from one decision to the
//! next ([`Roll`]); where nothing is kept all of them are looked at, and that comes to the same.

use std::collections::{BTreeMap, btree_map};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter::Peekable;
use std::sync::Arc;

use jiff::Timestamp;

use crate::reason::Reason;
use crate::spec::fingerprint;
use contract::driver::{Driver, DriverTraits};
use nvidia_upgrade::explain::{ControllerWait, looked_through};
use nvidia_upgrade::generation::ControllerGeneration;
use nvidia_upgrade::operator::{PartialPass, policies, work};
use nvidia_upgrade::pass::PassOptions;
use nvidia_upgrade::predict::PredictedMove;
use nvidia_upgrade::rules::PolicyRules;
use nvidia_upgrade::snapshot::{Roll, SnapshotInputs};
use nvidia_upgrade::state::ControllerState;
use observed::ObservedNode;

use super::Deciding;
use super::rest::Since;

/// What the controller would do in all of its passes, and what nodes wait for.
#[derive(Default)]
pub(super) struct ControllerOutlook<'r> {
    /// What it would move now.
    pub(super) moves: Vec<PredictedMove>,
    /// What nodes wait for that it was looked at one by one, by name.
    own: BTreeMap<String, ControllerWait>,
    /// Nodes that wait for a slot and nothing else, in the order of their names, each with its place in `common`.
    line: Vec<(&'r str, usize)>,
    /// What those wait for.
    common: Vec<ControllerWait>,
    /// What every node waits for, where the controller is switched off by what the fleet is for.
    off: Option<ControllerWait>,
}

/// Puts into reasons why the controller does not move the nodes. The nodes have to come in the order of their names.
pub(super) struct ControllerReasons<'o> {
    own: Peekable<btree_map::Iter<'o, String, ControllerWait>>,
    line: Peekable<std::slice::Iter<'o, (&'o str, usize)>>,
    common: &'o [ControllerWait],
    off: Option<&'o ControllerWait>,
    /// What the last node of the line waited for, first without why: the next one mostly waits for the same.
    last: Option<(usize, Arc<Reason>, Arc<Reason>)>,
}

impl ControllerOutlook<'_> {
    pub(super) fn whys(&self) -> ControllerReasons<'_> {
        let (own, line) = (self.own.iter().peekable(), self.line.iter().peekable());
        ControllerReasons { own, line, common: &self.common, off: self.off.as_ref(), last: None }
    }
}

impl ControllerReasons<'_> {
    /// What the node waits for, with why the controller does not move it.
    pub(super) fn with_why(&mut self, node: &str, reason: Option<Arc<Reason>>) -> Option<Arc<Reason>> {
        while self.own.next_if(|(name, _)| name.as_str() < node).is_some() {}
        while self.line.next_if(|(name, _)| *name < node).is_some() {}
        let own = self.own.next_if(|(name, _)| *name == node).map(|(_, wait)| wait).or(self.off);
        let line = self.line.next_if(|(name, _)| *name == node).map(|(_, place)| *place);
        let reason = reason?;
        if !reason.asks_why() {
            return Some(reason);
        }
        let Some(place) = line.filter(|_| own.is_none()) else {
            return Some(own.map_or_else(|| Arc::clone(&reason), |wait| Arc::new(Reason::clone(&reason).with_why(Some(wait)))));
        };
        if let Some((known, without, with)) = &self.last
            && *known == place
            && *without == reason
        {
            return Some(Arc::clone(with));
        }
        let with = Arc::new(Reason::clone(&reason).with_why(self.common.get(place)));
        self.last = Some((place, reason, Arc::clone(&with)));
        Some(with)
    }
}

impl Deciding<'_> {
    pub(super) fn generation(&self) -> Option<ControllerGeneration> {
        let version = self.observed.operator.as_ref().and_then(|operator| operator.version.as_deref());
        ControllerGeneration::from_version(self.settings.driver, version)
    }

    /// What the controller sees of the nodes.
    pub(super) fn roll(&mut self, since: Option<&Since<'_>>) -> Roll {
        let inputs = SnapshotInputs::from_observed(self.observed, self.settings.driver);
        let kept = since.and_then(|since| Some((since.last.roll.clone()?, &since.changed)));
        let roll = if let Some((mut roll, changed)) = kept {
            roll.look_again(self.observed, &inputs, changed.iter().copied());
            roll
        } else {
            Roll::new(self.observed, &inputs)
        };
        self.roll = Some(roll.clone());
        roll
    }

    /// What the controller would do now, and what the nodes that it would not move wait for. Where nothing was kept, `roll` is not relied
    /// upon either.
    pub(super) fn vendor<'r>(
        &mut self,
        generation: ControllerGeneration,
        since: Option<&Since<'_>>,
        roll: &'r Roll,
    ) -> ControllerOutlook<'r>
    where
        Self: 'r,
    {
        let asleep_since = self.asleep_since(since);
        let (observed, driver) = (self.observed, self.settings.driver);
        let parts: Vec<PartialPass<'_>> = if since.is_some_and(|since| since.last.roll.is_some()) {
            let inputs = SnapshotInputs::from_observed(observed, driver);
            let part = |(owner, rules): (_, PolicyRules)| {
                let snapshot = roll.snapshot(observed, &inputs, owner, &rules.policy);
                PartialPass { owner, snapshot, rules, cleaned: Vec::new() }
            };
            policies(observed, driver, generation).into_iter().map(part).collect()
        } else {
            work(observed, driver, generation, None).parts.into_iter().filter(|part| part.rules.auto_upgrade).collect()
        };
        let is_sandboxed = observed.cluster_policy.served().and_then(Option::as_ref).is_some_and(|policy| policy.sandbox_workloads);
        let off = (parts.is_empty() && driver == Driver::Gpu && is_sandboxed).then_some(ControllerWait::SandboxWorkloads);
        let mut outlook = ControllerOutlook { off, ..ControllerOutlook::default() };
        for part in parts {
            let options = PassOptions::new(generation, self.now).seen_from_outside(&part.snapshot);
            // Where the jobs are not watched, nobody can tell whether they have ended.
            let blind = part.rules.policy.wait_for_completion.is_some();
            let may = |one: &PredictedMove| !(blind && one.from == ControllerState::WaitForJobsRequired);
            let looked = looked_through(&part.snapshot, &part.rules, &options, Some(asleep_since));
            outlook.moves.extend(looked.moves.into_iter().filter(may));
            outlook.own.extend(looked.waits.into_iter().map(|waiting| (waiting.node, waiting.wait)));
            if let Some(wait) = looked.in_line {
                let place = outlook.common.len();
                outlook.line.extend(part.snapshot.quiet.line.into_iter().map(|name| (name, place)));
                outlook.common.push(wait);
            }
        }
        outlook.line.sort_unstable();
        outlook
    }

    /// Since when nothing has happened that every release watches.
    fn asleep_since(&mut self, since: Option<&Since<'_>>) -> Timestamp {
        let traits = self.settings.driver.traits();
        let kept = since.zip(self.memory.vendor_seen);
        let seen = kept.map_or_else(
            || self.observed.nodes.values().map(|node| mark(Some(node), traits)).fold(self.fleet_mark(), u64::wrapping_add),
            |(since, (before, _))| {
                since.changed.iter().fold(before, |sum, name| {
                    let (old, new) = (since.before(name), self.observed.nodes.get(name));
                    sum.wrapping_sub(mark(old, traits)).wrapping_add(mark(new, traits))
                })
            },
        );
        match self.memory.vendor_seen {
            Some((before, since)) if before == seen => since,
            Some(_) | None => {
                self.memory.vendor_seen = Some((seen, self.now));
                self.now
            }
        }
    }

    /// A hash over what every release watches of the fleet as a whole.
    fn fleet_mark(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        fingerprint(self.observed).hash(&mut hasher);
        for daemon_set in &self.observed.daemon_sets {
            (&daemon_set.uid, &daemon_set.images, &daemon_set.template_labels, &daemon_set.config_digest).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// A hash over what every release watches of a node. The sum of all is one over all nodes, of which one can be taken away.
fn mark(node: Option<&ObservedNode>, traits: &DriverTraits) -> u64 {
    let Some(node) = node else { return 0 };
    let mut hasher = DefaultHasher::new();
    (&node.name, &node.uid, node.labels.get(traits.state_label), node.labels.get(traits.skip_label)).hash(&mut hasher);
    hasher.finish()
}
