//! What the model says of the recorded traces, and what then happened.

use std::collections::BTreeMap;

use nvidia_upgrade::explain::{ControllerWait, WaitingNode};
use nvidia_upgrade::predict::PredictedStep as Next;
use nvidia_upgrade::{ControllerGeneration, ControllerState, explain_pass};

use crate::vendor::story::{Story, rules, snapshot, stories, story};

/// Returns the waits that the model reports at a time.
fn said(story: &Story, second: f64) -> Vec<WaitingNode> {
    let index = story.moments.iter().take_while(|moment| moment.second < second).count() - 1;
    let moment = &story.moments[index];
    let snapshot = snapshot(&moment.observed);
    let options = story.options(second).seen_from_outside(&snapshot);
    explain_pass(
        &snapshot,
        &rules(&moment.observed),
        &options,
        Some(story.at(story.asleep_since[index])),
    )
    .waits
}

#[test]
fn the_traces_are_explained() {
    for (name, second, node, resolves, text) in [
        ("01-fresh-install", 60.0, "gpu-000", true, "the node enters state `upgrade-done` (done)"),
        (
            "02-driver-bump-serial",
            10.0,
            "gpu-003",
            true,
            "no slot is free (maxParallelUpgrades is 1, 1 in use): gpu-002 (in progress)",
        ),
        (
            "02-driver-bump-serial",
            10.0,
            "gpu-002",
            true,
            "driver pod/nvidia-driver-daemonset-qv2lw is not ready",
        ),
        (
            "02-driver-bump-serial",
            60.0,
            "gpu-002",
            true,
            "the node enters state `validation-required` (validating the driver)",
        ),
        (
            "03-driver-bump-parallel",
            10.0,
            "gpu-000",
            true,
            "no slot is free (maxParallelUpgrades is 2, 2 in use): gpu-002 (in progress), gpu-003",
        ),
        (
            "03-driver-bump-parallel",
            260.0,
            "gpu-000",
            true,
            "validator pod/nvidia-operator-validator-d2hkz is not ready; after 2026-11-21T03:25:41Z",
        ),
        (
            "03-driver-bump-parallel",
            300.0,
            "gpu-000",
            true,
            "the node enters state `uncordon-required` (uncordoning)",
        ),
        ("04-restart-only", 5.0, "gpu-001", true, "is not ready"),
        (
            "05-failing-driver",
            300.0,
            "gpu-001",
            true,
            "is not ready (nvidia-driver-ctr: CrashLoopBackOff), 10 restarts",
        ),
        (
            "05-failing-driver",
            420.0,
            "gpu-001",
            true,
            "the node enters state `upgrade-failed` (failed)",
        ),
        (
            "05-failing-driver",
            600.0,
            "gpu-001",
            true,
            "the upgrade failed; driver pod/nvidia-driver-daemonset-g2pvm is not ready",
        ),
        (
            "05-failing-driver",
            600.0,
            "gpu-003",
            false,
            "no slot is free (maxParallelUpgrades is 1, 1 in use): gpu-001 (failed, keeps its slot)",
        ),
        (
            "06-drain-pdb",
            100.0,
            "gpu-000",
            true,
            "NVIDIA's controller is evicting pods that use the device; if this takes longer than 300 s, the upgrade fails",
        ),
        (
            "06-drain-pdb",
            100.0,
            "gpu-001",
            true,
            "no slot is free (maxParallelUpgrades is 1, 1 in use): gpu-000 (in progress)",
        ),
        ("07-wait-for-jobs", 100.0, "gpu-000", true, "1 job pod is running"),
        (
            "07-wait-for-jobs",
            200.0,
            "gpu-000",
            true,
            "the node enters state `pod-deletion-required` (evicting pods)",
        ),
        (
            "08-join-and-leave",
            40.0,
            "gpu-001",
            true,
            "pod/nvidia-driver-daemonset-lg6rm is on node/gpu-003, which does not exist",
        ),
        ("09-pause-mid-roll", 150.0, "gpu-002", false, "automatic upgrades are off"),
        (
            "09-pause-mid-roll",
            300.0,
            "gpu-002",
            false,
            "1 node counts as unavailable, and maxUnavailable allows 1 (25% of 4): gpu-001 (cordoned)",
        ),
        (
            "09-pause-mid-roll",
            420.0,
            "gpu-003",
            true,
            "the node enters state `cordon-required` (cordoning)",
        ),
        (
            "09-pause-mid-roll",
            420.0,
            "gpu-002",
            true,
            "other nodes get the free slots first (maxParallelUpgrades is 1, 0 in use); upgraded next: gpu-003",
        ),
        (
            "16-rollback-mid-roll",
            60.0,
            "gpu-003",
            true,
            "the node enters state `validation-required` (validating the driver)",
        ),
    ] {
        let all = said(story(name), second);
        let waiting = all
            .iter()
            .find(|waiting| waiting.node == node)
            .unwrap_or_else(|| panic!("{name} at {second}: nothing of {node}"));
        let found = waiting.wait.to_string();
        assert!(found.contains(text), "{name} at {second}: {node}: {found}");
        assert_eq!(waiting.wait.can_resolve(), resolves, "{name} at {second}: {node}: {found}");
    }
    for (name, second) in [
        ("01-fresh-install", 122.24),
        ("02-driver-bump-serial", 485.7),
        ("11-toolkit-bump", 60.0),
        ("16-rollback-mid-roll", 148.2),
    ] {
        assert_eq!(said(story(name), second), [], "{name} at {second}: all is done");
    }
}

/// The end of each longer wait confirms its reported reason: the sleep, or the task that ended.
#[test]
fn every_step_after_a_while_was_announced() {
    let mut counts: BTreeMap<ControllerGeneration, usize> = BTreeMap::new();
    for (name, story) in stories() {
        for step in story.steps.iter().filter(|step| {
            step.second - story.moments[step.moment - 1].second > 0.3
                && step.to != ControllerState::Unknown
        }) {
            let all = said(story, step.second);
            let wait =
                all.iter().find(|waiting| waiting.node == step.node).map(|waiting| &waiting.wait);
            let announced = match wait {
                Some(ControllerWait::Asleep { step: next, .. }) => *next == Next::To(step.to),
                Some(ControllerWait::Evicting { .. }) => {
                    step.from == ControllerState::PodDeletionRequired
                }
                Some(ControllerWait::Draining { .. }) => {
                    step.from == ControllerState::DrainRequired
                }
                _ => false,
            };
            assert!(announced, "{name}: {step:?}: {wait:?}");
            *counts.entry(story.generation).or_default() += 1;
        }
    }
    assert_eq!(
        counts,
        [(ControllerGeneration::Gpu26_3, 18), (ControllerGeneration::Gpu26_7, 37)].into(),
        "such steps of all traces"
    );
}
