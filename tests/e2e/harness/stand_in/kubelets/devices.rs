//! The GPUs of nodes. A node offers them while its device plugin is ready.

use std::cell::RefCell;
use std::collections::HashSet;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{Host, is_ready};
use crate::harness::stand_in::operator::Operand;
use crate::harness::stand_in::script::Script;

/// The resource.
pub(crate) const GPU: &str = "nvidia.com/gpu";
/// The number of GPUs of a node that is not in the script.
const GPUS: u32 = 8;

/// The nodes whose device plugin has registered once. The others keep their initial offer.
#[derive(Default)]
pub(super) struct Offers {
    registered: RefCell<HashSet<String>>,
}

impl Offers {
    /// Updates the GPUs of a node. A ready plugin sets capacity and allocatable. Without it,
    /// allocatable is zero and the capacity stays.
    pub(super) async fn update(
        &self,
        client: &Client,
        node: &str,
        host: &Host<'_>,
        script: &Script,
    ) -> Result<()> {
        let Some(live) = host.live else { return Ok(()) };
        let ready = host.of(Operand::DevicePlugin).any(is_ready);
        if ready {
            self.registered.borrow_mut().insert(node.to_owned());
        }
        let status = if ready {
            let gpus = script.gpus.get(node).copied().unwrap_or(GPUS);
            if offered(live) == Some(gpus) {
                return Ok(());
            }
            let gpus = Value::from(gpus.to_string());
            json!({"capacity": {GPU: gpus}, "allocatable": {GPU: gpus}})
        } else if self.registered.borrow().contains(node)
            && offered(live).is_some_and(|gpus| gpus > 0)
        {
            json!({"allocatable": {GPU: "0"}})
        } else {
            return Ok(());
        };
        let patched = Api::<Node>::all(client.clone())
            .patch_status(node, &PatchParams::default(), &Patch::Merge(json!({"status": status})))
            .await;
        match patched {
            Ok(_) => Ok(()),
            // The node is already gone.
            Err(kube::Error::Api(error)) if error.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the GPUs that a node offers. `None`: it has never offered any.
pub(crate) fn offered(node: &Node) -> Option<u32> {
    node.status.as_ref()?.allocatable.as_ref()?.get(GPU)?.0.parse().ok()
}
