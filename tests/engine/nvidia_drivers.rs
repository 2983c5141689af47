//! Several NVIDIADrivers, each with a policy of its own: what a node waits for is its own driver's limit, whatever of the others changes.
//! Each decision is made twice ([`Fleet::decide`]), with what is kept of the last one and without.

use gpu_rollout::contract::names;
use gpu_rollout::rollout::decide::Decision;
use gpu_rollout::rollout::observed::{Api, ImageSpec, NvidiaDriver, UpgradePolicy};
use gpu_rollout::rollout::reason::Reason;
use gpu_rollout::rollout::vendor::explain;

use crate::fleet::{Fleet, NEW};

fn driver(name: &str, max_parallel: u32) -> NvidiaDriver {
    let upgrade_policy = UpgradePolicy { stated: true, auto_upgrade: true, max_parallel: Some(max_parallel), ..UpgradePolicy::default() };
    NvidiaDriver { name: name.into(), uid: format!("driver-{name}"), generation: 1, upgrade_policy, ..NvidiaDriver::default() }
}

/// Eight nodes, the even ones of driver `one`, which upgrades one at a time, the others of `two`, which upgrades two.
fn fleet() -> Fleet {
    let mut fleet = Fleet::migrating(8);
    fleet.is_assisted("v26.7.0");
    fleet.policy().uses_nvidia_drivers = true;
    fleet.policy().upgrade_policy.auto_upgrade = false;
    let image = ImageSpec { repository: Some("nvcr.io/nvidia".into()), image: Some("driver".into()), version: Some(NEW.into()) };
    let drivers = [driver("one", 1), driver("two", 2)].map(|driver| NvidiaDriver { driver: image.clone(), ..driver });
    fleet.observed.nvidia_drivers = Api::Served(drivers.to_vec());
    fleet.observed.daemon_sets[0].owner = Some("driver-one".into());
    fleet.observed.daemon_sets[0].desired = 8;
    for index in 0..8 {
        belongs(&mut fleet, index, if index % 2 == 0 { "one" } else { "two" });
    }
    for node in ["gpu-0", "gpu-1", "gpu-3"] {
        fleet.state(node, "pod-restart-required");
        fleet.node(node).unschedulable = true;
        fleet.driver_pod(node).deleting = true;
    }
    fleet
}

fn belongs(fleet: &mut Fleet, index: usize, owner: &str) {
    fleet.node(&format!("gpu-{index}")).labels.insert(names::DRIVER_OWNER_LABEL.into(), owner.into());
}

/// The limit that a node waits for, and who is in its way.
fn limit(decision: &Decision, node: &str) -> Option<(u32, Vec<String>)> {
    let wait = decision.waits.iter().find(|wait| wait.node.as_deref() == Some(node))?;
    let Reason::DriverOutOfDate { why: Some(why), .. } = &*wait.reason else { return None };
    let explain::Wait::Parallel { limit, holders, .. } = &**why else { return None };
    // They come in the order of their pods.
    let mut names: Vec<String> = holders.iter().map(|holder| holder.node.clone()).collect();
    names.sort();
    Some((*limit, names))
}

fn held_by(limit: u32, nodes: &[&str]) -> (u32, Vec<String>) {
    (limit, nodes.iter().map(|node| (*node).to_owned()).collect())
}

#[test]
fn a_node_waits_for_the_limit_of_its_own_nvidia_driver() {
    let mut fleet = fleet();
    fleet.pass(0);
    let decision = fleet.decide(1);
    assert_eq!(limit(&decision, "gpu-2"), Some(held_by(1, &["gpu-0"])), "{:#?}", decision.waits);
    assert_eq!(limit(&decision, "gpu-5"), Some(held_by(2, &["gpu-1", "gpu-3"])));
    // Of one driver a node ends, and the next one takes its slot: what the nodes of the other wait for stays.
    fleet.migrate("gpu-1", 2);
    fleet.node("gpu-1").unschedulable = false;
    fleet.state("gpu-5", "cordon-required");
    let decision = fleet.decide(3);
    assert_eq!(limit(&decision, "gpu-2"), Some(held_by(1, &["gpu-0"])));
    assert_eq!(limit(&decision, "gpu-7"), Some(held_by(2, &["gpu-3", "gpu-5"])));
}

#[test]
fn a_node_that_another_nvidia_driver_takes_over_waits_for_that_ones_limit() {
    let mut fleet = fleet();
    fleet.pass(0);
    fleet.pass(1);
    belongs(&mut fleet, 6, "two");
    let decision = fleet.decide(2);
    assert_eq!(limit(&decision, "gpu-6"), Some(held_by(2, &["gpu-1", "gpu-3"])));
    // A node under way goes over with its slot.
    belongs(&mut fleet, 0, "two");
    let decision = fleet.decide(3);
    assert_eq!(limit(&decision, "gpu-6"), Some(held_by(2, &["gpu-0", "gpu-1", "gpu-3"])));
    // One that is nobody's is not told why it waits.
    fleet.node("gpu-6").labels.remove(names::DRIVER_OWNER_LABEL);
    let decision = fleet.decide(4);
    assert_eq!(limit(&decision, "gpu-6"), None);
}
