//! The bundle's own charts, each in its release's folder. They are the same for every deployer.

use std::borrow::Cow;

use minijinja::context;
use minijinja::value::Serde;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::DeployerInput;
use super::file::BundleFile;
use super::layout::{CHART, FILES, SETTINGS, VALUES, folders, hook_of};
use super::template::{RenderError, TemplateSet};
use super::template_language::evaluated;
use contract::digest::hex;
use contract::file_content::FileContent;
use release::model::{
    CrdsRelease, HookReleasePlan, ManifestsRelease, ReleaseKind, ReleasedCrd, TemplatesRelease,
    UpstreamRelease,
};

const SOURCES: &[(&str, &str)] = &[
    ("Chart.yaml.j2", include_str!("../../../templates/shared/Chart.yaml.j2")),
    ("values.yaml.j2", include_str!("../../../templates/shared/values.yaml.j2")),
    ("manifests.yaml.j2", include_str!("../../../templates/shared/manifests.yaml.j2")),
    ("objects.yaml.j2", include_str!("../../../templates/shared/objects.yaml.j2")),
    ("rollout.yaml.j2", include_str!("../../../templates/shared/rollout.yaml.j2")),
];

/// The version of charts whose content has no version.
const VERSION: &str = "1.0.0";
/// Prints the objects of the values file unchanged. It prints JSON, because Helm's `toYaml` writes
/// some strings that Helm does not read back.
const OBJECTS_TEMPLATE: &str = "{{- range .Values.objects }}\n---\n{{ toJson . }}\n{{- end }}\n";
/// Evaluates the recipe's own templates, which are the files of its chart.
const MANIFESTS_TEMPLATE: &str = include_str!("../../../templates/shared/manifests.tpl.yaml");
/// How many digits of the content's digest are in the version of its chart.
const DIGEST_LENGTH: usize = 12;

/// Returns the folders of all releases. They are byte-identical for all deployers.
///
/// # Errors
/// A template or a value cannot be written.
pub fn shared_files(input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    let templates = TemplateSet::new(SOURCES)?;
    let mut files = Vec::new();
    for (folder, release) in folders(input.plan) {
        // The hook release that shares the values.
        let hook = hook_of(input.plan, &release.name);
        let folder = ReleaseFolder { templates: &templates, folder: &folder, name: &release.name };
        match &release.kind {
            // Everything is in its own Git repository.
            ReleaseKind::Kustomization(_) => {}
            ReleaseKind::Upstream(upstream) => files.push(folder.values(upstream, hook)?),
            ReleaseKind::Crds(crds) => files.extend(folder.crds(crds)?),
            ReleaseKind::Manifests(manifests) => files.extend(folder.manifests(manifests, hook)?),
            ReleaseKind::Templates(templates) => files.extend(folder.templates(templates, hook)?),
            ReleaseKind::Hook(hook) => files.extend(folder.hook(input.hook_chart, hook)?),
        }
    }
    Ok(files)
}

/// The folder of one release.
struct ReleaseFolder<'a> {
    templates: &'a TemplateSet,
    folder: &'a str,
    /// The release's name.
    name: &'a str,
}

impl ReleaseFolder<'_> {
    /// Returns a file of the folder.
    fn file(&self, path: &str, content: impl Into<FileContent>) -> BundleFile {
        BundleFile::text(format!("{}/{path}", self.folder), content)
    }

    /// Returns the values file of a vendor's chart.
    fn values(
        &self,
        upstream: &UpstreamRelease,
        hook: Option<&str>,
    ) -> Result<BundleFile, RenderError> {
        let (chart, version) = (upstream.chart.place(), &upstream.version);
        let context = context! { release => self.name, chart, version, hook, values => Serde(&upstream.values) };
        Ok(self.file(VALUES, self.templates.render("values.yaml.j2", context)?))
    }

    /// Returns a chart of CRDs.
    fn crds(&self, crds: &CrdsRelease) -> Result<Vec<BundleFile>, RenderError> {
        let description =
            format!("CRDs of {} {}. Helm never deletes them.", crds.component, crds.version);
        let mut files: Vec<BundleFile> = crds
            .crds
            .iter()
            .map(|crd| self.file(&format!("templates/{}.yaml", crd.name), crd_template(crd)))
            .collect();
        files.insert(0, self.chart(&description, &crds.version, &files)?);
        Ok(files)
    }

    /// Returns a chart of other objects: one file for each object, or a values file with all of
    /// them.
    fn manifests(
        &self,
        manifests: &ManifestsRelease,
        hook: Option<&str>,
    ) -> Result<Vec<BundleFile>, RenderError> {
        let mut files = Vec::new();
        if manifests.shared {
            let context =
                context! { release => self.name, hook, objects => Serde(&manifests.objects) };
            files.push(self.file(VALUES, self.templates.render("objects.yaml.j2", context)?));
            files.push(self.file("templates/objects.yaml", OBJECTS_TEMPLATE));
        } else {
            for object in &manifests.objects {
                let part = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
                let path = format!(
                    "templates/{}-{}.yaml",
                    part(&object["kind"]),
                    part(&object["metadata"]["name"])
                );
                let text = yaml::to_string(object)
                    .map_err(|_| RenderError::Yaml(format!("{}/{path}", self.folder)))?;
                files.push(self.file(&path, evaluated(&text).into_owned()));
            }
        }
        // Every deployer sees an edit of values, so it must not need another version.
        let content: Vec<BundleFile> =
            files.iter().filter(|file| !file.path.ends_with(VALUES)).cloned().collect();
        files.insert(0, self.chart(&manifests.description, VERSION, &content)?);
        Ok(files)
    }

    /// Returns a chart that evaluates the recipe's own templates.
    fn templates(
        &self,
        templates: &TemplatesRelease,
        hook: Option<&str>,
    ) -> Result<Vec<BundleFile>, RenderError> {
        let files = templates.files.iter();
        let mut files: Vec<BundleFile> =
            files.map(|(name, text)| self.file(&format!("{FILES}/{name}"), text.clone())).collect();
        // All values files that a hook consumes are merged, so the key is the release's own. The
        // hook does not have the texts. Their digest in its values changes its trigger.
        let own = json!({self.name: {
            "component": templates.component,
            "chart": {"name": templates.chart, "version": templates.chart_version},
            "content": content_digest(&files),
            "values": templates.values,
        }});
        files.push(self.file("templates/manifests.yaml", MANIFESTS_TEMPLATE));
        let context = context! { component => &templates.component, release => self.name, hook, is_shared => !templates.shares.is_empty(), own => Serde(&own) };
        files.push(self.file(VALUES, self.templates.render("manifests.yaml.j2", context)?));
        // The version covers the values file too. Flux keeps a chart of the same version, and Helm
        // merges new values over those in it, so a removed value would stay.
        files.insert(0, self.chart(&templates.description, VERSION, &files)?);
        Ok(files)
    }

    /// Returns a hook release: a copy of the hook chart, and its own settings.
    fn hook(
        &self,
        chart: &[(&str, FileContent)],
        hook: &HookReleasePlan,
    ) -> Result<Vec<BundleFile>, RenderError> {
        let mut files: Vec<BundleFile> =
            chart.iter().map(|(path, content)| self.file(path, content.clone())).collect();
        let digest = content_digest(&files);
        for file in files.iter_mut().filter(|file| file.path == format!("{}/{CHART}", self.folder))
        {
            file.content = with_digest(file.content.as_str(), &digest).into();
        }
        let settings = Serde(&hook.settings);
        let context = context! { release => self.name, component => &hook.component, budget => &hook.budget.explanation, settings };
        files.push(self.file(SETTINGS, self.templates.render("rollout.yaml.j2", context)?));
        Ok(files)
    }

    /// Returns `Chart.yaml` of a chart with this content.
    fn chart(
        &self,
        description: &str,
        version: &str,
        content: &[BundleFile],
    ) -> Result<BundleFile, RenderError> {
        let app_version = (version != VERSION).then_some(version);
        let version = with_metadata(version.trim_start_matches('v'), &content_digest(content));
        let fields = context! { name => self.name, description, version, app_version };
        Ok(self.file(CHART, self.templates.render("Chart.yaml.j2", fields)?))
    }
}

/// Returns the digest for a chart's version. Charts with different content must have different
/// versions, because Flux detects a change of a chart in a repository only by its version.
pub fn content_digest(files: &[BundleFile]) -> String {
    let mut hasher = Sha256::new();
    for file in files {
        // The folder's number is not part of the content.
        let inside = file.path.split_once('/').map_or("", |(_, inside)| inside);
        hasher.update((inside.len() as u64).to_le_bytes());
        hasher.update(inside);
        hasher.update(file.content.sha256());
    }
    format!("d{}", &hex(&hasher.finalize())[..DIGEST_LENGTH])
}

/// Returns a CRD as a template that gives it unchanged.
fn crd_template(crd: &ReleasedCrd) -> FileContent {
    match evaluated(crd.text.as_str()) {
        Cow::Owned(template) => template.into(),
        Cow::Borrowed(_) => crd.text.clone(),
    }
}

/// Appends build metadata to a version, which may have some already: it can have only one `+`.
fn with_metadata(version: &str, metadata: &str) -> String {
    let separator = if version.contains('+') { '.' } else { '+' };
    format!("{version}{separator}{metadata}")
}

/// Appends the digest to the version in `Chart.yaml`.
fn with_digest(chart: &str, digest: &str) -> String {
    let mut text = String::with_capacity(chart.len() + digest.len() + 1);
    for line in chart.lines() {
        text.push_str(line);
        if line.starts_with("version:") {
            text.extend(["+", digest]);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use semver::Version;

    use super::*;

    /// Regression: a chart's version with `+` got a second one, which Helm refuses.
    #[test]
    fn version_with_build_metadata_stays_a_version() {
        let digest = content_digest(&[]);
        for (version, separator) in [("1.2.3", '+'), ("1.2.3-rc.1", '+'), ("1.2.3+build.7", '.')] {
            let joined = with_metadata(version, &digest);
            assert_eq!(joined, format!("{version}{separator}{digest}"));
            assert!(Version::parse(&joined).is_ok(), "{joined}");
        }
    }
}
