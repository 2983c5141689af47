//! Changes every line of a deployer's files, one at a time. Parity must report the release and a
//! fact, unless the line is in the table of settings without a counterpart in other deployers.

mod meaningless;

use std::collections::BTreeMap;

use deployer::Deployer;
use parity::{BundleFacts, ParityReport, ReadbackError, TextFiles, compare, read_facts};

use super::{bundle, files, lines};
use meaningless::is_meaningless;

const RECIPE: &str = "eks-gb200-training";
/// Files in numbered folders that facts read; of others only the digest counts, and those of short
/// texts are had faster.
const READ: [&str; 6] = [
    "Chart.yaml",
    "values.yaml",
    "rollout.yaml",
    "rights.yaml",
    "job.yaml",
    "namespace-gpu-operator.yaml",
];

/// A bundle's texts.
fn texts(deployer: Deployer) -> BTreeMap<String, String> {
    let short = |(path, text): (&str, &str)| {
        let is_read =
            !is_numbered(path) || READ.iter().any(|name| path.ends_with(&format!("/{name}")));
        // The second hook chart is the same, and is read in the same way.
        let is_copy = path.contains("nvidia-dra-driver-gpu-post/");
        let text = match path {
            path if is_copy && path.ends_with("/rights.yaml") => "[]\n",
            path if is_copy && path.ends_with("/values.yaml") => "{}\n",
            path if path.contains("-crds/templates/") => "kind: CustomResourceDefinition\n",
            _ if is_read => text,
            _ => "x\n",
        };
        (path.to_owned(), text.to_owned())
    };
    files(&bundle(RECIPE, deployer)).iter().map(short).collect()
}

fn is_numbered(path: &str) -> bool {
    path.starts_with(|first: char| first.is_ascii_digit())
}

/// One line of one file with another text.
struct Mutation {
    file: String,
    /// From 1.
    line: usize,
    /// The line before it.
    before: String,
    from: String,
    /// `None` removes the line.
    to: Option<String>,
}

impl Mutation {
    fn shown(&self) -> String {
        format!(
            "{}:{}: `{}` → `{}`",
            self.file,
            self.line,
            self.from.trim(),
            self.to.as_deref().unwrap_or("(gone)").trim()
        )
    }

    fn applied(&self, texts: &BTreeMap<String, String>) -> TextFiles {
        let changed = |(path, text): (&String, &String)| {
            if *path != self.file {
                return (path.clone(), text.clone());
            }
            let mut lines: Vec<&str> = text.lines().collect();
            match &self.to {
                Some(line) => lines[self.line - 1] = line,
                None => drop(lines.remove(self.line - 1)),
            }
            (path.clone(), lines.join("\n") + "\n")
        };
        texts.iter().map(changed).collect()
    }

    /// The release that the file is about, if it is about one.
    fn release(&self) -> Option<&str> {
        let folder = self.file.split('/').find(|part| is_numbered(part))?;
        Some(folder.trim_end_matches(".yaml").split_once('-')?.1)
    }
}

/// One recipe with every deployer.
struct Scene {
    facts: Vec<BundleFacts>,
    texts: Vec<BTreeMap<String, String>>,
}

impl Scene {
    fn new() -> Self {
        Self::of(&deployer::names())
    }

    /// Only these deployers, because charts are read in the same way for all of them.
    fn of(names: &[&str]) -> Self {
        let texts: Vec<_> = names.iter().map(|name| texts(name.parse().unwrap())).collect();
        let facts = texts
            .iter()
            .map(|texts| read_facts(&texts.clone().into_iter().collect()).unwrap())
            .collect();
        Self { facts, texts }
    }

    /// Parity with other files of the deployer at `index`.
    fn parity(&self, index: usize, files: &TextFiles) -> Result<ParityReport, ReadbackError> {
        let changed = read_facts(files)?;
        let others = self
            .facts
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .map(|(_, facts)| facts.clone());
        Ok(compare(&[changed].into_iter().chain(others).collect::<Vec<_>>()))
    }

    /// Changes every line for which `change` has another text. Only `expected` decides whether
    /// parity's result is right.
    fn check(
        &self,
        change: impl Fn(&str, &str) -> Option<Option<String>>,
        expected: impl Fn(&str, &Mutation, &Result<ParityReport, ReadbackError>) -> bool,
    ) {
        let (mut count, mut unnamed) = (0, Vec::new());
        for (index, BundleFacts { deployer, .. }) in self.facts.iter().enumerate() {
            for (file, text) in &self.texts[index] {
                for (at, from) in text.lines().enumerate() {
                    let Some(to) = change(file, from) else { continue };
                    let before = at
                        .checked_sub(1)
                        .and_then(|before| text.lines().nth(before))
                        .unwrap_or_default()
                        .to_owned();
                    let mutation = Mutation {
                        file: file.clone(),
                        line: at + 1,
                        before,
                        from: from.to_owned(),
                        to,
                    };
                    let parity = self.parity(index, &mutation.applied(&self.texts[index]));
                    count += 1;
                    if !expected(deployer, &mutation, &parity) {
                        let said = parity.as_ref().map_or_else(ToString::to_string, lines);
                        unnamed.push(format!("{deployer}: {}\n{said}", mutation.shown()));
                    }
                }
            }
        }
        assert!(count > 0, "nothing was changed");
        assert!(
            unnamed.is_empty(),
            "{} of {count} changes are not named:\n{}",
            unnamed.len(),
            unnamed.concat()
        );
    }
}

/// Whether parity names the release, by a fact that starts with one of `facts`.
fn names(
    parity: &Result<ParityReport, ReadbackError>,
    release: Option<&str>,
    facts: &[&str],
) -> bool {
    let Ok(parity) = parity else { return false };
    let is_it = |fact: &str| facts.is_empty() || facts.iter().any(|start| fact.starts_with(start));
    parity.differences.iter().any(|difference| {
        release.is_none_or(|release| release == difference.release) && is_it(&difference.fact)
    })
}

/// Changes the value of a YAML line: inverts a boolean, lowers a number or a time, extends a text.
fn changed_value(line: &str) -> Option<String> {
    let body = line.trim_start();
    let (key, value) = match body.split_once(": ") {
        _ if body.starts_with('#') => return None,
        Some((key, value)) => (format!("{key}: "), value.trim()),
        None => ("- ".to_owned(), body.strip_prefix("- ")?),
    };
    let value = match value {
        ">-" | "|" | "" => return None,
        "true" => "false".to_owned(),
        "false" => "true".to_owned(),
        number if number.parse::<u64>().is_ok() => "7".to_owned(),
        time if time.starts_with(|first: char| first.is_ascii_digit())
            && time.ends_with(['s', 'm', 'h']) =>
        {
            "7s".to_owned()
        }
        quoted if quoted.ends_with('"') => format!("{}x\"", &quoted[..quoted.len() - 1]),
        text => format!("{text}x"),
    };
    Some(format!("{}{key}{value}", &line[..line.len() - body.len()]))
}

/// Whether a file is one that the deployer itself reads: not of a chart, not for people, not for
/// this program.
fn is_own(path: &str) -> bool {
    let others = ["README.md", "recipe.yaml", "bundle-info.yaml", "checksums.txt"];
    // The first five releases are one of each kind, and further ones are written by the same
    // template.
    let is_further =
        ["apps/006", "apps/007", "apps/008", "templates/006", "templates/007", "templates/008"];
    !is_numbered(path)
        && !is_further.iter().any(|start| path.starts_with(start))
        && !others.contains(&path)
        && path.rsplit('.').next() == Some("yaml")
}

/// Timeouts, needs, waves, values files, namespaces, versions … of helmfile, Flux and Argo CD.
#[test]
fn every_changed_deployer_value_is_named() {
    Scene::new().check(
        |file, line| is_own(file).then(|| changed_value(line).map(Some)).flatten(),
        |deployer, mutation, parity| match parity {
            // What cannot be read any more, or is not found, stops everything: the message names
            // the file.
            Err(ReadbackError::Unreadable { path, .. }) => *path == mutation.file,
            Err(ReadbackError::Missing(path)) => {
                mutation.to.as_ref().is_some_and(|line| line.contains(path))
            }
            Err(ReadbackError::NoDeployer | ReadbackError::SeveralDeployers(_)) => false,
            Ok(found) if found.equal => is_meaningless(
                deployer,
                &mutation.file,
                mutation.before.trim(),
                mutation.from.trim(),
            ),
            // A release in another wave, or of another bundle, is in the wrong place for those that
            // need it.
            Ok(_)
                if ["sync-wave", "gpu-rollout.dev/bundle"]
                    .iter()
                    .any(|key| mutation.from.contains(key)) =>
            {
                names(parity, None, &["unmetNeeds"])
            }
            Ok(_) => names(parity, mutation.release(), &[]),
        },
    );
}

/// The lines of `deploy.sh` that deploy a release: kind, folder, namespace, timeout, version, CRDs,
/// chart, repository, values.
#[test]
fn every_changed_word_of_a_step_is_named() {
    let scene = Scene::new();
    let script = &scene.texts[0]["deploy.sh"];
    let mut checked = 0;
    for (at, line) in script.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind @ ("upstream" | "crds" | "manifests" | "hook"), folder, ..] = words.as_slice()
        else {
            continue;
        };
        let release = folder.split_once('-').map(|(_, name)| name);
        for changed in 0..words.len() {
            let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            words[changed] =
                if changed == 3 { "7".to_owned() } else { format!("{}x", words[changed]) };
            let mutation = Mutation {
                file: "deploy.sh".to_owned(),
                line: at + 1,
                before: String::new(),
                from: line.to_owned(),
                to: Some(words.join(" ")),
            };
            let parity = scene.parity(0, &mutation.applied(&scene.texts[0]));
            // The version of CRDs is only printed, and every word other than `crds-elsewhere`
            // leaves the CRDs to the chart.
            let is_spoken = (*kind == "crds" && changed == 4) || words[changed] == "crds-in-chartx";
            assert!(
                names(&parity, release, &[]) || is_spoken,
                "{}: {}",
                mutation.shown(),
                lines(&parity.unwrap())
            );
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

/// The arguments that the functions of `deploy.sh` pass to Helm, and the script's end at the first
/// failure.
#[test]
fn every_lost_argument_of_helm_is_named() {
    let scene = Scene::new();
    let script = &scene.texts[0]["deploy.sh"];
    // Not about what is deployed, but about how conflicts end, what is kept and what is printed.
    let other = ["--history-max", "--hide-notes", "--force-conflicts", "--server-side=true"];
    let start = script.lines().position(|line| line == "step() {").unwrap();
    let mut checked = 0;
    for (at, line) in script.lines().enumerate() {
        let is_gate = line == "set -eu"
            || (at > start && ["  exit 1", "  name=${folder#*-}"].contains(&line));
        let words: Vec<&str> = line.split([' ', '"']).collect();
        let flags: Vec<&str> =
            words.into_iter().filter(|word| word.starts_with("--") && *word != "--").collect();
        let has_flag = at > start
            && !line.starts_with('#')
            && flags.iter().any(|flag| !other.contains(flag))
            && !line.contains("printf");
        let has_path =
            at > start && line.contains("$bundle/") && !line.trim_start().starts_with('#');
        let mut changes: Vec<Option<String>> = Vec::new();
        if is_gate || (has_path && !has_flag) {
            changes.push(None);
        }
        if has_flag {
            let told = flags.iter().filter(|flag| !other.contains(flag));
            changes.extend(told.map(|flag| Some(line.replacen(&format!(" {flag}"), "", 1))));
        }
        for to in changes {
            let mutation = Mutation {
                file: "deploy.sh".to_owned(),
                line: at + 1,
                before: String::new(),
                from: line.to_owned(),
                to,
            };
            let parity = scene.parity(0, &mutation.applied(&scene.texts[0]));
            assert!(names(&parity, None, &[]), "{}", mutation.shown());
            checked += 1;
        }
    }
    assert!(checked > 8, "{checked}");
}

/// Two releases of `deploy.sh` in the other order.
#[test]
fn every_changed_order_of_steps_is_named() {
    let scene = Scene::new();
    let script = &scene.texts[0]["deploy.sh"];
    let is_step = |line: &&str| {
        ["upstream ", "crds ", "manifests ", "hook "].iter().any(|kind| line.starts_with(kind))
            && !line.ends_with('{')
    };
    let steps: Vec<&str> = script.lines().filter(is_step).collect();
    assert!(steps.len() > 5);
    for pair in steps.windows(2) {
        let swapped = script
            .replace(&format!("{}\n{}", pair[0], pair[1]), &format!("{}\n{}", pair[1], pair[0]));
        let texts = scene.texts[0].iter().map(|(path, text)| {
            (path.clone(), if path == "deploy.sh" { swapped.clone() } else { text.clone() })
        });
        let parity = scene.parity(0, &texts.collect());
        let release = pair[1].split_once('-').and_then(|(_, rest)| rest.split(' ').next());
        assert!(
            names(&parity, release, &["position"]),
            "{}: {release:?}: {}",
            pair[1],
            lines(&parity.unwrap())
        );
    }
}

/// A release that needs one less: named, unless it needs it by way of another one anyway.
#[test]
fn every_need_that_is_gone_is_named() {
    let scene = Scene::new();
    let own = |index: usize, files: &TextFiles| {
        read_facts(files).is_ok_and(|found| {
            found
                .releases
                .iter()
                .all(|(name, release)| release.after == scene.facts[index].releases[name].after)
        })
    };
    let mut checked = 0;
    for index in 0..scene.texts.len() {
        for (file, text) in scene.texts[index].iter().filter(|(file, _)| is_own(file)) {
            let all: Vec<&str> = text.lines().collect();
            for at in 0..all.len() {
                let header = ["    needs:", "  dependsOn:", "helmfiles:"];
                let is_entry = all[at].trim_start().starts_with("- ")
                    && all[..at]
                        .iter()
                        .rev()
                        .find(|line| {
                            !line.trim_start().starts_with("- ")
                                && !line.contains("metadata")
                                && !line.contains("status")
                                && !line.contains("readyExpr")
                        })
                        .is_some_and(|line| header.contains(line));
                if !is_entry {
                    continue;
                }
                let depth = all[at].len() - all[at].trim_start().len();
                let more = all[at + 1..]
                    .iter()
                    .take_while(|line| line.len() - line.trim_start().len() > depth)
                    .count();
                let mut changed = all.clone();
                changed.drain(at..=at + more);
                let changed = changed
                    .join("\n")
                    .replace("    needs:\n    timeout", "    timeout")
                    .replace("  dependsOn:\n  #", "  #")
                    .replace("  dependsOn:\n  timeout", "  timeout")
                    + "\n";
                let files: TextFiles = scene.texts[index]
                    .iter()
                    .map(|(path, text)| {
                        (path.clone(), if path == file { changed.clone() } else { text.clone() })
                    })
                    .collect();
                let parity = scene.parity(index, &files);
                assert!(
                    names(&parity, None, &["after", "unmetNeeds", "release"]) || own(index, &files),
                    "{file}: {}: {:?}",
                    all[at],
                    parity.map(|parity| lines(&parity))
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 8, "{checked}");
}

/// Hooks, their order, and what is never pruned, in every chart of every bundle.
#[test]
fn every_changed_annotation_is_named() {
    let readers = [
        "helm.sh/hook",
        "helm.sh/resource-policy",
        "argocd.argoproj.io/",
        "kustomize.toolkit.fluxcd.io/",
    ];
    let is_annotation = |file: &str, line: &str| {
        is_numbered(file) && readers.iter().any(|reader| line.trim_start().starts_with(reader))
    };
    let named = |_: &str, mutation: &Mutation, parity: &Result<ParityReport, ReadbackError>| {
        names(parity, mutation.release(), &["chart.annotations"])
    };
    let scene = Scene::of(&["helm", "argocd-helm"]);
    scene.check(
        |file, line| is_annotation(file, line).then(|| changed_value(line).map(Some)).flatten(),
        named,
    );
    scene.check(|file, line| is_annotation(file, line).then_some(None), named);
}

/// Rights, tasks, the budget, and what the Job's template says of how often and for how long it is
/// tried.
#[test]
fn every_changed_right_or_job_bound_is_named() {
    let scene = Scene::of(&["helm", "argocd-helm"]);
    scene.check(
        |file, line| {
            (file.ends_with("files/rights.yaml") && !line.trim_start().starts_with("why:"))
                .then(|| changed_value(line).map(Some))
                .flatten()
        },
        // A right for a task or driver that this hook has not is none of its rights, before and
        // after.
        |_, mutation, parity| {
            names(parity, mutation.release(), &["hook.rights"])
                || names(parity, mutation.release(), &["chart.files[files/rights.yaml]"])
        },
    );
    scene.check(
        |file, line| {
            let keys = [
                "activeDeadlineSeconds",
                "backoffLimit",
                "restartPolicy",
                "terminationGracePeriodSeconds",
                "serviceAccountName",
            ];
            (file.ends_with("/job.yaml") && keys.iter().any(|key| line.trim().starts_with(key)))
                .then(|| changed_value(line).map(Some))
                .flatten()
        },
        |_, mutation, parity| names(parity, mutation.release(), &["hook.job"]),
    );
    scene.check(
        |file, line| {
            // Its own budget. What a preflight knows about another release is part of the trigger.
            (file.ends_with("/rollout.yaml") && line.starts_with("  budgetSeconds"))
                .then(|| changed_value(line).map(Some))
                .flatten()
        },
        |_, mutation, parity| {
            names(parity, mutation.release(), &["hook.budgetSeconds"])
                && names(parity, mutation.release(), &["hook.trigger"])
        },
    );
}
