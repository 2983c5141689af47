//! The annotation `gpu-rollout.dev/pause` on a node, in each mode.

use contract::driver::Driver;
use contract::pause::ANNOTATION;
use contract::settings::Mode;
use contract::task::Task;
use observed::pause::{HOLD, ObservedPause, has_hold};
use planner::decide::Action;
use planner::hold;
use planner::note::DecisionNote;
use planner::reason::Reason;
use planner::reason::upgrade::UpgradeReason;

use crate::drive::Driven;
use crate::fleet::{Fleet, at, reason_of};

fn is_paused(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Upgrading(UpgradeReason::Paused { why: Some(why), at: None, .. }) if why == "INC-7"
    )
}

/// Performs the patches of a decision at this second. Each changes the version of its node.
fn patch(fleet: &mut Fleet, second: i64) {
    for action in fleet.decide(second).actions {
        if let Action::PatchNode(patch) = action {
            fleet.patch(&patch);
            fleet.node(&patch.node).version = format!("at-{second}");
        }
    }
}

/// Two nodes with the old driver, of which `gpu-0` is annotated.
fn fleet(mode: Mode) -> Fleet {
    let mut fleet = Fleet::at_rest(2);
    fleet.is_assisted("v26.7.0");
    fleet.settings.mode = mode;
    fleet.bump();
    fleet.migration_begins();
    fleet.node("gpu-0").annotations.insert(ANNOTATION.into(), "INC-7".into());
    fleet
}

#[test]
fn drive_starts_no_annotated_node() {
    let mut driven = Driven::new(2);
    driven.fleet.node("gpu-0").annotations.insert(ANNOTATION.into(), "INC-7".into());
    let revisions = |driven: &mut Driven| {
        ["gpu-0", "gpu-1"].map(|node| driven.fleet.driver_pod(node).revision.clone())
    };
    let revision = |name: &str| Some(name.to_owned());
    for _ in 0..120 {
        driven.tick();
    }
    assert_eq!(revisions(&mut driven), [revision("old"), revision("new")]);
    let last = driven.last.as_ref().expect("a decision");
    assert!(is_paused(&reason_of(last, "gpu-0")), "{:?}", last.waits);
    driven.fleet.node("gpu-0").annotations.remove(ANNOTATION);
    driven.run();
    assert_eq!(revisions(&mut driven), [revision("new"), revision("new")]);
}

#[test]
fn assist_holds_annotated_node_and_releases_it() {
    let mut fleet = fleet(Mode::Assist);
    for action in fleet.decide(0).actions {
        if let Action::PatchNode(patch) = action {
            fleet.patch(&patch);
        }
    }
    assert!(has_hold(fleet.node("gpu-0"), Driver::Gpu));
    assert!(!hold::is_held(fleet.node("gpu-1"), Driver::Gpu));
    assert!(is_paused(&reason_of(&fleet.decide(1), "gpu-0")));
    fleet.node("gpu-0").annotations.remove(ANNOTATION);
    fleet.node("gpu-0").version = "2".into();
    for action in fleet.decide(2).actions {
        if let Action::PatchNode(patch) = action {
            fleet.patch(&patch);
        }
    }
    assert!(!hold::is_held(fleet.node("gpu-0"), Driver::Gpu));
}

/// Nothing but the time changes: the hook itself notices the end of the pause.
#[test]
fn drive_starts_annotated_node_when_its_pause_ends() {
    let mut driven = Driven::new(2);
    let until = format!("until {}: INC-7", at(300));
    driven.fleet.node("gpu-0").annotations.insert(ANNOTATION.into(), until);
    for _ in 0..200 {
        driven.tick();
    }
    assert_eq!(driven.fleet.driver_pod("gpu-0").revision.as_deref(), Some("old"));
    let last = driven.last.as_ref().expect("a decision");
    let reason = reason_of(last, "gpu-0");
    assert!(is_paused(&reason) && reason.ends_at() == Some(at(300)), "{reason:?}");
    assert!(reason.resolves_itself() && last.wake_at <= at(300), "{}", last.wake_at);
    let story = driven.run();
    assert_eq!(driven.fleet.driver_pod("gpu-0").revision.as_deref(), Some("new"), "{story}");
    assert!(story.contains(" 300 gpu-0 "), "{story}");
}

#[test]
fn assist_releases_annotated_node_when_its_pause_ends() {
    let mut fleet = fleet(Mode::Assist);
    let until = format!("until {}: INC-7", at(60));
    fleet.node("gpu-0").annotations.insert(ANNOTATION.into(), until);
    patch(&mut fleet, 0);
    for second in [1, 30, 59] {
        patch(&mut fleet, second);
        assert!(has_hold(fleet.node("gpu-0"), Driver::Gpu), "{second}");
    }
    let decision = fleet.decide(59);
    assert!(is_paused(&reason_of(&decision, "gpu-0")), "{:?}", decision.waits);
    assert!(decision.wake_at <= at(60), "{}", decision.wake_at);
    patch(&mut fleet, 60);
    assert!(!hold::is_held(fleet.node("gpu-0"), Driver::Gpu));
}

/// A pause that ends too late for the run does not resolve itself in it.
#[test]
fn pause_that_outlasts_the_run_needs_action() {
    let mut driven = Driven::new(1);
    let deadline = driven.fleet.memory.deadline;
    for (seconds, resolves_itself) in [(-61, true), (-59, false), (60, false)] {
        let until = deadline + jiff::SignedDuration::from_secs(seconds);
        let text = format!("until {until}: INC-7");
        driven.fleet.node("gpu-0").annotations.insert(ANNOTATION.into(), text);
        let reason = reason_of(&driven.fleet.decide(0), "gpu-0");
        assert!(is_paused(&reason), "{reason:?}");
        assert_eq!(reason.resolves_itself(), resolves_itself, "{until}");
    }
}

/// Regression: of an operator with unknown version, the hook released the holds of a pause, and
/// NVIDIA's controller upgraded paused nodes.
#[test]
fn pause_holds_nodes_of_operator_with_unknown_version() {
    let traits = Driver::Gpu.traits();
    for pause in [Some(r#"{"by":"sre","at":"2023-01-01T00:00:00Z"}"#), None] {
        let mut fleet = fleet(Mode::Assist);
        fleet.observed.operator.as_mut().expect("the operator").version = None;
        if let Some(text) = pause {
            fleet.node("gpu-0").annotations.remove(ANNOTATION);
            fleet.observed.pauses = vec![ObservedPause::read("fleet", text)];
        }
        // `gpu-0` has the hold of the pause, `gpu-1` is not held yet.
        fleet.node("gpu-0").labels.insert(traits.skip_label.into(), "true".into());
        fleet.node("gpu-0").annotations.insert(traits.hold.into(), HOLD.into());
        for second in 0..2 {
            for action in fleet.decide(second).actions {
                if let Action::PatchNode(patch) = action {
                    fleet.patch(&patch);
                }
            }
        }
        assert!(has_hold(fleet.node("gpu-0"), Driver::Gpu), "{pause:?}");
        assert_eq!(has_hold(fleet.node("gpu-1"), Driver::Gpu), pause.is_some(), "{pause:?}");
        // The annotation of a node without hold: the hook sets it.
        fleet.observed.pauses = Vec::new();
        fleet.node("gpu-1").annotations.insert(ANNOTATION.into(), "INC-7".into());
        for action in fleet.decide(2).actions {
            if let Action::PatchNode(patch) = action {
                fleet.patch(&patch);
            }
        }
        assert!(hold::is_held(fleet.node("gpu-1"), Driver::Gpu), "{pause:?}");
    }
}

/// Mode `observe` writes to no node: NVIDIA's controller would start a node that `status` calls
/// paused.
#[test]
fn observe_reports_pause_that_it_cannot_enforce() {
    let mut fleet = fleet(Mode::Observe);
    fleet.settings.tasks = vec![Task::Settle];
    let decision = fleet.decide(0);
    assert_eq!(decision.actions, []);
    assert!(!is_paused(&reason_of(&decision, "gpu-0")), "{:?}", decision.waits);
    let is_noted = |note: &DecisionNote| matches!(note, DecisionNote::PauseNotHeld { node, others: 0, .. } if **node == *"gpu-0");
    assert!(decision.notes.iter().any(is_noted), "{:?}", decision.notes);
    let label = Driver::Gpu.traits().skip_label;
    fleet.node("gpu-0").labels.insert(label.into(), "true".into());
    let decision = fleet.decide(1);
    assert!(!decision.notes.iter().any(is_noted), "{:?}", decision.notes);
}
