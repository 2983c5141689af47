//! The deployer `argocd`: a root Application, and one Application for each release in `apps/`.
//! Waves follow the dependencies of releases.

use minijinja::context;
use minijinja::value::Serde;

use super::argocd_application::application_form::{CONTROL_NAMESPACE, IN_CLUSTER};
use super::argocd_application::readme::readme_context;
use super::argocd_application::{
    ApplicationForm, ApplicationWriter, FINALIZERS, HEALTH, HEALTH_TEXT, NOTES, RETRY, TAKEOVER,
    check_source,
};
use super::file::BundleFile;
use super::template::{LEFTOVERS, RenderError, TemplateSet};
use super::{BundleSource, DeployerInput, chart};

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
    let place = source.map_or_else(String::new, |source| {
        let path = if source.path.is_empty() { "the root" } else { &source.path };
        format!(" to {path} of {}, revision {}", source.url, source.revision)
    });
    vec![
        format!("commit and push {directory}{place}"),
        format!(
            "kubectl --namespace {CONTROL_NAMESPACE} patch configmap argocd-cm --patch-file {directory}/{HEALTH}"
        ),
        format!("kubectl apply -f {directory}/project.yaml -f {directory}/root-project.yaml"),
        format!("kubectl apply -f {directory}/root.yaml"),
    ]
}

/// Returns the files of a bundle for Argo CD.
///
/// # Errors
/// See [`RenderError`].
pub fn files(input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    let source = input.source.ok_or(RenderError::NoSource(NAME))?;
    check_source(source, NAME)?;
    let applications =
        ApplicationWriter::new(ApplicationForm::Rendered { bundle: input.recipe, source }, input)?;
    let templates = TemplateSet::new(SOURCES)?;
    let context = context! {
        source => Serde(source),
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
