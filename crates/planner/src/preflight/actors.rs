//! Checks that exactly one controller upgrades the nodes, and has enough time.

use crate::policies::{self, LivePolicy, NodePools, controller_pace};
use crate::spec::actor::{PolicyMismatch, mismatch};
use crate::spec::driver_daemon_sets;
use contract::budget::FleetPace;
use contract::check::PreflightCheck;
use contract::count::with_noun;
use contract::driver::Driver;
use contract::policy::Policy;
use contract::settings::{Mode, Settings};
use contract::task::Task;
use observed::ObservedDaemonSet;

use super::{DraftFinding, PreflightView};

/// Environment variable of k8s-driver-manager: it evicts the pods that use GPUs …
const GPU_POD_EVICTION: &str = "ENABLE_GPU_POD_EVICTION";
/// … and environment variable for a drain of the node if that is not sufficient.
const AUTO_DRAIN: &str = "ENABLE_AUTO_DRAIN";

pub(super) fn check(view: &PreflightView<'_>) -> Vec<DraftFinding> {
    let others = [manager(view), mode_change(view), time_budget(view)].into_iter().flatten();
    actors(view).into_iter().chain(others).collect()
}

/// Returns findings about who upgrades the nodes.
fn actors(view: &PreflightView<'_>) -> Vec<DraftFinding> {
    let coming = policies::coming(view.observed(), view.input.settings);
    let named = |on: bool| {
        let objects = coming.iter().filter(|live| live.policy.auto_upgrade == on);
        // There is one ClusterPolicy and one NicClusterPolicy.
        objects
            .map(|live| if live.is_pool { live.object() } else { format!("the {}", live.kind) })
            .collect::<Vec<_>>()
    };
    let (on, off) = (named(true), named(false));
    let (check, text) = match view.mode() {
        Mode::Drive if !on.is_empty() => (
            PreflightCheck::Actors,
            format!(
                "autoUpgrade is on in {}, but the hook runs in mode `drive`: both would upgrade the same nodes",
                on.join(", ")
            ),
        ),
        Mode::Steer if !off.is_empty() => (
            PreflightCheck::Actors,
            format!(
                "autoUpgrade is off in {}, but the hook runs in mode `steer`, in which the operator upgrades the nodes: no node would be upgraded",
                off.join(", ")
            ),
        ),
        Mode::Observe | Mode::Assist if !off.is_empty() => (
            PreflightCheck::AutoUpgradeOff,
            format!(
                "autoUpgrade is off in {}: old driver pods run until a user deletes them",
                off.join(", ")
            ),
        ),
        Mode::Steer => return open_limits(view, &coming),
        Mode::Observe | Mode::Assist | Mode::Drive => return Vec::new(),
    };
    vec![DraftFinding::new(check, text)]
}

/// Returns findings about limits with which NVIDIA's controller would start several nodes if the
/// hook and its holds were lost.
fn open_limits(view: &PreflightView<'_>, coming: &[LivePolicy]) -> Vec<DraftFinding> {
    let found = |live: &LivePolicy| {
        let PolicyMismatch { field, expected, found } =
            mismatch(live, view.observed(), view.input.settings)?;
        let text = format!(
            "{field} of {} is `{found}`, but in mode `steer` it must be `{expected}`, so that the operator upgrades one node at a time if the hook is gone",
            live.object()
        );
        Some(DraftFinding::new(PreflightCheck::Actors, text))
    };
    coming.iter().filter_map(found).collect()
}

/// Returns the evictions that the driver manager performs. Variables that a DaemonSet does not set
/// have the program's own default, which is on. Variables that the values do not set have the
/// operator's: it evicts, and does not drain.
fn evicts<'a>(environment: impl Fn(&str) -> Option<&'a String>, live: bool) -> Vec<&'static str> {
    let on =
        |name: &str, default: bool| environment(name).map_or(default, |value| value != "false");
    [(GPU_POD_EVICTION, true), (AUTO_DRAIN, live)]
        .into_iter()
        .filter(|(name, default)| on(name, *default))
        .map(|(name, _)| name)
        .collect()
}

/// Returns whether the driver manager of this DaemonSet leaves evictions to a hook, as in mode
/// `drive`.
pub fn leaves_evictions(daemon_set: &ObservedDaemonSet) -> bool {
    evicts(|name| daemon_set.manager_environment.get(name), true).is_empty()
}

/// Returns the evictions of the live DaemonSets; `None` if there are none.
fn live_evicts(view: &PreflightView<'_>) -> Option<Vec<&'static str>> {
    let daemon_sets = driver_daemon_sets(view.observed(), Driver::Gpu);
    let all = daemon_sets
        .iter()
        .map(|daemon_set| evicts(|name| daemon_set.manager_environment.get(name), true));
    all.max_by_key(Vec::len)
}

fn coming_evicts(view: &PreflightView<'_>) -> Option<Vec<&'static str>> {
    view.coming()
        .manager_environment
        .as_ref()
        .map(|environment| evicts(|name| environment.get(name), false))
}

fn manager(view: &PreflightView<'_>) -> Option<DraftFinding> {
    if view.mode() != Mode::Drive || view.input.settings.driver != Driver::Gpu {
        return None;
    }
    let found =
        coming_evicts(view).or_else(|| live_evicts(view)).filter(|found| !found.is_empty())?;
    let text = format!(
        "the driver manager evicts pods ({}), but in mode `drive` only the hook may evict pods",
        found.join(", ")
    );
    Some(DraftFinding::new(PreflightCheck::ManagerEviction, text))
}

fn mode_change(view: &PreflightView<'_>) -> Option<DraftFinding> {
    if view.input.settings.driver != Driver::Gpu {
        return None;
    }
    let (live, coming) = (live_evicts(view)?, coming_evicts(view)?);
    let count = view.nodes.len();
    (live.is_empty() != coming.is_empty()).then(|| {
        let way = if coming.is_empty() { "stops evicting" } else { "starts evicting" };
        DraftFinding::new(
            PreflightCheck::ModeChange,
            format!("the driver manager {way} pods: the driver pods of all {count} nodes are replaced once"),
        )
    })
}

/// Returns the time budget in seconds of the Job that waits for the rollout, and how to set it;
/// `None` if the Job is unknown.
fn waits(settings: &Settings) -> Option<(u64, String)> {
    if settings.has(Task::Settle) {
        return Some((settings.budget_seconds, "set rollout.budgetSeconds".to_owned()));
    }
    let waits = settings.preflight.waits.as_ref()?;
    let release = &waits.release;
    Some((
        waits.budget_seconds,
        format!(
            "release {release} waits for them: set rollout.budgetSeconds of that release, and rollout.preflight.waits.budgetSeconds of this one,"
        ),
    ))
}

fn time_budget(view: &PreflightView<'_>) -> Option<DraftFinding> {
    let (settings, policy) = (view.input.settings, view.input.policy);
    let nodes = view.nodes.len();
    let (has, remedy) = waits(settings).filter(|_| nodes > 0)?;
    let soak_seconds = settings.upgrade.soak_seconds;
    let vendors = |policy: &Policy, nodes: usize| FleetPace {
        soak_seconds,
        ..controller_pace(policy, settings, nodes)
    };
    let decides = settings.mode.decides();
    let pools = NodePools::in_force(view.observed(), settings);
    let fleet = if decides {
        settings.upgrade.fleet(nodes, settings.per_node_seconds)
    } else if pools.is_split() {
        // The nodes of different NVIDIADrivers are upgraded in parallel: the slowest pool counts.
        let sizes = pools.sizes(view.nodes.values().copied());
        let fleets = sizes.into_iter().map(|(pool, nodes)| vendors(&pool.policy, nodes));
        fleets.max_by_key(|fleet| fleet.budget_seconds())?
    } else {
        vendors(policy, nodes)
    };
    let nodes = fleet.nodes;
    let needed = fleet.budget_seconds();
    (needed > has).then(|| {
        DraftFinding::new(
            PreflightCheck::TimeBudget,
            format!(
                "the upgrade of {}, {} at a time and {} s each, needs a time budget of {needed} s, but it is {has} s: {remedy} to {needed}",
                with_noun(nodes, "node"),
                fleet.parallel(),
                fleet.per_node_seconds
            ),
        )
    })
}
