//! What the project of the Applications allows: exactly the repositories and namespaces of the bundle, and the kinds without a
//! namespace that its charts bring.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Form, address};
use crate::deployer::Input;
use crate::deployer::language::Written;
use crate::release::Plan;
use crate::release::model::{Crd, Kind};

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
pub(super) struct Context<'a> {
    project: Written,
    control_namespace: Written,
    bundle: Written,
    description: Written,
    repositories: Vec<Written>,
    server: Written,
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
pub(super) fn context<'a>(form: Form<'_>, input: Input<'a>) -> Context<'a> {
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
    Context {
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

fn upstreams(plan: &Plan) -> impl Iterator<Item = (&str, &crate::release::model::Upstream)> {
    plan.releases.iter().filter_map(|release| match &release.kind {
        Kind::Upstream(upstream) => Some((release.name.as_str(), upstream)),
        Kind::Crds(_) | Kind::Manifests(_) | Kind::Hook(_) => None,
    })
}

/// Releases whose chart brings CRDs itself, if it has any.
fn unknown_crds(plan: &Plan) -> Vec<&str> {
    upstreams(plan).filter(|(_, upstream)| !upstream.skip_crds).map(|(name, _)| name).collect()
}

fn crds(plan: &Plan) -> impl Iterator<Item = &Crd> {
    plan.releases.iter().flat_map(|release| match &release.kind {
        Kind::Crds(crds) => crds.crds.as_slice(),
        Kind::Upstream(_) | Kind::Manifests(_) | Kind::Hook(_) => &[],
    })
}

/// The kind of a CRD without a namespace. CRDs are large, and these two lines stand alike in all of them.
fn cluster_kind(crd: &Crd) -> Option<ClusterKind<'_>> {
    let (_, group) = crd.name.split_once('.')?;
    let find = |key: &str| crd.text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    (find("  scope:")? == "Cluster").then_some(ClusterKind { group, kind: find("    kind:")? })
}
