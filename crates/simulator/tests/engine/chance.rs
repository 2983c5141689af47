//! Worlds drawn from a seed: fleets, policies, workloads, faults.

use contract::acceptance::{AcceptanceGpus, AcceptanceNodes, AcceptanceTest, AcceptanceTime};
use contract::count::Count;
use contract::policy::{
    CompletionPolicy, DrainPolicy, ForeignCordon, PodDeletionPolicy, TopologyLimit, UpgradeSettings,
};
use contract::proof::{Canary, Halt};
use simulator::acceptance::{AcceptanceEffect, AcceptanceFault, FaultyNodes, LogFault};
use simulator::fault::{Fault, ScheduledFault};
use simulator::random::{SeededRandom, TimeSpread};
use simulator::setup::{
    BudgetProtection, PodPlacement, SimulationSetup, WorkloadKind, WorkloadSetup,
};

use crate::fleet::{NEW, OLD};
use crate::script::given;

const MINUTE: u64 = 60_000;
const TOPOLOGY: &str = "nvidia.com/gpu.clique";

/// Draws a world of at most `most_nodes` nodes.
pub(crate) fn drawn(seed: u64, most_nodes: u64) -> SimulationSetup {
    let mut random = SeededRandom::new(seed.wrapping_mul(0x9e37_79b9));
    let nodes = usize::try_from(1 + random.below(most_nodes)).expect("few nodes");
    let mut setup = given(nodes, seed);
    setup.tells = false;
    setup.settings.budget_seconds = 7 * 24 * 3600;
    policy(&mut setup, &mut random);
    times(&mut setup, &mut random);
    for index in 0..random.below(4) {
        let crew = workers(&format!("crew-{index}"), nodes, &mut random);
        setup.workers.push(crew);
    }
    for _ in 0..random.below(9) {
        let at = random.below(20 * MINUTE);
        faults(&mut setup, at, &mut random);
    }
    if random.percent(20) {
        setup.hook_node = Some("gpu-0".to_owned());
    }
    setup.same_config = random.percent(10);
    setup.dra = random.percent(85);
    // From a separate stream, so that worlds without pauses do not change.
    let mut pauses = SeededRandom::stream(seed, "pauses", 0);
    // From another one, which of them end by themselves.
    let mut freezes = SeededRandom::stream(seed, "freezes", 0);
    if pauses.percent(15) {
        for _ in 0..=pauses.below(2) {
            let (at, lasts) = (pauses.below(20 * MINUTE), 1_000 + pauses.below(20 * MINUTE));
            let fault =
                if freezes.percent(40) { Fault::Freeze(lasts) } else { Fault::Pause(lasts) };
            setup.faults.push(ScheduledFault { at, fault });
        }
    }
    // From a separate stream, so that worlds without tests do not change.
    let mut tests = SeededRandom::stream(seed, "acceptance", 0);
    if tests.percent(17) {
        acceptance(&mut setup, &mut tests);
    }
    setup
}

/// Adds acceptance tests with faults.
pub(crate) fn acceptance(setup: &mut SimulationSetup, random: &mut SeededRandom) {
    let has_canaries = setup.settings.upgrade.canary.is_some();
    for index in 0..=random.below(2) {
        let times = [
            vec![AcceptanceTime::After],
            vec![AcceptanceTime::After],
            vec![AcceptanceTime::Before],
            vec![AcceptanceTime::Before, AcceptanceTime::After],
        ];
        let half = AcceptanceNodes::Share("50%".parse().expect("a share"));
        let canaries = if has_canaries { AcceptanceNodes::Canaries } else { AcceptanceNodes::All };
        let nodes = [AcceptanceNodes::All, AcceptanceNodes::All, half, canaries];
        let gpus = [AcceptanceGpus::All, AcceptanceGpus::Template];
        setup.settings.upgrade.acceptance.push(AcceptanceTest {
            name: format!("test-{index}"),
            timeout_seconds: *random.choose(&[90, 180, 600]).expect("not empty"),
            when: random.choose(&times).expect("not empty").clone(),
            nodes: *random.choose(&nodes).expect("not empty"),
            gpus: *random.choose(&gpus).expect("not empty"),
            log_lines: 0,
        });
    }
    logs(setup);
    for _ in 0..random.below(4) {
        let fault = acceptance_fault(setup, random);
        setup.acceptance.faults.push(fault);
    }
    for _ in 0..random.below(4) {
        let at = random.below(20 * MINUTE);
        let node = format!("gpu-{}", random.below(setup.nodes as u64));
        let fault = match random.below(5) {
            0 => Fault::Acceptance(None),
            1 => Fault::Acceptance(Some(acceptance_fault(setup, random))),
            2 => Fault::DeleteTestPods(node),
            3 => Fault::Uncordon(node),
            _ => Fault::DriverCrashes(node, Some(1_000 + random.below(5 * MINUTE))),
        };
        setup.faults.push(ScheduledFault { at, fault });
    }
}

/// Has tests ask for lines of their logs, some of which cannot be read.
fn logs(setup: &mut SimulationSetup) {
    let mut random = SeededRandom::stream(setup.seed, "logs of tests", 0);
    for test in &mut setup.settings.upgrade.acceptance {
        test.log_lines = *random.choose(&[0, 1, 20, 50]).expect("not empty");
    }
    let nodes = FaultyNodes::Share("50%".parse().expect("a share"));
    let fault = |is_final| Some(LogFault { nodes: nodes.clone(), is_final });
    let faults = [None, fault(true), fault(false)];
    setup.acceptance.log_fault.clone_from(random.choose(&faults).expect("not empty"));
}

fn acceptance_fault(setup: &SimulationSetup, random: &mut SeededRandom) -> AcceptanceFault {
    let late = random.below(5 * MINUTE);
    let effects = [
        AcceptanceEffect::Fails { exit_code: 1 },
        AcceptanceEffect::Fails { exit_code: 137 },
        AcceptanceEffect::Hangs,
        AcceptanceEffect::ImageNotPulled { milliseconds: None },
        AcceptanceEffect::ImageNotPulled { milliseconds: Some(late) },
        AcceptanceEffect::EndedByKubelet,
        AcceptanceEffect::Refused,
        AcceptanceEffect::Unschedulable,
        AcceptanceEffect::Slow { milliseconds: late },
    ];
    let node = format!("gpu-{}", random.below(setup.nodes as u64));
    let nodes = [
        FaultyNodes::All,
        FaultyNodes::Node(node),
        FaultyNodes::Share("30%".parse().expect("a share")),
        FaultyNodes::Label { key: TOPOLOGY.to_owned(), value: "group-0".to_owned() },
    ];
    let times = [None, Some(AcceptanceTime::Before), Some(AcceptanceTime::After)];
    AcceptanceFault {
        effect: *random.choose(&effects).expect("not empty"),
        nodes: random.choose(&nodes).expect("not empty").clone(),
        test: random.percent(50).then(|| "test-0".to_owned()),
        time: *random.choose(&times).expect("not empty"),
        version: random.percent(50).then(|| NEW.to_owned()),
    }
}

fn policy(setup: &mut SimulationSetup, random: &mut SeededRandom) {
    let seed = setup.seed;
    let upgrade = &mut setup.settings.upgrade;
    let policy = &mut upgrade.policy;
    policy.max_parallel_upgrades = *random.choose(&[0, 1, 2, 3, 8]).expect("not empty");
    let limits = [
        None,
        Some(Count::Number(1)),
        Some(Count::Number(2)),
        Some(Count::Percent(25)),
        Some(Count::Percent(100)),
    ];
    policy.max_unavailable = *random.choose(&limits).expect("not empty");
    let deletion = PodDeletionPolicy {
        force: random.percent(30),
        timeout_seconds: 60 + random.below(600),
        delete_empty_dir: random.percent(30),
    };
    policy.pod_deletion = random.percent(80).then_some(deletion);
    let drain = DrainPolicy {
        force: random.percent(30),
        timeout_seconds: 60 + random.below(600),
        ..DrainPolicy::default()
    };
    policy.drain = random.percent(30).then_some(drain);
    let wait = CompletionPolicy {
        pod_selector: "wait=yes".to_owned(),
        timeout_seconds: *random.choose(&[0, 300, 1800]).expect("not empty"),
    };
    policy.wait_for_completion = random.percent(30).then_some(wait);
    upgrade.failure_budget = *random
        .choose(&[Count::Number(0), Count::Number(1), Count::Percent(100)])
        .expect("not empty");
    upgrade.attempts = 1 + u32::try_from(random.below(3)).expect("small");
    upgrade.soak_seconds = *random.choose(&[0, 0, 0, 30, 300]).expect("not empty");
    // Of their own, so that the other worlds stay as they are.
    if SeededRandom::stream(seed, "windows", 0).percent(20) {
        let window = |hour: u32| {
            format!("daily {hour:02}:00-{hour:02}:30 UTC").parse().expect("a valid window")
        };
        upgrade.windows = (0..24).map(window).collect();
    }
    proof(upgrade, &mut SeededRandom::stream(seed, "proof", 0));
    upgrade.start_seconds = *random.choose(&[300, 900, 1800]).expect("not empty");
    upgrade.foreign_cordon =
        if random.percent(30) { ForeignCordon::Include } else { ForeignCordon::Skip };
    if random.percent(30) {
        setup.group_size = usize::try_from(2 + random.below(3)).expect("small");
        upgrade.topology =
            Some(TopologyLimit { label: TOPOLOGY.to_owned(), max_unavailable: Count::Number(1) });
    }
}

/// Canaries, a ramp and a limit of failed nodes, in a fifth of the worlds each.
fn proof(upgrade: &mut UpgradeSettings, random: &mut SeededRandom) {
    if random.percent(20) {
        let nodes = 1 + u32::try_from(random.below(2)).expect("small");
        let per = if random.percent(50) { vec![TOPOLOGY.to_owned()] } else { Vec::new() };
        let soak_seconds = *random.choose(&[0, 60, 600]).expect("not empty");
        upgrade.canary = Some(Canary { nodes, per, soak_seconds });
    }
    if random.percent(20) {
        upgrade.ramp = ["30%", "60%"].map(|share| share.parse().expect("a share")).into();
    }
    if random.percent(20) {
        let failed_nodes = Some(1 + u32::try_from(random.below(3)).expect("small"));
        upgrade.halt = Some(Halt { failed_nodes, ..Halt::default() });
    }
}

fn times(setup: &mut SimulationSetup, random: &mut SeededRandom) {
    let times = &mut setup.times;
    let drivers = [
        TimeSpread::Constant(30_000),
        TimeSpread::Uniform(20_000, 200_000),
        TimeSpread::HeavyTail { least: 20_000, most: 250_000 },
    ];
    times.driver = *random.choose(&drivers).expect("not empty");
    let ends = [
        TimeSpread::Uniform(0, 200),
        TimeSpread::Uniform(2_000, 8_000),
        TimeSpread::Uniform(1_000, 60_000),
    ];
    times.operand_end = *random.choose(&ends).expect("not empty");
    let lags = [
        TimeSpread::Uniform(1, 20),
        TimeSpread::Uniform(20, 120),
        TimeSpread::Uniform(20, 120),
        TimeSpread::Uniform(0, 5_000),
    ];
    times.watch = *random.choose(&lags).expect("not empty");
    let calls = [TimeSpread::Constant(5), TimeSpread::Uniform(2, 50), TimeSpread::Uniform(10, 900)];
    times.call = *random.choose(&calls).expect("not empty");
}

fn workers(name: &str, nodes: usize, random: &mut SeededRandom) -> WorkloadSetup {
    let mut workers = WorkloadSetup::new(
        name,
        PodPlacement::Each(1 + usize::try_from(random.below(2)).expect("small")),
    );
    if random.percent(40) {
        let some =
            (0..nodes).filter(|_| random.percent(40)).map(|index| format!("gpu-{index}")).collect();
        workers.placement = PodPlacement::On(some);
    }
    workers.kind = *random
        .choose(&[
            WorkloadKind::ReplicaSet,
            WorkloadKind::ReplicaSet,
            WorkloadKind::Job,
            WorkloadKind::Bare,
            WorkloadKind::DaemonSet,
        ])
        .expect("not empty");
    workers.gpu = random.percent(80);
    workers.empty_dir = random.percent(15);
    workers.grace_seconds = *random.choose(&[0, 5, 30, 600]).expect("not empty");
    workers.ends = TimeSpread::Uniform(MINUTE, 30 * MINUTE);
    // Without a timeout in the policy, the hook waits indefinitely for pods that never end.
    if workers.kind == WorkloadKind::Job && random.percent(50) {
        workers.labels.insert("wait".to_owned(), "yes".to_owned());
    }
    if workers.kind == WorkloadKind::ReplicaSet && random.percent(50) {
        let protections = [
            BudgetProtection::MaxUnavailable(Count::Number(1)),
            BudgetProtection::MaxUnavailable(Count::Number(0)),
            BudgetProtection::MinAvailable(Count::Percent(50)),
            BudgetProtection::MinAvailable(Count::Percent(100)),
        ];
        workers.budgets.push(*random.choose(&protections).expect("not empty"));
    }
    workers
}

fn faults(setup: &mut SimulationSetup, at: u64, random: &mut SeededRandom) {
    let index = random.below(setup.nodes as u64);
    let node = format!("gpu-{index}");
    let traits = setup.settings.driver.traits();
    let crew = setup.workers.first().map_or("none", |workers| workers.name.as_str()).to_owned();
    let later = at + MINUTE / 2 + random.below(10 * MINUTE);
    let mut then = |at, fault| setup.faults.push(ScheduledFault { at, fault });
    match random.below(19) {
        0 => then(at, Fault::NotReady(node, Some(1_000 + random.below(10 * MINUTE)))),
        1 => then(at, Fault::NodeGone(node)),
        2 => then(at, Fault::NodeJoins(format!("gpu-new-{at}"))),
        3 => {
            then(at, Fault::Cordon(node.clone()));
            if random.percent(60) {
                then(later, Fault::Uncordon(node));
            }
        }
        4 | 5 => then(at, Fault::Uncordon(node)),
        6 => then(at, Fault::Label(node, traits.own_state_label.to_owned(), None)),
        7 => then(at, Fault::Annotate(node, traits.own_record.to_owned(), None)),
        8 => then(
            at / 4,
            Fault::DriverFails(node, Some(u32::try_from(1 + random.below(14)).expect("small"))),
        ),
        9 => then(at / 4, Fault::DriverFails(node, None)),
        10 => then(at, Fault::PluginFails(node, random.percent(60).then_some(later))),
        11 => then(at, Fault::HoldBudget(crew, random.percent(70).then_some(later))),
        12 | 13 => then(at, Fault::KillHook(random.below(MINUTE))),
        14 => then(at, Fault::LoseLease(20_000 + random.below(MINUTE))),
        15 => then(at, Fault::OperatorDown(1_000 + random.below(3 * MINUTE))),
        16 => then(
            at,
            Fault::Template(if random.percent(50) {
                OLD.to_owned()
            } else {
                "580.200.01".to_owned()
            }),
        ),
        17 => {
            then(at, Fault::Deploy(Count::Number(0)));
            then(later, Fault::Deploy(Count::Number(2)));
        }
        _ => {
            let value = |set: bool| set.then(|| "true".to_owned());
            match random.below(4) {
                0 => then(at, Fault::Maintenance(node, 1_000 + random.below(10 * MINUTE))),
                1 => {
                    then(at, Fault::Label(node.clone(), traits.skip_label.to_owned(), value(true)));
                    then(
                        later,
                        Fault::Label(node, traits.skip_label.to_owned(), value(random.percent(40))),
                    );
                }
                2 => then(at, Fault::Annotate(node, traits.requested.to_owned(), value(true))),
                _ => then(at, Fault::Template(NEW.to_owned())),
            }
        }
    }
}
