//! Lines that may differ without changing the meaning of a bundle.

/// Lines by deployer, start of the file's path, and start of the line; and why parity has no fact
/// for them.
const MEANINGLESS: &[(&str, &str, &[&str], &str)] = &[
    ("helmfile", "helmfile", &["historyMax:"], "how many old revisions Helm keeps"),
    ("helmfile", "helmfile", &["kind:"], "a label, for people who select releases"),
    ("helmfile", "helmfile", &["skipDeps:"], "charts of the bundle have no dependencies"),
    (
        "helmfile",
        "helmfile",
        &["disableValidation"],
        "when `helmfile apply` asks the cluster about kinds while it plans",
    ),
    (
        "flux",
        "",
        &["interval:", "retryInterval:"],
        "how soon Flux looks or tries again, which no other deployer does by itself",
    ),
    ("flux", "", &["namespace: flux-system"], "kustomize sets the namespace of all objects"),
    ("flux", "kustomization.yaml", &["apiVersion:", "kind:"], "kustomize takes no other"),
    (
        "flux",
        "kustomization.yaml",
        &["kustomize.toolkit.fluxcd.io/substitute:"],
        "protects from an outer Kustomization only",
    ),
    ("flux", "kustomizeconfig.yaml", &["version:"], "there is one version of ConfigMap"),
    (
        "flux",
        "flux-system/",
        &["apiVersion:", "- apiVersion:", "kind:", "url:", "branch:", "name:"],
        "how the bundle gets to the cluster",
    ),
    (
        "flux",
        "flux-system/",
        &["prune:", "wait:"],
        "what becomes of releases that leave the bundle, and when the whole counts as ready",
    ),
    ("flux", "sources/", &["apiVersion:"], "the API server takes no other"),
    ("flux", "releases/", &["maxHistory:"], "how many old revisions Helm keeps"),
    (
        "flux",
        "releases/",
        &["persistentClient:"],
        "whether Helm sees CRDs that were made a moment ago",
    ),
    (
        "flux",
        "releases/",
        &["crds:", "reconcileStrategy:", "mode: warn"],
        "the text that was put there is none that the API server takes",
    ),
    (
        "argocd",
        "",
        &["limit:", "duration:", "factor:", "maxDuration:"],
        "how often and how soon Argo CD tries again",
    ),
    ("argocd", "", &["revisionHistoryLimit:"], "how many old revisions Argo CD keeps"),
    (
        "argocd",
        "",
        &["app.kubernetes.io/part-of:", "gpu-rollout.dev/"],
        "labels, for people and for the health check",
    ),
    ("argocd", "", &["description:"], "for people"),
    ("argocd", "", &["name:"], "what an Application, a project, or the hook's record is called"),
    ("argocd", "root.yaml", &["selfHeal:"], "whether edits of Applications are put back"),
    (
        "argocd",
        "project.yaml",
        &["- server:", "namespace: \"kube-system\""],
        "what the project permits, and no release goes to",
    ),
    (
        "argocd",
        "project.yaml",
        &["- group:", "kind: \""],
        "which cluster-scoped kinds vendors' charts contain is not in the bundle",
    ),
    ("argocd", "templates/project.yaml", &["- group:", "kind: \""], "as above"),
    ("argocd", "templates/project.yaml", &["- server:", "namespace: \"kube-system\""], "as above"),
    ("argocd", "Chart.yaml", &[""], "the umbrella chart itself"),
    ("argocd", "values.yaml", &[""], "the values of the installation of the umbrella chart"),
    (
        "argocd",
        "argocd-cm-health.yaml",
        &[""],
        "the check's program; that it is there is a fact, and what it says has tests of its own",
    ),
    (
        "argocd",
        "",
        &["- \"ServerSideApply", "- \"SkipDryRun"],
        "how Argo CD applies what is the vendor's or the hook's",
    ),
    ("argocd", "", &["skipTests:"], "Argo CD runs no Helm tests anyway"),
    (
        "argocd",
        "",
        &["- group:", "kind: \"*\"", "- \"gpu-rollout\"", "- kind:", "- /data"],
        "what Argo CD does not show as a difference",
    ),
];

/// Whether parity may ignore a changed line.
pub(super) fn is_meaningless(deployer: &str, file: &str, before: &str, line: &str) -> bool {
    // Behind a name it is the namespace of an object, and not where a release goes.
    if deployer.starts_with("argocd")
        && line.starts_with("namespace:")
        && before.starts_with("name:")
    {
        return true;
    }
    let fits = |(of, path, starts, _): &(&str, &str, &[&str], &str)| {
        deployer.strip_suffix("-helm").unwrap_or(deployer) == *of
            && file.starts_with(path)
            && starts.iter().any(|start| line.starts_with(start))
    };
    MEANINGLESS.iter().any(fits)
}
