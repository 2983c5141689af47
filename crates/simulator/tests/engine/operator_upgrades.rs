//! An upgrade of the GPU Operator. The old operator renders the new values, then no operator leads
//! for a while, then the new operator renders them again. The hook holds nodes before it, so that
//! each driver pod is replaced once.

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::settings::{HoldNodes, Mode, Settings};
use contract::task::Task;
use observed::pause::{HOLD, ObservedPause};
use observed::{Observed, ObservedDeployment, ObservedNode, OperatorLease};
use planner::action::NodePatch;
use planner::decide::{Action, Decision};
use planner::hold::{HoldPlan, HoldPurpose, UpgradeHold, before_operator, missing};
use planner::note::DecisionNote;
use simulator::fault::{Fault, ScheduledFault};
use simulator::report::SimulationReport;
use simulator::setup::SimulationSetup;
use simulator::simulate;

use crate::fleet::{Fleet, at, waits};
use crate::kills::end;
use crate::operator::{OPERATOR_POD, leads};
use crate::script::read;
use crate::settings::settings;

const STORY: &str = "nodes 3\ndriver 60s\nworkers train replicaset each 1\noperator-upgrade 30s";
const MODES: [&str; 4] = ["assist v26.7.0", "assist v26.3.1", "steer v26.7.0", "steer v26.3.1"];

fn story(mode: &str, hold: HoldNodes) -> SimulationSetup {
    let mut setup = read(&format!("{STORY}\noperator {mode}"));
    setup.settings.operator_upgrade.hold = hold;
    setup
}

/// Returns how often the driver pod of each node was deleted.
fn replacements(report: &SimulationReport) -> Vec<usize> {
    let of = |node: &str| {
        report
            .story
            .iter()
            .filter(|(_, what)| what.starts_with(&format!("{node} driver pod deleted")))
            .count()
    };
    (0..3).map(|index| of(&format!("gpu-{index}"))).collect()
}

#[test]
fn operator_upgrade_replaces_each_driver_once() {
    for mode in MODES {
        let report = simulate(&story(mode, HoldNodes::Auto));
        let place = format!("{mode}\n{}", report.describe());
        assert_eq!(report.violations, [""; 0], "{place}");
        assert_eq!(report.verdict.as_ref().expect("a verdict").code, ExitCode::Success, "{place}");
        assert_eq!(replacements(&report), [1, 1, 1], "{place}");
    }
}

/// The purpose of the holds: without them, the old operator starts nodes with a driver that the new
/// one replaces again.
#[test]
fn operator_upgrade_without_holds_replaces_drivers_twice() {
    for mode in ["assist v26.7.0", "assist v26.3.1"] {
        let report = simulate(&story(mode, HoldNodes::Never));
        assert!(replacements(&report).contains(&2), "{mode}\n{}", report.describe());
    }
}

#[test]
fn operator_upgrade_killed_anywhere_ends_the_same() {
    for mode in ["assist v26.7.0", "steer v26.3.1"] {
        let setup = story(mode, HoldNodes::Auto);
        let undisturbed = simulate(&setup);
        let mut moments: Vec<u64> =
            undisturbed.story.iter().flat_map(|(at, _)| [at.saturating_sub(1), at + 1]).collect();
        moments.dedup();
        for at in moments.into_iter().step_by(3) {
            let report = simulate(&SimulationSetup {
                faults: vec![ScheduledFault { at, fault: Fault::KillHook(3_000) }],
                ..setup.clone()
            });
            let place = format!("{mode}, killed at {at} ms\n{}", report.describe());
            assert_eq!(report.violations, [""; 0], "{place}");
            assert_eq!(end(&report), end(&undisturbed), "{place}");
            assert_eq!(replacements(&report), [1, 1, 1], "{place}");
        }
    }
}

/// Returns the settings of the hook before the operator's release.
fn before(mode: Mode, hold: HoldNodes, to: Option<&str>) -> Settings {
    let mut settings = Settings {
        release: "gpu-operator-pre".into(),
        mode,
        component_version: to.map(str::to_owned),
        ..settings()
    };
    settings.tasks = vec![Task::Preflight, Task::Hold];
    settings.operator_upgrade.hold = hold;
    settings
}

fn operator(chart: Option<&str>, version: Option<&str>) -> Observed {
    let operator = ObservedDeployment {
        chart: chart.map(str::to_owned),
        version: version.map(str::to_owned),
        ..ObservedDeployment::default()
    };
    Observed { operator: Some(operator), ..Observed::default() }
}

#[test]
fn setting_and_live_version_decide_about_holds() {
    use HoldNodes::{Always, Auto, Never};
    let to = Some("v26.7.0");
    let old = operator(Some("gpu-operator-v26.3.1"), Some("v26.3.1"));
    let same = operator(Some("gpu-operator-v26.7.0"), Some("v26.7.0"));
    let (absent, unknown, olm) =
        (Observed::default(), operator(None, None), operator(None, Some("26.7.0")));
    for (observed, mode, hold, to, expected) in [
        (&old, Mode::Assist, Auto, to, "until rendered"),
        (&same, Mode::Assist, Auto, to, "leave"),
        (&same, Mode::Assist, Auto, Some("26.7.0"), "leave"),
        (&olm, Mode::Assist, Auto, to, "leave"),
        (&unknown, Mode::Assist, Auto, to, "until rendered"),
        (&same, Mode::Assist, Auto, None, "until rendered"),
        (&absent, Mode::Assist, Auto, to, "leave"),
        (&same, Mode::Assist, Always, to, "until rendered"),
        (&absent, Mode::Assist, Always, to, "leave"),
        (&old, Mode::Assist, Never, to, "leave"),
        (&old, Mode::Steer, Never, to, "until rendered"),
        (&same, Mode::Steer, Auto, to, "until started"),
        (&absent, Mode::Steer, Auto, to, "until started"),
        (&old, Mode::Observe, Always, to, "leave"),
        (&old, Mode::Drive, Always, to, "leave"),
    ] {
        let found = match before_operator(observed, &before(mode, hold, to), at(0)) {
            HoldPlan::UntilStarted => "until started",
            HoldPlan::UntilRendered(_) => "until rendered",
            HoldPlan::Leave(_) => "leave",
        };
        assert_eq!(found, expected, "{mode:?} {hold:?} {to:?} {:?}", observed.operator);
    }
}

#[test]
fn assist_holds_no_node_before_the_network_operator() {
    let settings =
        Settings { driver: Driver::Ofed, ..before(Mode::Assist, HoldNodes::Auto, Some("26.4.1")) };
    let observed = operator(Some("network-operator-26.1.0"), None);
    assert!(matches!(before_operator(&observed, &settings, at(0)), HoldPlan::Leave(_)));
}

fn apply(fleet: &mut Fleet, patches: &[NodePatch]) {
    for patch in patches {
        fleet.patch(patch);
    }
}

/// Returns a fleet in mode `assist` that is held before the operator is upgraded.
fn held(nodes: usize) -> Fleet {
    let mut fleet = Fleet::migrating(nodes);
    fleet.is_assisted("v26.7.0");
    let mut old = fleet.observed.clone();
    old.operator.as_mut().expect("the operator").version = Some("v26.3.1".into());
    let patches = missing(&old, &before(Mode::Assist, HoldNodes::Auto, Some("v26.7.0")), at(-60));
    assert_eq!(patches.len(), nodes);
    apply(&mut fleet, &patches);
    fleet
}

/// Returns the nodes that a decision releases.
fn released(decision: &Decision) -> Vec<&str> {
    let traits = Driver::Gpu.traits();
    let patches = decision.actions.iter().filter_map(|action| {
        if let Action::PatchNode(patch) = action { Some(patch) } else { None }
    });
    let releases = |patch: &&NodePatch| {
        patch.annotations.get(traits.hold) == Some(&None)
            && patch.labels.get(traits.skip_label) == Some(&None)
    };
    patches.filter(releases).map(|patch| patch.node.as_str()).collect()
}

fn purpose(node: &ObservedNode) -> Option<HoldPurpose> {
    HoldPurpose::from_node(node, Driver::Gpu)
}

#[test]
fn hold_names_its_release_and_deployment() {
    let mut fleet = held(1);
    let Some(HoldPurpose::OperatorUpgrade(hold)) = purpose(fleet.node("gpu-0")) else {
        panic!("held for the operator's upgrade")
    };
    assert_eq!(
        (hold.release.as_str(), hold.digest.len(), hold.at),
        ("gpu-operator/gpu-operator-pre", 64, at(-60))
    );
    assert_eq!((hold.from.as_deref(), hold.to.as_deref()), (Some("v26.3.1"), Some("v26.7.0")));
    let traits = Driver::Gpu.traits();
    for (value, expected) in [
        ("true", HoldPurpose::Steer),
        (HOLD, HoldPurpose::Pause),
        ("{\"version\":9}", HoldPurpose::Steer),
    ] {
        fleet.node("gpu-0").annotations.insert(traits.hold.into(), value.into());
        assert_eq!(purpose(fleet.node("gpu-0")), Some(expected), "{value}");
    }
    fleet.node("gpu-0").labels.remove(traits.skip_label);
    assert_eq!(
        UpgradeHold::read(fleet.node("gpu-0"), Driver::Gpu),
        None,
        "without the skip label nothing holds the node"
    );
}

#[test]
fn skip_label_of_others_is_not_held() {
    let mut fleet = Fleet::at_rest(3);
    fleet.is_assisted("v26.3.1");
    fleet.node("gpu-0").labels.insert(Driver::Gpu.traits().skip_label.into(), "true".into());
    fleet.state("gpu-1", "drain-required");
    let patches =
        missing(&fleet.observed, &before(Mode::Assist, HoldNodes::Auto, Some("v26.7.0")), at(0));
    assert_eq!(
        patches.iter().map(|patch| patch.node.as_str()).collect::<Vec<_>>(),
        ["gpu-2"],
        "nor a node that is in progress"
    );
}

#[test]
fn quiet_operator_releases_all_holds() {
    let mut fleet = held(3);
    assert_eq!(released(&fleet.decide(0)), ["gpu-0", "gpu-1", "gpu-2"]);
}

/// Regression: an operator of unknown version cannot be woken, and its nodes were held forever.
#[test]
fn unknown_operator_version_releases_holds() {
    let mut fleet = held(2);
    fleet.observed.operator.as_mut().expect("the operator").version = None;
    assert_eq!(released(&fleet.decide(0)), ["gpu-0", "gpu-1"]);
}

#[test]
fn completed_rollout_with_holds_is_not_well() {
    let mut fleet = held(2);
    for node in ["gpu-0", "gpu-1"] {
        fleet.migrate(node, -30);
    }
    let decision = fleet.decide(0);
    assert!(
        !decision.well,
        "a hook that has nothing else to do must not exit before it releases the nodes"
    );
    assert_eq!(released(&decision), ["gpu-0", "gpu-1"]);
}

#[test]
fn observe_names_holds_that_it_cannot_release() {
    let mut fleet = held(2);
    (fleet.settings.mode, fleet.settings.tasks) = (Mode::Observe, vec![Task::Settle]);
    let decision = fleet.decide(0);
    assert_eq!(decision.actions, []);
    assert!(
        decision
            .notes
            .iter()
            .any(|note| matches!(note, DecisionNote::HeldByOtherMode { nodes: 2, .. })),
        "{:?}",
        decision.notes
    );
}

fn pause() -> ObservedPause {
    ObservedPause::read("fleet", r#"{"by":"sre","at":"2023-01-01T00:00:00Z"}"#)
}

/// `resume` releases holds of pauses only: it must not release a node before the new operator
/// leads, and must release it afterwards.
#[test]
fn paused_node_changes_hands_around_the_upgrade() {
    let mut fleet = Fleet::at_rest(1);
    fleet.is_assisted("v26.3.1");
    fleet.observed.pauses = vec![pause()];
    let traits = Driver::Gpu.traits();
    fleet.node("gpu-0").labels.insert(traits.skip_label.into(), "true".into());
    fleet.node("gpu-0").annotations.insert(traits.hold.into(), HOLD.into());
    let settings = before(Mode::Assist, HoldNodes::Auto, Some("v26.7.0"));
    let patches = missing(&fleet.observed, &settings, at(0));
    apply(&mut fleet, &patches);
    assert!(matches!(purpose(fleet.node("gpu-0")), Some(HoldPurpose::OperatorUpgrade(_))));
    assert_eq!(missing(&fleet.observed, &settings, at(1)), [], "a second run changes nothing");
    fleet.is_assisted("v26.7.0");
    let decision = fleet.decide(10);
    let patches: Vec<NodePatch> = decision
        .actions
        .iter()
        .filter_map(
            |action| if let Action::PatchNode(patch) = action { Some(patch.clone()) } else { None },
        )
        .collect();
    apply(&mut fleet, &patches);
    assert_eq!(purpose(fleet.node("gpu-0")), Some(HoldPurpose::Pause));
}

/// Regression: a new operator with little CPU led for 22 s before it rendered the driver's
/// DaemonSet. The hook released the nodes after 15 quiet seconds.
#[test]
fn upgraded_operator_is_waited_for_until_it_renders() {
    // Seconds from the start of the lead to the new rendering (`None`: there is none), and to the
    // release.
    for (renders, releases) in [(Some(3), 18), (Some(22), 37), (Some(50), 60), (None, 60)] {
        let mut fleet = held(1);
        fleet.operator_is_quiet = false;
        fleet.observed.daemon_sets[0].desired = 1;
        let mut first = None;
        for second in 0..70 {
            leads(&mut fleet.observed, at(second));
            let (holder, led_seconds) =
                (format!("{OPERATOR_POD}_4a1b"), u64::try_from(second).expect("positive"));
            fleet.observed.operator_lease = Some(OperatorLease {
                holder,
                duration_seconds: 15,
                led_seconds,
                renewed: Some(at(second)),
                ..OperatorLease::default()
            });
            if renders == Some(second) {
                fleet.observed.daemon_sets[0].applied_hash = Some("new".into());
            }
            let decision = fleet.decide(second);
            if !released(&decision).is_empty() {
                first = Some(second);
                break;
            }
            assert_eq!(waits(&decision), ["*:OperatorActing"], "{renders:?} {second}");
        }
        assert_eq!(first, Some(releases), "rendered after {renders:?}");
    }
}
