//! Admission refuses or changes writes to one node, in every mode. That node fails, and the others
//! end as in the undisturbed run.

use std::collections::BTreeMap;

use contract::count::Count;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::policy::PodDeletionPolicy;
use contract::record::{NodeOutcome, WriteKind};
use planner::decide::Decision;
use planner::write_refusals::{RefusalKind, WEBHOOK_ATTEMPTS};
use simulator::fault::{Fault, ScheduledFault};
use simulator::refusals::{PatchPart, WriteAdmission};
use simulator::report::SimulationReport;
use simulator::setup::{PodPlacement, SimulationSetup, WorkloadSetup};
use simulator::simulate;

use crate::fleet::{Fleet, at, named};
use crate::script::{given, operated};

const NODES: usize = 4;
const REFUSED: &str = "gpu-1";

const ADMISSIONS: [WriteAdmission; 12] = [
    WriteAdmission::Denies(WriteKind::Node),
    WriteAdmission::Denies(WriteKind::Eviction),
    WriteAdmission::Denies(WriteKind::PodDeletion),
    WriteAdmission::Fails(WriteKind::Node),
    WriteAdmission::Fails(WriteKind::Eviction),
    WriteAdmission::Fails(WriteKind::PodDeletion),
    WriteAdmission::Drops(PatchPart::Labels),
    WriteAdmission::Drops(PatchPart::Annotations),
    WriteAdmission::Drops(PatchPart::Cordon),
    WriteAdmission::Drops(PatchPart::Everything),
    WriteAdmission::DeniesCordon(true),
    WriteAdmission::DeniesCordon(false),
];

/// Returns a fleet with a workload on each node. `operator`: mode and version, if the operator's
/// own controller performs the upgrades.
fn fleet(operator: Option<&str>) -> SimulationSetup {
    let mut setup = given(NODES, 11);
    setup.settings.upgrade.policy.max_parallel_upgrades = 1;
    setup.settings.upgrade.policy.max_unavailable = Some(Count::Number(2));
    setup.settings.upgrade.policy.pod_deletion =
        Some(PodDeletionPolicy { timeout_seconds: 900, ..PodDeletionPolicy::default() });
    setup.workers.push(WorkloadSetup::new("train", PodPlacement::Each(1)));
    if let Some(operator) = operator {
        operated(&mut setup, operator);
    }
    setup
}

fn run(mut setup: SimulationSetup, admission: Option<WriteAdmission>) -> SimulationReport {
    setup.faults.extend(admission.map(|admission| ScheduledFault {
        at: 0,
        fault: Fault::Admission(REFUSED.to_owned(), Some(admission)),
    }));
    simulate(&setup)
}

fn others(report: &SimulationReport) -> BTreeMap<String, NodeOutcome> {
    report
        .outcomes
        .iter()
        .filter(|(node, _)| *node != REFUSED)
        .map(|(node, outcome)| (node.clone(), *outcome))
        .collect()
}

/// Compares the run with a refusal with the undisturbed one.
fn check(
    mode: &str,
    operator: Option<&str>,
    admission: WriteAdmission,
) -> (SimulationReport, bool) {
    let undisturbed = run(fleet(operator), None);
    let report = run(fleet(operator), Some(admission));
    let place = format!("{mode}, {admission}");
    assert_eq!(report.violations, [""; 0], "{place}\n{}", report.describe());
    let verdict = report.verdict.as_ref().expect("a verdict");
    assert_eq!(
        others(&report),
        others(&undisturbed),
        "{place}: {}\n{}",
        verdict.message,
        report.describe()
    );
    let refused = report.refused_by_node.get(REFUSED).copied().unwrap_or(0);
    assert!(
        refused <= 2 * WEBHOOK_ATTEMPTS as usize,
        "{place}: {refused} refused requests\n{}",
        report.describe()
    );
    if refused == 0 {
        assert_eq!(
            verdict.code,
            ExitCode::Success,
            "{place}: nothing was refused: {}",
            verdict.message
        );
    }
    (report, refused > 0)
}

fn assert_fails(place: &str, report: &SimulationReport) {
    let verdict = report.verdict.as_ref().expect("a verdict");
    assert_eq!(
        verdict.code,
        ExitCode::NodesFailed,
        "{place}: {}\n{}",
        verdict.message,
        report.describe()
    );
    assert_eq!(report.outcomes[REFUSED], NodeOutcome::Failed, "{place}: {}", verdict.message);
    assert!(
        named(verdict).iter().any(|one| one == "gpu-1:WriteRefused"),
        "{place}: {}",
        verdict.message
    );
}

#[test]
fn refused_write_fails_its_node_in_drive() {
    for admission in ADMISSIONS {
        let (report, refused) = check("drive", None, admission);
        assert!(refused, "{admission}");
        assert_fails(&admission.to_string(), &report);
        let left = report
            .states
            .get(REFUSED)
            .and_then(|states| states.last())
            .is_some_and(|(_, _, cordoned)| *cordoned);
        // A node keeps its cordon only if the removal of the cordon is refused or its driver was
        // replaced.
        let keeps = matches!(
            admission,
            WriteAdmission::DeniesCordon(false) | WriteAdmission::Drops(PatchPart::Cordon)
        );
        assert!(!left || keeps, "{admission}: it stays cordoned\n{}", report.describe());
    }
}

#[test]
fn refused_write_fails_its_node_next_to_vendor() {
    for operator in
        ["observe v26.7.0", "assist v26.7.0", "assist v26.3.1", "steer v26.7.0", "steer v26.3.1"]
    {
        for admission in ADMISSIONS {
            let (report, refused) = check(operator, Some(operator), admission);
            // A refused write that only wakes the controller does no harm: the controller still
            // finishes the node.
            if refused && report.outcomes[REFUSED] != NodeOutcome::Done {
                assert_fails(&format!("{operator}, {admission}"), &report);
            }
        }
    }
}

#[test]
fn refused_node_is_retried_by_new_deployment() {
    for admission in ADMISSIONS {
        let mut setup = fleet(None);
        let hour = 3_600_000;
        setup.settings.upgrade.failure_budget = Count::Number(0);
        setup.settings.budget_seconds = 8 * 3600;
        setup.settings.upgrade.soak_seconds = 0;
        let at = |at, fault| ScheduledFault { at, fault };
        setup.faults.push(at(0, Fault::Admission(REFUSED.to_owned(), Some(admission))));
        // An unavailable node keeps the first run from ending until the next deployment.
        setup.faults.push(at(0, Fault::NotReady("gpu-3".to_owned(), Some(hour + 60_000))));
        setup.faults.push(at(hour, Fault::Admission(REFUSED.to_owned(), None)));
        setup.faults.push(at(hour + 1_000, Fault::Deploy(Count::Number(2))));
        let report = simulate(&setup);
        assert_eq!(report.violations, [""; 0], "{admission}\n{}", report.describe());
        let verdict = report.verdict.as_ref().expect("a verdict");
        assert_eq!(
            verdict.code,
            ExitCode::Success,
            "{admission}: {}\n{}",
            verdict.message,
            report.describe()
        );
    }
}

#[test]
fn refused_write_survives_a_killed_hook() {
    for admission in ADMISSIONS {
        let mut setup = fleet(None);
        for minute in 1..20 {
            setup
                .faults
                .push(ScheduledFault { at: minute * 47_000, fault: Fault::KillHook(5_000) });
        }
        let report = run(setup, Some(admission));
        assert_eq!(report.violations, [""; 0], "{admission}\n{}", report.describe());
        assert_fails(&format!("killed, {admission}"), &report);
        // The hook remembers a denial. Each process retries a failing webhook a few times.
        let most = if matches!(admission, WriteAdmission::Fails(_)) {
            20 * 2 * WEBHOOK_ATTEMPTS as usize
        } else {
            10
        };
        assert!(
            report.refused_by_node[REFUSED] <= most,
            "{admission}: {}",
            report.refused_by_node[REFUSED]
        );
    }
}

/// Regression: the wake label stayed on a node without GPU after a webhook failed once and the node
/// changed in the meantime.
#[test]
fn wake_label_goes_when_the_webhook_is_back() {
    let traits = Driver::Gpu.traits();
    let mut fleet = Fleet::at_rest(1);
    fleet.is_assisted("v25.10.1");
    let mut bystander = fleet.observed.nodes["gpu-0"].clone();
    (bystander.name, bystander.uid) = ("cpu-0".to_owned(), "uid-cpu-0".to_owned());
    bystander.labels =
        [(traits.state_label.to_owned(), "upgrade-done".to_owned())].into_iter().collect();
    bystander.annotations = [(traits.wake.to_owned(), "true".to_owned())].into_iter().collect();
    fleet.observed.nodes.insert("cpu-0", bystander);
    let nodes = |decision: &Decision| -> Vec<String> {
        decision.actions.iter().map(|action| action.node().to_owned()).collect()
    };
    let decision = fleet.decide(0);
    assert_eq!(nodes(&decision), ["cpu-0"]);
    fleet.memory.note_refusal(
        &decision.actions[0],
        RefusalKind::WebhookFailed,
        "no endpoints",
        at(0),
    );
    fleet.node("cpu-0").version.push('1');
    let decision = fleet.decide(5);
    assert_eq!((nodes(&decision), decision.wake_at), (Vec::new(), at(10)));
    assert_eq!(nodes(&fleet.decide(10)), ["cpu-0"]);
}
