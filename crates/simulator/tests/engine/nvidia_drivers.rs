//! Several NVIDIADrivers, each with a policy of its own. A node waits for the limit of its own
//! NVIDIADriver, regardless of changes in the others. Each decision is made twice
//! ([`Fleet::decide`]): incrementally and from scratch.

use contract::names;
use observed::{
    ImageSpec, LiveUpgradePolicy, NvidiaDriver, OptionalApi, PolicyCondition, PolicyConditions,
};
use planner::reason::Reason;

use crate::fleet::{Fleet, OLD};

mod conditions;
mod expected;
mod limits;
mod owners;

fn driver(name: &str, max_parallel: u32) -> NvidiaDriver {
    let upgrade_policy = LiveUpgradePolicy {
        stated: true,
        auto_upgrade: true,
        max_parallel: Some(max_parallel),
        ..LiveUpgradePolicy::default()
    };
    NvidiaDriver {
        name: name.into(),
        uid: format!("driver-{name}"),
        generation: 1,
        upgrade_policy,
        ..NvidiaDriver::default()
    }
}

pub(crate) fn belongs(fleet: &mut Fleet, index: usize, owner: &str) {
    fleet
        .node(&format!("gpu-{index}"))
        .labels
        .insert(names::DRIVER_OWNER_LABEL.into(), owner.into());
}

/// Returns three settled nodes of the chart's own NVIDIADriver, with an operator of this version.
pub(crate) fn pool_at_rest(version: &str) -> Fleet {
    let mut fleet = Fleet::at_rest(3);
    fleet.observed.operator.as_mut().expect("the operator").version = Some(version.into());
    fleet.policy().uses_nvidia_drivers = true;
    let image = ImageSpec {
        repository: Some("nvcr.io/nvidia".into()),
        image: Some("driver".into()),
        version: Some(OLD.into()),
    };
    let chart = NvidiaDriver {
        is_default: true,
        field_manager: Some("helm".into()),
        driver: image,
        ..driver("default", 1)
    };
    fleet.observed.nvidia_drivers = OptionalApi::Served(vec![chart]);
    for daemon_set in &mut fleet.observed.daemon_sets {
        if daemon_set.uid == "driver-ds" {
            daemon_set.owner = Some("driver-default".into());
        }
    }
    for index in 0..3 {
        belongs(&mut fleet, index, "default");
    }
    fleet
}

pub(crate) fn drivers(fleet: &mut Fleet) -> &mut Vec<NvidiaDriver> {
    match &mut fleet.observed.nvidia_drivers {
        OptionalApi::Served(drivers) => drivers,
        OptionalApi::Absent => panic!("the API is served"),
    }
}

/// Returns the reason of the first wait of the whole fleet.
fn fleet_reason(fleet: &mut Fleet, second: i64) -> Option<Reason> {
    let decision = fleet.decide(second);
    decision.waits.iter().find(|wait| wait.node.is_none()).map(|wait| (*wait.reason).clone())
}

pub(crate) fn failed(reason: &str, message: &str) -> PolicyConditions {
    let condition = |is_true, reason: &str, message: &str| {
        Some(PolicyCondition { is_true, reason: reason.into(), message: message.into() })
    };
    PolicyConditions {
        ready: condition(false, "Error", ""),
        error: condition(true, reason, message),
    }
}
