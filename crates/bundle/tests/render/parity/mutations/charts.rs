//! Mutations of charts that every deployer reads in the same way.

use parity::{ParityReport, ReadbackError};

use super::{Mutation, Scene, changed_value, is_numbered, names};

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
            // Its own; what a preflight knows of another release is part of the trigger.
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
