//! The stand-in of the DRA driver alone: without a hook, plugins keep serving the driver that was
//! loaded at their start.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;

use crate::harness::fleet::{DRA_NAMESPACE, NEW, OLD};
use crate::harness::scenario::scenario;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script, published};
use crate::harness::wait::until;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn plugins_are_stale_until_replaced() -> Result<()> {
    scenario("dra-driver", async |stack| {
        let nodes = stack.fleet(Script::seeded(11), 2, true).await?;
        let before = stack.plugins().await?;

        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &NEW.values()).await?;
        stack.await_drivers(&nodes, NEW.driver).await?;
        stack.await_policy("ready").await?;

        let served = stack.served().await?;
        ensure!(
            nodes.iter().all(|node| served[node] == published(OLD.driver)),
            "a plugin does not serve the old driver: {served:?}"
        );
        ensure!(stack.plugins().await? == before, "a plugin was replaced without a hook");

        let pods = Api::<Pod>::namespaced(stack.client.clone(), DRA_NAMESPACE);
        pods.delete(before[&nodes[0]].name(), &DeleteParams::default()).await?;
        until("the new plugin to publish", Duration::from_mins(1), async || {
            Ok((stack.served().await?[&nodes[0]] == published(NEW.driver)).then_some(()))
        })
        .await?;
        ensure!(
            stack.served().await?[&nodes[1]] == published(OLD.driver),
            "the other node's plugin no longer serves the old driver"
        );
        Ok(())
    })
    .await
}
