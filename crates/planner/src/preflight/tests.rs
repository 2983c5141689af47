//! A fleet with which nothing is wrong, and what is found when one thing is.

mod actors;
mod identity;
mod nodes;
mod pods;
mod scene;

use crate::pods::fixture::{bare, gpu_pod};
use contract::check::{CheckLevel, CheckSeverity, PreflightCheck};
use contract::mode::Mode;
use observed::workload::Workload;

use super::{can_start, preflight};
use scene::PreflightScene;

#[test]
fn a_healthy_fleet_has_no_findings() {
    assert_eq!(PreflightScene::new(4).texts(), Vec::<String>::new());
}

#[test]
fn blocking_findings_come_first_and_can_be_downgraded() {
    let mut scene = PreflightScene::new(4);
    scene.settings.mode = Mode::Steer;
    scene.node("gpu-0").ready = false;
    scene.pods[0].empty_dir = true;
    let mut turned = |levels: &[(PreflightCheck, CheckLevel)]| {
        scene.settings.preflight.strictness = levels.iter().copied().collect();
        let findings = preflight(scene.input());
        let may = can_start(&findings);
        (
            findings
                .into_iter()
                .map(|finding| (finding.check, finding.severity))
                .collect::<Vec<_>>(),
            may,
        )
    };
    let (empty_dir, not_ready) = (PreflightCheck::EmptyDir, PreflightCheck::NotReadyNodes);
    assert_eq!(
        turned(&[]),
        (vec![(empty_dir, CheckSeverity::Blocking), (not_ready, CheckSeverity::Warning)], false)
    );
    assert_eq!(
        turned(&[(empty_dir, CheckLevel::Warn)]),
        (vec![(empty_dir, CheckSeverity::Warning), (not_ready, CheckSeverity::Warning)], true)
    );
    assert_eq!(
        turned(&[(empty_dir, CheckLevel::Ignore), (not_ready, CheckLevel::Block)]),
        (vec![(not_ready, CheckSeverity::Blocking)], false)
    );
}

#[test]
fn finding_is_text_for_people_and_json() {
    let mut scene = PreflightScene::new(4);
    scene.node("gpu-0").ready = false;
    let findings = preflight(scene.input());
    assert_eq!(
        findings[0].to_string(),
        "not-ready-nodes: 1 of 4 GPU nodes is not ready: gpu-0; hint: repair or remove them, or raise tolerateNotReady"
    );
    let object = serde_json::to_value(&findings[0]).expect("an object");
    assert_eq!(
        (&object["check"], &object["severity"]),
        (&"not-ready-nodes".into(), &"warning".into())
    );
    assert_eq!(
        (&object["nodes"], &object["pods"]),
        (&serde_json::json!(["gpu-0"]), &serde_json::json!([]))
    );
}

#[test]
fn nodes_without_the_device_do_not_count() {
    let mut scene = PreflightScene::new(2);
    scene.join("cpu-0");
    let cpu = scene.node("cpu-0");
    cpu.labels.clear();
    (cpu.ready, cpu.unschedulable, cpu.kubelet) = (false, true, "v1.32.0".into());
    scene.pods.push(Workload { node: "cpu-0".into(), ..bare(gpu_pod("elsewhere")) });
    assert_eq!(scene.texts(), Vec::<String>::new());
}
