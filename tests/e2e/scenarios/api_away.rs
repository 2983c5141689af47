//! The API server is unreachable in the middle of a rollout. The hook makes no decisions until it
//! is back, and then continues.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hook::CANNOT_BE_READ;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::runtime::wait::conditions::is_job_completed;
use serde_json::json;

use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::node_agent::NodeAgent;
use crate::harness::scenario::scenario;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};
use crate::harness::wait::{until, watch_until};

const LIMIT: Duration = Duration::from_mins(3);

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn hook_continues_when_api_server_is_back() -> Result<()> {
    scenario("api-away", async |stack| {
        stack.fleet(Script::seeded(101), 3, true).await?;
        let before = stack.plugins().await?;
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &NEW.values()).await?;

        let hook = HookRelease::new(stack, "gpu-rollout");
        let outage = async {
            until("the first plugin to be deleted", LIMIT, async || {
                Ok((!hook.deleted_pods()?.is_empty()).then_some(()))
            })
            .await?;
            stack.control_plane.stop_api_server().await?;
            until("the hook to report the outage", LIMIT, async || {
                let logs: Result<String> = stack.workers.iter().map(NodeAgent::all_logs).collect();
                Ok(logs?.contains(CANNOT_BE_READ).then_some(()))
            })
            .await?;
            stack.control_plane.start_api_server().await
        };
        let settings = json!({});
        // Helm may fail because of the outage. The Job does not.
        let (said, outage) =
            tokio::join!(async { hook.deploy(&NEW.values(), &settings).await }, outage);
        outage?;
        said.context("Helm cannot be run")?;

        let jobs = Api::<Job>::namespaced(stack.client.clone(), OPERATOR_NAMESPACE);
        watch_until(jobs, "gpu-rollout", "completion", LIMIT, is_job_completed()).await?;
        ensure!(hook.end().await?.exit_code == 0, "{}", hook.logs().await?);
        stack.check_rerolled(&before, &[hook], Timestamp::now()).await
    })
    .await
}
