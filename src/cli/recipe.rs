//! `gpu-rollout recipe`.

use clap::{Subcommand, ValueEnum};

use super::format::OutputFormat;
use crate::printer::Printer;
use contract::exit::ExitCode;
use diagnostics::diagnostic::Diagnostics;
use diagnostics::path::KeyPath;
use recipe::aicr;
use recipe::explain::explain;
use recipe::load::{ValidRecipe, load_with};
use recipe::overrides::ValueOverride;
use recipe::read::AllowedDirectoriesReader;
use recipe::schema;
use release::{EmbeddedCatalog, PlanOptions, plan};

mod list;
mod new;
mod selection;

use new::NewArguments;
use selection::CriteriaArguments;

/// Help of a RECIPE argument; the same in every command.
pub const RECIPE_HELP: &str = "Recipe: a file (`team/gb200.yaml`, `./gb200`), a name from the built-in library (see `gpu-rollout recipe list`), or `-` for standard input";
/// Help of the `--set` argument; the same in every command.
pub const SET_HELP: &str = "Set one value, overriding the recipe; repeatable";
/// The long form of [`SET_HELP`].
pub const SET_LONG_HELP: &str = "Set one value, overriding the recipe; repeatable.

PATH consists of keys from the top of the recipe, separated by dots. Components are identified by name. Write a dot inside a key as `\\.`. VALUE is YAML. Where a string is required (a version, or a key whose default in the chart is a string), VALUE is used exactly as typed. `PATH=null` deletes the key. A list is replaced as a whole.

  --set cluster.gpuNodes=64
  --set rollout.gpuDriver.version=580.10
  --set components.gpu-operator.values.dcgm.enabled=true
  --set 'components.gpu-operator.values.daemonsets.labels.team\\.example/name=ml'";

/// Arguments of `gpu-rollout recipe`.
#[derive(Debug, clap::Args)]
pub struct RecipeArguments {
    #[command(subcommand)]
    command: RecipeCommand,
}

#[derive(Debug, Subcommand)]
enum RecipeCommand {
    /// Check recipes and report errors and warnings
    ///
    /// Use it after each change to a recipe, and in CI. Each finding has a file and, where possible, a
    /// line, a column and a hint. The command exits with 1 if a recipe has an error or, with --strict,
    /// a warning.
    #[command(
        after_long_help = "Examples:\n  gpu-rollout recipe check team/*.yaml\n  gpu-rollout recipe check eks-gb200-training --set cluster.gpuNodes=64"
    )]
    Check {
        /// A file, a name from the built-in library, or `-`.
        #[arg(value_name = "RECIPE", required = true, help = RECIPE_HELP)]
        recipes: Vec<String>,
        #[command(flatten)]
        overrides: RecipeSelection,
        /// Treat warnings as errors
        #[arg(long)]
        strict: bool,
    },
    /// Print a recipe merged with those that it extends, with defaults
    ///
    /// Use it to see the values that `bundle render` uses, or to start your own recipe.
    #[command(
        after_long_help = "Examples:\n  gpu-rollout recipe show eks-gb200-training\n  gpu-rollout recipe show base > mine.yaml     # start your own recipe\n  gpu-rollout recipe show mine.yaml -o json"
    )]
    Show {
        /// A file, a name from the built-in library, or `-`.
        #[arg(value_name = "RECIPE", help = RECIPE_HELP)]
        recipe: String,
        #[command(flatten)]
        overrides: RecipeSelection,
        /// Output format
        #[arg(short, long, value_enum, default_value_t = RecipeFormat::Yaml)]
        output: RecipeFormat,
    },
    /// Show which recipe sets a value, with file and line
    ///
    /// Use it when a value is not what you expect. It lists each recipe that sets the value, and
    /// marks the one that takes effect.
    #[command(
        after_long_help = "Examples:\n  gpu-rollout recipe explain eks-gb200-training rollout.gpuDriver.policy\n  gpu-rollout recipe explain mine.yaml components.gpu-operator.values.driver"
    )]
    Explain {
        /// A file, a name from the built-in library, or `-`.
        #[arg(value_name = "RECIPE", help = RECIPE_HELP)]
        recipe: String,
        /// Keys from the top of the recipe, separated by dots; components by name; `\.` for a dot
        /// inside a key
        #[arg(value_name = "PATH")]
        path: KeyPath,
        #[command(flatten)]
        overrides: RecipeSelection,
    },
    /// Create a recipe that extends one from the program's library
    ///
    /// Use it to start your own recipe. The criteria (--service, --accelerator, --intent, --os) must
    /// select exactly one recipe of the library. The new file has comments, and passes `recipe check`,
    /// except if --gpu-nodes is so large that the limits of the recipe must be raised first. An
    /// existing file is never overwritten.
    #[command(
        after_long_help = "Examples:\n  gpu-rollout recipe new mine.yaml --gpu-nodes 16 --accelerator gb200 --intent training\n  gpu-rollout recipe new mine.yaml --gpu-nodes 16 --extends base"
    )]
    New(NewArguments),
    /// List the recipes in the program's library
    ///
    /// Use it to find a recipe that your own recipe can extend. With criteria, it lists the recipes
    /// that match all of them. If none does, it names the nearest ones and exits with 1.
    #[command(
        after_long_help = "Examples:\n  gpu-rollout recipe list\n  gpu-rollout recipe list --service eks --accelerator gb200 --intent training --os ubuntu"
    )]
    List {
        #[command(flatten)]
        criteria: CriteriaArguments,
        /// Output format
        #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
        output: OutputFormat,
    },
    /// Print the JSON schema of recipes
    ///
    /// Use it for completion and checks in editors that run the YAML language server.
    #[command(
        after_long_help = "Example:\n  gpu-rollout recipe schema > recipe.schema.json\n  # first line of your recipe: # yaml-language-server: $schema=recipe.schema.json"
    )]
    Schema,
}

/// The options of every command that takes a recipe.
#[derive(Debug, Default, clap::Args)]
pub struct RecipeSelection {
    /// `PATH=VALUE`.
    #[arg(long = "set", value_name = "PATH=VALUE", help = SET_HELP, long_help = SET_LONG_HELP)]
    pub list: Vec<ValueOverride>,
    /// Directory with files that `extends` may name, in addition to the recipe's own directory;
    /// repeatable
    #[arg(long, value_name = "DIR")]
    allow_extends: Vec<String>,
    #[command(flatten)]
    aicr: AicrArguments,
}

/// The heading of [`AicrArguments`] in help.
const AICR_HEADING: &str = "Only for recipes from NVIDIA AICR (kind RecipeResult)";

/// Options for recipes of NVIDIA AICR.
#[derive(Debug, Default, clap::Args)]
struct AicrArguments {
    /// AICR's data directory; its subdirectory `components/` contains the values files that the
    /// recipe names
    #[arg(long, value_name = "DIR", help_heading = AICR_HEADING)]
    data: Option<String>,
    /// If no chart reads a key, use the key that has the intended effect instead, if there is one
    /// [default: leave such keys out, with a warning]
    #[arg(long, help_heading = AICR_HEADING)]
    fix_dead_keys: bool,
    /// Leave out manifest files, with a warning for each [default: each becomes a chart in the bundle]
    #[arg(long, help_heading = AICR_HEADING)]
    without_manifests: bool,
}

impl RecipeSelection {
    /// Loads a recipe with these options.
    ///
    /// # Errors
    /// As for [`load_with`].
    pub fn load(&self, recipe: &str) -> Result<ValidRecipe, Diagnostics> {
        let AicrArguments { data, fix_dead_keys, without_manifests } = &self.aicr;
        let options = aicr::AicrOptions {
            data: data.clone(),
            fix_dead_keys: *fix_dead_keys,
            without_manifests: *without_manifests,
        };
        let mut reader = AllowedDirectoriesReader { allowed: self.allow_extends.clone() };
        load_with(recipe, &self.list, &options, &mut reader)
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RecipeFormat {
    Yaml,
    Json,
}

impl RecipeArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        match self.command {
            RecipeCommand::Check { recipes, overrides, strict } => {
                check(&recipes, &overrides, strict, printer)
            }
            RecipeCommand::Show { recipe, overrides, output } => {
                show(&recipe, &overrides, output, printer)
            }
            RecipeCommand::Explain { recipe, path, overrides } => {
                explain_path(&recipe, &path, &overrides, printer)
            }
            RecipeCommand::New(arguments) => new::create(arguments, printer),
            RecipeCommand::List { criteria, output } => list::list(criteria, output, printer),
            RecipeCommand::Schema => {
                printer.data(&schema::text());
                ExitCode::Success
            }
        }
    }
}

/// Loads a recipe and prints its findings to standard error. Returns `None` after an error.
pub fn load_recipe(
    recipe: &str,
    overrides: &RecipeSelection,
    printer: &mut Printer,
) -> Option<ValidRecipe> {
    match overrides.load(recipe) {
        Ok(loaded) => {
            printer.findings(&loaded.warnings);
            Some(loaded)
        }
        Err(findings) => {
            printer.findings(&findings);
            printer.error(
                &format!("the recipe `{recipe}` cannot be used: {}", findings.summary()),
                None,
            );
            None
        }
    }
}

fn check(
    recipes: &[String],
    overrides: &RecipeSelection,
    strict: bool,
    printer: &mut Printer,
) -> ExitCode {
    let mut code = ExitCode::Success;
    for recipe in recipes {
        let Some(loaded) = load_recipe(recipe, overrides, printer) else {
            code = ExitCode::Input;
            continue;
        };
        if let Err(error) = plan(&loaded.recipe, &EmbeddedCatalog, &PlanOptions::default()) {
            printer.error(&format!("{recipe}: {error}"), error.hint().as_deref());
            code = ExitCode::Input;
        } else if loaded.warnings.is_empty() {
            let components = loaded.recipe.components.iter();
            let names: Vec<&str> = components.map(|component| component.name.as_str()).collect();
            printer.note(&format!("ok: {recipe} ({})", names.join(", ")));
        } else if strict {
            let text = format!("the recipe `{recipe}` has {}", loaded.warnings.summary());
            printer.error(&text, None);
            code = ExitCode::Input;
        } else {
            printer.note(&format!("ok: {recipe}, {}", loaded.warnings.summary()));
        }
    }
    code
}

fn show(
    recipe: &str,
    overrides: &RecipeSelection,
    format: RecipeFormat,
    printer: &mut Printer,
) -> ExitCode {
    let Some(loaded) = load_recipe(recipe, overrides, printer) else { return ExitCode::Input };
    match format {
        RecipeFormat::Yaml => printer.yaml(&loaded.recipe),
        RecipeFormat::Json => printer.json(&loaded.recipe),
    }
}

fn explain_path(
    recipe: &str,
    path: &KeyPath,
    overrides: &RecipeSelection,
    printer: &mut Printer,
) -> ExitCode {
    let Some(loaded) = load_recipe(recipe, overrides, printer) else { return ExitCode::Input };
    match explain(&loaded, path) {
        Ok(text) => {
            printer.data(&text);
            ExitCode::Success
        }
        Err(error) => {
            printer.error(&error.to_string(), error.hint.as_deref());
            ExitCode::Input
        }
    }
}
