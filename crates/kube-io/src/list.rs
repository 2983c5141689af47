//! Lists, page by page: what is not kept of a page is dropped before the next one is requested.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::api::ListParams;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use contract::acceptance::{ACCEPTANCE_NAMESPACE, TEST_LABEL};
use observed::ObservedNode;
use observed::acceptance::AcceptancePod;
use observed::named::Named;
use observed::workload::Workload;

use super::api_collection::{ApiCollection, NODES, PODS};
use super::call::{CallError, call};
use super::list_watch::ObjectSelection;
use observed::object::Pod;
use observed::{object, project};

/// Objects per page: bounds the memory of whole objects before they are projected.
const PAGE: u32 = 100;
/// How often a list is started that expires before its last page.
const BEGINNINGS: u32 = 3;
/// HTTP status for a page of an expired list.
const EXPIRED: u16 = 410;

/// One page of a list.
#[derive(Deserialize)]
struct ListPage<T> {
    metadata: ListMeta,
    items: Option<Vec<T>>,
}

/// Lists a collection. Returns the resource version of the whole list.
///
/// # Errors
/// A page could not be read.
pub(super) async fn list_pages<T: DeserializeOwned>(
    collection: &ApiCollection,
    selection: &ObjectSelection,
    each: impl FnMut(T),
) -> Result<String, CallError> {
    list_pages_of(PAGE, collection, selection, each).await
}

/// Lists a collection by pages of `page_size` objects.
///
/// # Errors
/// A page could not be read.
pub(super) async fn list_pages_of<T: DeserializeOwned>(
    page_size: u32,
    collection: &ApiCollection,
    selection: &ObjectSelection,
    mut each: impl FnMut(T),
) -> Result<String, CallError> {
    let mut parameters = ListParams {
        label_selector: selection.labels.clone(),
        field_selector: selection.fields.clone(),
        limit: Some(page_size),
        ..ListParams::default()
    };
    loop {
        let page: ListPage<T> = call(collection.list(&parameters)).await?;
        page.items.into_iter().flatten().for_each(&mut each);
        parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if parameters.continue_token.is_none() {
            return Ok(page.metadata.resource_version.unwrap_or_default());
        }
    }
}

/// Lists the pods that are bound to these nodes, and returns what `keep` keeps of them. All pods of
/// a large cluster would not fit into memory. RBAC: `list` on `pods`.
///
/// # Errors
/// A call failed.
pub async fn list_workloads<T>(
    client: &Client,
    nodes: &BTreeSet<String>,
    keep: impl Fn(Workload) -> Option<T>,
) -> Result<Vec<T>, CallError> {
    let pods = ApiCollection::new(client, PODS, None);
    let mut beginning = 1;
    loop {
        let mut kept = Vec::new();
        let each = |pod: Pod| {
            let bound = pod
                .spec
                .as_ref()
                .and_then(|spec| spec.node_name.as_ref())
                .is_some_and(|node| nodes.contains(node));
            kept.extend(project::workload(&pod).filter(|_| bound).and_then(&keep));
        };
        match list_pages(&pods, &ObjectSelection::default(), each).await {
            Ok(_) => return Ok(kept),
            Err(CallError::Refused { code: EXPIRED, .. }) if beginning < BEGINNINGS => {
                beginning += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Lists all nodes. RBAC: `list` on `nodes`.
///
/// # Errors
/// A call failed.
pub async fn list_nodes(client: &Client) -> Result<Named<ObservedNode>, CallError> {
    let mut nodes = Named::new();
    let each = |object: object::Node| {
        if let Some(node) = project::node(&object) {
            nodes.insert(node.name.clone(), node);
        }
    };
    list_pages(&ApiCollection::new(client, NODES, None), &ObjectSelection::default(), each).await?;
    Ok(nodes)
}

/// Lists the pods of acceptance tests. RBAC: `list` on `pods` in [`ACCEPTANCE_NAMESPACE`].
///
/// # Errors
/// A call failed.
pub async fn list_acceptance_pods(client: &Client) -> Result<Vec<AcceptancePod>, CallError> {
    let pods = ApiCollection::new(client, PODS, Some(ACCEPTANCE_NAMESPACE));
    let mut found = Vec::new();
    let each = |pod: core::Pod| found.extend(project::acceptance_pod(&pod));
    list_pages(&pods, &ObjectSelection::labeled((TEST_LABEL, None)), each).await?;
    Ok(found)
}
