//! Mutations of the files that a deployer itself reads.

use parity::{ParityReport, ReadbackError, TextFiles, read_facts};

use super::meaningless::is_meaningless;
use super::{Mutation, Scene, changed_value, is_numbered, lines, names};

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
        is_named,
    );
}

/// With a registry, the Application of a vendor's chart contains its values.
#[test]
fn every_changed_value_in_application_is_named() {
    let scene = Scene::with_registry("argocd");
    let is_vendors = |file: &str| file == "apps/004-gpu-operator.yaml";
    scene.check(
        |file, line| is_vendors(file).then(|| changed_value(line).map(Some)).flatten(),
        is_named,
    );
    // The start of the values, and each line of them. Lines about retries and about the manager of
    // ignored fields have the same depth.
    let others = ["duration:", "factor:", "maxDuration:", "- \"gpu-rollout\""];
    let is_value = |line: &str| {
        line == "      values: |"
            || line
                .strip_prefix("        ")
                .is_some_and(|value| !others.iter().any(|other| value.starts_with(other)))
    };
    scene.check(
        |file, line| (is_vendors(file) && is_value(line)).then_some(None),
        |_, mutation, parity| match parity {
            Err(ReadbackError::Unreadable { path, .. }) => *path == mutation.file,
            Err(_) => false,
            Ok(_) => names(parity, mutation.release(), &["values."]),
        },
    );
}

/// Whether parity names a changed line of a deployer's own file, or may ignore it.
fn is_named(
    deployer: &str,
    mutation: &Mutation,
    parity: &Result<ParityReport, ReadbackError>,
) -> bool {
    match parity {
        // What cannot be read any more, or is not found, stops everything: the message names the
        // file.
        Err(ReadbackError::Unreadable { path, .. }) => *path == mutation.file,
        Err(ReadbackError::Missing(path)) => {
            mutation.to.as_ref().is_some_and(|line| line.contains(path))
        }
        Err(ReadbackError::NoDeployer | ReadbackError::SeveralDeployers(_)) => false,
        Ok(found) if found.equal => {
            is_meaningless(deployer, &mutation.file, mutation.before.trim(), mutation.from.trim())
        }
        // A release in another wave, or of another bundle, is in the wrong place for those that need
        // it.
        Ok(_)
            if ["sync-wave", "gpu-rollout.dev/bundle"]
                .iter()
                .any(|key| mutation.from.contains(key)) =>
        {
            names(parity, None, &["unmetNeeds"])
        }
        Ok(_) => names(parity, mutation.release(), &[]),
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
