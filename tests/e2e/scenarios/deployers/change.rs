//! One change that a deployer applies to a cluster, and the results of the hooks.

use anyhow::{Result, ensure};
use jiff::Timestamp;

use crate::harness::audit::Request;
use crate::harness::deployers::{Deployer, Kind, Outcome};
use crate::harness::fleet::DRA_NAMESPACE;
use crate::harness::hook_release::HookRelease;
use crate::harness::stack::Stack;

use super::{fired, hooks};

/// The objects in which a hook reports: its run record, its events, its Lease.
const NOTES: [&str; 3] = ["configmaps", "events", "leases"];

/// The names of the hooks in the tables.
pub(super) const NAMES: [&str; 3] = ["pre", "post", "dra"];

/// Why a hook fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Its own settings or the values of its component have changed.
    Own,
    /// Something else that the hook reads has changed. It reports that, and changes nothing else.
    Others,
    /// Nothing has changed. The hook only reads.
    None,
}

/// Why the hooks fire: before the operator, after it, after the DRA driver.
pub(super) type Reasons = [Reason; 3];
pub(super) const ALL: Reasons = [Reason::Own; 3];
pub(super) const OPERATOR: Reasons = [Reason::Own, Reason::Own, Reason::Others];
pub(super) const NONE: Reasons = [Reason::None; 3];

/// Applies a change and waits until it has succeeded. Checks that the hooks with a reason have
/// fired once, and the others only if the deployer runs everything anyway. Returns the cell of the
/// table. `plugins` is the number of plugins that still serve the old driver. Each is replaced
/// once. (In a first install without an order, some may start before their driver.)
pub(super) async fn changed(
    stack: &Stack,
    deployer: &dyn Deployer,
    reasons: Reasons,
    plugins: usize,
    change: impl AsyncFnOnce() -> Result<()>,
) -> Result<String> {
    let hooks = hooks(stack);
    let (before, begin) = (stack.plugins().await?, Timestamp::now());
    change().await?;
    if let Err(error) = deployer.wait(stack, Outcome::Succeeded).await {
        let mut logs = String::new();
        for hook in &hooks {
            logs += &hook.logs().await?;
        }
        return Err(error.context(format!("{}\n{logs}", deployer.status(stack).await?)));
    }
    // A client runs every hook.
    let expected = |index: usize| deployer.kind().is_client() || reasons[index] == Reason::Own;
    let seen = fired(stack, begin)?;
    let mut cell = Vec::new();
    for (index, hook) in hooks.iter().enumerate() {
        ensure!(
            seen[index] == usize::from(expected(index)),
            "{} fired {} times: {seen:?}",
            hook.name(),
            seen[index]
        );
        if seen[index] > 0 {
            let kept = !hook.pods().await?.is_empty()
                || matches!(deployer.kind(), Kind::ArgoCd | Kind::ArgoCdHelm);
            ensure!(kept, "{} and its log are gone", hook.name());
            let end = hook.end().await?;
            ensure!(
                end.exit_code == 0,
                "{}: {:?}\n{}",
                hook.name(),
                end.message,
                hook.logs().await?
            );
            cell.push(told(hook, NAMES[index], begin, reasons[index], plugins > 0)?);
        }
    }
    let after = stack.plugins().await?;
    ensure!(before.is_empty() || after.len() == before.len(), "a node has no plugin: {after:?}");
    let replaced = before.iter().filter(|(node, plugin)| after.get(*node) != Some(plugin)).count();
    ensure!(replaced == plugins, "{replaced} plugins are new, expected {plugins}");
    Ok(if cell.is_empty() { "none".to_owned() } else { cell.join(", ") })
}

/// Returns what a hook has done since a time, for a table. `counted`: the cell has the number of
/// plugins that the hook replaced.
pub(super) fn told(
    hook: &HookRelease<'_>,
    name: &str,
    since: Timestamp,
    reason: Reason,
    counted: bool,
) -> Result<String> {
    let fired = hook.firings(since)?;
    let requests = hook.requests(since)?;
    let writes: Vec<&Request> = requests.iter().filter(|request| request.is_write()).collect();
    let too_much = |request: &&&Request| match reason {
        Reason::Own => false,
        Reason::Others => !NOTES.contains(&request.resource.as_str()),
        Reason::None => true,
    };
    let excess: Vec<_> = writes.iter().filter(too_much).collect();
    ensure!(excess.is_empty(), "{} wrote without a reason: {excess:#?}", hook.name());
    let plugins = requests.iter().filter(|request| is_replacement(request)).count();
    let times = if fired == 1 { String::new() } else { format!(" × {fired}") };
    Ok(match plugins {
        _ if writes.is_empty() => format!("{name}{times} (read only)"),
        _ if !counted => format!("{name}{times}"),
        0 => format!("{name}{times}"),
        1 => format!("{name}{times} (1 plugin)"),
        plugins => format!("{name}{times} ({plugins} plugins)"),
    })
}

/// Whether a request replaced a plugin.
pub(super) fn is_replacement(request: &Request) -> bool {
    request.verb == "delete"
        && request.resource == "pods"
        && request.namespace == DRA_NAMESPACE
        && request.code == 200
}
