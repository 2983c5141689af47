//! Traps that Helm has for a bundle of the deployer `helm`, each with a test that is named after it. Those of the script itself (versions,
//! pending releases, paths) are in `script`.

use std::collections::BTreeMap;

use gpu_rollout::contract::budget::deployer_timeout_seconds;
use gpu_rollout::deployer::helm::facts::{Step, steps};
use gpu_rollout::release::Plan;
use gpu_rollout::release::model::Kind;

use super::library;

/// Every recipe of the library: name, plan, `deploy.sh`, and its steps.
fn all() -> impl Iterator<Item = (&'static str, Plan, String, Vec<Step>)> {
    gpu_rollout::catalog::recipe_names().map(|name| {
        let tree = library::bundle(name, "helm".parse().unwrap());
        let script = String::from_utf8(tree.get("deploy.sh").unwrap().content.clone()).unwrap();
        let steps = steps(&script);
        (name, library::planned(&library::recipe(name)), script, steps)
    })
}

#[test]
fn trap_helm_timeout_must_outlast_the_job() {
    for (name, plan, _, steps) in all() {
        for (release, step) in plan.releases.iter().zip(&steps) {
            let timeout = step.timeout_seconds.unwrap();
            // Helm 4 takes zero for 30 seconds.
            assert!(timeout > 0, "{name}: {}", step.folder);
            if let Kind::Hook(hook) = &release.kind {
                assert!(timeout >= deployer_timeout_seconds(hook.budget.seconds), "{name}: {}", step.folder);
            }
        }
    }
}

#[test]
fn trap_helm_wait_and_atomic_undo_what_takes_its_time() {
    for (name, _, script, _) in all() {
        let commands: Vec<&str> = script.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
        for flag in ["--wait", "--atomic", "--rollback-on-failure", "--force ", "--force-replace", "--no-hooks", "--reuse-values"] {
            assert!(!commands.iter().any(|line| line.contains(flag)), "{name}: {flag}");
        }
    }
}

#[test]
fn trap_helm_needs_crds_before_the_objects_that_use_them() {
    for (name, plan, _, steps) in all() {
        let place: BTreeMap<&str, usize> = steps.iter().enumerate().map(|(index, step)| (step.name(), index)).collect();
        for release in &plan.releases {
            for need in &release.needs {
                assert!(place[need.as_str()] < place[release.name.as_str()], "{name}: {} before {need}", release.name);
            }
            if let Kind::Upstream(upstream) = &release.kind {
                let crds = plan.releases.iter().any(|other| matches!(other.kind, Kind::Crds(_)) && release.needs.contains(&other.name));
                assert_eq!(upstream.skip_crds, crds, "{name}: {}: two writers of one CRD, or none", release.name);
                let said = &steps[place[release.name.as_str()]].rest[1];
                assert_eq!(said == "crds-elsewhere", upstream.skip_crds, "{name}: {}", release.name);
            }
        }
    }
}

#[test]
fn trap_helm_values_of_a_hook_come_after_those_that_it_shares() {
    for (name, plan, script, steps) in all() {
        for (release, step) in plan.releases.iter().zip(&steps) {
            if let Kind::Hook(hook) = &release.kind {
                assert_eq!(step.rest, gpu_rollout::deployer::layout::values_of(&plan, hook), "{name}: {}", step.folder);
            }
        }
        assert!(script.contains("\"$@\" --values \"$bundle/$hook_folder/rollout.yaml\""), "{name}: its own settings are the last file");
    }
}

/// In every deployer's bundle: the same charts are in all of them.
#[test]
fn trap_helm_hooks_have_one_job_that_needs_no_other_hook() {
    for (name, deployer) in library::all() {
        for file in library::bundle(name, deployer).files().filter(|file| file.path.contains("/templates/")) {
            let text = String::from_utf8(file.content.clone()).unwrap();
            let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| line.contains("helm.sh/hook")).collect();
            for line in lines {
                // Events: what Argo CD and Helm both know, and never `pre-…`. Policy: the default, said. No log policy: it ends Flux's controller.
                let is_known = ["post-install,post-upgrade,post-rollback", "before-hook-creation", "hook-weight"]
                    .iter()
                    .any(|part| line.contains(part));
                assert!(is_known && !line.contains("output-log-policy"), "{name}: {}: {line}", file.path);
                assert!(file.path.ends_with("/job.yaml"), "{name}: {}", file.path);
            }
        }
    }
}
