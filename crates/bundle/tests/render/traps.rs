//! Known traps of Helm for bundles of the deployer `helm`, each with a test of its name. Those of
//! the script itself (versions, pending releases, paths) are in `script`.

use deployer::layout::{folder_of, values_of};
use parity::{BundleFacts, DeployerFact, read_facts};
use release::ReleasePlan;
use release::model::ReleaseKind;

use super::library;

/// Every recipe of the library: name, plan, `deploy.sh`, and what it means.
fn all() -> impl Iterator<Item = (&'static str, ReleasePlan, String, BundleFacts)> {
    catalog::recipe_names().map(|name| {
        let tree = library::bundle(name, "helm".parse().unwrap());
        let text = |content: &[u8]| String::from_utf8(content.to_vec()).unwrap();
        let script = text(&tree.get("deploy.sh").unwrap().content);
        let files = tree.files().map(|file| (file.path.clone(), text(&file.content))).collect();
        (name, library::planned(&library::recipe(name)), script, read_facts(&files).unwrap())
    })
}

#[test]
fn trap_helm_timeout_must_outlast_the_job() {
    for (name, plan, _, facts) in all() {
        for release in &plan.releases {
            let found = &facts.releases[&release.name];
            // Helm 4 treats zero as 30 seconds.
            assert!(
                found.evidence.timeouts.iter().all(|timeout| timeout.seconds > 0),
                "{name}: {}",
                release.name
            );
            assert!(!found.evidence.timeouts.is_empty(), "{name}: {}", release.name);
            let is_sufficient = found.hook.as_ref().map(|hook| &hook.timeout_is_sufficient);
            assert_eq!(
                is_sufficient,
                matches!(release.kind, ReleaseKind::Hook(_)).then_some(&DeployerFact::Is(true)),
                "{name}: {}",
                release.name
            );
        }
    }
}

#[test]
fn trap_helm_wait_and_atomic_undo_slow_rollouts() {
    for (name, _, script, _) in all() {
        let commands: Vec<&str> =
            script.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
        for flag in [
            "--wait",
            "--atomic",
            "--rollback-on-failure",
            "--force ",
            "--force-replace",
            "--no-hooks",
            "--reuse-values",
        ] {
            assert!(!commands.iter().any(|line| line.contains(flag)), "{name}: {flag}");
        }
    }
}

#[test]
fn trap_helm_needs_crds_before_their_objects() {
    for (name, plan, _, facts) in all() {
        for release in &plan.releases {
            let found = &facts.releases[&release.name];
            for need in &release.needs {
                assert!(
                    found.after.releases.contains(need),
                    "{name}: {} before {need}",
                    release.name
                );
            }
            if let ReleaseKind::Upstream(upstream) = &release.kind {
                let crds = plan.releases.iter().any(|other| {
                    matches!(other.kind, ReleaseKind::Crds(_))
                        && release.needs.contains(&other.name)
                });
                assert_eq!(
                    upstream.skip_crds, crds,
                    "{name}: {}: two writers of one CRD, or none",
                    release.name
                );
                assert_eq!(
                    found.skips_crds,
                    DeployerFact::Is(upstream.skip_crds),
                    "{name}: {}",
                    release.name
                );
            }
        }
    }
}

#[test]
fn trap_helm_own_values_follow_shared_ones() {
    for (name, plan, _, facts) in all() {
        for release in &plan.releases {
            if release.kind.hook().is_some() {
                let own = format!("{}/rollout.yaml", folder_of(&plan, &release.name).unwrap());
                let files: Vec<String> =
                    values_of(&plan, release).into_iter().chain([own]).collect();
                assert_eq!(
                    facts.releases[&release.name].values.files, files,
                    "{name}: {}",
                    release.name
                );
            }
        }
    }
}

#[test]
fn trap_argocd_takes_earlier_finished_job_for_new() {
    for (name, deployer) in library::all() {
        for file in library::bundle(name, deployer)
            .files()
            .filter(|file| file.path.ends_with("/templates/job.yaml"))
        {
            let text = String::from_utf8(file.content.to_vec()).unwrap();
            let policy = "argocd.argoproj.io/hook-delete-policy: BeforeHookCreation,HookSucceeded";
            assert!(text.contains(policy), "{name}: {}", file.path);
        }
    }
}

/// In every deployer's bundle: the same charts are in all of them.
#[test]
fn trap_helm_hooks_have_one_independent_job() {
    for (name, deployer) in library::all() {
        for file in
            library::bundle(name, deployer).files().filter(|file| file.path.contains("/templates/"))
        {
            let text = String::from_utf8(file.content.to_vec()).unwrap();
            let lines: Vec<&str> =
                text.lines().map(str::trim).filter(|line| line.contains("helm.sh/hook")).collect();
            for line in lines {
                // Events: what Argo CD and Helm both know, and never `pre-…`. Policy: the default,
                // said. No log policy: it ends Flux's controller.
                let is_known = [
                    "post-install,post-upgrade,post-rollback",
                    "before-hook-creation",
                    "hook-weight",
                ]
                .iter()
                .any(|part| line.contains(part));
                assert!(
                    is_known && !line.contains("output-log-policy"),
                    "{name}: {}: {line}",
                    file.path
                );
                assert!(file.path.ends_with("/job.yaml"), "{name}: {}", file.path);
            }
        }
    }
}
