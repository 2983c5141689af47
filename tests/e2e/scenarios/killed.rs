//! d. The hook's pod dies at several points, in several ways. The next pod of its Job continues, and
//! does nothing twice.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};
use crate::harness::wait::until;

const LIMIT: Duration = Duration::from_mins(3);

/// How the hook's pod dies.
#[derive(Clone, Copy)]
enum Death {
    /// SIGKILL, such as by the kernel's OOM killer.
    Killed,
    /// The pod is deleted: SIGTERM.
    Deleted,
    /// Its node is lost permanently.
    NodeLost,
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn killed_with_lease_between_deletion_and_replacement() -> Result<()> {
    dies("killed", 51, Death::Killed, Death::Killed).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn its_node_is_lost_then_pod_is_deleted() -> Result<()> {
    dies("node-lost", 52, Death::NodeLost, Death::Deleted).await
}

/// Kills the hook once when it holds the Lease, and once when it has just replaced the first
/// plugin.
async fn dies(scenario_name: &str, seed: u64, first: Death, second: Death) -> Result<()> {
    scenario(scenario_name, async |stack| {
        stack.fleet(Script::seeded(seed), 3, true).await?;
        let before = stack.plugins().await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &NEW.values()).await?;

        let deaths = async {
            let leases = Api::<Lease>::namespaced(stack.client.clone(), "default");
            let held = until("the Lease to be held", LIMIT, async || {
                let lease = leases.get_opt("gpu-rollout").await?;
                Ok(lease
                    .and_then(|lease| lease.spec?.holder_identity)
                    .filter(|holder| !holder.is_empty()))
            });
            held.await?;
            die(stack, &hook, first).await?;
            until("the first plugin to be deleted", LIMIT, async || {
                Ok((!hook.deleted_pods()?.is_empty()).then_some(()))
            })
            .await?;
            die(stack, &hook, second).await
        };
        let settings = json!({});
        let (said, died) =
            tokio::join!(async { hook.deploy(&NEW.values(), &settings).await }, deaths);
        let said = said?;
        died?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        rights::check(stack, &hook, scenario_name).await?;
        stack.check_rerolled(&before, &[hook], said.ended).await
    })
    .await
}

async fn die(stack: &Stack, hook: &HookRelease<'_>, how: Death) -> Result<()> {
    let pod = hook.running_pod().await?;
    match how {
        Death::Killed => {
            stack.worker_of(&pod)?.signal(OPERATOR_NAMESPACE, &pod.name_any(), "KILL").await
        }
        Death::NodeLost => stack.worker_of(&pod)?.lose().await,
        Death::Deleted => {
            let pods = Api::<Pod>::namespaced(stack.client.clone(), OPERATOR_NAMESPACE);
            pods.delete(&pod.name_any(), &DeleteParams::default()).await?;
            Ok(())
        }
    }
}
