//! What the project of the Applications allows: exactly the repositories and namespaces of the bundle, and the kinds without a
//! namespace that its charts bring.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{ApplicationForm, address};
use crate::DeployerInput;
use crate::language::WrittenText;
use release::ReleasePlan;
use release::model::{ReleaseKind, ReleasedCrd};

/// Kinds of Kubernetes itself (and OpenShift) without a namespace that charts bring. Not among them: nodes, volumes, certificates.
const KINDS: [(&str, &str); 12] = [
    ("", "Namespace"),
    ("admissionregistration.k8s.io", "*"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("resource.k8s.io", "DeviceClass"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("security.openshift.io", "SecurityContextConstraints"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "StorageClass"),
];
/// Namespaces beside those of the releases: the hook's Lease is in `default`, and vendors' charts put a Role into `kube-system` (leader
/// election, reading the API server's certificate).
const NAMESPACES: [&str; 2] = ["default", "kube-system"];

/// The project for its template.
#[derive(Serialize)]
pub(super) struct ProjectContext<'a> {
    project: WrittenText,
    control_namespace: WrittenText,
    bundle: WrittenText,
    description: WrittenText,
    repositories: Vec<WrittenText>,
    server: WrittenText,
    namespaces: BTreeSet<&'a str>,
    unknown_crds: Vec<&'a str>,
    cluster_kinds: BTreeSet<ClusterKind<'a>>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct ClusterKind<'a> {
    group: &'a str,
    kind: &'a str,
}

/// The project of this bundle.
pub(super) fn context<'a>(form: ApplicationForm<'_>, input: DeployerInput<'a>) -> ProjectContext<'a> {
    let plan = input.plan;
    let unknown_crds = unknown_crds(plan);
    let cluster_kinds = if unknown_crds.is_empty() {
        let own = crds(plan).filter_map(cluster_kind);
        own.chain(KINDS.map(|(group, kind)| ClusterKind { group, kind })).collect()
    } else {
        BTreeSet::from([ClusterKind { group: "*", kind: "*" }])
    };
    let charts: BTreeSet<&str> = upstreams(plan).filter_map(|(_, upstream)| address(&upstream.chart)).map(|(url, _)| url).collect();
    let mut repositories = vec![form.repository()];
    repositories.extend(charts.into_iter().map(|url| form.text(url)).filter(|url| *url != form.repository()));
    ProjectContext {
        project: form.project(),
        control_namespace: form.control_namespace(),
        bundle: form.bundle(),
        description: form.description(),
        repositories,
        server: form.server(),
        namespaces: plan.releases.iter().map(|release| release.namespace.as_str()).chain(NAMESPACES).collect(),
        unknown_crds,
        cluster_kinds,
    }
}

fn upstreams(plan: &ReleasePlan) -> impl Iterator<Item = (&str, &release::model::UpstreamRelease)> {
    plan.releases.iter().filter_map(|release| match &release.kind {
        ReleaseKind::Upstream(upstream) => Some((release.name.as_str(), upstream)),
        ReleaseKind::Crds(_) | ReleaseKind::Manifests(_) | ReleaseKind::Hook(_) => None,
    })
}

/// Releases whose chart brings CRDs itself, if it has any.
fn unknown_crds(plan: &ReleasePlan) -> Vec<&str> {
    upstreams(plan).filter(|(_, upstream)| !upstream.skip_crds).map(|(name, _)| name).collect()
}

fn crds(plan: &ReleasePlan) -> impl Iterator<Item = &ReleasedCrd> {
    plan.releases.iter().flat_map(|release| match &release.kind {
        ReleaseKind::Crds(crds) => crds.crds.as_slice(),
        ReleaseKind::Upstream(_) | ReleaseKind::Manifests(_) | ReleaseKind::Hook(_) => &[],
    })
}

/// The kind of a CRD without a namespace. CRDs are large, and these two lines stand alike in all of them.
fn cluster_kind(crd: &ReleasedCrd) -> Option<ClusterKind<'_>> {
    let (_, group) = crd.name.split_once('.')?;
    let find = |key: &str| crd.text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    (find("  scope:")? == "Cluster").then_some(ClusterKind { group, kind: find("    kind:")? })
}
