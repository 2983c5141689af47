//! Tests of bundles in modes that no library recipe uses.

use contract::task::Task;
use deployer::DEPLOYERS;
use deployer::layout::folders;
use parity::{BundleFacts, compare};
use release::model::ReleaseKind;

use super::library::{bundle, planned, recipe};
use super::parity::{facts_of, lines};

/// Recipes in the modes `steer` and `drive`, for both drivers.
pub(crate) const RECIPES: [&str; 2] =
    ["tests/render/modes/steer.yaml", "tests/render/modes/drive.yaml"];

#[test]
fn a_mode_means_the_same_with_every_deployer() {
    for name in RECIPES {
        let bundles: Vec<BundleFacts> =
            DEPLOYERS.iter().map(|deployer| facts_of(name, *deployer)).collect();
        let parity = compare(&bundles);
        assert!(parity.equal, "{name}:\n{}", lines(&parity));
    }
}

/// The facts of the files contain exactly the tasks and rights of the mode.
#[test]
fn facts_show_tasks_and_rights_of_mode() {
    for (name, mode) in RECIPES.into_iter().zip(["steer", "drive"]) {
        let facts = facts_of(name, "helm".parse().unwrap());
        for operator in ["gpu-operator", "network-operator"] {
            let hook =
                |suffix: &str| facts.releases[&format!("{operator}{suffix}")].hook.clone().unwrap();
            let (pre, post) = (hook("-pre"), hook("-post"));
            assert_eq!(
                pre.tasks.iter().any(|task| task == "hold"),
                mode == "steer",
                "{operator} {mode}"
            );
            assert!(post.tasks.iter().any(|task| task == mode), "{operator} {mode}");
            let may_evict = |rights: &std::collections::BTreeSet<String>| {
                rights.iter().any(|right| right.contains("pods/eviction"))
            };
            assert_eq!(
                (may_evict(&pre.rights), may_evict(&post.rights)),
                (false, mode == "drive"),
                "{operator} {mode}"
            );
            let steps = Task::ALL
                .into_iter()
                .filter(|task| task.is_step())
                .map(Task::name)
                .collect::<Vec<_>>();
            assert!(pre.tasks.iter().all(|task| steps.contains(&task.as_str())), "{:?}", pre.tasks);
            assert!(
                !post.tasks.iter().any(|task| steps.contains(&task.as_str())),
                "{:?}",
                post.tasks
            );
        }
    }
}

#[test]
fn values_and_settings_of_each_mode() {
    for name in RECIPES {
        let plan = planned(&recipe(name));
        let tree = bundle(name, "helm".parse().unwrap());
        let mut text = String::new();
        for (folder, release) in folders(&plan) {
            let file = match &release.kind {
                ReleaseKind::Hook(_) => "rollout.yaml",
                ReleaseKind::Upstream(_) => "values.yaml",
                ReleaseKind::Manifests(manifests) if manifests.shared => "values.yaml",
                ReleaseKind::Manifests(_)
                | ReleaseKind::Templates(_)
                | ReleaseKind::Crds(_)
                | ReleaseKind::Kustomization(_) => {
                    continue;
                }
            };
            let path = format!("{folder}/{file}");
            let content = std::str::from_utf8(&tree.get(&path).unwrap().content).unwrap();
            text.extend(["# file: ", &path, "\n", content, "\n"]);
        }
        let snapshot = format!("mode-{}", recipe(name).metadata.name);
        insta::with_settings!({snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(snapshot, text);
        });
    }
}
