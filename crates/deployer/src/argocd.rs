//! The deployer `argocd`: a root Application, and one Application for each release in `apps/`.
//! Waves follow the dependencies of releases.

use minijinja::context;
use minijinja::value::Serde;

use super::argocd_application::application_form::{CONTROL_NAMESPACE, IN_CLUSTER};
use super::argocd_application::readme::readme_context;
use super::argocd_application::{
    ApplicationForm, ApplicationWriter, FINALIZERS, HEALTH, HEALTH_TEXT, NOTES, RETRY, TAKEOVER,
    check_revision,
};
use super::file::BundleFile;
use super::template::{LEFTOVERS, RenderError, TemplateSet};
use super::{BundleSource, DeployerInput, chart, shell_word};

const NAME: &str = "argocd";
const SOURCES: &[(&str, &str)] = &[
    ("root.yaml.j2", include_str!("../../../templates/argocd/root.yaml.j2")),
    ("root-project.yaml.j2", include_str!("../../../templates/argocd/root-project.yaml.j2")),
    ("README.md.j2", include_str!("../../../templates/argocd/README.md.j2")),
    LEFTOVERS,
    NOTES,
    FINALIZERS,
    TAKEOVER,
];
/// The folder of the Applications.
pub const APPS: &str = "apps";

/// Returns the next steps for the bundle in `directory`.
pub fn next(_: &str, directory: &str, source: Option<&BundleSource>) -> Vec<String> {
    vec![
        source.map_or_else(
            || format!("commit and push {directory}"),
            |source| bring(directory, source),
        ),
        format!(
            "kubectl --namespace {CONTROL_NAMESPACE} patch configmap argocd-cm --patch-file {directory}/{HEALTH}"
        ),
        format!("kubectl apply -f {directory}/project.yaml -f {directory}/root-project.yaml"),
        format!("kubectl apply -f {directory}/root.yaml"),
    ]
}

/// Returns the step that brings the bundle in `directory` into its repository.
fn bring(directory: &str, source: &BundleSource) -> String {
    let BundleSource { url, revision, path, verification: _ } = source;
    if source.is_oci() {
        let reference = format!("{url}:{revision}");
        let reference = shell_word(&reference).unwrap_or(reference);
        return format!("gpu-rollout bundle push {directory} {reference}");
    }
    let path = if path.is_empty() { "the root" } else { path };
    format!("commit and push {directory} to {path} of {url}, revision {revision}")
}

/// Returns the files of a bundle for Argo CD.
///
/// # Errors
/// See [`RenderError`].
pub fn files(input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    let source = input.source.ok_or(RenderError::NoSource(NAME))?;
    check_revision(source, NAME)?;
    let applications =
        ApplicationWriter::new(ApplicationForm::Rendered { bundle: input.recipe, source }, input)?;
    let templates = TemplateSet::new(SOURCES)?;
    let context = context! {
        source => Serde(source),
        // The artifact of a registry with the bundle.
        reference => format!("{}:{}", source.url, source.revision),
        // The kind of revision that waves get one after another. It cannot be a commit, because the
        // Applications that name it are part of the commit.
        pinned => "a tag",
        path => source.join(APPS),
        folder => &source.path,
        root_project => format!("{}-root", input.recipe),
        control_namespace => CONTROL_NAMESPACE,
        server => IN_CLUSTER,
        retry => Serde(RETRY),
        ..readme_context(input)
    };
    let mut files = chart::shared_files(input)?;
    files.extend(applications.files(APPS, NAME)?);
    files.push(BundleFile::text("project.yaml", applications.project()?));
    for name in ["root.yaml", "root-project.yaml", "README.md"] {
        files.push(BundleFile::text(name, templates.render(&format!("{name}.j2"), &context)?));
    }
    files.push(BundleFile::text(HEALTH, HEALTH_TEXT));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_step_brings_bundle_into_its_repository() {
        for (url, path, expected) in [
            (
                "https://example.com/a",
                "",
                "commit and push out to the root of https://example.com/a, revision v1",
            ),
            (
                "https://example.com/a",
                "gpu",
                "commit and push out to gpu of https://example.com/a, revision v1",
            ),
            ("oci://example.com/a", "gpu", "gpu-rollout bundle push out oci://example.com/a:v1"),
        ] {
            let source = BundleSource::new(url, "v1", path).unwrap();
            assert_eq!(next("base", "out", Some(&source))[0], expected);
        }
    }
}
