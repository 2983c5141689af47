//! Duty `hold`: before the operator sees the new spec, every node that needs the driver is held. It fails closed: a node that could not be
//! held would go as soon as the operator acts.

use crate::cluster::actions::{patch_node, perform};
use crate::cluster::call::CallError;
use crate::cluster::lease::Held;
use crate::cluster::watches::Sync;
use crate::contract::exit::ExitCode;
use crate::hook::Ended;
use crate::rollout::action::NodePatch;
use crate::rollout::hold::{is_held, missing};

use super::{Drive, Write, interrupted};

impl Drive<'_> {
    /// Holds the nodes, and looks whether they are held. `Ok(None)`: the Lease was lost.
    pub(super) async fn hold(&mut self, held: &Held) -> Result<Option<String>, Ended> {
        let driver = self.hook.settings.driver;
        loop {
            if !held.is_valid() {
                return Ok(None);
            }
            if self.hook.shutdown.is_requested() {
                return Err(interrupted());
            }
            if self.now() >= self.memory.deadline {
                return Err(Ended::new(
                    ExitCode::ApiUnreachable,
                    "not every node could be held in time; the operator must not be deployed",
                ));
            }
            if self.watches.sync() == Sync::InStep {
                let observed = self.watches.observed();
                let patches = missing(&observed, driver);
                if patches.is_empty() {
                    let count = observed.nodes.values().filter(|node| is_held(node, driver)).count();
                    return Ok(Some(format!("{count} nodes are held")));
                }
                let client = &self.hook.client;
                let may_write = || held.is_valid() && !self.hook.shutdown.is_requested();
                let results = perform(&patches, NodePatch::node_name, may_write, async |patch: &NodePatch| {
                    held.within(patch_node(client, patch)).await.unwrap_or(Err(CallError::Timeout))
                })
                .await;
                for (patch, error) in patches.iter().zip(results).filter_map(|(patch, result)| Some((patch, result?.err()?))) {
                    tracing::warn!(node = patch.node, %error, "unable to hold the node; trying again");
                    if let Some(ended) = self.unwritable(Write::Node, &error) {
                        return Err(ended);
                    }
                }
            }
            tokio::select! {
                () = self.hook.shutdown.requested() => {}
                () = self.watches.changed() => tokio::time::sleep(super::LONGEST_GATHER).await,
                () = tokio::time::sleep(super::RETRY) => {}
            }
        }
    }
}
