//! The command that deploys a release again, so that its hook runs again.

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
