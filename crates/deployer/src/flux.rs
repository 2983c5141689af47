//! The deployer `flux`: a HelmRelease for each release, the sources of the charts, and a
//! Kustomization that creates ConfigMaps from the values files.

use minijinja::{Value, context};

use super::DeployerInput;
use super::file::BundleFile;
use super::layout::{SETTINGS, VALUES, folders, values_of};
use super::source::BundleSource;
use super::template::{LEFTOVERS, RenderError, TemplateSet};
use super::template_language::shell_word;
use ::release::model::ReleaseKind;
use ::release::{Release, ReleasePlan};
use contract::names::PREFIX;

mod chart;
mod readme;
mod release;
mod repository;
mod revision;
mod sync;
mod verification;

const SOURCES: &[(&str, &str)] = &[
    (
        "flux-kustomization.yaml.j2",
        include_str!("../../../templates/flux/flux-kustomization.yaml.j2"),
    ),
    ("gitrepository.yaml.j2", include_str!("../../../templates/flux/gitrepository.yaml.j2")),
    ("helmrelease.yaml.j2", include_str!("../../../templates/flux/helmrelease.yaml.j2")),
    ("helmrepository.yaml.j2", include_str!("../../../templates/flux/helmrepository.yaml.j2")),
    ("ocirepository.yaml.j2", include_str!("../../../templates/flux/ocirepository.yaml.j2")),
    ("kustomization.yaml.j2", include_str!("../../../templates/flux/kustomization.yaml.j2")),
    ("kustomizeconfig.yaml.j2", include_str!("../../../templates/flux/kustomizeconfig.yaml.j2")),
    ("source.yaml.j2", include_str!("../../../templates/flux/source.yaml.j2")),
    ("sync.yaml.j2", include_str!("../../../templates/flux/sync.yaml.j2")),
    ("README.md.j2", include_str!("../../../templates/flux/README.md.j2")),
    LEFTOVERS,
];

/// The deployer's name on the command line.
pub const NAME: &str = "flux";
/// The folder of a registry's repository that has the bundle's own charts.
pub const CHARTS: &str = "charts";
/// The name of the objects that fetch and apply the bundle.
const SYNC: &str = "gpu-rollout";
/// The names of the other Kustomizations in the namespace of the bundle: the bundle's own, and that
/// of `flux bootstrap`.
const TAKEN: [&str; 2] = [SYNC, "flux-system"];
/// The generated ConfigMap whose name contains the digest of the whole bundle.
const DIGEST: &str = "gpu-rollout-bundle";

/// Returns the label with the digest.
fn label() -> String {
    format!("{PREFIX}/bundle")
}

/// Returns the files of a bundle for Flux.
///
/// # Errors
/// The source is missing or Flux cannot read it, or a chart is a local file; otherwise see
/// [`RenderError`].
pub fn files(input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    let source = input.source.ok_or(RenderError::NoSource(NAME))?;
    sync::check(source)?;
    check_names(input.plan)?;
    check_order(input.plan)?;
    let mut files = super::chart::shared_files(input)?;
    let found = chart::find_charts(input.plan, source, &files)?;
    let templates = TemplateSet::new(SOURCES)?;

    let sources = repository::files(&templates, source, &found)?;
    let releases = release::files(&templates, input.plan, &found)?;
    let values: Vec<(String, String)> =
        folders(input.plan).filter_map(|(folder, release)| own_values(&folder, release)).collect();
    let paths =
        |files: &[BundleFile]| files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
    let (source_paths, release_paths) = (paths(&sources), paths(&releases));
    // A key of a ConfigMap cannot contain a slash.
    let keyed = |path: &String| context! { key => path.replace('/', "."), path };
    let all = source_paths
        .iter()
        .chain(&release_paths)
        .chain(values.iter().map(|(_, path)| path))
        .map(keyed)
        .collect::<Value>();
    let context = context! {
        sources => source_paths,
        releases => release_paths,
        values => values.into_iter().map(|(name, path)| context! { name, path }).collect::<Value>(),
        digest => DIGEST,
        all,
    };
    // A slash inside a key is escaped.
    let config = context! {
        has_kustomizations => has_kustomizations(input.plan),
        label_path => format!("metadata/labels/{}", label().replace('/', "\\/")),
    };

    files.push(BundleFile::text(
        "kustomization.yaml",
        templates.render("kustomization.yaml.j2", context)?,
    ));
    files.push(BundleFile::text(
        "kustomizeconfig.yaml",
        templates.render("kustomizeconfig.yaml.j2", config)?,
    ));
    files.extend(sources);
    files.extend(releases);
    files.extend(sync::files(&templates, input.plan, source)?);
    files.push(readme::file(&templates, input, source)?);
    Ok(files)
}

fn has_kustomizations(plan: &ReleasePlan) -> bool {
    plan.releases.iter().any(|release| release.kind.kustomization().is_some())
}

/// Checks that no kustomization has the name of a Kustomization that Flux has for something else.
fn check_names(plan: &ReleasePlan) -> Result<(), RenderError> {
    let kustomizations = plan.releases.iter().filter(|one| one.kind.kustomization().is_some());
    let mut names = kustomizations.map(|release| release.name.as_str());
    match names.find(|name| TAKEN.contains(name)) {
        None => Ok(()),
        Some(name) => Err(RenderError::unable(
            NAME,
            format!(
                "cannot deploy `{name}`: Flux has a Kustomization of this name for the bundle, or for itself"
            ),
            "give the component another name",
        )),
    }
}

/// Checks that no Helm release waits for a kustomization, and no kustomization for a Helm release:
/// HelmReleases and Kustomizations each only depend on their own kind.
fn check_order(plan: &ReleasePlan) -> Result<(), RenderError> {
    let is_one = |name: &str| {
        let release = plan.releases.iter().find(|release| release.name == name);
        release.is_some_and(|release| release.kind.kustomization().is_some())
    };
    let pairs = plan.releases.iter().flat_map(|release| {
        release.needs.iter().map(|need| (release.name.as_str(), need.as_str()))
    });
    for (later, earlier) in pairs {
        if is_one(later) != is_one(earlier) {
            return Err(RenderError::unable(
                NAME,
                format!(
                    "cannot deploy `{later}` after `{earlier}`: one is a kustomization, the other a Helm release, and Flux has no dependency between them"
                ),
                "render the bundle for Argo CD, or remove the order: `after`, or AICR's `dependencyRefs`",
            ));
        }
    }
    Ok(())
}

/// Returns the next steps for the bundle in `directory`.
pub(super) fn next(_: &str, directory: &str, source: Option<&BundleSource>) -> Vec<String> {
    let bring = match source {
        Some(source) if source.is_oci() => push_step(directory, source),
        Some(source) => commit_step(directory, source),
        None => return Vec::new(),
    };
    let sign = source.and_then(|source| source.verification.as_ref()).map(|_| {
        "# sign every digest that was pushed with cosign: README.md has the commands".to_owned()
    });
    let apply = format!("kubectl apply -f {directory}/flux-system   # once for each cluster");
    [Some(bring), sign, Some(apply)].into_iter().flatten().collect()
}

/// Returns the step that brings the bundle in `directory` into its registry.
fn push_step(directory: &str, source: &BundleSource) -> String {
    // Without a tag in the address, the program takes the one that the bundle names.
    let tag = if revision::kind(source) == "digest" { ":TAG" } else { "" };
    let address = format!("{}{tag}", source.url);
    // A source has no control characters, which a word could not have.
    format!("gpu-rollout bundle push {directory} {}", shell_word(&address).unwrap_or(address))
}

/// Returns the tag of a chart's version in a registry. A tag cannot contain `+`: Helm pushes and
/// pulls charts with `_` instead.
pub fn chart_tag(version: &str) -> String {
    version.replace('+', "_")
}

/// Returns the step that brings the bundle in `directory` into its Git repository.
fn commit_step(directory: &str, source: &BundleSource) -> String {
    let place = if source.path.is_empty() { "the root" } else { source.path.as_str() };
    let commit = format!("# commit the content of {directory} as {place} of {}", source.url);
    match revision::tag(source) {
        Some(tag) => format!("{commit}, tag the commit {tag}, and push both"),
        None => format!("{commit}, revision {}, and push", source.revision),
    }
}

/// Returns notes about how Flux reads `source`.
pub(super) fn notes(source: &BundleSource) -> Vec<String> {
    revision::note(source).into_iter().collect()
}

/// Returns a release's own values file: the name of its ConfigMap without digest, and its path.
fn own_values(folder: &str, release: &Release) -> Option<(String, String)> {
    let file = match &release.kind {
        ReleaseKind::Upstream(_) | ReleaseKind::Templates(_) => VALUES,
        ReleaseKind::Manifests(manifests) if manifests.shared => VALUES,
        ReleaseKind::Hook(_) => SETTINGS,
        ReleaseKind::Crds(_) | ReleaseKind::Manifests(_) | ReleaseKind::Kustomization(_) => {
            return None;
        }
    };
    Some((format!("{}-values", release.name), format!("{folder}/{file}")))
}

/// Returns the ConfigMaps that a release consumes, in order. A hook consumes those of the releases
/// that it shares values with, then its own. The own values of other charts are their defaults, and
/// come first.
fn consumed(plan: &ReleasePlan, folder: &str, release: &Release) -> Vec<String> {
    let shared = values_of(plan, release);
    let all: Vec<(String, String)> =
        folders(plan).filter_map(|(folder, release)| own_values(&folder, release)).collect();
    let own = own_values(folder, release).map(|(_, path)| path);
    let name =
        |path: String| all.iter().find(|(_, known)| *known == path).map(|(name, _)| name.clone());
    if release.kind.hook().is_some() {
        shared.into_iter().chain(own).filter_map(name).collect()
    } else {
        own.into_iter().chain(shared).filter_map(name).collect()
    }
}

/// Returns a path of the bundle in Flux's form, from the repository's root. An empty path is the
/// bundle itself.
fn from_root(source: &BundleSource, path: &str) -> String {
    format!("./{}", if path.is_empty() { source.path.clone() } else { source.join(path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_step_pushes_to_the_registry() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for (revision, expected) in [
            ("main", "gpu-rollout bundle push out oci://example.com/a"),
            (digest.as_str(), "gpu-rollout bundle push out oci://example.com/a:TAG"),
        ] {
            let source = BundleSource::new("oci://example.com/a", revision, "").unwrap();
            assert_eq!(next("base", "out", Some(&source))[0], expected);
        }
    }

    #[test]
    fn next_step_names_place_and_tag() {
        for (revision, path, expected) in [
            ("main", "", "as the root of https://example.com/a, revision main, and push"),
            ("main", "gpu", "as gpu of https://example.com/a, revision main, and push"),
            (
                "refs/tags/stable",
                "",
                "as the root of https://example.com/a, tag the commit stable, and push both",
            ),
            (
                "v1.2.3",
                "gpu",
                "as gpu of https://example.com/a, tag the commit v1.2.3, and push both",
            ),
        ] {
            let source = BundleSource::new("https://example.com/a", revision, path).unwrap();
            let steps = next("base", "out", Some(&source));
            assert_eq!(steps[0], format!("# commit the content of out {expected}"));
        }
    }
}
