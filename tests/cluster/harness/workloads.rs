//! What users run on GPU nodes.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::json;

use super::apply::Applier;
use super::kwok::{KWOK_LABEL, KWOK_TAINT};
use super::stack::Stack;
use super::wait::until;

/// Where they run.
pub(crate) const NAMESPACE: &str = "ml";
const LIMIT: Duration = Duration::from_mins(2);

impl Stack {
    /// A Deployment whose pods take GPUs, and, if `available` is given, a PodDisruptionBudget that keeps so many of them.
    pub(crate) async fn serve(&self, name: &str, replicas: usize, available: Option<usize>) -> Result<()> {
        let applier = Applier::new(&self.client);
        let labels = json!({"app": name});
        applier
            .apply(
                &json!({
                    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NAMESPACE},
                    "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
                        "metadata": {"labels": labels, "annotations": {"stand-in.gpu-rollout.dev/ready-after": "1s"}},
                        "spec": {
                            "nodeSelector": {KWOK_LABEL.0: KWOK_LABEL.1},
                            "tolerations": [{"key": KWOK_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
                            "containers": [{"name": "main", "image": "serve", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
                        },
                    }},
                }),
                NAMESPACE,
            )
            .await?;
        if let Some(available) = available {
            let budget = json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"minAvailable": available, "selector": {"matchLabels": labels}},
            });
            applier.apply(&budget, NAMESPACE).await?;
        }
        let deployments = Api::<Deployment>::namespaced(self.client.clone(), NAMESPACE);
        until(&format!("deployment/{name}"), LIMIT, async || {
            let ready = deployments.get(name).await?.status.and_then(|status| status.ready_replicas).unwrap_or(0);
            Ok((usize::try_from(ready).unwrap_or(0) == replicas).then_some(()))
        })
        .await
    }
}
