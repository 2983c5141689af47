//! The deployer `helm`: reads `deploy.sh`. A line outside functions deploys a release. The
//! functions that it calls determine the arguments of Helm.

use std::collections::BTreeSet;

use crate::ReadbackError;
use crate::declared::{ChartLocation, DeclaredBundle, DeclaredRelease, DeployedEdits};
use crate::facts::{DeployerFact, PredecessorFacts, TimeoutFact};
use crate::files::TextFiles;
use crate::shell::ShellScript;

/// The script's file name.
pub(crate) const DEPLOY: &str = "deploy.sh";
/// Helm's default timeout.
const DEFAULT_TIMEOUT_SECONDS: u64 = 300;
/// The function that runs Helm, and ends the script if it fails.
const STEP: &str = "step";
/// The line that derives a release's name from its folder.
const NAME: &str = "name=${folder#*-}";
/// Arguments that make Helm wait for objects.
const WAITS: [&str; 4] = ["--wait", "--wait-for-jobs", "--atomic", "--rollback-on-failure"];

/// A line `KIND FOLDER NAMESPACE TIMEOUT …` and its effect.
struct ScriptLine<'a> {
    folder: &'a str,
    namespace: &'a str,
    timeout: &'a str,
    rest: &'a [String],
    /// Whether the release's name derives from its folder.
    names: bool,
    /// Whether every call of Helm takes over existing objects.
    owns: bool,
    /// The words of all functions that it calls, directly or indirectly.
    words: Vec<&'a str>,
}

/// Reads the declarations of the script.
///
/// # Errors
/// The script is missing, or a timeout in it is not a number.
pub(crate) fn read_bundle(files: &TextFiles) -> Result<DeclaredBundle, ReadbackError> {
    let script = ShellScript::new(files.required(DEPLOY)?);
    let stops = script.lines.iter().any(|line| {
        line.first().is_some_and(|word| word == "set")
            && line.iter().any(|word| word.starts_with("-e"))
    });
    let mut releases: Vec<DeclaredRelease> = Vec::new();
    for line in &script.lines {
        let [kind, folder, namespace, timeout, rest @ ..] = line.as_slice() else { continue };
        let reached = script.reached(kind);
        if !["upstream", "crds", "manifests", "hook"].contains(&kind.as_str()) || reached.is_empty()
        {
            continue;
        }
        let gated =
            stops && script.function(STEP).last().is_some_and(|line| *line == ["exit", "1"]);
        let calls: Vec<&&[String]> =
            reached.iter().filter(|line| line.first().is_some_and(|word| word == STEP)).collect();
        let owns = !calls.is_empty()
            && calls.iter().all(|line| line.iter().any(|word| word == "--take-ownership"));
        // Only these lines set arguments for Helm or pass them to a function. Other programs have
        // other arguments.
        let is_about_arguments = |line: &&[String]| {
            // `set` may follow the pattern of a `case`.
            line.iter().take(2).any(|word| word == "set")
                || line.first().is_some_and(|word| script.is_function(word))
        };
        let words = reached
            .iter()
            .copied()
            .filter(is_about_arguments)
            .flatten()
            .map(String::as_str)
            .collect();
        let names = script.function(STEP).iter().any(|line| line.iter().any(|word| word == NAME));
        let line = ScriptLine { folder, namespace, timeout, rest, names, owns, words };
        let before =
            releases.iter().filter(|_| gated).map(|release| release.name.clone()).collect();
        let after = PredecessorFacts { releases: before, exact_among: BTreeSet::new() };
        let gated_by = if gated {
            "Helm's exit code: the script ends at the first failure"
        } else {
            "nothing"
        };
        releases.push(line.read_release(
            kind == "upstream",
            releases.len() + 1,
            after,
            gated_by,
        )?);
    }
    Ok(DeclaredBundle { timeout_of_all: None, releases })
}

impl<'a> ScriptLine<'a> {
    fn read_release(
        &self,
        is_upstream: bool,
        position: usize,
        after: PredecessorFacts,
        gated_by: &str,
    ) -> Result<DeclaredRelease, ReadbackError> {
        let name = self.folder.split_once('-').map_or(self.folder, |(_, name)| name);
        let has = |flag: &str| self.words.iter().any(|word| word.split('=').next() == Some(flag));
        let namespace = self.behind("--namespace").map_or_else(
            || "default".to_owned(),
            |word| word.replace("$namespace", self.namespace),
        );
        Ok(DeclaredRelease {
            file: DEPLOY.to_owned(),
            name: name.to_owned(),
            release_name: self.behind("--install").filter(|_| self.names).map_or_else(String::new, |word| word.replace("$name", name)),
            record_namespace: DeployerFact::Is(namespace.clone()),
            namespace,
            position: DeployerFact::Is(position),
            after,
            chart: if is_upstream { self.upstream() } else { ChartLocation::Local(self.local()) },
            declared_version: None,
            values: self.values(),
            inline: None,
            copied: None,
            edits_act: DeployerFact::Is(DeployedEdits::All),
            timeouts: DeployerFact::Is(vec![self.timeout()?]),
            skips_crds: DeployerFact::Is(has("--skip-crds") && self.rest.get(1).is_some_and(|word| word == "crds-elsewhere")),
            creates_namespace: DeployerFact::Is(has("--create-namespace")),
            takes_ownership: DeployerFact::Is(self.owns),
            waits_for_objects: DeployerFact::Is(WAITS.iter().any(|flag| has(flag))),
            runs_hooks: DeployerFact::Is(!has("--no-hooks")),
            undoes_failures: DeployerFact::Is(["--atomic", "--rollback-on-failure", "--cleanup-on-fail"].iter().any(|flag| has(flag))),
            replaces_objects: DeployerFact::Is(["--force", "--force-replace"].iter().any(|flag| has(flag))),
            prunes: DeployerFact::Is(false),
            fired_by_every_commit: DeployerFact::Is(false),
            same_cluster: DeployerFact::Is(!["--kube-context", "--kubeconfig", "--kube-apiserver"].iter().any(|flag| has(flag))),
            is_permitted: DeployerFact::Is(true),
            reverts_live_changes: DeployerFact::Is(false),
            gated_by: gated_by.to_owned(),
            also_fired_by: "every run of the script; the hook then ends without a write if its trigger is completed".to_owned(),
        })
    }

    /// Returns the word after `flag`, if there is one.
    fn behind(&self, flag: &str) -> Option<&'a str> {
        let at = self.words.iter().position(|word| *word == flag)?;
        self.words.get(at + 1).copied()
    }

    fn timeout(&self) -> Result<TimeoutFact, ReadbackError> {
        let timeout = |setting: &str, seconds| TimeoutFact {
            file: DEPLOY.to_owned(),
            setting: setting.to_owned(),
            seconds,
        };
        let Some(stated) = self.behind("--timeout") else {
            return Ok(timeout("none, so Helm's default", DEFAULT_TIMEOUT_SECONDS));
        };
        let stated = stated.replace("${timeout}", self.timeout);
        let seconds = stated.strip_suffix('s').and_then(|number| number.parse().ok());
        let error = || ReadbackError::Unreadable {
            path: DEPLOY.to_owned(),
            reason: format!("`{stated}` is not a number of seconds"),
        };
        Ok(timeout("--timeout", seconds.ok_or_else(error)?))
    }

    fn upstream(&self) -> ChartLocation {
        let [version, _, chart, repository @ ..] = self.rest else {
            return ChartLocation::Remote { place: String::new(), version: None };
        };
        let place = match repository.first() {
            Some(url) if self.words.contains(&"--repo") => {
                format!("{}/{chart}", url.trim_end_matches('/'))
            }
            _ => chart.clone(),
        };
        // A packaged chart on this machine determines its own version.
        let has_version = !chart.starts_with('/') && self.words.contains(&"--version");
        ChartLocation::Remote { place, version: has_version.then(|| version.clone()) }
    }

    /// Returns the folder of the chart: the first path of the bundle that is not a values file.
    fn local(&self) -> String {
        let mut paths = self
            .words
            .iter()
            .enumerate()
            .filter(|(at, _)| *at == 0 || self.words[at - 1] != "--values");
        let found = paths.find_map(|(_, word)| word.strip_prefix("$bundle/"));
        found.map_or_else(String::new, |path| self.expanded(path))
    }

    /// Returns the values files in the order of Helm's arguments.
    fn values(&self) -> Vec<String> {
        let mut found = Vec::new();
        for pair in self.words.windows(2).filter(|pair| pair[0] == "--values") {
            match pair[1].strip_prefix("$bundle/") {
                Some("$shared") => found.extend(self.rest.iter().cloned()),
                Some(path) => found.push(self.expanded(path)),
                None => found.push(pair[1].to_owned()),
            }
        }
        found
    }

    /// Expands a path. The functions have the folder in their first argument or in a variable.
    fn expanded(&self, path: &str) -> String {
        ["$upstream_folder", "$manifests_folder", "$hook_folder", "$1"]
            .iter()
            .fold(path.to_owned(), |path, name| path.replace(name, self.folder))
    }
}
