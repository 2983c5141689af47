//! `gpu-rollout simulate`.

use super::format::OutputFormat;
use super::proposed::{ProposedRecipe, proposed};
use super::range::DurationRange;
use super::recipe::{RECIPE_HELP, RecipeSelection, load_recipe};
use super::runs;
use crate::printer::Printer;
use contract::exit::ExitCode;
use recipe::model::Recipe;
use simulator::fault::{Fault, ScheduledFault};
use simulator::random::SeededRandom;
use simulator::setup::{PodPlacement, SimulationSetup, SimulationTimes, WorkloadSetup};
use simulator::simulate;

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
pub struct SimulateArguments {
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
    driver_time: DurationRange,
    /// How many pods with a GPU each node has; a controller brings them back on other nodes
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pods: usize,
    /// How many nodes of a hundred get a driver that never starts
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    fail: u64,
    #[command(flatten)]
    overrides: RecipeSelection,
    /// The format.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

/// What of the recipe is simulated.
struct SimulationScope {
    from_recipe: ProposedRecipe,
    nodes: usize,
}

/// How many nodes there are to be, if there may be so many.
fn subject(recipe: &Recipe) -> Result<SimulationScope, (String, Option<String>)> {
    let from_recipe = proposed(recipe)?;
    let nodes = usize::try_from(recipe.cluster.gpu_nodes).unwrap_or(usize::MAX);
    if nodes == 0 || nodes > MOST_NODES {
        return Err((
            format!("the recipe's cluster.gpuNodes is {nodes}: 1 to {MOST_NODES} nodes can be simulated"),
            Some("say how many with --nodes".to_owned()),
        ));
    }
    if from_recipe.proposed.operator.is_some() && nodes > MOST_OPERATED {
        return Err((
            format!(
                "in mode `{}` at most {MOST_OPERATED} nodes can be simulated, found {nodes}",
                from_recipe.proposed.settings.mode.name()
            ),
            Some("each pass of NVIDIA's controller looks at every node; say how many with --nodes".to_owned()),
        ));
    }
    Ok(SimulationScope { from_recipe, nodes })
}

impl SimulateArguments {
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
        let seeds: Vec<u64> = (0..self.runs).map(|run| self.seed.wrapping_add(run)).collect();
        let reports = runs::run_all(&seeds, |seed| simulate(&self.setup(&subject, *seed)), printer);
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
            OutputFormat::Text => {
                printer.data(&summary::text(&reports, &subject.from_recipe.proposed.settings, subject.nodes));
                ExitCode::Success
            }
            OutputFormat::Json => printer.json(&summary::json(&reports, &subject.from_recipe.proposed.settings, subject.nodes)),
        }
    }

    fn setup(&self, subject: &SimulationScope, seed: u64) -> SimulationSetup {
        let proposed = &subject.from_recipe.proposed;
        let fails = |index: &usize| SeededRandom::stream(seed, "fails", u64::try_from(*index).unwrap_or(0)).percent(self.fail);
        let fault = |index: usize| ScheduledFault { at: 0, fault: Fault::DriverFails(format!("gpu-{index}"), None) };
        SimulationSetup {
            settings: proposed.settings.clone(),
            nodes: subject.nodes,
            group_size: 0,
            seed,
            times: SimulationTimes { driver: self.driver_time.spread(), ..SimulationTimes::default() },
            workers: if self.pods > 0 { vec![WorkloadSetup::new("train", PodPlacement::Each(self.pods))] } else { Vec::new() },
            gpus: self.pods.saturating_mul(2).max(8),
            faults: (0..subject.nodes).filter(fails).map(fault).collect(),
            from: "0.1".to_owned(),
            to: proposed.driver.clone().unwrap_or_else(|| "0.2".to_owned()),
            same_config: false,
            found: None,
            hook_node: None,
            dra: subject.from_recipe.dra,
            operands: false,
            tells: false,
            operator: proposed.operator.clone(),
            operator_upgrade: None,
            pools: Vec::new(),
            thorough: false,
            clocks: simulator::clocks::SimulatedClocks::default(),
            mutation: None,
        }
    }
}
