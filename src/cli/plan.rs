//! `gpu-rollout plan`.

use std::path::{Path, PathBuf};

use clap::Args;
use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use super::cluster::{self, ClusterOptions, ClusterSession};
use super::format::ListingFormat;
use super::proposed::proposed;
use super::range::DurationRange;
use super::recipe::{RecipeSelection, load_recipe};
use super::runs;
use crate::printer::Printer;
use bundle::info::{INFO, RECIPE};
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::settings::Settings;
use contract::task::Task;
use ops::observe::ObserveError;
use ops::plan::{NodeStep, PlanAssumptions, PlanInput, ProposedDeployment, RolloutPlan, plan};
use ops::preflight::{examine, pods};
use planner::preflight::{PreflightFinding, may_begin};
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

/// What is said of one rollout.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PlanEntry {
    /// What it is about, for people.
    title: String,
    #[serde(flatten)]
    plan: RolloutPlan,
    /// Nothing of what was found blocks.
    may_begin: bool,
    /// What the preflight found.
    findings: Vec<PreflightFinding>,
}

#[derive(Serialize, JsonSchema)]
struct PlanDocument<'a> {
    /// The rollouts of the cluster.
    rollouts: &'a [PlanEntry],
}

/// What `-o json` prints.
pub(super) fn schema() -> Schema {
    schema_for!(PlanDocument<'static>)
}

impl PlanArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let proposed = match self.asked_for(printer) {
            Ok(proposed) => proposed,
            Err(code) => return code,
        };
        let Self { driver_time, job_time, runs, seed, output, cluster, .. } = self;
        let assumed = PlanAssumptions { driver: driver_time.map(DurationRange::spread), jobs: job_time.spread(), runs, seed };
        cluster::run_anywhere(&cluster, printer, async |found, printer| {
            Box::pin(run(&found, proposed.as_ref(), assumed, output, printer)).await
        })
    }

    /// What is to be deployed; `None`: nothing new.
    fn asked_for(&self, printer: &mut Printer) -> Result<Option<ProposedDeployment>, ExitCode> {
        let recipe = match (&self.recipe, &self.bundle) {
            (Some(recipe), _) => recipe.clone(),
            (None, Some(bundle)) => of_bundle(bundle, printer)?,
            (None, None) if self.overrides.list.is_empty() => return Ok(None),
            (None, None) => {
                printer.error("--set changes a recipe, and none is named", Some("name one with --recipe or --bundle"));
                return Err(ExitCode::Usage);
            }
        };
        let loaded = load_recipe(&recipe, &self.overrides, printer).ok_or(ExitCode::Input)?;
        let from_recipe = proposed(&loaded.recipe).map_err(|(message, hint)| {
            printer.error(&message, hint.as_deref());
            ExitCode::Input
        })?;
        Ok(Some(from_recipe.proposed))
    }
}

/// The recipe that a bundle is made from.
fn of_bundle(bundle: &Path, printer: &mut Printer) -> Result<String, ExitCode> {
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
    found: &ClusterSession,
    proposed: Option<&ProposedDeployment>,
    assumed: PlanAssumptions,
    output: ListingFormat,
    printer: &mut Printer,
) -> Result<ExitCode, ObserveError> {
    let settling = || found.targets().iter().filter(|target| target.settings.has(Task::Settle));
    if !settling().any(|target| target.settings.driver != Driver::Ofed) {
        for note in found.notes() {
            printer.note(&format!("note: {note}"));
        }
        printer.note("There is no GPU operator yet: a first installation, which replaces no driver and moves no pod.");
    }
    let mut rollouts = Vec::new();
    for target in settling() {
        let snapshot = found.follow(target).await?.observe(|| found.clock().now()).await?;
        let gpu = snapshot.settings.driver == Driver::Gpu;
        let looked = pods(found.client(), &snapshot).await?;
        let proposed = proposed.filter(|_| gpu);
        let input = PlanInput { snapshot: &snapshot, proposed, pods: &looked.pods, gpus: &looked.gpus, assumed };
        let Some(plan) = plan(input, |setups| runs::run_all(setups, simulate, printer)) else {
            printer.note(&format!("{}: these upgrades cannot be predicted: there is no model of who does them", target.title()));
            continue;
        };
        let findings = if let Some(ProposedDeployment { settings, .. }) = proposed {
            // By what will be in force.
            examine(&snapshot, settings, &settings.upgrade.policy, &looked.pods)
        } else {
            let preflight = found.before(&target.settings).cloned().unwrap_or_default();
            examine(&snapshot, &Settings { preflight, ..snapshot.settings.clone() }, &snapshot.policy, &looked.pods)
        };
        rollouts.push(PlanEntry { title: target.title(), may_begin: may_begin(&findings), plan, findings });
    }
    let code = match output {
        ListingFormat::Json => printer.json(&PlanDocument { rollouts: &rollouts }),
        ListingFormat::Yaml => printer.yaml(&PlanDocument { rollouts: &rollouts }),
        ListingFormat::Name => {
            let touched = rollouts.iter().flat_map(|rollout| &rollout.plan.nodes).filter(|node| node.step > NodeStep::First);
            let mut names: Vec<String> = touched.map(|node| format!("node/{}\n", node.node)).collect();
            names.sort();
            printer.data(&names.concat());
            ExitCode::Success
        }
        ListingFormat::Text | ListingFormat::Wide => {
            let width = if output == ListingFormat::Wide { None } else { super::status::width() };
            let texts: Vec<String> =
                rollouts.iter().map(|rollout| text::rollout_text(rollout, output == ListingFormat::Wide, width)).collect();
            printer.data(&texts.join("\n"));
            ExitCode::Success
        }
    };
    let blocked = rollouts.iter().any(|rollout| !rollout.may_begin);
    Ok(if code == ExitCode::Success && blocked { ExitCode::Preflight } else { code })
}
