//! Where a resource is listed and watched. kube's `Api` ties that to a type that holds whole objects; here the caller says what is decoded.

use futures::Stream;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

/// A resource, in one namespace or in all.
#[derive(Clone)]
pub struct WatchedCollection {
    client: Client,
    request: Request,
}

impl WatchedCollection {
    /// The same resource as an `Api` of kube.
    pub fn from_api<K: Resource>(api: Api<K>) -> Self {
        let request = Request::new(api.resource_url());
        Self { client: api.into_client(), request }
    }

    /// What is at a path of the API, such as `/api/v1/nodes`.
    pub fn from_path(client: &Client, path: impl Into<String>) -> Self {
        Self { client: client.clone(), request: Request::new(path) }
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.request.url_path
    }

    /// One page of a list.
    ///
    /// # Errors
    /// What kube says.
    pub async fn list<T: DeserializeOwned>(&self, parameters: &ListParams) -> kube::Result<T> {
        let request = self.request.list(parameters).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    /// What happens after a version.
    ///
    /// # Errors
    /// What kube says.
    pub async fn watch<T: Clone + DeserializeOwned>(
        &self,
        parameters: &WatchParams,
        version: &str,
    ) -> kube::Result<impl Stream<Item = kube::Result<WatchEvent<T>>> + use<T>> {
        let request = self.request.watch(parameters, version).map_err(kube::Error::BuildRequest)?;
        self.client.request_events(request).await
    }
}
