//! Records NVIDIA's library, with its real interval of two minutes, for the engine's tests
//! (`tests/data/traces`). It is not a test. Run by name (`tests/e2e/run.sh
//! scenarios::recordings::`), each writes its recording to `target/traces`.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::traces::settled;
use crate::harness::recorder::Recorder;
use crate::harness::repository::repository;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{Fault, OPERATOR_NAMESPACE, Operand, Script, cluster_policy_kind};
use crate::harness::wait::until;
use crate::harness::workloads::{NAMESPACE, Serving};

/// The release whose library is recorded. Of v26.7.0 there are recordings of the operator itself.
const VERSION: &str = "v26.3.1";
const OLD: &str = "595.91.07";
const NEW: &str = "595.92.01";
const NODES: usize = 4;
/// The time after which the user removes an obstacle of the rollout.
const PATIENCE: Duration = Duration::from_secs(150);
const SCENARIO: Duration = Duration::from_mins(40);
/// Longer than a rollout of four nodes with a sleep of the controller at each.
const ROLLOUT: Duration = Duration::from_mins(20);

/// An installed fleet that is being recorded.
struct Recorded<'a> {
    stack: &'a Stack,
    recorder: Recorder,
    policy: Value,
    zero: Instant,
}

impl<'a> Recorded<'a> {
    /// Installs the old driver, with an upgrade policy, on four nodes.
    async fn install(stack: &'a mut Stack, seed: u64, policy: Value) -> Result<Self> {
        // Drivers become ready 5 to 20 s after they have started, as in the recordings of the
        // operator.
        let script = Script {
            tick: Duration::from_mins(2),
            driver: (5_000, 20_000),
            driver_manager: false,
            two_writers: true,
            ..Script::seeded(seed)
        };
        stack.play(script).await?;
        stack.add_gpu_nodes(NODES).await?;
        let values = json!({"toolkit": {"enabled": false}, "driver": {"version": OLD, "upgradePolicy": policy}});
        stack.deploy("gpu-operator", VERSION, OPERATOR_NAMESPACE, &values).await?;
        let recorder = Recorder::start(&stack.client);
        settled(&recorder, NODES, ROLLOUT).await?;
        Ok(Self { stack, recorder, policy, zero: Instant::now() })
    }

    /// Starts the recording, and changes the driver's version.
    async fn upgrade(&mut self) -> Result<()> {
        self.recorder = Recorder::start(&self.stack.client);
        until("the watches to start", ROLLOUT, async || {
            Ok(self.recorder.has_begun().then_some(()))
        })
        .await?;
        self.zero = Instant::now();
        self.recorder.act(&format!(
            "ClusterPolicy driver.version {OLD} -> {NEW}; of upgradePolicy {} is not the chart's",
            self.policy
        ));
        let policies =
            Api::<DynamicObject>::all_with(self.stack.client.clone(), &cluster_policy_kind());
        let version = Patch::Merge(json!({"spec": {"driver": {"version": NEW}}}));
        policies.patch("cluster-policy", &PatchParams::default(), &version).await?;
        self.await_state("upgrade-required").await?;
        Ok(())
    }

    /// Waits until a node is in a state. Returns its name.
    async fn await_state(&self, state: &str) -> Result<String> {
        until(&format!("a node in {state}"), ROLLOUT, async || {
            let (nodes, _) = self.recorder.trace().now();
            Ok(nodes.into_iter().find(|(_, look)| look.state == state).map(|(node, _)| node))
        })
        .await
    }

    /// Waits until all nodes are done, and writes the recording.
    async fn finish(self, name: &str) -> Result<()> {
        settled(&self.recorder, NODES, ROLLOUT).await?;
        self.recorder.act("all nodes are done");
        self.recorder.write(&repository("target/traces").join(name), self.zero)
    }
}

#[tokio::test(flavor = "local")]
#[ignore = "a recording: tests/e2e/run.sh scenarios::recordings::"]
async fn serial() -> Result<()> {
    scenario_within(SCENARIO, "recording-serial", async |stack| {
        let mut fleet = Recorded::install(stack, 101, json!({})).await?;
        fleet.upgrade().await?;
        fleet.finish("26.3-serial.jsonl").await
    })
    .await
}

/// Two nodes at once. On one of them, a pod of a job must end first.
#[tokio::test(flavor = "local")]
#[ignore = "a recording: tests/e2e/run.sh scenarios::recordings::"]
async fn parallel_with_jobs() -> Result<()> {
    scenario_within(SCENARIO, "recording-parallel", async |stack| {
        let wait = json!({"podSelector": "wait-for=me", "timeoutSeconds": 0});
        let policy =
            json!({"maxParallelUpgrades": 2, "maxUnavailable": "50%", "waitForCompletion": wait});
        let mut fleet = Recorded::install(stack, 102, policy).await?;
        fleet.stack.create_namespace(NAMESPACE).await?;
        let labels = || json!({"wait-for": "me"});
        let job = |replicas| Serving {
            name: "job",
            replicas,
            node: Some("gpu-0"),
            labels: labels(),
            gpus: 0,
            ..Serving::default()
        };
        fleet.stack.run(&job(1)).await?;
        fleet.stack.await_serving("job", 1).await?;
        fleet.upgrade().await?;
        fleet.await_state("wait-for-jobs-required").await?;
        tokio::time::sleep(PATIENCE).await;
        fleet.recorder.act("Deployment job: no replicas");
        fleet.stack.run(&job(0)).await?;
        fleet.finish("26.3-parallel-jobs.jsonl").await
    })
    .await
}

/// A PodDisruptionBudget blocks the eviction of the pods that use GPUs until its timeout expires,
/// and then blocks the drain that follows.
#[tokio::test(flavor = "local")]
#[ignore = "a recording: tests/e2e/run.sh scenarios::recordings::"]
async fn drain() -> Result<()> {
    scenario_within(SCENARIO, "recording-drain", async |stack| {
        let drain = json!({"enable": true, "force": true, "timeoutSeconds": 300, "deleteEmptyDir": true});
        let policy = json!({"podDeletion": {"timeoutSeconds": 30}, "drain": drain});
        let mut fleet = Recorded::install(stack, 103, policy).await?;
        fleet.stack.create_namespace(NAMESPACE).await?;
        fleet.stack.run(&Serving { replicas: 2, gpus: 1, node: Some("gpu-1"), ..Serving::default() }).await?;
        fleet.stack.await_serving("serve", 2).await?;
        let budget = |may: u64| json!({"maxUnavailable": may, "selector": {"matchLabels": {"app": "serve"}}});
        fleet.stack.protect("serve", &budget(0)).await?;
        fleet.upgrade().await?;
        until("the drain of the node of the protected pods", ROLLOUT, async || {
            let (nodes, _) = fleet.recorder.trace().now();
            Ok(nodes.get("gpu-1").is_some_and(|look| look.state == "drain-required").then_some(()))
        })
        .await?;
        tokio::time::sleep(PATIENCE).await;
        fleet.recorder.act("PodDisruptionBudget serve: maxUnavailable 0 -> 2");
        fleet.stack.protect("serve", &budget(2)).await?;
        fleet.finish("26.3-drain-pdb.jsonl").await
    })
    .await
}

/// A driver crashes on a node until a user repairs the node and deletes the pod.
#[tokio::test(flavor = "local")]
#[ignore = "a recording: tests/e2e/run.sh scenarios::recordings::"]
async fn failing() -> Result<()> {
    scenario_within(SCENARIO, "recording-failing", async |stack| {
        let mut fleet = Recorded::install(stack, 104, json!({})).await?;
        fleet
            .stack
            .rewrite(|script| script.faults.extend([("gpu-1".to_owned(), Fault::CrashLoop)]))?;
        fleet.upgrade().await?;
        let node = fleet.await_state("upgrade-failed").await?;
        ensure!(node == "gpu-1", "{node} failed");
        tokio::time::sleep(PATIENCE).await;
        fleet.stack.rewrite(|script| script.faults.clear())?;
        fleet.recorder.act("gpu-1 is repaired, its driver pod deleted");
        let pods = Api::<Pod>::namespaced(fleet.stack.client.clone(), OPERATOR_NAMESPACE);
        let on_node = ListParams::default()
            .labels(&format!("app={}", Operand::Driver.name()))
            .fields(&format!("spec.nodeName={node}"));
        for pod in pods.list(&on_node).await? {
            pods.delete(&pod.name_any(), &DeleteParams::default()).await?;
        }
        fleet.finish("26.3-failing-driver.jsonl").await
    })
    .await
}
