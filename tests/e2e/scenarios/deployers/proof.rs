//! Rollouts that halt after their canary, and rollouts that a freeze or a maintenance window holds
//! back, with each deployer: the status for the user, no further nodes without a command, and the
//! commands that complete the rollout.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use contract::exit::ExitCode;
use contract::record::{RUN_KEY, RunRecord, Verdict};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::ask::Ask;
use crate::harness::cells::Cells;
use crate::harness::console::Console;
use crate::harness::deployers::{Deployer, Kind, Outcome};
use crate::harness::fleet::{NEW, OLD, first_image};
use crate::harness::hook_release::HookRelease;
use crate::harness::kwok::{KWOK_TAINT, REAL};
use crate::harness::node_agent::SHELL_IMAGE;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{Script, driver_version};
use crate::harness::turns::Turns;
use crate::harness::wait::until;

use super::editor::{replace, set_lines, try_again_soon};
use super::{for_each_deployer, hooks};

for_each_deployer!(proof);

/// Seven deployments, two of them with a freeze or retries, on a busy machine.
const DEADLINE: Duration = Duration::from_mins(30);
const LIMIT: Duration = Duration::from_mins(4);
const NODES: usize = 3;
/// The canary: without workloads, the hook chooses by name.
const CANARY: &str = "gpu-0";
/// A driver between the old one and the new one.
const EDITED: &str = "580.105.09";
/// The script of an acceptance test that passes.
const PASSES: &str = "true";
/// The script of an acceptance test that fails on [`CANARY`].
const FAILS: &str = "test \"$NODE\" != gpu-0";
/// The end of the line with a small time budget of the hook, in seconds. The hook has half of it
/// for its work: enough for the nodes, and short enough to wait for.
const SMALL_BUDGET: &str = " 180";
/// A maintenance window that is always open.
const ALWAYS: &str = "daily 00:00-24:00 UTC";

async fn proof(kind: Kind) -> Result<()> {
    scenario_within(DEADLINE, &format!("proof-{}", kind.word()), async |stack| {
        stack.play(Script { driver: (300, 1_000), ..Script::seeded(37) }).await?;
        let nodes = stack.add_gpu_nodes(NODES).await?;
        for node in &nodes {
            stack.join(node)?;
        }
        let stack = &*stack;
        let deployer = kind.start(stack).await?;
        let [_, hook, _] = hooks(stack);
        let story = Story {
            stack,
            deployer: &*deployer,
            hook,
            nodes,
            console: Console::new(stack)?,
            cells: Cells::new("proof", kind),
        };
        let first = ask(OLD.driver, PASSES);
        story.succeeds(&first).await.context("the install")?;
        story.goes_back(&first).await.context("the previous bundle")?;
        story.resumes().await.context("a halt that a user ends")?;
        story.freezes().await.context("a freeze")?;
        story.waits_for_window().await.context("a maintenance window")?;
        story.cells.check()
    })
    .await
}

struct Story<'a> {
    stack: &'a Stack,
    deployer: &'a dyn Deployer,
    /// The hook after the operator, which upgrades the nodes.
    hook: HookRelease<'a>,
    nodes: Vec<String>,
    console: Console,
    cells: Cells,
}

/// The changes of nodes from a time on.
struct Round {
    begin: Timestamp,
    turns: Turns,
    /// UID of the driver pod of each node at that time.
    drivers: BTreeMap<String, String>,
}

impl Round {
    async fn begin(stack: &Stack) -> Result<Self> {
        let (begin, turns) = (Timestamp::now(), Turns::record(&stack.client));
        Ok(Self { begin, turns, drivers: driver_pods(stack).await? })
    }

    /// Returns the nodes that were started or cordoned at any time.
    fn touched(&self) -> BTreeSet<String> {
        let nodes = self.turns.by_node().into_iter();
        let touched =
            nodes.filter(|(_, looks)| looks.iter().any(|look| look.gpu.is_some() || look.cordoned));
        touched.map(|(node, _)| node).collect()
    }

    /// Returns the nodes whose driver pod is another one now.
    async fn replaced(&self, stack: &Stack) -> Result<BTreeSet<String>> {
        let after = driver_pods(stack).await?.into_iter();
        let replaced = after.filter(|(node, uid)| self.drivers.get(node) != Some(uid));
        Ok(replaced.map(|(node, _)| node).collect())
    }
}

impl Story<'_> {
    /// The canary of a driver fails its test, and the user deploys the previous bundle again.
    async fn goes_back(&self, previous: &Ask) -> Result<()> {
        let (halted, said) = self.halts(EDITED).await?;
        self.cells.note("a canary fails its test", said);
        let then = self.without_command(&halted).await?;
        self.cells.note("after the halt, without a command", then);

        let round = Round::begin(self.stack).await?;
        self.succeeds(previous).await?;
        self.check_only_canary(&round).await?;
        let how = format!("{} changes only the canary", how_to_deploy(self.deployer.kind()));
        self.cells.note("the previous bundle is deployed again", how);
        Ok(())
    }

    /// The canary fails a test that is wrong, and the user takes it as proven.
    async fn resumes(&self) -> Result<()> {
        self.halts(NEW.driver).await?;
        let round = Round::begin(self.stack).await?;
        let resume = format!("gpu-rollout resume --accept {CANARY} --reason INC-4711 --yes");
        self.console.types(&resume).await?;
        let how = self.deployer.recover(self.stack, &self.hook).await?;
        self.check_done(NEW.driver).await?;
        ensure!(round.turns.gpu_starts(CANARY) == 0, "{CANARY} was upgraded again");
        let others: BTreeSet<String> =
            self.nodes.iter().filter(|node| *node != CANARY).cloned().collect();
        let replaced = round.replaced(self.stack).await?;
        ensure!(replaced == others, "driver pods were replaced on {replaced:?}");
        self.cells.note("after `gpu-rollout resume --accept NODE`", how);
        Ok(())
    }

    /// A freeze begins before a deployment, and lasts longer than the hook has time.
    async fn freezes(&self) -> Result<()> {
        self.console.types("gpu-rollout pause --for 12h --reason 'year-end freeze' --yes").await?;
        let ask = Ask { afterwards: small_budget, ..ask(EDITED, PASSES) };
        let said = self.held_back(&ask, "Paused").await?;
        self.cells.note("a freeze lasts longer than the time limit", said);

        self.console.types("gpu-rollout resume --yes").await?;
        let how = self.deployer.recover(self.stack, &self.hook).await?;
        self.check_done(EDITED).await?;
        self.cells.note("after the freeze", how);
        Ok(())
    }

    /// A bundle is deployed outside of its maintenance window. The hook has no time to wait for it.
    async fn waits_for_window(&self) -> Result<()> {
        let mut closed = Ask { afterwards: small_budget, ..ask(OLD.driver, PASSES) };
        closed.gpu_driver["policy"]["windows"] = json!([distant_window(Timestamp::now())]);
        let said = self.held_back(&closed, "OutsideWindow").await?;
        self.cells.note("no maintenance window opens within the time limit", said);

        let mut open = ask(OLD.driver, PASSES);
        open.gpu_driver["policy"]["windows"] = json!([ALWAYS]);
        self.succeeds(&open).await?;
        let how = format!("{} upgrades all nodes", how_to_deploy(self.deployer.kind()));
        self.cells.note("deployed again with a window that is open", how);
        Ok(())
    }

    /// Deploys a bundle, and waits until every node has its driver.
    async fn succeeds(&self, ask: &Ask) -> Result<()> {
        self.deployer.deploy(self.stack, ask).await?;
        if let Err(error) = self.deployer.wait(self.stack, Outcome::Succeeded).await {
            return Err(error.context(self.hook.logs().await?));
        }
        self.check_done(ask.driver).await
    }

    /// Deploys a driver whose canary fails its test. Checks that the rollout halts. Returns the
    /// changes, and what the deployer reports.
    async fn halts(&self, driver: &'static str) -> Result<(Round, String)> {
        let round = Round::begin(self.stack).await?;
        self.deployer.deploy(self.stack, &ask(driver, FAILS)).await?;
        self.deployer.wait(self.stack, Outcome::Failed).await?;
        let said = self.said().await?;
        self.ended_with(ExitCode::Halted, round.begin).await?;
        let record = self.hook.record().await?;
        let run: RunRecord = serde_json::from_str(record.get(RUN_KEY).context("no run")?)?;
        let halt = run.proof.context("no proof")?.halt.context("no halt")?;
        ensure!(halt.nodes == [CANARY], "{halt:?}");
        self.check_only_canary(&round).await?;
        let node = Api::<Node>::all(self.stack.client.clone()).get(CANARY).await?;
        ensure!(is_cordoned(&node), "{CANARY} takes workloads");
        Ok((round, said))
    }

    /// Waits for what the deployer does by itself after a halt. Checks that this touches no other
    /// node. Returns the cell.
    async fn without_command(&self, halted: &Round) -> Result<&'static str> {
        let then = match self.deployer.kind() {
            Kind::Helm3 | Kind::Helm4 | Kind::Helmfile => {
                let fired = self.hook.firings(halted.begin)?;
                ensure!(fired == 1, "the hook fired {fired} times");
                "nothing"
            }
            Kind::Flux | Kind::ArgoCd | Kind::ArgoCdHelm => {
                let retried = until("an automatic retry", LIMIT, async || {
                    Ok(self.hook.fired_at(halted.begin)?.get(1).copied())
                })
                .await?;
                self.ended_with(ExitCode::Halted, retried).await?;
                "automatic retry, which halts again"
            }
        };
        self.check_only_canary(halted).await?;
        Ok(then)
    }

    /// Deploys a bundle whose nodes all wait for this reason until the time limit. Checks that no
    /// node is touched. Returns what the deployer reports.
    async fn held_back(&self, ask: &Ask, reason: &str) -> Result<String> {
        let round = Round::begin(self.stack).await?;
        self.deployer.deploy(self.stack, ask).await?;
        self.deployer.wait(self.stack, Outcome::Failed).await?;
        let said = self.said().await?;
        let verdict = self.ended_with(ExitCode::Budget, round.begin).await?;
        let named = verdict.reasons.iter().filter(|named| named.reason == reason).count();
        ensure!(named == NODES && verdict.reasons.len() == NODES, "{verdict:?}");
        let (touched, replaced) = (round.touched(), round.replaced(self.stack).await?);
        ensure!(
            touched.is_empty() && replaced.is_empty(),
            "touched: {touched:?}, driver pods were replaced on {replaced:?}"
        );
        Ok(said)
    }

    /// Waits for the verdict of a run that ended after a time. Checks its exit code.
    async fn ended_with(&self, code: ExitCode, since: Timestamp) -> Result<Verdict> {
        let verdict = until("the verdict of the hook", LIMIT, async || {
            let verdict = self.hook.verdict().await?;
            Ok((verdict.at >= since).then_some(verdict))
        })
        .await?;
        ensure!(verdict.code == code, "{verdict:?}\n{}", self.hook.logs().await?);
        Ok(verdict)
    }

    /// Checks that the canary was started or cordoned, that its driver pod was replaced, and that
    /// no other node was touched.
    async fn check_only_canary(&self, round: &Round) -> Result<()> {
        let canary = BTreeSet::from([CANARY.to_owned()]);
        let (touched, replaced) = (round.touched(), round.replaced(self.stack).await?);
        ensure!(
            touched == canary && replaced == canary,
            "touched: {touched:?}, driver pods were replaced on {replaced:?}"
        );
        Ok(())
    }

    /// Checks that every node has the driver, and that no node is cordoned.
    async fn check_done(&self, driver: &str) -> Result<()> {
        let nodes = Api::<Node>::all(self.stack.client.clone());
        let drivers = self.stack.drivers().await?;
        for name in &self.nodes {
            let pod = drivers.get(name).with_context(|| format!("no driver on {name}"))?;
            let image = first_image(pod);
            ensure!(driver_version(image) == driver, "{name} runs {image}, expected {driver}");
            ensure!(!is_cordoned(&nodes.get(name).await?), "{name} is left cordoned");
        }
        Ok(())
    }

    /// Returns what the deployer reports about the hook's release.
    async fn said(&self) -> Result<String> {
        self.deployer.says(self.stack, &self.hook).await
    }
}

/// Returns the UID of the driver pod of each node.
async fn driver_pods(stack: &Stack) -> Result<BTreeMap<String, String>> {
    let pods = stack.drivers().await?.into_iter();
    Ok(pods.map(|(node, pod)| (node, pod.uid().unwrap_or_default())).collect())
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Returns how a new bundle is deployed, for a table.
fn how_to_deploy(kind: Kind) -> &'static str {
    match kind {
        Kind::Helm3 | Kind::Helm4 => "`deploy.sh`",
        Kind::Helmfile => "`helmfile sync`",
        Kind::Flux | Kind::ArgoCd | Kind::ArgoCdHelm => "the commit",
    }
}

/// Returns the recipe of a driver in mode `drive`, with one canary, and an acceptance test that
/// runs this script on it.
fn ask(driver: &'static str, script: &str) -> Ask {
    let gpu_driver = json!({
        "mode": "drive",
        "policy": {
            "maxParallelUpgrades": NODES,
            "maxUnavailable": "100%",
            "attempts": 1,
            "canary": {"nodes": 1},
        },
        // Some rounds have a smaller time budget than the fleet needs.
        "preflight": {"time-budget": "ignore"},
    });
    Ask {
        driver,
        dra: false,
        gpu_driver,
        acceptance: acceptance(script),
        afterwards: retry_soon,
        ..Ask::old(NODES)
    }
}

/// Returns `rollout.acceptance`: one test, which the node agents of the GPU nodes run for real.
fn acceptance(script: &str) -> Value {
    let node = json!({"fieldRef": {"fieldPath": "spec.nodeName"}});
    json!([{
        "name": "smoke",
        "nodes": "canaries",
        "gpus": "template",
        "timeout": "2m",
        "podTemplate": {
            "metadata": {"annotations": {REAL: "true"}},
            "spec": {
                "tolerations": [{"key": KWOK_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
                "containers": [{
                    "name": "test", "image": SHELL_IMAGE, "command": ["/bin/sh", "-c", script],
                    "env": [{"name": "NODE", "valueFrom": node}],
                }],
            },
        },
    }])
}

/// Lets Flux and Argo CD retry a failed hook soon. The HelmReleases of a bundle set 10 minutes.
fn retry_soon(bundle: &Path) -> Result<()> {
    try_again_soon(bundle)?;
    if bundle.join("releases").is_dir() {
        let release = "releases/*-gpu-operator-post.yaml";
        replace(bundle, release, "retryInterval: 10m", "retryInterval: 30s")?;
    }
    Ok(())
}

/// Sets a small time budget of the hook. Argo CD retries soon.
fn small_budget(bundle: &Path) -> Result<()> {
    try_again_soon(bundle)?;
    set_lines(bundle, "*-gpu-operator-post/rollout.yaml", "  budgetSeconds:", SMALL_BUDGET)
}

/// Returns a maintenance window of an hour that opens in more than ten hours.
fn distant_window(now: Timestamp) -> String {
    let hour = i32::from(now.to_zoned(TimeZone::UTC).hour());
    let (opens, closes) = ((hour + 12) % 24, (hour + 13) % 24);
    format!("daily {opens:02}:00-{closes:02}:00 UTC")
}
