//! The deployer `argocd`: reads the root Application and the Applications that it creates.

use serde_json::Value;

use crate::ReadbackError;
use crate::application::{self, ApplicationSource, is_application, permits};
use crate::declared::DeclaredBundle;
use crate::files::TextFiles;
use crate::parsed_yaml::{documents, list, text};

/// The root Application.
pub(crate) const ROOT: &str = "root.yaml";
/// The project of the root Application.
const ROOT_PROJECT: &str = "root-project.yaml";
/// The project of the Applications.
const PROJECT: &str = "project.yaml";

/// Reads the declarations of the files.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn read_bundle(files: &TextFiles) -> Result<DeclaredBundle, ReadbackError> {
    let root: Value = files.yaml(ROOT)?.unwrap_or_default();
    let (spec, source) = (&root["spec"], &root["spec"]["source"]);
    let namespace = text(&spec["destination"], "namespace");
    let root_project: Value = files.yaml(ROOT_PROJECT)?.unwrap_or_default();
    let makes_applications =
        |kind: &Value| kind["group"] == "argoproj.io" && kind["kind"] == "Application";
    let is_permitted = permits(&root_project, spec)
        && list(&root_project["spec"], "namespaceResourceWhitelist").any(makes_applications);
    let path = text(source, "path");
    // The root's path is that of the Applications, one folder below the bundle.
    let (bundle, folder) =
        path.trim_matches('/').rsplit_once('/').unwrap_or(("", path.trim_matches('/')));
    let origin = ApplicationSource {
        repository: text(source, "repoURL"),
        revision: text(source, "targetRevision"),
        prefix: if bundle.is_empty() { String::new() } else { format!("{bundle}/") },
        prunes: spec["syncPolicy"]["automated"]["prune"] == true,
        holds_waves: is_application(&root, &namespace)
            && spec["syncPolicy"]["automated"].is_object()
            && is_permitted,
    };
    let mut applications = Vec::new();
    for (name, content) in files.below(folder) {
        let path = format!("{folder}/{name}");
        let objects = documents(&path, content)?;
        applications.extend(
            objects
                .into_iter()
                .filter(|object| is_application(object, &namespace))
                .map(|object| (path.clone(), object)),
        );
    }
    let project: Option<Value> = files.yaml(PROJECT)?;
    application::read_applications(files, &origin, project.as_ref(), &applications)
}
