//! Task `preflight`: looks, before the operator sees the new spec, for what would stop its upgrade. It reads, and says what it found.

use std::collections::BTreeSet;

use crate::occurrence::Occurrence;
use crate::{EndReason, RunEnd};
use contract::check::CheckSeverity;
use contract::record::VerdictReason;
use kube_io::call::CallError;
use kube_io::list::list_workloads;
use planner::node::driver_nodes;
use planner::pods::filter::DaemonSetLiveness;
use planner::preflight::{PreflightFinding, PreflightInput, may_begin, policy, preflight};

use super::{RETRY, RunLoop, interrupted, refused};

/// How many findings a message names before it only counts the rest.
const NAMED: usize = 3;
/// How many nodes of a finding the verdict names for programs.
const NAMED_NODES: usize = 5;

impl RunLoop<'_> {
    /// Looks at the cluster as it is. The message, or the end if something blocks. Findings are logged, and told as events of the Job.
    pub(super) async fn preflight(&mut self) -> Result<RunEnd, RunEnd> {
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
                    return Err(RunEnd::new(EndReason::ApiServerUnreachable, format!("the pods could not be listed in time: {error}")));
                }
            }
        };
        let policy = policy(&observed, settings);
        let input = PreflightInput {
            observed: &observed,
            settings,
            policy: &policy,
            pods: &pods,
            daemon_sets: &DaemonSetLiveness::new(),
            own: &self.memory.own,
            now: self.now(),
        };
        let findings = preflight(input);
        for finding in &findings {
            self.record(Occurrence::Found { finding }).await;
        }
        let blocking: Vec<&PreflightFinding> = findings.iter().filter(|finding| finding.severity == CheckSeverity::Blocking).collect();
        if may_begin(&findings) {
            let message = format!("preflight: {} nodes, {} pods on them, {} warnings", nodes.len(), pods.len(), findings.len());
            return Ok(RunEnd::new(EndReason::PreflightPassed, message));
        }
        let named: Vec<String> = blocking.iter().take(NAMED).map(ToString::to_string).collect();
        let more = if blocking.len() > NAMED { format!("; and {} more", blocking.len() - NAMED) } else { String::new() };
        let reasons = blocking.iter().take(NAMED).flat_map(|finding| reasons(finding));
        Err(RunEnd::new(EndReason::PreflightBlocked, format!("the upgrade must not begin: {}{more}", named.join("; ")))
            .with_reasons(reasons))
    }
}

/// As the verdict names a finding: the first of its nodes, or the fleet.
fn reasons(finding: &PreflightFinding) -> Vec<VerdictReason> {
    let reason = finding.check.name();
    if finding.nodes.is_empty() {
        return vec![VerdictReason::new(None, reason)];
    }
    finding.nodes.iter().take(NAMED_NODES).map(|node| VerdictReason::new(Some(node), reason)).collect()
}
