//! `abort`: removes everything that hooks have written in the cluster, wherever they were killed.
//! An abort that is killed can be run again and finishes. This follows from the order: write a
//! pause that hooks see, end their Jobs, take the Lease, delete the pods of acceptance tests,
//! restore the nodes, delete the Lease, remove the pause.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::Client;

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::driver::Driver;
use contract::pause::Pause;
use contract::settings::{Mode, Settings};
use kube_io::actions::{ActionResult, delete_pod, patch_node};
use kube_io::call::CallError;
use kube_io::job;
use kube_io::lease::{self, LeaseCandidate};
use kube_io::list::{list_acceptance_pods, list_nodes};
use kube_io::pause::{read, remove, text, write};
use nvidia_upgrade::state::ControllerState;
use observed::acceptance::AcceptancePod;
use observed::pause::{ObservedPause, annotated_nodes, find_pause, pauses_in_force};
use observed::{Observed, ObservedNode};
use planner::abort::release_patches;
use planner::action::NodePatch;

use super::command_error::CommandError;
use super::node_write::{NodeWriteError, NodeWriteFailure};
use super::pause::pauses;
use super::session::SessionClock;

/// The data key of the pause that an abort writes first.
pub const KEY: &str = "abort";
/// The holder identity of an abort in the Lease.
pub const HOLDER: &str = "gpu-rollout-abort";
/// How long an abort waits for the Lease: a hook that is killed keeps it for 20 s, and gets 30 s to
/// end.
const LEASE: Duration = Duration::from_mins(2);
/// How long the pods of a Job may take to end: their grace period is 30 s.
const JOB: Duration = Duration::from_mins(2);
/// The interval between two checks of a Job's pods.
const PAUSE: Duration = Duration::from_millis(500);
/// How many nodes are patched at the same time.
const AT_ONCE: usize = 16;
/// How often nodes are listed again because they changed between the list and the patch.
const ATTEMPTS: u32 = 10;

/// What hooks have left in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// The nodes to restore, each with a description of the change.
    pub nodes: Vec<(String, String)>,
    /// `namespace/name` of running hook Jobs.
    pub jobs: Vec<String>,
    /// `namespace/name` of the pods of acceptance tests.
    pub tests: Vec<String>,
    /// The holder of the Lease.
    pub holder: Option<String>,
    /// Nodes that NVIDIA's controller is upgrading. It finishes them in any case.
    pub in_progress: Vec<String>,
    /// Pauses of users. They stay, with the holds of the nodes that they cover.
    pub pauses: Vec<ObservedPause>,
    /// Nodes that are paused by their annotation. They stay paused and held, too.
    pub annotated: Vec<String>,
}

/// Finds what hooks have left in the cluster. `stays_paused`: as for [`abort`]. RBAC: `list` on
/// `nodes`, `get` on the Lease, on the Jobs and on the ConfigMap of pauses; with acceptance tests,
/// `list` on `pods` in [`ACCEPTANCE_NAMESPACE`].
///
/// # Errors
/// A call failed.
pub async fn find_leftovers(
    client: &Client,
    hooks: &[&Settings],
    stays_paused: bool,
    now: Timestamp,
) -> Result<Leftovers, CommandError> {
    let observed = observe(client).await?;
    let nodes = patches(&observed, hooks, (stays_paused, now))
        .iter()
        .map(|patch| (patch.node.clone(), describe_patch(patch)))
        .collect();
    let mut jobs = Vec::new();
    for hook in hooks {
        if kube_io::releases::job(client, hook).await?.is_some_and(|job| job.end.is_none()) {
            jobs.push(format!("{}/{}", hook.namespace, hook.release));
        }
    }
    let tests = test_pods(client, hooks).await?.iter().map(full_name).collect();
    let holder = lease::holder(client).await?.map(|holder| holder.name);
    let annotated = annotated_nodes(&observed, now).map(|(node, _)| node.name.clone()).collect();
    let in_progress = in_progress(&observed, hooks);
    let pauses = pauses_in_force(&observed, now).cloned().collect();
    Ok(Leftovers { nodes, jobs, tests, holder, in_progress, pauses, annotated })
}

/// Finds the nodes that NVIDIA's controllers are upgrading. RBAC: `list` on `nodes`.
///
/// # Errors
/// They cannot be listed.
pub async fn find_in_progress(
    client: &Client,
    hooks: &[&Settings],
) -> Result<Vec<String>, CommandError> {
    Ok(in_progress(&observe_nodes(client).await?, hooks))
}

/// Returns the nodes that NVIDIA's controllers are upgrading. For a driver with a hook in mode
/// `drive`, the controller is off, even if it has left its state on nodes.
fn in_progress(observed: &Observed, hooks: &[&Settings]) -> Vec<String> {
    let is_driven = |driver: &Driver| {
        hooks.iter().any(|hook| hook.driver == *driver && hook.mode == Mode::Drive)
    };
    let drivers: Vec<Driver> = Driver::ALL
        .into_iter()
        .filter(|driver| driver.has_operator() && !is_driven(driver))
        .collect();
    let is_started = |node: &&ObservedNode| {
        drivers.iter().any(|driver| ControllerState::of_node(node, driver.traits()).is_busy())
    };
    observed.nodes.values().filter(is_started).map(|node| node.name.clone()).collect()
}

/// Lists the pods of acceptance tests that are not being deleted. They may belong to a release that
/// no longer has tests. If no release has tests, the right to list them is optional.
async fn test_pods(client: &Client, hooks: &[&Settings]) -> Result<Vec<AcceptancePod>, CallError> {
    let has_tests = || hooks.iter().any(|hook| !hook.upgrade.acceptance.is_empty());
    match list_acceptance_pods(client).await {
        Err(CallError::Forbidden(_)) if !has_tests() => Ok(Vec::new()),
        pods => Ok(pods?.into_iter().filter(|pod| !pod.deleting).collect()),
    }
}

fn full_name(pod: &AcceptancePod) -> String {
    format!("{ACCEPTANCE_NAMESPACE}/{}", pod.name)
}

/// Deletes the pods of acceptance tests. Their nodes take workloads afterwards.
async fn end_tests(
    client: &Client,
    hooks: &[&Settings],
    report: &mut impl FnMut(&str),
) -> Result<(), CommandError> {
    for pod in test_pods(client, hooks).await? {
        let name = full_name(&pod);
        delete_pod(client, ACCEPTANCE_NAMESPACE, &pod.name, &pod.uid)
            .await
            .map_err(CommandError::in_write(format!("delete pod {name}")))?;
        report(&format!("pod {name}: deleted"));
    }
    Ok(())
}

async fn observe_nodes(client: &Client) -> Result<Observed, CallError> {
    Ok(Observed { nodes: list_nodes(client).await?, ..Observed::default() })
}

/// Observes the nodes, and the pauses that an abort leaves alone: all except that of an abort.
async fn observe(client: &Client) -> Result<Observed, CallError> {
    let mut texts = read(client).await?;
    texts.remove(KEY);
    Ok(Observed { pauses: pauses(&texts), ..observe_nodes(client).await? })
}

fn describe_patch(patch: &NodePatch) -> String {
    let parts = || patch.labels.iter().chain(&patch.annotations);
    let cordon = (patch.unschedulable == Some(false)).then(|| "its cordon".to_owned());
    let gone = cordon
        .into_iter()
        .chain(parts().filter(|(_, value)| value.is_none()).map(|(key, _)| key.clone()))
        .collect::<Vec<_>>();
    let held = parts()
        .any(|(_, value)| value.is_some())
        .then(|| "add a hold, so that NVIDIA's controller leaves it alone".to_owned());
    let gone = (!gone.is_empty()).then(|| format!("remove {}", gone.join(", ")));
    gone.into_iter().chain(held).collect::<Vec<_>>().join("; ")
}

/// Returns the patches that restore the nodes. They hold each node that stays paused, for every
/// driver that an operator of NVIDIA upgrades: all nodes if the fleet stays paused, otherwise those
/// that a user's pause covers now.
fn patches(
    observed: &Observed,
    hooks: &[&Settings],
    (stays_paused, now): (bool, Timestamp),
) -> Vec<NodePatch> {
    let is_operated = |driver: &Driver| {
        let by_operator = |hook: &&Settings| hook.driver == *driver && hook.mode != Mode::Drive;
        let held = || {
            observed.nodes.values().any(|node| node.annotations.contains_key(driver.traits().hold))
        };
        driver.has_operator() && (hooks.iter().any(by_operator) || held())
    };
    let operated: Vec<Driver> = Driver::ALL.into_iter().filter(is_operated).collect();
    release_patches(observed, |node| {
        let is_paused = stays_paused || find_pause(observed, node, now).is_some();
        if is_paused { operated.as_slice() } else { &[] }
    })
}

/// Removes everything that gpu-rollout has written on nodes. With `stays_paused`, the pause stays
/// and nodes are held, so that neither a hook nor NVIDIA's controller starts again. The pauses of
/// users stay in any case, and the nodes that they cover are held. Calls `report` for each step.
/// Returns the nodes that could not be restored; then the pause stays too. RBAC: as
/// [`find_leftovers`], `patch` on `jobs`, `delete` on the Lease, `patch` on `nodes`, `delete` on
/// the pods of acceptance tests, what the Lease needs, and what a pause needs.
///
/// # Errors
/// A call failed, or another process did not release the Lease in time. Another call continues with
/// what is left.
pub async fn abort(
    client: &Client,
    hooks: &[&Settings],
    pause: &Pause,
    (stays_paused, clock): (bool, SessionClock),
    mut report: impl FnMut(&str),
) -> Result<Vec<NodeWriteFailure>, CommandError> {
    write(client, pause, |_| KEY.to_owned())
        .await
        .map_err(CommandError::in_write("write the pause"))?;
    for hook in hooks {
        end_job(client, hook, &mut report).await?;
    }
    let leases = LeaseCandidate::new(client, HOLDER, clock.clone());
    report("waiting for the Lease");
    let held = match tokio::time::timeout(LEASE, leases.acquire(|_| ())).await {
        Ok(held) => held.map_err(CommandError::in_write("take the Lease"))?,
        Err(_elapsed) => {
            let obstacle = "another process still holds the Lease default/gpu-rollout".to_owned();
            return Err(CommandError::HookRunning { obstacle, seconds: LEASE.as_secs() });
        }
    };
    // What is left of tests keeps no node from being released.
    let tests = end_tests(client, hooks, &mut report).await;
    let failures = release_all(client, hooks, (stays_paused, clock()), &mut report).await?;
    held.release().await;
    tests?;
    if !failures.is_empty() {
        return Ok(failures);
    }
    lease::delete(client).await.map_err(CommandError::in_write("delete the Lease"))?;
    if !stays_paused {
        // The pause of another abort that stays paused may have replaced this one.
        remove(client, &BTreeMap::from([(KEY.to_owned(), text(pause))]))
            .await
            .map_err(CommandError::in_write("remove the pause"))?;
    }
    Ok(failures)
}

/// Ends the Job of a hook, and waits until its pods are gone: a terminating pod could still take
/// the Lease.
async fn end_job(
    client: &Client,
    hook: &Settings,
    report: &mut impl FnMut(&str),
) -> Result<(), CommandError> {
    let name = format!("{}/{}", hook.namespace, hook.release);
    let until = tokio::time::Instant::now() + JOB;
    let mut is_reported = false;
    while job::end(client, &hook.namespace, &hook.release)
        .await
        .map_err(CommandError::in_write(format!("end job {name}")))?
    {
        if !std::mem::replace(&mut is_reported, true) {
            report(&format!("ending job {name}"));
        }
        if tokio::time::Instant::now() >= until {
            return Err(CommandError::HookRunning {
                obstacle: format!("job {name} still has pods"),
                seconds: JOB.as_secs(),
            });
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn release_all(
    client: &Client,
    hooks: &[&Settings],
    paused: (bool, Timestamp),
    report: &mut impl FnMut(&str),
) -> Result<Vec<NodeWriteFailure>, CommandError> {
    for _ in 0..ATTEMPTS {
        let patches = patches(&observe(client).await?, hooks, paused);
        if patches.is_empty() {
            return Ok(Vec::new());
        }
        let answers = stream::iter(&patches)
            .map(async |patch| (patch, patch_node(client, patch).await))
            .buffer_unordered(AT_ONCE);
        let answers: Vec<(&NodePatch, Result<ActionResult, CallError>)> = answers.collect().await;
        for (patch, _) in
            answers.iter().filter(|(_, answer)| matches!(answer, Ok(ActionResult::Now)))
        {
            report(&format!("node {}: {}", patch.node, describe_patch(patch)));
        }
        let failed = answers
            .into_iter()
            .filter_map(|(patch, answer)| NodeWriteFailure::from_answer(&patch.node, answer));
        let failed: Vec<NodeWriteFailure> = failed.collect();
        if !failed.is_empty() {
            return Ok(failed);
        }
    }
    let left = patches(&observe(client).await?, hooks, paused);
    Ok(left
        .iter()
        .map(|patch| NodeWriteFailure::new(&patch.node, NodeWriteError::Contended))
        .collect())
}
