//! Tests that a recipe means the same with every deployer, and that parity reports any change of a
//! deployer's files.

mod mutations;
mod promises;

use std::collections::BTreeSet;
use std::path::Path;

use bundle::BundleTree;
use deployer::{DEPLOYERS, Deployer};
use parity::{
    BundleFacts, DeployerFact, ParityReport, ReadbackError, TextFiles, compare, read_facts,
};

use super::library::{bundle, bundle_from};

/// The texts of a bundle.
pub(crate) fn files(tree: &BundleTree) -> TextFiles {
    tree.files()
        .map(|file| (file.path.clone(), String::from_utf8(file.content.to_vec()).unwrap()))
        .collect()
}

pub(crate) fn facts_of(name: &str, deployer: Deployer) -> BundleFacts {
    read_facts(&files(&bundle(name, deployer))).unwrap()
}

/// Returns the differences as lines: release, fact, the value in each bundle.
pub(crate) fn lines(parity: &ParityReport) -> String {
    let line = |difference: &parity::FactDifference| {
        let values: Vec<String> = difference
            .values
            .iter()
            .map(|value| value.as_ref().map_or("-".to_owned(), ToString::to_string))
            .collect();
        format!("{}: {}: {}\n", difference.release, difference.fact, values.join(" | "))
    };
    parity.differences.iter().map(line).collect()
}

#[test]
fn every_recipe_means_the_same_with_every_deployer() {
    for name in catalog::recipe_names() {
        let bundles: Vec<BundleFacts> =
            DEPLOYERS.iter().map(|deployer| facts_of(name, *deployer)).collect();
        for (bundle, deployer) in bundles.iter().zip(DEPLOYERS) {
            assert_eq!(bundle.deployer, deployer.name, "{name}: recognized by its files");
        }
        let parity = compare(&bundles);
        assert!(parity.equal, "{name}:\n{}", lines(&parity));
    }
}

/// The registry of bundles that are not in Git.
pub(crate) const REGISTRY: &str = "oci://registry.example.com/fleet";

/// From a registry, Flux reads charts differently than from Git, and Argo CD values.
#[test]
fn a_registry_means_the_same_as_git() {
    for name in catalog::recipe_names() {
        for deployer in ["flux", "argocd"] {
            let deployer: Deployer = deployer.parse().unwrap();
            let pushed = read_facts(&files(&bundle_from(name, deployer, REGISTRY))).unwrap();
            let parity = compare(&[facts_of(name, deployer), pushed]);
            assert!(parity.equal, "{name}, {deployer}:\n{}", lines(&parity));
        }
    }
}

/// Returns the text of a file in the words of version 0.1.0, which has another word for tasks.
fn in_words_of_version_0_1_0(path: &str, text: &str) -> String {
    let words: &[(&str, &str)] = match path.rsplit('/').next() {
        Some("rights.yaml") => &[("- task:", "- duty:"), ("task:", "duty:")],
        Some(name) if Path::new(name).extension().is_some_and(|ending| ending == "yaml") => {
            &[("tasks:", "duties:")]
        }
        Some(_) | None => &[],
    };
    let line = |line: &str| {
        let (indent, key) = line.split_at(line.len() - line.trim_start().len());
        let renamed = words.iter().find_map(|(new, old)| Some((old, key.strip_prefix(new)?)));
        match renamed {
            Some((old, rest)) => format!("{indent}{old}{rest}\n"),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

/// `bundle diff` compares bundles of version 0.1.0 with new ones.
#[test]
fn bundle_of_version_0_1_0_is_read() {
    let tree = bundle("eks-gb200-training", "helm".parse().unwrap());
    let new = files(&tree);
    let old: TextFiles = tree
        .files()
        .map(|file| {
            let text = std::str::from_utf8(&file.content).unwrap();
            (file.path.clone(), in_words_of_version_0_1_0(&file.path, text))
        })
        .collect();
    let [new, old] = [new, old].map(|files| read_facts(&files).unwrap());
    // Tasks and rights are the same. Only the digests of the texts differ.
    let parity = compare(&[new, old]);
    let facts: BTreeSet<&str> =
        parity.differences.iter().map(|difference| difference.fact.as_str()).collect();
    let digests = BTreeSet::from([
        "chart.files[files/rights.yaml]",
        "chart.files[values.yaml]",
        "hook.trigger",
        "values.digest",
    ]);
    assert_eq!(facts, digests, "{}", lines(&parity));
}

/// A fact that a deployer cannot express is listed with its reason; no other fact is omitted.
#[test]
fn what_cannot_be_compared_is_said() {
    let bundles: Vec<BundleFacts> =
        DEPLOYERS.iter().map(|deployer| facts_of("eks-gb200-training", *deployer)).collect();
    let parity = compare(&bundles);
    let said: Vec<String> = parity
        .not_expressible
        .iter()
        .map(|unsaid| format!("{}: {}: {}\n", unsaid.deployer, unsaid.fact, unsaid.reason))
        .collect();
    insta::assert_snapshot!(said.concat(), @r"
    flux: takesOwnership: Flux always takes over existing objects
    argocd: position: Applications of one wave are synced at once
    argocd: recordNamespace: Argo CD keeps no record of a Helm release
    argocd: takesOwnership: Argo CD always takes over existing objects
    argocd: timeoutSeconds: Argo CD has no timeout for a release; the Job's activeDeadlineSeconds limits it
    argocd: waitsForObjects: Argo CD waits for objects by its own health checks before a hook, and has none for the GPU stack
    argocd: hook.timeoutIsSufficient: Argo CD has no timeout for a release; the Job's activeDeadlineSeconds limits it
    argocd-helm: position: Applications of one wave are synced at once
    argocd-helm: recordNamespace: Argo CD keeps no record of a Helm release
    argocd-helm: takesOwnership: Argo CD always takes over existing objects
    argocd-helm: timeoutSeconds: Argo CD has no timeout for a release; the Job's activeDeadlineSeconds limits it
    argocd-helm: waitsForObjects: Argo CD waits for objects by its own health checks before a hook, and has none for the GPU stack
    argocd-helm: hook.timeoutIsSufficient: Argo CD has no timeout for a release; the Job's activeDeadlineSeconds limits it
    ");
}

/// In a registry, an edit of a component's values file does not reach its Application.
#[test]
fn argocd_with_registry_deploys_no_edits_of_copied_values() {
    let tree = bundle_from("eks-gb200-training", "argocd".parse().unwrap(), REGISTRY);
    let facts = read_facts(&files(&tree)).unwrap();
    let mut copied = Vec::new();
    for (name, release) in &facts.releases {
        assert_eq!(release.values.differs_from, None, "{name}");
        match &release.values.edits_act {
            DeployerFact::Is(files) => assert_eq!(*files, release.values.files, "{name}"),
            DeployerFact::NotExpressible { .. } => copied.push(name.clone()),
        }
        assert_eq!(copied.contains(name), release.kind == "upstream", "{name}");
    }
    let parity = compare(&[facts_of("eks-gb200-training", DEPLOYERS[0]), facts]);
    let unstated = parity.not_expressible.iter().find(|fact| fact.fact == "values.editsAct");
    assert_eq!(unstated.unwrap().releases, copied);
}

#[test]
fn files_of_none_or_two_deployers_are_refused() {
    let some = |names: &[&str]| {
        read_facts(&names.iter().map(|name| ((*name).to_owned(), "{}\n".to_owned())).collect())
    };
    assert_eq!(some(&["values.yaml"]), Err(ReadbackError::NoDeployer));
    assert_eq!(
        some(&["deploy.sh", "helmfile.yaml"]),
        Err(ReadbackError::SeveralDeployers(vec!["helm", "helmfile"]))
    );
    let dangling =
        [("helmfile.yaml".to_owned(), "helmfiles: [a.yaml]\n".to_owned())].into_iter().collect();
    assert_eq!(read_facts(&dangling), Err(ReadbackError::Missing("a.yaml".to_owned())));
}
