//! Known traps of every deployer: checks of the charts and pages of every bundle.

use std::collections::BTreeSet;

use catalog::hook_chart;
use contract::budget::{
    MARGIN_SECONDS, SLACK_SECONDS, TERMINATION_GRACE_SECONDS, deployer_timeout_seconds,
    working_seconds,
};
use release::model::ReleaseKind;
use serde_json::Value;

use super::hostile::is_helm_template;
use super::library;

/// Returns the lines of a chart's templates that are not comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with('#'))
}

fn hook_chart_file(path: &str) -> &'static str {
    hook_chart::FILES.iter().find(|(known, _)| *known == path).unwrap().1
}

/// Argo CD only renders templates, without revision, install or upgrade. A value that differs
/// between renders would fire the hook forever. A lookup finds nothing there, so the chart's only
/// lookup first checks whether lookups work.
#[test]
fn trap_argocd_templates_know_no_revision_or_cluster() {
    for (name, deployer) in library::all() {
        for file in
            library::bundle(name, deployer).files().filter(|file| is_helm_template(&file.path))
        {
            let text = std::str::from_utf8(&file.content).unwrap();
            for word in [
                ".Release.Revision",
                ".Release.IsUpgrade",
                ".Release.IsInstall",
                "randAlpha",
                "uuidv4",
                "now ",
                "genCA",
                "getHostByName",
            ] {
                assert!(
                    !lines(text).any(|line| line.contains("{{") && line.contains(word)),
                    "{name}: {}: {word}",
                    file.path
                );
            }
            let lookups = lines(text).filter(|line| line.contains("lookup \""));
            assert_eq!(
                lookups.count(),
                if library::is_hook_chart(&file.path, "templates/_helpers.tpl") { 2 } else { 0 },
                "{name}: {}",
                file.path
            );
        }
    }
}

/// Helm 4 patches a Job that still terminates and takes its old condition for the new one; a name
/// that is generated leaks Jobs; a Job that removes itself is a success for one deployer and hangs
/// another.
#[test]
fn trap_job_has_neither_finalizer_nor_ttl() {
    let job = hook_chart_file("templates/job.yaml");
    for word in ["finalizers:", "generateName:", "ttlSecondsAfterFinished:", "podFailurePolicy:"] {
        assert!(!lines(job).any(|line| line.contains(word)), "{word}");
    }
    assert!(
        job.contains("\n  name: {{ .Release.Name | quote }}\n"),
        "one name for all runs, which `before-hook-creation` finds"
    );
}

/// Kubernetes' own default is six retries, and a container that is restarted in place loses its log
/// with the pod.
#[test]
fn trap_job_retries_are_few_within_its_deadline() {
    let job = hook_chart_file("templates/job.yaml");
    for line in [
        "  activeDeadlineSeconds: {{ int64 $rollout.budgetSeconds }}",
        "  backoffLimit: 2",
        "      restartPolicy: Never",
    ] {
        assert!(job.lines().any(|found| found == line), "{line}");
    }
}

/// The hook ends before the Job's deadline does, and the deployer waits for longer than both: for
/// the grace of the last pod as well.
#[test]
fn trap_job_is_abandoned_before_it_reports() {
    assert_eq!(SLACK_SECONDS, TERMINATION_GRACE_SECONDS + 60);
    for (name, plan) in
        catalog::recipe_names().map(|name| (name, library::planned(&library::recipe(name))))
    {
        for release in &plan.releases {
            if let ReleaseKind::Hook(hook) = &release.kind {
                let budget = hook.budget.seconds;
                assert!(
                    working_seconds(budget) + MARGIN_SECONDS <= budget,
                    "{name}: {}: {budget}",
                    release.name
                );
                assert!(
                    release.timeout_seconds >= deployer_timeout_seconds(budget),
                    "{name}: {}",
                    release.name
                );
            }
        }
    }
}

/// A digest may start with 0, and a version of digits alone must not; `+` is in no label.
#[test]
fn trap_version_with_digest_is_version_and_label() {
    assert!(
        hook_chart_file("templates/_helpers.tpl").contains(".Chart.Version | replace \"+\" \"_\"")
    );
    for (name, deployer) in library::all() {
        for file in library::bundle(name, deployer)
            .files()
            .filter(|file| file.path.ends_with("/Chart.yaml"))
        {
            let text = std::str::from_utf8(&file.content).unwrap();
            let version = text
                .lines()
                .find_map(|line| line.strip_prefix("version: "))
                .unwrap()
                .trim_matches('"');
            if let Some((_, digest)) = version.split_once('+') {
                let plain = digest.strip_prefix('d').is_some_and(|hex| {
                    hex.len() == 12 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
                });
                assert!(plain, "{name}: {}: {version}", file.path);
            }
        }
    }
}

/// Each bundle's page documents the settings that a bundle cannot make.
#[test]
fn trap_what_bundles_cannot_set_is_documented() {
    let said = [
        ("flux", vec!["--graceful-shutdown-timeout", "--concurrent"]),
        ("argocd", vec!["controller.sync.timeout.seconds", "the revision is a tag. With"]),
        (
            "argocd-helm",
            vec![
                "controller.sync.timeout.seconds",
                "`--timeout` and `--wait` do not apply to hooks",
            ],
        ),
    ];
    for (name, deployer) in library::all() {
        let tree = library::bundle(name, deployer);
        let page = String::from_utf8(tree.get("README.md").unwrap().content.to_vec()).unwrap();
        for words in
            said.iter().filter(|(known, _)| *known == deployer.name).flat_map(|(_, words)| words)
        {
            assert!(page.contains(words), "{name}, {}: {words}", deployer.name);
        }
    }
}

/// No value disables the pre-delete Job of the GPU Operator's chart.
#[test]
fn trap_pre_delete_job_keeps_the_application() {
    for (name, deployer) in library::all() {
        if !deployer.name.starts_with("argocd") {
            continue;
        }
        let tree = library::bundle(name, deployer);
        let page = String::from_utf8(tree.get("README.md").unwrap().content.to_vec()).unwrap();
        assert!(
            page.contains("`pre-delete-finalizer.argocd.argoproj.io`")
                && page.contains(r#"{"metadata":{"finalizers":null}}"#),
            "{name}, {deployer}"
        );
    }
}

/// The post-delete Job of NFD removes the labels that place drivers from all nodes. Argo CD runs it
/// whenever the Application is deleted, even if the deletion does not cascade.
#[test]
fn trap_nfd_must_not_take_its_labels_away() {
    let places = [
        ("gpu-operator", "/node-feature-discovery/postDeleteCleanup"),
        ("node-feature-discovery", "/postDeleteCleanup"),
        ("nvidia-device-plugin", "/nfd/postDeleteCleanup"),
    ];
    let mut seen = BTreeSet::new();
    for (name, deployer) in library::all() {
        let tree = library::bundle(name, deployer);
        for file in tree.files() {
            for (component, pointer) in places
                .iter()
                .filter(|(component, _)| file.path.ends_with(&format!("-{component}/values.yaml")))
            {
                let values: Value =
                    yaml::from_str(std::str::from_utf8(&file.content).unwrap()).unwrap();
                assert_eq!(values.pointer(pointer), Some(&false.into()), "{name}: {}", file.path);
                seen.insert(*component);
            }
        }
        if deployer.name.starts_with("argocd") {
            let page = String::from_utf8(tree.get("README.md").unwrap().content.to_vec()).unwrap();
            assert!(
                page.contains(r#"{"metadata":{"finalizers":null}}"#) && page.contains("--cascade"),
                "{name}, {deployer}"
            );
            assert!(
                !page.contains("no Application carries a finalizer")
                    && !page.contains("deleting the Application above"),
                "{name}"
            );
        }
    }
    assert!(seen.contains("gpu-operator") && seen.contains("nvidia-device-plugin"), "{seen:?}");
}

#[test]
fn image_without_registry_is_noted_on_each_page() {
    for (name, deployer) in library::all() {
        let tree = library::bundle(name, deployer);
        let page = String::from_utf8(tree.get("README.md").unwrap().content.to_vec()).unwrap();
        let has_hook = tree.files().any(|file| file.path.ends_with("/rollout.yaml"));
        assert_eq!(
            page.contains("the hook's image has no registry"),
            has_hook,
            "{name}, {deployer}"
        );
    }
}

/// Objects that no deployer may remove have each deployer's annotation for that.
#[test]
fn trap_nothing_that_others_live_in_is_pruned() {
    let keep = [
        "helm.sh/resource-policy",
        "argocd.argoproj.io/sync-options",
        "argocd.argoproj.io/compare-options",
        "kustomize.toolkit.fluxcd.io/prune",
    ];
    let mut seen = BTreeSet::new();
    for (name, deployer) in library::all() {
        for file in library::bundle(name, deployer)
            .files()
            .filter(|file| file.path.rsplit('.').next() == Some("yaml"))
        {
            let text = std::str::from_utf8(&file.content).unwrap();
            if text.contains("\nkind: CustomResourceDefinition\n") {
                for document in text
                    .split("\n---\n")
                    .filter(|document| document.contains("kind: CustomResourceDefinition\n"))
                {
                    assert!(
                        keep.iter().all(|annotation| document.contains(annotation)),
                        "{name}: {}",
                        file.path
                    );
                }
                seen.insert("CustomResourceDefinition".to_owned());
            } else if ["kind: Namespace\n", "kind: NicClusterPolicy\n"]
                .iter()
                .any(|kind| text.contains(kind))
            {
                objects(&yaml::from_str(text).unwrap(), &mut |kind, annotations| {
                    assert!(
                        keep.iter().all(|annotation| annotations.get(annotation).is_some()),
                        "{name}: {}: {kind}",
                        file.path
                    );
                    seen.insert(kind.to_owned());
                });
            }
        }
    }
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        ["CustomResourceDefinition", "Namespace", "NicClusterPolicy"]
    );
}

/// Kind and annotations of the namespaces and policies in a file, however deep.
fn objects(value: &Value, found: &mut impl FnMut(&str, &Value)) {
    if let (Some(kind @ ("Namespace" | "NicClusterPolicy")), Some(_)) =
        (value["kind"].as_str(), value.get("metadata"))
    {
        found(kind, &value["metadata"]["annotations"]);
    }
    value.as_array().into_iter().flatten().for_each(|item| objects(item, found));
    value.as_object().into_iter().flatten().for_each(|(_, item)| objects(item, found));
}
