//! Objects and logs as the server gives them, for people to read. Nothing is decided by them.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, LogParams};
use kube::{Api, Client};
use serde_json::{Map, Value};

use super::api_collection::ApiCollection;
use super::call::{CallError, call, optional};
use super::list::list_pages;
use super::list_watch::ObjectSelection;

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawKind {
    /// Group and version; without a group: the core.
    pub api_version: &'static str,
    /// The kind's name.
    pub kind: &'static str,
    /// The resource's name in addresses.
    pub plural: &'static str,
}

/// Reads the spec of a cluster-wide object; `None`: it is not there, or its kind is not. RBAC: `list` on it.
///
/// # Errors
/// The call failed.
pub async fn spec(
    client: &Client,
    (group, version): (&str, &str),
    kind: &str,
    name: &str,
) -> Result<Option<Map<String, Value>>, CallError> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    // A client that may watch it may list it, and need not have the right to `get` it.
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = optional(
        call(Api::<DynamicObject>::all_with(client.clone(), &resource).list(&named)).await,
    )?;
    let object = found.and_then(|found| found.items.into_iter().next());
    Ok(object.and_then(|object| object.data.get("spec")?.as_object().cloned()))
}

/// Which objects of a kind are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawSelection<'a> {
    /// All.
    All,
    /// Those with these labels.
    Labeled(&'a str),
    /// The one of this name.
    Named(&'a str),
}

/// Lists the selected objects of a kind, in a namespace or in all. RBAC: `list` on them.
///
/// # Errors
/// A call failed; the API is not there ([`CallError::NotFound`]).
pub async fn objects(
    client: &Client,
    kind: RawKind,
    namespace: Option<&str>,
    selection: RawSelection<'_>,
) -> Result<Vec<Value>, CallError> {
    let mut all = Vec::new();
    let selection = match selection {
        RawSelection::All => ObjectSelection::default(),
        RawSelection::Labeled(labels) => ObjectSelection::matching(labels),
        RawSelection::Named(name) => ObjectSelection::named(name),
    };
    let each = |mut object: Value| {
        // Items of a list do not say what they are.
        if let Value::Object(fields) = &mut object {
            fields.insert("apiVersion".to_owned(), kind.api_version.into());
            fields.insert("kind".to_owned(), kind.kind.into());
        }
        all.push(object);
    };
    list_pages(
        &ApiCollection::new(client, (kind.api_version, kind.plural), namespace),
        &selection,
        each,
    )
    .await?;
    Ok(all)
}

/// Reads the last lines of a container's log, with their times. `previous`: of the one before its last restart. RBAC: `get` on `pods/log`.
///
/// # Errors
/// A call failed; the container has none.
pub async fn log(
    client: &Client,
    (namespace, pod): (&str, &str),
    container: &str,
    previous: bool,
    lines: u32,
) -> Result<String, CallError> {
    let parameters = LogParams {
        container: Some(container.to_owned()),
        previous,
        tail_lines: Some(i64::from(lines)),
        timestamps: true,
        ..LogParams::default()
    };
    call(Api::<Pod>::namespaced(client.clone(), namespace).logs(pod, &parameters)).await
}
