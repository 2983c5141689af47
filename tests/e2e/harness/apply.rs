//! Applies objects by server-side apply, for real or as a dry run. Unknown fields are errors.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, ValidationDirective,
};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::runtime::wait::conditions::is_crd_established;
use kube::{Api, Client};
use serde_json::Value;

use super::wait::{until, watch_until};

const LIMIT: Duration = Duration::from_mins(5);

/// Applies objects, with the kinds that the server serves.
pub(crate) struct Applier {
    client: Client,
    kinds: RefCell<BTreeMap<(String, String), (ApiResource, Scope)>>,
}

impl Applier {
    /// Returns an applier with this client's rights.
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), kinds: RefCell::default() }
    }

    /// Applies an object. A namespaced object without a namespace is applied in `namespace`.
    pub(crate) async fn apply(&self, object: &Value, namespace: &str) -> Result<()> {
        self.send(object, namespace, &PatchParams::apply("e2e").force()).await?;
        Ok(())
    }

    /// Applies an object as a dry run, with schema, CEL rules and all other validation. Stores
    /// nothing. Returns the object that the server would store.
    pub(crate) async fn accepts(&self, object: &Value, namespace: &str) -> Result<DynamicObject> {
        self.send(object, namespace, &PatchParams::apply("e2e").force().dry_run()).await
    }

    /// Applies a CRD, replacing an existing version, and waits until its kind is served.
    pub(crate) async fn apply_crd(&self, crd: &Value) -> Result<()> {
        self.apply(crd, "").await?;
        let crds = Api::<CustomResourceDefinition>::all(self.client.clone());
        watch_until(
            crds,
            text(&crd["metadata"]["name"]),
            "establishing",
            LIMIT,
            is_crd_established(),
        )
        .await?;
        Ok(())
    }

    /// Removes a CRD, so that the next one with this name has its own schema from the first request
    /// on.
    pub(crate) async fn remove_crd(&self, name: &str) -> Result<()> {
        let crds = Api::<CustomResourceDefinition>::all(self.client.clone());
        crds.delete(name, &DeleteParams::default()).await?;
        watch_until(crds, name, "the end", LIMIT, |crd: Option<&CustomResourceDefinition>| {
            crd.is_none()
        })
        .await?;
        Ok(())
    }

    async fn send(
        &self,
        object: &Value,
        namespace: &str,
        how: &PatchParams,
    ) -> Result<DynamicObject> {
        let how =
            PatchParams { field_validation: Some(ValidationDirective::Strict), ..how.clone() };
        let (kind, scope) = self.kind(object).await?;
        let api = match scope {
            Scope::Cluster => Api::<DynamicObject>::all_with(self.client.clone(), &kind),
            Scope::Namespaced => {
                let namespace = object["metadata"]["namespace"].as_str().unwrap_or(namespace);
                Api::namespaced_with(self.client.clone(), namespace, &kind)
            }
        };
        let name = text(&object["metadata"]["name"]);
        api.patch(name, &how, &Patch::Apply(object))
            .await
            .with_context(|| format!("{} {name}", kind.kind))
    }

    async fn kind(&self, object: &Value) -> Result<(ApiResource, Scope)> {
        let key = (text(&object["apiVersion"]).to_owned(), text(&object["kind"]).to_owned());
        if let Some(known) = self.kinds.borrow().get(&key) {
            return Ok(known.clone());
        }
        let (group, version) = key.0.split_once('/').unwrap_or(("", &key.0));
        let wanted = GroupVersionKind::gvk(group, version, &key.1);
        // Discovery may lag behind a CRD that is established.
        let what = format!("the server to know {} of {}", key.1, key.0);
        let (kind, capabilities) =
            until(&what, LIMIT, async || Ok(Some(pinned_kind(&self.client, &wanted).await?)))
                .await?;
        let known = (kind, capabilities.scope);
        self.kinds.borrow_mut().insert(key, known.clone());
        Ok(known)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
