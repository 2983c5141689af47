//! The predictions of `plan` are correct for each policy: the same nodes, the same pods, within the
//! predicted time.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::harness::apply::Applier;
use crate::harness::ask::Ask;
use crate::harness::audit::Request;
use crate::harness::console::Console;
use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;
use crate::harness::workloads::{NAMESPACE, Serving};

const DEADLINE: Duration = Duration::from_mins(15);
const NODES: usize = 8;
/// The duration of jobs.
const JOBS: &str = "40s";

/// One policy and its workloads.
struct Policy {
    name: &'static str,
    /// `rollout.gpuDriver`, key by key.
    gpu_driver: Value,
    /// Whether a PodDisruptionBudget allows one disruption of a Deployment at a time.
    guarded: bool,
    /// Whether there are jobs that the controller waits for.
    jobs: bool,
}

impl Policy {
    fn drive(name: &'static str, policy: &Value) -> Self {
        Self {
            name,
            gpu_driver: json!({"mode": "drive", "policy": policy}),
            guarded: false,
            jobs: false,
        }
    }
}

/// Creates pods with GPUs, and pods without GPUs that stay unless the policy drains.
async fn populate(stack: &Stack, policy: &Policy) -> Result<()> {
    stack.create_namespace(NAMESPACE).await?;
    let replicas = 6;
    stack.run(&Serving { name: "serve", replicas, ..Serving::default() }).await?;
    stack.run(&Serving { name: "web", replicas: 4, gpus: 0, ..Serving::default() }).await?;
    if policy.guarded {
        stack
            .protect(
                "serve",
                &json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "serve"}}}),
            )
            .await?;
    }
    if policy.jobs {
        let mut template =
            Serving { name: "train", labels: json!({"wait": "yes"}), ..Serving::default() }
                .template();
        template["spec"]["restartPolicy"] = "Never".into();
        template["metadata"]["annotations"]["stand-in.gpu-rollout.dev/ends-after"] = JOBS.into();
        let metadata = json!({"name": "train", "namespace": NAMESPACE});
        let spec =
            json!({"backoffLimit": 0, "parallelism": 2, "completions": 2, "template": template});
        let job =
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec});
        Applier::new(&stack.client).apply(&job, NAMESPACE).await?;
    }
    stack.await_serving("serve", replicas).await?;
    stack.await_serving("web", 4).await
}

async fn comes_true(policy: Policy) -> Result<()> {
    scenario_within(DEADLINE, &format!("plan-{}", policy.name), async |stack| {
        let script = Script { driver: (1_000, 4_000), ..Script::seeded(81) };
        stack.play(script).await?;
        let nodes = stack.add_gpu_nodes(NODES).await?;
        let old = Ask { dra: false, ..Ask::old(NODES) };
        let bundle = stack.render(&old).await?;
        ensure!(
            stack.deploy_bundle(&bundle).await?.success,
            "the deployment of the old release failed"
        );
        populate(stack, &policy).await?;
        let running = Api::<Pod>::namespaced(stack.client.clone(), NAMESPACE)
            .list(&ListParams::default())
            .await?;
        let before: BTreeSet<String> =
            running.into_iter().map(|pod| format!("{NAMESPACE}/{}", pod.name_any())).collect();

        let new = Ask { gpu_driver: policy.gpu_driver.clone(), ..old.with(&NEW) };
        let bundle = stack.render(&new).await?;
        let console = Console::new(stack)?;
        let line = format!("gpu-rollout plan --bundle {} --job-time 0s..{JOBS}", bundle.display());
        eprintln!("{}", console.types(&line).await?);
        let document: Value =
            serde_json::from_str(&console.types(&format!("{line} -o json")).await?)?;
        let plan = &document["rollouts"][0];

        let begin = Timestamp::now();
        let (seen, took) = deploy(stack, &bundle, begin).await?;
        let evicted = evicted(stack, begin)?;

        let steps = plan["nodes"].as_array().context("nodes")?;
        let touched: BTreeSet<&str> = steps
            .iter()
            .filter(|node| !matches!(node["step"].as_str(), Some("unchanged" | "first")))
            .filter_map(|node| node["node"].as_str())
            .collect();
        let expected: BTreeSet<&str> = nodes.iter().map(String::as_str).collect();
        ensure!(touched == expected, "{touched:?}");
        let cordoned: BTreeSet<&str> = seen.cordoned.iter().map(String::as_str).collect();
        ensure!(cordoned == touched, "cordoned {cordoned:?}, predicted {touched:?}");

        let pods = plan["pods"].as_array().context("pods")?;
        let name = |pod: &Value| {
            format!(
                "{}/{}",
                pod["namespace"].as_str().unwrap_or_default(),
                pod["name"].as_str().unwrap_or_default()
            )
        };
        let may: BTreeSet<String> = pods.iter().map(name).collect();
        let must: BTreeSet<String> =
            pods.iter().filter(|pod| pod["certain"] == true).map(name).collect();
        let left: BTreeSet<String> = evicted.intersection(&before).cloned().collect();
        ensure!(
            must.is_subset(&left),
            "predicted evictions did not occur: {:?}",
            must.difference(&left)
        );
        ensure!(left.is_subset(&may), "evictions were not predicted: {:?}", left.difference(&may));

        // NVIDIA's controller has no fixed order of the nodes.
        let order = if policy.gpu_driver["mode"] == "drive" { "hook" } else { "controller" };
        ensure!(plan["order"] == order, "{}", plan["order"]);

        let [quickest, likely, slowest] = duration(plan)?;
        eprintln!(
            "{}: took {took:.0} s, predicted {quickest} to {slowest} s, likely {likely} s",
            policy.name
        );
        ensure!(
            quickest <= took && took <= slowest,
            "took {took} s, predicted {quickest} to {slowest} s"
        );
        Ok(())
    })
    .await
}

/// Deploys a bundle. Returns the observed nodes, and the seconds from the first node's cordon, or
/// the start of the hook if that was earlier, until the release of the last node.
pub(super) async fn deploy(stack: &Stack, bundle: &Path, begin: Timestamp) -> Result<(Seen, f64)> {
    let seen = RefCell::new(Seen::default());
    let deployed = tokio::select! {
        deployed = stack.deploy_bundle(bundle) => deployed?,
        error = follow(&stack.client, &seen) => error?,
    };
    let hook = HookRelease::new(stack, "gpu-operator-post");
    ensure!(deployed.success, "{deployed:?}\n{}", hook.logs().await?);
    let seen = seen.into_inner();
    let fired = hook.fired_at(begin)?.first().copied().context("the hook has not fired")?;
    let first = seen.first.context("no node was cordoned")?.min(fired);
    let took = seen.last.context("no node was uncordoned")?.duration_since(first).as_secs_f64();
    Ok((seen, took))
}

/// Returns the shortest, the likely and the longest duration of a plan, in seconds.
pub(super) fn duration(plan: &Value) -> Result<[f64; 3]> {
    let bound =
        |key: &str| plan["duration"][key].as_f64().with_context(|| format!("{key}: {plan:#}"));
    Ok([bound("leastSeconds")?, bound("likelySeconds")?, bound("mostSeconds")?])
}

/// The observed cordons of nodes.
#[derive(Default)]
pub(super) struct Seen {
    cordoned: BTreeSet<String>,
    /// The nodes that are cordoned now.
    now: BTreeSet<String>,
    /// The time of the first cordon.
    first: Option<Timestamp>,
    /// The time of the last uncordon.
    last: Option<Timestamp>,
}

/// Watches the nodes. Returns only with an error, if the watch ends.
async fn follow<T>(client: &Client, seen: &RefCell<Seen>) -> Result<T> {
    let mut nodes = pin!(
        watcher(Api::<Node>::all(client.clone()), watcher::Config::default()).applied_objects()
    );
    while let Some(node) = nodes.try_next().await? {
        let (name, mut seen, now) = (node.name_any(), seen.borrow_mut(), Timestamp::now());
        if node.spec.and_then(|spec| spec.unschedulable) == Some(true) {
            seen.first.get_or_insert(now);
            seen.cordoned.insert(name.clone());
            seen.now.insert(name);
        } else if seen.now.remove(&name) {
            seen.last = Some(now);
        }
    }
    bail!("the watch has ended")
}

/// Returns the pods whose eviction was granted since `begin`, to the hook or to NVIDIA's
/// controller.
fn evicted(stack: &Stack, begin: Timestamp) -> Result<BTreeSet<String>> {
    let hook = HookRelease::new(stack, "gpu-operator-post");
    // The stand-in of the operator acts as the user `admin`.
    let requests = [hook.requests(begin)?, stack.audit.by_user("admin")?].concat();
    let granted = |request: &Request| {
        request.resource == "pods/eviction" && request.code == 201 && request.time >= begin
    };
    Ok(requests
        .iter()
        .filter(|request| granted(request))
        .map(|request| format!("{}/{}", request.namespace, request.name))
        .collect())
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn one_node_at_a_time() -> Result<()> {
    comes_true(Policy::drive(
        "one",
        &json!({"maxParallelUpgrades": 1, "podDeletion": {"timeout": "60s"}}),
    ))
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn half_of_the_nodes_with_a_budget() -> Result<()> {
    let policy = json!({"maxParallelUpgrades": 0, "maxUnavailable": "50%", "podDeletion": {"timeout": "120s"}});
    comes_true(Policy { guarded: true, ..Policy::drive("half", &policy) }).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn after_jobs_have_ended() -> Result<()> {
    let policy = json!({
        "maxParallelUpgrades": 4, "maxUnavailable": "50%",
        "podDeletion": {"timeout": "60s"}, "waitForCompletion": {"podSelector": "wait=yes", "timeout": "300s"},
    });
    comes_true(Policy { jobs: true, ..Policy::drive("jobs", &policy) }).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn drained_with_a_pause_between() -> Result<()> {
    let policy = json!({
        "maxParallelUpgrades": 4, "maxUnavailable": "50%", "soak": "2s",
        "drain": {"enable": true, "force": true, "timeout": "60s", "deleteEmptyDir": true},
    });
    comes_true(Policy::drive("drain", &policy)).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn by_nvidias_controller() -> Result<()> {
    let policy = json!({"maxParallelUpgrades": 2, "maxUnavailable": "50%", "podDeletion": {"timeout": "60s"}});
    let gpu_driver = json!({"mode": "assist", "policy": policy});
    comes_true(Policy { name: "assist", gpu_driver, guarded: false, jobs: false }).await
}
