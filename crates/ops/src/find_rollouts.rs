//! Finds the rollouts of a cluster.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::{Api, Client};

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::settings::Settings;
use contract::task::Task;
use kube_io::call::{CallError, call};
use kube_io::releases::{UnreadableSettings, releases};

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
    /// Notes for people, also about hook releases that cannot be read.
    pub notes: Vec<String>,
    /// What of the hook releases cannot be read.
    pub unreadable: Vec<UnreadableHooks>,
}

/// Hook releases that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableHooks {
    /// None may be listed.
    #[error("cannot search for hook releases: {0}; -n limits the search to one namespace")]
    Search(String),
    /// The settings of one cannot be read.
    #[error("configmap {trigger}: {error}")]
    Release {
        /// `namespace/name` of its trigger ConfigMap.
        trigger: String,
        /// The reason.
        #[source]
        error: UnreadableSettings,
    },
}

impl UnreadableHooks {
    /// Returns the exit code of a command that needs every hook release.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Search(_) => ExitCode::Rights,
            Self::Release { error: UnreadableSettings::Newer(_), .. } => ExitCode::NewerFormat,
            Self::Release { error: UnreadableSettings::Wrong(_), .. } => ExitCode::Input,
        }
    }

    /// Returns the hint: what to do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Search(_) => {
                "get the right to list ConfigMaps in all namespaces, or set -n to the namespace of the hook releases"
            }
            Self::Release { error: UnreadableSettings::Newer(_), .. } => {
                "use the version of gpu-rollout that the bundle was rendered with, or a newer one"
            }
            Self::Release { error: UnreadableSettings::Wrong(_), .. } => {
                "deploy the hook release again, or remove it with its deployer, so that its Job ends; then run the command again"
            }
        }
    }
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
    let SortedReleases { mut targets, steps, unreadable } = match releases(client, namespace).await
    {
        Ok(releases) => sort_releases(releases),
        Err(CallError::Forbidden(message)) => SortedReleases {
            unreadable: vec![UnreadableHooks::Search(message)],
            ..SortedReleases::default()
        },
        Err(error) => return Err(error.into()),
    };
    let mut notes: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
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
    Ok(FoundRollouts { targets, steps, notes, unreadable })
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
