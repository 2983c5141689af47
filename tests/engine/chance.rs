//! Worlds drawn from a seed: fleets, policies, workloads, faults.

use gpu_rollout::contract::count::Count;
use gpu_rollout::contract::policy::{Drain, ForeignCordon, PodDeletion, Topology, WaitForCompletion};
use gpu_rollout::simulate::fault::{Fault, Scheduled};
use gpu_rollout::simulate::random::{Random, Spread};
use gpu_rollout::simulate::setup::{Kind, Placement, Protection, Setup, Workers};

use crate::fleet::{NEW, OLD};
use crate::script::given;

const MINUTE: u64 = 60_000;
const TOPOLOGY: &str = "nvidia.com/gpu.clique";

/// A world of at most so many nodes.
pub(crate) fn drawn(seed: u64, most_nodes: u64) -> Setup {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9));
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
    // From a source of their own: worlds without them stay what they were.
    let mut pauses = Random::of(seed, "pauses", 0);
    if pauses.percent(15) {
        for _ in 0..=pauses.below(2) {
            setup.faults.push(Scheduled { at: pauses.below(20 * MINUTE), fault: Fault::Pause(1_000 + pauses.below(20 * MINUTE)) });
        }
    }
    setup
}

fn policy(setup: &mut Setup, random: &mut Random) {
    let upgrade = &mut setup.settings.upgrade;
    let policy = &mut upgrade.policy;
    policy.max_parallel_upgrades = *random.choose(&[0, 1, 2, 3, 8]).expect("not empty");
    let limits = [None, Some(Count::Number(1)), Some(Count::Number(2)), Some(Count::Percent(25)), Some(Count::Percent(100))];
    policy.max_unavailable = *random.choose(&limits).expect("not empty");
    let deletion = PodDeletion { force: random.percent(30), timeout_seconds: 60 + random.below(600), delete_empty_dir: random.percent(30) };
    policy.pod_deletion = random.percent(80).then_some(deletion);
    let drain = Drain { force: random.percent(30), timeout_seconds: 60 + random.below(600), ..Drain::default() };
    policy.drain = random.percent(30).then_some(drain);
    let wait =
        WaitForCompletion { pod_selector: "wait=yes".to_owned(), timeout_seconds: *random.choose(&[0, 300, 1800]).expect("not empty") };
    policy.wait_for_completion = random.percent(30).then_some(wait);
    upgrade.failure_budget = *random.choose(&[Count::Number(0), Count::Number(1), Count::Percent(100)]).expect("not empty");
    upgrade.attempts = 1 + u32::try_from(random.below(3)).expect("small");
    upgrade.soak_seconds = *random.choose(&[0, 0, 0, 30, 300]).expect("not empty");
    upgrade.start_seconds = *random.choose(&[300, 900, 1800]).expect("not empty");
    upgrade.foreign_cordon = if random.percent(30) { ForeignCordon::Include } else { ForeignCordon::Skip };
    if random.percent(30) {
        setup.group_size = usize::try_from(2 + random.below(3)).expect("small");
        upgrade.topology = Some(Topology { label: TOPOLOGY.to_owned(), max_unavailable: Count::Number(1) });
    }
}

fn times(setup: &mut Setup, random: &mut Random) {
    let times = &mut setup.times;
    let drivers = [Spread::Constant(30_000), Spread::Uniform(20_000, 200_000), Spread::HeavyTail { least: 20_000, most: 250_000 }];
    times.driver = *random.choose(&drivers).expect("not empty");
    let ends = [Spread::Uniform(0, 200), Spread::Uniform(2_000, 8_000), Spread::Uniform(1_000, 60_000)];
    times.operand_end = *random.choose(&ends).expect("not empty");
    let lags = [Spread::Uniform(1, 20), Spread::Uniform(20, 120), Spread::Uniform(20, 120), Spread::Uniform(0, 5_000)];
    times.watch = *random.choose(&lags).expect("not empty");
    let calls = [Spread::Constant(5), Spread::Uniform(2, 50), Spread::Uniform(10, 900)];
    times.call = *random.choose(&calls).expect("not empty");
}

fn workers(name: &str, nodes: usize, random: &mut Random) -> Workers {
    let mut workers = Workers::new(name, Placement::Each(1 + usize::try_from(random.below(2)).expect("small")));
    if random.percent(40) {
        let some = (0..nodes).filter(|_| random.percent(40)).map(|index| format!("gpu-{index}")).collect();
        workers.placement = Placement::On(some);
    }
    workers.kind = *random.choose(&[Kind::ReplicaSet, Kind::ReplicaSet, Kind::Job, Kind::Bare, Kind::DaemonSet]).expect("not empty");
    workers.gpu = random.percent(80);
    workers.empty_dir = random.percent(15);
    workers.grace_seconds = *random.choose(&[0, 5, 30, 600]).expect("not empty");
    workers.ends = Spread::Uniform(MINUTE, 30 * MINUTE);
    // Pods that never end are waited for without an end where the policy says so.
    if workers.kind == Kind::Job && random.percent(50) {
        workers.labels.insert("wait".to_owned(), "yes".to_owned());
    }
    if workers.kind == Kind::ReplicaSet && random.percent(50) {
        let protections = [
            Protection::MaxUnavailable(Count::Number(1)),
            Protection::MaxUnavailable(Count::Number(0)),
            Protection::MinAvailable(Count::Percent(50)),
            Protection::MinAvailable(Count::Percent(100)),
        ];
        workers.budgets.push(*random.choose(&protections).expect("not empty"));
    }
    workers
}

fn faults(setup: &mut Setup, at: u64, random: &mut Random) {
    let index = random.below(setup.nodes as u64);
    let node = format!("gpu-{index}");
    let traits = setup.settings.driver.traits();
    let crew = setup.workers.first().map_or("none", |workers| workers.name.as_str()).to_owned();
    let later = at + MINUTE / 2 + random.below(10 * MINUTE);
    let mut then = |at, fault| setup.faults.push(Scheduled { at, fault });
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
        8 => then(at / 4, Fault::DriverFails(node, Some(u32::try_from(1 + random.below(14)).expect("small")))),
        9 => then(at / 4, Fault::DriverFails(node, None)),
        10 => then(at, Fault::PluginFails(node, random.percent(60).then_some(later))),
        11 => then(at, Fault::HoldBudget(crew, random.percent(70).then_some(later))),
        12 | 13 => then(at, Fault::KillHook(random.below(MINUTE))),
        14 => then(at, Fault::LoseLease(20_000 + random.below(MINUTE))),
        15 => then(at, Fault::OperatorDown(1_000 + random.below(3 * MINUTE))),
        16 => then(at, Fault::Template(if random.percent(50) { OLD.to_owned() } else { "580.200.01".to_owned() })),
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
                    then(later, Fault::Label(node, traits.skip_label.to_owned(), value(random.percent(40))));
                }
                2 => then(at, Fault::Annotate(node, traits.requested.to_owned(), value(true))),
                _ => then(at, Fault::Template(NEW.to_owned())),
            }
        }
    }
}
