//! The possible next events, and the invariants that must hold after them.

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::record::NodeOutcome;
use observed::Observed;
use planner::action::NodePatch;
use planner::decide::{Action, Decision, Planner};
use planner::drive_upgrade::record::UpgradeRecord;
use planner::memory::RunMemory;
use planner::pods::eviction_retry::{EvictionHistory, EvictionReply};

use super::event::Event;
use super::key::STEP;
use super::world::{
    DriverPod, Host, Model, Plugin, Start, TestPod, World, index, name, now, policy, test_uid,
};

fn record(host: &Host) -> Option<UpgradeRecord> {
    serde_json::from_str(host.record.as_ref()?).ok()
}

impl World {
    /// Returns all events that are possible now.
    pub(super) fn events(&self, model: &Model) -> Vec<Event> {
        let mut events = Vec::new();
        if self.over {
            return events;
        }
        let roams = model.pod && self.hosts.iter().flatten().all(|host| host.pod.is_none());
        for (at, host) in self.hosts.iter().enumerate() {
            if self.seen[at] != *host {
                events.push(Event::Told(at));
            }
            let Some(host) = host else { continue };
            let mut may = |possible: bool, event: Event| events.extend(possible.then_some(event));
            may(!host.ready, Event::Ready(at));
            may(host.cordoned && !host.ours && self.hosts.len() > 1, Event::LetGo(at));
            let driver = host.driver;
            may(host.ready && driver.is_some_and(|driver| driver.deleting), Event::DriverGone(at));
            may(driver.is_none(), Event::DriverComes(at));
            let starts = driver.filter(|driver| !driver.deleting && driver.start != Start::Ready);
            may(host.ready && starts.is_some(), Event::DriverReady(at));
            let runs =
                driver.is_some_and(|driver| driver.start == Start::Ready && !driver.deleting);
            may(host.ready && runs && !host.validator, Event::Validated(at));
            may(
                host.ready && host.plugin.is_some_and(|plugin| plugin.deleting),
                Event::PluginGone(at),
            );
            may(host.ready && runs && host.plugin.is_none(), Event::PluginBack(at));
            may(host.ready && host.pod.is_some_and(|(_, leaving)| leaving), Event::PodGone(at));
            may(roams && host.ready && !host.cordoned, Event::PodComes(at));
            let runs_test = |test: &TestPod| test.passed.is_none() && !test.deleting;
            let is_tested = host.ready && host.test.as_ref().is_some_and(runs_test);
            may(is_tested, Event::TestPasses(at));
            let leaves = host.test.as_ref().is_some_and(|test| test.deleting);
            may(host.ready && leaves, Event::TestGone(at));
            if self.faults > 0 {
                may(is_tested, Event::TestFails(at));
                may(
                    starts.is_some_and(|driver| driver.start == Start::Starting),
                    Event::DriverFails(at),
                );
                may(host.ready, Event::NotReady(at));
                may(true, Event::Leaves(at));
                may(!host.cordoned, Event::Cordon(at));
                may(host.cordoned, Event::Uncordon(at));
                may(host.label.is_some(), Event::LabelRemoved(at));
                may(host.record.is_some(), Event::RecordRemoved(at));
            }
            may(self.actions.iter().any(|action| index(action.node()) == at), Event::Acts(at));
        }
        // An action on a node that has left has no effect.
        let gone = |at: &usize| {
            self.hosts[*at].is_none()
                && self.actions.iter().any(|action| index(action.node()) == *at)
        };
        events.extend((0..self.hosts.len()).filter(gone).map(Event::Acts));
        if self.alive {
            if self.dirty && self.actions.is_empty() {
                events.push(Event::Decides);
            }
            if self.faults > 0 {
                events.push(Event::Killed);
            }
        } else {
            events.push(Event::HookStarts);
        }
        // A call takes less than ten seconds, and the loop decides when something has changed.
        if self.actions.is_empty() && !(self.alive && self.dirty) {
            events.push(Event::TimeGoesOn);
        }
        events
    }

    fn host(&mut self, at: usize) -> &mut Host {
        self.hosts[at].as_mut().expect("events are about nodes that are there")
    }

    fn change_node(&mut self, at: usize, change: impl FnOnce(&mut Host)) {
        let host = self.host(at);
        change(host);
        host.version += 1;
    }

    /// Applies an event. A violated invariant is an error.
    pub(super) fn happens(
        &mut self,
        event: Event,
        model: &Model,
        decide: &mut dyn FnMut(&mut Planner, &Observed, &RunMemory) -> Decision,
    ) -> Result<(), String> {
        self.faults -= u8::from(event.is_fault());
        let before = (!self.actions.is_empty()).then(|| self.hosts.clone());
        match event {
            Event::DriverGone(at) => self.host(at).driver = None,
            Event::DriverComes(at) => {
                let host = self.host(at);
                // With one attempt and one template there is one replacement, so a second deletion
                // is wrong.
                host.driver = Some(DriverPod {
                    number: 1,
                    new: true,
                    start: Start::Starting,
                    deleting: false,
                });
                host.validator = false;
                if let Some(plugin) = &mut host.plugin {
                    plugin.fresh = false;
                }
            }
            Event::DriverReady(at) => {
                self.host(at).driver.as_mut().expect("it starts").start = Start::Ready;
            }
            Event::DriverFails(at) => {
                self.host(at).driver.as_mut().expect("it starts").start = Start::Failing;
            }
            Event::Validated(at) => self.host(at).validator = true,
            Event::PluginGone(at) => self.host(at).plugin = None,
            Event::PluginBack(at) => {
                let number = u8::try_from(self.host(at).replaced.len()).expect("few") + 1;
                self.host(at).plugin = Some(Plugin { number, fresh: true, deleting: false });
            }
            Event::PodGone(at) => self.host(at).pod = None,
            Event::TestPasses(at) | Event::TestFails(at) => {
                let host = self.host(at);
                let test = host.test.as_mut().expect("it runs");
                test.passed = Some(!event.is_fault());
                host.tested.retain(|driver| *driver != test.driver);
                host.tested.extend((!event.is_fault()).then_some(test.driver));
            }
            Event::TestGone(at) => self.host(at).test = None,
            Event::PodComes(at) => {
                // The pod's name is unknown on all nodes.
                let known = |number: u8| {
                    self.seen.iter().flatten().any(|host| host.pod.is_some_and(|(seen, _)| seen == number))
                        || self
                            .actions
                            .iter()
                            .any(|action| matches!(action, Action::Evict(eviction) if eviction.uid == format!("pod-{number}")))
                };
                let number = (0..8).find(|number| !known(*number)).expect("few pods");
                self.memory.evictions.remove(&format!("pod-{number}"));
                self.host(at).pod = Some((number, false));
            }
            Event::NotReady(at) => {
                self.change_node(at, |host| (host.ready, host.down) = (false, 0));
            }
            Event::Ready(at) => self.change_node(at, |host| (host.ready, host.down) = (true, 0)),
            Event::Leaves(at) => self.hosts[at] = None,
            Event::Cordon(at) => self.change_node(at, |host| {
                (host.cordoned, host.ours) =
                    (true, record(host).is_some_and(|record| record.cordoned));
            }),
            Event::Uncordon(at) | Event::LetGo(at) => {
                self.change_node(at, |host| (host.cordoned, host.ours) = (false, false));
            }
            Event::LabelRemoved(at) => self.change_node(at, |host| host.label = None),
            Event::RecordRemoved(at) => {
                self.change_node(at, |host| (host.record, host.ours) = (None, false));
            }
            Event::Told(at) => {
                self.seen[at].clone_from(&self.hosts[at]);
                self.dirty = true;
            }
            Event::Killed => {
                self.alive = false;
                self.actions.clear();
            }
            Event::HookStarts => {
                let nodes = std::mem::take(&mut self.memory.nodes);
                let (cohort, baseline) = (self.memory.cohort.take(), self.memory.baseline.take());
                self.memory = RunMemory {
                    nodes,
                    cohort,
                    baseline,
                    ..RunMemory::new(self.memory.started_at, self.memory.deadline)
                };
                self.planner = Planner::default();
                (self.alive, self.dirty) = (true, true);
                self.seen.clone_from(&self.hosts);
            }
            Event::TimeGoesOn => {
                self.ages(STEP);
                self.dirty = true;
            }
            Event::Decides => self.decides(decide)?,
            Event::Acts(at) => self.acts(at, model)?,
        }
        if let Some(before) = before.filter(|_| !matches!(event, Event::Acts(_))) {
            for (stale, (before, after)) in
                self.stale.iter_mut().zip(before.iter().zip(&self.hosts))
            {
                *stale |= before != after;
            }
        }
        if self.actions.is_empty() {
            self.stale.fill(false);
        }
        if !model.lag && self.alive && self.seen != self.hosts {
            self.seen.clone_from(&self.hosts);
            self.dirty = true;
        }
        self.ages(0);
        Ok(())
    }

    fn decides(
        &mut self,
        decide: &mut dyn FnMut(&mut Planner, &Observed, &RunMemory) -> Decision,
    ) -> Result<(), String> {
        let mut observed = self.observed();
        crate::operator::is_quiet(&mut observed, &mut self.memory, now());
        let decision = decide(&mut self.planner, &observed, &self.memory);
        self.dirty = decision.wake_at <= now();
        if decision.verdict.is_none() && decision.waits.iter().all(|wait| wait.node.is_some()) {
            let known = |node: &str| {
                decision.outcomes.contains_key(node)
                    || decision.waits.iter().any(|wait| wait.node.as_deref() == Some(node))
            };
            if let Some(node) = observed.nodes.keys().find(|node| !known(node)) {
                return Err(format!("{node} does not move, and no reason is reported"));
            }
        }
        if let Some(verdict) = &decision.verdict {
            self.over = true;
            if verdict.code == ExitCode::Budget {
                return Err("there is time, and the run ends for want of it".to_owned());
            }
            return self.is_clean(&decision);
        }
        if self.dirty && decision.actions.is_empty() && decision.memory == self.memory {
            return Err("the engine asks to decide again at once, and nothing changes".to_owned());
        }
        self.memory = decision.memory;
        self.actions = decision.actions;
        self.stale = self
            .hosts
            .iter()
            .zip(&self.seen)
            .map(|(host, seen)| host != seen && !self.actions.is_empty())
            .collect();
        Ok(())
    }

    /// Checks at the end of the run that nothing is left on done nodes.
    fn is_clean(&self, decision: &Decision) -> Result<(), String> {
        for (at, host) in self.hosts.iter().enumerate() {
            let Some(host) = host.as_ref().filter(|host| self.seen[at].as_ref() == Some(host))
            else {
                continue;
            };
            let done = decision
                .outcomes
                .get(&name(at))
                .is_none_or(|outcome| *outcome == NodeOutcome::Done);
            // The loop also performs the actions of its last decision.
            let is_deleted = |test: &TestPod| {
                test.deleting
                    || decision.actions.iter().any(|action| {
                        matches!(action, Action::DeleteAcceptancePod(deletion) if deletion.uid == test_uid(&test.name))
                    })
            };
            if !host.test.as_ref().is_none_or(is_deleted) {
                return Err(format!("{}: the pod of its test outlives the run", name(at)));
            }
            if done && (host.ours || host.label.is_some() || host.record.is_some()) {
                return Err(format!("{} is done, and something of ours is left on it", name(at)));
            }
            if done && !host.driver.is_some_and(|driver| driver.new && driver.start == Start::Ready)
            {
                return Err(format!("{} is done, and its driver is not the newest", name(at)));
            }
        }
        Ok(())
    }

    fn acts(&mut self, at: usize, model: &Model) -> Result<(), String> {
        let place =
            self.actions.iter().position(|action| index(action.node()) == at).expect("it has one");
        let action = self.actions.remove(place);
        let known = !self.stale[at];
        if self.hosts[at].is_none() {
            self.actions.retain(|action| index(action.node()) != at);
            return Ok(());
        }
        let node = name(at);
        let host = self.host(at);
        match action {
            Action::PatchNode(patch) => {
                if patch.version != host.version.to_string() {
                    self.actions.retain(|action| index(action.node()) != at);
                    return Ok(());
                }
                return self.patched(at, &patch, model);
            }
            Action::Evict(eviction) => {
                if !host.cordoned && known {
                    return Err(format!("{node}: a pod is evicted, and the node takes new ones"));
                }
                let Some((number, leaving)) =
                    host.pod.as_mut().filter(|(number, _)| eviction.uid == format!("pod-{number}"))
                else {
                    return Ok(());
                };
                *leaving = true;
                let uid = format!("pod-{number}");
                let history = EvictionHistory::after(
                    self.memory.evictions.get(&uid),
                    now(),
                    EvictionReply::Accepted,
                );
                self.memory.evictions.insert(uid, history);
            }
            Action::DeleteDriver(deletion) => {
                let Some(driver) = host
                    .driver
                    .as_mut()
                    .filter(|driver| deletion.uid == format!("driver-{at}-{}", driver.number))
                else {
                    return Ok(());
                };
                if driver.new && !driver.deleting && known {
                    return Err(format!("{node}: its driver is in sync, and is deleted"));
                }
                driver.deleting = true;
                if known && host.pod.is_some() {
                    return Err(format!("{node}: its driver is deleted while a pod uses the GPU"));
                }
                if known && !host.cordoned {
                    return Err(format!(
                        "{node}: its driver is deleted while the node takes new pods"
                    ));
                }
            }
            Action::ReplacePlugin { uid, .. } => {
                let driver = host.driver.map_or(0, |driver| driver.number);
                let Some(plugin) = host
                    .plugin
                    .as_mut()
                    .filter(|plugin| uid == format!("plugin-{at}-{}", plugin.number))
                else {
                    return Ok(());
                };
                if plugin.deleting {
                    return Ok(());
                }
                plugin.deleting = true;
                if host.replaced.contains(&driver) && known {
                    return Err(format!(
                        "{node}: its plugin is replaced twice for the same driver"
                    ));
                }
                host.replaced.push(driver);
            }
            Action::CreateAcceptancePod(creation) => {
                let driver = host.driver.map_or(0, |driver| driver.number);
                let new = TestPod { name: creation.pod, driver, passed: None, deleting: false };
                if known && (!host.cordoned || record(host).is_none()) {
                    return Err(format!("{node}: it is tested, and is not in progress"));
                }
                if known && host.test.as_ref().is_some_and(|test| test.name != new.name) {
                    return Err(format!("{node}: a second pod tests it"));
                }
                host.test.get_or_insert(new);
            }
            Action::DeleteAcceptancePod(deletion) => {
                let is_wanted = |test: &&mut TestPod| deletion.uid == test_uid(&test.name);
                if let Some(test) = host.test.as_mut().filter(is_wanted) {
                    test.deleting = true;
                }
            }
            Action::ReadTestLog(reading) => {
                return Err(format!(
                    "{node}: no test asks for a log, but that of {} is read",
                    reading.test
                ));
            }
        }
        Ok(())
    }

    fn patched(&mut self, at: usize, patch: &NodePatch, model: &Model) -> Result<(), String> {
        let traits = Driver::Gpu.traits();
        let was = self.hosts[at]
            .as_ref()
            .and_then(record)
            .is_some_and(|record| record.state.is_in_progress());
        let node = name(at);
        let host = self.host(at);
        if patch.unschedulable == Some(false) && host.cordoned && !host.ours {
            return Err(format!("{node}: a foreign cordon is removed"));
        }
        let driver = host.driver.filter(|driver| driver.new).map(|driver| driver.number);
        let untested = driver.filter(|number| model.test && !host.tested.contains(number));
        if patch.unschedulable == Some(false) && host.cordoned && untested.is_some() {
            return Err(format!("{node}: it takes workloads, and has not passed its test"));
        }
        host.version += 1;
        if let Some(label) = patch.labels.get(traits.own_state_label) {
            host.label.clone_from(label);
        }
        if let Some(text) = patch.annotations.get(traits.own_record) {
            host.record.clone_from(text);
            host.fresh_record = true;
        }
        if let Some(cordon) = patch.unschedulable {
            (host.cordoned, host.ours) = (cordon, cordon);
        }
        let written = record(host);
        if host.ours && !written.as_ref().is_some_and(|record| record.cordoned) {
            return Err(format!("{node}: cordoned by us, and no record says so"));
        }
        let early = |record: &UpgradeRecord| {
            record.state <= planner::drive_upgrade::state::UpgradeState::PodRestartRequired
        };
        if !host.cordoned && written.as_ref().is_some_and(early) {
            return Err(format!("{node}: it is in progress, and takes new pods"));
        }
        let limit = model.parallel as usize;
        let hosts = || self.hosts.iter().flatten();
        let running = hosts()
            .filter(|host| record(host).is_some_and(|record| record.state.is_in_progress()))
            .count();
        let ours = hosts().filter(|host| host.ours).count();
        if !was && (running > limit || ours > limit) {
            return Err(format!(
                "{node}: {running} nodes are in progress, {ours} cordoned by us, and {limit} may be"
            ));
        }
        Ok(())
    }
}

/// Returns the settings for a model.
pub(super) fn settings(model: &Model) -> contract::settings::Settings {
    policy(model)
}
