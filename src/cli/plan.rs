//! `gpu-rollout plan`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::cluster::{self, ClusterOptions};
use super::format::{ListingFormat, RolloutList};
use super::range::DurationRange;
use super::recipe::{RecipeSelection, load_recipe};
use super::{runs, terminal};
use crate::printer::Printer;
use bundle::info::{INFO, RECIPE};
use contract::driver::Driver;
use contract::exit::ExitCode;
use ops::observe::ObserveError;
use ops::plan::{NodeStep, PlanAssumptions, ProposedDeployment, predict};
use ops::session::ClusterSession;
use simulator::simulate;

mod text;

const EXAMPLES: &str = "Examples:
  gpu-rollout plan                       # what is still to be done, as it is deployed
  gpu-rollout plan -r mine.yaml          # what this recipe's bundle would do
  gpu-rollout plan --bundle ./bundle -o wide
  gpu-rollout plan -r mine.yaml --set rollout.gpuDriver.policy.maxUnavailable=10%
  gpu-rollout plan -r mine.yaml -o json | jq '.rollouts[].pods[] | select(.lost)'

Times are those of the driver pods that run now, unless --driver-time says otherwise. Jobs that are waited for are taken to run on for --job-time.";

/// Arguments of `gpu-rollout plan`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArguments {
    /// The recipe that is to be deployed: a file, a name of the library, or `-` [default: what is deployed]
    #[arg(short = 'r', long = "recipe", value_name = "RECIPE")]
    recipe: Option<String>,
    /// The bundle that is to be deployed
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "recipe")]
    bundle: Option<PathBuf>,
    #[command(flatten)]
    overrides: RecipeSelection,
    /// How long a driver takes from its pod's creation to its readiness [default: as it took the pods that run now]
    #[arg(long, value_name = "LEAST..MOST")]
    driver_time: Option<DurationRange>,
    /// How long jobs that are waited for still run
    #[arg(long, value_name = "LEAST..MOST", default_value = "0s..1h")]
    job_time: DurationRange,
    /// How many runs are drawn, beside the quickest one and the slowest one
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    runs: u64,
    /// Where the random numbers come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The format
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

    /// What is to be deployed; `None`: nothing new.
    fn proposed(&self, printer: &mut Printer) -> Result<Option<ProposedDeployment>, ExitCode> {
        let recipe = match (&self.recipe, &self.bundle) {
            (Some(recipe), _) => recipe.clone(),
            (None, Some(bundle)) => recipe_of_bundle(bundle, printer)?,
            (None, None) if self.overrides.list.is_empty() => return Ok(None),
            (None, None) => {
                printer.error(
                    "--set changes a recipe, and none is named",
                    Some("name one with --recipe or --bundle"),
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

/// The recipe that a bundle is made from.
fn recipe_of_bundle(bundle: &Path, printer: &mut Printer) -> Result<String, ExitCode> {
    let recipe = bundle.join(RECIPE);
    if bundle.join(INFO).is_file() && recipe.is_file() {
        return Ok(recipe.display().to_string());
    }
    printer.error(
        &format!("{}: no bundle: it has no {INFO} and {RECIPE}", bundle.display()),
        Some("name the directory that `gpu-rollout bundle render` has written"),
    );
    Err(ExitCode::Input)
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
        printer.note("There is no GPU operator yet: a first installation, which replaces no driver and moves no pod.");
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
                    "{}: these upgrades cannot be predicted: there is no model of who does them",
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
    let blocked = rollouts.iter().any(|rollout| !rollout.may_begin);
    Ok(if code == ExitCode::Success && blocked { ExitCode::Preflight } else { code })
}
