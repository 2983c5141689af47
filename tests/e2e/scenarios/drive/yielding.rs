//! Workloads that leave late, never, or only when they have completed.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{
    LIMIT, STATE, check_deleted_once, check_done, evictions_of, is_cordoned, nodes, settings,
    tell_cost, upgrade,
};
use crate::harness::apply::Applier;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};
use crate::harness::wait::until;
use crate::harness::workloads::{NAMESPACE, Serving};

/// Returns a running pod of a workload.
async fn running(stack: &Stack, app: &str) -> Result<Pod> {
    let pods = Api::<Pod>::namespaced(stack.client.clone(), NAMESPACE);
    until(&format!("a running pod of {app}"), LIMIT, async || {
        let found = pods.list(&ListParams::default().labels(&format!("app={app}"))).await?;
        let runs = |pod: &Pod| {
            pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
        };
        Ok(found.into_iter().find(runs))
    })
    .await
}

/// Starts a Job on a node. It runs until [`finish`].
async fn train(stack: &Stack, node: &str) -> Result<Pod> {
    let labels = json!({"wait": "yes"});
    let mut template =
        Serving { name: "train", node: Some(node), labels, ..Serving::default() }.template();
    template["spec"]["restartPolicy"] = "Never".into();
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": NAMESPACE},
        "spec": {"backoffLimit": 0, "template": template},
    });
    Applier::new(&stack.client).apply(&job, NAMESPACE).await?;
    running(stack, "train").await
}

/// Completes a pod of a Job. Returns the time right before.
async fn finish(stack: &Stack, pod: &Pod) -> Result<Timestamp> {
    let pods = Api::<Pod>::namespaced(stack.client.clone(), NAMESPACE);
    let terminated = json!({"exitCode": 0, "reason": "Completed", "finishedAt": Timestamp::now()});
    let status = json!({"status": {"phase": "Succeeded", "containerStatuses": [{
        "name": "main", "image": "serve", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": terminated},
    }]}});
    // Before the request, because the hook may continue before the response arrives.
    let before = Timestamp::now();
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(before)
}

/// Allows the eviction of the late pod after the hook's first attempt was refused, and completes
/// the job when the hook waits for it.
async fn yields(
    stack: &Stack,
    hook: &HookRelease<'_>,
    begin: Timestamp,
    late: &Pod,
    job: &Pod,
) -> Result<(Timestamp, Timestamp)> {
    until("a refused eviction", LIMIT, async || {
        Ok(evictions_of(hook, begin)?
            .iter()
            .any(|eviction| eviction.name == late.name_any() && eviction.code == 429)
            .then_some(()))
    })
    .await?;
    let budgets = Api::<PodDisruptionBudget>::namespaced(stack.client.clone(), NAMESPACE);
    let yielded = Timestamp::now();
    budgets.delete("late", &DeleteParams::default()).await?;
    let waits = format!("1 job runs on the node: {NAMESPACE}/{}", job.name_any());
    until("the hook to wait for the job", LIMIT, async || {
        Ok(hook.logs().await?.contains(&waits).then_some(()))
    })
    .await?;
    Ok((yielded, finish(stack, job).await?))
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn late_and_impossible_budgets_and_jobs_are_respected() -> Result<()> {
    scenario("drive-yielding", async |stack| {
        stack.fleet(Script { driver: (500, 1_500), ..Script::seeded(55) }, 4, false).await?;
        stack.create_namespace(NAMESPACE).await?;
        // Each of two pods needs a whole node. The second one waits for a node, and until then none
        // may be evicted.
        stack
            .run(&Serving {
                name: "late",
                replicas: 2,
                gpus: 8,
                node: Some("gpu-0"),
                ..Serving::default()
            })
            .await?;
        stack
            .protect(
                "late",
                &json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "late"}}}),
            )
            .await?;
        stack.run(&Serving { name: "never", node: Some("gpu-1"), ..Serving::default() }).await?;
        stack
            .protect(
                "never",
                &json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "never"}}}),
            )
            .await?;
        let job = train(stack, "gpu-2").await?;
        let (late, never) = (running(stack, "late").await?, running(stack, "never").await?);
        stack.await_serving("late", 1).await?;
        stack.await_serving("never", 1).await?;
        let drivers = stack.drivers().await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let mut settings = settings(2, 240);
        settings["upgrade"]["policy"]["waitForCompletion"] =
            json!({"podSelector": "wait=yes", "timeoutSeconds": 120});

        let begin = Timestamp::now();
        let (said, times) = tokio::join!(
            upgrade(stack, &hook, &settings),
            yields(stack, &hook, begin, &late, &job)
        );
        let (said, (yielded, finished)) = (said?, times?);

        ensure!(
            !said.success,
            "the hook succeeded although one node fails\n{said:?}\n{}",
            hook.logs().await?
        );
        ensure!(hook.named().await? == ["gpu-1:UpgradeFailed"], "{:?}", hook.named().await?);
        check_done(stack, &["gpu-1"]).await?;
        // The hook releases the node with the protected pod unchanged, and evicts nothing there.
        let nodes = nodes(stack).await?;
        let released = nodes.get("gpu-1").context("gpu-1")?;
        ensure!(!is_cordoned(released), "{released:?}");
        ensure!(
            released.labels().get(STATE).is_some_and(|state| state == "upgrade-failed"),
            "{:?}",
            released.labels()
        );
        ensure!(
            running(stack, "never").await?.uid() == never.uid(),
            "the protected pod was replaced"
        );
        let evictions = evictions_of(&hook, begin)?;
        let asked = |pod: &Pod| {
            evictions.iter().filter(|eviction| eviction.name == pod.name_any()).collect::<Vec<_>>()
        };
        ensure!(asked(&never).is_empty() && asked(&job).is_empty(), "{evictions:#?}");
        let went: Vec<_> =
            asked(&late).into_iter().filter(|eviction| eviction.code == 201).collect();
        ensure!(went.len() == 1 && went[0].time > yielded, "{evictions:#?}");
        stack.await_serving("late", 1).await?;
        // The job ended normally, and the hook deleted the driver only after that.
        let driver = drivers.get("gpu-2").context("gpu-2")?.name_any();
        ensure!(
            hook.deleted_pods()?
                .iter()
                .all(|deleted| deleted.name != driver || deleted.time >= finished),
            "the hook did not wait for the job"
        );
        let jobs = Api::<Job>::namespaced(stack.client.clone(), NAMESPACE);
        ensure!(
            jobs.get("train").await?.status.and_then(|status| status.succeeded) == Some(1),
            "the job did not succeed"
        );
        check_deleted_once(&hook, OPERATOR_NAMESPACE, &drivers, &["gpu-1"])?;
        tell_cost(&hook, "drive-yielding", begin, 4)?;
        rights::check(stack, &hook, "drive-yielding").await
    })
    .await
}
