//! Bundles under the real deployers. A story is written once and told with each of them; what was seen goes into tables that
//! `docs/deployers.md` is made from.

mod by_tags;
mod leaving;
mod moving;
mod network;
mod triggers;

use anyhow::{Result, ensure};
use jiff::Timestamp;

use crate::harness::audit::Request;
use crate::harness::fleet::DRA_NAMESPACE;
use crate::harness::hook_release::HookRelease;
use crate::harness::stack::Stack;

/// Makes a test of a story for each deployer.
macro_rules! for_each_deployer {
    ($story:path) => {
        for_each_deployer!($story, helm3 Helm3, helm4 Helm4, helmfile Helmfile, flux Flux, argocd ArgoCd, argocd_helm ArgoCdHelm);
    };
    ($story:path, $($name:ident $kind:ident),+) => {$(
        #[tokio::test(flavor = "local")]
        #[ignore = "end to end: make e2e-full"]
        async fn $name() -> anyhow::Result<()> {
            $story(crate::harness::deployers::Kind::$kind).await
        }
    )+};
}
use for_each_deployer;

/// The bundle's hooks in their order.
fn hooks(stack: &Stack) -> [HookRelease<'_>; 3] {
    [
        HookRelease::new(stack, "gpu-operator-pre"),
        HookRelease::new(stack, "gpu-operator-post"),
        HookRelease::in_namespace(stack, "nvidia-dra-driver-gpu-post", DRA_NAMESPACE),
    ]
}

/// Where a hook says what it sees: its record, its events, its Lease.
const NOTES: [&str; 3] = ["configmaps", "events", "leases"];

/// What the tables call the hooks.
const NAMES: [&str; 3] = ["pre", "post", "dra"];

/// How often each of them has fired since a moment.
fn fired(stack: &Stack, since: Timestamp) -> Result<[usize; 3]> {
    let [pre, post, dra] = &hooks(stack);
    Ok([pre.firings(since)?, post.firings(since)?, dra.firings(since)?])
}

/// Why a hook fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// What it is told, or the values of its component, have changed.
    Own,
    /// Something else has, which it looks at: it notes that, and touches nothing.
    Others,
    /// Nothing at all: it only reads.
    None,
}

/// What a hook has done since a moment, for a table. `counted`: it is known how many plugins it replaces.
fn told(hook: &HookRelease<'_>, name: &str, since: Timestamp, reason: Reason, counted: bool) -> Result<String> {
    let fired = hook.firings(since)?;
    let requests = hook.requests(since)?;
    let writes: Vec<&Request> = requests.iter().filter(|request| request.is_write()).collect();
    let too_much = |request: &&&Request| match reason {
        Reason::Own => false,
        Reason::Others => !NOTES.contains(&request.resource.as_str()),
        Reason::None => true,
    };
    let excess: Vec<_> = writes.iter().filter(too_much).collect();
    ensure!(excess.is_empty(), "{} had no reason to write this: {excess:#?}", hook.name());
    let plugins = requests.iter().filter(|request| is_replacement(request)).count();
    let times = if fired == 1 { String::new() } else { format!(" × {fired}") };
    Ok(match plugins {
        _ if writes.is_empty() => format!("{name}{times} (only read)"),
        _ if !counted => format!("{name}{times}"),
        0 => format!("{name}{times}"),
        1 => format!("{name}{times} (1 plugin)"),
        plugins => format!("{name}{times} ({plugins} plugins)"),
    })
}

/// A plugin that was replaced.
fn is_replacement(request: &Request) -> bool {
    request.verb == "delete" && request.resource == "pods" && request.namespace == DRA_NAMESPACE && request.code == 200
}
