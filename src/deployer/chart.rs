//! The charts that a bundle brings itself: their folder is the chart. The same for every deployer.

use serde::Serialize;
use serde_json::{Map, Value};

use super::file::File;
use super::layout::{SETTINGS, VALUES};
use super::template::{RenderError, Templates};
use crate::contract::yaml;
use crate::release::model::{Crds, Hook, Manifests, Upstream};

const SOURCES: &[(&str, &str)] = &[
    ("Chart.yaml.j2", include_str!("../../templates/shared/Chart.yaml.j2")),
    ("values.yaml.j2", include_str!("../../templates/shared/values.yaml.j2")),
    ("rollout.yaml.j2", include_str!("../../templates/shared/rollout.yaml.j2")),
];

/// The version of charts whose content has no version of its own.
const VERSION: &str = "1.0.0";

/// Writes the parts that all deployers share.
pub struct Charts<'a> {
    templates: Templates,
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
struct HookContext<'a> {
    release: &'a str,
    component: &'a str,
    budget: &'a str,
    settings: &'a Map<String, Value>,
}

impl<'a> Charts<'a> {
    /// With the hook chart's files.
    ///
    /// # Errors
    /// A template that does not compile.
    pub fn new(hook_chart: &'a [(&'a str, &'a str)]) -> Result<Self, RenderError> {
        Ok(Self { templates: Templates::new(SOURCES)?, hook_chart })
    }

    /// The values file of a vendor's chart. `hook` is the release that shares it.
    ///
    /// # Errors
    /// See [`RenderError`]; likewise below.
    pub fn values(&self, folder: &str, name: &str, upstream: &Upstream, hook: Option<&str>) -> Result<File, RenderError> {
        let (chart, version) = (upstream.chart.place(), upstream.version.as_str());
        let context = ValuesContext { release: name, chart, version, hook, values: &upstream.values };
        Ok(File::text(format!("{folder}/{VALUES}"), self.templates.render("values.yaml.j2", context)?))
    }

    /// A chart of CRDs.
    ///
    /// # Errors
    /// As above.
    pub fn crds(&self, folder: &str, name: &str, crds: &Crds) -> Result<Vec<File>, RenderError> {
        let description = format!("The CRDs of {} {}. Helm never deletes them.", crds.component, crds.version);
        let mut files = vec![self.chart(folder, name, description, &crds.version)?];
        files.extend(crds.crds.iter().map(|crd| File::text(format!("{folder}/templates/{}.yaml", crd.name), literal(&crd.text))));
        Ok(files)
    }

    /// A chart of other objects, one file an object.
    ///
    /// # Errors
    /// As above.
    pub fn manifests(&self, folder: &str, name: &str, manifests: &Manifests) -> Result<Vec<File>, RenderError> {
        let mut files = vec![self.chart(folder, name, format!("{}. Helm never deletes them.", manifests.description), VERSION)?];
        for object in &manifests.objects {
            let part = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
            let path = format!("{folder}/templates/{}-{}.yaml", part(&object["kind"]), part(&object["metadata"]["name"]));
            let text = yaml::to_string(object).map_err(|_| RenderError::Yaml(path.clone()))?;
            files.push(File::text(path, literal(&text)));
        }
        Ok(files)
    }

    /// A hook release: a copy of the hook chart, and its own settings.
    ///
    /// # Errors
    /// As above.
    pub fn hook(&self, folder: &str, name: &str, hook: &Hook) -> Result<Vec<File>, RenderError> {
        let mut files: Vec<File> = self.hook_chart.iter().map(|(path, text)| File::text(format!("{folder}/{path}"), *text)).collect();
        let context = HookContext { release: name, component: &hook.component, budget: &hook.budget.explanation, settings: &hook.settings };
        files.push(File::text(format!("{folder}/{SETTINGS}"), self.templates.render("rollout.yaml.j2", context)?));
        Ok(files)
    }

    fn chart(&self, folder: &str, name: &str, description: String, version: &str) -> Result<File, RenderError> {
        let app_version = (version != VERSION).then_some(version);
        let context = ChartContext { name, description, version: version.trim_start_matches('v'), app_version };
        Ok(File::text(format!("{folder}/Chart.yaml"), self.templates.render("Chart.yaml.j2", context)?))
    }
}

/// Text that Helm's templating must leave as it is.
fn literal(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}
