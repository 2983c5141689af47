//! The project of the Applications. It allows exactly the repositories and namespaces of the
//! bundle, and the cluster-scoped kinds of its charts.

use std::collections::BTreeSet;

use minijinja::{Value, context};

use super::{ApplicationForm, address};
use crate::DeployerInput;
use release::model::{ReleaseKind, ReleasedCrd, TemplatesRelease};
use release::{Release, ReleasePlan};

/// Cluster-scoped kinds of Kubernetes, OpenShift and NFD that charts contain. They exclude nodes,
/// volumes and certificates. The operators' charts can contain rules for an NFD whose CRDs are not
/// in the bundle.
const KINDS: [(&str, &str); 13] = [
    ("", "Namespace"),
    ("admissionregistration.k8s.io", "*"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("nfd.k8s-sigs.io", "NodeFeatureRule"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("resource.k8s.io", "DeviceClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("security.openshift.io", "SecurityContextConstraints"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "StorageClass"),
];
/// Namespaces in addition to those of the releases: the hook's Lease is in `default`, and vendors'
/// charts create a Role in `kube-system` (leader election, reading the API server's certificate).
const NAMESPACES: [&str; 2] = ["default", "kube-system"];

/// Returns the template context of the bundle's project.
pub(super) fn project_context(form: ApplicationForm<'_>, input: DeployerInput<'_>) -> Value {
    let plan = input.plan;
    let unknown_crds = unknown_crds(plan);
    let cluster_kinds: BTreeSet<(&str, &str)> = if unknown_crds.is_empty() {
        crds(plan).filter_map(cluster_kind).chain(KINDS).chain(own_kinds(plan)).collect()
    } else {
        BTreeSet::from([("*", "*")])
    };
    let charts: BTreeSet<&str> = upstreams(plan)
        .filter_map(|(_, upstream)| address(&upstream.chart))
        .map(|(url, _)| url)
        .collect();
    let mut repositories = vec![form.repository()];
    let kustomizations = plan.releases.iter().filter_map(|release| release.kind.kustomization());
    let charts: BTreeSet<&str> =
        charts.into_iter().chain(kustomizations.map(|source| source.repository.as_str())).collect();
    repositories.extend(
        charts.into_iter().map(|url| form.text(url)).filter(|url| *url != form.repository()),
    );
    let named = templates(plan).flat_map(|templates| &templates.namespaces).map(String::as_str);
    let own = plan.releases.iter().map(|release| release.namespace.as_str());
    let tests = plan.acceptance_namespace();
    let namespaces: BTreeSet<&str> = own.chain(named).chain(NAMESPACES).chain(tests).collect();
    context! {
        project => form.project(),
        control_namespace => form.control_namespace(),
        bundle => form.bundle(),
        description => form.description(),
        repositories,
        server => form.server(),
        namespaces => namespaces.into_iter().collect::<Value>(),
        unknown_crds => unknown_crds.into_iter().collect::<Value>(),
        cluster_kinds => cluster_kinds.into_iter().map(|(group, kind)| context! { group, kind }).collect::<Value>(),
    }
}

fn upstreams(plan: &ReleasePlan) -> impl Iterator<Item = (&str, &release::model::UpstreamRelease)> {
    plan.releases
        .iter()
        .filter_map(|release| Some((release.name.as_str(), release.kind.upstream()?)))
}

/// Returns the releases that may install their own CRDs: charts, and kustomizations.
fn unknown_crds(plan: &ReleasePlan) -> Vec<&str> {
    let may = |release: &&Release| {
        let upstream = release.kind.upstream();
        upstream.is_some_and(|upstream| !upstream.skip_crds && !upstream.has_no_crds)
            || release.kind.kustomization().is_some()
    };
    plan.releases.iter().filter(may).map(|release| release.name.as_str()).collect()
}

/// Returns the releases with the recipe's own templates.
fn templates(plan: &ReleasePlan) -> impl Iterator<Item = &TemplatesRelease> {
    plan.releases.iter().filter_map(|release| {
        if let ReleaseKind::Templates(templates) = &release.kind { Some(templates) } else { None }
    })
}

/// Returns the kinds in the recipe's own templates. Only the cluster knows which of them are
/// cluster-scoped; for the others, an entry has no effect.
fn own_kinds(plan: &ReleasePlan) -> impl Iterator<Item = (&str, &str)> {
    templates(plan)
        .flat_map(|templates| &templates.kinds)
        .map(|(group, kind)| (group.as_str(), kind.as_str()))
}

fn crds(plan: &ReleasePlan) -> impl Iterator<Item = &ReleasedCrd> {
    plan.releases.iter().flat_map(|release| match &release.kind {
        ReleaseKind::Crds(crds) => crds.crds.as_slice(),
        ReleaseKind::Upstream(_)
        | ReleaseKind::Manifests(_)
        | ReleaseKind::Templates(_)
        | ReleaseKind::Kustomization(_)
        | ReleaseKind::Hook(_) => &[],
    })
}

/// Returns group and kind of a cluster-scoped CRD. CRDs are large, and these lines have the same
/// form in all of them, so they are not parsed.
fn cluster_kind(crd: &ReleasedCrd) -> Option<(&str, &str)> {
    let (_, group) = crd.name.split_once('.')?;
    let find = |key: &str| {
        crd.text.as_str().lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
    };
    (find("  scope:")? == "Cluster").then_some((group, find("    kind:")?))
}
