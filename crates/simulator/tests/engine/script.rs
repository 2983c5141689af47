//! The language of `tests/engine/scenarios/*.txt`: the setup, line by line, and faults with their
//! times.

use contract::acceptance::{AcceptanceGpus, AcceptanceNodes, AcceptanceTest, AcceptanceTime};
use contract::count::Count;
use contract::driver::Driver;
use contract::policy::UpgradeSettings;
use contract::settings::{Mode, Settings};
use contract::task::Task;
use simulator::acceptance::{AcceptanceEffect, AcceptanceFault, FaultyNodes, LogFault};
use simulator::fault::{Fault, ScheduledFault};
use simulator::random::TimeSpread;
use simulator::setup::{
    BudgetProtection, OperatorUpgrade, PodPlacement, SimulationSetup, WorkloadKind, WorkloadSetup,
};

use crate::fleet::{NEW, OLD};
use crate::settings::settings;

/// Returns the initial setup of every story: an upgrade of the driver version in mode `drive`.
pub(crate) fn given(nodes: usize, seed: u64) -> SimulationSetup {
    let settings = Settings {
        mode: Mode::Drive,
        tasks: vec![Task::Settle, Task::Drive, Task::Reroll],
        budget_seconds: 4 * 3600,
        per_node_seconds: 300,
        ..settings()
    };
    SimulationSetup {
        from: OLD.to_owned(),
        to: NEW.to_owned(),
        dra: true,
        tells: true,
        thorough: true,
        ..SimulationSetup::new(settings, nodes, seed)
    }
}

/// Parses a time, such as `250ms`, `90s`, `5m` or `2h`, to milliseconds.
fn time(text: &str) -> u64 {
    let digits = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or_else(|| panic!("`{text}` has no unit"));
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => panic!("`{text}` is not a time"),
    };
    number.parse::<u64>().unwrap_or_else(|_| panic!("`{text}` is not a time")) * factor
}

fn forever(text: Option<&str>) -> Option<u64> {
    text.map(|text| time(text.trim()))
}

/// Parses a distribution: `30s`, `30s..90s` or `heavy 30s..900s`.
fn spread(text: &str) -> TimeSpread {
    let (heavy, text) = text.strip_prefix("heavy ").map_or((false, text), |rest| (true, rest));
    match text.split_once("..") {
        Some((least, most)) if heavy => {
            TimeSpread::HeavyTail { least: time(least), most: time(most) }
        }
        Some((least, most)) => TimeSpread::Uniform(time(least), time(most)),
        None => TimeSpread::Constant(time(text)),
    }
}

fn count(text: &str) -> Count {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// `NAME KIND [each N | on NODE,NODE] [grace TIME] [emptyDir] [noGpu] [hidden] [finalizer TIME]
/// [minAvailable N] [maxUnavailable N] [ends TIME] [label KEY=VALUE]`
fn workers(text: &str) -> WorkloadSetup {
    let mut words = text.split_whitespace();
    let mut next = |what: &str| {
        words.next().unwrap_or_else(|| panic!("workers {text}: {what} is missing")).to_owned()
    };
    let mut workers = WorkloadSetup::new(&next("the name"), PodPlacement::Each(1));
    workers.kind = match next("the kind").as_str() {
        "replicaset" => WorkloadKind::ReplicaSet,
        "job" => WorkloadKind::Job,
        "bare" => WorkloadKind::Bare,
        "daemonset" => WorkloadKind::DaemonSet,
        kind => panic!("workers {text}: no kind `{kind}`"),
    };
    while let Some(word) = words.next() {
        let mut value =
            || words.next().unwrap_or_else(|| panic!("workers {text}: a value is missing"));
        match word {
            "each" => {
                workers.placement = PodPlacement::Each(value().parse().expect("a number of pods"));
            }
            "on" => {
                workers.placement =
                    PodPlacement::On(value().split(',').map(str::to_owned).collect());
            }
            "grace" => workers.grace_seconds = time(value()) / 1000,
            "emptyDir" => workers.empty_dir = true,
            "noGpu" => workers.gpu = false,
            "hidden" => (workers.gpu, workers.hidden) = (false, true),
            "finalizer" => workers.finalizer = time(value()),
            "minAvailable" => workers.budgets.push(BudgetProtection::MinAvailable(count(value()))),
            "maxUnavailable" => {
                workers.budgets.push(BudgetProtection::MaxUnavailable(count(value())));
            }
            "ends" => workers.ends = spread(value()),
            "label" => {
                let (key, value) = value().split_once('=').expect("KEY=VALUE");
                workers.labels.insert(key.to_owned(), value.to_owned());
            }
            _ => panic!("workers {text}: `{word}`?"),
        }
    }
    workers
}

/// `NAME [before] [after] [on canaries|all|SHARE] [timeout TIME] [gpus template|all] [log LINES]`.
/// Without a time, the test runs after.
fn acceptance_test(line: &str) -> AcceptanceTest {
    let mut words = line.split_whitespace();
    let mut test = AcceptanceTest {
        name: words.next().unwrap_or_else(|| panic!("test {line}: the name is missing")).to_owned(),
        timeout_seconds: 600,
        when: Vec::new(),
        nodes: AcceptanceNodes::All,
        gpus: AcceptanceGpus::All,
        log_lines: 0,
    };
    while let Some(word) = words.next() {
        let mut value =
            || words.next().unwrap_or_else(|| panic!("test {line}: a value is missing"));
        match word {
            "before" => test.when.push(AcceptanceTime::Before),
            "after" => test.when.push(AcceptanceTime::After),
            "on" => test.nodes = value().parse().expect("nodes"),
            "timeout" => test.timeout_seconds = time(value()) / 1000,
            "gpus" => test.gpus = yaml(value()),
            "log" => test.log_lines = value().parse().expect("a number of lines"),
            _ => panic!("test {line}: `{word}`?"),
        }
    }
    if test.when.is_empty() {
        test.when.push(AcceptanceTime::After);
    }
    test
}

/// `all|NODE|SHARE|LABEL=VALUE no-answer|unreadable`
fn log_fault(line: &str) -> LogFault {
    let (nodes, answer) = line.split_once(' ').unwrap_or_else(|| panic!("log-fault {line}?"));
    let is_final = match answer {
        "no-answer" => false,
        "unreadable" => true,
        _ => panic!("log-fault {line}?"),
    };
    LogFault { nodes: faulty_nodes(nodes), is_final }
}

fn faulty_nodes(text: &str) -> FaultyNodes {
    match text {
        "all" => FaultyNodes::All,
        text => text.parse().unwrap_or_else(|_| FaultyNodes::Node(text.to_owned())),
    }
}

fn no_test_fault(words: &[&str]) -> ! {
    panic!("test-fault {}?", words.join(" "))
}

/// `TEST|any all|NODE|SHARE|LABEL=VALUE EFFECT [before|after] [driver VERSION]`, with the effects
/// `fails EXIT_CODE`, `hangs`, `no-image`, `no-image:TIME`, `kubelet-refuses`, `refused`,
/// `unschedulable` and `slow TIME`.
fn acceptance_fault(words: &[&str]) -> AcceptanceFault {
    let [name, nodes, effect, rest @ ..] = words else { no_test_fault(words) };
    let (effect, mut rest) = match (*effect, rest) {
        ("fails", [code, rest @ ..]) => {
            (AcceptanceEffect::Fails { exit_code: code.parse().expect("an exit code") }, rest)
        }
        ("slow", [longer, rest @ ..]) => {
            (AcceptanceEffect::Slow { milliseconds: time(longer) }, rest)
        }
        ("hangs", rest) => (AcceptanceEffect::Hangs, rest),
        ("kubelet-refuses", rest) => (AcceptanceEffect::EndedByKubelet, rest),
        ("refused", rest) => (AcceptanceEffect::Refused, rest),
        ("unschedulable", rest) => (AcceptanceEffect::Unschedulable, rest),
        ("no-image", rest) => (AcceptanceEffect::ImageNotPulled { milliseconds: None }, rest),
        (effect, rest) => {
            let late = effect.strip_prefix("no-image:").unwrap_or_else(|| no_test_fault(words));
            (AcceptanceEffect::ImageNotPulled { milliseconds: Some(time(late)) }, rest)
        }
    };
    let mut fault = AcceptanceFault::new(effect, faulty_nodes(nodes));
    fault.test = (*name != "any").then(|| (*name).to_owned());
    loop {
        rest = match rest {
            [] => return fault,
            ["before", rest @ ..] => {
                fault.time = Some(AcceptanceTime::Before);
                rest
            }
            ["after", rest @ ..] => {
                fault.time = Some(AcceptanceTime::After);
                rest
            }
            ["driver", version, rest @ ..] => {
                fault.version = Some((*version).to_owned());
                rest
            }
            _ => no_test_fault(words),
        };
    }
}

fn fault(text: &str) -> Fault {
    let (text, period) =
        text.split_once(" for ").map_or((text, None), |(text, period)| (text, Some(period)));
    let words: Vec<&str> = text.split_whitespace().collect();
    let own = |text: &str| text.to_owned();
    let set = |value: &str| (value != "-").then(|| value.to_owned());
    let some = || time(period.unwrap_or_else(|| panic!("`{text}`: for how long?")));
    match words.as_slice() {
        ["not-ready", node] => Fault::NotReady(own(node), forever(period)),
        ["gone", node] => Fault::NodeGone(own(node)),
        ["joins", node] => Fault::NodeJoins(own(node)),
        ["cordon", node] => Fault::Cordon(own(node)),
        ["uncordon", node] => Fault::Uncordon(own(node)),
        ["label", node, key, value] => Fault::Label(own(node), own(key), set(value)),
        ["annotate", node, key, value] => Fault::Annotate(own(node), own(key), set(value)),
        ["driver-fails", node, "ever"] => Fault::DriverFails(own(node), None),
        ["driver-fails", node, times] => {
            Fault::DriverFails(own(node), Some(times.parse().expect("a number of starts")))
        }
        ["driver-crashes", node] => Fault::DriverCrashes(own(node), forever(period)),
        ["delete-driver", node] => Fault::DeleteDriver(own(node)),
        ["plugin-fails", node] => Fault::PluginFails(own(node), forever(period)),
        ["hold-budget", workers] => Fault::HoldBudget(own(workers), forever(period)),
        ["kill-hook"] => Fault::KillHook(some()),
        ["lose-lease"] => Fault::LoseLease(some()),
        ["operator-down"] => Fault::OperatorDown(some()),
        ["template", version] => Fault::Template(own(version)),
        ["deploy", limit] => Fault::Deploy(count(limit)),
        ["resume"] => Fault::Resume(Vec::new()),
        ["resume", "accept", nodes] => Fault::Resume(nodes.split(',').map(own).collect()),
        ["maintenance", node] => Fault::Maintenance(own(node), some()),
        ["pod-comes", workers, node] => Fault::PodComes(own(workers), own(node)),
        ["test-fault", fault @ ..] => Fault::Acceptance(Some(acceptance_fault(fault))),
        ["tests-pass"] => Fault::Acceptance(None),
        ["delete-test-pod", node] => Fault::DeleteTestPods(own(node)),
        ["pause"] => Fault::Pause(some()),
        ["freeze"] => Fault::Freeze(some()),
        _ => panic!("no fault `{text}`"),
    }
}

/// Parses mode and operator version, such as `assist v26.7.0`. The operator's own controller
/// performs the upgrades.
pub(crate) fn operated(setup: &mut SimulationSetup, text: &str) {
    let (mode, version) = text.split_once(' ').expect("operator MODE VERSION");
    setup.operator = Some(version.trim().to_owned());
    let (mode, tasks) = match mode {
        "observe" => (Mode::Observe, vec![]),
        "assist" => (Mode::Assist, vec![Task::Wake]),
        "steer" => (Mode::Steer, vec![Task::Wake, Task::Steer]),
        mode => panic!("the operator does nothing in mode `{mode}`"),
    };
    setup.settings.mode = mode;
    setup.settings.tasks = [vec![Task::Settle], tasks, vec![Task::Reroll]].concat();
    if !mode.decides() {
        // Only a hook that decides when a node starts has tests.
        setup.settings.upgrade.acceptance.clear();
    }
}

/// Parses the setup of a story.
pub(crate) fn read(text: &str) -> SimulationSetup {
    let mut setup = given(3, 1);
    let mut tests = Vec::new();
    for line in
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "nodes" => setup.nodes = rest.parse().expect("a number of nodes"),
            "operator-upgrade" => {
                setup.operator_upgrade =
                    Some(OperatorUpgrade { from: "v26.3.0".to_owned(), ready: time(rest) });
            }
            "seed" => setup.seed = rest.parse().expect("a seed"),
            "upgrade" => setup.settings.upgrade = yaml::<UpgradeSettings>(rest),
            "groups" => setup.group_size = rest.parse().expect("nodes in a group"),
            "budget" => setup.settings.budget_seconds = time(rest) / 1000,
            "per-node" => setup.settings.per_node_seconds = time(rest) / 1000,
            "tolerate-not-ready" => setup.settings.tolerate_not_ready = count(rest),
            "driver" => setup.times.driver = spread(rest),
            "driver-ends" => setup.times.operand_end = spread(rest),
            "watch" => setup.times.watch = spread(rest),
            "workers" => setup.workers.push(workers(rest)),
            "test" => tests.push(acceptance_test(rest)),
            "test-fault" => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                setup.acceptance.faults.push(acceptance_fault(&words));
            }
            "log-fault" => setup.acceptance.log_fault = Some(log_fault(rest)),
            "test-time" => setup.times.acceptance = spread(rest),
            "label" => {
                let [node, key, value] = rest.split(' ').collect::<Vec<&str>>()[..] else {
                    panic!("label NODE KEY VALUE")
                };
                let labels = setup.labels.entry(node.to_owned()).or_default();
                labels.insert(key.to_owned(), value.to_owned());
            }
            "gpus" => setup.gpus = rest.parse().expect("a number of GPUs"),
            "hook-on" => setup.hook_node = Some(rest.to_owned()),
            "same-config" => setup.same_config = true,
            "operator" => operated(&mut setup, rest),
            "no-dra" => setup.dra = false,
            "daemonset" => {
                setup.dra = false;
                setup.settings.driver = Driver::DaemonSet;
                setup.settings.daemon_set = Some(rest.to_owned());
                setup.settings.tasks = vec![Task::Settle, Task::Drive];
            }
            "at" => {
                let (at, what) = rest.split_once(' ').expect("at TIME FAULT");
                setup.faults.push(ScheduledFault { at: time(at), fault: fault(what.trim()) });
            }
            _ => panic!("`{line}`?"),
        }
    }
    setup.settings.upgrade.acceptance.extend(tests);
    setup
}

/// Parses one line of YAML, without the reader of recipes.
fn yaml<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_yaml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
