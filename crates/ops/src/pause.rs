//! `pause` and `resume`. gpu-rollout's hooks read the pause itself. Holds keep NVIDIA's controllers
//! from the nodes; this module sets and releases them.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::Client;

use contract::driver::Driver;
use contract::pause::FLEET_KEY;
use contract::selector::Selector;
use contract::settings::Mode;
use contract::{digest, pause};
use kube_io::actions::{ActionResult, patch_node};
use kube_io::call::CallError;
use kube_io::pause::{read, remove, who, write};
use observed::ObservedNode;
use observed::pause::{HOLD, ObservedPause, UNKNOWN_USER, annotated_pause, has_hold};
use planner::action::NodePatch;
use planner::hold;
use planner::node::driver_nodes;

use super::command_error::CommandError;
use super::node_write::{NodeWriteError, NodeWriteFailure};
use super::observe::{ObserveError, RolloutObserver, RolloutSnapshot};

/// How many nodes are patched at the same time.
const AT_ONCE: usize = 16;
/// How often nodes are observed again because they changed before the patch.
const ATTEMPTS: u32 = 5;

/// What happens to upgrades in progress by NVIDIA's controller when the rollout is paused or
/// aborted.
pub const FINISHED_BY_CONTROLLER: &str =
    "NVIDIA's controller finishes these upgrades; they cannot be stopped";

/// Returns the data key of a pause in the ConfigMap, unless another user's pause has it.
pub fn key(selector: Option<&str>) -> String {
    selector.map_or_else(
        || FLEET_KEY.to_owned(),
        |selector| format!("nodes-{}", &digest::sha256(selector.as_bytes())[..12]),
    )
}

/// Returns the data key for a new pause. `written`: the texts of the existing pauses by key. A
/// user's pause replaces that user's older pause with the same selector, but no other user's pause.
fn key_beside(written: &BTreeMap<String, String>, new: &pause::Pause) -> String {
    let shared = key(new.selector.as_deref());
    let own = format!("{shared}-{}", &digest::sha256(new.by.as_bytes())[..8]);
    let is_foreign = |text: &String| {
        !serde_json::from_str::<pause::Pause>(text).is_ok_and(|found| found.by == new.by)
    };
    if written.contains_key(&own) || written.get(&shared).is_some_and(is_foreign) {
        own
    } else {
        shared
    }
}

/// Reads the texts of the pauses by data key.
///
/// # Errors
/// The ConfigMap of pauses cannot be read.
pub async fn pause_texts(client: &Client) -> Result<BTreeMap<String, String>, ObserveError> {
    Ok(read(client).await?)
}

/// Returns the texts by data key without those of pauses that have ended.
pub fn texts_in_force(
    mut texts: BTreeMap<String, String>,
    now: Timestamp,
) -> BTreeMap<String, String> {
    texts.retain(|key, text| !ObservedPause::read(key, text).has_ended(now));
    texts
}

/// Returns the pauses with these texts by data key, sorted by key.
pub fn pauses(texts: &BTreeMap<String, String>) -> Vec<ObservedPause> {
    texts.iter().map(|(key, text)| ObservedPause::read(key, text)).collect()
}

/// Returns the user that the API server takes this client for. A server that does not say (before
/// 1.28) must not prevent a pause.
pub async fn user(client: &Client) -> String {
    who(client).await.ok().flatten().unwrap_or_else(|| UNKNOWN_USER.to_owned())
}

/// The effect of a pause on the nodes of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PauseReach {
    /// The number of paused nodes that need the driver.
    pub nodes: usize,
    /// Nodes that get a hold.
    pub held: Vec<String>,
    /// Nodes that are being upgraded.
    pub in_progress: Vec<String>,
    /// What happens to the nodes that are being upgraded.
    pub in_progress_then: &'static str,
}

/// Finds the effect that a pause would have on one rollout.
pub fn reach(snapshot: &RolloutSnapshot, selector: Option<&Selector>) -> PauseReach {
    let driver = snapshot.settings.driver;
    let ours = snapshot.settings.mode == Mode::Drive;
    let nodes: Vec<&ObservedNode> =
        driver_nodes(&snapshot.observed, driver).filter(|node| covers(selector, node)).collect();
    let name = |node: &&ObservedNode| node.name.clone();
    PauseReach {
        nodes: nodes.len(),
        held: nodes
            .iter()
            .copied()
            .filter(|node| needs_hold(snapshot, node))
            .map(|node| node.name.clone())
            .collect(),
        in_progress: nodes.iter().filter(|node| is_started(node, driver)).map(name).collect(),
        in_progress_then: if ours {
            "these nodes wait if their old driver still runs; otherwise, the hook finishes their upgrade"
        } else {
            FINISHED_BY_CONTROLLER
        },
    }
}

fn covers(selector: Option<&Selector>, node: &ObservedNode) -> bool {
    selector.is_none_or(|selector| selector.matches(&node.labels))
}

fn is_started(node: &ObservedNode, driver: Driver) -> bool {
    let traits = driver.traits();
    let state = nvidia_upgrade::state::ControllerState::of_node(node, traits);
    node.annotations.contains_key(traits.own_record) || state.is_busy()
}

/// Returns whether a hold must keep NVIDIA's controller from the node. In mode `drive`, the
/// controller is off. In mode `steer`, the hook already holds every node that is to be upgraded.
fn needs_hold(snapshot: &RolloutSnapshot, node: &ObservedNode) -> bool {
    let settings = &snapshot.settings;
    let operated = settings.driver.has_operator() && !settings.mode.decides();
    operated && hold::can_be_held(node, settings.driver)
}

/// Pauses rollouts: writes the pause that gpu-rollout's hooks read, next to the pauses of other
/// users, then sets the holds. Returns the nodes that could not be held.
///
/// # Errors
/// The pause could not be written, or the cluster could not be read.
pub async fn pause(
    client: &Client,
    observers: &mut [RolloutObserver],
    pause: &pause::Pause,
    selector: Option<&Selector>,
    clock: impl Fn() -> Timestamp,
) -> Result<Vec<NodeWriteFailure>, CommandError> {
    write(client, pause, |written| key_beside(written, pause))
        .await
        .map_err(CommandError::in_write("write the pause"))?;
    let holds = |snapshot: &RolloutSnapshot| {
        let driver = snapshot.settings.driver;
        let nodes = driver_nodes(&snapshot.observed, driver)
            .filter(|node| covers(selector, node) && needs_hold(snapshot, node));
        nodes.map(|node| hold::hold_as(node, driver, HOLD)).collect()
    };
    patch_all(client, observers, holds, &clock).await
}

/// The outcome of [`resume`].
#[derive(Debug)]
pub struct Resumption {
    /// The nodes whose holds could not be released; another call continues with them.
    pub failures: Vec<NodeWriteFailure>,
    /// Pauses that have replaced a chosen one since its text was read. They stay.
    pub replaced: Vec<ObservedPause>,
}

/// Resumes rollouts: removes the pauses with these texts by data key, those that have ended by
/// themselves and, with `annotations`, the pause annotations of nodes. Pauses go first, because a
/// running hook would set the holds again. Then releases the holds that no other pause needs.
///
/// # Errors
/// The pauses could not be written, or the cluster could not be read.
pub async fn resume(
    client: &Client,
    observers: &mut [RolloutObserver],
    (chosen, annotations): (&BTreeMap<String, String>, bool),
    clock: impl Fn() -> Timestamp,
) -> Result<Resumption, CommandError> {
    let now = clock();
    let mut gone = pause_texts(client).await?;
    gone.retain(|key, text| ObservedPause::read(key, text).has_ended(now));
    gone.extend(chosen.clone());
    remove(client, &gone).await.map_err(CommandError::in_write("remove the pause"))?;
    let left = pauses(&pause_texts(client).await?);
    let releases = |snapshot: &RolloutSnapshot| {
        let (driver, now) = (snapshot.settings.driver, snapshot.now);
        let of_node = |node: &ObservedNode| {
            let annotated = node.annotations.contains_key(pause::ANNOTATION);
            let is_paused = left.iter().any(|pause| pause.covers(node, now))
                || (!annotations && annotated_pause(node, now).is_some());
            let mut patch = NodePatch::for_node(node);
            if annotations && annotated {
                patch.annotations.insert(pause::ANNOTATION.to_owned(), None);
            }
            if has_hold(node, driver) && !is_paused {
                hold::release(node, driver, &mut patch);
            }
            (!patch.is_empty()).then_some(patch)
        };
        snapshot.observed.nodes.values().filter_map(of_node).collect()
    };
    let failures = patch_all(client, observers, releases, &clock).await?;
    let replaced = left.into_iter().filter(|pause| chosen.contains_key(&pause.key)).collect();
    Ok(Resumption { failures, replaced })
}

/// Patches nodes until no patch is left, a patch fails, or the attempts are used up.
async fn patch_all(
    client: &Client,
    observers: &mut [RolloutObserver],
    patches: impl Fn(&RolloutSnapshot) -> Vec<NodePatch>,
    clock: &impl Fn() -> Timestamp,
) -> Result<Vec<NodeWriteFailure>, CommandError> {
    let mut failures = Vec::new();
    for observer in observers {
        for attempt in 1..=ATTEMPTS {
            let patches = patches(&observer.observe(clock).await?);
            let answers = stream::iter(&patches)
                .map(async |patch| (patch, patch_node(client, patch).await))
                .buffer_unordered(AT_ONCE);
            let answers: Vec<(&NodePatch, Result<ActionResult, CallError>)> =
                answers.collect().await;
            let superseded =
                answers.iter().filter(|(_, answer)| matches!(answer, Ok(ActionResult::Superseded)));
            let superseded: Vec<&str> = superseded.map(|(patch, _)| patch.node.as_str()).collect();
            let failed = answers
                .into_iter()
                .filter_map(|(patch, answer)| NodeWriteFailure::from_answer(&patch.node, answer));
            let failed: Vec<NodeWriteFailure> = failed.collect();
            if !failed.is_empty() || attempt == ATTEMPTS {
                failures.extend(failed);
                failures.extend(
                    superseded
                        .iter()
                        .map(|node| NodeWriteFailure::new(node, NodeWriteError::Contended)),
                );
                break;
            }
            if superseded.is_empty() {
                break;
            }
            observer.changed().await;
        }
    }
    Ok(failures)
}
