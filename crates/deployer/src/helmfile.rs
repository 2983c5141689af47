//! The deployer `helmfile`: a folder a release, and the state files that name them.
//!
//! Helmfile can leave a chart's own CRDs out only for a whole state file. So releases that differ in that stand in different files,
//! and each file names the one before it: helmfile deploys what a file names before the file's own releases, and goes on only if that
//! has succeeded; `destroy` goes the other way round.

pub mod repositories;

use serde::Serialize;

use super::file::BundleFile;
use super::language::WrittenText;
use super::layout::{SETTINGS, VALUES, budget, content, folders, values_of};
use super::template::{LEFTOVERS, RenderError, TemplateSet};
use super::{BundleSource, DeployerInput, chart};
use release::model::{ChartOrigin, ReleaseKind};
use release::{Release, ReleasePlan};
use repositories::{HelmfileRepositories, HelmfileRepository};

const SOURCES: &[(&str, &str)] = &[
    ("helmfile.yaml.j2", include_str!("../../../templates/helmfile/helmfile.yaml.j2")),
    ("README.md.j2", include_str!("../../../templates/helmfile/README.md.j2")),
    LEFTOVERS,
];

/// The state file that deploys everything.
pub const HELMFILE: &str = "helmfile.yaml";

/// One state file.
#[derive(Serialize)]
struct HelmfileState<'a> {
    recipe: &'a str,
    /// The state file that comes first.
    earlier: Option<&'a str>,
    repositories: &'a [HelmfileRepository],
    skip_crds: bool,
    releases: &'a [HelmfileRelease<'a>],
}

/// One release in a state file.
#[derive(Serialize)]
struct HelmfileRelease<'a> {
    name: &'a str,
    namespace: &'a str,
    kind: &'static str,
    chart: String,
    /// `None`: the folder or file that `chart` names has only one.
    version: Option<&'a str>,
    needs: Vec<String>,
    timeout: u64,
    values: Vec<String>,
    is_local: bool,
    takes_ownership: bool,
    validation: PlanValidation,
}

/// When `helmfile apply` may ask the cluster about the kinds of a release's objects while it plans.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum PlanValidation {
    /// Kubernetes' own kinds only.
    Always,
    /// The chart brings CRDs with its first installation.
    Upgrade,
    /// Another release brings the CRDs, and everything is planned before anything is deployed.
    Never,
}

#[derive(Serialize)]
struct HelmfileReadme<'a> {
    recipe: &'a str,
    /// What to say of the hook's image.
    image_note: Option<WrittenText>,
    files: Vec<String>,
    releases: Vec<HelmfileReadmeRow<'a>>,
}

/// One release as the README shows it.
#[derive(Serialize)]
struct HelmfileReadmeRow<'a> {
    name: &'a str,
    namespace: &'a str,
    folder: String,
    kind: &'static str,
    takes_ownership: bool,
    content: String,
    budget: Option<&'a str>,
}

/// What to do with the bundle of a recipe in `directory`.
pub fn next(_: &str, directory: &str, _: Option<&BundleSource>) -> Vec<String> {
    vec![format!("helmfile --file {directory}/{HELMFILE} template"), format!("helmfile --file {directory}/{HELMFILE} sync")]
}

/// The files of a bundle for helmfile.
///
/// # Errors
/// See [`RenderError`].
pub fn files(input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    let mut files = chart::shared_files(input)?;
    let templates = TemplateSet::new(SOURCES)?;
    let parts = parts(input.plan);
    let names: Vec<String> = (1..=parts.len()).map(|number| file_name(number, parts.len())).collect();
    for (index, part) in parts.iter().enumerate() {
        let mut repositories = HelmfileRepositories::default();
        let releases: Vec<HelmfileRelease<'_>> =
            part.releases.iter().map(|(folder, release)| entry(input.plan, part, folder, release, &mut repositories)).collect();
        let state = HelmfileState {
            recipe: input.recipe,
            earlier: index.checked_sub(1).map(|earlier| names[earlier].as_str()),
            repositories: repositories.list(),
            skip_crds: part.skip_crds == Some(true),
            releases: &releases,
        };
        files.push(BundleFile::text(names[index].clone(), templates.render("helmfile.yaml.j2", state)?));
    }
    let readme = HelmfileReadme {
        recipe: input.recipe,
        image_note: input.plan.image_note().map(WrittenText::fixed),
        files: names,
        releases: folders(input.plan).map(row).collect(),
    };
    files.push(BundleFile::text("README.md", templates.render("README.md.j2", readme)?));
    Ok(files)
}

fn file_name(number: usize, parts: usize) -> String {
    if number == parts { HELMFILE.to_owned() } else { format!("helmfile-{number}.yaml") }
}

/// The releases of one state file.
struct HelmfilePart<'a> {
    /// Whether the charts' own CRDs are left out; `None`: no release of it has any.
    skip_crds: Option<bool>,
    releases: Vec<(String, &'a Release)>,
}

/// Cuts the plan where releases differ in what is to become of their charts' own CRDs.
fn parts(plan: &ReleasePlan) -> Vec<HelmfilePart<'_>> {
    let mut parts: Vec<HelmfilePart<'_>> = Vec::new();
    for (folder, release) in folders(plan) {
        let skip_crds = match &release.kind {
            ReleaseKind::Upstream(upstream) => Some(upstream.skip_crds),
            ReleaseKind::Crds(_) | ReleaseKind::Manifests(_) | ReleaseKind::Hook(_) => None,
        };
        match parts.last_mut() {
            Some(part) if skip_crds.is_none() || part.skip_crds.is_none() || part.skip_crds == skip_crds => {
                part.skip_crds = part.skip_crds.or(skip_crds);
                part.releases.push((folder, release));
            }
            Some(_) | None => parts.push(HelmfilePart { skip_crds, releases: vec![(folder, release)] }),
        }
    }
    parts
}

fn entry<'a>(
    plan: &'a ReleasePlan,
    part: &HelmfilePart<'a>,
    folder: &str,
    release: &'a Release,
    repositories: &mut HelmfileRepositories,
) -> HelmfileRelease<'a> {
    let local = || format!("./{folder}");
    let (chart, version, values) = match &release.kind {
        ReleaseKind::Upstream(upstream) => {
            let version = Some(upstream.version.as_str());
            let (chart, version) = match &upstream.chart {
                ChartOrigin::Repository { url, name } => (format!("{}/{name}", repositories.name_of(url, false)), version),
                ChartOrigin::Oci(reference) => (repositories.oci_chart(reference), version),
                ChartOrigin::File(path) => (path.clone(), None),
            };
            (chart, version, vec![format!("{folder}/{VALUES}")])
        }
        // The chart's own values file is its default already.
        ReleaseKind::Crds(_) | ReleaseKind::Manifests(_) => (local(), None, Vec::new()),
        ReleaseKind::Hook(hook) => {
            let own = format!("{folder}/{SETTINGS}");
            (local(), None, values_of(plan, hook).into_iter().chain([own]).collect())
        }
    };
    // What stands in an earlier file has succeeded already, and helmfile refuses needs that it cannot find in the same file.
    let here = part.releases.iter().map(|(_, release)| *release);
    let needs = here.filter(|other| release.needs.contains(&other.name)).map(|other| format!("{}/{}", other.namespace, other.name));
    HelmfileRelease {
        name: &release.name,
        namespace: &release.namespace,
        kind: release.kind.name(),
        chart,
        version,
        needs: needs.collect(),
        timeout: release.timeout_seconds,
        values,
        is_local: !matches!(release.kind, ReleaseKind::Upstream(_)),
        takes_ownership: release.kind.takes_ownership(),
        validation: validation(release),
    }
}

fn validation(release: &Release) -> PlanValidation {
    match &release.kind {
        ReleaseKind::Upstream(upstream) if upstream.skip_crds => PlanValidation::Never,
        ReleaseKind::Manifests(manifests) if manifests.component.is_some() => PlanValidation::Never,
        ReleaseKind::Upstream(_) => PlanValidation::Upgrade,
        ReleaseKind::Crds(_) | ReleaseKind::Manifests(_) | ReleaseKind::Hook(_) => PlanValidation::Always,
    }
}

fn row((folder, release): (String, &Release)) -> HelmfileReadmeRow<'_> {
    HelmfileReadmeRow {
        name: &release.name,
        namespace: &release.namespace,
        folder,
        kind: release.kind.name(),
        takes_ownership: release.kind.takes_ownership(),
        content: content(release),
        budget: budget(release),
    }
}
