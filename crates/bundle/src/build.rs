//! Builds the tree of a bundle: the deployer's files, and the files that every bundle has.

use super::BundleTree;
use super::info::{self, RECIPE, RecipeInfo};
use contract::digest::sha256;
use contract::file_content::FileContent;
use deployer::{self, BundleFile, BundleSource, Deployer, DeployerInput, RenderError};
use recipe::model::Recipe;
use release::{PlanOptions, ReleasePlan};

/// The input for a bundle.
#[derive(Clone, Copy, Debug)]
pub struct BundleInput<'a> {
    /// The recipe, with everything that it extends.
    pub recipe: &'a Recipe,
    /// The recipe's plan.
    pub plan: &'a ReleasePlan,
    /// The options of the plan.
    pub options: &'a PlanOptions,
    /// The deployer.
    pub deployer: Deployer,
    /// The hook chart: path and content of each file.
    pub hook_chart: &'a [(&'static str, FileContent)],
    /// The source from which the deployer reads the bundle, if it does.
    pub source: Option<&'a BundleSource>,
}

/// Builds the tree. The same input gives the same bytes.
///
/// # Errors
/// The deployer needs a source and there is none, or a template or value cannot be written, which
/// is a bug.
pub fn build(parts: BundleInput<'_>) -> Result<BundleTree, RenderError> {
    let BundleInput { recipe, plan, deployer, hook_chart, source, .. } = parts;
    let mut files = deployer::files(
        deployer,
        DeployerInput { recipe: &recipe.metadata.name, plan, hook_chart, source },
    )?;
    let text = recipe_text(recipe)?;
    let about = RecipeInfo { name: recipe.metadata.name.clone(), sha256: sha256(text.as_bytes()) };
    files.push(BundleFile::text(RECIPE, text));
    files.push(info::file(about, parts)?);
    Ok(BundleTree::new(files))
}

/// Returns the recipe as one file that extends nothing. Rendering it gives the same bundle.
fn recipe_text(recipe: &Recipe) -> Result<String, RenderError> {
    let alone = Recipe { extends: Vec::new(), ..recipe.clone() };
    let text = yaml::to_string(&alone).map_err(|_| RenderError::Yaml(RECIPE.to_owned()))?;
    Ok(format!("# The recipe of this bundle, with everything that it extends.\n{text}"))
}
