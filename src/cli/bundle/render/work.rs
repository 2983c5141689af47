//! Recipes become bundles: all are read first, because their names say where the bundles stand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::RenderRequest;
use super::outcome::{RenderFailure, RenderOutcome, RenderedBundle};
use crate::cli::parallel;
use bundle::{BundleInput, WriteSummary, build, info, write};
use catalog::hook_chart;
use contract::duration::Duration;
use contract::exit::ExitCode;
use deployer::{BundleSource, Deployer, RenderError, SourceNeed};
use diagnostics::diagnostic::Diagnostics;
use recipe::model::Recipe;
use release::model::ReleaseKind;
use release::{EmbeddedCatalog, Release, ReleasePlan, plan};

/// A recipe that was read. Its plan is made only where its bundles are: of a thousand recipes a few are at work at a time.
struct LoadedRecipe<'a> {
    file: &'a str,
    recipe: Option<Recipe>,
    findings: Diagnostics,
    failure: Option<RenderFailure>,
}

/// Renders everything; the outcomes are in the order of the recipes.
pub(super) fn render_all(request: &RenderRequest) -> Vec<RenderOutcome> {
    let mut read = parallel::map(&request.recipes, |file| read(file, request));
    if request.is_many {
        refuse_twins(&mut read);
    }
    parallel::map(&read, |read| render(read, request))
}

fn read<'a>(file: &'a str, request: &RenderRequest) -> LoadedRecipe<'a> {
    match request.overrides.load(file) {
        Ok(loaded) => LoadedRecipe { file, recipe: Some(loaded.recipe), findings: loaded.warnings, failure: None },
        Err(findings) => {
            let message = format!("the recipe `{file}` cannot be used: {}", findings.summary());
            LoadedRecipe { file, recipe: None, findings, failure: Some(RenderFailure { message, hint: None, code: ExitCode::Input }) }
        }
    }
}

/// Two recipes of one name would write over each other: neither is rendered.
fn refuse_twins(read: &mut [LoadedRecipe<'_>]) {
    let names: Vec<Option<String>> = read.iter().map(|read| read.recipe.as_ref().map(|recipe| recipe.metadata.name.clone())).collect();
    let files: Vec<&str> = read.iter().map(|read| read.file).collect();
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, name) in names.iter().enumerate() {
        places.entry(name.as_deref().unwrap_or_default()).or_default().push(index);
    }
    for (index, read) in read.iter_mut().enumerate() {
        let Some(name) = &names[index] else { continue };
        if let Some(&twin) = places[name.as_str()].iter().find(|other| **other != index) {
            read.failure = Some(RenderFailure {
                message: format!("the recipes `{}` and `{}` have the same name `{name}`, and so the same place", files[index], files[twin]),
                hint: Some("give each recipe its own `metadata.name`".to_owned()),
                code: ExitCode::Input,
            });
        }
    }
}

fn render(read: &LoadedRecipe<'_>, request: &RenderRequest) -> RenderOutcome {
    let mut outcome = RenderOutcome {
        file: read.file.to_owned(),
        name: read.recipe.as_ref().map(|recipe| recipe.metadata.name.clone()),
        findings: read.findings.clone(),
        notes: Vec::new(),
        releases: Vec::new(),
        lines: Vec::new(),
        failure: read.failure.clone(),
        bundles: Vec::new(),
    };
    let planned = match &read.recipe {
        Some(recipe) if read.failure.is_none() => match plan(recipe, &EmbeddedCatalog, &request.options) {
            Ok(plan) => Some((recipe, plan)),
            Err(error) => {
                outcome.failure = Some(RenderFailure { message: error.to_string(), hint: error.hint(), code: ExitCode::Input });
                None
            }
        },
        Some(_) | None => None,
    };
    if let Some((_, plan)) = &planned {
        outcome.notes.clone_from(&plan.notes);
        outcome.releases = info::releases(plan);
        if request.source.is_some() && request.deployers.iter().all(|deployer| deployer.source == SourceNeed::None) {
            outcome.notes.push("`--repo` has no effect: this deployer reads the bundle's directory".to_owned());
        }
        let notes = |source| request.deployers.iter().flat_map(move |deployer| (deployer.notes)(source));
        outcome.notes.extend(request.source.iter().flat_map(notes));
        outcome.lines = plan.releases.iter().map(line).collect();
    }
    for deployer in &request.deployers {
        let directory = directory(request, outcome.label(), *deployer);
        let result = planned.as_ref().map(|(recipe, plan)| bundle(request, recipe, plan, *deployer, &directory));
        outcome.bundles.push(RenderedBundle { deployer: *deployer, directory, result });
    }
    outcome
}

/// Where a bundle stands.
fn directory(request: &RenderRequest, recipe: &str, deployer: Deployer) -> PathBuf {
    if request.is_many { request.output.join(recipe).join(deployer.name) } else { request.output.clone() }
}

fn bundle(
    request: &RenderRequest,
    recipe: &Recipe,
    plan: &ReleasePlan,
    deployer: Deployer,
    directory: &Path,
) -> Result<WriteSummary, RenderFailure> {
    let source = request.source.as_ref().filter(|_| deployer.source != SourceNeed::None);
    let source = source.map(|source| {
        let place = format!("{}/{deployer}", recipe.metadata.name);
        let path = if request.is_many { source.join(&place) } else { source.path.clone() };
        BundleSource { path, ..source.clone() }
    });
    let parts = BundleInput { recipe, plan, options: &request.options, deployer, hook_chart: hook_chart::FILES, source: source.as_ref() };
    let tree = build(parts).map_err(|error| {
        let (hint, code) = match &error {
            RenderError::Unable { hint, .. } => (*hint, ExitCode::Usage),
            RenderError::NoSource(_) | RenderError::Template { .. } | RenderError::Script(_) | RenderError::Yaml(_) => {
                ("this is a mistake of gpu-rollout, not of the recipe; please report it", ExitCode::Internal)
            }
        };
        RenderFailure { message: error.to_string(), hint: Some(hint.to_owned()), code }
    })?;
    write(&tree, directory, request.force).map_err(|error| RenderFailure {
        message: error.to_string(),
        hint: error.hint().map(str::to_owned),
        code: ExitCode::Input,
    })
}

/// What a release is, as a line for people.
fn line(release: &Release) -> String {
    match &release.kind {
        ReleaseKind::Upstream(upstream) => format!("{} {}", upstream.chart.place(), upstream.version),
        ReleaseKind::Crds(crds) => format!("{} CRDs", crds.crds.len()),
        ReleaseKind::Manifests(manifests) => manifests.description.clone(),
        ReleaseKind::Hook(hook) => {
            let timeout = Duration::from_secs(release.timeout_seconds);
            format!("waits at most {}; the deployer's timeout: {timeout}", hook.budget.explanation)
        }
    }
}
