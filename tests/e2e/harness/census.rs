//! All objects of a cluster at one time, to find out which objects were created and removed.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::api::{DynamicObject, ListParams};
use kube::discovery::{Discovery, verbs};
use kube::{Api, Client, ResourceExt};

/// Kinds whose objects come and go without an action of the test, or follow from other objects. (No
/// kubelet here would remove the ResourceSlices of a plugin that is gone.)
const PASSING: [&str; 4] = ["Event", "APIService", "ControllerRevision", "ResourceSlice"];
/// Kinds of objects that Kubernetes creates in every namespace.
const OF_NAMESPACES: [&str; 2] = ["ServiceAccount default", "ConfigMap kube-root-ca.crt"];
/// Namespaces of Kubernetes itself.
const OF_KUBERNETES: [&str; 2] = ["kube-system", "kube-node-lease"];

/// Objects by `Kind name` or `Kind namespace/name`, with their UIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census(BTreeMap<String, String>);

impl Census {
    /// Lists all objects now.
    pub(crate) async fn take(client: &Client) -> Result<Self> {
        let mut found = BTreeMap::new();
        let discovery = Discovery::new(client.clone()).run().await?;
        for group in discovery.groups() {
            for (kind, capabilities) in group.recommended_resources() {
                if !capabilities.supports_operation(verbs::LIST)
                    || PASSING.contains(&kind.kind.as_str())
                {
                    continue;
                }
                let list = match Api::<DynamicObject>::all_with(client.clone(), &kind)
                    .list(&ListParams::default())
                    .await
                {
                    Ok(list) => list,
                    // The CRD was removed in the meantime.
                    Err(kube::Error::Api(error)) if error.code == 404 => continue,
                    Err(error) => return Err(error.into()),
                };
                for object in list {
                    let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
                    let own = format!("{} {name}", kind.kind);
                    let Some(namespace) = object.namespace() else {
                        found.insert(own, uid);
                        continue;
                    };
                    if !OF_KUBERNETES.contains(&namespace.as_str())
                        && !OF_NAMESPACES.contains(&own.as_str())
                    {
                        found.insert(format!("{} {namespace}/{name}", kind.kind), uid);
                    }
                }
            }
        }
        Ok(Self(found))
    }

    /// Returns the objects that did not exist in the earlier census. A recreated object with the
    /// same name counts as new.
    pub(crate) fn since(&self, earlier: &Self) -> Vec<String> {
        self.0
            .iter()
            .filter(|(name, uid)| earlier.0.get(*name) != Some(uid))
            .map(|(name, _)| name.clone())
            .collect()
    }
    /// Returns the objects of a kind whose names contain `part`.
    pub(crate) fn of(&self, kind: &str, part: &str) -> impl Iterator<Item = &str> {
        let kind = format!("{kind} ");
        self.0
            .keys()
            .map(String::as_str)
            .filter(move |name| name.starts_with(&kind) && name.contains(part))
    }
}
