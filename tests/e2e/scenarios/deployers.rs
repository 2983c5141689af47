//! Bundles with the real deployers. A story is written once and runs with each of them. The
//! observed results are stored in tables, from which `docs/deployers.md` is generated.

mod by_tags;
mod change;
mod editor;
mod kustomization;
mod leaving;
mod moving;
mod mutations;
mod network;
mod order;
mod outcomes;
mod proof;
mod short;
mod triggers;
mod versions;

use anyhow::Result;
use jiff::Timestamp;

use crate::harness::fleet::DRA_NAMESPACE;
use crate::harness::hook_release::HookRelease;
use crate::harness::stack::Stack;

/// Makes a test of a story for each deployer.
macro_rules! for_each_deployer {
    ($story:path) => {
        for_each_deployer!($story, helm3 Helm3, helm4 Helm4, helmfile Helmfile, flux Flux, argocd ArgoCd, argocd_helm ArgoCdHelm);
    };
    ($story:path, $($name:ident $kind:ident),+) => {$(
        #[tokio::test(flavor = "local")]
        #[ignore = "end to end: make e2e-full"]
        async fn $name() -> anyhow::Result<()> {
            $story(crate::harness::deployers::Kind::$kind).await
        }
    )+};
}
use for_each_deployer;

/// The bundle's hooks in their order.
pub(super) fn hooks(stack: &Stack) -> [HookRelease<'_>; 3] {
    [
        HookRelease::new(stack, "gpu-operator-pre"),
        HookRelease::new(stack, "gpu-operator-post"),
        HookRelease::in_namespace(stack, "nvidia-dra-driver-gpu-post", DRA_NAMESPACE),
    ]
}

/// Returns how often each hook has fired since a time.
pub(super) fn fired(stack: &Stack, since: Timestamp) -> Result<[usize; 3]> {
    let [pre, post, dra] = &hooks(stack);
    Ok([pre.firings(since)?, post.firings(since)?, dra.firings(since)?])
}
