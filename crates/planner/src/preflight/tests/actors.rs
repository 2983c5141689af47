//! Who upgrades, and with how much time.

use crate::preflight::policy;
use contract::check::{CheckSeverity, PreflightCheck};
use contract::count::Count;
use contract::driver::Driver;
use contract::policy::{DrainPolicy, Policy};
use contract::preflight::WaitingJob;
use contract::settings::Mode;
use contract::task::Task;
use observed::{LiveUpgradePolicy, NicClusterPolicy, NvidiaDriver, OptionalApi};

use super::scene::{PreflightScene, environ, labels};

fn found(mode: Mode, change: impl FnOnce(&mut PreflightScene)) -> Vec<String> {
    let mut scene = PreflightScene::new(4);
    scene.settings.mode = mode;
    scene.coming().manager_environment = Some(environ(&[(
        "ENABLE_GPU_POD_EVICTION",
        if mode == Mode::Drive { "false" } else { "true" },
    )]));
    change(&mut scene);
    let all = scene.texts();
    all.into_iter().filter(|text| !text.starts_with("mode-change")).collect()
}

#[test]
fn two_that_upgrade_or_none_are_found() {
    let off =
        |scene: &mut PreflightScene| scene.cluster_policy().upgrade_policy.auto_upgrade = false;
    let coming = |on| move |scene: &mut PreflightScene| scene.coming().auto_upgrade = Some(on);
    let two = "actors: autoUpgrade is on in the ClusterPolicy, but the hook runs in mode `drive`: both would upgrade the same nodes";
    let none = "actors: autoUpgrade is off in the ClusterPolicy, but the hook runs in mode `steer`, in which the operator upgrades the nodes: no node would be upgraded";
    let upgrades_off = "auto-upgrade-off: autoUpgrade is off in the ClusterPolicy: old driver pods run until a user deletes them";
    let nothing: [&str; 0] = [];
    assert_eq!(found(Mode::Drive, |_| {}), [two]);
    assert_eq!(found(Mode::Drive, off), nothing);
    assert_eq!(
        found(Mode::Drive, coming(false)),
        nothing,
        "it is on for as long as the release is not deployed"
    );
    assert_eq!(found(Mode::Steer, |_| {}), nothing);
    assert_eq!(found(Mode::Steer, off), [none]);
    assert_eq!(found(Mode::Assist, off), [upgrades_off]);
    assert_eq!(found(Mode::Observe, coming(false)), [upgrades_off]);
}

#[test]
fn each_nvidia_driver_has_its_own_upgrade_policy() {
    let of = |name: &str, auto_upgrade| NvidiaDriver {
        name: name.into(),
        upgrade_policy: LiveUpgradePolicy { auto_upgrade, ..LiveUpgradePolicy::default() },
        ..NvidiaDriver::default()
    };
    let change = |scene: &mut PreflightScene| {
        scene.cluster_policy().uses_nvidia_drivers = true;
        scene.coming().auto_upgrade = Some(false);
        scene.observed.nvidia_drivers = OptionalApi::Served(vec![of("a", true), of("b", false)]);
    };
    let texts = found(Mode::Drive, change);
    assert_eq!(
        texts,
        [
            "actors: autoUpgrade is on in NVIDIADriver `a`, but the hook runs in mode `drive`: both would upgrade the same nodes"
        ]
    );
}

#[test]
fn driver_manager_212_manager_that_evicts_too_is_found() {
    let manager = |environment: Option<&[(&str, &str)]>, live: &[(&str, &str)]| {
        found(Mode::Drive, |scene| {
            scene.coming().auto_upgrade = Some(false);
            scene.coming().manager_environment = environment.map(environ);
            scene.observed.daemon_sets[0].manager_environment = labels(live);
        })
    };
    let off = &[("ENABLE_GPU_POD_EVICTION", "false"), ("ENABLE_AUTO_DRAIN", "false")][..];
    let text = |which: &str| {
        vec![format!(
            "manager-eviction: the driver manager evicts pods ({which}), but in mode `drive` only the hook may evict pods"
        )]
    };
    assert_eq!(manager(Some(off), &[]), Vec::<String>::new());
    assert_eq!(manager(None, off), Vec::<String>::new());
    assert_eq!(
        manager(Some(&off[..1]), &[]),
        Vec::<String>::new(),
        "the operator itself switches the drain off"
    );
    assert_eq!(manager(Some(&[]), off), text("ENABLE_GPU_POD_EVICTION"));
    assert_eq!(
        manager(None, &[]),
        text("ENABLE_GPU_POD_EVICTION, ENABLE_AUTO_DRAIN"),
        "the program's own defaults"
    );
    assert_eq!(manager(None, &off[..1]), text("ENABLE_AUTO_DRAIN"));
}

#[test]
fn entering_or_leaving_drive_replaces_driver_pods_once() {
    let change = |live: &str, coming: &str| {
        let mut scene = PreflightScene::new(4);
        scene.observed.daemon_sets[0].manager_environment =
            labels(&[("ENABLE_GPU_POD_EVICTION", live), ("ENABLE_AUTO_DRAIN", "false")]);
        scene.coming().manager_environment = Some(environ(&[("ENABLE_GPU_POD_EVICTION", coming)]));
        scene.texts()
    };
    assert_eq!(
        change("true", "false"),
        [
            "mode-change: the driver manager stops evicting pods: the driver pods of all 4 nodes are replaced once"
        ]
    );
    assert_eq!(change("false", "true").len(), 1);
    assert_eq!(change("true", "true").len() + change("false", "false").len(), 0);
}

#[test]
fn too_small_budget_names_the_number_to_set() {
    let mut scene = PreflightScene::new(12);
    assert_eq!(
        scene.texts(),
        [
            "time-budget: the upgrade of 12 nodes, 1 at a time and 600 s each, needs a time budget of 8100 s, but it is 3600 s: set rollout.budgetSeconds to 8100"
        ]
    );
    assert_eq!(scene.findings()[0].severity, CheckSeverity::Warning);
    scene.settings.mode = Mode::Drive;
    let budget = scene
        .findings()
        .into_iter()
        .find(|finding| finding.check == PreflightCheck::TimeBudget)
        .expect("a finding");
    assert_eq!(budget.severity, CheckSeverity::Blocking);
    scene.settings.mode = Mode::Assist;
    scene.settings.budget_seconds = 8100;
    assert_eq!(scene.texts(), Vec::<String>::new());
    scene.settings.upgrade.soak_seconds = 60;
    assert!(scene.texts()[0].contains("needs a time budget of 8760 s"), "{:?}", scene.texts());
    scene.policy.max_parallel_upgrades = 0;
    assert_eq!(scene.texts(), Vec::<String>::new(), "three at a time: 25%");
}

#[test]
fn budget_before_operator_is_the_waiting_jobs() {
    let mut scene = PreflightScene::new(12);
    scene.settings.tasks = vec![Task::Preflight];
    (scene.settings.mode, scene.settings.budget_seconds) = (Mode::Steer, 900);
    let budgets = |scene: &PreflightScene| {
        scene.texts().into_iter().filter(|text| text.starts_with("time-budget")).collect::<Vec<_>>()
    };
    assert_eq!(budgets(&scene), Vec::<String>::new(), "the settings name no waiting Job");
    scene.settings.preflight.waits =
        Some(WaitingJob { release: "gpu-operator-post".into(), budget_seconds: 3600 });
    assert_eq!(
        budgets(&scene),
        [
            "time-budget: the upgrade of 12 nodes, 1 at a time and 600 s each, needs a time budget of 8100 s, but it is 3600 s: release gpu-operator-post waits for them: set rollout.budgetSeconds of that release, and rollout.preflight.waits.budgetSeconds of this one, to 8100"
        ]
    );
    scene.settings.preflight.waits =
        Some(WaitingJob { release: "gpu-operator-post".into(), budget_seconds: 8100 });
    assert_eq!(budgets(&scene), Vec::<String>::new());
}

#[test]
fn policy_is_ours_in_drive_else_live_one() {
    let mut scene = PreflightScene::new(1);
    scene.settings.upgrade.policy = Policy { max_parallel_upgrades: 7, ..Policy::default() };
    scene.cluster_policy().upgrade_policy = LiveUpgradePolicy {
        max_parallel: Some(3),
        max_unavailable: Some("10%".into()),
        drain: Some(DrainPolicy::default()),
        ..LiveUpgradePolicy::default()
    };
    let live = Policy {
        max_parallel_upgrades: 3,
        max_unavailable: Some(Count::Percent(10)),
        wait_for_completion: None,
        pod_deletion: None,
        drain: Some(DrainPolicy::default()),
    };
    for (mode, expected) in [(Mode::Observe, &live), (Mode::Assist, &live)] {
        scene.settings.mode = mode;
        assert_eq!(policy(&scene.observed, &scene.settings), *expected);
    }
    for mode in [Mode::Steer, Mode::Drive] {
        scene.settings.mode = mode;
        assert_eq!(policy(&scene.observed, &scene.settings), scene.settings.upgrade.policy);
    }
    scene.settings.mode = Mode::Assist;
    scene.observed.cluster_policy = OptionalApi::Absent;
    assert_eq!(
        policy(&scene.observed, &scene.settings),
        scene.settings.upgrade.policy,
        "a first install"
    );
}

#[test]
fn the_network_operators_auto_upgrade_is_its_own() {
    let mut scene = PreflightScene::new(1);
    scene.settings.driver = Driver::Ofed;
    scene.settings.mode = Mode::Drive;
    scene.observed.nic_cluster_policy = OptionalApi::Served(Some(NicClusterPolicy {
        upgrade_policy: LiveUpgradePolicy { auto_upgrade: true, ..LiveUpgradePolicy::default() },
        ..NicClusterPolicy::default()
    }));
    assert_eq!(
        scene.texts(),
        [
            "actors: autoUpgrade is on in the NicClusterPolicy, but the hook runs in mode `drive`: both would upgrade the same nodes"
        ]
    );
}

/// Without the hook the operator would start three nodes at once.
#[test]
fn steer_with_parallel_nvidia_driver_may_not_begin() {
    let of = |name: &str, parallel: u32, unavailable: &str| NvidiaDriver {
        name: name.into(),
        upgrade_policy: LiveUpgradePolicy {
            auto_upgrade: true,
            max_parallel: Some(parallel),
            max_unavailable: Some(unavailable.into()),
            ..LiveUpgradePolicy::default()
        },
        ..NvidiaDriver::default()
    };
    let with = |drivers: Vec<NvidiaDriver>| {
        found(Mode::Steer, |scene| {
            scene.cluster_policy().uses_nvidia_drivers = true;
            scene.observed.nvidia_drivers = OptionalApi::Served(drivers);
        })
    };
    let texts = with(vec![of("default", 3, "25%"), of("blue", 1, "100%"), of("green", 1, "25%")]);
    let fields = [
        "spec.upgradePolicy.maxParallelUpgrades of NVIDIADriver `default`",
        "spec.upgradePolicy.maxUnavailable of NVIDIADriver `blue`",
    ];
    assert_eq!(texts.len(), 2, "{texts:?}");
    for (text, field) in texts.iter().zip(fields) {
        assert!(text.starts_with(&format!("actors: {field}")), "{text}");
    }
    assert_eq!(with(vec![of("default", 1, "25%"), of("blue", 1, "10%")]), Vec::<String>::new());
}
