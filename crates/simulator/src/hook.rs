//! The hook's process: it sees with a lag, decides, writes its record, acts; it can be killed at any moment.

use std::collections::{BTreeMap, BTreeSet};

use contract::budget::working_seconds;
use contract::count::Count;
use contract::mode::Mode;
use contract::policy::UpgradeSettings;
use contract::selector::Selector;
use contract::settings::Settings;
use contract::task::Task;
use planner::decide::{Action, Planner, decide};
use planner::hold;
use planner::memory::RunMemory;
use planner::pods::filter::OwnPods;

use super::model_check;
use super::objects::{SimulatedOperand, milliseconds, timestamp};
use super::setup::SimulationSetup;
use super::view::{HookCaches, WorldChange};
use super::world::{World, WorldEvent};

/// So many characters are shown before and after a difference.
const AROUND: usize = 150;

/// Milliseconds for which changes are gathered, as the hook's loop does.
const GATHER: u64 = 150;
/// Writes under way at once, as the hook's loop has them.
const AT_ONCE: usize = 8;
/// Decisions at one moment from which on it counts as going round in circles.
const CIRCLES: u32 = 200;

pub(super) struct SimulatedHook {
    /// Counts the processes.
    pub(super) process: u32,
    running: bool,
    /// Counts the Jobs.
    job: u32,
    pub(super) settings: Settings,
    pub(super) memory: RunMemory,
    pub(super) planner: Planner,
    pub(super) view: HookCaches,
    /// Which pods `waitForCompletion` is about.
    jobs: Option<Selector>,
    /// The next decision: its number, and when.
    appointment: u64,
    decides_at: Option<u64>,
    wake_at: u64,
    actions: Vec<Action>,
    /// Calls that have not come back.
    under_way: usize,
    /// Nodes with an action that failed in this turn.
    failed: BTreeSet<String>,
    /// Something changed while it acted.
    changed: bool,
    /// A write was refused: what becomes of it is judged at once.
    pub(super) decides_again: bool,
    /// Nodes whose pods are being listed.
    listing: BTreeSet<String>,
    last: (u64, u32),
}

impl SimulatedHook {
    pub(super) fn new(setup: &SimulationSetup) -> Self {
        let mut settings = setup.settings.clone();
        // A job's number makes another digest of it.
        settings.digest = digest(0);
        if setup.operator_upgrade.is_some() {
            settings.component_version.clone_from(&setup.operator);
        }
        if settings.mode == Mode::Assist {
            // All that this mode is told of the policy.
            settings.upgrade = UpgradeSettings { attempts: settings.upgrade.attempts, ..UpgradeSettings::default() };
        }
        // Jobs are watched by whom they keep from moving workloads.
        let wait = settings.upgrade.policy.wait_for_completion.as_ref().filter(|_| settings.has(Task::Drive));
        Self {
            process: 0,
            running: false,
            job: 0,
            memory: RunMemory::new(timestamp(0), deadline(&settings, 0)),
            planner: Planner::default(),
            view: HookCaches::default(),
            jobs: wait.and_then(|wait| wait.pod_selector.parse().ok()),
            appointment: 0,
            decides_at: None,
            wake_at: 0,
            actions: Vec::new(),
            under_way: 0,
            failed: BTreeSet::new(),
            changed: false,
            decides_again: false,
            listing: BTreeSet::new(),
            last: (0, 0),
            settings,
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.running
    }

    /// Namespace and name of its own pod.
    pub(super) fn own_pod(&self) -> (String, String) {
        (self.settings.namespace.clone(), format!("{}-hook", self.settings.release))
    }

    fn own(&self) -> OwnPods {
        OwnPods { names: BTreeSet::from([self.own_pod()]), ..OwnPods::default() }
    }
}

fn digest(job: u32) -> String {
    format!("{job:064x}")
}

fn deadline(settings: &Settings, from: u64) -> jiff::Timestamp {
    timestamp(from.saturating_add(working_seconds(settings.budget_seconds).saturating_mul(1000)))
}

impl World<'_> {
    /// The process is gone, with all that stands only in its memory; another one starts.
    pub(super) fn kill(&mut self, milliseconds: u64) {
        let hook = &mut self.hook;
        hook.process += 1;
        hook.running = false;
        (hook.under_way, hook.decides_at, hook.changed) = (0, None, false);
        hook.actions.clear();
        hook.listing.clear();
        let process = hook.process;
        // No deployer starts it earlier.
        let at = (self.now + milliseconds).max(self.hook_begins());
        self.queue_at(at, WorldEvent::HookStarts(process));
    }

    /// A new Job with another limit: another trigger digest.
    pub(super) fn deploy(&mut self, max_unavailable: Count) {
        self.kill(1_000);
        let now = self.now;
        let hook = &mut self.hook;
        hook.job += 1;
        hook.settings.digest = digest(hook.job);
        hook.settings.upgrade.policy.max_unavailable = Some(max_unavailable);
        let nodes = std::mem::take(&mut hook.memory.nodes);
        hook.planner = Planner::default();
        hook.memory = RunMemory::following(&nodes, timestamp(now), deadline(&hook.settings, now));
        self.hold_nodes();
    }

    /// What the hook before the operator's chart does in mode `steer`, and in mode `assist` where the operator is upgraded: every node is held before
    /// there is a new template.
    pub(super) fn hold_nodes(&mut self) {
        if !self.hook.settings.has(Task::Steer) && self.setup.operator_upgrade.is_none() {
            return;
        }
        for patch in hold::missing(&self.truth(None).observed, &self.hook.settings, timestamp(self.now)) {
            self.perform(&Action::PatchNode(patch));
        }
    }

    pub(super) fn hook_starts(&mut self, process: u32) {
        if self.hook.process != process || self.hook.running {
            return;
        }
        let hook = &mut self.hook;
        hook.running = true;
        let nodes = std::mem::take(&mut hook.memory.nodes);
        let (own, cohort, baseline) = (hook.own(), hook.memory.cohort.take(), hook.memory.baseline.take());
        hook.planner = Planner::default();
        hook.memory = RunMemory { cohort, nodes, baseline, own, ..RunMemory::new(hook.memory.started_at, hook.memory.deadline) };
        hook.view = HookCaches::default();
        if process > 0 {
            self.log(|| "the hook starts".to_owned());
        }
        self.list_everything();
        let now = self.now;
        self.appoint(now);
    }

    /// The first lists of all watches.
    fn list_everything(&mut self) {
        self.versions += 1;
        let jobs = self.hook.jobs.clone();
        self.hook.view = self.truth(jobs.as_ref());
    }

    /// What somebody sees who sees everything as it is; of pods only those that the selector names.
    pub(super) fn truth(&self, jobs: Option<&Selector>) -> HookCaches {
        let (version, setup) = (self.versions, self.setup);
        let mut view = HookCaches::default();
        let mut put = |change| view.apply(change, version, jobs, setup);
        put(WorldChange::Fixed(Box::new(self.fixed.clone()), self.maintenances.clone()));
        for (name, host) in &self.hosts {
            put(WorldChange::Node(name.clone(), Some(Box::new(host.node.clone()))));
            for operand in SimulatedOperand::ALL {
                put(WorldChange::Operand(name.clone(), operand, host.operand(operand).cloned().map(Box::new)));
            }
            for change in self.extras_of(name, &host.node) {
                put(change);
            }
            put(WorldChange::Slice(name.clone(), host.slice.clone()));
        }
        put(WorldChange::Budgets(self.budgets()));
        put(WorldChange::Pauses(self.pauses.clone()));
        if jobs.is_some() {
            for (uid, pod) in &self.pods {
                put(WorldChange::Pod(uid.clone(), Some(Box::new(pod.clone()))));
            }
        }
        view
    }

    /// Decides at that moment at the latest.
    fn appoint(&mut self, at: u64) {
        if self.hook.decides_at.is_some_and(|known| known <= at) {
            return;
        }
        self.hook.appointment += 1;
        self.hook.decides_at = Some(at);
        let (process, appointment) = (self.hook.process, self.hook.appointment);
        self.queue_at(at.max(self.now), WorldEvent::Decide(process, appointment));
    }

    fn changed(&mut self) {
        if self.hook.under_way > 0 {
            self.hook.changed = true;
        } else {
            let at = self.now + GATHER;
            self.appoint(at);
        }
    }

    pub(super) fn notify(&mut self, process: u32, version: u64, change: WorldChange) {
        if process != self.hook.process || !self.hook.running {
            return;
        }
        let SimulatedHook { view, jobs, .. } = &mut self.hook;
        view.apply(change, version, jobs.as_ref(), self.setup);
        self.changed();
    }

    pub(super) fn listed(&mut self, process: u32, node: &str) {
        if process != self.hook.process {
            return;
        }
        self.hook.listing.remove(node);
        let here = self.placed.get(node).into_iter().flatten().filter_map(|uid| self.pods.get(uid)).cloned().collect();
        self.versions += 1;
        self.report.lists += 1;
        self.hook.view.list(node, here, self.versions);
        self.changed();
    }

    pub(super) fn decide(&mut self, process: u32, appointment: u64) {
        if process != self.hook.process || appointment != self.hook.appointment || !self.hook.running {
            return;
        }
        self.hook.decides_at = None;
        self.in_circles();
        let works = self.operator_works();
        let hook = &mut self.hook;
        let clocks = self.setup.clocks;
        let (now, ahead) = (clocks.of_hook(hook.process, self.now), clocks.ahead(hook.process, self.now));
        if let Some(lease) = hook.view.observed.operator_lease.as_mut().filter(|_| works) {
            // The leader renews all the time.
            lease.renewed = Some(now);
        }
        let mut decision = hook.planner.decide(&hook.view.observed, &hook.settings, &hook.memory, now);
        if self.setup.thorough {
            let anew = decide(&hook.view.observed, &hook.settings, &hook.memory, now);
            if decision != anew {
                let (ours, theirs) = where_they_differ(&format!("{decision:?}"), &format!("{anew:?}"));
                let text = format!("what builds on the last decision says `…{ours}…`, what looks at everything `…{theirs}…`");
                self.report.violation(self.now, &text);
            }
            if let Some(text) = model_check::difference(&hook.view.observed, hook.settings.driver, now) {
                self.report.violation(self.now, &format!("of NVIDIA's controller: {text}"));
            }
        }
        if let Some(mutate) = self.setup.mutation {
            mutate(&mut decision, &hook.view.observed);
        }
        self.report.decisions += 1;
        self.check_decision(&decision);
        let hook = &mut self.hook;
        hook.memory = decision.memory;
        hook.wake_at = milliseconds(decision.wake_at).saturating_add_signed(ahead.saturating_neg()).max(self.now);
        let asked = hook.view.focus(&decision.focus, &hook.listing);
        hook.listing.extend(asked.iter().cloned());
        for node in asked {
            let call = self.draw(self.setup.times.call, "call", "");
            self.after(call, WorldEvent::Listed(process, node));
        }
        if let Some(verdict) = decision.verdict {
            self.report.ends(self.now, verdict, &decision.outcomes, &decision.waits);
            return;
        }
        self.report.waits = decision.waits;
        self.act(decision.actions);
    }

    /// A decision that asks for itself again and again.
    fn in_circles(&mut self) {
        let (at, count) = self.hook.last;
        self.hook.last = if at == self.now { (at, count + 1) } else { (self.now, 0) };
        if self.hook.last.1 == CIRCLES {
            self.report.violation(self.now, "the engine decides again and again, and time stands still");
            self.report.give_up();
        }
    }

    /// Begins all actions: those of a node one after the other, eight nodes beside each other.
    fn act(&mut self, actions: Vec<Action>) {
        let mut lanes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut order: Vec<String> = Vec::new();
        for (index, action) in actions.iter().enumerate() {
            let lane = lanes.entry(action.node().to_owned()).or_default();
            if lane.is_empty() {
                order.push(action.node().to_owned());
            }
            lane.push(index);
        }
        let process = self.hook.process;
        let mut free = [self.now; AT_ONCE];
        for node in order {
            let Some(worker) = free.iter().enumerate().min_by_key(|(_, at)| **at).map(|(index, _)| index) else { continue };
            for index in lanes.remove(&node).unwrap_or_default() {
                free[worker] += self.draw(self.setup.times.call, "call", "");
                self.queue_at(free[worker], WorldEvent::Call(process, index));
            }
        }
        let hook = &mut self.hook;
        (hook.under_way, hook.actions) = (actions.len(), actions);
        hook.failed.clear();
        if hook.under_way == 0 {
            let at = hook.wake_at;
            self.appoint(at);
        }
    }

    pub(super) fn call(&mut self, process: u32, index: usize) {
        if process != self.hook.process || !self.hook.running {
            return;
        }
        let Some(action) = self.hook.actions.get(index).cloned() else { return };
        if self.hook.failed.contains(action.node()) {
            self.hook.memory.note_unbegun(&action);
        } else if !self.perform(&action) {
            self.hook.failed.insert(action.node().to_owned());
        }
        self.hook.under_way = self.hook.under_way.saturating_sub(1);
        if self.hook.under_way > 0 {
            return;
        }
        if std::mem::take(&mut self.hook.changed) {
            self.changed();
        }
        if std::mem::take(&mut self.hook.decides_again) {
            self.hook.wake_at = self.now;
        }
        let at = self.hook.wake_at;
        self.appoint(at);
    }

    /// After a successful run another one of the same deployment finds nothing to do.
    pub(super) fn run_again(&mut self) {
        let nodes = std::mem::take(&mut self.hook.memory.nodes);
        let mut memory = RunMemory::following(&nodes, timestamp(self.now), deadline(&self.hook.settings, self.now));
        memory.own = self.hook.own();
        self.list_everything();
        let mut now = self.now;
        for _ in 0..100 {
            let decision = decide(&self.hook.view.observed, &self.hook.settings, &memory, timestamp(now));
            // Nodes that joined meanwhile were not waited for: the second run may have work of its own.
            let joined = |node: &str| self.hosts.get(node).is_none_or(|host| !self.hook.memory.is_in_cohort(&host.node.uid));
            if decision.actions.iter().any(|action| joined(action.node())) {
                return;
            }
            if let Some(action) = decision.actions.first() {
                self.report.violation(self.now, &format!("a second run does something: {action:?}"));
                return;
            }
            if decision.verdict.is_some() {
                return;
            }
            now = milliseconds(decision.wake_at).max(now + 1);
            memory = decision.memory;
        }
        self.report.violation(self.now, "a second run comes to no end");
    }

    /// The hook has seen the node as it is.
    pub(super) fn knows_node(&self, name: &str) -> bool {
        let seen = self.hook.view.observed.nodes.get(name).map(|node| &node.version);
        seen == self.hosts.get(name).map(|host| &host.node.version)
    }

    /// The revision that the hook takes for the newest is it.
    pub(super) fn knows_revision(&self) -> bool {
        self.hook.view.revisions == self.fixed.revisions.len()
    }

    /// The hook knows who has paused what.
    pub(super) fn knows_pauses(&self) -> bool {
        self.hook.view.observed.pauses == self.pauses
    }

    /// The hook has seen this pod.
    pub(super) fn knows_pod(&self, node: &str, uid: &str) -> bool {
        let pods = self.hook.view.observed.workloads.pods.get(node);
        pods.is_some_and(|pods| pods.iter().any(|pod| pod.uid == uid))
    }

    /// What stands on a node's driver: other containers are another thing.
    pub(super) fn identity(&self, node: &str) -> String {
        let Some(host) = self.hosts.get(node) else { return String::new() };
        let of = |operand| host.operand(operand).map_or(String::new(), |pod| format!("{}/{}", pod.uid, pod.containers[0].restarts));
        format!("{}+{}", of(SimulatedOperand::Driver), of(SimulatedOperand::Toolkit))
    }
}

/// Some of both texts from shortly before the place on at which they differ.
fn where_they_differ(one: &str, other: &str) -> (String, String) {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let part = |text: &str| text.chars().skip(same.saturating_sub(AROUND)).take(2 * AROUND).collect();
    (part(one), part(other))
}
