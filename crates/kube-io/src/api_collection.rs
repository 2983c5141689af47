//! Collections of the API, for listing and watching the objects of a resource. kube's `Api`
//! requires a type for the whole object; here the caller chooses what is decoded.

use futures::Stream;
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use serde::de::DeserializeOwned;

/// The group and version of a resource, and its name in URL paths.
pub(crate) type ResourceName<'a> = (&'a str, &'a str);

pub(crate) const CONFIG_MAPS: ResourceName<'static> = ("v1", "configmaps");
pub(crate) const NODES: ResourceName<'static> = ("v1", "nodes");
pub(crate) const PODS: ResourceName<'static> = ("v1", "pods");
pub(crate) const LEASES: ResourceName<'static> = ("coordination.k8s.io/v1", "leases");

/// The address of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectionAddress {
    /// Group and version; the core group is omitted.
    api_version: String,
    /// The resource's name in URL paths.
    pub(crate) resource: String,
    /// The namespace. `None`: all namespaces, or the resource is cluster-scoped.
    pub(crate) namespace: Option<String>,
}

impl CollectionAddress {
    /// Returns the address of a resource in a namespace, or in all.
    pub(crate) fn new((api_version, resource): ResourceName<'_>, namespace: Option<&str>) -> Self {
        Self {
            api_version: api_version.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
        }
    }

    /// Returns the API group; empty for the core group.
    pub(crate) fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _version)| group)
    }

    /// Returns the path of the URL.
    fn path(&self) -> String {
        let root = if self.group().is_empty() { "/api" } else { "/apis" };
        let scope = self
            .namespace
            .as_ref()
            .map(|namespace| format!("/namespaces/{namespace}"))
            .unwrap_or_default();
        format!("{root}/{}{scope}/{}", self.api_version, self.resource)
    }
}

/// The objects of one resource, in one namespace or in all.
#[derive(Clone)]
pub(crate) struct ApiCollection {
    client: Client,
    request: Request,
    pub(crate) address: CollectionAddress,
}

impl ApiCollection {
    /// Returns the collection of a resource in a namespace, or in all.
    pub(crate) fn new(
        client: &Client,
        resource: ResourceName<'_>,
        namespace: Option<&str>,
    ) -> Self {
        let address = CollectionAddress::new(resource, namespace);
        Self { client: client.clone(), request: Request::new(address.path()), address }
    }

    /// Returns the path of the URL.
    pub(crate) fn path(&self) -> &str {
        &self.request.url_path
    }

    /// Reads one page of a list.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        parameters: &ListParams,
    ) -> kube::Result<T> {
        let request = self.request.list(parameters).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    /// Watches the changes after a resource version.
    pub(crate) async fn watch<T: Clone + DeserializeOwned>(
        &self,
        parameters: &WatchParams,
        version: &str,
    ) -> kube::Result<impl Stream<Item = kube::Result<WatchEvent<T>>> + use<T>> {
        let request = self.request.watch(parameters, version).map_err(kube::Error::BuildRequest)?;
        self.client.request_events(request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_the_path_of_its_resource() {
        assert_eq!(CollectionAddress::new(PODS, None).path(), "/api/v1/pods");
        let daemon_sets = CollectionAddress::new(("apps/v1", "daemonsets"), Some("a"));
        assert_eq!(daemon_sets.path(), "/apis/apps/v1/namespaces/a/daemonsets");
        assert_eq!((daemon_sets.group(), CollectionAddress::new(PODS, None).group()), ("apps", ""));
    }
}
