//! The simulated hook process. It observes with a lag, decides, writes its record and acts. It can
//! be killed at any time.

use std::collections::{BTreeMap, BTreeSet};

use contract::count::Count;
use contract::task::Task;
use planner::decide::{Action, Decision, Planner, decide};
use planner::gather::gather_time;
use planner::hold;
use planner::spec::leadership::leader_ends_at;

use super::caches::WorldChange;
use super::cluster::SimulatedCluster;
use super::context::SimulationContext;
use super::event::WorldEvent;
use super::hook_state::HookState;
use super::hook_writes::HookWriter;
use super::invariants::InvariantChecker;
use super::model_check;
use super::objects::{milliseconds, timestamp};
use super::setup::SimulationSetup;
use super::text_difference::where_they_differ;
use super::wake_check;

/// Number of nodes that the hook writes to at the same time, as its real loop does.
const AT_ONCE: usize = 8;
/// Number of decisions without progress of time from which the engine counts as looping.
const CIRCLES: u32 = 200;
/// Milliseconds from the operator's rollout to the start of the hook after its release.
const STARTS_AFTER_OPERATOR: u64 = 1_000;

/// The hook with its process.
pub(super) struct SimulatedHook {
    pub(super) state: HookState,
    planner: Planner,
    /// Number of the current process.
    process: u32,
    /// Number of the current Job.
    job: u32,
    /// Number of the last scheduled decision.
    appointment: u64,
    decides_at: Option<u64>,
    /// The time of the next decision if nothing changes, and the operator's leader renews its
    /// Lease.
    wake_at: u64,
    /// The same if the leader does not renew it.
    leader_ends_at: u64,
    /// Whether something has changed since the last decision.
    has_news: bool,
    actions: Vec<Action>,
    /// Number of calls without an answer.
    calls: usize,
    /// Nodes with a failed action in this turn.
    failed: BTreeSet<String>,
    /// Whether something changed while calls were in flight.
    has_changed: bool,
    /// Nodes whose pods are being listed.
    listing: BTreeSet<String>,
    /// The time of the last decision, and the number of decisions at this time.
    last: (u64, u32),
}

/// Returns the start time of the hook after the operator's release.
fn starts_at(setup: &SimulationSetup) -> u64 {
    setup.operator_upgrade.as_ref().map_or(0, |upgrade| upgrade.ready + STARTS_AFTER_OPERATOR)
}

impl SimulatedHook {
    pub(super) fn new(setup: &SimulationSetup) -> Self {
        Self {
            state: HookState::new(setup),
            planner: Planner::default(),
            process: 0,
            job: 0,
            appointment: 0,
            decides_at: None,
            wake_at: 0,
            leader_ends_at: 0,
            has_news: false,
            actions: Vec::new(),
            calls: 0,
            failed: BTreeSet::new(),
            has_changed: false,
            listing: BTreeSet::new(),
            last: (0, 0),
        }
    }

    /// Returns the number of the current process.
    pub(super) fn process(&self) -> u32 {
        self.process
    }

    /// Schedules the start of the current process, but not before the deployer reaches the hook's
    /// release.
    pub(super) fn schedule_start(&self, milliseconds: u64, context: &mut SimulationContext<'_>) {
        let at = (context.now() + milliseconds).max(starts_at(context.setup));
        context.queue.schedule_at(at, WorldEvent::HookStarts(self.process));
    }

    /// Kills the process and schedules the start of another one. Everything that was only in its
    /// memory is lost.
    pub(super) fn kill(&mut self, milliseconds: u64, context: &mut SimulationContext<'_>) {
        self.process += 1;
        self.state.is_running = false;
        context.watches.hook_process = None;
        (self.calls, self.decides_at, self.has_changed) = (0, None, false);
        self.actions.clear();
        self.listing.clear();
        self.schedule_start(milliseconds, context);
    }

    /// Deploys a new Job with another limit, and so with another trigger digest.
    pub(super) fn deploy(
        &mut self,
        max_unavailable: Count,
        cluster: &mut SimulatedCluster,
        context: &mut SimulationContext<'_>,
    ) {
        self.kill(1_000, context);
        self.job += 1;
        self.state.settings.upgrade.policy.max_unavailable = Some(max_unavailable);
        self.state.start_job(self.job, context.now());
        self.planner = Planner::default();
        self.hold_nodes(cluster, context);
    }

    /// Starts another Job of the same deployment for a user who has ended the halt, and takes
    /// failed nodes as proven.
    pub(super) fn resume(
        &mut self,
        accepted: &[String],
        cluster: &mut SimulatedCluster,
        context: &mut SimulationContext<'_>,
    ) {
        self.kill(1_000, context);
        let observed = cluster.list_all(None, context).observed;
        self.state.resume(accepted, &observed, context.now());
        self.planner = Planner::default();
        self.hold_nodes(cluster, context);
    }

    /// Holds every node, as the hook before the operator's chart does before there is a new
    /// template: in mode `steer`, and if the operator is upgraded.
    pub(super) fn hold_nodes(
        &mut self,
        cluster: &mut SimulatedCluster,
        context: &mut SimulationContext<'_>,
    ) {
        let state = &mut self.state;
        if !state.settings.has(Task::Steer) && context.setup.operator_upgrade.is_none() {
            return;
        }
        let missing = hold::missing(
            &cluster.list_all(None, context).observed,
            &state.settings,
            timestamp(context.now()),
        );
        let mut writer = HookWriter { hook: state, cluster, context };
        for patch in missing {
            writer.perform(&Action::PatchNode(patch));
        }
    }

    pub(super) fn start(
        &mut self,
        process: u32,
        cluster: &SimulatedCluster,
        context: &mut SimulationContext<'_>,
    ) {
        if self.process != process || self.state.is_running {
            return;
        }
        self.state.is_running = true;
        self.state.forget();
        context.watches.hook_process = Some(process);
        self.planner = Planner::default();
        if process > 0 {
            context.log(|| "the hook starts".to_owned());
        }
        self.list_all(cluster, context);
        self.appoint(context.now(), context);
    }

    /// Performs the first list of all watches.
    fn list_all(&mut self, cluster: &SimulatedCluster, context: &mut SimulationContext<'_>) {
        context.watches.next_version();
        let caches = &mut self.state.caches;
        *caches = cluster.list_all(caches.job_selector.take(), context);
        self.has_news = true;
    }

    fn is_current(&self, process: u32) -> bool {
        process == self.process && self.state.is_running
    }

    /// Schedules a decision at this time at the latest.
    fn appoint(&mut self, at: u64, context: &mut SimulationContext<'_>) {
        if self.decides_at.is_some_and(|known| known <= at) {
            return;
        }
        self.appointment += 1;
        self.decides_at = Some(at);
        context
            .queue
            .schedule_at(at.max(context.now()), WorldEvent::Decide(self.process, self.appointment));
    }

    /// Schedules the decision that is due if nothing changes.
    fn appoint_next(&mut self, context: &mut SimulationContext<'_>) {
        self.appoint(self.wake_at.min(self.leader_ends_at), context);
    }

    /// Returns for how many milliseconds the hook gathers changes, as its real loop does.
    fn gather(&self) -> u64 {
        let time = gather_time(self.state.caches.observed.nodes.len(), self.state.settings.mode);
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    }

    fn note_change(&mut self, context: &mut SimulationContext<'_>) {
        self.has_news = true;
        if self.calls > 0 {
            self.has_changed = true;
        } else {
            self.appoint(context.now() + self.gather(), context);
        }
    }

    /// Handles a change that a watch delivers.
    pub(super) fn notify(
        &mut self,
        process: u32,
        version: u64,
        change: &WorldChange,
        context: &mut SimulationContext<'_>,
    ) {
        if self.is_current(process) {
            self.state.caches.apply(change, version, context.setup);
            self.note_change(context);
        }
    }

    /// Handles the answer to the LIST of a node's pods.
    pub(super) fn pods_listed(
        &mut self,
        process: u32,
        node: &str,
        cluster: &SimulatedCluster,
        context: &mut SimulationContext<'_>,
    ) {
        if process != self.process {
            return;
        }
        self.listing.remove(node);
        let pods = cluster.workloads.pods.on_node(node).cloned().collect();
        context.report.lists += 1;
        self.state.caches.list(node, pods, context.watches.next_version());
        self.note_change(context);
    }

    pub(super) fn decide(
        &mut self,
        process: u32,
        appointment: u64,
        cluster: &mut SimulatedCluster,
        context: &mut SimulationContext<'_>,
    ) {
        if !self.is_current(process) || appointment != self.appointment {
            return;
        }
        self.decides_at = None;
        let clocks = context.setup.clocks;
        let (now, ahead) =
            (clocks.of_hook(process, context.now()), clocks.ahead(process, context.now()));
        if cluster.operator.is_working() && self.renews(now, context) {
            return;
        }
        self.detect_circles(context);
        self.has_news = false;
        let state = &mut self.state;
        let mut decision =
            self.planner.decide(&state.caches.observed, &state.settings, &state.memory, now);
        if context.setup.thorough {
            self.compare_with_models(&decision, now, context);
        }
        if let Some(mutate) = context.setup.mutation {
            mutate(&mut decision, &self.state.caches.observed);
        }
        context.report.decisions += 1;
        InvariantChecker { hook: &self.state, cluster, context }.decision(&decision);
        self.state.memory = decision.memory;
        let at = context.now();
        context.report.proves(self.state.memory.proof.as_deref(), at);
        let here = |at: jiff::Timestamp| {
            milliseconds(at).saturating_add_signed(ahead.saturating_neg()).max(context.now())
        };
        (self.wake_at, self.leader_ends_at) =
            (here(decision.wake_at_if_led), here(decision.wake_at));
        let asked = self.state.caches.focus(&decision.focus, &self.listing);
        self.listing.extend(asked.iter().cloned());
        for node in asked {
            let call = context.draw(context.setup.times.call, "call", "");
            context.after(call, WorldEvent::PodsListed(process, node));
        }
        if let Some(verdict) = decision.verdict {
            // The real loop performs the actions of its last decision, and no process follows that
            // would delete what is left.
            let is_deletion = |action: &&Action| matches!(action, Action::DeleteAcceptancePod(_));
            for action in decision.actions.iter().filter(is_deletion) {
                HookWriter { hook: &mut self.state, cluster, context }.perform(action);
            }
            context.report.ends(context.now(), verdict, &decision.outcomes, &decision.waits);
            return;
        }
        context.report.waits = decision.waits;
        self.act(decision.actions, context);
    }

    /// Observes a renewal of the Lease of the operator's leader, who renews it continuously. Returns
    /// whether nothing else has changed: the decision would be the same ([`wake_check`]).
    fn renews(&mut self, now: jiff::Timestamp, context: &mut SimulationContext<'_>) -> bool {
        let Some(lease) = &mut self.state.caches.observed.operator_lease else { return false };
        let was_led = lease.renewed.is_some() && now <= leader_ends_at(lease, now);
        lease.renewed = Some(now);
        if !was_led || self.has_news || context.now() >= self.wake_at {
            return false;
        }
        let left = leader_ends_at(lease, now).duration_since(now).as_millis();
        self.leader_ends_at = context.now() + u64::try_from(left).unwrap_or(u64::MAX);
        self.appoint_next(context);
        true
    }

    /// Checks that the incremental decision equals a decision from scratch, and that the planner's
    /// model of NVIDIA's controller equals the exact model with an entry for each node.
    fn compare_with_models(
        &self,
        decision: &Decision,
        now: jiff::Timestamp,
        context: &mut SimulationContext<'_>,
    ) {
        let HookState { caches, settings, memory, .. } = &self.state;
        let fresh = decide(&caches.observed, settings, memory, now);
        if *decision != fresh {
            let (ours, theirs) = where_they_differ(&format!("{decision:?}"), &format!("{fresh:?}"));
            context.violation(&format!(
                "the incremental decision is `…{ours}…`, the decision from scratch is `…{theirs}…`"
            ));
        }
        if let Some(text) = wake_check::difference(decision, &caches.observed, settings, now) {
            context.violation(&text);
        }
        if let Some(text) = model_check::difference(&caches.observed, settings.driver, now) {
            context.violation(&format!("the models of NVIDIA's controller differ: {text}"));
        }
    }

    /// Detects decisions that request the next one endlessly without progress of time.
    fn detect_circles(&mut self, context: &mut SimulationContext<'_>) {
        let (at, count) = self.last;
        self.last = if at == context.now() { (at, count + 1) } else { (context.now(), 0) };
        if self.last.1 == CIRCLES {
            context.violation("the engine decides endlessly without progress of time");
            context.report.give_up();
        }
    }

    /// Starts all actions: those of one node sequentially, those of different nodes in parallel.
    fn act(&mut self, actions: Vec<Action>, context: &mut SimulationContext<'_>) {
        let mut lanes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut order: Vec<&str> = Vec::new();
        for (index, action) in actions.iter().enumerate() {
            let lane = lanes.entry(action.node()).or_default();
            if lane.is_empty() {
                order.push(action.node());
            }
            lane.push(index);
        }
        let mut free = [context.now(); AT_ONCE];
        for node in order {
            let Some(lane) = free.iter_mut().min_by_key(|at| **at) else { continue };
            for index in lanes.remove(node).unwrap_or_default() {
                *lane += context.draw(context.setup.times.call, "call", "");
                context.queue.schedule_at(*lane, WorldEvent::Call(self.process, index));
            }
        }
        (self.calls, self.actions) = (actions.len(), actions);
        self.failed.clear();
        if self.calls == 0 {
            self.appoint_next(context);
        }
    }

    /// Performs a call that reaches the API server.
    pub(super) fn call(
        &mut self,
        process: u32,
        index: usize,
        cluster: &mut SimulatedCluster,
        context: &mut SimulationContext<'_>,
    ) {
        let Some(action) = self.actions.get(index).filter(|_| self.is_current(process)) else {
            return;
        };
        if self.failed.contains(action.node()) {
            self.state.memory.note_unbegun(action);
        } else if !(HookWriter { hook: &mut self.state, cluster, context }).perform(action) {
            self.failed.insert(action.node().to_owned());
        }
        self.calls = self.calls.saturating_sub(1);
        if self.calls > 0 {
            return;
        }
        if std::mem::take(&mut self.has_changed) {
            self.note_change(context);
        }
        if std::mem::take(&mut self.state.decides_at_once) {
            self.wake_at = context.now();
        }
        self.appoint_next(context);
    }

    /// Checks that a second run of the same deployment finds nothing to do after a successful one.
    pub(super) fn run_again(
        &mut self,
        cluster: &SimulatedCluster,
        context: &mut SimulationContext<'_>,
    ) {
        let mut memory = self.state.second_run(context.now());
        self.list_all(cluster, context);
        let mut now = context.now();
        for _ in 0..100 {
            let decision =
                decide(&self.state.caches.observed, &self.state.settings, &memory, timestamp(now));
            // The first run did not wait for nodes that joined later, so the second run may have
            // work.
            let has_joined = |name: &str| {
                cluster
                    .nodes
                    .get(name)
                    .is_none_or(|node| !self.state.memory.is_in_cohort(&node.node.uid))
            };
            if decision.actions.iter().any(|action| has_joined(action.node())) {
                return;
            }
            if let Some(action) = decision.actions.first() {
                context.violation(&format!("a second run has an action: {action:?}"));
                return;
            }
            if decision.verdict.is_some() {
                return;
            }
            now = milliseconds(decision.wake_at).max(now + 1);
            memory = decision.memory;
        }
        context.violation("a second run does not end");
    }
}
