//! A sample of every note, in every form of its message, for the catalog of messages.

use std::sync::Arc;

use crate::reason::{OperandName, Reason, Wait};
use contract::driver::Driver;
use contract::mode::Mode;
use contract::operand::Operand;

use super::AT;
use crate::note::DecisionNote;

/// What a decision reports and does not wait for.
pub(super) fn notes() -> Vec<DecisionNote> {
    let dra = || Reason::DraScheduledNowhere {
        daemon_set: "nvidia-dra-driver-gpu/nvidia-dra-driver-gpu-kubelet-plugin".into(),
    };
    let without_key = |node: &str| (node.to_owned(), "a100-shared".to_owned());
    vec![
        DecisionNote::Tolerated {
            node: Some(node(1)),
            reason: Reason::NodeNotReady { since: Some(AT) }.into(),
        },
        DecisionNote::Tolerated { node: None, reason: dra().into() },
        DecisionNote::FailedBefore { node: node(1), reason: exporter_not_ready().into() },
        reported(1),
        reported(5),
        DecisionNote::DaemonSetWantsNoPod,
        DecisionNote::NoNodesWithDevice { device: Driver::Ofed.traits().device },
        DecisionNote::NoGpuNodesConfirmed,
        DecisionNote::OfedOfHost { has_policy: true },
        DecisionNote::OfedOfHost { has_policy: false },
        DecisionNote::NoDraDriver { namespaces: Vec::new() },
        DecisionNote::NoDraDriver {
            namespaces: vec!["nvidia-dra-driver-gpu".into(), "gpu-operator".into()],
        },
        DecisionNote::NoConfigNamed,
        DecisionNote::ConfigNotUsed { config_map: "device-plugin-config".into() },
        DecisionNote::ConfigWithoutDaemonSet {
            config_map: "device-plugin-config".into(),
            namespace: "gpu-operator".into(),
        },
        DecisionNote::ConfigKeyMissing { nodes: vec![without_key("gpu-1")] },
        DecisionNote::ConfigKeyMissing {
            nodes: vec![without_key("gpu-1"), without_key("gpu-2"), without_key("gpu-3")],
        },
        DecisionNote::DriverOfImage { nodes: 1 },
        DecisionNote::DriverOfImage { nodes: 2 },
        DecisionNote::NodesJoined { nodes: 1, device: Driver::Gpu.traits().device },
        DecisionNote::NodesJoined { nodes: 2, device: Driver::Gpu.traits().device },
        DecisionNote::OperatorVersionUnknown,
        DecisionNote::HeldByOtherMode { nodes: 1, mode: Mode::Observe.name() },
        DecisionNote::HeldByOtherMode { nodes: 2, mode: Mode::Observe.name() },
        pause_not_held(0),
        pause_not_held(2),
    ]
}

fn pause_not_held(others: usize) -> DecisionNote {
    let traits = Driver::Gpu.traits();
    let (label, mode) = (traits.skip_label, Mode::Observe.name());
    DecisionNote::PauseNotHeld { node: node(1), others, label, mode }
}

fn node(number: usize) -> Arc<str> {
    format!("gpu-{number}").into()
}

fn exporter_not_ready() -> Reason {
    let known = Operand::DcgmExporter;
    let operand = OperandName { daemon_set: known.traits().daemon_set.into(), known: Some(known) };
    Reason::OperandNotReady {
        operand,
        trouble: Some("nvidia-dcgm-exporter: CrashLoopBackOff".into()),
        restarts: 3,
    }
}

/// An operand that does not gate and is not ready on so many nodes.
fn reported(nodes: usize) -> DecisionNote {
    let reason = Arc::new(exporter_not_ready());
    let waits = (1..=nodes)
        .map(|number| Wait { node: Some(node(number)), reason: Arc::clone(&reason), since: AT })
        .collect();
    DecisionNote::OperandReported {
        daemon_set: "nvidia-dcgm-exporter".into(),
        waits,
        advice: reason.advice(Driver::Gpu),
    }
}
