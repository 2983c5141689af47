//! `gpu-rollout simulate`.

use super::format::OutputFormat;
use super::range::DurationRange;
use super::recipe::{RECIPE_HELP, RecipeSelection, load_recipe};
use super::runs;
use crate::printer::Printer;
use contract::exit::ExitCode;
use ops::simulation::{
    FaultyNodes, FleetAssumptions, FleetSimulation, MOST_NODES, SimulationSummary,
};
use simulator::simulate;

mod text;

const EXAMPLES: &str = "Examples:
  gpu-rollout simulate -r eks-gb200-training --set rollout.gpuDriver.mode=drive --nodes 64

Compare modes (observe, assist, steer, drive) on the same nodes:
  gpu-rollout simulate -r eks-gb200-training --set rollout.gpuDriver.mode=observe --nodes 64

Compare policies on the same nodes:
  gpu-rollout simulate -r mine.yaml --set rollout.gpuDriver.policy.maxParallelUpgrades=8
  gpu-rollout simulate -r mine.yaml --set rollout.gpuDriver.policy.maxUnavailable=50%
  gpu-rollout simulate -r mine.yaml --set rollout.gpuDriver.mode=drive \\
    --set rollout.gpuDriver.policy.soak=5m
  gpu-rollout simulate -r mine.yaml --fail 5 --set rollout.gpuDriver.mode=drive \\
    --set rollout.gpuDriver.policy.failureBudget=3

See how many nodes a bad driver reaches before the rollout halts:
  gpu-rollout simulate -r mine.yaml --fail-acceptance 100% --set rollout.gpuDriver.mode=drive

Print the median duration for a script:
  gpu-rollout simulate -r mine.yaml --runs 100 -o json | jq .seconds.median";

/// Arguments of `gpu-rollout simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArguments {
    /// Recipe
    #[arg(short = 'r', long = "recipe", value_name = "RECIPE", help = RECIPE_HELP)]
    recipe: String,
    /// Number of GPU nodes, 1 to 10000 [default: the recipe's cluster.gpuNodes]
    #[arg(long)]
    nodes: Option<usize>,
    /// Random seed of the first run: an integer; the same seed gives the same result
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of runs, 1 to 10000, each with the next seed
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    runs: u64,
    /// Time from a driver pod's creation to its readiness, as a range
    #[arg(long, value_name = "MIN..MAX", default_value = "90s..3m")]
    driver_time: DurationRange,
    /// Number of pods with a GPU on each node; when they are evicted, a controller recreates them
    /// on other nodes
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pods: usize,
    /// The probability, as a percentage, that the new driver of a node never starts, 0 to 100; the
    /// number of such nodes differs from run to run
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    fail: u64,
    /// Nodes on which the acceptance tests of the recipe fail with the new driver: a share, such as
    /// `10%`, or a label, such as `zone=a` (every second simulated node has this one). Without this
    /// option, all tests pass
    #[arg(long, value_name = "SHARE|LABEL=VALUE")]
    fail_acceptance: Option<FaultyNodes>,
    #[command(flatten)]
    overrides: RecipeSelection,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
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
        let Some(loaded) = load_recipe(&self.recipe, &self.overrides, printer) else {
            return ExitCode::Input;
        };
        let assumed = FleetAssumptions {
            driver_time: self.driver_time.spread(),
            pods: self.pods,
            failing_percent: self.fail,
            failing_acceptance: self.fail_acceptance,
        };
        let fleet = match FleetSimulation::new(&loaded.recipe, assumed) {
            Ok(fleet) => fleet,
            Err(error) => {
                printer.error(&error.to_string(), error.hint().as_deref());
                return ExitCode::Input;
            }
        };
        let seeds: Vec<u64> = (0..self.runs).map(|run| self.seed.wrapping_add(run)).collect();
        let reports = runs::run_all(&seeds, |seed| simulate(&fleet.setup(*seed)), printer);
        let violations = reports.iter().find(|report| !report.violations.is_empty());
        if let Some(report) = violations {
            // The model checks invariants: a violation is a bug of this program, not of the recipe.
            printer.error(
                &format!(
                    "the simulation found a bug in the engine with seed {}: {}",
                    report.seed,
                    report.violations.join("; ")
                ),
                None,
            );
            return ExitCode::Internal;
        }
        let summary = SimulationSummary::new(&reports, fleet.settings(), fleet.nodes());
        match self.output {
            OutputFormat::Text => {
                printer.data(&text::summary_text(&summary, &reports, fleet.settings()));
                ExitCode::Success
            }
            OutputFormat::Json => printer.json(&summary),
        }
    }
}
