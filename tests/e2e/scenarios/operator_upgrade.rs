//! A slow upgrade of the operator. The old operator keeps leading and renders the new
//! ClusterPolicy, then no operator leads, then the new one renders it again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use contract::driver::Driver;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::audit::Request;
use crate::harness::fleet::{NEW, OLD, first_image};
use crate::harness::helm::Said;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{Fault, LEASE, OPERATOR_NAMESPACE, Operand, Script, is_ready};
use crate::harness::wait::until;

const NODES: usize = 3;
const LIMIT: Duration = Duration::from_mins(2);
const DRIVER: &str = "app.kubernetes.io/component=nvidia-driver";
/// Longer than the operator's upgrade and three nodes take.
const BUDGET_SECONDS: u64 = 300;

/// The measured times, without the pull of the new operator's image: the pod needs 30 s, the old
/// operator renders after 1 s, no operator leads for 15 s.
fn slow(script: &mut Script) {
    script.operator = (30_000, 30_001);
    script.template_after = (900, 1_100);
    script.lease = Duration::from_secs(15);
    script.two_writers = true;
    script.tick = Duration::from_mins(2);
}

/// All pods with some labels that a watch has observed, by node.
struct Seen {
    pods: Rc<RefCell<BTreeMap<String, BTreeSet<String>>>>,
    watch: JoinHandle<()>,
}

impl Seen {
    fn start(stack: &Stack, labels: &str) -> Self {
        let pods: Rc<RefCell<BTreeMap<String, BTreeSet<String>>>> = Rc::default();
        let noted = Rc::clone(&pods);
        let api = Api::<Pod>::namespaced(stack.client.clone(), OPERATOR_NAMESPACE);
        let config = Config::default().labels(labels);
        let watch = tokio::task::spawn_local(async move {
            let mut events = std::pin::pin!(watcher(api, config));
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                        if let Some(node) =
                            pod.spec.as_ref().and_then(|spec| spec.node_name.clone())
                        {
                            noted.borrow_mut().entry(node).or_default().insert(pod.name_any());
                        }
                    }
                    Ok(_) => {}
                    // The watch restarts automatically.
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            }
        });
        Self { pods, watch }
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

async fn lease(stack: &Stack) -> Result<Lease> {
    Ok(Api::<Lease>::namespaced(stack.client.clone(), OPERATOR_NAMESPACE).get(LEASE).await?)
}

/// Checks that the operator pod of the newest template leads since before `end`.
async fn check_newest_leads(stack: &Stack, chart: &str, end: Timestamp) -> Result<()> {
    let pods = Api::<Pod>::namespaced(stack.client.clone(), OPERATOR_NAMESPACE);
    let pods = pods.list(&ListParams::default().labels("app=gpu-operator")).await?.items;
    let newest = pods.iter().find(|pod| first_image(pod).ends_with(chart));
    let newest = newest.context("a pod of the new operator")?;
    let spec = lease(stack).await?.spec.unwrap_or_default();
    let holder = spec.holder_identity.unwrap_or_default();
    ensure!(
        holder.starts_with(&format!("{}_", newest.name_any())),
        "{holder} leads, expected {}",
        newest.name_any()
    );
    ensure!(spec.lease_transitions == Some(1), "{:?}", spec.lease_transitions);
    let acquired = spec.acquire_time.context("acquireTime")?.0;
    ensure!(
        acquired < end,
        "the hook reported success at {end}, but the new operator leads only since {acquired}"
    );
    Ok(())
}

/// Checks that the driver's DaemonSet has this number of revisions, and each node a ready pod of
/// the newest one.
async fn check_newest_drivers(stack: &Stack, revisions: usize) -> Result<()> {
    let all = Api::<ControllerRevision>::namespaced(stack.client.clone(), OPERATOR_NAMESPACE)
        .list(&ListParams::default())
        .await?
        .items;
    let of_driver = |revision: &&ControllerRevision| {
        revision.owner_references().iter().any(|owner| owner.name == Operand::Driver.name())
    };
    let mut of_driver: Vec<&ControllerRevision> = all.iter().filter(of_driver).collect();
    of_driver.sort_by_key(|revision| revision.revision);
    ensure!(
        of_driver.len() == revisions,
        "{} revisions of the driver, expected {revisions}",
        of_driver.len()
    );
    let hash = |labels: &BTreeMap<String, String>| labels.get("controller-revision-hash").cloned();
    let newest = of_driver.last().and_then(|revision| hash(revision.labels()));
    for (node, pod) in stack.drivers().await? {
        ensure!(
            hash(pod.labels()) == newest && is_ready(&pod),
            "{node} does not have the newest driver: {:?}",
            pod.labels()
        );
    }
    Ok(())
}

/// A short interval of the old operator's upgrade controller. With it, the controller would start
/// nodes on the intermediate revision if they were not held.
const EAGER_TICK: Duration = Duration::from_secs(3);

/// Returns the nodes that a hook holds.
async fn held(stack: &Stack) -> Result<Vec<String>> {
    let traits = Driver::Gpu.traits();
    let nodes = Api::<Node>::all(stack.client.clone()).list(&ListParams::default()).await?;
    let is_held = |node: &&Node| {
        node.annotations().contains_key(traits.hold)
            && node.labels().contains_key(traits.skip_label)
    };
    Ok(nodes.iter().filter(is_held).map(ResourceExt::name_any).collect())
}

/// The settings of a mode: the operator's values, the hook before the operator's release if the
/// mode has one, and the hook after it.
struct Story {
    mode: &'static str,
    values: Value,
    before: Option<&'static [&'static str]>,
    after: &'static [&'static str],
}

impl Story {
    fn settings(&self, tasks: &[&str]) -> Value {
        let upgrade = json!({"policy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%"}, "startSeconds": 120});
        json!({
            "component": {"version": NEW.chart}, "mode": self.mode, "tasks": tasks, "upgrade": upgrade,
            "budgetSeconds": BUDGET_SECONDS,
        })
    }

    async fn deploy(&self, stack: &Stack, hook: &HookRelease<'_>) -> Result<Said> {
        if let Some(tasks) = self.before {
            let first = HookRelease::new(stack, "gpu-rollout-pre");
            let said = first.deploy(&self.values, &self.settings(tasks)).await?;
            ensure!(said.success, "{said:?}\n{}", first.logs().await?);
            let held = held(stack).await?;
            ensure!(
                held.len() == NODES,
                "only {held:?} are held before the operator is deployed\n{}",
                first.logs().await?
            );
            rights::check(stack, &first, &format!("operator-upgrade-{}-pre", self.mode)).await?;
        }
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &self.values).await?;
        hook.deploy(&self.values, &self.settings(self.after)).await
    }
}

async fn each_driver_is_replaced_once(story: Story) -> Result<()> {
    scenario(&format!("operator-upgrade-{}", story.mode), async |stack| {
        let nodes = stack.fleet(Script::seeded(41), NODES, true).await?;
        let plugins = stack.plugins().await?;
        stack.rewrite(|script| {
            slow(script);
            if story.before.is_some() {
                script.tick = EAGER_TICK;
            }
        })?;
        until("the Lease to last 15 s", LIMIT, async || {
            let seconds = lease(stack).await?.spec.and_then(|spec| spec.lease_duration_seconds);
            Ok((seconds == Some(15)).then_some(()))
        })
        .await?;
        let seen = Seen::start(stack, DRIVER);
        let hook = HookRelease::new(stack, "gpu-rollout");

        let said = story.deploy(stack, &hook).await?;

        let log = hook.logs().await?;
        ensure!(said.success, "{said:?}\n{log}");
        let held = held(stack).await?;
        ensure!(held.is_empty(), "{held:?} are still held\n{log}");
        check_newest_leads(stack, NEW.chart, said.ended).await.with_context(|| log.clone())?;
        check_newest_drivers(stack, 3).await.with_context(|| log.clone())?;
        let pods = seen.pods.borrow().clone();
        for node in &nodes {
            let of_node = pods.get(node).cloned().unwrap_or_default();
            ensure!(
                of_node.len() == 2,
                "{node} had the driver pods {of_node:?}, expected one replacement\n{log}"
            );
        }
        stack.check_rerolled(&plugins, &[hook], said.ended).await
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn each_driver_is_replaced_once_in_assist() -> Result<()> {
    let values = NEW.values();
    let (before, after) = (Some(&["preflight", "hold"][..]), &["settle", "wake", "reroll"]);
    each_driver_is_replaced_once(Story { mode: "assist", values, before, after }).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn each_driver_is_replaced_once_in_steer() -> Result<()> {
    let values = NEW.steered_values();
    let (before, after) =
        (Some(&["preflight", "hold"][..]), &["settle", "wake", "steer", "reroll"]);
    each_driver_is_replaced_once(Story { mode: "steer", values, before, after }).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn each_driver_is_replaced_once_in_drive() -> Result<()> {
    let values = NEW.driven_values();
    each_driver_is_replaced_once(Story {
        mode: "drive",
        values,
        before: None,
        after: &["settle", "drive", "reroll"],
    })
    .await
}

/// The driver does not change. The DaemonSet of the plugins replaces only them, node by node.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn never_ready_device_plugin_fails_the_hook() -> Result<()> {
    scenario("operand-never-ready", async |stack| {
        let nodes = stack.fleet(Script::seeded(42), NODES, false).await?;
        let broken = nodes[1].clone();
        let plugin = Operand::DevicePlugin.name().to_owned();
        stack.rewrite(|script| {
            script.operand_faults.extend([((broken.clone(), plugin), Fault::NeverReady)]);
        })?;
        let mut values = OLD.values();
        values["devicePlugin"] = json!({"version": "v0.18.2"});
        stack.deploy("gpu-operator", OLD.chart, OPERATOR_NAMESPACE, &values).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");

        let said = hook
            .deploy(&values, &json!({"component": {"version": OLD.chart}, "budgetSeconds": 120}))
            .await?;

        ensure!(
            !said.success,
            "{broken} offers {:?} GPUs\n{}",
            stack.offers().await?.get(&broken),
            hook.logs().await?
        );
        let named = hook.named().await.with_context(|| format!("{said:?}"))?;
        ensure!(named.contains(&format!("{broken}:OperandNotReady")), "{named:?}");
        let text =
            hook.node_record(&broken).await?.reason.map(|reason| reason.text).unwrap_or_default();
        ensure!(text.contains(Operand::DevicePlugin.name()), "the operand is not named: {text}");
        Ok(())
    })
    .await
}

/// Checks an assumption of the other stories: a new operator process has another identity, waits
/// until the Lease has expired, and only then works.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn restarted_operator_waits_for_its_own_lease() -> Result<()> {
    scenario("operator-restarted", async |stack| {
        stack
            .fleet(Script { lease: Duration::from_secs(8), ..Script::seeded(43) }, 1, false)
            .await?;
        stack.restart_operator().await?;
        let before = lease(stack).await?.spec.unwrap_or_default();

        stack.set_driver(NEW.driver).await?;

        let after = lease(stack).await?.spec.unwrap_or_default();
        let (old, new) =
            (before.holder_identity.unwrap_or_default(), after.holder_identity.unwrap_or_default());
        let pod = |holder: &str| holder.split('_').next().map(str::to_owned);
        ensure!(
            pod(&old) == pod(&new) && old != new,
            "expected a new process in the same pod: {old} led, now {new} leads"
        );
        ensure!(after.lease_transitions == Some(1), "{:?}", after.lease_transitions);
        let (renewed, acquired) = (
            before.renew_time.context("renewTime")?.0,
            after.acquire_time.context("acquireTime")?.0,
        );
        let gap = acquired.duration_since(renewed);
        ensure!(gap.as_secs() >= 8, "no operator led for only {gap:#}");
        let writes = stack.audit.by_user("admin")?;
        let between = |request: &&Request| request.time > renewed && request.time < acquired;
        let written: Vec<_> = writes
            .iter()
            .filter(between)
            .filter(|request| request.resource == "daemonsets" && request.is_write())
            .collect();
        ensure!(written.is_empty(), "an operator wrote while none led: {written:#?}");
        Ok(())
    })
    .await
}
