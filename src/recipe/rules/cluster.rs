//! Name and cluster facts.

use semver::VersionReq;

use super::Subject;
use crate::text::diagnostic::Diagnostic;

/// As many nodes as Kubernetes supports several times over; more is a typing mistake.
const MOST_NODES: u32 = 20_000;

/// Checks `metadata` and `cluster`.
pub fn check(subject: &Subject<'_>, findings: &mut Vec<Diagnostic>) {
    let name = &subject.recipe.metadata.name;
    if !is_dns_label(name) {
        findings.push(
            Diagnostic::error(format!("`{name}` cannot be a recipe's name"))
                .at(subject.place(&["metadata", "name"]))
                .hint("use lower-case letters, digits and dashes, a letter or digit at both ends, at most 63 characters"),
        );
    }
    let nodes = subject.recipe.cluster.gpu_nodes;
    if nodes == 0 || nodes > MOST_NODES {
        findings.push(
            Diagnostic::error(format!("`cluster.gpuNodes` must be from 1 to {MOST_NODES}, and is {nodes}"))
                .at(subject.place(&["cluster", "gpuNodes"]))
                .hint("set the largest number of GPU nodes that you expect (an autoscaled cluster: its maximum); time budgets are made from it"),
        );
    }
    if let Some(range) = &subject.recipe.cluster.kubernetes
        && let Err(error) = VersionReq::parse(range)
    {
        findings.push(
            Diagnostic::error(format!("`{range}` is no range of Kubernetes versions: {error}"))
                .at(subject.place(&["cluster", "kubernetes"]))
                .hint("write `\">=1.32\"` or `\">=1.32, <1.36\"`"),
        );
    }
}

/// RFC 1123: what names of namespaces, releases and recipes must be.
pub fn is_dns_label(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = text.bytes().next().is_some_and(allowed) && text.bytes().last().is_some_and(allowed);
    ends && text.len() <= 63 && text.bytes().all(|byte| allowed(byte) || byte == b'-')
}
