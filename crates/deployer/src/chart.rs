//! The charts that a bundle brings itself: their folder is the chart. The same for every deployer.

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::DeployerInput;
use super::file::BundleFile;
use super::language::evaluated;
use super::layout::{CHART, SETTINGS, VALUES, folders, hook_of};
use super::template::{RenderError, TemplateSet};
use contract::digest::hex;
use release::model::{CrdsRelease, HookReleasePlan, ManifestsRelease, ReleaseKind, UpstreamRelease};

const SOURCES: &[(&str, &str)] = &[
    ("Chart.yaml.j2", include_str!("../../../templates/shared/Chart.yaml.j2")),
    ("values.yaml.j2", include_str!("../../../templates/shared/values.yaml.j2")),
    ("objects.yaml.j2", include_str!("../../../templates/shared/objects.yaml.j2")),
    ("rollout.yaml.j2", include_str!("../../../templates/shared/rollout.yaml.j2")),
];

/// The version of charts whose content has no version of its own.
const VERSION: &str = "1.0.0";
/// The objects of the values file, as they stand there. As JSON: Helm's `toYaml` writes texts that it does not read back.
const OBJECTS_TEMPLATE: &str = "{{- range .Values.objects }}\n---\n{{ toJson . }}\n{{- end }}\n";
/// How much of a content's digest stands in the version of its chart.
const DIGEST_LENGTH: usize = 12;

/// Writes the parts that all deployers share.
pub struct SharedFilesWriter<'a> {
    templates: TemplateSet,
    hook_chart: &'a [(&'a str, &'a str)],
}

#[derive(Serialize)]
struct ChartContext<'a> {
    name: &'a str,
    description: String,
    version: &'a str,
    app_version: Option<&'a str>,
}

#[derive(Serialize)]
struct ValuesContext<'a> {
    release: &'a str,
    chart: String,
    version: &'a str,
    hook: Option<&'a str>,
    values: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct ObjectsContext<'a> {
    release: &'a str,
    hook: Option<&'a str>,
    objects: &'a [Value],
}

#[derive(Serialize)]
struct HookContext<'a> {
    release: &'a str,
    component: &'a str,
    budget: &'a str,
    settings: &'a Map<String, Value>,
}

/// The folders of all releases: what every deployer's bundle holds, to the byte.
///
/// # Errors
/// A template or a value of ours that cannot be written.
pub fn shared_files(input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    let charts = SharedFilesWriter::new(input.hook_chart)?;
    let mut files = Vec::new();
    for (folder, release) in folders(input.plan) {
        let hook = hook_of(input.plan, &release.name);
        match &release.kind {
            ReleaseKind::Upstream(upstream) => files.push(charts.values(&folder, &release.name, upstream, hook)?),
            ReleaseKind::Crds(crds) => files.extend(charts.crds(&folder, &release.name, crds)?),
            ReleaseKind::Manifests(manifests) => files.extend(charts.manifests(&folder, &release.name, manifests, hook)?),
            ReleaseKind::Hook(hook) => files.extend(charts.hook(&folder, &release.name, hook)?),
        }
    }
    Ok(files)
}

impl<'a> SharedFilesWriter<'a> {
    /// With the hook chart's files.
    ///
    /// # Errors
    /// A template that does not compile.
    pub fn new(hook_chart: &'a [(&'a str, &'a str)]) -> Result<Self, RenderError> {
        Ok(Self { templates: TemplateSet::new(SOURCES)?, hook_chart })
    }

    /// The values file of a vendor's chart. `hook` is the release that shares it.
    ///
    /// # Errors
    /// See [`RenderError`]; likewise below.
    pub fn values(&self, folder: &str, name: &str, upstream: &UpstreamRelease, hook: Option<&str>) -> Result<BundleFile, RenderError> {
        let (chart, version) = (upstream.chart.place(), upstream.version.as_str());
        let context = ValuesContext { release: name, chart, version, hook, values: &upstream.values };
        Ok(BundleFile::text(format!("{folder}/{VALUES}"), self.templates.render("values.yaml.j2", context)?))
    }

    /// A chart of CRDs.
    ///
    /// # Errors
    /// As above.
    pub fn crds(&self, folder: &str, name: &str, crds: &CrdsRelease) -> Result<Vec<BundleFile>, RenderError> {
        let description = format!("The CRDs of {} {}. Helm never deletes them.", crds.component, crds.version);
        let mut files: Vec<BundleFile> =
            crds.crds.iter().map(|crd| BundleFile::text(format!("{folder}/templates/{}.yaml", crd.name), evaluated(&crd.text))).collect();
        files.insert(0, self.chart(folder, name, description, &crds.version, &files)?);
        Ok(files)
    }

    /// A chart of other objects: one file an object, or a values file with all of them.
    ///
    /// # Errors
    /// As above.
    pub fn manifests(
        &self,
        folder: &str,
        name: &str,
        manifests: &ManifestsRelease,
        hook: Option<&str>,
    ) -> Result<Vec<BundleFile>, RenderError> {
        let mut files = Vec::new();
        if manifests.shared {
            let context = ObjectsContext { release: name, hook, objects: &manifests.objects };
            files.push(BundleFile::text(format!("{folder}/{VALUES}"), self.templates.render("objects.yaml.j2", context)?));
            files.push(BundleFile::text(format!("{folder}/templates/objects.yaml"), OBJECTS_TEMPLATE));
        } else {
            for object in &manifests.objects {
                let part = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
                let path = format!("{folder}/templates/{}-{}.yaml", part(&object["kind"]), part(&object["metadata"]["name"]));
                let text = yaml::to_string(object).map_err(|_| RenderError::Yaml(path.clone()))?;
                files.push(BundleFile::text(path, evaluated(&text)));
            }
        }
        // An edit of values is seen by every deployer, and must not need another version.
        let content: Vec<BundleFile> = files.iter().filter(|file| !file.path.ends_with(VALUES)).cloned().collect();
        files.insert(0, self.chart(folder, name, manifests.description.clone(), VERSION, &content)?);
        Ok(files)
    }

    /// A hook release: a copy of the hook chart, and its own settings.
    ///
    /// # Errors
    /// As above.
    pub fn hook(&self, folder: &str, name: &str, hook: &HookReleasePlan) -> Result<Vec<BundleFile>, RenderError> {
        let mut files: Vec<BundleFile> =
            self.hook_chart.iter().map(|(path, text)| BundleFile::text(format!("{folder}/{path}"), *text)).collect();
        let digest = content_digest(&files);
        for file in files.iter_mut().filter(|file| file.path == format!("{folder}/{CHART}")) {
            file.content = with_digest(&file.content, &digest);
        }
        let context = HookContext { release: name, component: &hook.component, budget: &hook.budget.explanation, settings: &hook.settings };
        files.push(BundleFile::text(format!("{folder}/{SETTINGS}"), self.templates.render("rollout.yaml.j2", context)?));
        Ok(files)
    }

    /// `Chart.yaml` of a chart with this content.
    fn chart(
        &self,
        folder: &str,
        name: &str,
        description: String,
        version: &str,
        content: &[BundleFile],
    ) -> Result<BundleFile, RenderError> {
        let app_version = (version != VERSION).then_some(version);
        let version = format!("{}+{}", version.trim_start_matches('v'), content_digest(content));
        let chart = ChartContext { name, description, version: &version, app_version };
        Ok(BundleFile::text(format!("{folder}/{CHART}"), self.templates.render("Chart.yaml.j2", chart)?))
    }
}

/// A chart of other content must have another version: Flux looks at nothing else of a chart that lies in a repository.
pub fn content_digest(files: &[BundleFile]) -> String {
    let mut hasher = Sha256::new();
    for file in files {
        // The folder's number says nothing about the content.
        let inside = file.path.split_once('/').map_or("", |(_, inside)| inside);
        hasher.update((inside.len() as u64).to_le_bytes());
        hasher.update(inside);
        hasher.update((file.content.len() as u64).to_le_bytes());
        hasher.update(&file.content);
    }
    format!("d{}", &hex(&hasher.finalize())[..DIGEST_LENGTH])
}

/// `Chart.yaml` with the digest behind its version.
fn with_digest(chart: &[u8], digest: &str) -> Vec<u8> {
    let mut text = String::with_capacity(chart.len() + digest.len() + 1);
    for line in String::from_utf8_lossy(chart).lines() {
        text.push_str(line);
        if line.starts_with("version:") {
            text.extend(["+", digest]);
        }
        text.push('\n');
    }
    text.into_bytes()
}
