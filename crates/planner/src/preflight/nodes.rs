//! Checks of nodes: nodes that cannot be upgraded, nodes that others work on, and leftovers of
//! earlier upgrades.

use std::collections::BTreeMap;

use crate::drive_upgrade::record::{NodeRecordState, read};
use crate::pods::listed;
use contract::check::PreflightCheck;
use contract::count::with_noun;
use contract::driver::Driver;
use contract::names;
use nvidia_upgrade::state::ControllerState;
use observed::{Labels, ObservedNode};

use super::{DraftFinding, PreflightView};

/// The suffix that the driver manager adds to the label of an operand that it removes.
const PAUSED: &str = "paused-for-driver-upgrade";

pub(super) fn check(view: &PreflightView<'_>) -> Vec<DraftFinding> {
    let checks = [
        ready(view),
        kubernetes(view),
        cordons(view),
        maintenances(view),
        paused(view),
        leftovers(view),
        canary_labels(view),
    ];
    checks.into_iter().flatten().collect()
}

fn ready(view: &PreflightView<'_>) -> Option<DraftFinding> {
    let down = view.nodes_where(|node| !node.ready);
    if down.is_empty() {
        return None;
    }
    let (count, device) = (view.nodes.len(), view.input.settings.driver.traits().device);
    let (check, text) = if down.len() == count {
        (
            PreflightCheck::NoReadyNodes,
            format!("none of the {count} {device} nodes is ready: {}", listed(&down)),
        )
    } else {
        (
            PreflightCheck::NotReadyNodes,
            format!(
                "{} of {count} {device} nodes {} not ready: {}",
                down.len(),
                if down.len() == 1 { "is" } else { "are" },
                listed(&down)
            ),
        )
    };
    Some(DraftFinding::new(check, text).with_nodes(down))
}

fn kubernetes(view: &PreflightView<'_>) -> Option<DraftFinding> {
    let mut versions: BTreeMap<&str, Vec<&ObservedNode>> = BTreeMap::new();
    for node in view.nodes.values().filter(|node| !node.kubelet.is_empty()) {
        versions.entry(&node.kubelet).or_default().push(node);
    }
    if versions.len() < 2 {
        return None;
    }
    let counts: Vec<String> = versions
        .iter()
        .map(|(version, nodes)| format!("{version} on {}", with_noun(nodes.len(), "node")))
        .collect();
    // If two are equally common, the older one counts as the rule.
    let (most, _) = versions.iter().rev().max_by_key(|(_, nodes)| nodes.len())?;
    let others: Vec<&ObservedNode> = versions
        .iter()
        .filter(|(version, _)| *version != most)
        .flat_map(|(_, nodes)| nodes)
        .copied()
        .collect();
    let cordoned: Vec<String> = view.nodes_where(|node| node.unschedulable && !is_ours(node));
    let what = if cordoned.is_empty() {
        "an upgrade of Kubernetes may be in progress".to_owned()
    } else {
        format!(
            "an upgrade of Kubernetes is probably in progress, with {} cordoned",
            listed(&cordoned)
        )
    };
    let text = format!("kubelets have different versions ({}): {what}", counts.join(", "));
    Some(
        DraftFinding::new(PreflightCheck::KubernetesUpgrade, text)
            .with_nodes(others.iter().map(|node| node.name.clone()).collect()),
    )
}

/// Returns whether the node has a cordon, hold or newer record of gpu-rollout, for any driver. With
/// an unreadable record, the owner of the cordon is unknown.
fn is_ours(node: &ObservedNode) -> bool {
    Driver::ALL.iter().any(|driver| match read(node, driver.traits()) {
        NodeRecordState::Record(record) => record.cordoned,
        NodeRecordState::Newer(_) => true,
        NodeRecordState::Nothing | NodeRecordState::Broken => false,
    } || node.annotations.contains_key(driver.traits().hold))
}

/// Returns whether the state means that NVIDIA's controller has started the node, or that its
/// upgrade failed.
fn is_busy_state(state: Option<&str>) -> bool {
    !ControllerState::from_label(state).is_idle()
}

/// Returns whether NVIDIA's controller has cordoned the node: it has started the node or failed,
/// and the node was not cordoned before.
fn is_vendors(node: &ObservedNode) -> bool {
    Driver::ALL.iter().map(|driver| driver.traits()).any(|traits| {
        is_busy_state(node.labels.text(traits.state_label))
            && !node.annotations.contains_key(traits.initially_unschedulable)
    })
}

fn cordons(view: &PreflightView<'_>) -> Option<DraftFinding> {
    let nodes = view.nodes_where(|node| node.unschedulable && !is_ours(node) && !is_vendors(node));
    (!nodes.is_empty()).then(|| {
        DraftFinding::new(
            PreflightCheck::ForeignCordons,
            format!("foreign cordon on {}: {}", with_noun(nodes.len(), "node"), listed(&nodes)),
        )
        .with_nodes(nodes)
    })
}

fn maintenances(view: &PreflightView<'_>) -> Option<DraftFinding> {
    let all = view.observed().workloads.maintenances.served()?;
    let of_others = all.iter().filter(|one| {
        view.nodes.contains_key(one.node.as_str()) && !one.requestor.starts_with(names::PREFIX)
    });
    let (nodes, texts): (Vec<String>, Vec<String>) = of_others
        .map(|one| {
            let state = one.state.as_deref().unwrap_or("not started");
            (one.node.clone(), format!("{} (requested by `{}`, {state})", one.node, one.requestor))
        })
        .unzip();
    (!nodes.is_empty()).then(|| {
        DraftFinding::new(
            PreflightCheck::NodeMaintenance,
            format!("{}: {}", with_noun(nodes.len(), "NodeMaintenance"), listed(&texts)),
        )
        .with_nodes(nodes)
    })
}

fn paused(view: &PreflightView<'_>) -> Option<DraftFinding> {
    let label = view.input.settings.driver.traits().label;
    let of_driver = |labels: &Labels| {
        label.is_none_or(|(key, value)| {
            labels.get(key).is_some_and(|found| value.is_none_or(|value| found == value))
        })
    };
    // While a driver pod starts or is replaced, paused labels are normal.
    let state = |node: &ObservedNode| {
        node.labels.get(view.input.settings.driver.traits().state_label).cloned()
    };
    let starting = |node: &ObservedNode| {
        let mut pods = view.observed().pods.iter();
        let replaced = is_busy_state(state(node).as_deref())
            && state(node).as_deref() != Some("upgrade-failed");
        replaced
            || pods.any(|pod| {
                pod.node.as_ref() == Some(&node.name) && of_driver(&pod.labels) && !pod.ready
            })
    };
    let keys = |node: &ObservedNode| {
        let paused = |(key, value): &(&String, &String)| {
            key.starts_with(names::DEPLOY_LABEL_PREFIX) && value.contains(PAUSED)
        };
        node.labels.iter().filter(paused).map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    let found: Vec<&&ObservedNode> =
        view.nodes.values().filter(|node| !keys(node).is_empty() && !starting(node)).collect();
    let texts: Vec<String> =
        found.iter().map(|node| format!("{} ({})", node.name, keys(node).join(", "))).collect();
    let text = format!(
        "operands of {} are paused for an upgrade that has ended: {}",
        with_noun(found.len(), "node"),
        listed(&texts)
    );
    (!found.is_empty()).then(|| {
        DraftFinding::new(PreflightCheck::PausedOperands, text)
            .with_nodes(found.iter().map(|node| node.name.clone()).collect())
    })
}

/// Finds labels of the canaries that no node has. Without nodes, nothing is known.
fn canary_labels(view: &PreflightView<'_>) -> Option<DraftFinding> {
    let settings = view.input.settings;
    let canary = settings.upgrade.canary.as_ref().filter(|_| settings.mode.decides())?;
    let is_missing = |label: &&String| {
        let mut nodes = view.nodes.values();
        !nodes.any(|node| node.labels.contains_key(label.as_str()))
    };
    let missing: Vec<String> = canary.per.iter().filter(is_missing).cloned().collect();
    (!missing.is_empty() && !view.nodes.is_empty()).then(|| {
        let device = settings.driver.traits().device;
        let noun = if missing.len() == 1 { "label" } else { "labels" };
        let text = format!("no {device} node has the {noun} of canary.per: {}", listed(&missing));
        DraftFinding::new(PreflightCheck::CanaryLabels, text)
    })
}

fn leftovers(view: &PreflightView<'_>) -> Option<DraftFinding> {
    let keys = |node: &ObservedNode| {
        let all = node.labels.keys().chain(node.annotations.keys());
        let said = Driver::DaemonSet.words_of_people();
        let ours = |key: &&String| {
            key.split_once('/').is_some_and(|(prefix, _)| prefix == names::PREFIX)
                && !said.contains(&key.as_str())
        };
        all.filter(ours).cloned().collect::<Vec<_>>()
    };
    // All nodes are checked: a node that lost its device keeps the labels too.
    let found: Vec<&ObservedNode> =
        view.observed().nodes.values().filter(|node| !keys(node).is_empty()).collect();
    let texts: Vec<String> =
        found.iter().map(|node| format!("{} ({})", node.name, keys(node).join(", "))).collect();
    let text = format!(
        "labels or annotations of gpu-rollout on {}: {}",
        with_noun(found.len(), "node"),
        listed(&texts)
    );
    (!found.is_empty()).then(|| {
        DraftFinding::new(PreflightCheck::Leftovers, text)
            .with_nodes(found.iter().map(|node| node.name.clone()).collect())
    })
}
