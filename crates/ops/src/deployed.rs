//! Reads what is deployed as a recipe: the components of the catalog with their values, and the
//! settings of the hooks. Changes nothing in the cluster.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use catalog::lookup;
use contract::driver::Driver;
use contract::names;
use contract::settings::Settings;
use diagnostics::diagnostic::{Diagnostics, Severity};
use diagnostics::lint::Lint;
use kube::Client;
use kube_io::call::CallError;
use kube_io::client::{is_openshift, server_version};
use kube_io::helm::{DeployedRelease, DeployedReleases, releases};
use kube_io::raw::spec;
use planner::spec::chart::version_of;
use recipe::load::load;
use recipe::model::{
    ClusterFacts, ClusterPlatform, RecipeAdmissionPolicy, RecipeComponent, RecipeMetrics,
};
use recipe::read::{ReadError, TextReader};
use release::EmbeddedCatalog;
use release::deployed::{DeployedStack, recipe, unmapped_settings, without_defaults};

use super::observe::{ObserveError, RolloutSnapshot};
use super::session::ClusterSession;
use super::status::status;

/// The recipe lints that apply to a recipe that is already deployed. The others are about rendering
/// a bundle.
pub(crate) const DEPLOYED_LINTS: [Lint; 11] = [
    Lint::UnknownKey,
    Lint::WrongType,
    Lint::UnknownValue,
    Lint::NoEffect,
    Lint::TwoDevicePlugins,
    Lint::PluginAndDra,
    Lint::RunsTwice,
    Lint::DriverCrd,
    Lint::DriverRoot,
    Lint::GpuOverride,
    Lint::Incompatible,
];

/// The deployed components and settings.
pub struct DeployedRecipe {
    /// The deployed components of the catalog.
    pub components: Vec<RecipeComponent>,
    /// The recipe, without default values.
    pub document: Value,
    /// What could not be read, for people.
    pub notes: Vec<String>,
}

impl DeployedRecipe {
    /// Reads what is deployed, in all namespaces or in one. RBAC: `list` on `secrets` for Helm's
    /// releases, and `get` on the custom resources of the components. Without `list` on `secrets`,
    /// versions are read from the operators' labels, and values are unknown.
    ///
    /// # Errors
    /// A call failed.
    pub async fn read(
        session: &ClusterSession,
        snapshots: &[RolloutSnapshot],
        namespace: Option<&str>,
    ) -> Result<Self, ObserveError> {
        let mut notes = Vec::new();
        let releases = helm_releases(session.client(), namespace, &mut notes).await?;
        let mut components = components(&releases, snapshots);
        for component in &mut components {
            read_custom_resources(session.client(), component).await?;
        }
        let cluster = cluster_facts(session.client(), snapshots, &mut notes).await;
        let hooks: Vec<&Settings> = session.hooks().collect();
        let stack = DeployedStack {
            cluster,
            components: components.clone(),
            hooks: &hooks,
            metrics: metrics(&releases),
            admission_policy: admission_policy(&releases),
        };
        Ok(Self { document: without_defaults(&recipe(stack, &EmbeddedCatalog)), components, notes })
    }

    /// Applies the recipe rules to what is deployed. What cannot be checked becomes a note.
    pub(crate) fn check(&self, notes: &mut Vec<String>) -> Diagnostics {
        // YAML can express this JSON document, because it was YAML before Helm stored it.
        let text = yaml::to_string(&self.document).unwrap_or_default();
        let Diagnostics { sources, mut list } = match load("-", &[], &mut StandardInput(text)) {
            Ok(loaded) => loaded.warnings,
            Err(findings) => findings,
        };
        // No rule is applied to what cannot be read as a recipe. That does not mean that there is
        // no problem.
        let unread = list
            .iter()
            .find(|finding| finding.severity == Severity::Error && finding.lint.is_none());
        notes.extend(unread.map(|finding| {
            format!(
                "cannot apply the recipe rules to everything that is deployed: {}",
                finding.message
            )
        }));
        list.retain(|finding| finding.lint.is_some_and(|lint| DEPLOYED_LINTS.contains(&lint)));
        Diagnostics { sources, list }
    }
}

/// A text reader that returns this text as standard input.
struct StandardInput(String);

impl TextReader for StandardInput {
    fn file(&mut self, _: &str) -> Result<String, ReadError> {
        Err(ReadError::Missing)
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        Ok(self.0.clone())
    }
}

async fn helm_releases(
    client: &Client,
    namespace: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Vec<DeployedRelease>, ObserveError> {
    match releases(client, namespace).await {
        Ok(DeployedReleases { deployed, unreadable }) => {
            notes.extend(unreadable.iter().map(|name| {
                format!("cannot read the release {name}: its storage format is not supported")
            }));
            Ok(deployed)
        }
        Err(CallError::Forbidden(message)) => {
            notes
                .push(format!("cannot read Helm's releases, so values are not checked: {message}"));
            Ok(Vec::new())
        }
        Err(error) => Err(error.into()),
    }
}

/// Finds the components of the catalog by their Helm releases, or by their operators' labels if
/// there is no readable release.
fn components(releases: &[DeployedRelease], snapshots: &[RolloutSnapshot]) -> Vec<RecipeComponent> {
    let mut all: Vec<RecipeComponent> = Vec::new();
    for name in catalog::component_names() {
        let is_its = |chart: &str, version: &str| {
            catalog::component(name).is_some_and(|entry| entry.chart_in(version) == chart)
        };
        let release = releases.iter().find(|release| is_its(&release.chart, &release.version));
        all.extend(release.map(|release| {
            component(name, &release.version, &release.namespace, release.values.clone())
        }));
    }
    for snapshot in snapshots {
        let settings = &snapshot.settings;
        let operator = snapshot
            .observed
            .operator
            .as_ref()
            .filter(|_| all.iter().all(|known| known.name != settings.component));
        let version =
            operator.and_then(|operator| version_of(operator.chart.as_ref()?, &settings.component));
        all.extend(version.map(|version| {
            component(&settings.component, version, &settings.operator_namespace, Map::new())
        }));
    }
    all
}

fn component(
    name: &str,
    version: &str,
    namespace: &str,
    values: Map<String, Value>,
) -> RecipeComponent {
    RecipeComponent {
        version: Some(version.to_owned()),
        namespace: Some(namespace.to_owned()),
        values,
        ..RecipeComponent::from_name(name)
    }
}

/// Reads the custom resources that the component's operator uses and its chart does not contain.
async fn read_custom_resources(
    client: &Client,
    component: &mut RecipeComponent,
) -> Result<(), ObserveError> {
    let version = component.version.as_deref().unwrap_or_default();
    let known = catalog::component(&component.name)
        .map(|entry| &entry.closest_version(version).custom_resources);
    for resource in known.into_iter().flatten() {
        let Some(group_version) = resource.api_version.split_once('/') else { continue };
        if let Some(spec) = spec(client, group_version, &resource.kind, &resource.name).await? {
            component.custom_resources.insert(resource.kind.clone(), Value::Object(spec));
        }
    }
    Ok(())
}

async fn cluster_facts(
    client: &Client,
    snapshots: &[RolloutSnapshot],
    notes: &mut Vec<String>,
) -> ClusterFacts {
    let kubernetes = match server_version(client).await {
        Ok(version) => Some(format!("={version}")),
        Err(error) => {
            notes.push(format!("cannot read the version of the API server: {error}"));
            None
        }
    };
    let platform = match is_openshift(client).await {
        Ok(true) => ClusterPlatform::Openshift,
        Ok(false) => ClusterPlatform::Kubernetes,
        Err(error) => {
            notes.push(format!("cannot find out whether the cluster is OpenShift: {error}"));
            ClusterPlatform::Kubernetes
        }
    };
    let gpu = snapshots.iter().find(|snapshot| snapshot.settings.driver == Driver::Gpu);
    let fleet = gpu.map_or(0, |snapshot| status(snapshot).totals.nodes);
    ClusterFacts {
        gpu_nodes: u32::try_from(fleet).unwrap_or(u32::MAX).max(1),
        platform,
        kubernetes,
    }
}

/// Reads a part of the values of each hook release. Values of an older chart with other keys are
/// left out.
fn of_hooks<T: DeserializeOwned>(releases: &[DeployedRelease], path: &str) -> Vec<T> {
    let hooks = releases.iter().filter(|release| release.chart == names::PROGRAM);
    let values = hooks.filter_map(|release| lookup(&release.values, path).cloned());
    values.filter_map(|values| serde_json::from_value(values).ok()).collect()
}

/// Reads the admission policies of the hook releases, which are equal in a bundle.
fn admission_policy(releases: &[DeployedRelease]) -> RecipeAdmissionPolicy {
    let all: Vec<RecipeAdmissionPolicy> = of_hooks(releases, "rollout.admissionPolicy");
    all.into_iter().find(|policy| policy.enabled).unwrap_or_default()
}

/// Reads the metrics settings of the hook releases. Only one hook release of a bundle has the
/// dashboard.
fn metrics(releases: &[DeployedRelease]) -> RecipeMetrics {
    let mut all: Vec<RecipeMetrics> = of_hooks(releases, "rollout.metrics");
    let chosen = all
        .iter()
        .position(|metrics| metrics.dashboard.enabled)
        .or_else(|| all.iter().position(|metrics| metrics.enabled));
    chosen.map(|chosen| all.swap_remove(chosen)).unwrap_or_default()
}

/// Describes the settings of a hook that a recipe cannot express, and that deploying the recipe
/// would change.
pub fn describe_lost_settings(settings: &Settings) -> Option<String> {
    let hook = format!("the hook {}/{}", settings.namespace, settings.release);
    if !settings.driver.has_operator() {
        return Some(format!(
            "not in the recipe: {hook}, which rolls out a DaemonSet that is not part of any component"
        ));
    }
    let keys: Vec<String> =
        unmapped_settings(settings).into_iter().map(|key| format!("`rollout.{key}`")).collect();
    (!keys.is_empty()).then(|| {
        format!(
            "not in the recipe, because recipes have no key for it: {} of {hook}",
            keys.join(", ")
        )
    })
}
