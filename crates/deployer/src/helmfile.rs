//! The deployer `helmfile`: a folder for each release, and the state files that name them.
//!
//! helmfile can skip a chart's own CRDs only for a whole state file. So releases that differ in
//! that are in different files, and each file includes the one before it. helmfile deploys an
//! included file before the file's own releases, and continues only if it succeeded. `destroy` uses
//! the reverse order.

pub mod repositories;

use minijinja::value::Serde;
use minijinja::{Value, context};

use super::file::BundleFile;
use super::layout::{SETTINGS, VALUES, bundle_context, folders, release_context, values_of};
use super::template::{LEFTOVERS, RenderError, TemplateSet};
use super::{BundleSource, DeployerInput, chart, refuse_kustomizations};
use release::model::{ChartOrigin, ReleaseKind};
use release::{Release, ReleasePlan};
use repositories::HelmfileRepositories;

const SOURCES: &[(&str, &str)] = &[
    ("helmfile.yaml.j2", include_str!("../../../templates/helmfile/helmfile.yaml.j2")),
    ("README.md.j2", include_str!("../../../templates/helmfile/README.md.j2")),
    LEFTOVERS,
];

/// The state file that deploys everything.
pub const HELMFILE: &str = "helmfile.yaml";

/// Returns the next steps for the bundle in `directory`.
pub fn next(_: &str, directory: &str, _: Option<&BundleSource>) -> Vec<String> {
    vec![
        format!("helmfile --file {directory}/{HELMFILE} template"),
        format!("helmfile --file {directory}/{HELMFILE} sync"),
    ]
}

/// Returns the files of a bundle for helmfile.
///
/// # Errors
/// See [`RenderError`].
pub fn files(input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    refuse_kustomizations("helmfile", input.plan)?;
    let mut files = chart::shared_files(input)?;
    let templates = TemplateSet::new(SOURCES)?;
    let parts = parts(input.plan);
    let names: Vec<String> =
        (1..=parts.len()).map(|number| file_name(number, parts.len())).collect();
    for (index, part) in parts.iter().enumerate() {
        let mut repositories = HelmfileRepositories::default();
        let releases = part.releases.iter().map(|(folder, release)| {
            state_entry(input.plan, part, folder, release, &mut repositories)
        });
        let releases: Value = releases.collect();
        let state = context! {
            recipe => input.recipe,
            // The state file that is deployed first.
            earlier => index.checked_sub(1).map(|earlier| &names[earlier]),
            repositories => Serde(repositories.list()),
            skip_crds => part.skip_crds == Some(true),
            releases,
        };
        files.push(BundleFile::text(
            names[index].clone(),
            templates.render("helmfile.yaml.j2", state)?,
        ));
    }
    let readme = context! { files => names, ..bundle_context(input) };
    files.push(BundleFile::text("README.md", templates.render("README.md.j2", readme)?));
    Ok(files)
}

fn file_name(number: usize, parts: usize) -> String {
    if number == parts { HELMFILE.to_owned() } else { format!("helmfile-{number}.yaml") }
}

/// The releases of one state file.
struct HelmfilePart<'a> {
    /// Whether to skip the charts' own CRDs; `None` if no release has a vendor's chart.
    skip_crds: Option<bool>,
    releases: Vec<(String, &'a Release)>,
}

/// Splits the plan where releases differ in whether to skip their charts' own CRDs.
fn parts(plan: &ReleasePlan) -> Vec<HelmfilePart<'_>> {
    let mut parts: Vec<HelmfilePart<'_>> = Vec::new();
    for (folder, release) in folders(plan) {
        let skip_crds = release.kind.upstream().map(|upstream| upstream.skip_crds);
        match parts.last_mut() {
            Some(part)
                if skip_crds.is_none()
                    || part.skip_crds.is_none()
                    || part.skip_crds == skip_crds =>
            {
                part.skip_crds = part.skip_crds.or(skip_crds);
                part.releases.push((folder, release));
            }
            Some(_) | None => {
                parts.push(HelmfilePart { skip_crds, releases: vec![(folder, release)] });
            }
        }
    }
    parts
}

/// Returns one release for a state file.
fn state_entry(
    plan: &ReleasePlan,
    part: &HelmfilePart<'_>,
    folder: &str,
    release: &Release,
    repositories: &mut HelmfileRepositories,
) -> Value {
    let local = || format!("./{folder}");
    let (chart, version, values) = match &release.kind {
        ReleaseKind::Upstream(upstream) => {
            let version = Some(upstream.version.as_str());
            let (chart, version) = match &upstream.chart {
                ChartOrigin::Repository { url, name } => {
                    (format!("{}/{name}", repositories.name_of(url, false)), version)
                }
                ChartOrigin::Oci(reference) => (repositories.oci_chart(reference), version),
                ChartOrigin::File(path) => (path.clone(), None),
            };
            (chart, version, vec![format!("{folder}/{VALUES}")])
        }
        // The chart's own values file contains its defaults already.
        ReleaseKind::Crds(_)
        | ReleaseKind::Manifests(_)
        | ReleaseKind::Templates(_)
        | ReleaseKind::Kustomization(_) => (local(), None, values_of(plan, release)),
        ReleaseKind::Hook(_) => {
            let own = format!("{folder}/{SETTINGS}");
            (local(), None, values_of(plan, release).into_iter().chain([own]).collect())
        }
    };
    // Releases in an earlier file have succeeded already, and helmfile refuses needs outside the
    // same file.
    let here = part.releases.iter().map(|(_, release)| *release);
    let needs = here
        .filter(|other| release.needs.contains(&other.name))
        .map(|other| format!("{}/{}", other.namespace, other.name));
    context! {
        chart,
        // None if the folder or file of `chart` has only one version.
        version,
        needs => needs.collect::<Vec<_>>(),
        timeout => release.timeout_seconds,
        values,
        is_local => release.kind.upstream().is_none(),
        validation => plan_validation(release),
        ..release_context(folder, release)
    }
}

/// Returns when `helmfile apply` may validate a release's kinds against the cluster while it plans.
fn plan_validation(release: &Release) -> &'static str {
    match &release.kind {
        // Another release creates the CRDs, and helmfile plans all releases before it deploys any.
        ReleaseKind::Upstream(upstream) if upstream.skip_crds => "never",
        ReleaseKind::Manifests(manifests) if manifests.component.is_some() => "never",
        ReleaseKind::Templates(_) => "never",
        // The chart creates CRDs with its first installation.
        ReleaseKind::Upstream(_) => "upgrade",
        // Kubernetes' own kinds only.
        ReleaseKind::Crds(_)
        | ReleaseKind::Manifests(_)
        | ReleaseKind::Kustomization(_)
        | ReleaseKind::Hook(_) => "always",
    }
}
