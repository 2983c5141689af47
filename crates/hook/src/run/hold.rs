//! Task `hold`: before the operator sees the new spec, every node that needs the driver is held: always in mode `steer`, in `assist` where the
//! operator's version changes. It fails closed: a node that could not be held would go as soon as the operator acts.

use std::collections::BTreeMap;

use crate::{EndReason, RunEnd};
use contract::record::VerdictReason;
use kube_io::actions::{ActionResult, patch_node, perform};
use kube_io::call::CallError;
use kube_io::lease::HeldLease;
use kube_io::watches::CacheState;
use planner::action::NodePatch;
use planner::decide::Action;
use planner::hold::{HoldPlan, before_operator, is_held, missing};
use planner::pods::listed;
use planner::refused_write::WriteRefusals;

use super::{LONGEST_GATHER, RETRY, RunLoop, interrupted};

/// How many refused nodes the verdict names for programs.
const NAMED: usize = 3;

impl RunLoop<'_> {
    /// Holds the nodes, and looks whether they are held. `Ok(None)`: the Lease was lost.
    pub(super) async fn hold(&mut self, held: &HeldLease) -> Result<Option<RunEnd>, RunEnd> {
        let driver = self.hook.settings.driver;
        // Nodes that cannot be held: the others are, and then the run fails for these.
        let mut refused: BTreeMap<String, String> = BTreeMap::new();
        loop {
            if !held.is_valid() {
                return Ok(None);
            }
            if self.hook.shutdown.is_requested() {
                return Err(interrupted());
            }
            if self.now() >= self.memory.deadline {
                return Err(RunEnd::new(
                    EndReason::HoldIncomplete,
                    "not every node could be held in time; the operator must not be deployed",
                ));
            }
            if self.watches.sync() == CacheState::InStep {
                let now = self.now();
                let observed = self.watches.observed(now);
                if let HoldPlan::Leave(why) = before_operator(&observed, &self.hook.settings, now) {
                    return Ok(Some(RunEnd::new(EndReason::NoNodeHeld, format!("no node is held: {why}"))));
                }
                let mut patches = missing(&observed, &self.hook.settings, now);
                refused.retain(|node, _| patches.iter().any(|patch| patch.node == *node));
                patches.retain(|patch| !refused.contains_key(&patch.node) && self.may_try_again(&patch.node));
                if patches.is_empty() && !refused.is_empty() && self.memory.refusals.is_empty() {
                    return Err(self.not_held(&refused).await);
                }
                if patches.is_empty() && self.memory.refusals.is_empty() {
                    let count = observed.nodes.values().filter(|node| is_held(node, driver)).count();
                    let until = match before_operator(&observed, &self.hook.settings, now) {
                        HoldPlan::UntilRendered(upgrade) => format!(": the operator is upgraded {}", upgrade.change()),
                        HoldPlan::UntilStarted | HoldPlan::Leave(_) => String::new(),
                    };
                    return Ok(Some(RunEnd::new(EndReason::NodesHeld, format!("{count} nodes are held{until}"))));
                }
                let client = &self.hook.client;
                let may_write = || held.is_valid() && !self.hook.shutdown.is_requested();
                let results = perform(&patches, NodePatch::node_name, may_write, async |patch: &NodePatch| {
                    held.within(patch_node(client, patch)).await.unwrap_or(Err(CallError::Timeout))
                })
                .await;
                for (patch, result) in patches.into_iter().zip(results).filter_map(|(patch, result)| Some((patch, result?))) {
                    let (node, action) = (patch.node.clone(), Action::PatchNode(patch));
                    match result {
                        Ok(ActionResult::Changed(missing)) => self.note_changed(&action, &missing),
                        Ok(ActionResult::Now | ActionResult::Already | ActionResult::Superseded) => self.memory.note_accepted(&action),
                        Err(error) => {
                            tracing::warn!(node, %error, "unable to hold the node");
                            self.refused(&action, error).await?;
                        }
                    }
                    let object = (node, String::new());
                    if self.memory.refusals.get(&object).is_some_and(WriteRefusals::is_final)
                        && let Some(refusal) = self.memory.refusals.remove(&object)
                    {
                        refused.insert(object.0, refusal.message);
                    }
                }
            }
            tokio::select! {
                () = self.hook.shutdown.requested() => {}
                () = self.watches.changed() => tokio::time::sleep(LONGEST_GATHER).await,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    /// Whether a node whose patch failed because of a webhook may be patched again.
    fn may_try_again(&self, node: &str) -> bool {
        let refusal = self.memory.refusals.get(&(node.to_owned(), String::new()));
        refusal.is_none_or(|refusal| refusal.due() <= self.now())
    }

    async fn not_held(&mut self, refused: &BTreeMap<String, String>) -> RunEnd {
        let nodes: Vec<String> =
            refused.iter().map(|(node, message)| format!("{node}: the API server refuses the hold: {message}")).collect();
        let message = format!(
            "{}; what to do: change the admission policy, webhook or quota that refuses it, then deploy again; the operator must not be deployed before",
            listed(&nodes)
        );
        let nodes = refused.keys().map(|node| VerdictReason::new(Some(node), EndReason::HoldRefused.name()));
        self.conclude(RunEnd::new(EndReason::HoldRefused, message).with_reasons(nodes.take(NAMED))).await
    }
}
