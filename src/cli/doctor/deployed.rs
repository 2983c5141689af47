//! What is deployed, as `doctor` reads it: the components of the catalog, written down as a recipe and held to the rules of recipes.

use serde_json::{Map, Value};

use crate::cli::cluster::ClusterSession;
use catalog::{self, lookup};
use contract::driver::Driver;
use contract::names;
use contract::settings::Settings;
use diagnostics::diagnostic::{self, Diagnostics};
use diagnostics::lint::Lint;
use kube_io::call::CallError;
use kube_io::client::{is_openshift, server_version};
use kube_io::helm::{DeployedRelease, DeployedReleases, releases};
use kube_io::raw::spec;
use ops::observe::{ObserveError, RolloutSnapshot};
use ops::status::status;
use planner::spec::chart::version_of;
use recipe::load::load;
use recipe::model;
use recipe::read::{ReadError, TextReader};
use release::{EmbeddedCatalog, deployed};

/// What is said of a recipe and matters to a cluster in which it is deployed already. The others are about how a bundle would be made.
pub(super) const LINTS: [Lint; 11] = [
    Lint::UnknownKey,
    Lint::WrongType,
    Lint::UnknownWord,
    Lint::NoEffect,
    Lint::TwoDevicePlugins,
    Lint::PluginBesideDra,
    Lint::RunsTwice,
    Lint::DriverCrd,
    Lint::DriverRoot,
    Lint::GpuOverride,
    Lint::Incompatible,
];

/// What was found.
pub(super) struct DeployedFindings {
    /// The components of the catalog.
    pub(super) components: Vec<model::RecipeComponent>,
    /// What the hooks' releases say of monitoring.
    metrics: model::RecipeMetrics,
}

/// The components of the catalog that are deployed: by their Helm releases, or, where those may not be read, by what objects tell of their chart.
pub(super) async fn look(
    found: &ClusterSession,
    snapshots: &[RolloutSnapshot],
    namespace: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<DeployedFindings, ObserveError> {
    let releases = match releases(found.client(), namespace).await {
        Ok(DeployedReleases { deployed, unreadable }) => {
            notes.extend(unreadable.iter().map(|name| format!("the release {name} is kept in a way that cannot be read")));
            deployed
        }
        Err(CallError::Forbidden(message)) => {
            notes.push(format!("Helm's releases could not be read, so that values are not looked at: {message}"));
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    let mut all: Vec<model::RecipeComponent> = Vec::new();
    for name in catalog::component_names() {
        let is_its = |chart: &str, version: &str| catalog::component(name).is_some_and(|entry| entry.chart_in(version) == chart);
        let release = releases.iter().find(|release| is_its(&release.chart, &release.version));
        all.extend(release.map(|release| component(name, &release.version, &release.namespace, release.values.clone())));
    }
    for snapshot in snapshots {
        let settings = &snapshot.settings;
        let operator = snapshot.observed.operator.as_ref().filter(|_| all.iter().all(|known| known.name != settings.component));
        let version = operator.and_then(|operator| version_of(operator.chart.as_ref()?, &settings.component));
        all.extend(version.map(|version| component(&settings.component, version, &settings.operator_namespace, Map::new())));
    }
    for component in &mut all {
        custom_resources(found, component).await?;
    }
    Ok(DeployedFindings { components: all, metrics: monitored(&releases) })
}

/// What the hooks' releases say of monitoring. Only one of a bundle has the dashboard.
fn monitored(releases: &[DeployedRelease]) -> model::RecipeMetrics {
    let ours = releases.iter().filter(|release| release.chart == names::PROGRAM);
    let said = ours.filter_map(|release| lookup(&release.values, "rollout.metrics").cloned());
    // What an older chart called otherwise is left out.
    let mut said: Vec<model::RecipeMetrics> = said.filter_map(|said| serde_json::from_value(said).ok()).collect();
    let chosen = said.iter().position(|metrics| metrics.dashboard.enabled).or_else(|| said.iter().position(|metrics| metrics.enabled));
    chosen.map(|chosen| said.swap_remove(chosen)).unwrap_or_default()
}

/// What deploying the recipe would change, because recipes have no word for it.
pub(super) fn lost(settings: &Settings) -> Option<String> {
    let hook = format!("the hook {}/{}", settings.namespace, settings.release);
    if !settings.driver.has_operator() {
        return Some(format!("not in the recipe: {hook}, which rolls out a DaemonSet that no component brings"));
    }
    let keys: Vec<String> = deployed::unmapped_settings(settings).into_iter().map(|key| format!("`rollout.{key}`")).collect();
    (!keys.is_empty()).then(|| format!("not in the recipe, which has no word for it: {} of {hook}", keys.join(", ")))
}

fn component(name: &str, version: &str, namespace: &str, values: Map<String, Value>) -> model::RecipeComponent {
    model::RecipeComponent {
        version: Some(version.to_owned()),
        namespace: Some(namespace.to_owned()),
        values,
        ..model::RecipeComponent::from_name(name)
    }
}

/// Reads what the component's operator works from and its chart does not bring.
async fn custom_resources(found: &ClusterSession, component: &mut model::RecipeComponent) -> Result<(), ObserveError> {
    let version = component.version.as_deref().unwrap_or_default();
    let known = catalog::component(&component.name).map(|entry| &entry.closest_version(version).custom_resources);
    for resource in known.into_iter().flatten() {
        let Some(group_version) = resource.api_version.split_once('/') else { continue };
        if let Some(spec) = spec(found.client(), group_version, &resource.kind, &resource.name).await? {
            component.custom_resources.insert(resource.kind.clone(), Value::Object(spec));
        }
    }
    Ok(())
}

/// What is deployed as a recipe.
pub(super) async fn written(
    found: &ClusterSession,
    snapshots: &[RolloutSnapshot],
    deployed: &DeployedFindings,
    notes: &mut Vec<String>,
) -> Result<Value, ObserveError> {
    let kubernetes = match server_version(found.client()).await {
        Ok(version) => Some(format!("={version}")),
        Err(error) => {
            notes.push(format!("the server does not say which version it is: {error}"));
            None
        }
    };
    let platform = match is_openshift(found.client()).await {
        Ok(true) => model::ClusterPlatform::Openshift,
        Ok(false) => model::ClusterPlatform::Kubernetes,
        Err(error) => {
            notes.push(format!("the server does not say whether it is OpenShift: {error}"));
            model::ClusterPlatform::Kubernetes
        }
    };
    let gpu = snapshots.iter().find(|snapshot| snapshot.settings.driver == Driver::Gpu);
    let fleet = gpu.map_or(0, |snapshot| status(snapshot).totals.nodes);
    let cluster = model::ClusterFacts { gpu_nodes: u32::try_from(fleet).unwrap_or(u32::MAX).max(1), platform, kubernetes };
    let hooks: Vec<&Settings> = found.hooks().collect();
    let DeployedFindings { components, metrics } = deployed;
    let all = deployed::DeployedStack { cluster, components: components.clone(), hooks: &hooks, metrics: metrics.clone() };
    Ok(deployed::without_defaults(&deployed::recipe(all, &EmbeddedCatalog)))
}

/// The recipe on standard input is this one.
struct DeployedRecipe(String);

impl TextReader for DeployedRecipe {
    fn file(&mut self, _: &str) -> Result<String, ReadError> {
        Err(ReadError::Missing)
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        Ok(self.0.clone())
    }
}

/// What a recipe's rules say to what is deployed.
pub(super) fn held_to_rules(written: &Value, notes: &mut Vec<String>) -> Diagnostics {
    // A JSON document without anything that YAML cannot say: it was YAML before it came to Helm.
    let text = yaml::to_string(written).unwrap_or_default();
    let Diagnostics { sources, list } = match load("-", &[], &mut DeployedRecipe(text)) {
        Ok(loaded) => loaded.warnings,
        Err(findings) => findings,
    };
    // What cannot even be read as a recipe comes to no rule: that is not the same as nothing to find.
    let unread = list.iter().find(|finding| finding.severity == diagnostic::Severity::Error && finding.lint.is_none());
    notes.extend(
        unread.map(|finding| format!("not everything that is deployed could be held to the rules of recipes: {}", finding.message)),
    );
    Diagnostics { sources, list: list.into_iter().filter(|finding| finding.lint.is_some_and(|lint| LINTS.contains(&lint))).collect() }
}
