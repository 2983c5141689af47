//! Duty `preflight`: looks, before the operator sees the new spec, for what would stop its upgrade. It reads, and says what it found.

use std::collections::BTreeSet;

use crate::cluster::call::CallError;
use crate::cluster::list::list_workloads;
use crate::contract::check::Severity;
use crate::contract::record::VerdictReason;
use crate::hook::occurrence::Occurrence;
use crate::hook::{EndReason, Ended};
use crate::rollout::node::driver_nodes;
use crate::rollout::pods::filter::DaemonSets;
use crate::rollout::preflight::{Finding, Input, may_begin, policy, preflight};

use super::{Drive, RETRY, interrupted, refused};

/// How many findings a message names before it only counts the rest.
const NAMED: usize = 3;
/// How many nodes of a finding the verdict names for programs.
const NAMED_NODES: usize = 5;

impl Drive<'_> {
    /// Looks at the cluster as it is. The message, or the end if something blocks. Findings are logged, and told as events of the Job.
    pub(super) async fn preflight(&mut self) -> Result<Ended, Ended> {
        let settings = &self.hook.settings;
        let observed = self.watches.observed(self.now());
        let nodes: BTreeSet<String> = driver_nodes(&observed, settings.driver).map(|node| node.name.clone()).collect();
        let pods = loop {
            match list_workloads(&self.hook.client, &nodes, Some).await {
                Ok(pods) => break pods,
                Err(CallError::Forbidden(message)) => return Err(refused(&message)),
                Err(error) if self.now() < self.memory.deadline && !self.hook.shutdown.is_requested() => {
                    tracing::warn!(%error, "unable to list the pods; trying again");
                    tokio::time::sleep(RETRY).await;
                }
                Err(_) if self.hook.shutdown.is_requested() => return Err(interrupted()),
                Err(error) => {
                    return Err(Ended::new(EndReason::ApiServerUnreachable, format!("the pods could not be listed in time: {error}")));
                }
            }
        };
        let policy = policy(&observed, settings);
        let input = Input {
            observed: &observed,
            settings,
            policy: &policy,
            pods: &pods,
            daemon_sets: &DaemonSets::new(),
            own: &self.memory.own,
            now: self.now(),
        };
        let findings = preflight(input);
        for finding in &findings {
            self.record(Occurrence::Found { finding }).await;
        }
        let blocking: Vec<&Finding> = findings.iter().filter(|finding| finding.severity == Severity::Blocking).collect();
        if may_begin(&findings) {
            let message = format!("preflight: {} nodes, {} pods on them, {} warnings", nodes.len(), pods.len(), findings.len());
            return Ok(Ended::new(EndReason::PreflightPassed, message));
        }
        let named: Vec<String> = blocking.iter().take(NAMED).map(ToString::to_string).collect();
        let more = if blocking.len() > NAMED { format!("; and {} more", blocking.len() - NAMED) } else { String::new() };
        let reasons = blocking.iter().take(NAMED).flat_map(|finding| reasons(finding));
        Err(Ended::new(EndReason::PreflightBlocked, format!("the upgrade must not begin: {}{more}", named.join("; "))).with(reasons))
    }
}

/// As the verdict names a finding: the first of its nodes, or the fleet.
fn reasons(finding: &Finding) -> Vec<VerdictReason> {
    let reason = finding.check.name();
    if finding.nodes.is_empty() {
        return vec![VerdictReason::new(None, reason)];
    }
    finding.nodes.iter().take(NAMED_NODES).map(|node| VerdictReason::new(Some(node), reason)).collect()
}
