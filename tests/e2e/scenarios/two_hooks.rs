//! g. Two hook Jobs at the same time: one works, the other waits for the Lease, and nothing is done
//! twice.

use std::time::Duration;

use anyhow::{Result, ensure};
use hook::WAITING_FOR_LEASE;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};
use crate::harness::wait::until;

const LIMIT: Duration = Duration::from_mins(3);
/// The Lease that lets only one hook work.
const LEASE: &str = "gpu-rollout";

fn driven() -> Value {
    json!({
        "component": {"version": NEW.chart}, "mode": "drive", "tasks": ["settle", "drive", "reroll"], "budgetSeconds": 300,
        "upgrade": {"policy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%"}, "attempts": 1, "startSeconds": 60},
    })
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn one_waits_for_the_lease() -> Result<()> {
    scenario("two-hooks", async |stack| {
        stack.fleet(Script::seeded(81), 3, true).await?;
        let before = stack.plugins().await?;
        let hooks =
            [HookRelease::new(stack, "gpu-rollout"), HookRelease::new(stack, "gpu-rollout-two")];
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &NEW.values()).await?;

        let (values, settings) = (NEW.values(), json!({}));
        let (first, second) =
            tokio::join!(hooks[0].deploy(&values, &settings), hooks[1].deploy(&values, &settings));

        let (first, second) = (first?, second?);
        let logs = [hooks[0].logs().await?, hooks[1].logs().await?];
        ensure!(first.success && second.success, "{first:?}\n{second:?}\n{logs:?}");
        ensure!(
            logs.iter().any(|log| log.contains(WAITING_FOR_LEASE)),
            "no hook waited for the Lease: {logs:?}"
        );
        for hook in &hooks {
            rights::check(stack, hook, &format!("two-hooks-{}", hook.name())).await?;
        }
        stack.check_rerolled(&before, &hooks, first.ended.max(second.ended)).await
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn stopped_hook_writes_nothing_under_foreign_lease() -> Result<()> {
    stopped_in_mid_rollout("two-hooks-stopped", 82, |stack| {
        Ok(HookRelease::new(stack, "gpu-rollout"))
    })
    .await
}

/// The hook reads what the previous release wrote on nodes and into its Lease.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full (needs the image of the release before)"]
async fn stopped_hook_of_previous_release_is_taken_over() -> Result<()> {
    stopped_in_mid_rollout("two-hooks-previous", 83, |stack| {
        HookRelease::of_previous(stack, "gpu-rollout")
    })
    .await
}

/// Stops a hook during a rollout (SIGSTOP) for longer than its Lease lasts, and lets it continue
/// when another hook has taken over.
async fn stopped_in_mid_rollout(
    name: &str,
    seed: u64,
    first: for<'s> fn(&'s Stack) -> Result<HookRelease<'s>>,
) -> Result<()> {
    scenario(name, async |stack| {
        stack.fleet(Script::seeded(seed), 3, false).await?;
        let drivers = stack.drivers().await?;
        let (first, second) = (first(stack)?, HookRelease::new(stack, "gpu-rollout-two"));
        let (values, settings) = (NEW.driven_values(), driven());
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &values).await?;
        let begin = Timestamp::now();

        let taken_over = async {
            until("the first hook to delete a driver", LIMIT, async || {
                Ok((!first.deleted_pods()?.is_empty()).then_some(()))
            })
            .await?;
            let pod = first.running_pod().await?;
            let worker = stack.worker_of(&pod)?;
            worker.signal(OPERATOR_NAMESPACE, &pod.name_any(), "STOP").await?;
            let awake = async {
                until("the second hook to delete a driver", LIMIT, async || {
                    Ok((!second.deleted_pods()?.is_empty()).then_some(()))
                })
                .await?;
                worker.signal(OPERATOR_NAMESPACE, &pod.name_any(), "CONT").await
            };
            let (said, awake) = tokio::join!(second.deploy(&values, &settings), awake);
            awake?;
            said
        };
        let (one, two) = tokio::join!(first.deploy(&values, &settings), taken_over);

        let (one, two) = (one?, two?);
        ensure!(
            one.success && two.success,
            "{one:?}\n{two:?}\n{}\n{}",
            first.logs().await?,
            second.logs().await?
        );
        let mut deleted: Vec<String> = [first.deleted_pods()?, second.deleted_pods()?]
            .concat()
            .into_iter()
            .map(|pod| pod.name)
            .collect();
        let mut wanted: Vec<String> = drivers.values().map(ResourceExt::name_any).collect();
        deleted.sort();
        wanted.sort();
        ensure!(deleted == wanted, "deleted {deleted:?} instead of {wanted:?}");
        check_written_under_own_lease(&[&first, &second], begin)
    })
    .await
}

/// Checks that each successful write to a node or a pod came from the hook that had written the
/// Lease last.
fn check_written_under_own_lease(hooks: &[&HookRelease<'_>], begin: Timestamp) -> Result<()> {
    let mut history = Vec::new();
    for hook in hooks {
        let requests = hook.requests(begin)?;
        history.extend(
            requests
                .into_iter()
                .filter(|request| request.is_write() && (200..300).contains(&request.code)),
        );
    }
    history.sort_by_key(|request| request.time);
    let (mut holder, mut holders) = (String::new(), 0);
    for request in &history {
        match request.resource.as_str() {
            "leases" if request.name == LEASE || request.verb == "create" => {
                holders += usize::from(holder != request.user);
                holder.clone_from(&request.user);
            }
            "nodes" | "pods" | "pods/eviction" => {
                ensure!(holder == request.user, "{request:?} while {holder} has the Lease");
            }
            _ => {}
        }
    }
    ensure!(holders >= 2, "{holders} hooks held the Lease, expected at least 2");
    Ok(())
}
