//! Another deployer takes over a Helm deployment, as its README.md describes. Nothing is installed
//! a second time or deleted, no driver and no plugin is replaced, and the hooks find nothing to do.
//! The new deployer performs the next upgrade. Then Helm takes over from Argo CD again, as the
//! how-to describes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;

use crate::harness::ask::Ask;
use crate::harness::audit::Request;
use crate::harness::cells::Cells;
use crate::harness::census::Census;
use crate::harness::deployers::{Deployer, Kind, Outcome};
use crate::harness::fleet::NEW;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;
use crate::harness::terminal::Terminal;

use super::change::{NAMES, Reason, told};
use super::{fired, for_each_deployer, hooks};

for_each_deployer!(moving, helmfile Helmfile, flux Flux, argocd ArgoCd, argocd_helm ArgoCdHelm);

/// Three deployments, on a busy machine.
const DEADLINE: Duration = Duration::from_mins(25);
const NODES: usize = 2;

async fn moving(to: Kind) -> Result<()> {
    scenario_within(DEADLINE, &format!("moving-{}", to.word()), async |stack| {
        stack.play(Script::seeded(23)).await?;
        stack.add_gpu_nodes(NODES).await?;
        let (stack, cells) = (&*stack, Cells::new("moving", to));
        let ask = Ask::old(NODES);
        let helm = Kind::Helm4.start(stack).await?;
        helm.deploy(stack, &ask).await?;
        helm.wait(stack, Outcome::Succeeded).await?;
        let before = Census::take(&stack.client).await?;
        let (secrets, begin) = (records(&before), Timestamp::now());

        let deployer = to.start(stack).await?;
        deployer.deploy(stack, &ask).await?;
        let mut terminal = Terminal::open(stack, to).await?;
        terminal.enter(deployer.bundle());
        let mut blocks =
            if has_steps(to) { terminal.blocks("Take over from Helm")? } else { Vec::new() };
        let forget = blocks.pop();
        for block in blocks {
            terminal.run(&block).await?;
        }
        finish(stack, &*deployer).await?;
        cells.note("its first deployment", seen(stack, begin, Reason::Others, [1, 1, 1], 0).await?);
        let after = Census::take(&stack.client).await?;
        let gone: Vec<String> =
            before.since(&after).into_iter().filter(|name| !is_of_hook(name)).collect();
        ensure!(gone.is_empty(), "objects were deleted or replaced: {gone:#?}");
        check_deletions(stack, begin)?;
        cells.note("objects and pods", "all stay");

        let written = records(&after);
        if let Some(forget) = forget {
            ensure!(
                written == secrets,
                "the new deployer wrote Helm's release Secrets: {secrets} before, {written} now"
            );
            terminal.run(&forget).await?;
            let forgotten = Census::take(&stack.client).await?;
            ensure!(records(&forgotten) == 0, "release Secrets of Helm remain: {forgotten:#?}");
            let gone: Vec<String> = after
                .since(&forgotten)
                .into_iter()
                .filter(|name| !name.starts_with("Secret "))
                .collect();
            ensure!(
                gone.is_empty(),
                "other objects than Helm's release Secrets were deleted: {gone:#?}"
            );
            cells.note("Helm's release Secrets", "stale, to be deleted by hand");
        } else {
            ensure!(
                written == 2 * secrets,
                "expected one upgrade of each release: {secrets} revisions before, {written} now"
            );
            cells.note(
                "Helm's release Secrets",
                "stay in use: the first deployment adds one revision to each release",
            );
        }

        let begin = Timestamp::now();
        let next = Ask { driver: NEW.driver, ..ask };
        deployer.deploy(stack, &next).await?;
        finish(stack, &*deployer).await?;
        let every = usize::from(to.is_client());
        cells
            .note("the next upgrade", seen(stack, begin, Reason::Own, [1, 1, every], NODES).await?);
        if to == Kind::ArgoCd {
            back_to_helm(stack, &mut terminal, &next).await?;
        }
        cells.check()
    })
    .await
}

/// Moves from Argo CD to Helm, with the commands of the how-to.
async fn back_to_helm(stack: &Stack, terminal: &mut Terminal, ask: &Ask) -> Result<()> {
    let page = include_str!("../../../../docs/how-to/helm-to-flux.md");
    let section = page.split("\n## Move back to Helm\n").nth(1).context("no such section")?;
    let block = section.split("\n```sh\n").nth(1).and_then(|block| block.split("\n```").next());
    let (before, begin) = (Census::take(&stack.client).await?, Timestamp::now());
    terminal.run(&block.context("no commands")?.replace("RECIPE", "e2e")).await?;
    let bundle = stack.helm.directory().join("back");
    stack.render_for("helm", &bundle, &[], ask).await?;
    terminal.enter(bundle);
    terminal.run("./deploy.sh --take-ownership --force-conflicts").await?;
    let after = Census::take(&stack.client).await?;
    let of_argo_cd = |name: &str| name.contains(" argocd/");
    let gone: Vec<String> = before
        .since(&after)
        .into_iter()
        .filter(|name| !is_of_hook(name) && !of_argo_cd(name))
        .collect();
    ensure!(gone.is_empty(), "objects were deleted or replaced: {gone:#?}");
    ensure!(records(&after) > 0, "Helm has no releases: {after:#?}");
    let deleted = |request: &Request| {
        request.time >= begin && request.verb.starts_with("delete") && request.resource == "pods"
    };
    ensure!(!stack.audit.by_user("admin")?.iter().any(deleted), "pods were deleted");
    Ok(())
}

/// Returns how many revisions of the bundle's releases Helm has. The umbrella chart of
/// `argocd-helm` is a Helm release itself and does not count.
fn records(census: &Census) -> usize {
    census.of("Secret", HELM_RECORD).filter(|name| !name.starts_with("Secret argocd/")).count()
}

/// Whether the README.md has more steps than to deploy the bundle. The other programs continue to
/// use Helm's release Secrets.
fn has_steps(to: Kind) -> bool {
    matches!(to, Kind::ArgoCd | Kind::ArgoCdHelm)
}

/// How the names of Helm's release Secrets start, after the namespace.
const HELM_RECORD: &str = "/sh.helm.release.v1.";

async fn finish(stack: &Stack, deployer: &dyn Deployer) -> Result<()> {
    if let Err(error) = deployer.wait(stack, Outcome::Succeeded).await {
        let mut logs = String::new();
        for hook in &hooks(stack) {
            logs += &hook.logs().await?;
        }
        return Err(error.context(format!("{}\n{logs}", deployer.status(stack).await?)));
    }
    Ok(())
}

/// Checks how often the hooks have fired since a time. Returns what they did, as a cell of the
/// table.
async fn seen(
    stack: &Stack,
    since: Timestamp,
    reason: Reason,
    firings: [usize; 3],
    plugins: usize,
) -> Result<String> {
    let seen = fired(stack, since)?;
    ensure!(seen == firings, "fired {seen:?}, expected {firings:?}");
    let mut cell = Vec::new();
    for (index, hook) in hooks(stack).iter().enumerate() {
        if firings[index] > 0 {
            let end = hook.end().await?;
            ensure!(
                end.exit_code == 0,
                "{}: {:?}\n{}",
                hook.name(),
                end.message,
                hook.logs().await?
            );
            cell.push(
                told(hook, NAMES[index], since, reason, plugins > 0)
                    .with_context(|| hook.name().to_owned())?,
            );
        }
    }
    Ok(cell.join(", "))
}

/// Whether this is the Job of a hook or its pod. Both are replaced each time the hook fires.
fn is_of_hook(name: &str) -> bool {
    let hooks = [
        "gpu-operator/gpu-operator-pre",
        "gpu-operator/gpu-operator-post",
        "nvidia-dra-driver-gpu/nvidia-dra-driver-gpu-post",
    ];
    hooks
        .into_iter()
        .any(|hook| name == format!("Job {hook}") || name.starts_with(&format!("Pod {hook}-")))
}

/// Checks that nothing was deleted except the Jobs of hooks and their pods.
fn check_deletions(stack: &Stack, since: Timestamp) -> Result<()> {
    let mut requests = stack.audit.by_user("admin")?;
    requests.retain(|request| {
        request.verb.starts_with("delete") && request.code == 200 && request.time >= since
    });
    requests.retain(|request| {
        !is_of_hook(&format!("Job {}/{}", request.namespace, request.name))
            || request.resource != "jobs"
    });
    requests.retain(|request| {
        !is_of_hook(&format!("Pod {}/{}", request.namespace, request.name))
            || request.resource != "pods"
    });
    ensure!(requests.is_empty(), "these were deleted: {requests:#?}");
    Ok(())
}
