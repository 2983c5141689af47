//! The deployer `helm`: a folder a release, and a script that installs them in order with the Helm command line.

use serde::Serialize;

use super::file::File;
use super::language::Written;
use super::layout::{budget, content, folders, values_of};
use super::template::{LEFTOVERS, RenderError, Templates};
use super::{Input, Source, chart};
use crate::release::model::{Chart, Kind, Upstream};
use crate::release::{Plan, Release};

const SOURCES: &[(&str, &str)] = &[
    ("deploy.sh.j2", include_str!("../../templates/helm/deploy.sh.j2")),
    ("undeploy.sh.j2", include_str!("../../templates/helm/undeploy.sh.j2")),
    ("version.sh.j2", include_str!("../../templates/helm/version.sh.j2")),
    ("README.md.j2", include_str!("../../templates/helm/README.md.j2")),
    LEFTOVERS,
];

/// The script that deploys.
pub const DEPLOY: &str = "deploy.sh";

#[derive(Serialize)]
struct Context<'a> {
    recipe: &'a str,
    /// What to say of the hook's image.
    image_note: Option<Written>,
    releases: Vec<Row<'a>>,
}

/// One release as the scripts and the README need it.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    namespace: &'a str,
    folder: String,
    kind: &'static str,
    /// The line of `deploy.sh`.
    line: Written,
    /// Chart and version, or what is in it.
    content: String,
    budget: Option<&'a str>,
}

/// What to do with the bundle of a recipe in `directory`.
pub fn next(_: &str, directory: &str, _: Option<&Source>) -> Vec<String> {
    vec![format!("{directory}/{DEPLOY} --dry-run"), format!("{directory}/{DEPLOY}")]
}

/// The files of a bundle for Helm.
///
/// # Errors
/// See [`RenderError`].
pub fn files(input: Input<'_>) -> Result<Vec<File>, RenderError> {
    let mut files = chart::all(input)?;
    let templates = Templates::new(SOURCES)?;
    let context = Context {
        recipe: input.recipe,
        image_note: input.plan.image_note().map(Written::fixed),
        releases: folders(input.plan).map(|(folder, release)| row(input.plan, folder, release)).collect::<Result<_, _>>()?,
    };
    files.push(File::script(DEPLOY, templates.render("deploy.sh.j2", &context)?));
    files.push(File::script("undeploy.sh", templates.render("undeploy.sh.j2", &context)?));
    files.push(File::text("README.md", templates.render("README.md.j2", &context)?));
    Ok(files)
}

fn row<'a>(plan: &'a Plan, folder: String, release: &'a Release) -> Result<Row<'a>, RenderError> {
    let arguments = match &release.kind {
        Kind::Upstream(upstream) => source(upstream),
        Kind::Crds(crds) => vec![crds.version.clone()],
        Kind::Manifests(_) => Vec::new(),
        Kind::Hook(hook) => values_of(plan, hook),
    };
    let mut line = vec![release.kind.name().to_owned(), folder.clone(), release.namespace.clone(), release.timeout_seconds.to_string()];
    line.extend(arguments);
    let line = Written::words(&line).ok_or_else(|| RenderError::Script(release.name.clone()))?;
    Ok(Row {
        name: &release.name,
        namespace: &release.namespace,
        folder,
        kind: release.kind.name(),
        line,
        content: content(release),
        budget: budget(release),
    })
}

/// What `deploy.sh` must know of a vendor's chart: version, who owns its CRDs, chart, repository.
fn source(upstream: &Upstream) -> Vec<String> {
    let crds = if upstream.skip_crds { "crds-elsewhere" } else { "crds-in-chart" };
    let mut words = vec![upstream.version.clone(), crds.to_owned()];
    match &upstream.chart {
        Chart::Repository { url, name } => words.extend([name.clone(), url.clone()]),
        Chart::Oci(place) | Chart::File(place) => words.push(place.clone()),
    }
    words
}
