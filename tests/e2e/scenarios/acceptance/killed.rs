//! The hook is killed while tests run. The next pod of its Job takes the results of the same pods.

use anyhow::{Result, bail, ensure};
use contract::acceptance::ACCEPTANCE_NAMESPACE;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use super::{LIMIT, PREVIOUS, check_done, deploy, driven, fleet, shell_test, test_pods, verdicts};
use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::OPERATOR_NAMESPACE;
use crate::harness::test_timeline::TestTimeline;
use crate::harness::turns::Turns;
use crate::harness::wait::until;

/// Passes when it gets SIGTERM.
const SCRIPT: &str = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done";
const NODES: usize = 2;

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

/// Waits until the tests of all nodes run, and have set their traps.
async fn running_tests(stack: &Stack) -> Result<Vec<Pod>> {
    until("the tests of all nodes to run", LIMIT, async || {
        let pods = test_pods(stack).await?;
        for pod in &pods {
            let log = stack.worker_of(pod)?.logs(ACCEPTANCE_NAMESPACE, &pod.name_any())?;
            if phase(pod) != Some("Running") || !log.contains("up") {
                return Ok(None);
            }
        }
        Ok((pods.len() == NODES).then_some(pods))
    })
    .await
}

async fn end_test(stack: &Stack, pod: &Pod) -> Result<()> {
    stack.worker_of(pod)?.signal(ACCEPTANCE_NAMESPACE, &pod.name_any(), "TERM").await
}

/// Kills the hook while two tests run. One of them ends before the hook's next pod runs, and the
/// other one after that.
async fn interrupt(stack: &Stack, hook: &HookRelease<'_>) -> Result<()> {
    let tests = running_tests(stack).await?;
    let [first, second] = tests.as_slice() else { bail!("{} tests run", tests.len()) };
    let killed = hook.running_pod().await?;
    stack.worker_of(&killed)?.signal(OPERATOR_NAMESPACE, &killed.name_any(), "KILL").await?;
    end_test(stack, first).await?;
    until("the hook's next pod", LIMIT, async || {
        let next = hook.running_pod().await?;
        Ok((next.uid() != killed.uid()).then_some(()))
    })
    .await?;
    let uids = |pods: &[Pod]| pods.iter().filter_map(ResourceExt::uid).collect::<Vec<String>>();
    let now = test_pods(stack).await?;
    let known = uids(&tests);
    ensure!(uids(&now).iter().all(|uid| known.contains(uid)), "a test runs again: {now:#?}");
    end_test(stack, second).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn test_runs_once_although_the_hook_is_killed() -> Result<()> {
    scenario("acceptance-killed", async |stack| {
        let nodes = fleet(stack, 75, NODES, &PREVIOUS.driven_values()).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let drivers = stack.drivers().await?;
        let mut settings = driven(&[shell_test("loop", SCRIPT)]);
        settings["upgrade"]["canary"] = json!({"nodes": 0});
        settings["upgrade"]["policy"]["maxUnavailable"] = "100%".into();

        let (turns, timeline) = (Turns::record(&stack.client), TestTimeline::record(&stack.client));
        let (said, interrupted) =
            tokio::join!(deploy(stack, &hook, &NEW, &settings), interrupt(stack, &hook));
        let said = said?;
        interrupted?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        ensure!(hook.pods().await?.len() == 2, "the hook was not killed once");
        check_done(stack, &nodes, NEW.driver).await?;
        timeline.check(&nodes, &["loop"]).await?;
        let started = timeline.started();
        for node in &nodes {
            ensure!(started.get(node).is_some_and(|tests| *tests == ["loop after"]), "{started:?}");
            let verdicts = verdicts(stack, &hook, node).await?;
            ensure!(verdicts == ["loop after passed"], "{node}: {verdicts:?}");
            ensure!(turns.gpu_starts(node) == 1, "{node}: {:#?}", turns.by_node().get(node));
        }
        let created = hook.requests(Timestamp::MIN)?.into_iter().filter(|request| {
            request.verb == "create" && request.resource == "pods" && request.code == 201
        });
        ensure!(created.count() == NODES, "not one test was created for each node");
        let mut deleted: Vec<String> = hook
            .deleted_pods()?
            .into_iter()
            .filter(|request| request.namespace == OPERATOR_NAMESPACE)
            .map(|request| request.name)
            .collect();
        let mut old: Vec<String> = drivers.values().map(ResourceExt::name_any).collect();
        deleted.sort();
        old.sort();
        ensure!(deleted == old, "deleted {deleted:?} instead of {old:?}");
        Ok(())
    })
    .await
}
