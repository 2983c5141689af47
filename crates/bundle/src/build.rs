//! A plan becomes a tree: the deployer's files, and what every bundle has.

use super::BundleTree;
use super::info::{self, RECIPE, RecipeInfo};
use contract::digest::sha256;
use deployer::{self, BundleFile, BundleSource, Deployer, DeployerInput, RenderError};
use recipe::model::Recipe;
use release::{PlanOptions, ReleasePlan};

/// What a bundle is made from.
#[derive(Clone, Copy, Debug)]
pub struct BundleInput<'a> {
    /// The recipe, with everything that it extends.
    pub recipe: &'a Recipe,
    /// Its plan.
    pub plan: &'a ReleasePlan,
    /// What the plan was made with.
    pub options: &'a PlanOptions,
    /// What shall deploy it.
    pub deployer: Deployer,
    /// The hook chart: path and text of each file.
    pub hook_chart: &'a [(&'a str, &'a str)],
    /// Where the deployer reads the bundle from, if it does.
    pub source: Option<&'a BundleSource>,
}

/// Makes the tree. The same parts give the same bytes.
///
/// # Errors
/// No source for a deployer that needs one; else a mistake of this program: a template or a value that cannot be written.
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

/// The recipe as one file that extends nothing: rendering it again gives this bundle again.
fn recipe_text(recipe: &Recipe) -> Result<String, RenderError> {
    let alone = Recipe { extends: Vec::new(), ..recipe.clone() };
    let text = yaml::to_string(&alone).map_err(|_| RenderError::Yaml(RECIPE.to_owned()))?;
    Ok(format!("# The recipe of this bundle, with everything that it extends.\n{text}"))
}
