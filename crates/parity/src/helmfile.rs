//! The deployer `helmfile`: reads the state files.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::ReadbackError;
use crate::declared::{ChartLocation, DeclaredBundle, DeclaredRelease, DeployedEdits};
use crate::facts::{DeployerFact, PredecessorFacts, TimeoutFact};
use crate::files::TextFiles;
use crate::order::in_parts;
use crate::parsed_yaml::{list, text};

/// The state file that helmfile starts from.
pub(crate) const HELMFILE: &str = "helmfile.yaml";
/// Helm's default timeout.
const DEFAULT_TIMEOUT_SECONDS: u64 = 300;

/// One state file.
struct StateFileReader {
    path: String,
    content: Value,
}

/// Reads the declarations of the state files.
///
/// # Errors
/// A state file is missing, is not YAML, or includes itself.
pub(crate) fn read_bundle(files: &TextFiles) -> Result<DeclaredBundle, ReadbackError> {
    let mut states = Vec::new();
    collect(files, HELMFILE, &mut Vec::new(), &mut states)?;
    let parts: Vec<BTreeMap<String, BTreeSet<String>>> =
        states.iter().map(StateFileReader::needs).collect();
    let mut after = in_parts(&parts);
    let mut releases = Vec::new();
    for state in &states {
        for release in state.releases() {
            let name = text(release, "name");
            let after = after.remove(&name).unwrap_or_default();
            releases.push(DeclaredRelease {
                position: DeployerFact::Is(releases.len() + 1),
                after,
                ..state.read_release(release, name)
            });
        }
    }
    Ok(DeclaredBundle { timeout_of_all: None, releases })
}

/// Collects the state files in deployment order: included files come before a file's own releases.
fn collect(
    files: &TextFiles,
    path: &str,
    callers: &mut Vec<String>,
    states: &mut Vec<StateFileReader>,
) -> Result<(), ReadbackError> {
    if callers.iter().any(|caller| caller == path) {
        return Err(ReadbackError::Unreadable {
            path: path.to_owned(),
            reason: "it includes itself in `helmfiles`".to_owned(),
        });
    }
    // A state file that several files include is read once.
    if states.iter().any(|state| state.path == path) {
        return Ok(());
    }
    files.required(path)?;
    let content: Value = files.yaml(path)?.unwrap_or_default();
    callers.push(path.to_owned());
    for earlier in list(&content, "helmfiles") {
        let name = earlier.as_str().map_or_else(|| text(earlier, "path"), str::to_owned);
        collect(files, name.trim_start_matches("./"), callers, states)?;
    }
    callers.pop();
    states.push(StateFileReader { path: path.to_owned(), content });
    Ok(())
}

impl StateFileReader {
    /// Returns the releases that are installed.
    fn releases(&self) -> impl Iterator<Item = &Value> {
        list(&self.content, "releases").filter(|release| release["installed"] != false)
    }

    /// Returns the releases with their needs: `[[context/]namespace/]name`.
    fn needs(&self) -> BTreeMap<String, BTreeSet<String>> {
        let name = |need: &Value| {
            need.as_str().map(|need| need.rsplit('/').next().unwrap_or(need).to_owned())
        };
        self.releases()
            .map(|release| {
                (text(release, "name"), list(release, "needs").filter_map(name).collect())
            })
            .collect()
    }

    /// Returns a setting of a release, or the file's default for all releases.
    fn setting(&self, release: &Value, key: &str) -> Option<Value> {
        [release.get(key), self.content["helmDefaults"].get(key)]
            .into_iter()
            .flatten()
            .find(|value| !value.is_null())
            .cloned()
    }

    fn read_release(&self, release: &Value, name: String) -> DeclaredRelease {
        let is_on = |key: &str| self.setting(release, key) == Some(Value::Bool(true));
        let arguments: Vec<Value> =
            ["args", "syncArgs"].iter().filter_map(|key| self.setting(release, key)).collect();
        let (timeout, setting) =
            match self.setting(release, "timeout").as_ref().and_then(Value::as_u64) {
                Some(seconds) => (seconds, format!("timeout of {name}")),
                None => (DEFAULT_TIMEOUT_SECONDS, "none, so Helm's default".to_owned()),
            };
        // An entry is a file's path or inline values.
        let (paths, inline): (Vec<&Value>, Vec<&Value>) =
            list(release, "values").partition(|value| value.is_string());
        let inline: Map<String, Value> = inline
            .into_iter()
            .filter_map(Value::as_object)
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let namespace = text(release, "namespace");
        DeclaredRelease {
            file: self.path.clone(),
            release_name: name.clone(),
            name,
            record_namespace: DeployerFact::Is(namespace.clone()),
            namespace,
            position: DeployerFact::Is(0),
            after: PredecessorFacts::default(),
            chart: self.chart(release),
            declared_version: None,
            values: paths.into_iter().filter_map(Value::as_str).map(|path| path.trim_start_matches("./").to_owned()).collect(),
            inline: (!inline.is_empty()).then_some(inline),
            copied: None,
            edits_act: DeployerFact::Is(DeployedEdits::All),
            timeouts: DeployerFact::Is(vec![TimeoutFact { file: self.path.clone(), setting, seconds: timeout }]),
            skips_crds: DeployerFact::Is(is_on("skipCRDs")),
            // helmfile creates the namespace by default.
            creates_namespace: DeployerFact::Is(self.setting(release, "createNamespace") != Some(Value::Bool(false))),
            takes_ownership: DeployerFact::Is(is_on("takeOwnership")),
            waits_for_objects: DeployerFact::Is(["wait", "waitForJobs", "atomic", "rollbackOnFailure"].into_iter().any(is_on)),
            runs_hooks: DeployerFact::Is(!arguments.iter().any(|arguments| arguments.to_string().contains("--no-hooks"))),
            undoes_failures: DeployerFact::Is(["atomic", "rollbackOnFailure", "cleanupOnFail"].into_iter().any(is_on)),
            replaces_objects: DeployerFact::Is(is_on("force")),
            prunes: DeployerFact::Is(false),
            fired_by_every_commit: DeployerFact::Is(false),
            same_cluster: DeployerFact::Is(self.setting(release, "kubeContext").is_none()),
            is_permitted: DeployerFact::Is(true),
            reverts_live_changes: DeployerFact::Is(false),
            gated_by: "needs, and the order of state files: helmfile continues only after Helm has succeeded".to_owned(),
            also_fired_by: "every `helmfile sync`; the hook then ends without a write if its trigger is completed".to_owned(),
        }
    }

    fn chart(&self, release: &Value) -> ChartLocation {
        let chart = text(release, "chart");
        if let Some(folder) = chart.strip_prefix("./") {
            return ChartLocation::Local(folder.to_owned());
        }
        let version = release["version"].as_str().map(str::to_owned);
        let repository = chart.split_once('/').and_then(|(name, chart)| {
            let found = list(&self.content, "repositories")
                .find(|repository| repository["name"] == name)?;
            let url = text(found, "url");
            let url = url.trim_end_matches('/');
            Some(if found["oci"] == true {
                format!("oci://{url}/{chart}")
            } else {
                format!("{url}/{chart}")
            })
        });
        // The expression in double braces prints the braces of a path.
        ChartLocation::Remote {
            place: repository.unwrap_or_else(|| chart.replace("{{ \"{{\" }}", "{{")),
            version,
        }
    }
}
