//! Bundles under the real deployers: run by name, for their programs take long to build.

mod argocd;
mod flux;

use anyhow::Result;
use jiff::Timestamp;

use crate::harness::fleet::DRA_NAMESPACE;
use crate::harness::hook_release::HookRelease;
use crate::harness::stack::Stack;

/// The bundle's hooks in their order.
fn hooks(stack: &Stack) -> [HookRelease<'_>; 3] {
    [
        HookRelease::new(stack, "gpu-operator-pre"),
        HookRelease::new(stack, "gpu-operator-post"),
        HookRelease::in_namespace(stack, "nvidia-dra-driver-gpu-post", DRA_NAMESPACE),
    ]
}

/// How often each of them has fired since a moment.
fn fired(stack: &Stack, since: Timestamp) -> Result<Vec<usize>> {
    hooks(stack).iter().map(|hook| hook.firings(since)).collect()
}
