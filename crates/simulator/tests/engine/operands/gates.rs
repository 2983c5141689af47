//! Which operands gate success, and when.

use contract::exit::ExitCode;
use contract::operand::Operand;
use contract::record::NodeOutcome;
use contract::settings::GatingOperands;
use planner::reason::Reason;

use super::{change, crashes, ends, fleet, remove};
use crate::fleet::{Fleet, named, waits};

#[test]
fn fleet_with_all_operands_settles() {
    let (verdict, decision) = ends(&mut fleet(2));
    assert_eq!((verdict.code, named(&verdict)), (ExitCode::Success, vec!["*:Settled".to_owned()]));
    assert!(decision.outcomes.values().all(|outcome| *outcome == NodeOutcome::Done));
}

/// Each gating operand, unready, missing, of an old revision: success waits for it and names it.
#[test]
fn gating_operand_not_current_blocks_success() {
    type Break = fn(&mut Fleet, Operand);
    let breaks: [(&str, Break); 3] = [
        ("OperandNotReady", |fleet, operand| {
            change(fleet, operand, "gpu-1", |pod| pod.ready = false);
        }),
        ("OperandMissing", |fleet, operand| remove(fleet, operand, "gpu-1")),
        ("OperandOutdated", |fleet, operand| {
            change(fleet, operand, "gpu-1", |pod| pod.revision = Some("old".into()));
        }),
    ];
    for operand in [Operand::Validator, Operand::DevicePlugin] {
        for (name, broken) in breaks {
            let mut fleet = fleet(2);
            broken(&mut fleet, operand);
            let decision = fleet.decide(0);
            assert_eq!(waits(&decision), [format!("gpu-1:{name}")], "{operand:?}");
            let wait = decision.waits.at(0);
            let found = wait.reason.operand().expect("an operand");
            assert_eq!(found.known, Some(operand));
            let verdict = ends(&mut fleet).0;
            assert_eq!(
                (verdict.code, named(&verdict)),
                (ExitCode::Budget, vec![format!("gpu-1:{name}")]),
                "{operand:?}"
            );
        }
    }
}

/// Regression: all device plugins and validators were down, and the verdict was "settled: 2 of 2
/// nodes done".
#[test]
fn every_operand_down_is_never_success() {
    for operand in [Operand::Validator, Operand::DevicePlugin] {
        let mut fleet = fleet(2);
        for node in ["gpu-0", "gpu-1"] {
            // A long failure on every node is not a problem of single nodes that could be excused.
            change(&mut fleet, operand, node, crashes);
        }
        assert_eq!(ends(&mut fleet).0.code, ExitCode::Budget);
    }
}

#[test]
fn missing_daemon_set_of_operand_blocks_success() {
    for operand in [Operand::Validator, Operand::DevicePlugin, Operand::DcgmExporter] {
        let mut fleet = fleet(1);
        fleet
            .observed
            .daemon_sets
            .retain(|daemon_set| daemon_set.name != operand.traits().daemon_set);
        let decision = fleet.decide(0);
        assert!(
            matches!(&*decision.waits.at(0).reason, Reason::DaemonSetMissing { what } if *what == operand.traits().daemon_set)
        );
        fleet.policy().operands.get_mut(&operand).expect("an operand").enabled = false;
        assert!(fleet.decide(1).well, "what is switched off is not waited for");
    }
}

#[test]
fn stale_template_of_operand_blocks_success() {
    let mut fleet = fleet(1);
    fleet.policy().operands.get_mut(&Operand::DevicePlugin).expect("an operand").image.version =
        Some("v2".into());
    assert_eq!(waits(&fleet.decide(0)), ["*:SpecNotObserved"]);
}

#[test]
fn unready_exporter_is_reported_but_does_not_gate() {
    let mut fleet = fleet(2);
    change(&mut fleet, Operand::DcgmExporter, "gpu-1", crashes);
    let (verdict, decision) = ends(&mut fleet);
    assert_eq!(
        (verdict.code, named(&verdict)),
        (ExitCode::Success, vec!["*:Settled".to_owned(), "*:OperandReported".to_owned()])
    );
    assert!(decision.notes.is_empty() && decision.waits.is_empty());
}

#[test]
fn exporter_gates_where_all_operands_do() {
    let mut fleet = fleet(2);
    fleet.settings.settle.operands = GatingOperands::All;
    change(&mut fleet, Operand::DcgmExporter, "gpu-1", |pod| pod.ready = false);
    assert_eq!(waits(&fleet.decide(0)), ["gpu-1:OperandNotReady"]);
}

/// With `daemonsets.updateStrategy: OnDelete`, no controller replaces the old pods, so they only
/// need to be ready.
#[test]
fn operand_on_delete_needs_ready_only() {
    let mut fleet = fleet(2);
    for daemon_set in fleet
        .observed
        .daemon_sets
        .iter_mut()
        .filter(|daemon_set| daemon_set.name == "nvidia-device-plugin-daemonset")
    {
        daemon_set.on_delete = true;
    }
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", |pod| pod.revision = Some("old".into()));
    assert!(fleet.decide(0).well);
}
