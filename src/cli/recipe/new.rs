//! `gpu-rollout recipe new`.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::RecipeSelection;
use super::selection::CriteriaArguments;
use crate::printer::Printer;
use contract::exit::ExitCode;
use contract::grammar::grammar;
use deployer::shell_word;
use recipe::load::file_argument;
use recipe::model::{API_VERSION, KIND, Recipe};
use recipe::rules::cluster::MOST_NODES;

/// Arguments of `gpu-rollout recipe new`.
#[derive(Debug, clap::Args)]
pub(super) struct NewArguments {
    /// The file to create; its name without `.yaml` becomes the recipe's name
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The largest number of GPU nodes that you expect, from 1 to 20000
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_NODES)))]
    gpu_nodes: u32,
    /// The recipe of the library to extend, instead of selecting one by criteria
    #[arg(long, value_name = "NAME", conflicts_with_all = ["service", "accelerator", "intent", "os"])]
    extends: Option<String>,
    #[command(flatten)]
    criteria: CriteriaArguments,
}

/// Writes a new recipe.
pub(super) fn create(arguments: NewArguments, printer: &mut Printer) -> ExitCode {
    let NewArguments { file, gpu_nodes, extends, criteria } = arguments;
    let Some(name) = name_of(&file, printer) else { return ExitCode::Usage };
    let Some(parent) = parent(extends, criteria, printer) else { return ExitCode::Input };
    let Some(loaded) = super::load_recipe(&parent, &RecipeSelection::default(), printer) else {
        return ExitCode::Internal;
    };
    // Without its directory: the file's comments remain true if the directory is moved.
    let own = argument(Path::new(file.file_name().unwrap_or_default()));
    let text = match text(&name, &own, gpu_nodes, &parent, &loaded.recipe) {
        Ok(text) => text,
        Err(error) => {
            printer.error(&format!("cannot write `{parent}` as YAML: {error}"), None);
            return ExitCode::Internal;
        }
    };
    let written = File::create_new(&file).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => {
            printer.note(&format!(
                "created {}, which extends `{parent}`; next: gpu-rollout recipe check {}",
                file.display(),
                argument(&file)
            ));
            ExitCode::Success
        }
        Err(error) => {
            let hint = (error.kind() == ErrorKind::AlreadyExists)
                .then_some("choose another name, or move the file away: no file is overwritten");
            printer.error(&format!("cannot create `{}`: {error}", file.display()), hint);
            ExitCode::Input
        }
    }
}

/// Returns the argument of a command, for a shell, that names the file.
fn argument(file: &Path) -> String {
    let argument = file_argument(&file.to_string_lossy());
    shell_word(&argument).unwrap_or_else(|| format!("{argument:?}"))
}

/// Returns the recipe's name: that of the file.
fn name_of(file: &Path, printer: &mut Printer) -> Option<String> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let rule = grammar("recipeName")?;
    if (rule.fits)(stem) {
        return Some(stem.to_owned());
    }
    printer.error(&format!("`{}`: its name {}", file.display(), rule.what), Some(rule.hint));
    None
}

/// Returns the only recipe that has the criteria, or the one that the user names.
fn parent(
    extends: Option<String>,
    criteria: CriteriaArguments,
    printer: &mut Printer,
) -> Option<String> {
    let recipes = criteria.recipes(printer)?;
    let names = || recipes.iter().map(|recipe| recipe.name.as_str());
    if let Some(name) = extends {
        if names().any(|known| known == name) {
            return Some(name);
        }
        let hint = diagnostics::nearest::did_you_mean(&name, names())
            .unwrap_or_else(|| "`gpu-rollout recipe list` shows the library".to_owned());
        printer.error(&format!("the library has no recipe `{name}`"), Some(&hint));
        return None;
    }
    if let [only] = &recipes[..] {
        return Some(only.name.clone());
    }
    let hint = format!(
        "add criteria, or name one with --extends: {}",
        names().collect::<Vec<_>>().join(", ")
    );
    printer.error(&format!("{} recipes of the library fit", recipes.len()), Some(&hint));
    None
}

/// Returns the text of the new recipe, from its name and the argument that names its file. What it
/// inherits follows as a comment, to change it.
fn text(
    name: &str,
    file: &str,
    gpu_nodes: u32,
    parent: &str,
    inherited: &Recipe,
) -> Result<String, serde_json::Error> {
    let description = inherited.metadata.description.as_deref().unwrap_or_default();
    let components = inherited
        .components
        .iter()
        .map(|component| json!({"name": component.name, "version": component.version}));
    let inherited = yaml::to_string(&json!({
        "rollout": inherited.rollout,
        "components": components.collect::<Vec<Value>>(),
    }))?;
    let inherited: String = inherited.lines().flat_map(|line| ["#", line, "\n"]).collect();
    let description = yaml::quoted(description);
    Ok(format!(
        "\
# A recipe for gpu-rollout. To check it: gpu-rollout recipe check {file}
# To see it with everything that it extends: gpu-rollout recipe show {file}
apiVersion: {API_VERSION}
kind: {KIND}
metadata:
  name: {name}
  description: {description}
# A recipe of the library. The keys of this file override it.
extends: [{parent}]
cluster:
  # The largest number of GPU nodes that you expect. Time budgets are computed from it.
  gpuNodes: {gpu_nodes}

# The rollout policy and the versions of `{parent}`.
# To change a value, remove the `#` of its line and of the keys above it. Leave the other lines as
# they are: they follow the library.
{inherited}"
    ))
}
