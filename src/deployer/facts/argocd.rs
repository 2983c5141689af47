//! The deployer `argocd`: reads the root Application and those that it brings.

use serde_json::Value;

use super::FactsError;
use super::application::{self, Origin};
use super::files::Files;
use super::look::{documents, text};
use super::statement::Statements;

/// The root Application.
pub(super) const ROOT: &str = "root.yaml";

/// What the files state.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn statements(files: &Files) -> Result<Statements, FactsError> {
    let root: Value = files.yaml(ROOT)?.unwrap_or_default();
    let source = &root["spec"]["source"];
    let path = text(source, "path");
    // The root's path is that of the Applications, one folder below the bundle.
    let (bundle, folder) = path.trim_matches('/').rsplit_once('/').unwrap_or(("", path.trim_matches('/')));
    let origin = Origin {
        repository: text(source, "repoURL"),
        revision: text(source, "targetRevision"),
        prefix: if bundle.is_empty() { String::new() } else { format!("{bundle}/") },
    };
    let mut applications = Vec::new();
    for (name, content) in files.below(folder) {
        let path = format!("{folder}/{name}");
        let objects = documents(&path, content)?;
        applications.extend(objects.into_iter().filter(|object| object["kind"] == "Application").map(|object| (path.clone(), object)));
    }
    application::statements(files, &origin, &applications)
}
