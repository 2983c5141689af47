//! Renders bundles of many recipes. All recipes are loaded first, because their names determine the
//! bundles' directories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::build::{BundleInput, build};
use super::info;
use super::write::{WriteSummary, write};
use catalog::hook_chart;
use contract::duration::Duration;
use contract::exit::ExitCode;
use deployer::{BundleSource, Deployer, RenderError, SourceNeed};
use diagnostics::diagnostic::Diagnostics;
use recipe::load::ValidRecipe;
use recipe::model::Recipe;
use release::model::ReleaseKind;
use release::{EmbeddedCatalog, PlanOptions, Release, ReleasePlan, plan};

mod outcome;

pub use outcome::{RenderFailure, RenderOutcome, RenderedBundle};

/// Options for rendering.
pub struct RenderOptions {
    /// The deployers to render for.
    pub deployers: Vec<Deployer>,
    /// The bundle's directory, or the parent directory of several bundles.
    pub output: PathBuf,
    /// Whether each bundle gets a directory of its own below `output`.
    pub is_many: bool,
    /// Options for all releases.
    pub plan: PlanOptions,
    /// The source from which the cluster reads the bundles.
    pub source: Option<BundleSource>,
    /// Replace bundles that were edited.
    pub force: bool,
}

/// A loaded recipe. It is planned only when its bundles are rendered, so that of a thousand recipes
/// only a few have a plan in memory.
pub struct LoadedRecipe<'a> {
    file: &'a str,
    recipe: Option<Recipe>,
    findings: Diagnostics,
    failure: Option<RenderFailure>,
}

impl<'a> LoadedRecipe<'a> {
    /// Creates the recipe from the result of loading `file`.
    pub fn new(file: &'a str, loaded: Result<ValidRecipe, Diagnostics>) -> Self {
        match loaded {
            Ok(loaded) => {
                Self { file, recipe: Some(loaded.recipe), findings: loaded.warnings, failure: None }
            }
            Err(findings) => {
                let message = format!("the recipe `{file}` cannot be used: {}", findings.summary());
                Self {
                    file,
                    recipe: None,
                    findings,
                    failure: Some(RenderFailure { message, hint: None, code: ExitCode::Input }),
                }
            }
        }
    }

    /// Returns the findings about the recipe.
    pub fn findings(&self) -> &Diagnostics {
        &self.findings
    }
}

/// Refuses recipes with the same name, which would overwrite each other. None of them is rendered.
pub fn refuse_twins(recipes: &mut [LoadedRecipe<'_>]) {
    let names: Vec<Option<String>> = recipes
        .iter()
        .map(|loaded| loaded.recipe.as_ref().map(|recipe| recipe.metadata.name.clone()))
        .collect();
    let files: Vec<&str> = recipes.iter().map(|loaded| loaded.file).collect();
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, name) in names.iter().enumerate() {
        places.entry(name.as_deref().unwrap_or_default()).or_default().push(index);
    }
    for (index, loaded) in recipes.iter_mut().enumerate() {
        let Some(name) = &names[index] else { continue };
        if let Some(&twin) = places[name.as_str()].iter().find(|other| **other != index) {
            loaded.failure = Some(RenderFailure {
                message: format!(
                    "the recipes `{}` and `{}` have the same name `{name}`, and so the same output directory",
                    files[index], files[twin]
                ),
                hint: Some("give each recipe a unique `metadata.name`".to_owned()),
                code: ExitCode::Input,
            });
        }
    }
}

/// Renders the bundles of a recipe and writes them.
pub fn render(loaded: &LoadedRecipe<'_>, options: &RenderOptions) -> RenderOutcome {
    let mut outcome = RenderOutcome {
        file: loaded.file.to_owned(),
        name: loaded.recipe.as_ref().map(|recipe| recipe.metadata.name.clone()),
        notes: Vec::new(),
        releases: Vec::new(),
        lines: Vec::new(),
        failure: loaded.failure.clone(),
        bundles: Vec::new(),
    };
    let planned = match &loaded.recipe {
        Some(recipe) if loaded.failure.is_none() => {
            match plan(recipe, &EmbeddedCatalog, &options.plan) {
                Ok(plan) => Some((recipe, plan)),
                Err(error) => {
                    outcome.failure = Some(RenderFailure {
                        message: error.to_string(),
                        hint: error.hint(),
                        code: ExitCode::Input,
                    });
                    None
                }
            }
        }
        Some(_) | None => None,
    };
    if let Some((_, plan)) = &planned {
        outcome.notes.clone_from(&plan.notes);
        outcome.releases = info::releases(plan);
        if options.source.is_some()
            && options.deployers.iter().all(|deployer| deployer.source == SourceNeed::None)
        {
            outcome.notes.push(
                "`--repo` has no effect: this deployer reads the bundle from its directory"
                    .to_owned(),
            );
        }
        let notes =
            |source| options.deployers.iter().flat_map(move |deployer| (deployer.notes)(source));
        outcome.notes.extend(options.source.iter().flat_map(notes));
        outcome.lines = plan.releases.iter().map(line).collect();
    }
    for deployer in &options.deployers {
        let directory = directory(options, outcome.label(), *deployer);
        let result = planned
            .as_ref()
            .map(|(recipe, plan)| bundle(options, recipe, plan, *deployer, &directory));
        outcome.bundles.push(RenderedBundle { deployer: *deployer, directory, result });
    }
    outcome
}

/// Returns the directory of a bundle.
fn directory(options: &RenderOptions, recipe: &str, deployer: Deployer) -> PathBuf {
    if options.is_many {
        options.output.join(recipe).join(deployer.name)
    } else {
        options.output.clone()
    }
}

fn bundle(
    options: &RenderOptions,
    recipe: &Recipe,
    plan: &ReleasePlan,
    deployer: Deployer,
    directory: &Path,
) -> Result<WriteSummary, RenderFailure> {
    let source = options.source.as_ref().filter(|_| deployer.source != SourceNeed::None);
    let source = source.map(|source| {
        let place = format!("{}/{deployer}", recipe.metadata.name);
        let path = if options.is_many { source.join(&place) } else { source.path.clone() };
        BundleSource { path, ..source.clone() }
    });
    let parts = BundleInput {
        recipe,
        plan,
        options: &options.plan,
        deployer,
        hook_chart: hook_chart::contents(),
        source: source.as_ref(),
    };
    let tree = build(parts).map_err(|error| {
        let (hint, code) = match &error {
            RenderError::Unable { hint, .. } => (*hint, ExitCode::Usage),
            RenderError::NoSource(_)
            | RenderError::Template { .. }
            | RenderError::Script(_)
            | RenderError::Yaml(_) => (
                "this is a bug in gpu-rollout, not in the recipe; please report it",
                ExitCode::Internal,
            ),
        };
        RenderFailure { message: error.to_string(), hint: Some(hint.to_owned()), code }
    })?;
    write(&tree, directory, options.force).map_err(|error| RenderFailure {
        message: error.to_string(),
        hint: error.hint().map(str::to_owned),
        code: ExitCode::Input,
    })
}

/// Describes a release in one line.
fn line(release: &Release) -> String {
    match &release.kind {
        ReleaseKind::Upstream(upstream) => {
            format!("{} {}", upstream.chart.place(), upstream.version)
        }
        ReleaseKind::Kustomization(source) => source.summary(),
        ReleaseKind::Crds(crds) => format!("{} CRDs", crds.crds.len()),
        ReleaseKind::Manifests(manifests) => manifests.description.clone(),
        ReleaseKind::Templates(templates) => templates.description.clone(),
        ReleaseKind::Hook(hook) => {
            let timeout = Duration::from_secs(release.timeout_seconds);
            format!("time budget {}; deployer timeout {timeout}", hook.budget.explanation)
        }
    }
}
