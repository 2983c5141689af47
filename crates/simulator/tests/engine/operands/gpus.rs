//! The GPUs that nodes must offer.

use contract::exit::ExitCode;
use contract::names;
use contract::settings::MissingGpus;

use super::{GPU, ends, fleet, labels, offers, one_gpu_less};
use crate::fleet::{reason_of, waits};

#[test]
fn node_without_gpus_blocks_success() {
    for gpus in [labels(&[(GPU, "0")]), labels(&[])] {
        let mut fleet = fleet(2);
        fleet.node("gpu-1").gpus_allocatable = gpus;
        assert_eq!(waits(&fleet.decide(0)), ["gpu-1:GpusNotOffered"]);
        assert_eq!(ends(&mut fleet).0.code, ExitCode::NodesFailed);
    }
}

#[test]
fn gpu_that_died_is_reported_or_fails() {
    for (setting, code) in
        [(MissingGpus::Report, ExitCode::Success), (MissingGpus::Fail, ExitCode::NodesFailed)]
    {
        let mut fleet = fleet(2);
        fleet.settings.settle.gpus_missing = setting;
        fleet.pass(0);
        offers(&mut fleet, "gpu-1", "7", "7");
        let (verdict, decision) = ends(&mut fleet);
        assert_eq!(verdict.code, code, "{}", verdict.message);
        assert_eq!(reason_of(&decision, "gpu-1"), one_gpu_less());
    }
}

#[test]
fn other_mig_layout_has_no_baseline() {
    let mut fleet = fleet(2);
    fleet.pass(0);
    let node = fleet.node("gpu-1");
    node.labels.insert("nvidia.com/mig.config".into(), "all-1g.10gb".into());
    node.gpus_allocatable = labels(&[("nvidia.com/mig-1g.10gb", "56")]);
    assert_eq!(ends(&mut fleet).0.code, ExitCode::Success);
}

#[test]
fn mig_reconfiguration_is_a_wait() {
    let mut fleet = fleet(2);
    for state in ["pending", "rebooting"] {
        fleet.node("gpu-1").labels.insert(names::MIG_CONFIG_STATE_LABEL.into(), state.into());
        assert_eq!(waits(&fleet.decide(0)), ["gpu-1:MigReconfiguring"]);
    }
    fleet.node("gpu-1").labels.insert(names::MIG_CONFIG_STATE_LABEL.into(), "success".into());
    assert!(fleet.decide(1).well);
}
