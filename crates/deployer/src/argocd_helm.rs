//! The deployer `argocd-helm`: an umbrella chart of the same Applications as those of `argocd`.
//! Repository, revision, cluster and project are its values. The components' values stay in the
//! repository's numbered folders.

use minijinja::context;
use minijinja::value::Serde;

use super::argocd_application::application_form::{CONTROL_NAMESPACE, IN_CLUSTER};
use super::argocd_application::readme::readme_context;
use super::argocd_application::{
    ApplicationForm, ApplicationWriter, FINALIZERS, HEALTH, HEALTH_TEXT, NOTES, TAKEOVER,
    check_revision,
};
use super::file::BundleFile;
use super::template::{LEFTOVERS, RenderError, TemplateSet};
use super::{BundleSource, DeployerInput, chart};

const NAME: &str = "argocd-helm";
/// Maximum length of a release name in Helm.
const LONGEST_RELEASE_NAME: usize = 53;
const SOURCES: &[(&str, &str)] = &[
    ("Chart.yaml.j2", include_str!("../../../templates/argocd-helm/Chart.yaml.j2")),
    ("values.yaml.j2", include_str!("../../../templates/argocd-helm/values.yaml.j2")),
    ("README.md.j2", include_str!("../../../templates/argocd-helm/README.md.j2")),
    LEFTOVERS,
    NOTES,
    FINALIZERS,
    TAKEOVER,
];
/// Files that are the same in every bundle.
const FIXED: &[(&str, &str)] = &[
    (".helmignore", include_str!("../../../templates/argocd-helm/helmignore")),
    ("values.schema.json", include_str!("../../../templates/argocd-helm/values.schema.json")),
    ("templates/_helpers.tpl", include_str!("../../../templates/argocd-helm/_helpers.tpl")),
];

/// Returns the name of the umbrella chart's own release. The name of a recipe may be longer than
/// Helm allows, and no template depends on the release's name.
fn release_name(recipe: &str) -> &str {
    recipe.get(..LONGEST_RELEASE_NAME).unwrap_or(recipe).trim_end_matches('-')
}

/// Returns the next steps for the bundle in `directory`.
pub fn next(recipe: &str, directory: &str, source: Option<&BundleSource>) -> Vec<String> {
    let settings = if source.is_some() {
        ""
    } else {
        " --set repoURL=URL --set-string targetRevision=REVISION --set path=DIR"
    };
    vec![
        format!("commit and push {directory} to a Git repository"),
        format!(
            "kubectl --namespace {CONTROL_NAMESPACE} patch configmap argocd-cm --patch-file {directory}/{HEALTH}"
        ),
        format!(
            "helm upgrade --install {} {directory} --namespace {CONTROL_NAMESPACE}{settings}",
            release_name(recipe)
        ),
    ]
}

/// Checks that Argo CD can read the bundle from the repository that its values name. The chart gets
/// its repository only at installation, so it contains no values of components, and Argo CD reads
/// values files for a chart from another source only from Git.
fn check_source(source: &BundleSource) -> Result<(), RenderError> {
    if source.is_oci() {
        return Err(RenderError::unable(
            NAME,
            format!("reads values files only from Git, and `{}` is an OCI registry", source.url),
            "name a Git repository: --repo https://… or ssh://…; for a registry, render with `-d argocd`",
        ));
    }
    check_revision(source, NAME)
}

/// Returns the files of a bundle for Argo CD whose repository can be named at installation.
///
/// # Errors
/// See [`RenderError`].
pub fn files(input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    if let Some(source) = input.source {
        check_source(source)?;
    }
    let applications = ApplicationWriter::new(ApplicationForm::Template, input)?;
    let mut files = applications.files("templates", NAME)?;
    let project = applications.project()?;
    files.push(BundleFile::text(
        "templates/project.yaml",
        format!("{{{{- if .Values.createProject }}}}\n{project}{{{{- end }}}}\n"),
    ));
    files.extend(FIXED.iter().map(|(path, text)| BundleFile::text(*path, *text)));
    let templates = TemplateSet::new(SOURCES)?;
    let context = context! {
        source => Serde(input.source),
        // The kinds of revisions that waves get one after another.
        pinned => "a tag or a commit",
        server => IN_CLUSTER,
        // The name of the chart's own release.
        own_release => release_name(input.recipe),
        version => format!("1.0.0+{}", chart::content_digest(&files)),
        ..readme_context(input)
    };
    for name in ["Chart.yaml", "values.yaml", "README.md"] {
        files.push(BundleFile::text(name, templates.render(&format!("{name}.j2"), &context)?));
    }
    files.push(BundleFile::text(HEALTH, HEALTH_TEXT));
    files.extend(chart::shared_files(input)?);
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a recipe's name can have 63 characters, and Helm refused the printed command.
    #[test]
    fn helm_accepts_the_release_name_of_the_longest_recipe() {
        let (start, end) = ("a".repeat(LONGEST_RELEASE_NAME - 1), "b".repeat(10));
        assert_eq!(release_name(&format!("{start}{end}")), format!("{start}b"));
        let recipe = format!("{start}-{end}");
        assert_eq!((recipe.len(), release_name(&recipe)), (63, start.as_str()));
        assert_eq!(release_name("base"), "base");
        let commands = next(&recipe, "bundle", None);
        assert!(commands[2].starts_with(&format!("helm upgrade --install {start} bundle ")));
    }
}
