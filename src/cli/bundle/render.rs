//! `gpu-rollout bundle render`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;

use crate::cli::parallel;
use crate::cli::recipe::RecipeSelection;
use crate::printer::Printer;
use bundle::render::{LoadedRecipe, RenderOptions, RenderOutcome, refuse_twins, render};
use contract::exit::ExitCode;
use contract::grammar;
use deployer::source::{BundleSourceError, BundleSourcePart};
use deployer::verification::{SignerIdentity, SourceVerification};
use deployer::{self, BundleSource, DEPLOYERS, Deployer, SourceNeed};
use diagnostics::diagnostic::Diagnostics;
use release::hook_image::HookImage;
use release::mirror::RegistryMirror;
use release::{PlanOptions, sources};

mod json;
mod nodes;
mod recipes;
mod text;

/// The value of `--deployer` that means all deployers.
const ALL: &str = "all";

const RECIPES_HELP: &str = "Recipe: a file (`team/gb200.yaml`), a name from the built-in library (see `gpu-rollout recipe list`), a directory of recipes, or `-` for standard input; repeatable";

const EXAMPLES: &str = "Render one bundle into DIR:
  gpu-rollout bundle render -r eks-gb200-training -d helm -o bundle

Render many bundles, each into DIR/<recipe's name>/<deployer>. If a recipe fails, the others are
rendered anyway.
  gpu-rollout bundle render -r base -r kind-dev -d helmfile -o bundles
  gpu-rollout bundle render -r fleet/ -d all -o bundles \\
    --repo https://git.example.com/fleet.git --path bundles

A directory means its *.yaml and *.yml files, without subdirectories. Recipes that exist only so that others extend them belong in a subdirectory.

Run operators on their own nodes, and tolerate a taint of the GPU nodes:
  gpu-rollout bundle render -r base -d helm -o bundle --system-node-selector pool=system \\
    --accelerated-node-toleration dedicated=gpu:NoSchedule

List the recipes that failed, for a script:
  gpu-rollout bundle render -r fleet/ -d helm -o bundles --format json | jq -r '.[] | select(.error) | .file'";

/// Arguments of `gpu-rollout bundle render`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RenderArguments {
    /// Recipes
    #[arg(short = 'r', long = "recipe", required = true, value_name = "FILE|NAME|DIR|-", help = RECIPES_HELP)]
    recipes: Vec<String>,
    /// Deployer of the bundle, or `all` for every deployer; repeatable
    #[arg(short = 'd', long = "deployer", required = true, value_name = "DEPLOYER", value_parser = PossibleValuesParser::new(choices()))]
    deployers: Vec<String>,
    /// Directory of the bundle. With several recipes, several deployers, a directory of recipes or
    /// `-d all`, it is the parent directory of the bundles. An existing bundle is replaced as a
    /// whole, and an edited one only with --force
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    overrides: RecipeSelection,
    /// Use this address for the chart repository NAME of the catalog, such as `nvidia`: https://,
    /// http://, oci://, file:///, or the absolute path of a directory of packaged charts [default:
    /// the catalog's address]; repeatable
    #[arg(long = "chart-repository", value_name = "NAME=URL")]
    chart_repositories: Vec<sources::RepositoryOverride>,
    /// Image of the hook [default: the image in the hook chart]
    #[arg(long, value_name = "REPOSITORY[:TAG|@DIGEST]")]
    hook_image: Option<HookImage>,
    /// Pull images from the registry TO. FROM limits this to images whose name starts with it;
    /// repeatable; the longest matching FROM applies. The image of --hook-image stays as it is
    #[arg(long = "registry-mirror", value_name = "[FROM=]TO")]
    registry_mirrors: Vec<RegistryMirror>,
    /// Name of an image pull Secret, which must exist in the namespace of each release; repeatable
    #[arg(long = "image-pull-secret", value_name = "NAME", value_parser = grammar::secret_name)]
    pull_secrets: Vec<String>,
    /// Replace a bundle even if it was edited; the edits are lost
    #[arg(long)]
    force: bool,
    /// Format of the summary: `text` for people, on standard error; `json` for programs, on
    /// standard output
    #[arg(long, value_enum, default_value_t = RenderFormat::Text, hide_possible_values = true, value_name = "text|json")]
    format: RenderFormat,
    #[command(flatten)]
    nodes: nodes::NodeSchedulingOptions,
    #[command(flatten)]
    repository: BundleRepository,
}

/// The repository from which the cluster reads the bundle.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Repository (deployers that run in the cluster)")]
struct BundleRepository {
    /// Address of the repository that will contain the bundle: https://, ssh:// or http://; with
    /// `flux` and `argocd` also oci://; with `argocd` and `argocd-helm` also file:///
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// Branch, tag or commit of the repository; for OCI a tag, with Flux also a digest. With Flux, 40
    /// hexadecimal digits mean a commit, a name like v1.2.3 means a tag, and any other name a branch;
    /// to say which one a name is, write refs/tags/NAME or refs/heads/NAME. HEAD and shortened
    /// commits are refused
    #[arg(long, value_name = "REVISION", default_value = "main")]
    revision: String,
    /// Path of the --output directory in the repository; `.` or nothing means the root
    #[arg(long, value_name = "DIR", default_value = "")]
    path: String,
    /// Make Flux refuse the bundle and its own charts without a cosign signature by a public key in
    /// this Secret, which must exist in Flux's namespace; the names of its keys end with `.pub`.
    /// Only with Flux and oci://
    #[arg(long, value_name = "NAME", value_parser = grammar::secret_name, requires = "repo", conflicts_with = "identities")]
    verify_secret: Option<String>,
    /// Like --verify-secret, for cosign signatures without a key: ISSUER is the address of an OIDC
    /// issuer, and SUBJECT the signer, in which `*` means any text; repeatable: one of them must
    /// sign
    #[arg(long = "verify-identity", value_name = "ISSUER=SUBJECT", requires = "repo")]
    identities: Vec<SignerIdentity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RenderFormat {
    Text,
    Json,
}

impl RenderFormat {
    /// Draws the findings of a recipe, if there are any.
    fn draw(self, findings: &Diagnostics) -> Option<String> {
        (!findings.is_empty()).then(|| match self {
            Self::Text => findings.render(),
            Self::Json => findings.render_plain(),
        })
    }
}

/// A request to render, with all checks that need no recipe.
struct RenderRequest {
    recipes: Vec<String>,
    overrides: RecipeSelection,
    options: RenderOptions,
}

/// An error in the command line.
struct RenderUsageError {
    message: String,
    hint: Option<Cow<'static, str>>,
    code: ExitCode,
}

impl RenderUsageError {
    fn usage(message: String, hint: Option<&'static str>) -> Self {
        Self { message, hint: hint.map(Cow::Borrowed), code: ExitCode::Usage }
    }
}

/// Returns the possible values of `--deployer`.
fn choices() -> Vec<&'static str> {
    deployer::names().into_iter().chain([ALL]).collect()
}

impl RenderArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let format = self.format;
        let RenderRequest { recipes, overrides, options } = match self.request() {
            Ok(request) => request,
            Err(RenderUsageError { message, hint, code }) => {
                printer.error(&message, hint.as_deref());
                return code;
            }
        };
        let mut loaded =
            parallel::map(&recipes, |file| LoadedRecipe::new(file, overrides.load(file)));
        if options.is_many {
            refuse_twins(&mut loaded);
        }
        let work = || parallel::map(&loaded, |loaded| render(loaded, &options));
        let findings = || loaded.iter().map(|loaded| format.draw(loaded.findings())).collect();
        // Drawing a few dozen findings costs a quarter of the instructions of one bundle.
        let (outcomes, findings): (Vec<RenderOutcome>, Vec<Option<String>>) =
            if loaded.iter().all(|loaded| loaded.findings().is_empty()) {
                (work(), findings())
            } else {
                parallel::both(work, findings)
            };
        let mut written = ExitCode::Success;
        match format {
            RenderFormat::Json => written = json::print(&outcomes, &findings, printer),
            RenderFormat::Text if options.is_many => {
                text::print_many(&outcomes, &findings, printer);
            }
            RenderFormat::Text => {
                text::print_single(&outcomes, &findings, options.source.as_ref(), printer);
            }
        }
        let codes: Vec<ExitCode> =
            outcomes.iter().flat_map(RenderOutcome::failures).map(|failure| failure.code).collect();
        match codes.first() {
            None => written,
            Some(_) if codes.contains(&ExitCode::Internal) => ExitCode::Internal,
            Some(_) if options.is_many => ExitCode::Input,
            Some(code) => *code,
        }
    }

    fn request(self) -> Result<RenderRequest, RenderUsageError> {
        let Self {
            recipes,
            deployers,
            output,
            overrides,
            chart_repositories,
            hook_image,
            registry_mirrors,
            pull_secrets,
            nodes,
            repository,
            force,
            format: _,
        } = self;
        let mut addresses = BTreeMap::new();
        for sources::RepositoryOverride { name, url } in chart_repositories {
            if addresses.insert(name.clone(), url).is_some() {
                return Err(RenderUsageError::usage(
                    format!("`--chart-repository {name}=…` is given twice"),
                    None,
                ));
            }
        }
        let is_all = deployers.iter().any(|name| name == ALL);
        let is_many = is_all
            || deployers.len() > 1
            || recipes.len() > 1
            || recipes.iter().any(|recipe| recipes::is_directory(recipe));
        let deployers: Vec<Deployer> = DEPLOYERS
            .iter()
            .copied()
            .filter(|deployer| is_all || deployers.iter().any(|name| name == deployer.name))
            .collect();
        let source = repository.source(&deployers)?;
        let node_scheduling = nodes.scheduling()?;
        let recipes = recipes::list(&recipes)?;
        if is_many && output.join(bundle::info::INFO).exists() {
            return Err(RenderUsageError {
                message: format!(
                    "cannot write bundles into `{}`: it is a bundle itself",
                    output.display()
                ),
                hint: Some(Cow::Borrowed("pass the parent directory of the bundles to --output")),
                code: ExitCode::Input,
            });
        }
        let plan = PlanOptions {
            chart_repositories: addresses,
            hook_image,
            registry_mirrors,
            pull_secrets,
            node_scheduling,
        };
        Ok(RenderRequest {
            recipes,
            overrides,
            options: RenderOptions { deployers, output, is_many, plan, source, force },
        })
    }
}

impl BundleRepository {
    /// Returns the source for `deployers`, if one of them reads the bundle from a repository that
    /// its files name.
    fn source(self, deployers: &[Deployer]) -> Result<Option<BundleSource>, RenderUsageError> {
        let Self { repo, revision, path, verify_secret, identities } = self;
        let Some(url) = repo else {
            let needy: Vec<&str> = deployers
                .iter()
                .filter(|deployer| deployer.source == SourceNeed::Rendered)
                .map(|deployer| deployer.name)
                .collect();
            let message = match needy.as_slice() {
                [] => return Ok(None),
                [name] => deployer::RenderError::NoSource(name).to_string(),
                names => {
                    format!(
                        "deployers `{}` read the bundle from a repository, and their files must name it",
                        names.join("`, `")
                    )
                }
            };
            return Err(RenderUsageError::usage(
                message,
                Some(
                    "add --repo URL; also --revision unless it is `main`, and --path unless it is the root",
                ),
            ));
        };
        let (flag, verification) = match verify_secret {
            Some(secret) => ("--verify-secret", Some(SourceVerification::Secret(secret))),
            None if identities.is_empty() => ("", None),
            None => ("--verify-identity", Some(SourceVerification::Identities(identities))),
        };
        let wrong = |error: BundleSourceError| {
            let flag = match error.part() {
                BundleSourcePart::Url => "--repo",
                BundleSourcePart::Revision => "--revision",
                BundleSourcePart::Path => "--path",
                BundleSourcePart::Verification => flag,
            };
            RenderUsageError {
                message: format!("`{flag}`: {error}"),
                hint: error.hint().map(Cow::Owned),
                code: ExitCode::Usage,
            }
        };
        let source = BundleSource::new(&url, &revision, &path).map_err(wrong)?;
        let Some(signers) = verification else { return Ok(Some(source)) };
        if let Some(other) = deployers.iter().find(|deployer| !deployer.verifies_signatures) {
            return Err(RenderUsageError::usage(
                format!("`{flag}`: deployer `{other}` does not verify signatures"),
                Some(
                    "render with `-d flux` alone; for other deployers, sign `checksums.txt` and run `gpu-rollout bundle verify --key`",
                ),
            ));
        }
        source.verified_by(signers).map(Some).map_err(wrong)
    }
}
