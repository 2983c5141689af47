//! The order of releases with each deployer: in an install, in an upgrade of four slow nodes, and
//! while the operator's chart is unavailable. A hook must not mistake the state before an upgrade
//! for the state after it.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::harness::ask::Ask;
use crate::harness::cells::Cells;
use crate::harness::deployers::{Deployer, Kind, Outcome};
use crate::harness::fleet::{DRA_NAMESPACE, NEW};
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script, published};
use crate::harness::wait::until;

use super::{fired, for_each_deployer, hooks};

for_each_deployer!(order);

const DEADLINE: Duration = Duration::from_mins(25);
const LIMIT: Duration = Duration::from_mins(3);
const NODES: usize = 4;
/// The chart and the driver that come last.
const LATER: (&str, &str) = ("v26.7.0", "580.126.21");
/// Longer than the quiet period of a hook.
const LONG: SignedDuration = SignedDuration::from_secs(9);

async fn order(kind: Kind) -> Result<()> {
    scenario_within(DEADLINE, &format!("order-{}", kind.word()), async |stack| {
        stack.play(Script { driver: (2_000, 6_000), ..Script::seeded(24) }).await?;
        stack.add_gpu_nodes(NODES).await?;
        let stack = &*stack;
        let deployer = kind.start_in_order(stack).await?;
        let deployer = &*deployer;
        let cells = Cells::new("order", kind);

        let old = Ask::old(NODES);
        let begin = Timestamp::now();
        deployer.deploy(stack, &old).await?;
        deployer.wait(stack, Outcome::Succeeded).await?;
        cells.note("first install", releases_in_order(stack, kind, begin).await?);

        // Four slow nodes, one by one. Each plugin is replaced once, after the driver of its node.
        // Later releases start after the last node.
        let (before, begin) = (stack.plugins().await?, Timestamp::now());
        let new = Ask { dra_verbosity: "5", ..old.with(&NEW) };
        deployer.deploy(stack, &new).await?;
        deployer.wait(stack, Outcome::Succeeded).await?;
        cells.note("upgrade v25.10.1 → v26.3.1", releases_in_order(stack, kind, begin).await?);
        stack.check_rerolled_since(begin, &before, &hooks(stack), Timestamp::now()).await?;
        cells.note("plugins of four nodes", "each once, after its node's driver");

        late(stack, deployer, &cells, &new).await?;
        cells.check()
    })
    .await
}

/// Checks whether each release that was deployed since `begin` started after the end of the hook
/// before it. Returns the cell of the table.
async fn releases_in_order(stack: &Stack, kind: Kind, begin: Timestamp) -> Result<&'static str> {
    let [pre, post, dra] = &hooks(stack);
    let fired_at = |hook: &HookRelease<'_>| -> Result<Timestamp> {
        hook.fired_at(begin)?
            .first()
            .copied()
            .with_context(|| format!("{} has not fired", hook.name()))
    };
    let operator = touched(stack, "deployments", OPERATOR_NAMESPACE, begin)?;
    let driver = touched(stack, "daemonsets", DRA_NAMESPACE, begin)?;
    let times = [
        ("the hook before the operator ended", pre.verdict().await?.at),
        ("the operator was deployed", operator),
        ("the hook after the operator started", fired_at(post)?),
        ("the hook after the operator ended", post.verdict().await?.at),
        ("the DRA driver was deployed", driver),
        ("the hook after the DRA driver started", fired_at(dra)?),
    ];
    let in_order = times.windows(2).all(|pair| pair[0].1 <= pair[1].1);
    if !kind.keeps_order() {
        return Ok("all at once; each hook waits for its preconditions");
    }
    ensure!(in_order, "out of order: {times:#?}");
    Ok("in order")
}

/// Returns when a deployer first wrote the only object of this kind in a namespace.
fn touched(stack: &Stack, resource: &str, namespace: &str, begin: Timestamp) -> Result<Timestamp> {
    let requests = stack.audit.by_user("admin")?;
    let mut writes = requests.iter().filter(|request| {
        request.is_write() && matches!(request.code, 200 | 201) && request.time >= begin
    });
    let first =
        writes.find(|request| request.resource == resource && request.namespace == namespace);
    Ok(first.with_context(|| format!("no write of {resource} in {namespace}"))?.time)
}

/// Deploys an upgrade while the operator's chart cannot be fetched. The new values are available.
async fn late(stack: &Stack, deployer: &dyn Deployer, cells: &Cells, new: &Ask) -> Result<()> {
    const ROW: &str = "operator chart cannot be fetched";
    let kind = deployer.kind();
    let begin = Timestamp::now();
    stack.withhold("gpu-operator", LATER.0, true)?;
    let later = Ask { chart: LATER.0, driver: LATER.1, ..new.clone() };
    deployer.deploy(stack, &later).await?;
    let [_, post, _] = &hooks(stack);
    let seen = if kind.is_client() {
        deployer.wait(stack, Outcome::Failed).await?;
        ensure!(fired(stack, begin)?[1] == 0, "the hook fired without its operator");
        stack.withhold("gpu-operator", LATER.0, false)?;
        deployer.hand_over(stack, "Again").await?;
        "stops before post; run the deployer again"
    } else if kind.keeps_order() {
        until("the deployer to report the missing chart", LIMIT, async || {
            let status = deployer.status(stack).await?.to_lowercase();
            Ok(["404", "not found", "failed to fetch"]
                .iter()
                .any(|words| status.contains(words))
                .then_some(()))
        })
        .await?;
        ensure!(fired(stack, begin)?[1] == 0, "the hook fired without its operator");
        stack.withhold("gpu-operator", LATER.0, false)?;
        deployer.look(stack).await?;
        "post does not start; the deployment continues automatically"
    } else {
        until("the hook to see the old chart", LIMIT, async || {
            Ok(post.logs().await?.contains("OtherChart").then_some(()))
        })
        .await?;
        let seen = Timestamp::now();
        let leases = Api::<Lease>::namespaced(stack.client.clone(), "default");
        until("the hook to keep waiting", LIMIT, async || {
            let spec = leases.get("gpu-rollout").await?.spec.context("a Lease without a spec")?;
            Ok(spec.renew_time.is_some_and(|time| time.0 >= seen + LONG).then_some(()))
        })
        .await?;
        if post.end().await.is_ok() {
            bail!("the hook accepted the old operator: {}", post.logs().await?);
        }
        stack.withhold("gpu-operator", LATER.0, false)?;
        deployer.look(stack).await?;
        "post waits and does not accept the old state"
    };
    deployer.wait(stack, Outcome::Succeeded).await.with_context(|| ROW)?;
    let served = stack.served().await?;
    let wanted = published(LATER.1);
    ensure!(
        served.len() == NODES && served.values().all(|driver| *driver == wanted),
        "not every node serves {wanted}: {served:?}"
    );
    cells.note(ROW, seen);
    Ok(())
}
