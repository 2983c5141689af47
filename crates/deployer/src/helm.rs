//! The deployer `helm`: a folder for each release, and a script that installs them in order with
//! the Helm command line.

use minijinja::{Value, context};

use super::file::BundleFile;
use super::layout::{bundle_context, folders, release_context, values_of};
use super::template::{BUNDLE_FOLDER, LEFTOVERS, RenderError, TemplateSet};
use super::template_language::WrittenText;
use super::{BundleSource, DeployerInput, chart, refuse_kustomizations};
use release::model::{ChartOrigin, ReleaseKind, UpstreamRelease};
use release::{Release, ReleasePlan};

const SOURCES: &[(&str, &str)] = &[
    ("deploy.sh.j2", include_str!("../../../templates/helm/deploy.sh.j2")),
    ("undeploy.sh.j2", include_str!("../../../templates/helm/undeploy.sh.j2")),
    ("version.sh.j2", include_str!("../../../templates/helm/version.sh.j2")),
    ("README.md.j2", include_str!("../../../templates/helm/README.md.j2")),
    BUNDLE_FOLDER,
    LEFTOVERS,
];

/// The script that deploys.
pub const DEPLOY: &str = "deploy.sh";

/// Returns the next steps for the bundle in `directory`.
pub fn next(_: &str, directory: &str, _: Option<&BundleSource>) -> Vec<String> {
    vec![format!("{directory}/{DEPLOY} --dry-run"), format!("{directory}/{DEPLOY}")]
}

/// Returns the files of a bundle for Helm.
///
/// # Errors
/// See [`RenderError`].
pub fn files(input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    refuse_kustomizations("helm", input.plan)?;
    let mut files = chart::shared_files(input)?;
    let templates = TemplateSet::new(SOURCES)?;
    let releases: Vec<Value> = folders(input.plan)
        .map(|(folder, release)| Ok(context! { line => script_line(input.plan, &folder, release)?, ..release_context(&folder, release) }))
        .collect::<Result<_, RenderError>>()?;
    let context = context! { releases, ..bundle_context(input) };
    files.push(BundleFile::script(DEPLOY, templates.render("deploy.sh.j2", &context)?));
    files.push(BundleFile::script("undeploy.sh", templates.render("undeploy.sh.j2", &context)?));
    files.push(BundleFile::text("README.md", templates.render("README.md.j2", &context)?));
    Ok(files)
}

/// Returns the line of `deploy.sh` for a release.
fn script_line(
    plan: &ReleasePlan,
    folder: &str,
    release: &Release,
) -> Result<WrittenText, RenderError> {
    let arguments = match &release.kind {
        ReleaseKind::Upstream(upstream) => chart_arguments(upstream),
        ReleaseKind::Crds(crds) => vec![crds.version.clone()],
        ReleaseKind::Manifests(_)
        | ReleaseKind::Templates(_)
        | ReleaseKind::Kustomization(_)
        | ReleaseKind::Hook(_) => values_of(plan, release),
    };
    let mut words = vec![
        release.kind.name().to_owned(),
        folder.to_owned(),
        release.namespace.clone(),
        release.timeout_seconds.to_string(),
    ];
    words.extend(arguments);
    WrittenText::words(&words).ok_or_else(|| RenderError::Script(release.name.clone()))
}

/// Returns the arguments of `deploy.sh` for a vendor's chart: version, owner of its CRDs, chart,
/// repository.
fn chart_arguments(upstream: &UpstreamRelease) -> Vec<String> {
    let crds = if upstream.skip_crds { "crds-elsewhere" } else { "crds-in-chart" };
    let mut words = vec![upstream.version.clone(), crds.to_owned()];
    match &upstream.chart {
        ChartOrigin::Repository { url, name } => words.extend([name.clone(), url.clone()]),
        ChartOrigin::Oci(place) | ChartOrigin::File(place) => words.push(place.clone()),
    }
    words
}
