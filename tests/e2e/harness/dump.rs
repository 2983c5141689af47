//! Writes every object of a cluster into files, to debug a failed run.

use std::path::Path;

use anyhow::Result;
use kube::api::{DynamicObject, ListParams};
use kube::discovery::{Discovery, verbs};
use kube::{Api, Client};

/// Writes one JSON file for each kind that has objects.
pub(crate) async fn dump_objects(client: &Client, directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let discovery = Discovery::new(client.clone()).run().await?;
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
            let mut list = api.list(&ListParams::default()).await?;
            if list.items.is_empty() {
                continue;
            }
            list.items.iter_mut().for_each(|object| object.metadata.managed_fields = None);
            let name = format!(
                "{}.{}.json",
                resource.plural,
                if resource.group.is_empty() { "core" } else { &resource.group }
            );
            std::fs::write(directory.join(name), serde_json::to_vec_pretty(&list.items)?)?;
        }
    }
    Ok(())
}
