//! The stack alone: a worker node really runs the pod of a small chart's hook Job.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::node_agent::{HOOK_REPOSITORY, SHELL_IMAGE};
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::wait::until;

const LIMIT: Duration = Duration::from_mins(1);
const NAMESPACE: &str = "trivial";

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn helm_returns_after_hook_and_reports_its_end() -> Result<()> {
    scenario("trivial", async |stack| {
        stack.create_namespace(NAMESPACE).await?;
        let image = format!("{HOOK_REPOSITORY}:e2e");

        install(stack, "version", &image, &["/gpu-rollout", "--version"]).await?;
        ensure!(
            logs(stack, "version").await?.starts_with("gpu-rollout "),
            "the program of the image did not run"
        );

        let failed = install(stack, "usage", &image, &["/gpu-rollout", "no-such-command"]).await;
        let error = format!("{:#}", failed.unwrap_err());
        ensure!(error.contains("post-install"), "Helm does not report the failed hook: {error}");
        ensure!(
            ended(stack, "usage").await?.exit_code == 2,
            "the pod's status lacks the exit code"
        );

        let failed =
            install(stack, "absent", "gpu-rollout.test/gpu-rollout:no-such-tag", &["/gpu-rollout"])
                .await;
        ensure!(failed.is_err(), "a pod with an image that cannot be pulled ran");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn container_lives_and_dies_as_under_kubelet() -> Result<()> {
    scenario("kubelet", async |stack| {
        stack.create_namespace(NAMESPACE).await?;
        let pods = Api::<Pod>::namespaced(stack.client.clone(), NAMESPACE);

        let confined = "(echo x >/file || echo x >/usr/file) 2>/dev/null && exit 1; echo \"$(id -u) $$\" >/dev/termination-log";
        create_job(stack, "confined", &["/bin/sh", "-c", confined]).await?;
        let end = ended(stack, "confined").await?;
        ensure!((end.exit_code, end.message.as_deref()) == (0, Some("65532 1\n")), "not root, read-only, alone: {end:?}");

        let polite = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done";
        create_job(stack, "polite", &["/bin/sh", "-c", polite]).await?;
        let pod = running(stack, "polite").await?;
        until("the shell to have set its trap", LIMIT, async || Ok(logs(stack, "polite").await?.contains("up").then_some(()))).await?;
        pods.delete(&pod.name_any(), &DeleteParams::default()).await?;
        until("the pod to be gone", LIMIT, async || Ok(pods.get_opt(&pod.name_any()).await?.is_none().then_some(()))).await?;
        let log = stack.workers.iter().find_map(|worker| worker.logs(NAMESPACE, &pod.name_any()).ok());
        ensure!(log.as_deref() == Some("up\nbye\n"), "SIGTERM did not reach the container before its deletion: {log:?}");

        create_job(stack, "killed", &["/bin/sh", "-c", "exec sleep 600"]).await?;
        let pod = running(stack, "killed").await?;
        stack.worker_of(&pod)?.signal(NAMESPACE, &pod.name_any(), "KILL").await?;
        ensure!(ended(stack, "killed").await?.exit_code == 137, "SIGKILL does not show in the pod's status");

        create_job(stack, "lost", &["/bin/sh", "-c", "exec sleep 600"]).await?;
        let pod = running(stack, "lost").await?;
        let node = pod.spec.clone().and_then(|spec| spec.node_name);
        stack.worker_of(&pod)?.lose().await?;
        let again = until("the Job's next pod on the other node", LIMIT, async || {
            let next = running(stack, "lost").await?;
            Ok((next.uid() != pod.uid()).then_some(next))
        });
        ensure!(again.await?.spec.and_then(|spec| spec.node_name) != node, "the replacement runs on the same node");
        Ok(())
    })
    .await
}

/// Installs a chart whose only content is a post-install Job.
async fn install(stack: &Stack, name: &str, image: &str, command: &[&str]) -> Result<()> {
    let chart = stack.helm.directory().join("charts").join(name);
    fs::create_dir_all(chart.join("templates"))?;
    fs::write(chart.join("Chart.yaml"), format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n"))?;
    let mut job = job(name, image, command);
    job["metadata"]["annotations"] = json!({"helm.sh/hook": "post-install"});
    fs::write(chart.join("templates/job.yaml"), serde_json::to_string(&job)?)?;
    let chart = chart.display().to_string();
    stack.helm.ok(&["install", name, &chart, "--namespace", NAMESPACE, "--timeout", "20s"]).await?;
    Ok(())
}

async fn create_job(stack: &Stack, name: &str, command: &[&str]) -> Result<()> {
    let job = serde_json::from_value(job(name, SHELL_IMAGE, command))?;
    Api::<Job>::namespaced(stack.client.clone(), NAMESPACE)
        .create(&PostParams::default(), &job)
        .await?;
    Ok(())
}

fn job(name: &str, image: &str, command: &[&str]) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"backoffLimit": if name == "lost" { 3 } else { 0 }, "template": {"spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": true},
            "containers": [{"name": "main", "image": image, "command": command}],
        }}},
    })
}

/// Waits until `wanted` returns a value for a pod of a Job. Returns that value.
async fn pod_of<T>(
    stack: &Stack,
    job: &str,
    what: &str,
    wanted: impl Fn(&Pod) -> Option<T>,
) -> Result<T> {
    let pods = Api::<Pod>::namespaced(stack.client.clone(), NAMESPACE);
    let of_job = kube::api::ListParams::default().labels(&format!("job-name={job}"));
    until(&format!("{what} of job {job}"), LIMIT, async || {
        Ok(pods.list(&of_job).await?.iter().find_map(&wanted))
    })
    .await
}

async fn running(stack: &Stack, job: &str) -> Result<Pod> {
    let is_running = |pod: &Pod| {
        pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
    };
    pod_of(stack, job, "a running pod", |pod| is_running(pod).then(|| pod.clone())).await
}

async fn ended(stack: &Stack, job: &str) -> Result<ContainerStateTerminated> {
    pod_of(stack, job, "an ended pod", |pod| {
        pod.status
            .as_ref()?
            .container_statuses
            .as_ref()?
            .first()?
            .state
            .as_ref()?
            .terminated
            .clone()
    })
    .await
}

async fn logs(stack: &Stack, job: &str) -> Result<String> {
    let pod = pod_of(stack, job, "a pod", |pod| Some(pod.clone())).await?;
    stack.worker_of(&pod)?.logs(NAMESPACE, &pod.name_any())
}
