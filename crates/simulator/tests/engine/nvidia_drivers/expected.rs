//! What the values of the bundle and the mode `steer` require of NVIDIADrivers.

use contract::exit::ExitCode;
use contract::settings::{ExpectedNvidiaDriver, Mode};
use observed::{Labels, LiveUpgradePolicy};
use planner::reason::Reason;

use super::{belongs, drivers, fleet_reason, pool_at_rest};
use crate::fleet::{Fleet, NEW, OLD, named};

fn precondition(
    name: &str,
    field: &'static str,
    expected: &str,
    found: &str,
    manager: Option<&str>,
) -> Reason {
    Reason::Precondition {
        kind: "NVIDIADriver",
        name: name.into(),
        field,
        expected: expected.into(),
        found: found.into(),
        manager: manager.map(Into::into),
        changed_in_run: false,
    }
}

/// A deployer without order starts the hook before the operator's chart, when everything is settled
/// on the old driver.
#[test]
fn default_nvidia_driver_with_old_version_is_unsettled() {
    for version in ["v25.10.1", "v26.3.1", "v26.7.0"] {
        assert!(pool_at_rest(version).decide(0).well, "{version}");
        let mut fleet = pool_at_rest(version);
        fleet.settings.expected.driver_version = Some(NEW.into());
        fleet.settings.expected.nvidia_drivers = Some(true);
        fleet.settings.expected.default_nvidia_driver = Some(ExpectedNvidiaDriver {
            version: Some(NEW.into()),
            ..ExpectedNvidiaDriver::default()
        });
        let expected = precondition("default", "spec.version", NEW, OLD, Some("helm"));
        assert_eq!(fleet_reason(&mut fleet, 1), Some(expected), "{version}");
        let verdict = fleet.decide(121).verdict.expect("the grace time is over");
        assert_eq!(verdict.code, ExitCode::Precondition);
        assert_eq!(named(&verdict), ["*:Precondition"], "{version}");
    }
}

#[test]
fn missing_default_nvidia_driver_is_awaited() {
    let mut fleet = pool_at_rest("v26.7.0");
    drivers(&mut fleet)[0].name = "mine".into();
    for index in 0..3 {
        belongs(&mut fleet, index, "mine");
    }
    assert!(fleet.decide(0).well, "the recipe says nothing of it");
    fleet.settings.expected.default_nvidia_driver = Some(ExpectedNvidiaDriver::default());
    let missing = Reason::PolicyMissing { kind: "NVIDIADriver", name: "default".into() };
    assert_eq!(fleet_reason(&mut fleet, 1), Some(missing));
}

#[test]
fn values_with_nvidia_drivers_wait_for_cluster_policy() {
    let mut fleet = Fleet::at_rest(1);
    fleet.settings.expected.nvidia_drivers = Some(true);
    let Some(Reason::Precondition { field, .. }) = fleet_reason(&mut fleet, 0) else {
        panic!("it is not settled")
    };
    assert_eq!(field, "spec.driver.useNvidiaDriverCRD");
}

/// The chart copies `driver.upgradePolicy` into its NVIDIADriver from v26.7 on; before that the
/// object has no such field.
#[test]
fn default_nvidia_driver_policy_matches_from_26_7() {
    for (version, waits) in [("v26.3.3", false), ("v26.7.0", true)] {
        let mut fleet = pool_at_rest(version);
        fleet.settings.expected.default_nvidia_driver = Some(ExpectedNvidiaDriver::default());
        fleet.settings.expected.upgrade_policy.max_parallel_upgrades = Some(4);
        let expected = precondition(
            "default",
            "spec.upgradePolicy.maxParallelUpgrades",
            "4",
            "1",
            Some("helm"),
        );
        let reason = fleet_reason(&mut fleet, 0);
        assert_eq!(reason == Some(expected), waits, "{version}: {reason:?}");
        assert_eq!(fleet.decide(0).well, !waits, "{version}");
    }
}

/// Without the hook's holds, the operator would start as many nodes as each of these policies
/// allows.
#[test]
fn steer_requires_one_node_of_every_nvidia_driver() {
    let steer = |version: &str, change: &dyn Fn(&mut Fleet)| {
        let mut fleet = pool_at_rest(version);
        fleet.settings.mode = Mode::Steer;
        drivers(&mut fleet)[0].upgrade_policy.max_unavailable = Some("25%".into());
        let mut other = drivers(&mut fleet)[0].clone();
        (other.name, other.uid, other.is_default) = ("blue".into(), "driver-blue".into(), false);
        other.node_selector = Labels::from([("pool".to_owned(), "blue".to_owned())]);
        drivers(&mut fleet).push(other);
        change(&mut fleet);
        fleet_reason(&mut fleet, 0)
    };
    let is_quiet = |reason: Option<Reason>| matches!(reason, Some(Reason::Quiet { .. }));
    assert!(is_quiet(steer("v26.7.0", &|_| {})));
    for (index, name) in ["default", "blue"].into_iter().enumerate() {
        let field = |change: &dyn Fn(&mut LiveUpgradePolicy)| {
            steer("v26.7.0", &|fleet| change(&mut drivers(fleet)[index].upgrade_policy))
        };
        let manager = Some("helm");
        let parallel =
            precondition(name, "spec.upgradePolicy.maxParallelUpgrades", "1", "3", manager);
        assert_eq!(field(&|policy| policy.max_parallel = Some(3)), Some(parallel));
        let all = precondition(name, "spec.upgradePolicy.maxParallelUpgrades", "1", "0", manager);
        assert_eq!(field(&|policy| policy.max_parallel = Some(0)), Some(all), "0 means unlimited");
        let off = precondition(name, "spec.upgradePolicy.autoUpgrade", "true", "false", manager);
        assert_eq!(field(&|policy| policy.auto_upgrade = false), Some(off));
    }
    let wide =
        precondition("default", "spec.upgradePolicy.maxUnavailable", "25%", "100%", Some("helm"));
    assert_eq!(
        steer("v26.7.0", &|fleet| drivers(fleet)[0].upgrade_policy.max_unavailable =
            Some("100%".into())),
        Some(wide)
    );
    let narrow =
        |fleet: &mut Fleet| drivers(fleet)[0].upgrade_policy.max_unavailable = Some("1".into());
    assert!(is_quiet(steer("v26.7.0", &narrow)));
    // Up to v26.3 the ClusterPolicy's policy governs the nodes of all of them.
    assert!(is_quiet(
        steer("v26.3.3", &|fleet| drivers(fleet)[0].upgrade_policy.max_parallel = Some(3))
    ));
    let Some(Reason::Precondition { kind, field, .. }) =
        steer("v26.3.3", &|fleet| fleet.policy().upgrade_policy.max_unavailable = None)
    else {
        panic!("without a limit it does not fail closed")
    };
    assert_eq!((kind, field), ("ClusterPolicy", "spec.driver.upgradePolicy.maxUnavailable"));
}
