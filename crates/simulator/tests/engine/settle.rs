//! When a rollout is settled, and how it ends otherwise.

use contract::count::Count;
use contract::exit::ExitCode;
use contract::names;
use contract::record::NodeOutcome;
use contract::settings::DraRequired;
use observed::OptionalApi;
use planner::note::DecisionNote;
use planner::reason::Reason;

use crate::fleet::{Fleet, NEW, OLD, at, named, reason_of, replaced, waits};

#[test]
fn unchanged_fleet_settles_after_the_quiet_period() {
    let mut fleet = Fleet::at_rest(3);
    let first = fleet.decide(0);
    assert!(first.well && first.verdict.is_none() && first.actions.is_empty());
    assert_eq!(waits(&first), ["*:Quiet"]);
    assert_eq!(first.wake_at, at(15));
    let verdict = fleet.decide(15).verdict.expect("settled");
    assert_eq!(verdict.code, ExitCode::Success);
    assert_eq!(named(&verdict), ["*:Settled"]);
    assert!(fleet.memory.nodes.is_empty(), "nodes that were never out of date are not remembered");
}

#[test]
fn ready_status_with_old_templates_is_not_believed() {
    let mut fleet = Fleet::at_rest(3);
    fleet.bump();
    let decision = fleet.decide(0);
    assert_eq!(waits(&decision), ["*:SpecNotObserved"]);
    assert!(fleet.decide(600).verdict.is_none(), "an operator that takes its time is waited for");
    fleet.migration_begins();
    assert_eq!(
        waits(&fleet.decide(601)),
        ["gpu-0:DriverOutOfDate", "gpu-1:DriverOutOfDate", "gpu-2:DriverOutOfDate"]
    );
}

#[test]
fn chart_bump_alone_is_seen_by_its_label() {
    let mut fleet = Fleet::at_rest(1);
    fleet.policy().labels.insert("helm.sh/chart".into(), "gpu-operator-v26.3.1".into());
    let decision = fleet.decide(0);
    assert_eq!(waits(&decision), ["*:SpecNotObserved"]);
    assert_eq!(
        decision.waits.at(0).reason.to_string(),
        "the operator has not observed the newest spec: label helm.sh/chart of daemonset/nvidia-driver-daemonset is \
         `gpu-operator-v25.10.1`, expected `gpu-operator-v26.3.1`"
    );
}

#[test]
fn node_is_done_only_after_vendors_controller() {
    let mut fleet = Fleet::at_rest(1);
    fleet.bump();
    fleet.migration_begins();
    fleet.driver("gpu-0", "new", NEW, 50);
    fleet.plugin("gpu-0", 60, NEW);
    fleet.state("gpu-0", "uncordon-required");
    assert_eq!(waits(&fleet.decide(100)), ["gpu-0:UpgradeUnfinished"]);
    fleet.state("gpu-0", "upgrade-done");
    assert!(fleet.decide(101).well);
}

#[test]
fn fleet_change_restarts_the_quiet_period() {
    let mut fleet = Fleet::at_rest(2);
    fleet.pass(0);
    fleet.observed.nodes.remove("gpu-1");
    assert!(fleet.decide(14).verdict.is_none());
    assert!(fleet.decide(15).verdict.is_none());
    assert!(fleet.decide(29).verdict.is_some());
}

#[test]
fn joining_nodes_are_reported_and_removed_ones_dropped() {
    let mut fleet = Fleet::at_rest(2);
    fleet.bump();
    fleet.migration_begins();
    fleet.pass(0);
    fleet.migrate("gpu-0", 50);
    fleet.plugin("gpu-0", 60, NEW);
    fleet.observed.nodes.remove("gpu-1");
    fleet.join("gpu-9", 70);
    fleet.pass(100);
    let decision = fleet.decide(115);
    assert_eq!(
        decision.outcomes.values().copied().collect::<Vec<_>>(),
        [NodeOutcome::Done, NodeOutcome::Gone]
    );
    assert_eq!(decision.notes, [DecisionNote::NodesJoined { nodes: 1, device: "GPU" }]);
    assert_eq!(named(&decision.verdict.expect("settled")), ["*:Settled", "*:NodesJoined"]);
}

#[test]
fn recreated_node_of_same_name_is_another_node() {
    let mut fleet = Fleet::at_rest(2);
    fleet.bump();
    fleet.migration_begins();
    fleet.pass(0);
    fleet.join("gpu-1", 50);
    fleet.pass(60);
    assert_eq!(fleet.memory.nodes["gpu-1"].outcome, Some(NodeOutcome::Gone));
}

#[test]
fn skip_label_of_user_defers_without_failing() {
    let mut fleet = Fleet::at_rest(2);
    fleet.bump();
    fleet.migration_begins();
    fleet.node("gpu-1").labels.insert(names::UPGRADE_SKIP_LABEL.into(), "true".into());
    fleet.pass(0);
    fleet.migrate("gpu-0", 50);
    fleet.plugin("gpu-0", 60, NEW);
    fleet.pass(100);
    let decision = fleet.decide(115);
    assert_eq!(decision.verdict.as_ref().map(|verdict| verdict.code), Some(ExitCode::Success));
    assert_eq!(decision.outcomes["gpu-1"], NodeOutcome::Deferred);
}

#[test]
fn failed_nodes_fail_the_run_after_others_finish() {
    let mut fleet = Fleet::at_rest(2);
    fleet.bump();
    fleet.migration_begins();
    fleet.driver("gpu-1", "new", NEW, 10);
    let pod = fleet.driver_pod("gpu-1");
    pod.ready = false;
    pod.trouble = Some("nvidia-driver-ctr: CrashLoopBackOff".into());
    fleet.state("gpu-1", "upgrade-failed");
    fleet.pass(20);
    assert!(fleet.decide(700).verdict.is_none(), "gpu-0 still goes on");
    fleet.migrate("gpu-0", 800);
    fleet.plugin("gpu-0", 810, NEW);
    fleet.pass(820);
    let decision = fleet.decide(835);
    let trouble = Some("nvidia-driver-ctr: CrashLoopBackOff".to_owned());
    assert_eq!(reason_of(&decision, "gpu-1"), Reason::UpgradeFailed { trouble });
    let verdict = decision.verdict.expect("over");
    assert_eq!(
        (verdict.code, named(&verdict)),
        (ExitCode::NodesFailed, vec!["gpu-1:UpgradeFailed".to_owned()])
    );
}

/// Regression (L2): under NVIDIA's controller, the reason was that the node has no driver pod.
#[test]
fn terminating_driver_pod_is_named() {
    let mut fleet = Fleet::migrating(2);
    fleet.state("gpu-0", "pod-restart-required");
    fleet.driver_pod("gpu-0").deleting = true;
    assert_eq!(waits(&fleet.decide(1)), ["gpu-0:DriverEnding", "gpu-1:DriverOutOfDate"]);
}

/// Regression (L8): the hook's first observation was recorded as the start of the state.
#[test]
fn state_before_first_decision_may_have_started_earlier() {
    let mut fleet = Fleet::migrating(1);
    fleet.state("gpu-0", "drain-required");
    fleet.pass(0);
    fleet.state("gpu-0", "pod-restart-required");
    fleet.pass(5);
    fleet.restart();
    fleet.state("gpu-0", "validation-required");
    fleet.pass(10);
    let steps = &fleet.memory.nodes["gpu-0"].steps;
    let steps: Vec<(&str, bool)> =
        steps.iter().map(|step| (step.state.as_str(), step.or_earlier)).collect();
    assert_eq!(
        steps,
        [("drain-required", true), ("pod-restart-required", false), ("validation-required", true)]
    );
}

#[test]
fn the_deadline_names_node_state_and_reason() {
    let mut fleet = Fleet::at_rest(2);
    fleet.bump();
    fleet.migration_begins();
    fleet.state("gpu-0", "pod-restart-required");
    fleet.driver("gpu-0", "new", NEW, 10);
    fleet.driver_pod("gpu-0").ready = false;
    fleet.pass(0);
    let verdict = fleet.decide(3555).verdict.expect("over");
    assert_eq!(verdict.code, ExitCode::Budget);
    assert_eq!(named(&verdict), ["gpu-0:DriverNotReady", "gpu-1:DriverOutOfDate"]);
}

#[test]
fn powered_off_nodes_are_deferred_within_tolerance_only() {
    let mut fleet = Fleet::at_rest(2);
    fleet.bump();
    fleet.migration_begins();
    fleet.migrate("gpu-0", 50);
    fleet.plugin("gpu-0", 60, NEW);
    let node = fleet.node("gpu-1");
    node.ready = false;
    node.ready_since = Some(at(-4000));
    assert_eq!(
        waits(&fleet.decide(100)),
        ["gpu-1:NodeNotReady"],
        "nothing is tolerated by default"
    );
    fleet.settings.tolerate_not_ready = Count::Percent(100);
    assert_eq!(
        waits(&fleet.decide(101)),
        ["gpu-1:NodeNotReady"],
        "it was seen to be down for a second"
    );
    let decision = fleet.decide(700);
    assert_eq!(decision.outcomes["gpu-1"], NodeOutcome::Deferred);
    fleet.node("gpu-0").ready = false;
    fleet.node("gpu-0").ready_since = Some(at(-4000));
    fleet.driver_pod("gpu-0").ready = false;
    assert_eq!(
        waits(&fleet.decide(702)),
        ["gpu-0:NodeNotReady"],
        "it was seen to be down only now"
    );
    assert_eq!(
        waits(&fleet.decide(1302)),
        ["gpu-1:NodeNotReady"],
        "a fleet without one good node is not settled"
    );
}

#[test]
fn fleet_without_gpu_nodes_needs_operators_confirmation() {
    let mut fleet = Fleet::at_rest(0);
    assert_eq!(waits(&fleet.decide(0)), ["*:NoNodeFeatures"]);
    fleet.join("cpu-0", -1000);
    fleet.node("cpu-0").labels =
        [("feature.node.kubernetes.io/cpu-model.family".to_owned(), "6".to_owned())].into();
    fleet.policy().ready_reason = Some("NFDLabelsMissing".into());
    assert_eq!(waits(&fleet.decide(1)), ["*:NoGpuNodes"]);
    assert_eq!(fleet.decide(125).verdict.expect("over").code, ExitCode::NoGpuNodes);
    fleet.policy().ready_reason = Some("NoGPUNodes".into());
    fleet.pass(130);
    assert_eq!(fleet.decide(145).verdict.expect("settled").code, ExitCode::Success);
}

#[test]
fn each_grace_time_ends_with_own_exit_code() {
    type Change = fn(&mut Fleet);
    let cases: [(&str, Change, ExitCode); 6] = [
        (
            "no CRD",
            |fleet| fleet.observed.cluster_policy = OptionalApi::Absent,
            ExitCode::ApiMissing,
        ),
        (
            "no object",
            |fleet| fleet.observed.cluster_policy = OptionalApi::Served(None),
            ExitCode::OperatorMissing,
        ),
        ("no operator", |fleet| fleet.observed.operator = None, ExitCode::OperatorMissing),
        (
            "another driver",
            |fleet| fleet.settings.expected.driver_version = Some(NEW.into()),
            ExitCode::Precondition,
        ),
        (
            "another operator",
            |fleet| chart_and_hook(fleet, "gpu-operator-v25.10.1", "v26.3.1"),
            ExitCode::Precondition,
        ),
        (
            "no DRA driver",
            |fleet| {
                fleet.observed.dra.daemon_sets.clear();
                fleet.settings.dra.required = DraRequired::True;
            },
            ExitCode::DraMissing,
        ),
    ];
    for (name, change, code) in cases {
        let mut fleet = Fleet::at_rest(1);
        change(&mut fleet);
        assert!(fleet.decide(0).verdict.is_none(), "{name}");
        assert!(fleet.decide(119).verdict.is_none(), "{name}");
        assert_eq!(fleet.decide(120).verdict.map(|verdict| verdict.code), Some(code), "{name}");
    }
}

/// Sets the installed chart of the operator, and the version that the hook is for.
fn chart_and_hook(fleet: &mut Fleet, installed: &str, version: &str) {
    fleet.observed.operator.as_mut().expect("it is there").chart = Some(installed.to_owned());
    fleet.settings.component_version = Some(version.to_owned());
}

/// Regression: a deployer without order applied the new values with the old chart. The fleet
/// settled, and half a minute later the drivers rolled again.
#[test]
fn new_values_on_old_chart_were_called_settled() {
    let mut fleet = Fleet::at_rest(1);
    chart_and_hook(&mut fleet, "gpu-operator-v25.10.1", "v26.3.1");
    let reason = fleet.decide(0).waits.at(0).reason.to_string();
    assert_eq!(
        reason,
        "deployment/gpu-operator is from chart `gpu-operator-v25.10.1`, but this hook expects chart version `v26.3.1`"
    );
    chart_and_hook(&mut fleet, "gpu-operator-v26.3.1", "v26.3.1");
    fleet.pass(10);
    assert_eq!(fleet.decide(45).verdict.expect("settled").code, ExitCode::Success);
}

/// An operator that was not installed by a chart (but by manifests or OLM), and a hook without a
/// version, cannot be compared.
#[test]
fn operator_without_chart_is_accepted_as_is() {
    for change in [
        |fleet: &mut Fleet| fleet.settings.component_version = Some("v26.3.1".into()),
        |fleet: &mut Fleet| {
            fleet.observed.operator.as_mut().expect("it is there").chart =
                Some("gpu-operator-v25.10.1".into());
        },
    ] {
        let mut fleet = Fleet::at_rest(1);
        change(&mut fleet);
        fleet.pass(0);
        assert_eq!(fleet.decide(35).verdict.expect("settled").code, ExitCode::Success);
    }
}

/// The DRA driver's own hook does not end with the old DRA chart, and does not check the operator's
/// chart.
#[test]
fn dra_driver_hook_waits_for_its_own_chart() {
    let mut fleet = Fleet::at_rest(1);
    chart_and_hook(&mut fleet, "gpu-operator-v25.10.1", "25.12.0");
    fleet.settings.component = "nvidia-dra-driver-gpu".into();
    fleet.settings.namespace = "nvidia-dra-driver-gpu".into();
    fleet.observed.dra.daemon_sets[0].chart = Some("nvidia-dra-driver-gpu-25.8.1".into());
    assert_eq!(waits(&fleet.decide(0)), ["*:OtherChart"]);
    assert_eq!(fleet.decide(120).verdict.expect("over").code, ExitCode::Precondition);

    let mut fleet = Fleet::at_rest(1);
    chart_and_hook(&mut fleet, "gpu-operator-v25.10.1", "25.12.0");
    fleet.settings.component = "nvidia-dra-driver-gpu".into();
    fleet.settings.namespace = "nvidia-dra-driver-gpu".into();
    fleet.observed.dra.daemon_sets[0].chart = Some("nvidia-dra-driver-gpu-25.12.0".into());
    fleet.pass(0);
    assert_eq!(fleet.decide(35).verdict.expect("settled").code, ExitCode::Success);
}

#[test]
fn a_mismatch_names_field_expected_found_and_manager() {
    let mut fleet = Fleet::at_rest(1);
    fleet.settings.expected.driver_version = Some(NEW.into());
    fleet.policy().driver_field_manager = Some("kubectl-edit".into());
    let reason = fleet.decide(0).waits.at(0).reason.to_string();
    assert_eq!(
        reason,
        format!(
            "spec.driver.version of ClusterPolicy `cluster-policy` is `{OLD}`, but must be `{NEW}` (field manager `kubectl-edit`)"
        )
    );
}

#[test]
fn no_dra_driver_is_fine_and_said() {
    let mut fleet = Fleet::at_rest(1);
    fleet.observed.dra.daemon_sets.clear();
    fleet.observed.dra.pods.edit().clear();
    fleet.pass(0);
    let decision = fleet.decide(15);
    assert!(replaced(&decision).is_empty());
    let namespaces = vec!["nvidia-dra-driver-gpu".to_owned(), "nvidia-dra-driver".to_owned()];
    assert_eq!(decision.notes, [DecisionNote::NoDraDriver { namespaces }]);
    assert_eq!(named(&decision.verdict.expect("settled")), ["*:Settled", "*:NoDraDriver"]);
}

#[test]
fn nodes_outside_the_operators_control_are_not_awaited() {
    for (key, value) in [
        (names::DEPLOY_DRIVER_LABEL, "pre-installed"),
        (names::DEPLOY_DRIVER_LABEL, "false"),
        (names::WORKLOAD_CONFIG_LABEL, "vm-passthrough"),
    ] {
        let mut fleet = Fleet::at_rest(2);
        fleet.observed.pods.edit().retain(|pod| {
            pod.node.as_deref() != Some("gpu-1") || pod.owner.as_deref() != Some("driver-ds")
        });
        fleet.node("gpu-1").labels.remove(names::DEPLOY_DRIVER_LABEL);
        fleet.node("gpu-1").labels.remove(names::DEPLOY_TOOLKIT_LABEL);
        assert_eq!(waits(&fleet.decide(0)), ["gpu-1:NodeNotLabeled"]);
        fleet.node("gpu-1").labels.insert(key.into(), value.into());
        assert!(fleet.decide(1).well, "{key}={value}");
    }
}
