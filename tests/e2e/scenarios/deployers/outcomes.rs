//! Deployments that fail in the middle, with each deployer: the status for the user, no duplicate
//! work, and a successful recovery with the steps of the bundle's documentation.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use contract::driver::Driver;
use contract::exit::ExitCode;
use hook::CANNOT_BE_READ;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use planner::reason::Reason;
use serde_json::json;

use crate::harness::ask::Ask;
use crate::harness::audit::Request;
use crate::harness::cells::Cells;
use crate::harness::deployers::{Deployer, Kind, Outcome};
use crate::harness::fleet::{NEW, OLD, Plugin, first_image};
use crate::harness::hook_release::HookRelease;
use crate::harness::node_agent::NodeAgent;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{Fault, OPERATOR_NAMESPACE, Script, driver_version, published};
use crate::harness::wait::until;

use super::change::is_replacement;
use super::editor::{set_lines, try_again_soon};
use super::{for_each_deployer, hooks};

for_each_deployer!(outcomes);

/// Ten deployments, on a busy machine.
const DEADLINE: Duration = Duration::from_mins(30);
const LIMIT: Duration = Duration::from_mins(4);
const NODES: usize = 2;
/// The drivers that are deployed one after another.
const DRIVERS: [&str; 3] = [NEW.driver, "580.105.09", OLD.driver];
/// The recovery after a deployment that succeeded.
const NOTHING: &str = "not needed";
/// How the names of driver pods start.
const DRIVER_PODS: &str = "nvidia-driver-daemonset-";
/// Time until a driver is ready, in milliseconds.
const QUICK: (u64, u64) = (300, 900);
/// The same for a round that is interrupted: each node takes long enough for the interruption.
const SLOW: (u64, u64) = (8_000, 8_001);
/// The same for a round in which a second deployment starts.
const SLOWER: (u64, u64) = (15_000, 15_001);
/// The end of the line with the smallest time budget that the chart accepts, in seconds. The hook
/// has half of it for its work.
const SMALL_BUDGET: &str = " 94";
/// Time until a driver is ready, in milliseconds. Two nodes in sequence exceed that half.
const SLOWEST: (u64, u64) = (30_000, 30_001);

async fn outcomes(kind: Kind) -> Result<()> {
    scenario_within(DEADLINE, &format!("outcomes-{}", kind.word()), async |stack| {
        stack.play(Script { driver: QUICK, ..Script::seeded(31) }).await?;
        let nodes = stack.add_gpu_nodes(NODES).await?;
        let stack = &*stack;
        let deployer = kind.start(stack).await?;
        let [_, hook, _] = hooks(stack);
        let story = Story {
            stack,
            deployer: &*deployer,
            hook,
            nodes,
            cells: Cells::new("outcomes", kind),
            recovery: Cells::new("recovery", kind),
            rounds: Cell::new(0),
        };
        story.success().await.context("success")?;
        story.pod_killed().await.context("the hook's pod is killed")?;
        story.deployer_killed().await.context("the deployer is killed")?;
        story.interrupted().await.context("the client is interrupted")?;
        story.api_server_away().await.context("the API server is stopped")?;
        story.second_deployment().await.context("a second deployment")?;
        story.hook_fails().await.context("the hook fails")?;
        story.budget_exceeded().await.context("the budget is exceeded")?;
        story.node_lost().await.context("the hook's node is lost")?;
        story.cells.check()?;
        story.recovery.check()
    })
    .await
}

struct Story<'a> {
    stack: &'a Stack,
    deployer: &'a dyn Deployer,
    /// The hook that is running during each interruption: the one after the operator.
    hook: HookRelease<'a>,
    nodes: Vec<String>,
    /// What the deployer reports at the end.
    cells: Cells,
    /// How to complete the deployment then.
    recovery: Cells,
    rounds: Cell<usize>,
}

/// One deployment of another driver.
struct Round {
    driver: &'static str,
    begin: Timestamp,
    /// The plugins before the round. Each must be replaced once.
    plugins: BTreeMap<String, Plugin>,
    /// The largest number of driver pods that may be replaced.
    drivers: usize,
}

impl Story<'_> {
    async fn success(&self) -> Result<()> {
        self.deployer.deploy(self.stack, &ask()).await?;
        self.deployer.wait(self.stack, Outcome::Succeeded).await?;
        self.cells.note("success", self.said().await?);
        ensure!(self.stack.plugins().await?.len() == NODES, "a node has no plugin");
        Ok(())
    }

    async fn pod_killed(&self) -> Result<()> {
        let round = self.begin(SLOW).await?;
        self.in_progress(&round).await?;
        let pod = self.hook.running_pod().await?;
        self.stack.worker_of(&pod)?.signal(self.hook.namespace(), &pod.name_any(), "KILL").await?;
        self.end("hook's pod killed", &round).await
    }

    async fn node_lost(&self) -> Result<()> {
        let round = self.begin(SLOW).await?;
        self.in_progress(&round).await?;
        let pod = self.hook.running_pod().await?;
        self.stack.worker_of(&pod)?.lose().await?;
        self.end("hook's node gone", &round).await
    }

    async fn deployer_killed(&self) -> Result<()> {
        let round = self.begin(SLOW).await?;
        self.in_progress(&round).await?;
        self.deployer.kill().await?;
        self.end("client killed, or controller restarted", &round).await
    }

    async fn interrupted(&self) -> Result<()> {
        const ROW: &str = "client interrupted (Ctrl-C)";
        if !self.deployer.kind().is_client() {
            self.note(ROW, "–".to_owned(), "–");
            return Ok(());
        }
        let round = self.begin(SLOW).await?;
        self.in_progress(&round).await?;
        self.deployer.interrupt().await?;
        self.end(ROW, &round).await
    }

    async fn api_server_away(&self) -> Result<()> {
        let round = self.begin(SLOW).await?;
        self.in_progress(&round).await?;
        self.stack.control_plane.stop_api_server().await?;
        until("the hook to notice", LIMIT, async || {
            let logs: Result<String> = self.stack.workers.iter().map(NodeAgent::all_logs).collect();
            Ok(logs?.contains(CANNOT_BE_READ).then_some(()))
        })
        .await?;
        self.stack.control_plane.start_api_server().await?;
        match self.deployer.kind() {
            Kind::Helm3 | Kind::Helm4 | Kind::Helmfile | Kind::Flux => {
                self.end("API server restarted", &round).await
            }
            Kind::ArgoCd | Kind::ArgoCdHelm => {
                // Whether the outage affects a request of its controller depends on the timing.
                self.deployer.wait(self.stack, Outcome::Succeeded).await?;
                self.check(&round).await?;
                self.note(
                    "API server restarted",
                    self.said().await?,
                    "automatic retry, if the outage had an effect",
                );
                Ok(())
            }
        }
    }

    /// The second deployment starts while the hook of the first one is running.
    async fn second_deployment(&self) -> Result<()> {
        let first = self.begin(SLOWER).await?;
        self.in_progress(&first).await?;
        let second = self.begin(QUICK).await?;
        let how = self.deployer.finish(self.stack).await?;
        self.check(&Round { driver: second.driver, drivers: 2 * NODES, ..first }).await?;
        self.note("second deployment while the first runs", self.said().await?, how);
        Ok(())
    }

    /// A driver crashes, and NVIDIA's controller marks its node as failed.
    async fn hook_fails(&self) -> Result<()> {
        let broken = self.nodes.last().context("no node")?.clone();
        self.stack.rewrite(|script| script.faults.extend([(broken.clone(), Fault::CrashLoop)]))?;
        // A failed node keeps its slot of NVIDIA's controller. With one slot, the hook would wait
        // until a user repairs the node.
        let both = json!({"policy": {"maxParallelUpgrades": NODES, "maxUnavailable": "100%"}});
        let round = self.begin_with(&Ask { gpu_driver: both, ..ask() }, QUICK).await?;
        self.deployer.wait(self.stack, Outcome::Failed).await?;
        let end = self.hook.end().await?;
        let named = self.hook.named().await?;
        let failed = format!("{broken}:UpgradeFailed");
        ensure!(
            end.exit_code == i32::from(ExitCode::NodesFailed.number()) && named == [failed],
            "{}: {named:?}",
            end.exit_code
        );
        self.repair(&broken).await?;
        self.end("hook fails", &Round { drivers: NODES + 1, ..round }).await
    }

    /// Follows the advice of the hook: repairs the driver on the node, which here means a new pod,
    /// then labels the node.
    async fn repair(&self, node: &str) -> Result<()> {
        let advice = Reason::UpgradeFailed { trouble: None }.advice(Driver::Gpu);
        ensure!(
            self.hook.logs().await?.contains(advice),
            "the log of the hook lacks the advice: {}",
            self.hook.logs().await?
        );
        self.stack.rewrite(|script| script.faults.clear())?;
        let drivers = self.stack.drivers().await?;
        let pod = drivers.get(node).context("no driver pod")?.name_any();
        Api::<Pod>::namespaced(self.stack.client.clone(), OPERATOR_NAMESPACE)
            .delete(&pod, &DeleteParams::default())
            .await?;
        let label = Patch::Merge(
            json!({"metadata": {"labels": {"nvidia.com/gpu-driver-upgrade-state": "upgrade-required"}}}),
        );
        Api::<Node>::all(self.stack.client.clone())
            .patch(node, &PatchParams::default(), &label)
            .await?;
        Ok(())
    }

    /// The drivers become ready only after the hook's time budget is exhausted.
    async fn budget_exceeded(&self) -> Result<()> {
        let round = self.begin_with(&Ask { afterwards: small_budget, ..ask() }, SLOWEST).await?;
        let code = i32::from(ExitCode::Budget.number());
        until("the time budget to be exhausted", LIMIT, async || {
            Ok((self.hook.end().await?.exit_code == code).then_some(()))
        })
        .await?;
        self.end("hook exceeds its budget", &round).await
    }

    /// Deploys the next driver, which takes `time` on each node. Returns when the deployer has the
    /// bundle.
    async fn begin(&self, time: (u64, u64)) -> Result<Round> {
        self.begin_with(&ask(), time).await
    }

    async fn begin_with(&self, ask: &Ask, time: (u64, u64)) -> Result<Round> {
        self.stack.rewrite(|script| script.driver = time)?;
        let driver = DRIVERS[self.rounds.get() % DRIVERS.len()];
        self.rounds.set(self.rounds.get() + 1);
        let round = Round {
            driver,
            begin: Timestamp::now(),
            plugins: self.stack.plugins().await?,
            drivers: NODES,
        };
        self.deployer.deploy(self.stack, &Ask { driver, ..ask.clone() }).await?;
        Ok(round)
    }

    /// Waits until the hook has replaced the first plugin.
    async fn in_progress(&self, round: &Round) -> Result<()> {
        until("the first plugin to be replaced", LIMIT, async || {
            Ok(self.hook.requests(round.begin)?.iter().any(is_replacement).then_some(()))
        })
        .await
    }

    /// Waits for the end, performs the documented recovery if the deployment failed, and checks the
    /// result.
    async fn end(&self, row: &'static str, round: &Round) -> Result<()> {
        let ended = self.deployer.end(self.stack).await?;
        let said = self.said().await?;
        let how = match ended {
            Outcome::Succeeded if self.hook.firings(round.begin)? > 1 => "automatic retry",
            Outcome::Succeeded => NOTHING,
            Outcome::Failed => self.deployer.recover(self.stack, &self.hook).await?,
        };
        self.check(round).await?;
        self.note(row, said, how);
        Ok(())
    }

    /// Returns what the deployer reports about the hook's release.
    async fn said(&self) -> Result<String> {
        self.deployer.says(self.stack, &self.hook).await
    }

    fn note(&self, row: &'static str, said: String, how: &str) {
        self.cells.note(row, said);
        self.recovery.note(row, how);
    }

    /// Checks that every node has the driver and a plugin that serves it, that nothing was done
    /// twice, and that no node is cordoned.
    async fn check(&self, round: &Round) -> Result<()> {
        let end = self.hook.end().await?;
        ensure!(end.exit_code == 0, "{:?}\n{}", end.message, self.hook.logs().await?);
        let (drivers, served) = (self.stack.drivers().await?, self.stack.served().await?);
        for node in &self.nodes {
            let driver = drivers.get(node).with_context(|| format!("no driver on {node}"))?;
            let image = first_image(driver);
            ensure!(
                driver_version(image) == round.driver,
                "{node} runs {image}, expected {}",
                round.driver
            );
            ensure!(
                served.get(node) == Some(&published(round.driver)),
                "{node} serves {:?}",
                served.get(node)
            );
        }
        let mut replaced = BTreeSet::new();
        for hook in hooks(self.stack) {
            for request in hook.requests(round.begin)?.into_iter().filter(is_replacement) {
                ensure!(
                    replaced.insert(request.name.clone()),
                    "{} was replaced twice",
                    request.name
                );
            }
        }
        for (node, plugin) in &round.plugins {
            ensure!(
                replaced.contains(plugin.name()),
                "{} of {node} was not replaced: {replaced:?}",
                plugin.name()
            );
        }
        let of_driver = |request: &Request| {
            request.verb == "delete"
                && request.resource == "pods"
                && request.name.starts_with(DRIVER_PODS)
                && request.time >= round.begin
        };
        let requests = self.stack.audit.by_user("admin")?.into_iter();
        let deleted: BTreeSet<String> =
            requests.filter(of_driver).map(|request| request.name).collect();
        ensure!(
            deleted.len() <= round.drivers,
            "more than {} driver pods were replaced: {deleted:?}",
            round.drivers
        );
        let cordoned =
            |node: &Node| node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        for node in Api::<Node>::all(self.stack.client.clone()).list(&ListParams::default()).await?
        {
            ensure!(!cordoned(&node), "{} is left cordoned", node.name_any());
        }
        Ok(())
    }
}

/// The deployed recipe. Argo CD's Applications retry soon.
fn ask() -> Ask {
    Ask { afterwards: try_again_soon, ..Ask::old(NODES) }
}

/// Also sets the smallest time budget of the hook.
fn small_budget(bundle: &Path) -> Result<()> {
    try_again_soon(bundle)?;
    set_lines(bundle, "*-gpu-operator-post/rollout.yaml", "  budgetSeconds:", SMALL_BUDGET)
}
