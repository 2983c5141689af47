//! Creates the blocking condition of a node or the fleet from the engine's reason.

use jiff::{SignedDuration, Timestamp};

use contract::exit::ExitCode;
use contract::settings::{Reroll, Settings};
use contract::user_request::{RequestCommand, UserRequest};
use nvidia_upgrade::explain::ControllerWait;
use observed::ObservedNode;
use observed::pause::pauses_in_force;
use planner::progress::NodeProgress;
use planner::reason::upgrade::UpgradeReason;
use planner::reason::{Reason, Wait};

use super::super::deploy_again::automatic_retry;
use super::super::hold_status::{HoldStatus, is_attended, is_left_by_pause};
use super::super::observe::RolloutSnapshot;
use super::super::obstacle::{PodObstacle, obstacles};
use super::super::remedy::{Remedy, RemedyContext, remedy_for};
use super::super::run_phase::RunPhase;
use super::super::wait_start::{WaitStart, WaitStartSources};
use super::BlockingCondition;
use super::proof::is_open_halt;
use super::stalled_test::cannot_pass;

/// The reason of nodes that wait for a hook while none is running.
pub(super) const NOT_RUNNING: &str = "NotRunning";
/// The reason of nodes that a hook holds until the operator is upgraded.
const HELD: &str = "Held";

/// How long a node may be NotReady until it needs action: a reboot takes minutes, and Kubernetes
/// itself waits this long before it evicts the node's pods (`tolerationSeconds` of the admission
/// plugin DefaultTolerationSeconds).
const REBOOT: SignedDuration = SignedDuration::from_secs(300);

/// Returns whether the node has been NotReady for so short a time that it may come back by itself.
fn may_be_rebooting(node: &ObservedNode, now: Timestamp) -> bool {
    !node.ready && node.ready_since.is_some_and(|since| now.duration_since(since) <= REBOOT)
}

/// Describes what a node waits for.
pub(super) fn node(
    snapshot: &RolloutSnapshot,
    sources: &WaitStartSources<'_>,
    progress: &NodeProgress<'_>,
    wait: &Wait,
) -> BlockingCondition {
    let (node, reason) = (progress.node, &*wait.reason);
    let since = sources.find(
        node,
        reason,
        snapshot.record.nodes.get(&node.name),
        seen_since(wait, snapshot),
    );
    let test = snapshot.observed.acceptance.on(&node.name).next();
    let lasts = !progress.moves || cannot_pass(reason, test, since.at, snapshot.now);
    let mut waiting = BlockingCondition {
        reason: reason.name(),
        text: reason.to_string(),
        since,
        resolves_itself: reason.resolves_itself(),
        until: reason.ends_at(),
        stalled: reason.resolves_itself() && lasts && !may_be_rebooting(node, snapshot.now),
        blocked_by: blocked_by(reason),
        remedy: node_remedy(snapshot, sources, node, reason),
        obstacles: node_obstacles(snapshot, node, reason),
        whole_fleet: false,
    };
    if !waiting.obstacles.is_empty() {
        waiting.remedy = behind(waiting.remedy, reason);
    }
    let decides = snapshot.settings.mode.decides();
    if let Reason::PluginStale { cause } = reason
        && needs_hook_for_plugin(snapshot, reason)
    {
        waiting.describe_stale_plugin(cause);
    }
    let own_state = node.labels.text(snapshot.settings.driver.traits().own_state_label);
    if decides {
        if needs_hook(reason, own_state.is_some_and(|state| !state.is_empty())) {
            waiting.describe_missing_hook(reason, snapshot);
        }
    } else if let Some(held) = HoldStatus::find(snapshot, node) {
        waiting.describe_hold(&held, snapshot);
    } else if reason.asks_why() && is_left_by_pause(snapshot, node) {
        waiting.describe_left_hold();
    } else if let Reason::Upgrading(step) = reason {
        waiting.describe_missing_step(step, &node.name, snapshot);
    }
    waiting
}

fn node_remedy(
    snapshot: &RolloutSnapshot,
    sources: &WaitStartSources<'_>,
    node: &ObservedNode,
    reason: &Reason,
) -> Remedy {
    if !node.ready && matches!(reason, Reason::DriverNotReady { .. }) {
        return Remedy::words(
            "wait: the node is NotReady, and a reboot takes minutes; if it stays so, repair the node",
        )
        .inspect(format!("kubectl describe node {}", node.name));
    }
    let plugins = snapshot.observed.dra.pods.on(&node.name);
    let plugin_pods: Vec<(&str, &str)> =
        plugins.map(|pod| (pod.namespace.as_str(), pod.name.as_str())).collect();
    let proof = snapshot.decision.memory.proof.as_ref();
    let halt = proof.and_then(|proof| proof.halt.as_ref());
    remedy_for(
        reason,
        RemedyContext {
            node: Some(&node.name),
            driver_pod: sources.operands.driver_pod(node).map(|driver| driver.pod.name.as_str()),
            plugin_pods: &plugin_pods,
            settings: &snapshot.settings,
            is_halted: is_open_halt(halt, &snapshot.record.requests),
            has_job: snapshot.phase().has_job(),
        },
    )
}

/// Returns the pods that keep the node from being upgraded, if pods may be the cause.
fn node_obstacles(
    snapshot: &RolloutSnapshot,
    node: &ObservedNode,
    reason: &Reason,
) -> Vec<PodObstacle> {
    let pods = snapshot.observed.workloads.pods.get(&node.name);
    let policy = snapshot.pools.pool_of(node).map_or(&snapshot.policy, |pool| &pool.policy);
    let rules = (&snapshot.observed, &snapshot.settings, policy);
    pods.filter(|_| is_held_by_pods(reason))
        .map(|pods| obstacles(node, pods, rules, snapshot.now))
        .unwrap_or_default()
}

/// Returns whether the reason is a stale plugin that a hook would replace. Only the commands switch
/// the replacement off, because no hook is running.
pub(super) fn needs_hook_for_plugin(snapshot: &RolloutSnapshot, reason: &Reason) -> bool {
    matches!(reason, Reason::PluginStale { .. })
        && snapshot.target.settings.dra.reroll == Reroll::Auto
}

/// Returns what to do if no hook Job is running. After an abort, it says whom to ask first; a
/// deployer that retries must not decide that.
fn deploy_again(snapshot: &RolloutSnapshot) -> Remedy {
    let again = "deploy the bundle again: the rollout continues where it stopped";
    let requests = snapshot.record.requests.iter().rev();
    let mut aborts = requests.filter(|request| request.command == RequestCommand::Abort);
    let phase = snapshot.phase();
    let abort = aborts.next().filter(|_| phase == RunPhase::Aborted);
    if let Some(UserRequest { by, .. }) = abort {
        // A deployer that is not known may retry.
        let deployer = snapshot.target.deployer.as_ref();
        let retries = deployer.is_none_or(|deployer| automatic_retry(deployer).is_some());
        // Of a pause that ends by itself, a hook waits for the end.
        let is_paused =
            pauses_in_force(&snapshot.observed, snapshot.now).any(|pause| pause.until.is_none());
        return Remedy::words(match (is_paused, retries) {
            (true, _) => format!(
                "ask {by} (abort); if the rollout may continue, run gpu-rollout resume, and {again}"
            ),
            (false, true) => format!(
                "run gpu-rollout pause, and ask {by} (abort); if the rollout may continue, run gpu-rollout resume, and {again}"
            ),
            (false, false) => format!("ask {by} (abort), and then {again}"),
        });
    }
    let job = snapshot.target.release.as_deref().and_then(|release| release.split_once('/'));
    match job {
        Some((namespace, name)) if phase == RunPhase::Lost => Remedy::words(format!(
            "look at the Job before the next run deletes it: it shows why it ended; then {again}"
        ))
        .inspect(format!("kubectl describe job -n {namespace} {name}")),
        _ => Remedy::words(again),
    }
}

impl BlockingCondition {
    /// Describes a stale plugin that a hook would replace.
    fn describe_stale_plugin(&mut self, cause: &str) {
        (self.reason, self.resolves_itself) = (NOT_RUNNING, false);
        self.text = format!(
            "the DRA plugin is stale ({cause}), and no hook Job is running that replaces it"
        );
        "deploy the bundle again, or delete the plugin pod of the node"
            .clone_into(&mut self.remedy.text);
    }

    /// Describes a node that a hook holds until the operator is upgraded.
    fn describe_hold(&mut self, held: &HoldStatus, snapshot: &RolloutSnapshot) {
        self.since = WaitStart { at: held.since, by: None };
        if !is_attended(snapshot) {
            (self.reason, self.resolves_itself) = (NOT_RUNNING, false);
            self.text = format!("{}; no hook Job is running{}", held.text(), last(snapshot));
            self.remedy = HoldStatus::remedy(snapshot.target.deployer.as_ref());
        } else if snapshot.phase() != RunPhase::Running {
            // The engine's reason assumes that the hook after the operator's release already runs.
            (self.reason, self.resolves_itself, self.text) = (HELD, true, held.text());
            self.remedy =
                Remedy::words("wait: the hook after the operator's release releases the node");
        }
    }

    /// Describes a node that only the hold of a pause that is over keeps from NVIDIA's controller.
    fn describe_left_hold(&mut self) {
        self.resolves_itself = false;
        "held by a pause that is over: NVIDIA's controller does not upgrade the node"
            .clone_into(&mut self.text);
        self.remedy = HoldStatus::left_by_pause();
    }

    /// Adds that no hook acts, if none does.
    fn describe_missing_hook(&mut self, reason: &Reason, snapshot: &RolloutSnapshot) {
        if let Some(absence) = absence(snapshot.phase()) {
            self.text = format!("{absence}; with a running hook: {}", self.text);
        } else if !snapshot.phase().has_job() {
            (self.reason, self.resolves_itself, self.until) = (NOT_RUNNING, false, None);
            self.text = format!(
                "no hook Job is running{}; with a running hook: {}",
                last(snapshot),
                self.text
            );
            // A run that starts before the window opens would end before it, too.
            if !opens_too_late(reason) || snapshot.phase() == RunPhase::Aborted {
                self.remedy = deploy_again(snapshot);
            }
        }
    }

    /// Describes a node for which only a hook in mode `assist` does the next step, if none is at
    /// work. Without its run, it is unknown since when the node waits, and when the step is due.
    #[expect(clippy::wildcard_enum_match_arm, reason = "others also act on the other steps")]
    fn describe_missing_step(
        &mut self,
        step: &UpgradeReason,
        node: &str,
        snapshot: &RolloutSnapshot,
    ) {
        let again = "deploy the bundle again";
        let (text, remedy) = match step {
            UpgradeReason::Retry { .. } => (
                "failed, and no hook Job is running that retries it",
                Remedy::words(format!(
                    "remove the cause of the failure, then {again}, or retry the node yourself"
                ))
                .run(format!("gpu-rollout retry --yes {node}")),
            ),
            UpgradeReason::Releasing => (
                "has labels or annotations of gpu-rollout, and no hook Job is running that removes them",
                Remedy::words(format!(
                    "{again}; or, if no rollout is to follow, run gpu-rollout abort"
                )),
            ),
            _ => return,
        };
        if let Some(absence) = absence(snapshot.phase()) {
            self.text = format!("{absence}; with a running hook: {}", self.text);
        } else if !snapshot.phase().has_job() {
            (self.reason, self.resolves_itself) = (NOT_RUNNING, false);
            self.text = format!("{text}{}", last(snapshot));
            (self.since, self.remedy) = (WaitStart::default(), remedy);
        }
    }
}

/// Returns whether a run that starts now ends before the next maintenance window opens.
fn opens_too_late(reason: &Reason) -> bool {
    matches!(reason, Reason::Upgrading(UpgradeReason::OutsideWindow { deadline: Some(_), .. }))
}

/// Returns the remedy to apply after the obstacles are removed.
fn behind(remedy: Remedy, reason: &Reason) -> Remedy {
    let failed = matches!(
        reason,
        Reason::UpgradeFailed { .. } | Reason::Upgrading(UpgradeReason::Failed { .. })
    );
    if failed {
        Remedy { text: "then retry the node".to_owned(), inspect: Vec::new(), ..remedy }
    } else {
        remedy
    }
}

/// Describes what the whole fleet waits for.
pub(super) fn fleet(snapshot: &RolloutSnapshot, wait: &Wait) -> BlockingCondition {
    let reason = &*wait.reason;
    let since = WaitStart { at: seen_since(wait, snapshot), by: None };
    BlockingCondition {
        reason: reason.name(),
        text: reason.to_string(),
        stalled: is_overdue(since.at, fleet_wait_limit(&snapshot.settings), snapshot.now),
        since,
        resolves_itself: reason.resolves_itself(),
        until: reason.ends_at(),
        blocked_by: Vec::new(),
        remedy: remedy_for(
            reason,
            RemedyContext {
                node: None,
                driver_pod: None,
                plugin_pods: &[],
                settings: &snapshot.settings,
                is_halted: false,
                has_job: snapshot.phase().has_job(),
            },
        ),
        obstacles: Vec::new(),
        whole_fleet: true,
    }
}

/// Returns the verdict with which the run fails if the whole fleet waits for this reason for too
/// long, or `None` if it does not fail. While the device plugin's configuration is missing, the run
/// continues with drivers and DRA plugins.
pub(super) fn fleet_verdict(reason: &Reason, snapshot: &RolloutSnapshot) -> Option<ExitCode> {
    let is_of_config =
        matches!(reason, Reason::ConfigMissing { .. } | Reason::ConfigNotApplied { .. });
    let ends_run = snapshot.phase().has_job() && reason.ends_run() && !is_of_config;
    ends_run.then(|| reason.exit_code())
}

/// Returns the nodes that hold the slots for which the node waits, and that do not free them by
/// themselves.
#[expect(clippy::wildcard_enum_match_arm, reason = "only a limit has holders")]
fn blocked_by(reason: &Reason) -> Vec<String> {
    let Reason::DriverOutOfDate { why: Some(why), .. } = reason else { return Vec::new() };
    match &**why {
        ControllerWait::Parallel { holders, .. } | ControllerWait::Unavailable { holders, .. } => {
            let stuck = holders.iter().filter(|holder| !holder.can_resolve());
            stuck.map(|holder| holder.node.clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns for how many seconds the fleet may wait: as long as the hook does. Without a hook, the
/// default grace time applies.
pub(super) fn fleet_wait_limit(settings: &Settings) -> u64 {
    if settings.grace_seconds < u64::from(u32::MAX) {
        settings.grace_seconds
    } else {
        Settings::default().grace_seconds
    }
}

/// Returns whether the fleet has waited longer than it may.
fn is_overdue(since: Option<Timestamp>, limit_seconds: u64, now: Timestamp) -> bool {
    let age = since.and_then(|since| u64::try_from(now.duration_since(since).as_secs()).ok());
    age.is_some_and(|age| age > limit_seconds)
}

/// Returns since when this process has seen the wait; `None`: it sees it for the first time.
fn seen_since(wait: &Wait, snapshot: &RolloutSnapshot) -> Option<Timestamp> {
    (wait.since < snapshot.now).then_some(wait.since)
}

/// Returns whether pods on the node may be the cause.
#[expect(clippy::wildcard_enum_match_arm, reason = "only those that are about pods")]
fn is_held_by_pods(reason: &Reason) -> bool {
    match reason {
        Reason::Upgrading(upgrading) => matches!(
            upgrading,
            UpgradeReason::Jobs { .. }
                | UpgradeReason::Evicting { .. }
                | UpgradeReason::Failed { .. }
                | UpgradeReason::Retry { .. }
                | UpgradeReason::Listing
                | UpgradeReason::DriverEnding { .. }
        ),
        Reason::DriverOutOfDate { .. }
        | Reason::UpgradeUnfinished { .. }
        | Reason::UpgradeFailed { .. } => !reason.waits_for_others(),
        _ => false,
    }
}

/// Returns why no hook acts although its Job has not ended.
fn absence(phase: RunPhase) -> Option<&'static str> {
    match phase {
        RunPhase::Starting => Some("the hook is starting"),
        RunPhase::WaitsForLease => Some("the hook is waiting until the Lease is free"),
        RunPhase::BetweenPods => Some("no pod of the hook is running; its Job starts another"),
        RunPhase::Running
        | RunPhase::Never
        | RunPhase::Ended
        | RunPhase::Aborted
        | RunPhase::Lost
        | RunPhase::JobDeleted => None,
    }
}

/// Returns whether only a running hook can end the wait. `is_ours`: the hook has started the node's
/// upgrade.
#[expect(clippy::wildcard_enum_match_arm, reason = "only those that a hook resolves")]
fn needs_hook(reason: &Reason, is_ours: bool) -> bool {
    match reason {
        // A driver pod also ends if a user, or NVIDIA's controller, deletes it.
        Reason::Upgrading(UpgradeReason::DriverEnding { .. }) => is_ours,
        Reason::Upgrading(upgrading) => !matches!(
            upgrading,
            UpgradeReason::Failed { .. }
                | UpgradeReason::NotAccepted { .. }
                | UpgradeReason::Paused { .. }
                | UpgradeReason::ForeignCordon
                | UpgradeReason::Maintenance { .. }
                | UpgradeReason::Requestor
                | UpgradeReason::OtherDriver { .. }
                | UpgradeReason::NewerRecord { .. }
        ),
        Reason::DriverOutOfDate { .. } => true,
        _ => false,
    }
}

/// Returns ` (the last run ended …)`, or an empty string.
fn last(snapshot: &RolloutSnapshot) -> String {
    let verdict = snapshot.record.run.as_ref().and_then(|run| run.verdict.as_ref());
    verdict
        .map(|verdict| {
            format!(" (the last run ended {:.0} with {})", verdict.at, verdict.code.name())
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    /// `status` called a rollout in progress for hours while the operator reported an error.
    #[test]
    fn fleet_wait_beyond_grace_time_is_overdue() {
        let now = Timestamp::UNIX_EPOCH;
        let ago = |seconds| Some(now - SignedDuration::from_secs(seconds));
        for (since, grace_seconds, is_late) in [
            (None, 60, false),
            (ago(60), 60, false),
            (ago(61), 60, true),
            (ago(300), u64::from(u32::MAX), false),
            (ago(301), u64::from(u32::MAX), true),
        ] {
            let limit = fleet_wait_limit(&Settings { grace_seconds, ..Settings::default() });
            assert_eq!(is_overdue(since, limit, now), is_late, "{since:?}");
        }
    }
}
