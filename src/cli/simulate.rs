//! `gpu-rollout simulate`.

use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value};

use super::format::Format;
use super::printer::Printer;
use super::recipe::{Overrides, RECIPE_HELP, load_recipe};
use crate::catalog::lookup;
use crate::contract::count::Count;
use crate::contract::driver::Driver;
use crate::contract::duration::Duration;
use crate::contract::duty::Duty;
use crate::contract::exit::ExitCode;
use crate::contract::policy::Upgrade;
use crate::contract::preflight::PreflightSettings;
use crate::contract::settings::{DraSettings, Expected, Mode, Settings};
use crate::contract::{names, settings};
use crate::recipe::model::Recipe;
use crate::release::values::gpu;
use crate::release::{Embedded, Kind, Options, plan};
use crate::rollout::vendor::generation::Generation;
use crate::simulate::fault::{Fault, Scheduled};
use crate::simulate::random::{Random, Spread};
use crate::simulate::setup::{Placement, Setup, Times, Workers};
use crate::simulate::simulate;

mod summary;

/// How many nodes are simulated at most: what the hook is made for.
const MOST_NODES: usize = 10_000;

/// The same where NVIDIA's controller is in the model: each of its passes looks at every node.
const MOST_OPERATED: usize = 1_000;

const EXAMPLES: &str = "Examples:
  gpu-rollout simulate -r eks-gb200-training --set rollout.gpuDriver.mode=drive --nodes 64

What if: the same nodes, another mode (assist: NVIDIA's controller, woken; observe: left alone; steer; drive).
  gpu-rollout simulate -r eks-gb200-training --set rollout.gpuDriver.mode=observe --nodes 64

What if: the same nodes, another policy.
  gpu-rollout simulate -r mine.yaml --set rollout.gpuDriver.policy.maxParallelUpgrades=8 --set rollout.gpuDriver.policy.maxUnavailable=50%
  gpu-rollout simulate -r mine.yaml --set rollout.gpuDriver.policy.soak=5m
  gpu-rollout simulate -r mine.yaml --fail 5 --set rollout.gpuDriver.policy.failureBudget=3

For a program:
  gpu-rollout simulate -r mine.yaml --runs 100 -o json | jq .seconds.median";

/// Arguments of `gpu-rollout simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The recipe
    #[arg(short = 'r', long = "recipe", value_name = "RECIPE", help = RECIPE_HELP)]
    recipe: String,
    /// How many GPU nodes [default: the recipe's cluster.gpuNodes]
    #[arg(long)]
    nodes: Option<usize>,
    /// Where the random numbers come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many runs, each with the next seed
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    runs: u64,
    /// How long a driver takes from its pod's creation to its readiness
    #[arg(long, value_name = "LEAST..MOST", default_value = "90s..3m")]
    driver_time: Range,
    /// How many pods with a GPU each node has; a controller brings them back on other nodes
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pods: usize,
    /// How many nodes of a hundred get a driver that never starts
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    fail: u64,
    #[command(flatten)]
    overrides: Overrides,
    /// The format.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// Two lengths of time.
#[derive(Clone, Copy, Debug, Serialize)]
struct Range {
    least: Duration,
    most: Duration,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let parse = |text: &str| text.parse::<Duration>().map_err(|error| error.to_string());
        let range = Self { least: parse(least)?, most: parse(most)? };
        if range.least > range.most { Err(format!("`{text}` ends before it begins")) } else { Ok(range) }
    }
}

/// What of the recipe is simulated.
struct Subject {
    settings: Settings,
    nodes: usize,
    version: Option<String>,
    dra: bool,
    /// The operator's version, where its own controller does the upgrades.
    operator: Option<String>,
}

impl Arguments {
    /// Runs the command.
    pub fn run(mut self, printer: &mut Printer) -> ExitCode {
        if let Some(nodes) = self.nodes {
            if !(1..=MOST_NODES).contains(&nodes) {
                printer.error(&format!("--nodes: expected 1 to {MOST_NODES}, found {nodes}"), None);
                return ExitCode::Usage;
            }
            match format!("cluster.gpuNodes={nodes}").parse() {
                Ok(set) => self.overrides.list.push(set),
                Err(error) => {
                    printer.error(&format!("--nodes: {error}"), None);
                    return ExitCode::Internal;
                }
            }
        }
        let Some(loaded) = load_recipe(&self.recipe, &self.overrides, printer) else { return ExitCode::Input };
        let subject = match subject(&loaded.recipe) {
            Ok(subject) => subject,
            Err((message, hint)) => {
                printer.error(&message, hint.as_deref());
                return ExitCode::Input;
            }
        };
        let reports: Vec<_> = (0..self.runs).map(|run| simulate(&self.setup(&subject, self.seed.wrapping_add(run)))).collect();
        let violations = reports.iter().find(|report| !report.violations.is_empty());
        if let Some(report) = violations {
            // The model's own checks: a mistake of this program, and not of the recipe.
            printer.error(
                &format!("the simulation found a mistake of the engine with seed {}: {}", report.seed, report.violations.join("; ")),
                None,
            );
            return ExitCode::Internal;
        }
        match self.output {
            Format::Text => {
                printer.data(&summary::text(&reports, &subject.settings, subject.nodes));
                ExitCode::Success
            }
            Format::Json => printer.json(&summary::json(&reports, &subject.settings, subject.nodes)),
        }
    }

    fn setup(&self, subject: &Subject, seed: u64) -> Setup {
        let milliseconds = |duration: Duration| duration.as_secs().saturating_mul(1000);
        let driver = Spread::Uniform(milliseconds(self.driver_time.least), milliseconds(self.driver_time.most));
        let fails = |index: &usize| Random::of(seed, "fails", u64::try_from(*index).unwrap_or(0)).percent(self.fail);
        let fault = |index: usize| Scheduled { at: 0, fault: Fault::DriverFails(format!("gpu-{index}"), None) };
        Setup {
            settings: subject.settings.clone(),
            nodes: subject.nodes,
            group_size: 0,
            seed,
            times: Times { driver, ..Times::default() },
            workers: if self.pods > 0 { vec![Workers::new("train", Placement::Each(self.pods))] } else { Vec::new() },
            gpus: self.pods.saturating_mul(2).max(8),
            faults: (0..subject.nodes).filter(fails).map(fault).collect(),
            from: "0.1".to_owned(),
            to: subject.version.clone().unwrap_or_else(|| "0.2".to_owned()),
            same_config: false,
            hook_node: None,
            dra: subject.dra,
            tells: false,
            operator: subject.operator.clone(),
            thorough: false,
            mutation: None,
        }
    }
}

/// The version of the operator whose controller does the upgrades. Its limits are those of the values, where they say something.
fn operator(mode: Mode, version: &str, values: &Map<String, Value>, upgrade: &mut Upgrade) -> Result<String, (String, Option<String>)> {
    let hint = || Some("see how our own engine would do it: --set rollout.gpuDriver.mode=drive".to_owned());
    if lookup(values, gpu::AUTO_UPGRADE) == Some(&Value::Bool(false)) {
        return Err((format!("{} is false: in mode `{}` nobody upgrades a driver", gpu::AUTO_UPGRADE, mode.name()), hint()));
    }
    if Generation::of(Driver::Gpu, Some(version)).is_none() {
        return Err((format!("gpu-operator {version}: it is not known how its upgrade controller behaves"), hint()));
    }
    if !mode.decides() {
        let at = |key: &str| lookup(values, &format!("{}.{key}", gpu::POLICY)).cloned();
        let policy = &mut upgrade.policy;
        policy.max_parallel_upgrades =
            at("maxParallelUpgrades").and_then(|value| u32::try_from(value.as_u64()?).ok()).unwrap_or(policy.max_parallel_upgrades);
        let limit = at("maxUnavailable").and_then(|value| serde_json::from_value::<Count>(value).ok());
        policy.max_unavailable = limit.or(policy.max_unavailable);
    }
    Ok(version.to_owned())
}

/// The settings that the recipe's hook would have, as far as the model knows them.
fn subject(recipe: &Recipe) -> Result<Subject, (String, Option<String>)> {
    let planned = plan(recipe, &Embedded, &Options::default()).map_err(|error| (error.to_string(), error.hint()))?;
    let hook = planned.releases.iter().find_map(|release| match &release.kind {
        Kind::Hook(hook) if hook.component == names::OPERATOR_DEPLOYMENT && hook.duties.contains(&Duty::Settle) => Some(hook),
        Kind::Upstream(_) | Kind::Crds(_) | Kind::Manifests(_) | Kind::Hook(_) => None,
    });
    let hook = hook.ok_or_else(|| ("the recipe has no gpu-operator: there is no upgrade to simulate".to_owned(), None))?;
    let values = planned.releases.iter().find_map(|release| match &release.kind {
        Kind::Upstream(upstream) if release.name == hook.component => Some(upstream.values.clone()),
        Kind::Upstream(_) | Kind::Crds(_) | Kind::Manifests(_) | Kind::Hook(_) => None,
    });
    let values = values.unwrap_or_default();
    let mode = gpu::mode(&recipe.rollout.gpu_driver, &values);
    let mut upgrade = crate::release::upgrade(&recipe.rollout, Driver::Gpu);
    let operator = match mode {
        Mode::Drive => None,
        Mode::Observe | Mode::Assist | Mode::Steer => Some(operator(mode, &hook.version, &values, &mut upgrade)?),
    };
    let dra = recipe.components.iter().any(|component| component.enabled && component.name == names::DRA_NAMESPACES[0]);
    let rollout = &recipe.rollout;
    let before = [Duty::Preflight, Duty::Hold];
    let of_mode = mode.duties().iter().copied().filter(|duty| !before.contains(duty));
    let duties = std::iter::once(Duty::Settle).chain(of_mode).chain(dra.then_some(Duty::Reroll)).collect();
    let settings = Settings {
        format_version: settings::FORMAT_VERSION,
        digest: String::new(),
        release: format!("{}-post", hook.component),
        namespace: hook.component.clone(),
        record: format!("{}-post-record", hook.component),
        component: hook.component.clone(),
        component_version: Some(hook.version.clone()),
        duties,
        driver: Driver::Gpu,
        mode,
        gate: rollout.gpu_driver.gate,
        budget_seconds: hook.budget.seconds,
        per_node_seconds: hook.budget.per_node_seconds,
        quiet_seconds: rollout.gpu_driver.quiet.as_secs(),
        grace_seconds: 300,
        operator_namespace: hook.component.clone(),
        operator_deployment: None,
        daemon_set: None,
        cluster_policy: names::CLUSTER_POLICY.to_owned(),
        tolerate_not_ready: rollout.gpu_driver.tolerate_not_ready,
        upgrade,
        dra: DraSettings {
            reroll: rollout.dra.reroll,
            required: rollout.dra.required,
            namespaces: vec![names::DRA_NAMESPACES[0].to_owned()],
            max_unavailable: crate::release::time::DRA_MAX_UNAVAILABLE,
            replacement_seconds: crate::release::time::REPLACEMENT_SECONDS,
        },
        device_plugin: settings::DevicePluginSettings::default(),
        expected: Expected::default(),
        preflight: PreflightSettings::default(),
    };
    let nodes = usize::try_from(recipe.cluster.gpu_nodes).unwrap_or(usize::MAX);
    if nodes == 0 || nodes > MOST_NODES {
        return Err((
            format!("the recipe's cluster.gpuNodes is {nodes}: 1 to {MOST_NODES} nodes can be simulated"),
            Some("say how many with --nodes".to_owned()),
        ));
    }
    if operator.is_some() && nodes > MOST_OPERATED {
        return Err((
            format!("in mode `{}` at most {MOST_OPERATED} nodes can be simulated, found {nodes}", mode.name()),
            Some("each pass of NVIDIA's controller looks at every node; say how many with --nodes".to_owned()),
        ));
    }
    Ok(Subject { settings, nodes, version: rollout.gpu_driver.version.clone(), dra, operator })
}
