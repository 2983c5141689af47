//! Plain requests: objects as JSON, by their path.

use anyhow::{Context, Result};
use http::{Method, Request};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The API server.
pub(super) struct Server {
    client: Client,
}

impl Server {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> Result<Value> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header("content-type", kind)
            .body(bytes)?;
        self.client.request(request).await.with_context(|| format!("{method} {path} {body}"))
    }

    /// Returns all objects of a kind, decoded as a type.
    pub(super) async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>> {
        let mut list = self.send(Method::GET, path, "application/json", &Value::Null).await?;
        serde_json::from_value(list["items"].take()).with_context(|| format!("reading {path}"))
    }

    pub(super) async fn create(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(Method::POST, path, "application/json", body).await
    }

    pub(super) async fn merge(&self, path: &str, body: &Value) -> Result<()> {
        self.send(Method::PATCH, path, "application/merge-patch+json", body).await.map(drop)
    }

    /// The same, but ignores an object that no longer exists.
    pub(super) async fn merge_if_there(&self, path: &str, body: &Value) -> Result<()> {
        unless_gone(self.merge(path, body).await)
    }

    /// Deletes an object, or all objects of a kind, without a grace period. The object may already
    /// be gone.
    pub(super) async fn delete(&self, path: &str) -> Result<()> {
        let at_once =
            serde_json::json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        unless_gone(self.send(Method::DELETE, path, "application/json", &at_once).await.map(drop))
    }
}

fn unless_gone(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404) => {
            Ok(())
        }
        result => result,
    }
}
