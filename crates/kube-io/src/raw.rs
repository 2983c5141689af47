//! Objects and logs as the server returns them, for people. No decision depends on them.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, LogParams};
use kube::{Api, Client};
use serde_json::{Map, Value};

use super::api_collection::ApiCollection;
use super::call::{CallError, call, optional};
use super::list::list_pages;
use super::list_watch::ObjectSelection;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawKind {
    /// Group and version; the core group is omitted.
    pub api_version: &'static str,
    /// Name of the kind.
    pub kind: &'static str,
    /// Name of the resource in URL paths.
    pub plural: &'static str,
}

/// Reads the spec of a cluster-scoped object. Returns `None` if the object or its kind does not
/// exist. RBAC: `list` on it.
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
    // A client that may watch the object may list it, but may lack the right to `get` it.
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = optional(
        call(Api::<DynamicObject>::all_with(client.clone(), &resource).list(&named)).await,
    )?;
    let object = found.and_then(|found| found.items.into_iter().next());
    Ok(object.and_then(|object| object.data.get("spec")?.as_object().cloned()))
}

/// The selected objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawSelection<'a> {
    /// All objects.
    All,
    /// The objects that match this label selector.
    Labeled(&'a str),
    /// The object with this name.
    Named(&'a str),
}

/// Lists the selected objects of a kind, in a namespace or in all. RBAC: `list` on them.
///
/// # Errors
/// A call failed, or the API does not exist ([`CallError::NotFound`]).
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
        // Items of a list lack `apiVersion` and `kind`.
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

/// Reads the last lines of a container's log, with timestamps. `previous`: the log before its last
/// restart. RBAC: `get` on `pods/log`.
///
/// # Errors
/// A call failed, or the container has no log.
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
