//! Task `preflight`: checks, before the operator gets the new spec, whether anything would stop the
//! upgrade. It only reads and reports findings.

use std::collections::BTreeSet;

use jiff::Timestamp;

use contract::check::CheckSeverity;
use contract::count::with_noun;
use contract::record::VerdictReason;
use kube_io::call::CallError;
use kube_io::list::list_workloads;
use kube_io::repeated_warning::RepeatedWarning;
use observed::workload::Workload;
use planner::memory::RunMemory;
use planner::node::driver_nodes;
use planner::pods::filter::DaemonSetLiveness;
use planner::preflight::{PreflightFinding, PreflightInput, can_start, policy, preflight};

use super::refused_request_timers::refused;
use super::{RETRY, StepEnd, interrupted};
use crate::run_caches::RunCaches;
use crate::run_events::RunEvents;
use crate::{EndReason, HookProcess, RunEnd};

/// How many findings a message names. It only counts the others.
const NAMED: usize = 3;
/// How many nodes of a finding are in the reasons of the verdict.
const NAMED_NODES: usize = 5;

/// Checks the live cluster and reports each finding. `Err`: a finding blocks the upgrade, or the
/// check cannot be completed.
pub(super) async fn run_preflight(
    hook: &HookProcess,
    caches: &RunCaches<'_>,
    memory: &RunMemory,
    events: &RunEvents,
) -> Result<RunEnd, StepEnd> {
    let settings = &hook.settings;
    let observed = caches.observed();
    let nodes: BTreeSet<String> =
        driver_nodes(&observed, settings.driver).map(|node| node.name.clone()).collect();
    let pods = list_pods(hook, &nodes, memory.deadline).await?;
    let policy = policy(&observed, settings);
    let input = PreflightInput {
        observed: &observed,
        settings,
        policy: &policy,
        pods: &pods,
        daemon_sets: &DaemonSetLiveness::new(),
        own: &memory.own,
        now: hook.clock.now(),
    };
    let findings = preflight(input);
    for finding in &findings {
        events.preflight_finding(finding).await;
    }
    let blocking: Vec<&PreflightFinding> =
        findings.iter().filter(|finding| finding.severity == CheckSeverity::Blocking).collect();
    if can_start(&findings) {
        let message = format!(
            "preflight passed: {} with {}, {}",
            with_noun(nodes.len(), "node"),
            with_noun(pods.len(), "pod"),
            with_noun(findings.len(), "warning")
        );
        return Ok(RunEnd::new(EndReason::PreflightPassed, message));
    }
    let named: Vec<String> = blocking.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if blocking.len() > NAMED {
        format!("; and {} more", blocking.len() - NAMED)
    } else {
        String::new()
    };
    let reasons = blocking.iter().take(NAMED).flat_map(|finding| reasons(finding));
    let message = format!("the upgrade must not start: {}{more}", named.join("; "));
    Err(StepEnd::Verdict(RunEnd::new(EndReason::PreflightBlocked, message).with_reasons(reasons)))
}

/// Lists the pods on these nodes. Repeats failed requests until the deadline.
async fn list_pods(
    hook: &HookProcess,
    nodes: &BTreeSet<String>,
    deadline: Timestamp,
) -> Result<Vec<Workload>, RunEnd> {
    let mut warning = RepeatedWarning::new("cannot list the pods; retrying", "listed the pods");
    loop {
        match list_workloads(&hook.client, nodes, Some).await {
            Ok(pods) => {
                warning.end();
                return Ok(pods);
            }
            Err(CallError::Forbidden(message)) => return Err(refused(&message)),
            Err(_) if hook.shutdown.is_requested() => return Err(interrupted()),
            Err(error) if hook.clock.now() < deadline => {
                warning.note(&error);
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => {
                return Err(RunEnd::new(
                    EndReason::ApiServerUnreachable,
                    format!("cannot list the pods in time: {error}"),
                ));
            }
        }
    }
}

/// Returns the reasons of the verdict for a finding: one for each of its first nodes, or one for
/// the fleet.
fn reasons(finding: &PreflightFinding) -> Vec<VerdictReason> {
    let reason = finding.check.name();
    if finding.nodes.is_empty() {
        return vec![VerdictReason::new(None, reason)];
    }
    finding
        .nodes
        .iter()
        .take(NAMED_NODES)
        .map(|node| VerdictReason::new(Some(node), reason))
        .collect()
}
