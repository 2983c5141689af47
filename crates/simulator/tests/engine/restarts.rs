//! Which pods of the device plugin the hook restarts, when, and how often.

use contract::count::Count;
use contract::settings::ConfigFallback;
use contract::task::Task;
use observed::{
    Observed, ObservedContainer, ObservedDaemonSet, ObservedNode, ObservedPod, ObservedRevision,
};
use planner::memory::RunMemory;

use crate::fleet::{Fleet, at};

mod changes;
mod configurations;
mod daemon_sets;
mod failures;

const NAMESPACE: &str = "nvidia-device-plugin";

pub(crate) fn pairs<Map: FromIterator<(String, String)>>(pairs: &[(&str, &str)]) -> Map {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn daemon_set(uid: &str, container: &str) -> ObservedDaemonSet {
    ObservedDaemonSet {
        namespace: NAMESPACE.into(),
        name: uid.into(),
        uid: uid.into(),
        observed: true,
        images: pairs(&[(container, "nvcr.io/nvidia/k8s-device-plugin:v0.20.0")]),
        config_maps: vec!["plugins".into()],
        ..ObservedDaemonSet::default()
    }
}

/// Sets the pod of one DaemonSet on a node, ready since this second.
pub(crate) fn pod(fleet: &mut Fleet, node: &str, owner: &str, second: i64) {
    let uid = fleet.uid();
    fleet
        .observed
        .device_plugin
        .pods
        .edit()
        .retain(|pod| pod.node.as_deref() != Some(node) || pod.owner.as_deref() != Some(owner));
    fleet.observed.device_plugin.pods.push(ObservedPod {
        namespace: NAMESPACE.into(),
        name: format!("{owner}-{uid}"),
        uid,
        owner: Some(owner.into()),
        node: Some(node.into()),
        revision: Some("1".into()),
        running: true,
        ready: true,
        ready_since: Some(at(second)),
        created: at(second),
        containers: vec![ObservedContainer {
            name: "nvidia-device-plugin-ctr".into(),
            started: Some(at(second)),
            ..ObservedContainer::default()
        }],
        ..ObservedPod::default()
    });
}

/// Sets the newest text of a configuration, and the time of the change.
pub(crate) fn configure(fleet: &mut Fleet, key: &str, digest: &str, second: i64) {
    let config = fleet.observed.device_plugin.config.get_or_insert_default();
    config.digests.insert(key.into(), digest.into());
    config.changed = Some(at(second));
}

/// Returns settled nodes `gpu-0` … with the stand-alone plugin and GPU feature discovery, without
/// an operator.
pub(crate) fn stand_alone(nodes: usize) -> Fleet {
    let mut fleet = Fleet::at_rest(0);
    fleet.observed = Observed::default();
    fleet.settings.tasks = vec![Task::RestartPlugins];
    fleet.settings.component = "nvidia-device-plugin".into();
    fleet.settings.device_plugin.namespace = NAMESPACE.into();
    fleet.settings.device_plugin.config_map = Some("plugins".into());
    fleet.settings.device_plugin.fallbacks = vec![ConfigFallback::Named, ConfigFallback::Single];
    fleet.settings.device_plugin.max_unavailable = Count::Number(1);
    add_plugin(&mut fleet, nodes);
    fleet
}

fn add_plugin(fleet: &mut Fleet, nodes: usize) {
    fleet.observed.device_plugin.daemon_sets = vec![
        daemon_set("plugin", "nvidia-device-plugin-ctr"),
        daemon_set("discovery", "gpu-feature-discovery-ctr"),
    ];
    add_revisions(fleet);
    configure(fleet, "default", "a", -9000);
    configure(fleet, "shared", "a", -9000);
    for index in 0..nodes {
        let name = format!("gpu-{index}");
        if !fleet.observed.nodes.contains_key(&name) {
            let node = ObservedNode {
                name: name.clone(),
                uid: name.clone(),
                created: at(-9000),
                ready: true,
                ..ObservedNode::default()
            };
            fleet.observed.nodes.insert(name.clone(), node);
        }
        pod(fleet, &name, "plugin", -5000);
        pod(fleet, &name, "discovery", -5000);
    }
}

fn add_revisions(fleet: &mut Fleet) {
    for owner in ["plugin", "discovery"] {
        fleet.observed.device_plugin.revisions.push(ObservedRevision {
            owner: owner.into(),
            revision: 1,
            hash: "1".into(),
        });
    }
}

/// Starts the next run at this second, with the state that a finished run leaves.
fn next_run(fleet: &mut Fleet, second: i64) {
    let next = RunMemory::following(&fleet.memory.nodes, at(second), at(second + 3000));
    let memory = std::mem::replace(&mut fleet.memory, next);
    fleet.memory.configs = memory.configs;
}
