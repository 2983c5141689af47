//! `gpu-rollout plan`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::cluster::{self, ClusterOptions};
use super::format::{ListingFormat, RolloutList};
use super::range::DurationRange;
use super::recipe::{RecipeSelection, load_recipe};
use super::{runs, terminal};
use crate::printer::Printer;
use contract::driver::Driver;
use contract::exit::ExitCode;
use ops::observe::ObserveError;
use ops::plan::{NodeStep, PlanAssumptions, ProposedDeployment, predict};
use ops::session::ClusterSession;
use simulator::simulate;

mod text;

const EXAMPLES: &str = "Examples:
  gpu-rollout plan                       # what the deployed rollout still has to do
  gpu-rollout plan -r mine.yaml          # what a bundle of this recipe would change
  gpu-rollout plan --bundle ./bundle -o wide
  gpu-rollout plan -r mine.yaml --set rollout.gpuDriver.policy.maxUnavailable=10%
  # Pods that no controller recreates:
  gpu-rollout plan -r mine.yaml -o json | jq '.rollouts[].pods[] | select(.lost)'

Driver start times are measured on the driver pods that run now, unless you set --driver-time. The jobs that the policy waits for are assumed to keep running for the time that --job-time sets.";

/// Arguments of `gpu-rollout plan`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArguments {
    /// Recipe to preview: a file, a name from the built-in library, or `-` for standard input
    /// [default: what is deployed]
    #[arg(short = 'r', long = "recipe", value_name = "RECIPE")]
    recipe: Option<String>,
    /// Bundle to preview: a directory that `gpu-rollout bundle render` wrote
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "recipe")]
    bundle: Option<PathBuf>,
    #[command(flatten)]
    overrides: RecipeSelection,
    /// Time from a driver pod's creation to its readiness, as a range such as `90s..3m` [default:
    /// measured on the driver pods that run now]
    #[arg(long, value_name = "MIN..MAX")]
    driver_time: Option<DurationRange>,
    /// Remaining time of the jobs that the policy waits for, as a range
    #[arg(long, value_name = "MIN..MAX", default_value = "0s..1h")]
    job_time: DurationRange,
    /// Number of random runs, 1 to 1000, in addition to the quickest and the slowest possible run
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    runs: u64,
    /// Random seed: an integer; the same seed draws the same times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ListingFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

impl PlanArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let proposed = match self.proposed(printer) {
            Ok(proposed) => proposed,
            Err(code) => return code,
        };
        let Self { driver_time, job_time, runs, seed, output, cluster, .. } = self;
        let assumed = PlanAssumptions {
            driver: driver_time.map(DurationRange::spread),
            jobs: job_time.spread(),
            runs,
            seed,
        };
        cluster::run_anywhere(&cluster, printer, async |session, printer| {
            Ok(Box::pin(run(&session, proposed.as_ref(), assumed, output, printer)).await?)
        })
    }

    /// Returns the deployment to preview, or `None` to finish what is deployed.
    fn proposed(&self, printer: &mut Printer) -> Result<Option<ProposedDeployment>, ExitCode> {
        let recipe = match (&self.recipe, &self.bundle) {
            (Some(recipe), _) => recipe.clone(),
            (None, Some(bundle)) => recipe_of_bundle(bundle, printer)?,
            (None, None) if self.overrides.list.is_empty() => return Ok(None),
            (None, None) => {
                printer.error(
                    "--set needs a recipe to change",
                    Some("name a recipe with --recipe, or a bundle with --bundle"),
                );
                return Err(ExitCode::Usage);
            }
        };
        let loaded = load_recipe(&recipe, &self.overrides, printer).ok_or(ExitCode::Input)?;
        ProposedDeployment::from_recipe(&loaded.recipe).map(Some).map_err(|error| {
            printer.error(&error.to_string(), error.hint().as_deref());
            ExitCode::Input
        })
    }
}

/// Returns the path of the recipe that a bundle was rendered from.
fn recipe_of_bundle(bundle: &Path, printer: &mut Printer) -> Result<String, ExitCode> {
    match bundle::recipe_path(bundle) {
        Ok(recipe) => Ok(recipe.display().to_string()),
        Err(error) => {
            printer.error(&error.to_string(), Some(error.hint()));
            Err(ExitCode::Input)
        }
    }
}

async fn run(
    session: &ClusterSession,
    proposed: Option<&ProposedDeployment>,
    assumed: PlanAssumptions,
    output: ListingFormat,
    printer: &mut Printer,
) -> Result<ExitCode, ObserveError> {
    if !session.driver_targets().any(|target| target.settings.driver != Driver::Ofed) {
        cluster::print_notes(session, printer);
        printer.note("There is no GPU Operator yet. A first installation replaces no driver and evicts no pod.");
    }
    let mut rollouts = Vec::new();
    for target in session.driver_targets() {
        match predict(session, target, proposed, assumed, |setups| {
            runs::run_all(setups, simulate, printer)
        })
        .await?
        {
            Some(prediction) => rollouts.push(prediction),
            None => {
                printer.note(&format!(
                    "{}: cannot predict these upgrades: there is no model of the controller that performs them",
                    target.title()
                ));
            }
        }
    }
    let names = || {
        let touched = rollouts
            .iter()
            .flat_map(|rollout| &rollout.plan.nodes)
            .filter(|node| node.step > NodeStep::First);
        let mut names: Vec<String> = touched.map(|node| format!("node/{}\n", node.node)).collect();
        names.sort();
        names.concat()
    };
    let text = |wide: bool| {
        let width = if wide { None } else { terminal::width() };
        rollouts
            .iter()
            .map(|rollout| text::rollout_text(rollout, wide, width))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let code = output.print(&RolloutList { rollouts: &rollouts }, names, text, printer);
    let blocked = rollouts.iter().any(|rollout| !rollout.can_start);
    Ok(if code == ExitCode::Success && blocked { ExitCode::Preflight } else { code })
}
