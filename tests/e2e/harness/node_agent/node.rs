//! The Node object and its heartbeat.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::Shared;

/// The duration of the Lease, as for a kubelet: 40 s, renewed every 10 s.
const LEASE_SECONDS: u64 = 40;

/// Creates the Node, Ready, and its first Lease. `port` is that of the log server.
pub(super) async fn register(shared: &Shared, port: u16) -> Result<()> {
    renew_lease(shared).await?;
    let now = jiff::Timestamp::now().to_string();
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    let resources =
        json!({"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let node = serde_json::from_value(json!({
        "metadata": {"name": shared.node, "labels": {
            "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": shared.node, "kubernetes.io/os": "linux",
        }},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": shared.node}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "conditions": [
                condition("Ready", "True", "KubeletReady"),
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            ],
        },
    }))?;
    Api::<Node>::all(shared.client.clone()).create(&PostParams::default(), &node).await?;
    Ok(())
}

/// Renews the Lease until the node ends.
pub(super) async fn keep_lease(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(Duration::from_secs(LEASE_SECONDS / 4)).await;
        // After a failure, try again in the next period, as a kubelet does.
        renew_lease(&shared).await.ok();
    }
}

async fn renew_lease(shared: &Shared) -> Result<()> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": shared.node},
        "spec": {
            "holderIdentity": shared.node,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": format!("{:.6}", jiff::Timestamp::now()),
        },
    });
    let leases = Api::<Lease>::namespaced(shared.client.clone(), "kube-node-lease");
    leases
        .patch(&shared.node, &PatchParams::apply("node-agent").force(), &Patch::Apply(lease))
        .await?;
    Ok(())
}
