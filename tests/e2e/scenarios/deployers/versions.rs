//! Other minor versions of Kubernetes than the default one: an install, an upgrade, no change, a
//! failing hook.

/// Makes a module for a minor version, with a test for Helm and one for a GitOps deployer.
macro_rules! on_kubernetes {
    ($($module:ident $version:literal),+) => {$(
        mod $module {
            use crate::harness::deployers::Kind;
            use crate::scenarios::deployers::for_each_deployer;
            use crate::scenarios::deployers::short::short_on;

            async fn short(kind: Kind) -> anyhow::Result<()> {
                short_on(Some($version), kind).await
            }
            for_each_deployer!(short, helm4 Helm4, flux Flux);
        }
    )+};
}
on_kubernetes!(kubernetes_1_32 "1.32", kubernetes_1_33 "1.33", kubernetes_1_35 "1.35");
