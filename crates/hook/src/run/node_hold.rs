//! Task `hold`: holds every node that needs the driver before the operator gets the new spec. Mode
//! `steer` always does so, mode `assist` as `operatorUpgrade.hold` says: by default, only if the
//! version of the operator changes. The task fails closed: NVIDIA's controller would upgrade a node
//! without a hold as soon as the operator acts.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use contract::count::with_noun;
use contract::record::VerdictReason;
use contract::settings::Settings;
use kube_io::actions::{ActionResult, patch_node, perform};
use kube_io::call::CallError;
use kube_io::lease::HeldLease;
use kube_io::watches::CacheState;
use observed::Observed;
use planner::action::NodePatch;
use planner::decide::Action;
use planner::hold::{HoldPlan, before_operator, is_held, missing};
use planner::memory::RunMemory;
use planner::pods::listed;
use planner::write_refusals::WriteRefusals;

use super::refused_request_timers::{RequestKind, refused as refused_request};
use super::write_results::WriteResults;
use super::{RETRY, StepEnd, interrupted};
use crate::run_caches::{HISTORY_WENT_BACK, RunCaches};
use crate::{EndReason, HookProcess, RunEnd};

/// How long the task gathers changes before it looks for nodes without a hold. The operator waits
/// for this task.
const GATHER: Duration = Duration::from_millis(150);
/// How many refused nodes are in the reasons of the verdict.
const NAMED: usize = 3;

/// Holds the nodes that need the driver.
pub(super) struct NodeHold<'a> {
    pub(super) hook: &'a HookProcess,
    pub(super) held: &'a HeldLease,
    pub(super) caches: &'a RunCaches<'a>,
    pub(super) results: WriteResults<'a>,
    pub(super) deadline: Timestamp,
}

/// Nodes that cannot be held, with the server's message. The hook holds all other nodes, and then
/// fails.
type RefusedNodes = BTreeMap<String, String>;

impl NodeHold<'_> {
    /// Patches the nodes until the caches show that all are held.
    pub(super) async fn run(mut self) -> Result<RunEnd, StepEnd> {
        let (hook, watches) = (self.hook, &self.caches.watches);
        let mut refused = RefusedNodes::new();
        loop {
            if !self.held.is_valid() {
                return Err(StepEnd::LeaseLost);
            }
            if hook.shutdown.is_requested() {
                return Err(interrupted().into());
            }
            let now = hook.clock.now();
            if now >= self.deadline {
                let message = "cannot hold every node in time; do not deploy the operator";
                return Err(RunEnd::new(EndReason::HoldIncomplete, message).into());
            }
            match self.caches.sync() {
                CacheState::InStep => {
                    self.results.refusals.clear(RequestKind::Watch);
                    match next_step(
                        &watches.observed(now),
                        &hook.settings,
                        self.results.memory,
                        &mut refused,
                        now,
                    ) {
                        HoldStep::Done(end) => return Ok(end),
                        HoldStep::Fail(end) => return Err(StepEnd::Verdict(end)),
                        HoldStep::Patch(patches) => self.patch(patches, &mut refused).await?,
                    }
                }
                CacheState::Behind(_) => {}
                CacheState::Past(why) => {
                    tracing::warn!(why, "{HISTORY_WENT_BACK}");
                    return Err(StepEnd::LeaseLost);
                }
                CacheState::Forbidden(message) => {
                    if now >= self.results.refusals.deadline(RequestKind::Watch, now) {
                        return Err(refused_request(&message).into());
                    }
                }
            }
            tokio::select! {
                () = hook.shutdown.requested() => {}
                () = watches.changed() => tokio::time::sleep(GATHER).await,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    async fn patch(
        &mut self,
        patches: Vec<NodePatch>,
        refused: &mut RefusedNodes,
    ) -> Result<(), RunEnd> {
        let (hook, held) = (self.hook, self.held);
        let may_write = || held.is_valid() && !hook.shutdown.is_requested();
        let results =
            perform(&patches, NodePatch::node_name, may_write, async |patch: &NodePatch| {
                held.within(patch_node(&hook.client, patch))
                    .await
                    .unwrap_or(Err(CallError::Timeout))
            });
        let results = results.await;
        for (patch, result) in
            patches.into_iter().zip(results).filter_map(|(patch, result)| Some((patch, result?)))
        {
            let (node, action) = (patch.node.clone(), Action::PatchNode(patch));
            match result {
                Ok(ActionResult::Changed(missing)) => self.results.note_changed(&action, &missing),
                Ok(ActionResult::Now | ActionResult::Already | ActionResult::Superseded) => {
                    self.results.memory.note_accepted(&action);
                }
                Err(error) => {
                    tracing::warn!(node, %error, "cannot hold the node");
                    self.results.note_error(&action, error).await?;
                }
            }
            let (object, refusals) = ((node, String::new()), &mut self.results.memory.refusals);
            if refusals.get(&object).is_some_and(WriteRefusals::is_final)
                && let Some(refusal) = refusals.remove(&object)
            {
                refused.insert(object.0, refusal.message);
            }
        }
        Ok(())
    }
}

/// The next step of the task.
#[derive(Debug, PartialEq, Eq)]
enum HoldStep {
    Done(RunEnd),
    Fail(RunEnd),
    /// Patch these nodes now. The list is empty while a refused patch waits for its next attempt.
    Patch(Vec<NodePatch>),
}

/// Returns the next step, and drops refusals and refused nodes that need no hold any more.
fn next_step(
    observed: &Observed,
    settings: &Settings,
    memory: &mut RunMemory,
    refused: &mut RefusedNodes,
    now: Timestamp,
) -> HoldStep {
    let plan = before_operator(observed, settings, now);
    if let HoldPlan::Leave(why) = &plan {
        return HoldStep::Done(RunEnd::new(
            EndReason::NoNodeHeld,
            format!("no node is held: {why}"),
        ));
    }
    let mut patches = missing(observed, settings, now);
    let is_missing = |node: &str| patches.iter().any(|patch| patch.node == node);
    refused.retain(|node, _| is_missing(node));
    // The refusal of another node, such as one that has left, would keep the task from its end.
    memory.refusals.retain(|(node, _), _| is_missing(node));
    // A patch that failed because of a webhook is repeated when its refusal is due.
    let is_due = |node: &str| {
        memory
            .refusals
            .get(&(node.to_owned(), String::new()))
            .is_none_or(|refusal| refusal.due() <= now)
    };
    patches.retain(|patch| !refused.contains_key(&patch.node) && is_due(&patch.node));
    if !patches.is_empty() || !memory.refusals.is_empty() {
        return HoldStep::Patch(patches);
    }
    if !refused.is_empty() {
        return HoldStep::Fail(hold_refused(refused));
    }
    let count = observed.nodes.values().filter(|node| is_held(node, settings.driver)).count();
    let until = match plan {
        HoldPlan::UntilRendered(upgrade) => {
            format!(": the operator is upgraded {}", upgrade.change())
        }
        HoldPlan::UntilStarted | HoldPlan::Leave(_) => String::new(),
    };
    HoldStep::Done(RunEnd::new(
        EndReason::NodesHeld,
        format!("{} held{until}", with_noun(count, "node")),
    ))
}

fn hold_refused(refused: &RefusedNodes) -> RunEnd {
    let nodes: Vec<String> = refused
        .iter()
        .map(|(node, message)| format!("{node}: the API server refuses the hold: {message}"))
        .collect();
    let message = format!(
        "{}; hint: change the admission policy, webhook or quota that refuses it, then deploy again; do not deploy the operator before",
        listed(&nodes)
    );
    let nodes =
        refused.keys().map(|node| VerdictReason::new(Some(node), EndReason::HoldRefused.name()));
    RunEnd::new(EndReason::HoldRefused, message).with_reasons(nodes.take(NAMED))
}
