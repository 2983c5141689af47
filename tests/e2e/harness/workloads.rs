//! Workloads of users on GPU nodes.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::{Value, json};

use super::apply::Applier;
use super::kwok::{KWOK_LABEL, KWOK_TAINT};
use super::stack::Stack;
use super::wait::until;

/// The namespace of workloads.
pub(crate) const NAMESPACE: &str = "ml";
const LIMIT: Duration = Duration::from_mins(2);

/// A Deployment.
pub(crate) struct Serving<'a> {
    /// Its name, and the value of its pods' label `app`.
    pub(crate) name: &'a str,
    /// The number of pods.
    pub(crate) replicas: usize,
    /// The number of GPUs of each pod.
    pub(crate) gpus: usize,
    /// The only node that it may run on.
    pub(crate) node: Option<&'a str>,
    /// Annotations of its pods.
    pub(crate) annotations: Value,
    /// Labels of its pods in addition to `app`.
    pub(crate) labels: Value,
}

impl Default for Serving<'_> {
    fn default() -> Self {
        Self {
            name: "serve",
            replicas: 1,
            gpus: 2,
            node: None,
            annotations: json!({}),
            labels: json!({}),
        }
    }
}

impl Serving<'_> {
    /// The template of its pods.
    pub(crate) fn template(&self) -> Value {
        let mut labels = self.labels.clone();
        labels["app"] = self.name.into();
        let mut annotations = self.annotations.clone();
        annotations["stand-in.gpu-rollout.dev/ready-after"] = "1s".into();
        let mut selector = json!({KWOK_LABEL.0: KWOK_LABEL.1});
        if let Some(node) = self.node {
            selector["kubernetes.io/hostname"] = node.into();
        }
        let mut container = json!({"name": "main", "image": "serve"});
        if self.gpus > 0 {
            container["resources"] = json!({"limits": {"nvidia.com/gpu": self.gpus.to_string()}});
        }
        json!({
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {
                "nodeSelector": selector,
                "tolerations": [{"key": KWOK_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
                "containers": [container],
            },
        })
    }
}

impl Stack {
    /// Creates a Deployment whose pods use GPUs, and, if `available` is given, a
    /// PodDisruptionBudget with this `minAvailable`.
    pub(crate) async fn serve(
        &self,
        name: &str,
        replicas: usize,
        available: Option<usize>,
    ) -> Result<()> {
        self.run(&Serving { name, replicas, ..Serving::default() }).await?;
        if let Some(available) = available {
            self.protect(
                name,
                &json!({"minAvailable": available, "selector": {"matchLabels": {"app": name}}}),
            )
            .await?;
        }
        self.await_serving(name, replicas).await
    }

    /// Creates a Deployment, without waiting.
    pub(crate) async fn run(&self, serving: &Serving<'_>) -> Result<()> {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": serving.name, "namespace": NAMESPACE},
            "spec": {
                "replicas": serving.replicas,
                "selector": {"matchLabels": {"app": serving.name}},
                "template": serving.template(),
            },
        });
        Applier::new(&self.client).apply(&deployment, NAMESPACE).await
    }

    /// Creates a PodDisruptionBudget.
    pub(crate) async fn protect(&self, name: &str, spec: &Value) -> Result<()> {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
        });
        Applier::new(&self.client).apply(&budget, NAMESPACE).await
    }

    /// Waits until this number of pods of a Deployment are ready.
    pub(crate) async fn await_serving(&self, name: &str, replicas: usize) -> Result<()> {
        self.await_serving_within(LIMIT, name, replicas).await
    }

    /// The same, with another time limit.
    pub(crate) async fn await_serving_within(
        &self,
        limit: Duration,
        name: &str,
        replicas: usize,
    ) -> Result<()> {
        let deployments = Api::<Deployment>::namespaced(self.client.clone(), NAMESPACE);
        until(&format!("deployment/{name}"), limit, async || {
            let ready = deployments
                .get(name)
                .await?
                .status
                .and_then(|status| status.ready_replicas)
                .unwrap_or(0);
            Ok((usize::try_from(ready).unwrap_or(0) == replicas).then_some(()))
        })
        .await
    }
}
