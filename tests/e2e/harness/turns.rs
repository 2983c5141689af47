//! Records every change of every node in driven upgrades, in the order of the API server's events.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinHandle;

use super::stand_in::SAFE_LOAD;

/// The state of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// State of the GPU driver's upgrade.
    pub(crate) gpu: Option<String>,
    /// State of the network driver's upgrade.
    pub(crate) ofed: Option<String>,
    /// Whether the node is cordoned.
    pub(crate) cordoned: bool,
    /// Whether its network driver waits until it may load.
    pub(crate) waits_to_load: bool,
}

/// A recording in progress. Dropping it ends the recording.
pub(crate) struct Turns {
    looks: Rc<RefCell<Vec<(Timestamp, String, Look)>>>,
    watch: JoinHandle<()>,
}

impl Turns {
    /// Starts to record.
    pub(crate) fn record(client: &Client) -> Self {
        let looks: Rc<RefCell<Vec<(Timestamp, String, Look)>>> = Rc::default();
        let (written, nodes) = (Rc::clone(&looks), Api::<Node>::all(client.clone()));
        let watch = tokio::task::spawn_local(async move {
            let mut events = std::pin::pin!(watcher(nodes, Config::default()));
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(node) | Event::InitApply(node)) => {
                        written.borrow_mut().push((Timestamp::now(), node.name_any(), look(&node)));
                    }
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            }
        });
        Self { looks, watch }
    }

    /// Returns the sequence of states of each node, without repetitions.
    pub(crate) fn by_node(&self) -> BTreeMap<String, Vec<Look>> {
        let mut nodes: BTreeMap<String, Vec<Look>> = BTreeMap::new();
        for (_, node, look) in self.looks.borrow().iter() {
            let seen = nodes.entry(node.clone()).or_default();
            if seen.last() != Some(look) {
                seen.push(look.clone());
            }
        }
        nodes
    }

    /// Returns the highest number of nodes that were cordoned at the same time.
    pub(crate) fn most_cordoned(&self) -> usize {
        let (mut cordoned, mut most) = (BTreeSet::new(), 0);
        for (_, node, look) in self.looks.borrow().iter() {
            if look.cordoned {
                cordoned.insert(node.clone())
            } else {
                cordoned.remove(node)
            };
            most = most.max(cordoned.len());
        }
        most
    }

    /// Returns when each node's GPU driver upgrade was first observed as started.
    pub(crate) fn starts(&self) -> Vec<Timestamp> {
        self.changes(|before, after| {
            before.is_none_or(|before| before.gpu.is_none()) && after.gpu.is_some()
        })
    }

    /// Returns when each node was first observed as released after its upgrade.
    pub(crate) fn ends(&self) -> Vec<Timestamp> {
        self.changes(|before, after| {
            before.is_some_and(|before| before.gpu.is_some()) && after.gpu.is_none()
        })
    }

    fn changes(&self, wanted: impl Fn(Option<&Look>, &Look) -> bool) -> Vec<Timestamp> {
        let (mut last, mut times): (BTreeMap<String, Look>, Vec<Timestamp>) =
            (BTreeMap::new(), Vec::new());
        for (time, node, look) in self.looks.borrow().iter() {
            times.extend(wanted(last.get(node), look).then_some(*time));
            last.insert(node.clone(), look.clone());
        }
        times
    }

    /// Returns how often a node's GPU driver upgrade was started.
    pub(crate) fn gpu_starts(&self, node: &str) -> usize {
        let looks = self.by_node().remove(node).unwrap_or_default();
        looks.windows(2).filter(|pair| pair[0].gpu.is_none() && pair[1].gpu.is_some()).count()
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

fn look(node: &Node) -> Look {
    let label = |name: &str| node.labels().get(name).cloned();
    Look {
        gpu: label("gpu-rollout.dev/gpu-driver-upgrade-state"),
        ofed: label("gpu-rollout.dev/ofed-driver-upgrade-state"),
        cordoned: node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true),
        waits_to_load: node.annotations().get(SAFE_LOAD).is_some_and(|value| !value.is_empty()),
    }
}
