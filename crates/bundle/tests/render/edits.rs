//! Edits values in a rendered bundle, like a user in a repository, without rendering again.
//! Compares the trigger digests that each deployer's files then produce with real Helm.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use bundle::write;
use deployer::DEPLOYERS;

use super::library;
use super::tools::tool;

mod forms;

use forms::Form;

/// Every component with a hook, and one without.
const RECIPE: &str = "
apiVersion: gpu-rollout.dev/v1
kind: Recipe
metadata: {name: edits}
extends: [rdma, dra]
components:
  - {name: cert-manager, version: v1.17.2}
";
const HOOKS: [&str; 5] = [
    "gpu-operator-post",
    "gpu-operator-pre",
    "network-operator-post",
    "network-operator-pre",
    "nvidia-dra-driver-gpu-post",
];

/// An edit of a release's file: a text that occurs once, and its replacement.
type Edit = (&'static str, &'static str, &'static str);

/// Edits that are made together, and the hooks that must fire.
const COMMITS: &[(&[Edit], &[&str])] = &[
    (
        &[("gpu-operator/values.yaml", "version: \"580.126.20\"", "version: \"580.126.16\"")],
        &["gpu-operator-post", "gpu-operator-pre"],
    ),
    (
        &[(
            "network-operator-resources/values.yaml",
            "maxParallelUpgrades: 1",
            "maxParallelUpgrades: 2",
        )],
        &["network-operator-post", "network-operator-pre"],
    ),
    (
        &[(
            "network-operator/values.yaml",
            "upgradeCRDs: false",
            "upgradeCRDs: false\nsriovNetworkOperator: {enabled: false}",
        )],
        &["network-operator-post", "network-operator-pre"],
    ),
    (
        &[("nvidia-dra-driver-gpu/values.yaml", "/run/nvidia/driver", "/")],
        &["nvidia-dra-driver-gpu-post"],
    ),
    (
        &[("nvidia-dra-driver-gpu-post/rollout.yaml", "quietSeconds: 15", "quietSeconds: 20")],
        &["nvidia-dra-driver-gpu-post"],
    ),
    // A component without a hook, comments, and the same value in another way.
    (
        &[
            ("cert-manager/values.yaml", "keep: true", "keep: false"),
            ("gpu-operator/values.yaml", "driver:\n", "# Because of the new machines.\ndriver:\n"),
            ("gpu-operator/values.yaml", "maxUnavailable: 25%", "maxUnavailable: '25%'"),
            (
                "network-operator-resources/values.yaml",
                "objects:\n",
                "# Because of the new machines.\nobjects:\n",
            ),
        ],
        &[],
    ),
];

/// Edits a file of a bundle.
fn edit(bundle: &Path, (file, old, new): Edit) {
    let folders = fs::read_dir(bundle).unwrap().map(|entry| entry.unwrap().path());
    let (release, name) = file.split_once('/').unwrap();
    let is_of_release = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .split_once('-')
            .is_some_and(|parts| parts.1 == release)
    };
    let path = folders.into_iter().find(is_of_release).unwrap().join(name);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches(old).count(), 1, "`{old}` in {}:\n{text}", path.display());
    fs::write(&path, text.replace(old, new)).unwrap();
}

/// The trigger digests of all hooks, the same in every form.
fn digests(forms: &[Form], when: &str) -> BTreeMap<String, String> {
    let found = thread::scope(|scope| {
        let threads: Vec<_> = forms.iter().map(|form| scope.spawn(|| form.digests())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for (form, digests) in forms.iter().zip(&found) {
        assert_eq!(digests, &found[0], "{form} and {}, {when}", forms[0]);
    }
    assert_eq!(found[0].keys().collect::<Vec<_>>(), HOOKS, "{when}");
    found.into_iter().next().unwrap()
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn values_edit_fires_the_right_hooks_everywhere() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = directory.path().join("recipe.yaml");
    fs::write(&recipe, RECIPE).unwrap();
    let mut forms = Vec::new();
    for deployer in DEPLOYERS {
        let bundle = directory.path().join(deployer.name);
        write(&library::bundle(recipe.to_str().unwrap(), *deployer), &bundle, false).unwrap();
        forms.extend(["helm3", "helm4"].map(|helm| Form::new(*deployer, helm, &bundle)));
    }
    let mut before = digests(&forms, "as rendered");
    for (edits, expected) in COMMITS {
        for (deployer, one) in
            DEPLOYERS.iter().flat_map(|deployer| edits.iter().map(move |one| (deployer, *one)))
        {
            edit(&directory.path().join(deployer.name), one);
        }
        let when = format!("after {edits:?}");
        let after = digests(&forms, &when);
        let fired: Vec<&str> =
            HOOKS.into_iter().filter(|hook| before[*hook] != after[*hook]).collect();
        assert_eq!(fired, *expected, "{when}");
        before = after;
    }
}
