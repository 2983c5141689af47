//! `pause` and `resume`: our hooks see the pause itself; NVIDIA's controllers are kept from the nodes by holds, which are put on and taken off here.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::Client;

use crate::cluster::actions::{Done, patch_node};
use crate::cluster::call::CallError;
use crate::cluster::pause::{read, remove, write};
use crate::contract::driver::Driver;
use crate::contract::pause::FLEET_KEY;
use crate::contract::selector::Selector;
use crate::contract::settings::Mode;
use crate::contract::{digest, pause};
use crate::rollout::action::NodePatch;
use crate::rollout::node::driver_nodes;
use crate::rollout::observed::Node;
use crate::rollout::pause::{HOLD, Pause, has_hold};
use crate::rollout::{hold, vendor};

use super::look::{LookError, Looking, Sight};

/// Nodes that are changed at once.
const AT_ONCE: usize = 16;
/// How often nodes are looked at that change meanwhile.
const LOOKS: u32 = 5;

/// The data key of a pause.
pub fn key(selector: Option<&str>) -> String {
    selector.map_or_else(|| FLEET_KEY.to_owned(), |selector| format!("nodes-{}", &digest::sha256(selector.as_bytes())[..12]))
}

/// The pauses that there are, by key.
///
/// # Errors
/// They cannot be read.
pub async fn pauses(client: &Client) -> Result<Vec<Pause>, LookError> {
    let found: BTreeMap<String, String> = read(client).await?;
    Ok(found.iter().map(|(key, text)| Pause::read(key, text)).collect())
}

/// Nodes on which a pause needs holds, and those that somebody has begun with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Nodes that need the driver.
    pub nodes: usize,
    /// They get a hold.
    pub held: Vec<String>,
    /// They are being upgraded.
    pub begun: Vec<String>,
    /// What becomes of those.
    pub begun_then: &'static str,
}

/// What a pause would reach in one rollout.
pub fn reach(sight: &Sight, selector: Option<&Selector>) -> Reach {
    let driver = sight.settings.driver;
    let ours = sight.settings.mode == Mode::Drive;
    let nodes: Vec<&Node> = driver_nodes(&sight.observed, driver).filter(|node| covers(selector, node)).collect();
    let name = |node: &&Node| node.name.clone();
    Reach {
        nodes: nodes.len(),
        held: nodes.iter().copied().filter(|node| needs_hold(sight, node)).map(|node| node.name.clone()).collect(),
        begun: nodes.iter().filter(|node| is_begun(node, driver)).map(name).collect(),
        begun_then: if ours {
            "stand still if their driver still runs, and are finished if it does not"
        } else {
            "are finished by NVIDIA's controller, which cannot be stopped in the middle"
        },
    }
}

fn covers(selector: Option<&Selector>, node: &Node) -> bool {
    selector.is_none_or(|selector| selector.matches(&node.labels))
}

fn is_begun(node: &Node, driver: Driver) -> bool {
    let traits = driver.traits();
    let state = vendor::state::State::of(node.labels.get(traits.state_label).map(String::as_str));
    node.annotations.contains_key(traits.own_record) || state.is_busy()
}

/// Whether NVIDIA's controller has to be kept from the node by a hold: in mode `drive` it is off, in mode `steer` every node that is to go is held anyway.
fn needs_hold(sight: &Sight, node: &Node) -> bool {
    let settings = &sight.settings;
    let operated = settings.driver.has_operator() && !settings.mode.decides();
    operated && hold::can_be_held(node, settings.driver)
}

/// Pauses: first what our hooks see, then the holds. The nodes that could not be held, each with why.
///
/// # Errors
/// The pause could not be written, or the cluster not be read.
pub async fn pause(
    client: &Client,
    followed: &mut [Looking],
    pause: &pause::Pause,
    selector: Option<&Selector>,
    clock: impl Fn() -> Timestamp,
) -> Result<Vec<String>, LookError> {
    write(client, &key(pause.selector.as_deref()), pause).await?;
    let holds = |sight: &Sight| {
        let driver = sight.settings.driver;
        let nodes = driver_nodes(&sight.observed, driver).filter(|node| covers(selector, node) && needs_hold(sight, node));
        nodes.map(|node| hold::hold_as(node, driver, HOLD)).collect()
    };
    patch_all(client, followed, holds, &clock).await
}

/// Resumes: first what our hooks see (one at work would put holds on again), then the holds go that no other pause needs. The nodes whose holds could not be
/// taken off, each with why: asking again goes on with them.
///
/// # Errors
/// The pauses could not be written, or the cluster not be read.
pub async fn resume(
    client: &Client,
    followed: &mut [Looking],
    keys: &[String],
    clock: impl Fn() -> Timestamp,
) -> Result<Vec<String>, LookError> {
    let left: Vec<Pause> = pauses(client).await?.into_iter().filter(|pause| !keys.contains(&pause.key)).collect();
    remove(client, keys).await?;
    let releases = |sight: &Sight| {
        let driver = sight.settings.driver;
        let paused = |node: &&Node| left.iter().any(|pause| pause.covers(node));
        let held = sight.observed.nodes.values().filter(|node| has_hold(node, driver) && !paused(node));
        held.map(|node| hold::released(node, driver)).collect()
    };
    patch_all(client, followed, releases, &clock).await
}

/// Patches nodes until there is nothing left to patch.
async fn patch_all(
    client: &Client,
    followed: &mut [Looking],
    patches: impl Fn(&Sight) -> Vec<NodePatch>,
    clock: &impl Fn() -> Timestamp,
) -> Result<Vec<String>, LookError> {
    let mut wrong = Vec::new();
    for looking in followed {
        for look in 1..=LOOKS {
            let patches = patches(&looking.look(clock).await?);
            let answers = stream::iter(&patches).map(async |patch| (patch, patch_node(client, patch).await)).buffer_unordered(AT_ONCE);
            let answers: Vec<(&NodePatch, Result<Done, CallError>)> = answers.collect().await;
            let failed: Vec<String> = answers.iter().filter_map(|(patch, answer)| not_written(patch, answer)).collect();
            let superseded = answers.iter().filter(|(_, answer)| matches!(answer, Ok(Done::Superseded))).count();
            if !failed.is_empty() || superseded > 0 && look == LOOKS {
                wrong.extend(failed);
                wrong.extend((superseded > 0).then(|| format!("{superseded} nodes change all the time")));
                break;
            }
            if superseded == 0 {
                break;
            }
            looking.changed().await;
        }
    }
    Ok(wrong)
}

/// Why a patch of a node was not done; `None`: it was, or is looked at again.
pub(super) fn not_written(patch: &NodePatch, answer: &Result<Done, CallError>) -> Option<String> {
    match answer {
        Ok(Done::Changed(missing)) => Some(format!("{}: admission drops what is written: {}", patch.node, missing.join(", "))),
        Ok(Done::Now | Done::Already | Done::Superseded) => None,
        Err(error) => Some(format!("{}: {error}", patch.node)),
    }
}
