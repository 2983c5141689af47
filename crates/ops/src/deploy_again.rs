//! How a release is deployed again, so that its hook runs again: by a command, or by its deployer.

use kube_io::releases::ReleaseDeployer;

/// Returns what the user runs, for people.
pub(crate) fn deploy_again(deployer: &ReleaseDeployer) -> String {
    match deployer {
        ReleaseDeployer::Flux { namespace, name } => {
            format!("flux reconcile helmrelease {name} -n {namespace} --force")
        }
        ReleaseDeployer::ArgoCd { namespace: None, name } => format!("argocd app sync {name}"),
        ReleaseDeployer::ArgoCd { namespace: Some(namespace), name } => {
            format!("argocd app sync {namespace}/{name}")
        }
        ReleaseDeployer::Helm => {
            "in the directory of the bundle, deploy.sh (Helm) or helmfile sync (helmfile)"
                .to_owned()
        }
    }
}

/// Returns how the deployer deploys the release again by itself after a failed run, for people. A
/// bundle configures it so (`retryInterval` of a HelmRelease, `retry` of an Application).
pub(crate) fn automatic_retry(deployer: &ReleaseDeployer) -> Option<&'static str> {
    match deployer {
        ReleaseDeployer::Flux { .. } => Some("Flux tries again within 10 minutes after a failure"),
        ReleaseDeployer::ArgoCd { .. } => Some("Argo CD tries again, at most twice"),
        ReleaseDeployer::Helm => None,
    }
}
