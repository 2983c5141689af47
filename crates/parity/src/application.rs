//! Reads Argo CD Applications, for both deployers that create them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::ReadbackError;
use crate::chart;
use crate::declared::{ChartLocation, DeclaredBundle, DeclaredRelease, DeployedEdits};
use crate::facts::{DeployerFact, PredecessorFacts, not_expressible};
use crate::files::{TextFiles, parse};
use crate::order::in_steps;
use crate::parsed_yaml::{list, text};
use contract::chart_files::VALUES;

/// The health check without which Argo CD does not wait between waves of Applications.
const HEALTH: &str = "argocd-cm-health.yaml";
/// The check's key in Argo CD's configuration.
const HEALTH_KEY: &str = "resource.customizations.health.argoproj.io_Application";
/// The API version of Argo CD's objects.
const API: &str = "argoproj.io/v1alpha1";
/// The annotation with the order of Applications.
const WAVE: &str = "argocd.argoproj.io/sync-wave";

/// The source of the bundle, according to its Applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ApplicationSource {
    /// The repository.
    pub(crate) repository: String,
    /// Its revision.
    pub(crate) revision: String,
    /// The bundle's folder in the repository, with `/` at its end unless it is the root.
    pub(crate) prefix: String,
    /// Whether Argo CD deletes Applications that are removed from the bundle.
    pub(crate) prunes: bool,
    /// Whether a root Application syncs the Applications wave by wave.
    pub(crate) holds_waves: bool,
}

/// Reads the declarations of Applications, from path and object of each. The path ends in
/// `NNN-<release>.yaml`.
///
/// # Errors
/// The values of an Application, or a health check, cannot be read.
pub(crate) fn read_applications(
    files: &TextFiles,
    origin: &ApplicationSource,
    project: Option<&Value>,
    applications: &[(String, Value)],
) -> Result<DeclaredBundle, ReadbackError> {
    let wave = |(path, application): &(String, Value)| {
        let wave = application["metadata"]["annotations"][WAVE].as_str().unwrap_or("0");
        let error = |_| ReadbackError::Unreadable {
            path: path.clone(),
            reason: format!("`{wave}` is not a wave"),
        };
        Ok((name(path), wave.parse::<i64>().map_err(error)?))
    };
    let waves: BTreeMap<String, i64> =
        applications.iter().map(wave).collect::<Result<_, ReadbackError>>()?;
    let health: Value = files.yaml(HEALTH)?.unwrap_or_default();
    let mut after = if origin.holds_waves && health["data"][HEALTH_KEY].is_string() {
        in_steps(&waves)
    } else {
        BTreeMap::new()
    };
    let mut releases = Vec::new();
    let server = commonest(
        applications
            .iter()
            .filter_map(|(_, application)| application["spec"]["destination"]["server"].as_str()),
    );
    for (path, application) in applications {
        let after = after.remove(&name(path)).unwrap_or_default();
        let reader =
            ApplicationReader { files, origin, path, spec: &application["spec"], server, project };
        releases.push(reader.read_release(application, after)?);
    }
    Ok(DeclaredBundle { timeout_of_all: None, releases })
}

/// Whether an object is an Application in Argo CD's own namespace, which Argo CD reads.
pub(crate) fn is_application(object: &Value, namespace: &str) -> bool {
    object["kind"] == "Application"
        && object["apiVersion"] == API
        && object["metadata"]["namespace"] == namespace
}

/// Returns the most frequent text; empty if there is none.
fn commonest<'a>(texts: impl Iterator<Item = &'a str>) -> &'a str {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map_or("", |(text, _)| text)
}

/// Whether a project permits the sources and namespaces of an Application.
pub(crate) fn permits(project: &Value, spec: &Value) -> bool {
    let is_project = project["kind"] == "AppProject"
        && project["apiVersion"] == API
        && project["metadata"]["name"] == spec["project"];
    let mut sources =
        list(spec, "sources").chain([&spec["source"]]).filter(|source| source.is_object());
    let covers = |pattern: &Value, value: &Value| pattern == value || pattern == "*";
    let mut destinations = list(&project["spec"], "destinations");
    let destination = &spec["destination"];
    is_project
        && sources.all(|source| {
            list(&project["spec"], "sourceRepos").any(|allowed| covers(allowed, &source["repoURL"]))
        })
        && destinations.any(|allowed| {
            covers(&allowed["server"], &destination["server"])
                && covers(&allowed["namespace"], &destination["namespace"])
        })
}

/// Returns the name of a file's release.
fn name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".yaml");
    file.split_once('-').map_or(file, |(_, name)| name).to_owned()
}

/// One Application.
struct ApplicationReader<'a> {
    files: &'a TextFiles,
    origin: &'a ApplicationSource,
    path: &'a str,
    spec: &'a Value,
    /// The target cluster of most Applications.
    server: &'a str,
    project: Option<&'a Value>,
}

impl ApplicationReader<'_> {
    fn read_release(
        &self,
        application: &Value,
        after: PredecessorFacts,
    ) -> Result<DeclaredRelease, ReadbackError> {
        let (spec, automated) = (self.spec, &self.spec["syncPolicy"]["automated"]);
        let source = self.source();
        let helm = &source["helm"];
        let option =
            |option: &str| list(&spec["syncPolicy"], "syncOptions").any(|found| found == option);
        let chart = self.chart(source);
        let values: Vec<String> = list(helm, "valueFiles")
            .filter_map(Value::as_str)
            .map(|file| self.values_file(file, &chart))
            .collect();
        let copied = self.copied(&chart, &values);
        // Argo CD applies the namespace to the objects that name none. Kustomize applies its own to all.
        let is_kustomization = matches!(chart, ChartLocation::Kustomization { .. });
        let namespace = if is_kustomization {
            text(&source["kustomize"], "namespace")
        } else {
            text(&spec["destination"], "namespace")
        };
        let release_name = match helm["releaseName"].as_str() {
            Some(release) => release.to_owned(),
            None if is_kustomization => name(self.path),
            None => text(&application["metadata"], "name"),
        };
        let is_ours = matches!(&chart, ChartLocation::Local(folder) if chart::kind(self.files, folder) != "hook");
        Ok(DeclaredRelease {
            file: self.path.to_owned(),
            name: name(self.path),
            release_name,
            namespace,
            record_namespace: not_expressible("Argo CD keeps no record of a Helm release"),
            position: not_expressible("Applications of one wave are synced at once"),
            after,
            declared_version: None,
            values,
            inline: self.inline(helm)?,
            edits_act: if copied.is_some() && self.origin.repository.starts_with("oci://") {
                not_expressible("for a chart from another source, Argo CD reads values files only from Git; the Application contains a copy of the values")
            } else {
                DeployerFact::Is(DeployedEdits::All)
            },
            copied,
            chart,
            timeouts: not_expressible("Argo CD has no timeout for a release; the Job's activeDeadlineSeconds limits it"),
            skips_crds: DeployerFact::Is(helm["skipCrds"] == true),
            creates_namespace: DeployerFact::Is(option("CreateNamespace=true")),
            takes_ownership: if is_ours {
                DeployerFact::Is(option("ServerSideApply=true"))
            } else {
                not_expressible("Argo CD always takes over existing objects")
            },
            waits_for_objects: not_expressible(
                "Argo CD waits for objects by its own health checks before a hook, and has none for the GPU stack",
            ),
            // Without a sync there are no hooks.
            runs_hooks: DeployerFact::Is(automated.is_object() && automated["enabled"] != false),
            undoes_failures: DeployerFact::Is(false),
            replaces_objects: DeployerFact::Is(option("Replace=true") || option("Force=true")),
            prunes: DeployerFact::Is(automated["prune"] == true || self.origin.prunes),
            fired_by_every_commit: DeployerFact::Is(false),
            same_cluster: DeployerFact::Is(spec["destination"]["server"] == *self.server),
            is_permitted: DeployerFact::Is(self.is_permitted()),
            reverts_live_changes: DeployerFact::Is(automated["selfHeal"] == true),
            gated_by: "sync waves of Applications and the health check for Applications; the hook checks its needs in the cluster"
                .to_owned(),
            also_fired_by: "every full sync; the hook then ends without a write if its trigger is completed".to_owned(),
        })
    }

    /// Whether the project permits the Application. Without a project in the bundle, it is an
    /// existing one.
    fn is_permitted(&self) -> bool {
        self.project.is_none_or(|project| permits(project, self.spec))
    }

    /// Returns the source of the chart. Other sources only contain values.
    fn source(&self) -> &Value {
        let all = list(self.spec, "sources").chain([&self.spec["source"]]);
        all.into_iter()
            .find(|source| source["chart"].is_string() || source["path"].is_string())
            .unwrap_or(&self.spec["source"])
    }

    fn is_bundle(&self, source: &Value) -> bool {
        text(source, "repoURL") == self.origin.repository
            && text(source, "targetRevision") == self.origin.revision
    }

    fn chart(&self, source: &Value) -> ChartLocation {
        let (repository, version) =
            (text(source, "repoURL"), source["targetRevision"].as_str().map(str::to_owned));
        if let Some(path) = source["path"].as_str() {
            if !self.is_bundle(source) && source["helm"].is_null() {
                let revision = version.unwrap_or_default();
                return ChartLocation::kustomization(&repository, path, revision);
            }
            return match path.strip_prefix(&self.origin.prefix) {
                Some(folder) if self.is_bundle(source) => ChartLocation::Local(folder.to_owned()),
                _ => ChartLocation::Remote { place: format!("{repository}//{path}"), version },
            };
        }
        // An OCI registry has no scheme here.
        let scheme = if repository.contains("://") { "" } else { "oci://" };
        ChartLocation::Remote {
            place: format!(
                "{scheme}{}/{}",
                repository.trim_end_matches('/'),
                text(source, "chart")
            ),
            version,
        }
    }

    /// Returns a values file below the bundle: `$ref/…` is relative to the root of another source,
    /// other paths to the chart's folder.
    fn values_file(&self, file: &str, chart: &ChartLocation) -> String {
        if let Some((reference, path)) =
            file.strip_prefix('$').and_then(|file| file.split_once('/'))
        {
            let source = list(self.spec, "sources").find(|source| source["ref"] == reference);
            let inside = path
                .strip_prefix(&self.origin.prefix)
                .filter(|_| source.is_some_and(|source| self.is_bundle(source)));
            return inside.map_or_else(|| file.to_owned(), str::to_owned);
        }
        let ChartLocation::Local(folder) = chart else { return file.to_owned() };
        let mut parts: Vec<&str> = folder.split('/').collect();
        for part in file.split('/') {
            match part {
                ".." => drop(parts.pop()),
                "." | "" => {}
                part => parts.push(part),
            }
        }
        parts.join("/")
    }

    /// Returns the values file of a vendor's chart whose Application does not name a values file,
    /// so that it should contain a copy of the values.
    fn copied(&self, chart: &ChartLocation, named: &[String]) -> Option<String> {
        let file = self.path.rsplit('/').next().unwrap_or(self.path);
        let own = format!("{}/{VALUES}", file.trim_end_matches(".yaml"));
        let is_vendors = matches!(chart, ChartLocation::Remote { .. });
        (is_vendors && named.is_empty() && self.files.get(&own).is_some()).then_some(own)
    }

    /// Returns the values in the Application itself, which override all files, as in Argo CD.
    fn inline(&self, helm: &Value) -> Result<Option<Map<String, Value>>, ReadbackError> {
        let mut all = Map::new();
        if let Some(values) = helm["values"].as_str() {
            all.extend(parse::<Map<String, Value>>(self.path, values)?);
        }
        all.extend(helm["valuesObject"].as_object().cloned().unwrap_or_default());
        // Each one is a path and a text. Only their existence matters.
        for key in ["parameters", "fileParameters"] {
            all.extend(helm.get(key).map(|list| (format!("({key})"), list.clone())));
        }
        Ok((!all.is_empty()).then_some(all))
    }
}
