//! Checks a cluster for configuration problems, even if no rollout is in progress. Pure: the input
//! is a [`RolloutSnapshot`] and the [`RolloutStatus`] that was computed from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use contract::exit::ExitCode;
use contract::settings::{Mode, Reroll};
use contract::task::Task;
use observed::ObservedNode;
use planner::drive_upgrade::record::read;
use planner::hold;
use planner::policies::{self, LivePolicy, NodePool};
use planner::reason::Reason;

use super::hold_status::{HoldStatus, is_attended, is_left_by_pause};
use super::observe::RolloutSnapshot;
use super::remedy::Remedy;
use super::status::{NodeRow, NodeStage, PluginCondition, RolloutStatus};

mod left_policies;
mod report;

pub use left_policies::left_policies;
pub use report::{ComponentSummary, DoctorReport};

/// A pause that is older than this was probably forgotten.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(24);

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DoctorSeverity {
    /// Something does not work now.
    Problem,
    /// Something will not work, or is probably not intended.
    Warning,
}

/// A problem or a warning, with its nodes and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorFinding {
    /// The constant name of the check or lint.
    pub check: &'static str,
    /// The severity.
    pub severity: DoctorSeverity,
    /// The affected nodes; absent: the finding is not about single nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// What was found, for people.
    pub text: String,
    /// What to do.
    pub remedy: Remedy,
}

impl DoctorFinding {
    /// Creates a finding about these nodes.
    pub fn new(
        check: &'static str,
        severity: DoctorSeverity,
        nodes: Vec<String>,
        text: impl Into<String>,
        remedy: Remedy,
    ) -> Self {
        Self { check, severity, nodes, text: text.into(), remedy }
    }
}

/// Runs all checks on one rollout.
pub fn examine(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Vec<DoctorFinding> {
    let checks = [
        stale_plugins,
        failed_nodes,
        slots,
        limits,
        upgrades_off,
        unattended_cordons,
        broken_operands,
        gpus_not_offered,
        fleet_problem,
        forgotten_cordons,
        forgotten_skips,
        forgotten_holds,
        left_holds,
        forgotten_pause,
        last_run,
    ];
    let mut findings: Vec<DoctorFinding> =
        checks.into_iter().filter_map(|check| check(snapshot, status)).collect();
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn nodes(status: &RolloutStatus, which: impl Fn(&&NodeRow) -> bool) -> Vec<String> {
    status.nodes.iter().filter(which).map(|row| row.node.clone()).collect()
}

/// Finds plugins that serve a driver that is no longer loaded. Pods that start there get devices
/// that do not work.
fn stale_plugins(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    let stale = nodes(status, |row| row.plugin == Some(PluginCondition::Stale));
    // A running hook replaces them within seconds after their driver is ready.
    let is_handled = snapshot.phase().has_job() && snapshot.settings.dra.reroll == Reroll::Auto;
    if stale.is_empty() || is_handled && snapshot.settings.has(Task::Reroll) {
        return None;
    }
    let remedy = Remedy::words(
        "deploy the bundle again: its hook replaces the plugins one by one; without a bundle, delete the plugin pods of one node, wait until its new pods are ready, and run doctor again for the next node",
    );
    // Only those of one node: a user would run all printed commands at once.
    let pods = stale.first().into_iter().flat_map(|node| snapshot.observed.dra.pods.on(node));
    let remedy = pods.fold(remedy, |remedy, pod| {
        remedy.run(format!("kubectl delete pod -n {} {}", pod.namespace, pod.name))
    });
    let text = "the DRA plugin started before the loaded driver, and serves a driver that is no longer loaded";
    Some(DoctorFinding::new("stale-plugins", DoctorSeverity::Problem, stale, text, remedy))
}

fn failed_nodes(_: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    let failed = nodes(status, |row| row.stage == NodeStage::Failed);
    let remedy = failed.iter().take(3).fold(
        Remedy::words("find out why the upgrade failed and remove the cause, then run gpu-rollout retry for the nodes"),
        |remedy, node| remedy.inspect(format!("gpu-rollout why {node}")),
    );
    (!failed.is_empty()).then(|| {
        DoctorFinding::new(
            "failed-nodes",
            DoctorSeverity::Problem,
            failed,
            "the upgrade of these nodes has failed",
            remedy,
        )
    })
}

/// Finds pools whose slots are all held by failed nodes: for NVIDIA's controller, a failed node is
/// still in progress in its pool.
fn slots(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    if snapshot.settings.mode.decides() {
        return None;
    }
    let in_pool = |pool: &NodePool, row: &NodeRow| {
        let node = snapshot.observed.nodes.get(&row.node);
        pool.owner.is_none() || node.and_then(|node| snapshot.pools.pool_of(node)) == Some(pool)
    };
    let stalled = snapshot.pools.iter().find_map(|pool| {
        let limit = pool.policy.max_parallel_upgrades as usize;
        let failed = nodes(status, |row| row.stage == NodeStage::Failed && in_pool(pool, row));
        (limit > 0 && failed.len() >= limit).then_some((pool, limit, failed))
    });
    let (pool, limit, failed) = stalled?;
    let (of, field) = match &pool.owner {
        Some(owner) => (format!(" for NVIDIADriver `{owner}`"), fields(snapshot, owner)),
        None => (
            String::new(),
            format!("{}.maxParallelUpgrades", snapshot.settings.driver.traits().upgrade_policy),
        ),
    };
    let remedy = Remedy::words(format!("repair the failed nodes, or raise {field}"));
    let text = format!(
        "failed nodes hold all {limit} slots of NVIDIA's controller{of}, so it starts no other upgrade"
    );
    Some(DoctorFinding::new(
        "slots-held-by-failures",
        DoctorSeverity::Problem,
        failed,
        text,
        remedy,
    ))
}

fn fields(snapshot: &RolloutSnapshot, owner: &str) -> String {
    let live = policies::live(&snapshot.observed, &snapshot.settings)
        .into_iter()
        .find(|live| live.name == owner);
    live.map_or_else(String::new, |live| live.fields.max_parallel.to_owned())
}

/// Finds limits that allow no upgrade to start.
fn limits(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    snapshot.pools.iter().find_map(|pool| limits_of(snapshot, status, pool))
}

fn limits_of(
    snapshot: &RolloutSnapshot,
    status: &RolloutStatus,
    pool: &NodePool,
) -> Option<DoctorFinding> {
    let in_pool = |node: &ObservedNode| snapshot.pools.pool_of(node) == Some(pool);
    let all =
        nodes(status, |row| snapshot.observed.nodes.get(&row.node).is_some_and(in_pool)).len();
    let limit = pool.policy.max_unavailable?.resolve(all);
    // Nodes in progress are what the limit is for.
    let is_away = |node: &ObservedNode| in_pool(node) && (node.unschedulable || !node.ready);
    let away = nodes(status, |row| {
        row.stage != NodeStage::InProgress
            && snapshot.observed.nodes.get(&row.node).is_some_and(is_away)
    });
    if all == 0 || away.len() < limit {
        return None;
    }
    let of =
        pool.owner.as_ref().map(|owner| format!(" of NVIDIADriver `{owner}`")).unwrap_or_default();
    let text = match limit {
        0 => format!("maxUnavailable{of} resolves to 0 of {all} nodes, so no upgrade can start"),
        limit => {
            format!(
                "cordoned or not ready: {} of {all} nodes; maxUnavailable{of} allows {limit}, so no upgrade can start",
                away.len()
            )
        }
    };
    let remedy = Remedy::words(
        "make the nodes available again, or raise maxUnavailable in the upgrade policy",
    );
    Some(DoctorFinding::new("limits-that-stall", DoctorSeverity::Warning, away, text, remedy))
}

/// Finds upgrades that are off: neither NVIDIA's controller nor a hook replaces drivers. With
/// several policies, names the nodes of those that are off.
fn upgrades_off(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    let driver = snapshot.settings.driver;
    if snapshot.settings.mode == Mode::Drive || snapshot.settings.has(Task::Drive) {
        return None;
    }
    let live = policies::live(&snapshot.observed, &snapshot.settings);
    let off: Vec<&LivePolicy> =
        live.iter().filter(|live| live.policy.stated && !live.policy.auto_upgrade).collect();
    let first = off.first()?;
    let governed = |row: &NodeRow| {
        let node = snapshot.observed.nodes.get(&row.node);
        node.is_some_and(|node| off.iter().any(|live| live.governs(node)))
    };
    let outdated = nodes(status, |row| !row.driver_current && governed(row));
    let traits = driver.traits();
    let objects: Vec<String> = off
        .iter()
        .map(|live| if live.is_pool { live.object() } else { format!("the {}", live.kind) })
        .collect();
    let text = format!(
        "autoUpgrade is off in {}, and no hook has mode `drive`: no driver is upgraded unless you delete its pod",
        objects.join(", ")
    );
    let field = if first.is_pool {
        first.fields.auto_upgrade.to_owned()
    } else {
        format!("{}.autoUpgrade", traits.upgrade_policy)
    };
    let remedy = Remedy::words(format!("set {field}, or deploy a bundle in mode `drive`"));
    let severity =
        if outdated.is_empty() { DoctorSeverity::Warning } else { DoctorSeverity::Problem };
    Some(DoctorFinding::new("auto-upgrade-off", severity, outdated, text, remedy))
}

/// Finds nodes that a hook cordoned, if neither a hook nor `gpu-rollout abort` is running that
/// uncordons them.
fn unattended_cordons(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    if is_attended(snapshot) {
        return None;
    }
    let traits = snapshot.settings.driver.traits();
    let is_ours = |row: &&NodeRow| {
        let node = snapshot.observed.nodes.get(&row.node);
        row.cordoned
            && node.is_some_and(|node| {
                read(node, traits).record().is_some_and(|record| record.cordoned)
            })
    };
    let cordoned = nodes(status, is_ours);
    let remedy = Remedy::words("deploy the bundle again: the hook continues where it stopped; abort only if you will not deploy it: that uncordons the nodes")
        .run("gpu-rollout abort");
    let text = "cordoned by a hook, and no hook is running that uncordons them";
    (!cordoned.is_empty()).then(|| {
        DoctorFinding::new("unattended-cordons", DoctorSeverity::Problem, cordoned, text, remedy)
    })
}

/// Finds operands that do not work.
fn broken_operands(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    let is_broken = |reason: &Reason| {
        matches!(
            reason,
            Reason::OperandNotReady { .. }
                | Reason::OperandMissing { .. }
                | Reason::ToolkitNotReady { .. }
                | Reason::PluginNotReady { .. }
                | Reason::PluginMissing
        )
    };
    waiting_for(snapshot, status, "broken-operands", is_broken)
}

/// Finds nodes that offer no GPU, or fewer than before.
fn gpus_not_offered(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    let is_missing =
        |reason: &Reason| matches!(reason, Reason::GpusNotOffered | Reason::GpusDegraded { .. });
    waiting_for(snapshot, status, "gpus-not-offered", is_missing)
}

/// Finds the nodes that wait for one of these reasons, with the text of the first node. While a
/// hook is running, a condition that resolves itself is part of the rollout and not a finding.
fn waiting_for(
    snapshot: &RolloutSnapshot,
    status: &RolloutStatus,
    check: &'static str,
    is_meant: impl Fn(&Reason) -> bool,
) -> Option<DoctorFinding> {
    let has_job = snapshot.phase().has_job();
    let decided = snapshot
        .decision
        .waits
        .iter()
        .chain(snapshot.decision.ended.iter())
        .filter(|wait| is_meant(&wait.reason));
    let meant: BTreeMap<Arc<str>, &str> =
        decided.filter_map(|wait| Some((wait.node?, wait.reason.name()))).collect();
    let waits = |row: &&NodeRow| {
        // A node that waits only because no hook is running has another reason here.
        let own = row
            .waiting
            .as_ref()
            .filter(|waiting| meant.get(row.node.as_str()) == Some(&waiting.reason));
        own.is_some_and(|waiting| !(has_job && waiting.resolves_itself))
    };
    let first = status.nodes.iter().find(waits)?;
    let waiting = first.waiting.as_ref()?;
    let affected = nodes(status, waits);
    let more = if affected.len() > 1 { format!(" ({})", first.node) } else { String::new() };
    let remedy = waiting.remedies().first().map(|remedy| (*remedy).clone()).unwrap_or_default();
    Some(DoctorFinding::new(
        check,
        DoctorSeverity::Problem,
        affected,
        format!("{}{more}", waiting.text),
        remedy,
    ))
}

/// Finds what keeps the operator, and with it the whole fleet, waiting.
fn fleet_problem(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    let has_job = snapshot.phase().has_job();
    let waiting = status.fleet.iter().find(|waiting| !(has_job && waiting.resolves_itself))?;
    let severity =
        if waiting.resolves_itself { DoctorSeverity::Warning } else { DoctorSeverity::Problem };
    Some(DoctorFinding::new(
        "fleet-waits",
        severity,
        Vec::new(),
        waiting.text.clone(),
        waiting.remedy.clone(),
    ))
}

fn forgotten_cordons(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    let idle = |row: &&NodeRow| {
        row.cordoned
            && matches!(row.stage, NodeStage::Done | NodeStage::Pending | NodeStage::Deferred)
    };
    let cordoned = nodes(status, idle);
    let by: Vec<String> = cordoned
        .iter()
        .filter_map(|node| {
            let touch = snapshot.times.get(node)?.cordon.as_ref()?;
            Some(format!("{node} by {} {:.0}", touch.manager, touch.at))
        })
        .collect();
    let by = if by.is_empty() { String::new() } else { format!(": {}", by.join(", ")) };
    let text = format!("cordoned, and no upgrade is in progress there{by}");
    let remedy = cordoned.iter().fold(
        Remedy::words("uncordon the nodes, unless the cordons are still needed"),
        |remedy, node| remedy.run(format!("kubectl uncordon {node}")),
    );
    (!cordoned.is_empty()).then(|| {
        DoctorFinding::new("idle-cordons", DoctorSeverity::Warning, cordoned, text, remedy)
    })
}

fn forgotten_skips(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    let driver = snapshot.settings.driver;
    let label = driver.traits().skip_label;
    let skipped = nodes(status, |row| {
        let node = snapshot.observed.nodes.get(&row.node);
        node.is_some_and(|node| {
            node.labels.get(label).is_some_and(|value| value == "true")
                && !hold::is_held(node, driver)
        })
    });
    let text =
        format!("label {label}=true: these nodes keep their current driver, whatever you deploy");
    let remedy = Remedy::words("undo the skip, unless it is still needed")
        .run(format!("gpu-rollout unskip {}", skipped.join(" ")));
    (!skipped.is_empty()).then(|| {
        DoctorFinding::new("skipped-nodes", DoctorSeverity::Warning, skipped, text, remedy)
    })
}

/// Finds nodes that a hook holds, if no hook is running: the deployment ended before the hook after
/// the operator's release.
fn forgotten_holds(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    if is_attended(snapshot) {
        return None;
    }
    let held = nodes(status, |row| row.held.is_some());
    let mut holds: Vec<&HoldStatus> =
        status.nodes.iter().filter_map(|row| row.held.as_ref()).collect();
    holds.sort();
    let oldest = holds.iter().filter_map(|held| held.since).min();
    let since = oldest.map(|since| format!(", since {since:.0}")).unwrap_or_default();
    holds.dedup_by_key(|held| held.text());
    let by: Vec<String> = holds.iter().map(|held| held.text()).collect();
    let text = format!(
        "{}{since}: NVIDIA's controller does not upgrade these nodes, and no hook Job is running that releases them",
        by.join("; ")
    );
    (!held.is_empty()).then(|| {
        let remedy = HoldStatus::remedy(snapshot.target.deployer.as_ref());
        DoctorFinding::new("held-nodes", DoctorSeverity::Warning, held, text, remedy)
    })
}

/// Finds nodes that a pause held, if the pause is over and no running hook releases them.
fn left_holds(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    let is_left = |row: &&NodeRow| {
        let node = snapshot.observed.nodes.get(&row.node);
        node.is_some_and(|node| is_left_by_pause(snapshot, node))
    };
    let left = nodes(status, is_left);
    let text = "held by a pause that is over: NVIDIA's controller does not upgrade these nodes, and no hook Job is running that releases them";
    (!left.is_empty()).then(|| {
        let remedy = HoldStatus::left_by_pause();
        DoctorFinding::new("left-holds", DoctorSeverity::Warning, left, text, remedy)
    })
}

/// Finds an old pause. One that ends by itself was not forgotten.
fn forgotten_pause(snapshot: &RolloutSnapshot, status: &RolloutStatus) -> Option<DoctorFinding> {
    let is_old = |at: &Timestamp| snapshot.now.duration_since(*at) > FORGOTTEN;
    let mut endless = status.pauses.iter().filter(|pause| pause.until.is_none());
    let (old, at) = endless.find_map(|pause| Some((pause, pause.at.filter(|at| is_old(at))?)))?;
    let text = format!(
        "paused by {} at {at:.0}: no further upgrade starts until `gpu-rollout resume`",
        old.by
    );
    let remedy = Remedy::words("resume if the pause is no longer needed").run("gpu-rollout resume");
    Some(DoctorFinding::new("old-pause", DoctorSeverity::Warning, Vec::new(), text, remedy))
}

/// Finds a failed last run of the hook.
fn last_run(snapshot: &RolloutSnapshot, _: &RolloutStatus) -> Option<DoctorFinding> {
    let verdict = snapshot
        .record
        .run
        .as_ref()?
        .verdict
        .as_ref()
        .filter(|verdict| verdict.code != ExitCode::Success)?;
    let text = format!(
        "the last run ended {:.0} with {} (exit {}): {}",
        verdict.at,
        verdict.code.name(),
        verdict.code.number(),
        verdict.message
    );
    let remedy = Remedy::words(
        "look up the code in docs/exit-codes.md, remove the cause, then deploy the bundle again",
    )
    .inspect("gpu-rollout report");
    Some(DoctorFinding::new("last-run-failed", DoctorSeverity::Problem, Vec::new(), text, remedy))
}
