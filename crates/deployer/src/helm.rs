//! The deployer `helm`: a folder a release, and a script that installs them in order with the Helm command line.

use serde::Serialize;

use super::file::BundleFile;
use super::language::WrittenText;
use super::layout::{budget, content, folders, values_of};
use super::template::{LEFTOVERS, RenderError, TemplateSet};
use super::{BundleSource, DeployerInput, chart};
use release::model::{ChartOrigin, ReleaseKind, UpstreamRelease};
use release::{Release, ReleasePlan};

const SOURCES: &[(&str, &str)] = &[
    ("deploy.sh.j2", include_str!("../../../templates/helm/deploy.sh.j2")),
    ("undeploy.sh.j2", include_str!("../../../templates/helm/undeploy.sh.j2")),
    ("version.sh.j2", include_str!("../../../templates/helm/version.sh.j2")),
    ("README.md.j2", include_str!("../../../templates/helm/README.md.j2")),
    LEFTOVERS,
];

/// The script that deploys.
pub const DEPLOY: &str = "deploy.sh";

#[derive(Serialize)]
struct HelmContext<'a> {
    recipe: &'a str,
    /// What to say of the hook's image.
    image_note: Option<WrittenText>,
    releases: Vec<HelmScriptRow<'a>>,
}

/// One release as the scripts and the README need it.
#[derive(Serialize)]
struct HelmScriptRow<'a> {
    name: &'a str,
    namespace: &'a str,
    folder: String,
    kind: &'static str,
    /// The line of `deploy.sh`.
    line: WrittenText,
    /// Chart and version, or what is in it.
    content: String,
    budget: Option<&'a str>,
}

/// What to do with the bundle of a recipe in `directory`.
pub fn next(_: &str, directory: &str, _: Option<&BundleSource>) -> Vec<String> {
    vec![format!("{directory}/{DEPLOY} --dry-run"), format!("{directory}/{DEPLOY}")]
}

/// The files of a bundle for Helm.
///
/// # Errors
/// See [`RenderError`].
pub fn files(input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    let mut files = chart::shared_files(input)?;
    let templates = TemplateSet::new(SOURCES)?;
    let context = HelmContext {
        recipe: input.recipe,
        image_note: input.plan.image_note().map(WrittenText::fixed),
        releases: folders(input.plan).map(|(folder, release)| row(input.plan, folder, release)).collect::<Result<_, _>>()?,
    };
    files.push(BundleFile::script(DEPLOY, templates.render("deploy.sh.j2", &context)?));
    files.push(BundleFile::script("undeploy.sh", templates.render("undeploy.sh.j2", &context)?));
    files.push(BundleFile::text("README.md", templates.render("README.md.j2", &context)?));
    Ok(files)
}

fn row<'a>(plan: &'a ReleasePlan, folder: String, release: &'a Release) -> Result<HelmScriptRow<'a>, RenderError> {
    let arguments = match &release.kind {
        ReleaseKind::Upstream(upstream) => source(upstream),
        ReleaseKind::Crds(crds) => vec![crds.version.clone()],
        ReleaseKind::Manifests(_) => Vec::new(),
        ReleaseKind::Hook(hook) => values_of(plan, hook),
    };
    let mut line = vec![release.kind.name().to_owned(), folder.clone(), release.namespace.clone(), release.timeout_seconds.to_string()];
    line.extend(arguments);
    let line = WrittenText::words(&line).ok_or_else(|| RenderError::Script(release.name.clone()))?;
    Ok(HelmScriptRow {
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
fn source(upstream: &UpstreamRelease) -> Vec<String> {
    let crds = if upstream.skip_crds { "crds-elsewhere" } else { "crds-in-chart" };
    let mut words = vec![upstream.version.clone(), crds.to_owned()];
    match &upstream.chart {
        ChartOrigin::Repository { url, name } => words.extend([name.clone(), url.clone()]),
        ChartOrigin::Oci(place) | ChartOrigin::File(place) => words.push(place.clone()),
    }
    words
}
