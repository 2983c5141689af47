//! Finds the rollouts of a cluster.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::{Api, Client};

use contract::driver::Driver;
use contract::names;
use contract::settings::Settings;
use contract::task::Task;
use kube_io::call::{CallError, call};
use kube_io::releases::releases;

use super::observe::ObserveError;
use super::target::{RolloutTarget, SortedReleases, sort_releases, without_release};

/// The charts of both operators give their Deployment this label, with the chart's name as value.
const NAME_LABEL: &str = "app.kubernetes.io/name";

/// The rollouts of a cluster, with notes about the search.
pub struct FoundRollouts {
    /// The rollouts.
    pub targets: Vec<RolloutTarget>,
    /// The settings of hook releases that only run before the operator.
    pub steps: Vec<Settings>,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// Finds the rollouts of all hook releases, and of operators without a hook release; in all
/// namespaces, or in one. RBAC: `list` on `configmaps` and `deployments`.
///
/// # Errors
/// A call failed. If only one of the two may be listed, a note names the other one.
pub async fn find_rollouts(
    client: &Client,
    namespace: Option<&str>,
) -> Result<FoundRollouts, ObserveError> {
    let SortedReleases { mut targets, steps, mut notes } = match releases(client, namespace).await {
        Ok(releases) => sort_releases(releases),
        Err(CallError::Forbidden(message)) => {
            let note = format!(
                "cannot search for hook releases: {message}; -n limits the search to one namespace"
            );
            SortedReleases { notes: vec![note], ..SortedReleases::default() }
        }
        Err(error) => return Err(error.into()),
    };
    for driver in [Driver::Ofed, Driver::Gpu] {
        if targets
            .iter()
            .any(|target| target.settings.driver == driver && target.settings.has(Task::Settle))
        {
            continue;
        }
        match find_operator(client, driver, namespace).await {
            Ok(Some((namespace, deployment))) => {
                targets.push(without_release(driver, &namespace, Some(&deployment)));
            }
            Ok(None) => {}
            // With hook releases, there is still something to report.
            Err(CallError::Forbidden(message)) if !targets.is_empty() => {
                notes.push(format!(
                    "cannot search for a {} without a hook release: {message}",
                    driver.traits().operator
                ));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(FoundRollouts { targets, steps, notes })
}

/// Finds namespace and name of the operator's Deployment.
async fn find_operator(
    client: &Client,
    driver: Driver,
    namespace: Option<&str>,
) -> Result<Option<(String, String)>, CallError> {
    let api: Api<Deployment> = namespace.map_or_else(
        || Api::all(client.clone()),
        |namespace| Api::namespaced(client.clone(), namespace),
    );
    let traits = driver.traits();
    let by_name =
        ListParams::default().fields(&format!("metadata.name={}", traits.operator_deployment));
    let by_label = ListParams::default().labels(&format!("{NAME_LABEL}={}", traits.component));
    for parameters in [by_name, by_label] {
        let deployments = call(api.list(&parameters)).await?.items;
        // Subcharts of `gpu-operator` have its label too. Its own Deployment has the same name in
        // every release.
        let is_operator = |object: &&Deployment| {
            driver != Driver::Gpu
                || object.metadata.name.as_deref() == Some(names::OPERATOR_DEPLOYMENT)
        };
        if let Some(object) = deployments.iter().find(is_operator) {
            return Ok(object.metadata.namespace.clone().zip(object.metadata.name.clone()));
        }
    }
    Ok(None)
}
