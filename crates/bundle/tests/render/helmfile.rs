//! Tests of bundles for helmfile. Each known trap of helmfile has a test with its name. `real` runs
//! helmfile itself.

mod real;
mod state;

use std::collections::BTreeMap;

use bundle::{BundleInput, BundleTree, build};
use catalog::hook_chart;
use contract::budget::deployer_timeout_seconds;
use deployer::layout::{folders, values_of};
use release::model::{ChartOrigin, ReleaseKind};
use release::{PlanOptions, ReleasePlan};
use serde_json::{Value, json};

use super::library;
use super::parity::files;
use state::{State, states};

/// Every recipe of the library: name, plan, state files in the order in which helmfile deploys
/// them.
fn all() -> impl Iterator<Item = (&'static str, ReleasePlan, Vec<State>)> {
    catalog::recipe_names().map(|name| {
        let plan = library::planned(&library::recipe(name));
        (name, plan, states(&library::bundle(name, "helmfile".parse().unwrap())))
    })
}

/// A bundle of the largest recipe after a change of its plan.
fn changed(change: impl Fn(&mut ReleasePlan)) -> (ReleasePlan, BundleTree) {
    let recipe = library::recipe("eks-gb200-training");
    let mut plan = library::planned(&recipe);
    change(&mut plan);
    let deployer = "helmfile".parse().unwrap();
    let parts = BundleInput {
        recipe: &recipe,
        plan: &plan,
        options: &PlanOptions::default(),
        deployer,
        hook_chart: hook_chart::contents(),
        source: None,
    };
    let tree = build(parts).unwrap();
    (plan, tree)
}

#[test]
fn each_release_is_in_one_state_file() {
    for (name, plan, states) in all() {
        let releases: Vec<_> = states.iter().flat_map(|state| &state.releases).collect();
        assert_eq!(releases.len(), plan.releases.len(), "{name}");
        for ((folder, release), found) in folders(&plan).zip(releases) {
            assert_eq!(
                (found.name.as_str(), found.namespace.as_str()),
                (release.name.as_str(), release.namespace.as_str()),
                "{name}"
            );
            assert_eq!(found.timeout, release.timeout_seconds, "{name}: {folder}");
            let (version, values) = match &release.kind {
                ReleaseKind::Upstream(upstream) => {
                    (Some(upstream.version.clone()), vec![format!("{folder}/values.yaml")])
                }
                ReleaseKind::Crds(_)
                | ReleaseKind::Kustomization(_)
                | ReleaseKind::Manifests(_)
                | ReleaseKind::Templates(_) => (None, values_of(&plan, release)),
                ReleaseKind::Hook(_) => (
                    None,
                    [values_of(&plan, release), vec![format!("{folder}/rollout.yaml")]].concat(),
                ),
            };
            assert_eq!((&found.version, &found.values), (&version, &values), "{name}: {folder}");
            let is_local = found.chart == format!("./{folder}");
            assert_eq!(
                is_local,
                !matches!(release.kind, ReleaseKind::Upstream(_)),
                "{name}: {folder}"
            );
        }
    }
}

#[test]
fn needs_are_named_or_in_earlier_state_file() {
    for (name, plan, states) in all() {
        let mut earlier: Vec<String> = Vec::new();
        for state in &states {
            let here: Vec<String> = state.releases.iter().map(state::Release::id).collect();
            for found in &state.releases {
                let release =
                    plan.releases.iter().find(|release| release.name == found.name).unwrap();
                for need in &release.needs {
                    let need = plan.releases.iter().find(|other| other.name == *need).unwrap();
                    let id = format!("{}/{}", need.namespace, need.name);
                    assert!(
                        found.needs.contains(&id) || earlier.contains(&id),
                        "{name}: {} does not wait for {id}",
                        found.name
                    );
                }
                assert!(
                    found.needs.iter().all(|need| here.contains(need)),
                    "{name}: helmfile refuses a need that it cannot find"
                );
            }
            earlier.extend(here);
        }
    }
}

#[test]
fn trap_helmfile_timeout_of_release_covers_job_budget() {
    for (name, plan, states) in all() {
        for found in states.iter().flat_map(|state| &state.releases) {
            // helmfile omits the flag for a timeout of zero, and Helm then uses five minutes.
            assert!(found.timeout > 0, "{name}: {}", found.name);
            let release = plan.releases.iter().find(|release| release.name == found.name).unwrap();
            if let ReleaseKind::Hook(hook) = &release.kind {
                assert!(
                    found.timeout >= deployer_timeout_seconds(hook.budget.seconds),
                    "{name}: {}",
                    found.name
                );
            }
        }
    }
}

#[test]
fn trap_helmfile_wait_would_await_the_hooks_work() {
    for (name, _, states) in all() {
        for state in states {
            let defaults = &state.helm_defaults;
            // The model of `state` knows neither `waitForJobs`, `trackMode`, `rollbackOnFailure`
            // nor a release's own `wait`.
            assert!(!defaults.wait && !defaults.atomic && !defaults.cleanup_on_fail, "{name}");
        }
    }
}

#[test]
fn trap_helmfile_create_namespace_is_on_by_default() {
    for (name, _, states) in all() {
        assert!(
            states.iter().all(|state| !state.helm_defaults.create_namespace),
            "{name}: namespaces without Pod Security labels"
        );
    }
}

#[test]
fn trap_helmfile_skips_crds_per_file_only() {
    for (name, plan, states) in all() {
        check_crds(name, &plan, &states);
    }
    // Charts that keep their CRDs after charts that do not: three files.
    let (plan, tree) = changed(|plan| {
        let upstream = plan.releases.iter_mut().filter_map(|release| {
            if let ReleaseKind::Upstream(upstream) = &mut release.kind {
                Some(upstream)
            } else {
                None
            }
        });
        for (index, upstream) in upstream.enumerate() {
            upstream.skip_crds = index == 1;
        }
    });
    let states = states(&tree);
    assert_eq!(states.len(), 3);
    check_crds("changed", &plan, &states);
    assert!(tree.get("helmfile-1.yaml").is_some() && tree.get("helmfile-2.yaml").is_some());
}

fn check_crds(name: &str, plan: &ReleasePlan, states: &[State]) {
    for state in states {
        for found in &state.releases {
            let release = plan.releases.iter().find(|release| release.name == found.name).unwrap();
            if let ReleaseKind::Upstream(upstream) = &release.kind {
                assert_eq!(
                    state.helm_defaults.skip_crds, upstream.skip_crds,
                    "{name}: {}",
                    found.name
                );
            }
        }
    }
}

#[test]
fn trap_helmfile_sibling_state_files_run_in_parallel() {
    for (name, deployer) in library::all().filter(|(_, deployer)| deployer.name == "helmfile") {
        let tree = library::bundle(name, deployer);
        assert!(!tree.files().any(|file| file.path.starts_with("helmfile.d/")), "{name}");
        // `states` follows the references: a file that is not referred to would not be deployed at
        // all.
        let files = tree.files().filter(|file| file.path.starts_with("helmfile")).count();
        assert_eq!(files, states(&tree).len(), "{name}");
        assert!(states(&tree).iter().all(|state| state.helmfiles.len() <= 1), "{name}");
    }
}

#[test]
fn trap_helmfile_plans_everything_before_crds_exist() {
    for (name, plan, states) in all() {
        for found in states.iter().flat_map(|state| &state.releases) {
            let release = plan.releases.iter().find(|release| release.name == found.name).unwrap();
            let (never, not_on_install) =
                (found.disable_validation, found.disable_validation_on_install);
            match &release.kind {
                ReleaseKind::Upstream(upstream) => {
                    assert_eq!(
                        (never, not_on_install),
                        (upstream.skip_crds, !upstream.skip_crds),
                        "{name}: {}",
                        found.name
                    );
                }
                ReleaseKind::Templates(_) => assert!(never, "{name}: {}", found.name),
                ReleaseKind::Manifests(manifests) => {
                    assert_eq!(never, manifests.component.is_some(), "{name}: {}", found.name);
                }
                ReleaseKind::Crds(_) | ReleaseKind::Kustomization(_) | ReleaseKind::Hook(_) => {
                    assert!(!never && !not_on_install, "{name}: {}", found.name);
                }
            }
        }
    }
}

#[test]
fn trap_helmfile_existing_crds_and_namespaces_are_adopted() {
    for (name, plan, states) in all() {
        for found in states.iter().flat_map(|state| &state.releases) {
            let release = plan.releases.iter().find(|release| release.name == found.name).unwrap();
            let is_ours = release.kind.takes_ownership();
            assert_eq!(found.take_ownership, is_ours, "{name}: {}", found.name);
        }
    }
}

/// helmfile's own hooks run on the user's machine, without the rights of the Job, and also after a
/// failed release. Keys of Helm 4 are errors with Helm 3. Arguments could contain `--no-hooks`, and
/// suppressed output hides differences from `apply`.
#[test]
fn trap_helmfile_keys_that_break_promises_are_absent() {
    let keys = [
        "hooks",
        "forceConflicts",
        "serverSide",
        "rollbackOnFailure",
        "syncArgs",
        "diffArgs",
        "args",
        "suppressDiff",
        "suppressOutputLineRegex",
    ];
    for (name, deployer) in library::all().filter(|(_, deployer)| deployer.name == "helmfile") {
        for file in
            library::bundle(name, deployer).files().filter(|file| file.path.starts_with("helmfile"))
        {
            let text = String::from_utf8(file.content.to_vec()).unwrap();
            let found = keys.iter().find(|key| {
                text.lines()
                    .any(|line| line.trim_start_matches([' ', '-']).starts_with(&format!("{key}:")))
            });
            assert_eq!(found, None, "{name}: {}", file.path);
        }
    }
}

#[test]
fn trap_helmfile_replaces_users_repositories_of_same_name() {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for (_, _, states) in all() {
        for repository in states.into_iter().flat_map(|state| state.repositories) {
            // A name has the same address in all bundles.
            assert!(
                repository.name.len() > "nvidia".len() && repository.name.contains('-'),
                "{}",
                repository.name
            );
            assert_eq!(
                known.entry(repository.name).or_insert_with(|| repository.url.clone()),
                &repository.url
            );
        }
    }
}

#[test]
fn trap_helmfile_evaluates_braces_in_a_release() {
    let (_, tree) = changed(|plan| {
        for release in &mut plan.releases {
            if let ReleaseKind::Upstream(upstream) = &mut release.kind {
                upstream.chart = ChartOrigin::File("/mnt/{{ odd }}/chart-1.tgz".to_owned());
            }
        }
    });
    let states = states(&tree);
    let charts: Vec<&String> = states
        .iter()
        .flat_map(|state| &state.releases)
        .map(|release| &release.chart)
        .filter(|chart| chart.starts_with('/'))
        .collect();
    assert!(
        !charts.is_empty()
            && charts.iter().all(|chart| *chart == "/mnt/{{ \"{{\" }} odd }}/chart-1.tgz"),
        "{charts:?}"
    );
    assert!(states.iter().all(|state| state.repositories.is_empty()));
}

/// Regression: helmfile evaluates every reference in a values file in which it finds the bytes
/// `ref+`, so `ref+exec` ran a command.
#[test]
fn trap_helmfile_resolves_references_in_values() {
    let values = json!({
        "ref+echo://x": "ref+exec://touch/injected",
        "script": "a\nref+echo://x\n",
        "list": ["secretref+echo://x"],
    });
    let (plan, tree) = changed(|plan| {
        for release in &mut plan.releases {
            if let ReleaseKind::Upstream(upstream) = &mut release.kind {
                upstream.values = values.as_object().unwrap().clone();
                upstream.version = "1.0.0-ref+x".to_owned();
            }
        }
    });
    let mut checked = 0;
    for (path, text) in files(&tree).iter() {
        if path.ends_with("/values.yaml") || path.ends_with("/rollout.yaml") {
            assert!(!text.contains("ref+"), "{path}");
            checked += 1;
        }
    }
    assert!(checked > 3, "{checked}");
    let charts = folders(&plan).filter(|(_, release)| release.kind.upstream().is_some());
    for (folder, release) in charts {
        let file = tree.get(&format!("{folder}/values.yaml")).unwrap();
        let found: Value = yaml::from_str(std::str::from_utf8(&file.content).unwrap()).unwrap();
        assert_eq!(found, values, "{}", release.name);
    }
}

#[test]
fn trap_helmfile_apply_does_not_rerun_failed_hook() {
    for (name, deployer) in library::all().filter(|(_, deployer)| deployer.name == "helmfile") {
        let tree = library::bundle(name, deployer);
        let readme = String::from_utf8(tree.get("README.md").unwrap().content.to_vec()).unwrap();
        for sentence in [
            "**Use `helmfile sync`.**",
            "It does not work **after a hook has failed**",
            "--include-transitive-needs",
            "no `--timeout`",
        ] {
            assert!(readme.contains(sentence), "{name}: {sentence}");
        }
        let commands: Vec<String> = (deployer.next)("base", "bundle", None);
        assert!(
            commands.iter().any(|line| line.ends_with(" sync"))
                && !commands.iter().any(|line| line.contains(" apply"))
        );
    }
}
