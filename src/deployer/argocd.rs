//! The deployer `argocd`: a root Application, and one Application a release in `apps/`, whose waves follow what each release needs.

use serde::Serialize;

use super::application::form::{CONTROL_NAMESPACE, IN_CLUSTER};
use super::application::readme::Readme;
use super::application::{Applications, FINALIZERS, Form, HEALTH, HEALTH_TEXT, NOTES, RETRY, Retry, TAKEOVER, check_source};
use super::file::File;
use super::template::{LEFTOVERS, RenderError, Templates};
use super::{Input, Source, chart};

const NAME: &str = "argocd";
const SOURCES: &[(&str, &str)] = &[
    ("root.yaml.j2", include_str!("../../templates/argocd/root.yaml.j2")),
    ("root-project.yaml.j2", include_str!("../../templates/argocd/root-project.yaml.j2")),
    ("README.md.j2", include_str!("../../templates/argocd/README.md.j2")),
    LEFTOVERS,
    NOTES,
    FINALIZERS,
    TAKEOVER,
];
/// The folder of the Applications.
pub const APPS: &str = "apps";

#[derive(Serialize)]
struct Context<'a> {
    #[serde(flatten)]
    readme: Readme<'a>,
    source: &'a Source,
    /// What a revision must be that one wave gets after another. No commit: the Applications that name it are part of it.
    pinned: &'static str,
    /// The folder of the Applications in the repository.
    path: String,
    /// The bundle's folder in the repository; empty: its root.
    folder: String,
    root_project: String,
    control_namespace: &'static str,
    server: &'static str,
    retry: Retry,
}

/// What to do with the bundle of a recipe in `directory`.
pub fn next(_: &str, directory: &str, source: Option<&Source>) -> Vec<String> {
    let place = source.map_or_else(String::new, |source| {
        let path = if source.path.is_empty() { "its root" } else { &source.path };
        format!(" to {path} in {}, revision {}", source.url, source.revision)
    });
    vec![
        format!("commit and push it{place}"),
        format!("kubectl --namespace {CONTROL_NAMESPACE} patch configmap argocd-cm --patch-file {directory}/{HEALTH}"),
        format!("kubectl apply -f {directory}/project.yaml -f {directory}/root-project.yaml"),
        format!("kubectl apply -f {directory}/root.yaml"),
    ]
}

/// The files of a bundle for Argo CD.
///
/// # Errors
/// See [`RenderError`].
pub fn files(input: Input<'_>) -> Result<Vec<File>, RenderError> {
    let source = input.source.ok_or(RenderError::NoSource(NAME))?;
    check_source(source, NAME)?;
    let applications = Applications::new(Form::Rendered { bundle: input.recipe, source }, input)?;
    let templates = Templates::new(SOURCES)?;
    let context = Context {
        readme: Readme::new(input.recipe, input.plan),
        source,
        pinned: "a tag",
        path: source.join(APPS),
        folder: source.path.clone(),
        root_project: format!("{}-root", input.recipe),
        control_namespace: CONTROL_NAMESPACE,
        server: IN_CLUSTER,
        retry: RETRY,
    };
    let mut files = chart::all(input)?;
    files.extend(applications.files(APPS, NAME)?);
    files.push(File::text("project.yaml", applications.project()?));
    for name in ["root.yaml", "root-project.yaml", "README.md"] {
        files.push(File::text(name, templates.render(&format!("{name}.j2"), &context)?));
    }
    files.push(File::text(HEALTH, HEALTH_TEXT));
    Ok(files)
}
