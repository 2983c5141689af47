//! Who upgrades: exactly one, and with enough time.

use crate::contract::budget::Fleet;
use crate::contract::check::Check;
use crate::contract::count::Count;
use crate::contract::driver::Driver;
use crate::contract::duty::Duty;
use crate::contract::settings::{Mode, Settings};
use crate::rollout::observed::DaemonSet;
use crate::rollout::spec::{driver_daemon_sets, upgrade_policy};

use super::{Draft, View};

/// Environment of k8s-driver-manager by which it evicts the pods that use GPUs …
const GPU_POD_EVICTION: &str = "ENABLE_GPU_POD_EVICTION";
/// … and by which it drains the node where that is not enough.
const AUTO_DRAIN: &str = "ENABLE_AUTO_DRAIN";

pub(super) fn look(view: &View<'_>) -> Vec<Draft> {
    [actors(view), manager(view), mode_change(view), time_budget(view)].into_iter().flatten().collect()
}

/// Who has `autoUpgrade` on, once the release is deployed: one or more objects by name, and those that have it off.
fn automatic(view: &View<'_>) -> (Vec<String>, Vec<String>) {
    let observed = view.observed();
    let driver = view.input.settings.driver;
    let kind = driver.traits().policy_kind;
    let coming = view.coming();
    let drivers = observed.nvidia_drivers.served().into_iter().flatten();
    let live = upgrade_policy(observed, driver).map(|policy| policy.auto_upgrade);
    let uses_drivers = observed.cluster_policy.served().and_then(Option::as_ref).is_some_and(|policy| policy.uses_nvidia_drivers);
    let objects: Vec<(String, bool)> = match coming.auto_upgrade.or(live) {
        // Each NVIDIADriver has a policy of its own, which no values of the chart reach.
        _ if driver == Driver::Gpu && coming.nvidia_drivers.unwrap_or(uses_drivers) => {
            drivers.map(|driver| (format!("NVIDIADriver `{}`", driver.name), driver.upgrade_policy.auto_upgrade)).collect()
        }
        Some(on) => vec![(format!("the {kind}"), on)],
        None => Vec::new(),
    };
    let (on, off): (Vec<_>, Vec<_>) = objects.into_iter().partition(|(_, on)| *on);
    let names = |objects: Vec<(String, bool)>| objects.into_iter().map(|(name, _)| name).collect();
    (names(on), names(off))
}

fn actors(view: &View<'_>) -> Option<Draft> {
    let (on, off) = automatic(view);
    let (check, text) = match view.mode() {
        Mode::Drive if !on.is_empty() => {
            (Check::Actors, format!("autoUpgrade is on in {}, and the hook drives: two would upgrade the same nodes", on.join(", ")))
        }
        Mode::Steer if !off.is_empty() => {
            (Check::Actors, format!("autoUpgrade is off in {}, and the hook only steers: nobody would upgrade the nodes", off.join(", ")))
        }
        Mode::Observe | Mode::Assist if !off.is_empty() => {
            (Check::NobodyUpgrades, format!("autoUpgrade is off in {}: old driver pods run until somebody deletes them", off.join(", ")))
        }
        Mode::Observe | Mode::Assist | Mode::Steer | Mode::Drive => return None,
    };
    Some(Draft::new(check, text))
}

/// What the driver manager would do by itself. What is not set in a DaemonSet is the program's own default, which is to do it; what is not
/// set in the values is the operator's: it evicts and does not drain.
fn evicts<'a>(environment: impl Fn(&str) -> Option<&'a String>, live: bool) -> Vec<&'static str> {
    let on = |name: &str, default: bool| environment(name).map_or(default, |value| value != "false");
    [(GPU_POD_EVICTION, true), (AUTO_DRAIN, live)].into_iter().filter(|(name, default)| on(name, *default)).map(|(name, _)| name).collect()
}

/// Whether the driver manager of this DaemonSet leaves evictions to a hook, as in mode `drive`.
pub fn leaves_evictions(daemon_set: &DaemonSet) -> bool {
    evicts(|name| daemon_set.manager_environment.get(name), true).is_empty()
}

/// The same for the live DaemonSets; `None`: there are none.
fn live_evicts(view: &View<'_>) -> Option<Vec<&'static str>> {
    let daemon_sets = driver_daemon_sets(view.observed(), Driver::Gpu);
    let all = daemon_sets.iter().map(|daemon_set| evicts(|name| daemon_set.manager_environment.get(name), true));
    all.max_by_key(Vec::len)
}

fn coming_evicts(view: &View<'_>) -> Option<Vec<&'static str>> {
    view.coming().manager_environment.as_ref().map(|environment| evicts(|name| environment.get(name), false))
}

fn manager(view: &View<'_>) -> Option<Draft> {
    if view.mode() != Mode::Drive || view.input.settings.driver != Driver::Gpu {
        return None;
    }
    let found = coming_evicts(view).or_else(|| live_evicts(view)).filter(|found| !found.is_empty())?;
    let text = format!("the driver manager evicts by itself ({}), and the hook drives", found.join(", "));
    Some(Draft::new(Check::ManagerEviction, text))
}

fn mode_change(view: &View<'_>) -> Option<Draft> {
    if view.input.settings.driver != Driver::Gpu {
        return None;
    }
    let (live, coming) = (live_evicts(view)?, coming_evicts(view)?);
    let count = view.nodes.len();
    (live.is_empty() != coming.is_empty()).then(|| {
        let way = if coming.is_empty() { "no longer evicts" } else { "evicts again" };
        Draft::new(Check::ModeChange, format!("the driver manager {way} by itself: the driver pods of all {count} nodes are replaced once"))
    })
}

/// The Job that waits for the rollout: its budget in seconds, and what to set. `None`: nobody says which it is.
fn waits(settings: &Settings) -> Option<(u64, String)> {
    if settings.has(Duty::Settle) {
        return Some((settings.budget_seconds, "set rollout.budgetSeconds".to_owned()));
    }
    let waits = settings.preflight.waits.as_ref()?;
    let release = &waits.release;
    Some((
        waits.budget_seconds,
        format!("release {release} waits for them: set its rollout.budgetSeconds, and rollout.preflight.waits.budgetSeconds here,"),
    ))
}

fn time_budget(view: &View<'_>) -> Option<Draft> {
    let (settings, policy) = (view.input.settings, view.input.policy);
    let nodes = view.nodes.len();
    let (has, remedy) = waits(settings).filter(|_| nodes > 0)?;
    let vendors = || Fleet {
        nodes,
        max_parallel: policy.max_parallel_upgrades,
        max_unavailable: policy.max_unavailable.unwrap_or(Count::Percent(100)),
        per_node_seconds: settings.per_node_seconds,
        soak_seconds: settings.upgrade.soak_seconds,
    };
    let decides = settings.mode.decides();
    let fleet = if decides { settings.upgrade.fleet(nodes, settings.per_node_seconds) } else { vendors() };
    let needed = fleet.budget_seconds();
    (needed > has).then(|| {
        Draft::new(
            Check::TimeBudget,
            format!(
                "{nodes} nodes, {} at a time and {} s each, need a budget of {needed} s, and it is {has} s: {remedy} to {needed}",
                fleet.parallel(),
                fleet.per_node_seconds
            ),
        )
    })
}
