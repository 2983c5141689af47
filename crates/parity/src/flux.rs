//! The deployer `flux`: reads HelmReleases, Kustomizations of components, their sources, and the
//! Kustomization that creates ConfigMaps from the values files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::ReadbackError;
use crate::chart;
use crate::declared::{ChartLocation, DeclaredBundle, DeclaredRelease, DeployedEdits};
use crate::facts::{DeployerFact, PredecessorFacts, TimeoutFact, not_expressible};
use crate::files::TextFiles;
use crate::order::in_parts;
use crate::parsed_yaml::{documents, list, text};
use contract::duration::Duration;
use contract::names::PREFIX;

/// The main file of kustomize.
pub(crate) const KUSTOMIZATION: &str = "kustomization.yaml";
/// The Flux Kustomization, with the bundle's path in the repository.
const SYNC: &str = "flux-system/sync.yaml";
/// The source from which Flux fetches the bundle.
const SOURCE: &str = "flux-system/source.yaml";
/// The supported API version of HelmReleases.
const RELEASE_API: &str = "helm.toolkit.fluxcd.io/v2";
/// The supported API version of Kustomizations.
const KUSTOMIZATION_API: &str = "kustomize.toolkit.fluxcd.io/v1";
/// Flux's default timeout.
const DEFAULT_TIMEOUT_SECONDS: u64 = 300;
/// The operations of a HelmRelease that a bundle configures.
const OPERATIONS: [&str; 3] = ["install", "upgrade", "rollback"];
/// Required conditions of a `readyExpr`: the dependency has observed its newest generation, and has
/// succeeded.
const READY: [&str; 2] = [
    "dep.status.observedGeneration == dep.metadata.generation",
    "dep.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
];

/// The objects that kustomize builds.
struct KustomizedBundle<'a> {
    files: &'a TextFiles,
    /// Values files by the name of the ConfigMap and its key.
    config_maps: BTreeMap<String, BTreeMap<String, String>>,
    /// Whether the names of ConfigMaps contain the digest of their content, also in HelmReleases.
    names_have_digests: bool,
    /// The kinds of objects in which the label that identifies a bundle is such a name.
    labels_with_digest: BTreeSet<String>,
    /// HelmReleases, and Kustomizations of components, with their files.
    releases: Vec<(String, Value)>,
    /// Sources: kind and name, and the object.
    sources: BTreeMap<(String, String), Value>,
    /// The source of the bundle, in the form of HelmReleases; `null` if there is none.
    own_source: Value,
    /// The bundle's path in the repository, with `/` at its end unless it is the root.
    prefix: String,
    /// The timeout of the whole bundle, in seconds.
    timeout: Option<u64>,
}

/// Reads the declarations of the files.
///
/// # Errors
/// A file cannot be read, or a named file is missing.
pub(crate) fn read_bundle(files: &TextFiles) -> Result<DeclaredBundle, ReadbackError> {
    let bundle = KustomizedBundle::new(files)?;
    let releases: Vec<&(String, Value)> =
        bundle.releases.iter().filter(|(_, release)| release["spec"]["suspend"] != true).collect();
    let needs = releases
        .iter()
        .map(|(_, release)| (text(&release["metadata"], "name"), bundle.needs(release)))
        .collect();
    let mut after = in_parts(&[needs]);
    let mut found = Vec::new();
    for (file, release) in releases {
        let after = after.remove(&text(&release["metadata"], "name")).unwrap_or_default();
        let position = found.len() + 1;
        found.push(if release["kind"] == "Kustomization" {
            bundle.read_kustomization(file, release, position, after)?
        } else {
            bundle.read_release(file, release, position, after)?
        });
    }
    Ok(DeclaredBundle { timeout_of_all: bundle.timeout, releases: found })
}

impl<'a> KustomizedBundle<'a> {
    fn new(files: &'a TextFiles) -> Result<Self, ReadbackError> {
        let kustomization: Value = files.yaml(KUSTOMIZATION)?.unwrap_or_default();
        let sync: Value = files.yaml(SYNC)?.unwrap_or_default();
        let prefix = text(&sync["spec"], "path");
        let prefix = prefix.trim_start_matches("./").trim_matches('/');
        let source: Value = files.yaml(SOURCE)?.unwrap_or_default();
        let is_own = sync["spec"]["sourceRef"]
            == serde_json::json!({"kind": source["kind"], "name": source["metadata"]["name"]});
        let mut references: Vec<(String, String)> = Vec::new();
        for path in list(&kustomization, "configurations").filter_map(Value::as_str) {
            let configuration: Value = files.yaml(path)?.unwrap_or_default();
            let of_config_maps = list(&configuration, "nameReference")
                .filter(|reference| reference["kind"] == "ConfigMap");
            references.extend(
                of_config_maps
                    .flat_map(|reference| list(reference, "fieldSpecs"))
                    .map(|field| (text(field, "kind"), text(field, "path"))),
            );
        }
        let has_digests = kustomization["generatorOptions"]["disableNameSuffixHash"] != true;
        let label = format!("metadata/labels/{PREFIX}\\/bundle");
        let mut bundle = Self {
            files,
            config_maps: config_maps(&kustomization),
            names_have_digests: has_digests
                && references
                    .iter()
                    .any(|(kind, path)| kind == "HelmRelease" && path == "spec/valuesFrom/name"),
            labels_with_digest: references
                .into_iter()
                .filter(|(_, path)| has_digests && *path == label)
                .map(|(kind, _)| kind)
                .collect(),
            releases: Vec::new(),
            sources: BTreeMap::new(),
            own_source: if is_own { sync["spec"]["sourceRef"].clone() } else { Value::Null },
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            timeout: if sync["spec"]["wait"] == true {
                seconds(SYNC, &sync["spec"]["timeout"])?
            } else {
                None
            },
        };
        // Kustomize stops at a missing file.
        for path in bundle.config_maps.values().flat_map(BTreeMap::values) {
            files.required(path)?;
        }
        for path in list(&kustomization, "resources").filter_map(Value::as_str) {
            for object in documents(path, files.required(path)?)? {
                let (kind, name) = (text(&object, "kind"), text(&object["metadata"], "name"));
                let is_release = kind == "HelmRelease" && object["apiVersion"] == RELEASE_API
                    || kind == "Kustomization" && object["apiVersion"] == KUSTOMIZATION_API;
                if is_release {
                    bundle.releases.push((path.to_owned(), object));
                } else {
                    bundle.sources.insert((kind, name), object);
                }
            }
        }
        Ok(bundle)
    }

    /// Returns the name of the ConfigMap with the bundle's digest, from the label of this release.
    /// Kustomize appends the digest to it.
    fn carried(&self, release: &str) -> Option<&str> {
        let (_, found) =
            self.releases.iter().find(|(_, found)| found["metadata"]["name"] == release)?;
        found["metadata"]["labels"][format!("{PREFIX}/bundle")]
            .as_str()
            .filter(|name| self.config_maps.contains_key(*name))
    }

    /// Returns the dependencies of a release for which it waits until the same bundle has succeeded
    /// there.
    fn needs(&self, release: &Value) -> BTreeSet<String> {
        let label = format!("{PREFIX}/bundle");
        let same = format!("dep.metadata.labels['{label}'] == self.metadata.labels['{label}']");
        let carried = self.carried(&text(&release["metadata"], "name"));
        let holds = |dependency: &&Value| {
            let expression =
                text(dependency, "readyExpr").split_whitespace().collect::<Vec<_>>().join(" ");
            let clauses: Vec<&str> = expression.split(" && ").collect();
            let asks = READY.iter().all(|part| expression.contains(part))
                && clauses.contains(&same.as_str())
                && !expression.contains("||");
            let depended = text(dependency, "name");
            let known =
                self.releases.iter().find(|(_, found)| found["metadata"]["name"] == *depended);
            asks && self.labels_with_digest.contains(&text(release, "kind"))
                && carried.is_some()
                // Flux looks only for objects of the same kind.
                && known.is_none_or(|(_, known)| {
                    known["kind"] == release["kind"] && carried == self.carried(&depended)
                })
        };
        list(&release["spec"], "dependsOn")
            .filter(holds)
            .map(|dependency| text(dependency, "name"))
            .collect()
    }

    fn read_release(
        &self,
        file: &str,
        release: &Value,
        position: usize,
        after: PredecessorFacts,
    ) -> Result<DeclaredRelease, ReadbackError> {
        let (metadata, spec) = (&release["metadata"], &release["spec"]);
        let own_namespace = text(metadata, "namespace");
        let or = |key: &str, other: &str| spec[key].as_str().unwrap_or(other).to_owned();
        let name = text(metadata, "name");
        let namespace = or("targetNamespace", &own_namespace);
        let any = |key: &str| OPERATIONS.iter().any(|operation| spec[*operation][key] == true);
        let chart = self.chart(&name, spec);
        let is_ours = matches!(&chart, ChartLocation::Local(folder) if chart::kind(self.files, folder) != "hook");
        let retries = |operation: &&str| {
            spec[*operation]["strategy"]["name"] == "RetryOnFailure"
                && spec[*operation]["remediation"].is_null()
        };
        let undoes_failures = !["install", "upgrade"].iter().all(retries) || any("cleanupOnFail");
        let (values, inline) = self.values(spec);
        Ok(DeclaredRelease {
            file: file.to_owned(),
            release_name: or("releaseName", &format!("{namespace}-{name}")),
            name,
            record_namespace: DeployerFact::Is(or("storageNamespace", &own_namespace)),
            namespace,
            position: DeployerFact::Is(position),
            after,
            chart,
            declared_version: spec["chart"]["spec"]["version"].as_str().map(str::to_owned),
            values,
            inline,
            copied: None,
            edits_act: DeployerFact::Is(if self.names_have_digests { DeployedEdits::Named } else { DeployedEdits::Ignored }),
            timeouts: DeployerFact::Is(timeouts(file, spec)?),
            skips_crds: DeployerFact::Is(["install", "upgrade"].iter().all(|operation| spec[*operation]["crds"] == "Skip")),
            creates_namespace: DeployerFact::Is(spec["install"]["createNamespace"] == true),
            takes_ownership: if is_ours {
                DeployerFact::Is(!any("disableTakeOwnership"))
            } else {
                not_expressible("Flux always takes over existing objects")
            },
            waits_for_objects: DeployerFact::Is(!OPERATIONS.iter().all(|operation| spec[*operation]["disableWait"] == true)),
            runs_hooks: DeployerFact::Is(!any("disableHooks")),
            undoes_failures: DeployerFact::Is(undoes_failures),
            replaces_objects: DeployerFact::Is(any("force")),
            prunes: DeployerFact::Is(false),
            fired_by_every_commit: DeployerFact::Is(spec["chart"]["spec"]["reconcileStrategy"] == "Revision"),
            same_cluster: DeployerFact::Is(spec["kubeConfig"].is_null()),
            is_permitted: DeployerFact::Is(true),
            reverts_live_changes: DeployerFact::Is(spec["driftDetection"]["mode"] == "enabled"),
            gated_by: "dependsOn with readyExpr: helm-controller starts a release after these have succeeded with the same bundle"
                .to_owned(),
            also_fired_by: "a retry after a failure, and `flux reconcile --force`".to_owned(),
        })
    }

    /// Reads the Kustomization of a component.
    fn read_kustomization(
        &self,
        file: &str,
        object: &Value,
        position: usize,
        after: PredecessorFacts,
    ) -> Result<DeclaredRelease, ReadbackError> {
        let spec = &object["spec"];
        let name = text(&object["metadata"], "name");
        let reference = &spec["sourceRef"];
        let source = self.source(&text(reference, "kind"), &text(reference, "name"));
        let of_source = |key: &str| source.map(|source| text(source, key)).unwrap_or_default();
        let revision = ["tag", "commit"]
            .into_iter()
            .find_map(|key| source?["ref"][key].as_str())
            .unwrap_or_default();
        let seconds = seconds(file, &spec["timeout"])?.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
        Ok(DeclaredRelease {
            file: file.to_owned(),
            release_name: name.clone(),
            name,
            namespace: text(spec, "targetNamespace"),
            record_namespace: not_expressible("a kustomization has no record of a Helm release"),
            position: DeployerFact::Is(position),
            after,
            chart: ChartLocation::kustomization(
                &of_source("url"),
                &text(spec, "path"),
                revision.to_owned(),
            ),
            declared_version: None,
            values: Vec::new(),
            inline: None,
            copied: None,
            edits_act: DeployerFact::Is(DeployedEdits::Ignored),
            timeouts: DeployerFact::Is(vec![TimeoutFact {
                file: file.to_owned(),
                setting: "timeout".to_owned(),
                seconds,
            }]),
            skips_crds: DeployerFact::Is(true),
            creates_namespace: DeployerFact::Is(false),
            takes_ownership: not_expressible("Flux always takes over existing objects"),
            waits_for_objects: DeployerFact::Is(spec["wait"] == true),
            runs_hooks: DeployerFact::Is(true),
            undoes_failures: DeployerFact::Is(false),
            replaces_objects: DeployerFact::Is(spec["force"] == true),
            prunes: DeployerFact::Is(spec["prune"] == true),
            fired_by_every_commit: DeployerFact::Is(false),
            same_cluster: DeployerFact::Is(spec["kubeConfig"].is_null()),
            is_permitted: DeployerFact::Is(true),
            reverts_live_changes: not_expressible(
                "Flux reverts every change of an object of a kustomization",
            ),
            gated_by: "dependsOn with readyExpr: kustomize-controller starts after these have succeeded with the same bundle"
                .to_owned(),
            also_fired_by: String::new(),
        })
    }

    /// Returns the spec of a source.
    fn source(&self, kind: &str, name: &str) -> Option<&Value> {
        self.sources.get(&(kind.to_owned(), name.to_owned())).map(|source| &source["spec"])
    }

    fn chart(&self, release: &str, spec: &Value) -> ChartLocation {
        let source = |kind: &str, name: &str| self.source(kind, name);
        if spec["chartRef"].is_object() {
            let found = source(&text(&spec["chartRef"], "kind"), &text(&spec["chartRef"], "name"));
            let url = found.map(|found| text(found, "url")).unwrap_or_default();
            let tag = found
                .and_then(|found| found["ref"]["tag"].as_str())
                .map(|tag| tag.replace('_', "+"));
            return self
                .pushed(release, &url, tag.as_deref())
                .unwrap_or(ChartLocation::Remote { place: url, version: tag });
        }
        let chart = &spec["chart"]["spec"];
        let (name, reference) = (text(chart, "chart"), &chart["sourceRef"]);
        if reference["kind"] == "GitRepository" {
            let path = name.trim_start_matches("./");
            return match path.strip_prefix(&self.prefix) {
                Some(folder) if *reference == self.own_source => {
                    ChartLocation::Local(folder.to_owned())
                }
                _ => ChartLocation::Remote {
                    place: format!("{}//{path}", text(reference, "name")),
                    version: None,
                },
            };
        }
        let url = source(&text(reference, "kind"), &text(reference, "name"))
            .map(|found| text(found, "url"))
            .unwrap_or_default();
        let version = chart["version"].as_str().map(str::to_owned);
        ChartLocation::Remote { place: format!("{}/{name}", url.trim_end_matches('/')), version }
    }

    /// Returns the folder of a chart that was pushed to the registry from this bundle, by name and
    /// version. Hooks share a chart, so this prefers the release's own folder.
    fn pushed(&self, release: &str, url: &str, version: Option<&str>) -> Option<ChartLocation> {
        let name = url.rsplit_once("/charts/")?.1;
        let folders = self.files.iter().filter_map(|(path, _)| path.strip_suffix("/Chart.yaml"));
        let is_it = |folder: &&str| {
            let found = chart::local(self.files, folder).ok();
            found.is_some_and(|found| {
                found.name.as_deref() == Some(name) && found.version.as_deref() == version
            })
        };
        let mut found: Vec<&str> = folders.filter(is_it).collect();
        found.sort_by_key(|folder| folder.split_once('-').is_none_or(|(_, name)| name != release));
        found.first().map(|folder| ChartLocation::Local((*folder).to_owned()))
    }

    fn values(&self, spec: &Value) -> (Vec<String>, Option<Map<String, Value>>) {
        let mut files = Vec::new();
        for from in list(spec, "valuesFrom") {
            let (kind, name) = (text(from, "kind"), text(from, "name"));
            let key = from["valuesKey"].as_str().unwrap_or("values.yaml");
            let found = self
                .config_maps
                .get(&name)
                .filter(|_| kind == "ConfigMap")
                .and_then(|keys| keys.get(key));
            files.push(found.cloned().unwrap_or_else(|| format!("{kind}/{name}:{key}")));
        }
        (files, spec["values"].as_object().cloned())
    }
}

/// Returns the files of the generated ConfigMaps: `key=path`, or a path whose last part is the key.
fn config_maps(kustomization: &Value) -> BTreeMap<String, BTreeMap<String, String>> {
    let file = |entry: &str| {
        let (key, path) =
            entry.split_once('=').unwrap_or((entry.rsplit('/').next().unwrap_or(entry), entry));
        (key.to_owned(), path.to_owned())
    };
    let files = |map: &Value| list(map, "files").filter_map(Value::as_str).map(file).collect();
    list(kustomization, "configMapGenerator").map(|map| (text(map, "name"), files(map))).collect()
}

/// Returns every timeout of a HelmRelease. Operations without one have the release's.
fn timeouts(file: &str, spec: &Value) -> Result<Vec<TimeoutFact>, ReadbackError> {
    let timeout =
        |setting: String, seconds| TimeoutFact { file: file.to_owned(), setting, seconds };
    let mut found = vec![match seconds(file, &spec["timeout"])? {
        Some(seconds) => timeout("timeout".to_owned(), seconds),
        None => timeout("none, so Flux's default".to_owned(), DEFAULT_TIMEOUT_SECONDS),
    }];
    for operation in OPERATIONS {
        found.extend(
            seconds(file, &spec[operation]["timeout"])?
                .map(|seconds| timeout(format!("{operation}.timeout"), seconds)),
        );
    }
    Ok(found)
}

/// Parses a duration in Flux's format, if there is one.
fn seconds(file: &str, value: &Value) -> Result<Option<u64>, ReadbackError> {
    let Some(text) = value.as_str() else { return Ok(None) };
    let error = |_| ReadbackError::Unreadable {
        path: file.to_owned(),
        reason: format!("`{text}` is not a duration"),
    };
    text.parse::<Duration>().map(|duration| Some(duration.as_secs())).map_err(error)
}
