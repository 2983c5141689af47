//! The self-check of rights: asks the API server for every rule of the task table before anything
//! is written. Access that the server has just granted is not asked for, because the server has
//! used the same authorizer.

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::names::{
    LEASE_NAME, LEASE_NAMESPACE, NIC_CLUSTER_POLICY, OPERATOR_LEASE, PAUSE_NAME,
};
use contract::settings::Settings;
use contract::task::{Right, RightScope, RightTarget, rights};

use super::call::{CallError, call};
use super::granted_access::GrantedAccess;

/// The maximum number of concurrent reviews.
const AT_ONCE: usize = 8;

/// Returns the rights that the settings' tasks need and that this ServiceAccount does not have, one
/// line each. `dra_namespaces`: the existing namespaces of the DRA driver. `granted`: access that
/// the server has just granted and that is not asked for again. Every authenticated user may ask
/// (`system:basic-user`). Writes nothing.
///
/// # Errors
/// A review failed.
pub async fn missing_rights(
    client: &Client,
    settings: &Settings,
    dra_namespaces: &[String],
    granted: &[GrantedAccess],
) -> Result<Vec<String>, CallError> {
    let asks = async |question: ResourceAttributes| is_allowed(client, question).await;
    missing(settings, dra_namespaces, granted, asks).await
}

/// Returns whether this ServiceAccount has one right, such as that of a write that the server has
/// just refused with 403.
///
/// # Errors
/// The review failed.
pub async fn is_allowed(client: &Client, right: ResourceAttributes) -> Result<bool, CallError> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(right),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    Ok(call(api.create(&PostParams::default(), &review))
        .await?
        .status
        .is_some_and(|status| status.allowed))
}

/// Like [`missing_rights`], for the ServiceAccount of a hook release that is not the caller's own.
/// RBAC: `create` on `subjectaccessreviews` (`authorization.k8s.io`).
///
/// # Errors
/// A review failed.
pub async fn missing_rights_of(
    client: &Client,
    settings: &Settings,
    dra_namespaces: &[String],
) -> Result<Vec<String>, CallError> {
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let namespace = &settings.namespace;
    let user = format!("system:serviceaccount:{namespace}:{}", settings.release);
    let groups = vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    let asks = async |question: ResourceAttributes| {
        let spec = SubjectAccessReviewSpec {
            resource_attributes: Some(question),
            user: Some(user.clone()),
            groups: Some(groups.clone()),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        Ok(call(api.create(&PostParams::default(), &review))
            .await?
            .status
            .is_some_and(|status| status.allowed))
    };
    missing(settings, dra_namespaces, &[], asks).await
}

/// Returns the rights that the tasks need and `asks` denies.
async fn missing(
    settings: &Settings,
    dra_namespaces: &[String],
    granted: &[GrantedAccess],
    asks: impl AsyncFn(ResourceAttributes) -> Result<bool, CallError>,
) -> Result<Vec<String>, CallError> {
    let questions: Vec<ResourceAttributes> = rights(settings)
        .flat_map(|right| questions(right, settings, dra_namespaces))
        .filter(|question| !granted.iter().any(|granted| granted.covers(question)))
        .collect();
    let asks = &asks;
    let answers = stream::iter(questions).map(|question| async move {
        let text = describe(&question);
        Ok::<_, CallError>((!asks(question).await?).then_some(text))
    });
    let missing: Vec<Option<String>> = answers.buffered(AT_ONCE).try_collect().await?;
    Ok(missing.into_iter().flatten().collect())
}

/// Returns one review for each verb, namespace and name of a rule.
fn questions(
    right: &Right,
    settings: &Settings,
    dra_namespaces: &[String],
) -> Vec<ResourceAttributes> {
    let namespaces: Vec<Option<String>> = match right.scope {
        RightScope::Cluster => vec![None],
        RightScope::Release => vec![Some(settings.namespace.clone())],
        RightScope::Default => vec![Some(LEASE_NAMESPACE.to_owned())],
        RightScope::Operator => vec![Some(settings.operator_namespace.clone())],
        RightScope::Dra => dra_namespaces.iter().cloned().map(Some).collect(),
        RightScope::DevicePlugin => vec![Some(settings.device_plugin.namespace.clone())],
        RightScope::Acceptance => vec![Some(ACCEPTANCE_NAMESPACE.to_owned())],
    };
    let names: Vec<Option<String>> = match right.object {
        RightTarget::Any => vec![None],
        RightTarget::Job => vec![Some(settings.release.clone())],
        RightTarget::Record => vec![Some(settings.record.clone())],
        RightTarget::Lease => vec![Some(LEASE_NAME.to_owned())],
        RightTarget::Pauses => vec![Some(PAUSE_NAME.to_owned())],
        RightTarget::OperatorDeployment => vec![Some(settings.operator_deployment().to_owned())],
        RightTarget::OperatorLease => vec![Some(OPERATOR_LEASE.to_owned())],
        RightTarget::DriverDaemonSet => settings.daemon_set.iter().cloned().map(Some).collect(),
        RightTarget::ClusterPolicy => vec![Some(settings.cluster_policy.clone())],
        RightTarget::NicClusterPolicy => vec![Some(NIC_CLUSTER_POLICY.to_owned())],
        RightTarget::DraNamespaces => settings.dra.namespaces.iter().cloned().map(Some).collect(),
        RightTarget::DevicePluginConfig => {
            settings.device_plugin.config_map.iter().cloned().map(Some).collect()
        }
    };
    let (resource, subresource) = right
        .resource
        .split_once('/')
        .map_or((right.resource, None), |(resource, sub)| (resource, Some(sub)));
    let mut all = Vec::new();
    for verb in right.verbs {
        for namespace in &namespaces {
            for name in &names {
                all.push(ResourceAttributes {
                    group: Some(right.group.to_owned()),
                    resource: Some(resource.to_owned()),
                    subresource: subresource.map(str::to_owned),
                    verb: Some((*verb).to_owned()),
                    namespace: namespace.clone(),
                    name: name.clone(),
                    ..ResourceAttributes::default()
                });
            }
        }
    }
    all
}

fn describe(question: &ResourceAttributes) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let group = part(&question.group);
    let subresource =
        question.subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
    let dot = if group.is_empty() { "" } else { "." };
    let resource = format!("{}{subresource}{dot}{group}", part(&question.resource));
    let name = question.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
    let place = question
        .namespace
        .as_ref()
        .map(|namespace| format!(" in namespace `{namespace}`"))
        .unwrap_or_default();
    format!("{} {resource}{name}{place}", part(&question.verb))
}
