//! The deployer `argocd`: a root Application, and one Application a release in `apps/`, whose waves follow what each release needs.

use serde::Serialize;

use super::application::form::{CONTROL_NAMESPACE, IN_CLUSTER};
use super::application::row::Readme;
use super::application::{Applications, Form, HEALTH, HEALTH_TEXT, NOTES, RETRY, Retry, numbered_folders};
use super::file::File;
use super::template::{RenderError, Templates};
use super::{Input, Source};

const NAME: &str = "argocd";
const SOURCES: &[(&str, &str)] = &[
    ("root.yaml.j2", include_str!("../../templates/argocd/root.yaml.j2")),
    ("root-project.yaml.j2", include_str!("../../templates/argocd/root-project.yaml.j2")),
    ("README.md.j2", include_str!("../../templates/argocd/README.md.j2")),
    NOTES,
];
/// The folder of the Applications.
pub const APPS: &str = "apps";

#[derive(Serialize)]
struct Context<'a> {
    #[serde(flatten)]
    readme: Readme<'a>,
    source: &'a Source,
    /// The folder of the Applications in the repository.
    path: String,
    /// The bundle's folder in the repository; empty: its root.
    folder: String,
    root_project: String,
    control_namespace: &'static str,
    server: &'static str,
    retry: Retry,
}

/// The files of a bundle for Argo CD.
///
/// # Errors
/// See [`RenderError`].
pub fn files(input: Input<'_>) -> Result<Vec<File>, RenderError> {
    let source = input.source.ok_or(RenderError::NoSource(NAME))?;
    if source.is_oci() {
        return Err(RenderError::SourceNotGit(NAME));
    }
    let applications = Applications::new(Form::Rendered { bundle: input.recipe, source }, input)?;
    let templates = Templates::new(SOURCES)?;
    let context = Context {
        readme: Readme::new(input.recipe, input.plan),
        source,
        path: source.join(APPS),
        folder: source.path.clone(),
        root_project: format!("{}-root", input.recipe),
        control_namespace: CONTROL_NAMESPACE,
        server: IN_CLUSTER,
        retry: RETRY,
    };
    let mut files = numbered_folders(input)?;
    files.extend(applications.files(APPS, NAME)?);
    files.push(File::text("project.yaml", applications.project()?));
    for name in ["root.yaml", "root-project.yaml", "README.md"] {
        files.push(File::text(name, templates.render(&format!("{name}.j2"), &context)?));
    }
    files.push(File::text(HEALTH, HEALTH_TEXT));
    Ok(files)
}
