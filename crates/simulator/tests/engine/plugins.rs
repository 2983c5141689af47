//! Which DRA plugins the hook replaces, when, and how often.

use contract::count::Count;
use contract::exit::ExitCode;
use contract::names;
use contract::record::NodeOutcome;
use contract::settings::{DraRequired, Reroll};
use jiff::SignedDuration;
use observed::{OptionalApi, Views};
use planner::memory::RunMemory;

use crate::fleet::{Fleet, NEW, OLD, at, named, replaced, waits};

#[test]
fn plugin_is_replaced_when_own_driver_is_ready() {
    let mut fleet = Fleet::migrating(3);
    assert!(replaced(&fleet.decide(0)).is_empty());
    fleet.driver("gpu-1", "new", NEW, 50);
    fleet.state("gpu-1", "uncordon-required");
    assert!(replaced(&fleet.decide(50)).is_empty(), "container times have a grain of a second");
    assert_eq!(replaced(&fleet.decide(52)), ["gpu-1"], "while the node is still cordoned");
    let again = fleet.decide(53);
    assert!(replaced(&again).is_empty());
    assert_eq!(waits(&again)[1], "gpu-1:PluginNotReady");
    fleet.plugin("gpu-1", 54, NEW);
    assert_eq!(waits(&fleet.decide(55))[1], "gpu-1:UpgradeUnfinished");
    assert!(fleet.memory.nodes["gpu-1"].replaced.values().all(|one| one.back_at == Some(at(55))));
}

/// The times by the hook's clock, in milliseconds: when it observes a driver that is dated second
/// 50, and when it replaces the plugin.
#[test]
fn plugin_is_replaced_in_a_later_second_than_its_driver() {
    for (clock_of_node, observed, replaced_at) in [
        ("the same, driver ready at the start of the second", 50_000, 51_000),
        ("the same, driver ready at its end", 50_990, 51_000),
        ("behind by 0.5 s", 50_700, 51_000),
        ("behind by more than a second", 52_300, 53_300),
        ("ahead", 48_700, 49_700),
    ] {
        let mut fleet = Fleet::migrating(1);
        fleet.migrate("gpu-0", 50);
        let mut decide =
            |milliseconds| fleet.decide_at(at(0) + SignedDuration::from_millis(milliseconds));
        assert!(replaced(&decide(observed)).is_empty(), "{clock_of_node}");
        assert!(replaced(&decide(replaced_at - 1)).is_empty(), "{clock_of_node}");
        assert_eq!(replaced(&decide(replaced_at)), ["gpu-0"], "{clock_of_node}");
    }
}

/// A driver that was ready again within the last second could have started together with the
/// plugin's replacement.
#[test]
fn second_counts_again_if_driver_becomes_ready_again() {
    let mut fleet = Fleet::migrating(1);
    fleet.migrate("gpu-0", 50);
    fleet.pass(50);
    fleet.driver_pod("gpu-0").ready_since = Some(at(51));
    let mut decide =
        |milliseconds| fleet.decide_at(at(0) + SignedDuration::from_millis(milliseconds));
    assert!(replaced(&decide(51_200)).is_empty());
    assert_eq!(replaced(&decide(52_000)), ["gpu-0"]);
}

#[test]
fn a_tie_of_times_is_stale() {
    let mut fleet = Fleet::at_rest(1);
    fleet.plugin("gpu-0", -4990, OLD);
    fleet.pass(0);
    assert_eq!(replaced(&fleet.decide(2)), ["gpu-0"]);
}

#[test]
fn dra_1144_replaced_toolkit_makes_plugin_stale_too() {
    let mut fleet = Fleet::at_rest(1);
    fleet.toolkit("gpu-0", -10);
    fleet.pass(0);
    assert_eq!(replaced(&fleet.decide(2)), ["gpu-0"]);
}

#[test]
fn restarted_driver_container_makes_plugin_stale_again() {
    let mut fleet = Fleet::at_rest(1);
    fleet.driver("gpu-0", "old", OLD, -10);
    fleet.pass(0);
    assert_eq!(replaced(&fleet.decide(2)), ["gpu-0"]);
    fleet.plugin("gpu-0", 3, OLD);
    assert!(fleet.decide(4).well);
    let pod = fleet.driver_pod("gpu-0");
    pod.containers[0].restarts = 1;
    pod.containers[0].started = Some(at(100));
    pod.ready_since = Some(at(101));
    fleet.pass(102);
    assert_eq!(replaced(&fleet.decide(104)), ["gpu-0"]);
}

#[test]
fn plugin_is_replaced_once_per_driver_container() {
    let mut fleet = Fleet::at_rest(1);
    fleet.driver("gpu-0", "old", OLD, -10);
    fleet.pass(0);
    assert_eq!(replaced(&fleet.decide(2)), ["gpu-0"]);
    fleet.plugin("gpu-0", -10, OLD);
    for second in 3..400 {
        assert!(replaced(&fleet.decide(second)).is_empty());
    }
}

#[test]
fn lost_recorded_deletion_repeats_for_same_pod_only() {
    let mut fleet = Fleet::migrating(1);
    fleet.migrate("gpu-0", 50);
    fleet.pass(50);
    let first = fleet.decide(52);
    fleet.restart();
    let second = fleet.decide(60);
    assert_eq!(first.actions, second.actions);
    fleet.restart();
    fleet.plugin("gpu-0", 61, NEW);
    assert!(fleet.decide(62).actions.is_empty());
}

#[test]
fn old_published_version_counts_after_publishing_time() {
    let mut fleet = Fleet::at_rest(1);
    fleet.driver("gpu-0", "old", OLD, -5000);
    fleet.plugin("gpu-0", -20, "570.0");
    let decision = fleet.decide(0);
    assert_eq!(
        (waits(&decision), decision.wake_at <= at(30)),
        (vec!["gpu-0:SliceOutdated".to_owned()], true)
    );
    fleet.pass(0);
    assert!(
        replaced(&fleet.decide(29)).is_empty(),
        "30 s by the hook's clock, whatever the pod's condition says"
    );
    assert_eq!(replaced(&fleet.decide(30)), ["gpu-0"]);
    let mut fleet = Fleet::at_rest(1);
    fleet.plugin("gpu-0", -200, "580.105.8");
    assert!(fleet.decide(0).well, "leading zeros do not count");
}

/// Regression: while the plugin waited for another reason, the hook did not check its age.
#[test]
fn old_published_version_counts_despite_unpublished_devices() {
    let mut fleet = Fleet::at_rest(1);
    fleet.driver("gpu-0", "old", OLD, -5000);
    let (container, _) = names::DRA_CONTAINERS[1];
    fleet.observed.dra.daemon_sets[0].images.insert(container.to_owned(), "image".to_owned());
    fleet.plugin("gpu-0", -20, "570.0");
    let decision = fleet.decide(0);
    assert_eq!(
        (waits(&decision), decision.wake_at <= at(30)),
        (vec!["gpu-0:SliceMissing".to_owned()], true)
    );
    fleet.pass(0);
    assert!(replaced(&fleet.decide(29)).is_empty());
    assert_eq!(replaced(&fleet.decide(30)), ["gpu-0"]);
}

#[test]
fn dra_616_only_few_plugins_are_away_at_once() {
    let mut fleet = Fleet::migrating(4);
    fleet.settings.dra.max_unavailable = Count::Percent(25);
    for node in ["gpu-0", "gpu-1", "gpu-2", "gpu-3"] {
        fleet.migrate(node, 50);
    }
    fleet.pass(50);
    let decision = fleet.decide(52);
    assert_eq!(replaced(&decision), ["gpu-0"]);
    assert_eq!(waits(&decision)[1], "gpu-1:PluginQueued");
    assert!(replaced(&fleet.decide(60)).is_empty());
    fleet.plugin("gpu-0", 61, NEW);
    assert_eq!(replaced(&fleet.decide(62)), ["gpu-1"]);
    fleet.plugin("gpu-1", 63, NEW);
    assert_eq!(replaced(&fleet.decide(64)), ["gpu-2"]);
    fleet.plugin("gpu-2", 65, NEW);
    assert_eq!(replaced(&fleet.decide(66)), ["gpu-3"]);
    fleet.migrate("gpu-0", 70);
    fleet.pass(70);
    fleet.plugin("gpu-3", 72, NEW);
    assert_eq!(
        replaced(&fleet.decide(72)),
        ["gpu-0"],
        "a free slot is used at once, whatever the order of the nodes"
    );
}

#[test]
fn missing_plugin_fails_the_run_with_its_reason() {
    let mut fleet = Fleet::migrating(1);
    fleet.migrate("gpu-0", 50);
    fleet.pass(50);
    fleet.pass(52);
    fleet.plugin("gpu-0", 53, NEW);
    let pod = fleet.plugin_pod("gpu-0");
    pod.running = false;
    pod.ready = false;
    pod.containers[0].started = None;
    pod.unschedulable = Some("0/4 nodes are available: Insufficient cpu".into());
    fleet.pass(54);
    fleet.pass(354);
    let verdict = fleet.decide(369).verdict.expect("over");
    assert_eq!(verdict.code, ExitCode::DraNotServing);
    assert_eq!(named(&verdict)[0], "gpu-0:PluginUnschedulable");
    assert_eq!(fleet.memory.nodes["gpu-0"].outcome, Some(NodeOutcome::Failed));
}

#[test]
fn retry_of_failed_run_replaces_no_more_plugins() {
    let mut fleet = Fleet::migrating(3);
    fleet.settings.dra.max_unavailable = Count::Number(1);
    for node in ["gpu-0", "gpu-1", "gpu-2"] {
        fleet.migrate(node, 50);
    }
    fleet.pass(50);
    assert_eq!(replaced(&fleet.decide(52)), ["gpu-0"]);
    fleet.plugin("gpu-0", 53, NEW);
    fleet.plugin_pod("gpu-0").ready = false;
    for begin in [1000, 2000] {
        fleet.memory = RunMemory::following(&fleet.memory.nodes, at(begin), at(begin + 3000));
        let verdict = (begin..begin + 500).find_map(|second| {
            let decision = fleet.decide(second);
            assert!(decision.actions.is_empty(), "second {second}: {:?}", decision.actions);
            decision.verdict
        });
        assert_eq!(verdict.expect("over").code, ExitCode::DraNotServing);
    }
}

#[test]
fn optional_broken_dra_driver_is_only_reported() {
    let mut fleet = Fleet::at_rest(1);
    fleet.settings.dra.required = DraRequired::False;
    fleet.plugin_pod("gpu-0").ready = false;
    fleet.pass(0);
    let verdict = fleet.decide(15).verdict.expect("settled");
    assert_eq!(verdict.code, ExitCode::Success);
    assert_eq!(named(&verdict), ["*:Settled", "gpu-0:PluginNotReady"]);
}

/// Regression: with one note for each of ten thousand tolerated nodes, the record could not be
/// written any more.
#[test]
fn verdict_of_many_tolerated_nodes_stays_short() {
    let mut fleet = Fleet::at_rest(40);
    fleet.settings.dra.required = DraRequired::False;
    for index in 0..40 {
        fleet.plugin_pod(&format!("gpu-{index}")).ready = false;
    }
    fleet.pass(0);
    let decision = fleet.decide(15);
    assert_eq!(decision.notes.len(), 40);
    let verdict = decision.verdict.expect("settled");
    assert_eq!(
        verdict.reasons.len(),
        6,
        "the verdict itself, and five nodes: {:?}",
        named(&verdict)
    );
    assert!(verdict.message.len() < 500, "{}", verdict.message);
}

#[test]
fn reroll_off_reports_staleness_and_touches_nothing() {
    let mut fleet = Fleet::at_rest(1);
    fleet.settings.dra.reroll = Reroll::Off;
    fleet.driver("gpu-0", "old", OLD, -10);
    fleet.pass(0);
    let decision = fleet.decide(15);
    assert!(decision.actions.is_empty());
    assert_eq!(named(&decision.verdict.expect("settled")), ["*:Settled", "gpu-0:PluginStale"]);
}

#[test]
fn nothing_is_replaced_before_operator_saw_the_spec() {
    let mut fleet = Fleet::at_rest(1);
    fleet.driver("gpu-0", "old", OLD, -10);
    fleet.bump();
    for second in 0..60 {
        assert!(replaced(&fleet.decide(second)).is_empty());
    }
}

#[test]
fn stale_plugin_of_skipped_node_is_replaced_too() {
    let mut fleet = Fleet::at_rest(1);
    fleet.driver("gpu-0", "old", OLD, -10);
    fleet.bump();
    fleet.migration_begins();
    fleet.node("gpu-0").labels.insert(names::UPGRADE_SKIP_LABEL.into(), "true".into());
    fleet.pass(0);
    assert_eq!(replaced(&fleet.decide(2)), ["gpu-0"]);
}

#[test]
fn aicr_2456_required_driver_must_serve_every_gpu_node() {
    let mut fleet = Fleet::at_rest(2);
    fleet.settings.dra.required = DraRequired::True;
    fleet.observed.dra.pods.edit().retain(|pod| pod.node.as_deref() != Some("gpu-1"));
    assert_eq!(waits(&fleet.decide(0)), ["gpu-1:PluginMissing"]);
    fleet.settings.dra.required = DraRequired::Auto;
    assert!(fleet.decide(1).well, "its affinity may leave nodes out");
}

#[test]
fn a_plugin_without_published_devices_does_not_serve() {
    let mut fleet = Fleet::at_rest(1);
    fleet.observed.dra.slices = OptionalApi::Served(Views::new());
    assert_eq!(waits(&fleet.decide(0)), ["gpu-0:SliceMissing"]);
    fleet.observed.dra.slices = OptionalApi::Absent;
    assert!(fleet.decide(1).well, "a server without the API has none to show");
}
