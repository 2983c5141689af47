//! Tests that `bundle verify` finds inconsistent edits in the files of every deployer.

use std::fs;

use bundle::{BundleFinding, BundleTree, verify, write};
use deployer::names;

use super::{REGISTRY, bundle, bundle_from};

/// The broken promises of a bundle of `deployer` in whose files each `from` has become `to`.
fn broken(deployer: &str, edits: &[(&str, &str, &str)]) -> Vec<String> {
    broken_in(&bundle("eks-gb200-training", deployer.parse().unwrap()), edits)
}

fn broken_in(tree: &BundleTree, edits: &[(&str, &str, &str)]) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    write(tree, &output, false).unwrap();
    for (path, from, to) in edits {
        let text = fs::read_to_string(output.join(path)).unwrap();
        assert!(text.contains(from), "{path}: {from}");
        fs::write(output.join(path), text.replace(from, to)).unwrap();
    }
    let findings = verify(&output).unwrap();
    let promises =
        findings.into_iter().filter(|finding| matches!(finding, BundleFinding::Promise { .. }));
    promises
        .map(|finding| finding.to_string().replace(directory.path().to_str().unwrap(), ""))
        .collect()
}

fn says(found: &[String], expected: &[&str]) -> bool {
    expected.iter().all(|part| found.iter().any(|line| line.contains(part)))
}

#[test]
fn rendered_bundle_keeps_every_promise() {
    for deployer in names() {
        assert_eq!(broken(deployer, &[]), [""; 0], "{deployer}");
    }
}

#[test]
fn version_changed_alone_is_found_for_every_deployer() {
    for (deployer, path) in [
        ("helm", "deploy.sh"),
        ("helmfile", "helmfile-1.yaml"),
        ("flux", "releases/004-gpu-operator.yaml"),
        ("argocd", "apps/004-gpu-operator.yaml"),
        ("argocd-helm", "templates/004-gpu-operator.yaml"),
    ] {
        // The version of the CRDs is another word of the script.
        let (from, to) = if deployer == "helm" {
            ("600 v26.7.0", "600 v26.7.1")
        } else {
            ("v26.7.0", "v26.7.1")
        };
        let found = broken(deployer, &[(path, from, to)]);
        let expected = [
            "its hook gpu-operator-post is made for v26.7.0",
            "with the CRDs of version v26.7.0",
            "lists gpu-operator v26.7.0",
        ];
        assert!(says(&found, &expected), "{deployer}: {found:?}");
    }
}

/// A hook without its settings seemed to be made for an empty version.
#[test]
fn missing_settings_of_hook_are_one_finding() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    write(&bundle("eks-gb200-training", "helm".parse().unwrap()), &output, false).unwrap();
    fs::remove_file(output.join("005-gpu-operator-post/rollout.yaml")).unwrap();
    let findings: Vec<String> = verify(&output).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        findings,
        [
            "missing: 005-gpu-operator-post/rollout.yaml",
            "broken: deploy.sh: gpu-operator-post uses `005-gpu-operator-post/rollout.yaml`, which does not exist",
        ]
    );
}

#[test]
fn unshared_values_are_found_for_every_deployer() {
    let shared = "004-gpu-operator/values.yaml";
    for (deployer, path, from, to) in [
        ("helm", "deploy.sh", "4590 004-gpu-operator/values.yaml", "4590"),
        (
            "helmfile",
            "helmfile-1.yaml",
            "      - \"004-gpu-operator/values.yaml\"\n      - \"005",
            "      - \"005",
        ),
        (
            "flux",
            "releases/005-gpu-operator-post.yaml",
            "    - kind: ConfigMap\n      name: gpu-operator-values\n",
            "",
        ),
        (
            "argocd",
            "apps/005-gpu-operator-post.yaml",
            "        - \"../004-gpu-operator/values.yaml\"\n",
            "",
        ),
        (
            "argocd-helm",
            "templates/005-gpu-operator-post.yaml",
            "        - \"../004-gpu-operator/values.yaml\"\n",
            "",
        ),
    ] {
        let found = broken(deployer, &[(path, from, to)]);
        assert!(
            says(&found, &[&format!("gpu-operator-post does not share `{shared}`")]),
            "{deployer}: {found:?}"
        );
    }
}

/// In a registry, the Application contains a copy of the values, and the hook reads the file.
#[test]
fn copy_of_values_that_differs_is_found() {
    let tree = bundle_from("eks-gb200-training", "argocd".parse().unwrap(), REGISTRY);
    assert_eq!(broken_in(&tree, &[]), [""; 0]);
    let edit = |path| (path, "maxUnavailable: 25%", "maxUnavailable: 50%");
    let (file, copy) = ("004-gpu-operator/values.yaml", "apps/004-gpu-operator.yaml");
    for path in [file, copy] {
        assert_eq!(
            broken_in(&tree, &[edit(path)]),
            [format!(
                "broken: {copy}: gpu-operator is deployed with other values than those in `{file}`: change the recipe and render again with --force"
            )],
            "{path}"
        );
    }
    assert_eq!(broken_in(&tree, &[edit(file), edit(copy)]), [""; 0]);
}

#[test]
fn hook_before_component_is_found_for_every_deployer() {
    for (deployer, path, from, to) in [
        ("helm", "deploy.sh", "hook 005-gpu-operator-post", "# hook 005-gpu-operator-post"),
        ("helmfile", "helmfile-1.yaml", "    needs:\n      - \"gpu-operator/gpu-operator\"\n", ""),
        (
            "flux",
            "releases/005-gpu-operator-post.yaml",
            "    - name: gpu-operator\n",
            "    - name: cert-manager\n",
        ),
        ("argocd", "apps/005-gpu-operator-post.yaml", "sync-wave: \"", "sync-wave: \"-"),
        ("argocd-helm", "templates/005-gpu-operator-post.yaml", "sync-wave: \"", "sync-wave: \"-"),
    ] {
        let found = broken(deployer, &[(path, from, to)]);
        let expected = if deployer == "helm" {
            "gpu-operator-post is not deployed any more"
        } else {
            "gpu-operator-post does not come after gpu-operator, which it waits for"
        };
        assert!(says(&found, &[expected]), "{deployer}: {found:?}");
    }
}

#[test]
fn timeout_below_budget_is_found_where_one_exists() {
    for (deployer, path, from, to) in [
        ("helm", "deploy.sh", "gpu-operator 4590", "gpu-operator 4589"),
        ("helmfile", "helmfile-1.yaml", "timeout: 4590", "timeout: 4589"),
        ("flux", "releases/005-gpu-operator-post.yaml", "timeout: 1h16m30s", "timeout: 1h16m29s"),
        (
            "argocd",
            "005-gpu-operator-post/rollout.yaml",
            "budgetSeconds: 4500",
            "budgetSeconds: 4500",
        ),
    ] {
        let found = broken(deployer, &[(path, from, to)]);
        let is_found = says(
            &found,
            &[
                "gpu-operator-post gets 4589 s, less than the 4590 s that its budget of 4500 s needs",
            ],
        );
        assert_eq!(is_found, deployer != "argocd", "{deployer}: {found:?}");
    }
}
