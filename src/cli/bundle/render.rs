//! `gpu-rollout bundle render`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::bundle::{Parts, Written, build, write};
use crate::catalog::hook_chart;
use crate::cli::printer::Printer;
use crate::cli::recipe::{Overrides, RECIPE_HELP, load_recipe};
use crate::contract::duration::Duration;
use crate::contract::exit::ExitCode;
use crate::deployer::source::SourceError;
use crate::deployer::{self, Deployer, RenderError, Source};
use crate::recipe::load::Loaded;
use crate::release::image::Image;
use crate::release::model::Kind;
use crate::release::{Embedded, Options, Plan, plan, sources};

/// Arguments of `gpu-rollout bundle render`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The recipe: a file, a name of the library, or `-`
    #[arg(short, long, value_name = "FILE|NAME|-", help = RECIPE_HELP)]
    recipe: String,
    /// What deploys the bundle
    #[arg(short, long, value_parser = PossibleValuesParser::new(deployer::names()).try_map(|name| name.parse::<Deployer>()))]
    deployer: Deployer,
    /// The bundle's directory: replaced as a whole, if it holds an unedited bundle
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// Take the charts of a repository of the catalog from elsewhere: https://, http://, oci:// or the absolute path of a directory of
    /// packed charts; may be repeated
    #[arg(long = "chart-repository", value_name = "NAME=URL")]
    chart_repositories: Vec<sources::Override>,
    /// Take the hook's image from elsewhere
    #[arg(long, value_name = "REPOSITORY[:TAG|@DIGEST]")]
    hook_image: Option<Image>,
    #[command(flatten)]
    repository: Repository,
    /// Replace a bundle although it was edited after it was rendered; the edits are lost
    #[arg(long)]
    force: bool,
}

/// Where the cluster reads the bundle from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Repository (deployers that run in the cluster)")]
struct Repository {
    /// The repository that will hold the bundle: https://, ssh://, http://, file:///, or oci:// (flux)
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// Branch, tag or commit; for OCI a tag or digest
    #[arg(long, value_name = "REVISION", default_value = "main")]
    revision: String,
    /// The bundle's directory in the repository
    #[arg(long, value_name = "DIR", default_value = "")]
    path: String,
}

impl Repository {
    fn source(&self) -> Result<Option<Source>, SourceError> {
        self.repo.as_ref().map(|url| Source::new(url, &self.revision, &self.path)).transpose()
    }
}

impl Arguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { recipe, deployer, output, overrides, chart_repositories, hook_image, repository, force } = self;
        let source = match repository.source() {
            Ok(source) => source,
            Err(error) => {
                printer.error(&format!("`--repo`, `--revision`, `--path`: {error}"), None);
                return ExitCode::Usage;
            }
        };
        let mut addresses = BTreeMap::new();
        for sources::Override { name, url } in chart_repositories {
            if addresses.insert(name.clone(), url).is_some() {
                printer.error(&format!("`--chart-repository {name}=…` is given twice"), None);
                return ExitCode::Usage;
            }
        }
        let options = Options { chart_repositories: addresses, hook_image };
        let Some(Loaded { recipe, .. }) = load_recipe(&recipe, &overrides.list, printer) else { return ExitCode::Input };
        let plan = match plan(&recipe, &Embedded, &options) {
            Ok(plan) => plan,
            Err(error) => {
                printer.error(&error.to_string(), error.hint().as_deref());
                return ExitCode::Input;
            }
        };
        let parts =
            Parts { recipe: &recipe, plan: &plan, options: &options, deployer, hook_chart: hook_chart::FILES, source: source.as_ref() };
        let tree = match build(parts) {
            Ok(tree) => tree,
            Err(error @ RenderError::NoSource(_)) => {
                printer.error(&error.to_string(), Some("add --repo URL, and --revision and --path unless `main` and its root are right"));
                return ExitCode::Usage;
            }
            Err(error @ RenderError::Unable { hint, .. }) => {
                printer.error(&error.to_string(), Some(hint));
                return ExitCode::Usage;
            }
            Err(error) => {
                printer.error(&error.to_string(), Some("this is a mistake of gpu-rollout, not of the recipe; please report it"));
                return ExitCode::Internal;
            }
        };
        match write(&tree, &output, force) {
            Ok(written) => {
                summary(&plan, &written, deployer, source.as_ref(), &output, printer);
                ExitCode::Success
            }
            Err(error) => {
                printer.error(&error.to_string(), error.hint());
                ExitCode::Input
            }
        }
    }
}

/// Says what there is now and what to do with it.
fn summary(plan: &Plan, written: &Written, deployer: Deployer, source: Option<&Source>, output: &std::path::Path, printer: &mut Printer) {
    let releases: Vec<String> = plan.releases.iter().map(|release| release.name.clone()).collect();
    let width = releases.iter().map(String::len).max().unwrap_or_default();
    printer.note(&format!("{} `{}`: {} releases", if written.replaced { "replaced" } else { "wrote" }, output.display(), releases.len()));
    for (index, release) in plan.releases.iter().enumerate() {
        let what = match &release.kind {
            Kind::Upstream(upstream) => format!("{} {}", upstream.chart.place(), upstream.version),
            Kind::Crds(crds) => format!("{} CRDs", crds.crds.len()),
            Kind::Manifests(manifests) => manifests.description.clone(),
            Kind::Hook(hook) => {
                let timeout = Duration::from_secs(release.timeout_seconds);
                format!("waits at most {}; Helm's timeout: {timeout}", hook.budget.explanation)
            }
        };
        printer.note(&format!("  {:>2}  {:width$}  {what}", index + 1, release.name));
    }
    for note in &plan.notes {
        printer.note(&format!("note: {note}"));
    }
    if let Some(left_over) = &written.left_over {
        printer.note(&format!("note: the old bundle could not be removed: `{}`", left_over.display()));
    }
    printer.note("next:");
    printer.note(&format!("  gpu-rollout bundle verify {}", shell_path(output)));
    for line in (deployer.next)(&shell_path(output), source) {
        printer.note(&format!("  {line}"));
    }
}

fn shell_path(path: &std::path::Path) -> String {
    let text = path.to_string_lossy();
    let text = text.trim_end_matches('/');
    // Without a slash a shell would look for the script in its search path.
    deployer::template::shell_word(text)
}
