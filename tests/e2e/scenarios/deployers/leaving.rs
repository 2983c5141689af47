//! A bundle is uninstalled exactly as its README.md describes. At the end, nothing of gpu-rollout
//! is left, objects that others use stay, and no node is cordoned.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::harness::ask::Ask;
use crate::harness::cells::Cells;
use crate::harness::census::Census;
use crate::harness::deployers::{Kind, Outcome};
use crate::harness::kwok::KWOK_TAINT;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{LEASE, OPERATOR_NAMESPACE, Script};
use crate::harness::terminal::Terminal;
use crate::harness::wait::until;

use super::for_each_deployer;

for_each_deployer!(leaving);

/// One deployment and its removal, on a busy machine.
const DEADLINE: Duration = Duration::from_mins(20);
/// Deployers in the cluster and the garbage collector are slow.
const LIMIT: Duration = Duration::from_mins(3);
const NODES: usize = 2;
/// The releases of the objects that the bundle keeps.
const RELEASES: [&str; 3] =
    ["gpu-operator-crds", "gpu-rollout-namespaces", "nvidia-dra-driver-gpu-crds"];

async fn leaving(kind: Kind) -> Result<()> {
    scenario_within(DEADLINE, &format!("leaving-{}", kind.word()), async |stack| {
        stack.play(Script::seeded(22)).await?;
        stack.add_gpu_nodes(NODES).await?;
        let stack = &*stack;
        let deployer = kind.start(stack).await?;
        let mut terminal = Terminal::open(stack, kind).await?;
        let before = Census::take(&stack.client).await?;
        deployer.deploy(stack, &Ask::old(NODES)).await?;
        deployer.wait(stack, Outcome::Succeeded).await?;
        let standing = Census::take(&stack.client).await?.since(&before);
        terminal.enter(deployer.bundle());
        let mut blocks = terminal.blocks("Uninstall")?;
        let by_hand = blocks.pop();

        for block in blocks {
            terminal.run(&block).await?;
        }
        let left = until("the deployed objects to be deleted", LIMIT, async || {
            let mut left = Census::take(&stack.client).await?.since(&before);
            left.retain(|name| !is_vendors(name));
            let too_much: Vec<_> = left
                .iter()
                .filter(|name| !is_kept(name) && !is_record(kind, name) && !is_leftover(name))
                .collect();
            ensure!(too_much.is_empty(), "still there: {too_much:#?}");
            Ok(Some(left))
        })
        .await?;
        let kept: Vec<&String> = standing.iter().filter(|name| is_kept(name)).collect();
        ensure!(
            left.iter().filter(|name| is_kept(name)).eq(kept.iter().copied()),
            "CRDs or namespaces were deleted: {left:#?}\nbefore: {kept:#?}"
        );
        let count =
            |list: &[String], kind: &str| list.iter().filter(|name| name.starts_with(kind)).count();
        let (jobs, leases) = (count(&left, "Job "), count(&left, "Lease "));

        terminal.run(&by_hand.unwrap_or_default()).await?;
        let end = until("the leftovers to be deleted", LIMIT, async || {
            let mut left = Census::take(&stack.client).await?.since(&before);
            left.retain(|name| !is_vendors(name));
            let too_much: Vec<_> =
                left.iter().filter(|name| !is_kept(name) && !is_record(kind, name)).collect();
            ensure!(too_much.is_empty(), "still there: {too_much:#?}");
            Ok(Some(left))
        })
        .await?;
        ensure!(leases == 1, "only the user deletes the Lease: {left:#?}");
        check_nodes(stack).await?;

        let cells = Cells::new("leaving", kind);
        cells.note("components and hooks", "gone");
        cells.note(
            "CRDs and namespaces",
            format!(
                "{} and {} stay",
                count(&end, "CustomResourceDefinition "),
                count(&end, "Namespace ")
            ),
        );
        cells.note(
            "their releases",
            match count(&end, "Secret ") {
                0 => "gone".to_owned(),
                releases => format!("{releases} stay, `helm list` shows them"),
            },
        );
        cells.note(
            "to be deleted by hand",
            if jobs == 0 { "the Lease".to_owned() } else { format!("{jobs} Jobs, the Lease") },
        );
        cells.check()
    })
    .await
}

fn is_kept(name: &str) -> bool {
    name.starts_with("CustomResourceDefinition ") || name.starts_with("Namespace ")
}

/// Whether this is the Lease that the operator creates. No chart contains it, and the operator does
/// not delete it.
fn is_vendors(name: &str) -> bool {
    name == format!("Lease {OPERATOR_NAMESPACE}/{LEASE}")
}

/// Whether this is a Helm release Secret of a release that `undeploy.sh` keeps.
fn is_record(kind: Kind, name: &str) -> bool {
    let is_of = |release: &str| name.contains(&format!("/sh.helm.release.v1.{release}.v"));
    matches!(kind, Kind::Helm3 | Kind::Helm4)
        && name.starts_with("Secret ")
        && RELEASES.into_iter().any(is_of)
}

/// Whether the last commands of the section delete this object.
fn is_leftover(name: &str) -> bool {
    let of_hook = [
        "gpu-operator/gpu-operator-pre",
        "gpu-operator/gpu-operator-post",
        "nvidia-dra-driver-gpu/nvidia-dra-driver-gpu-post",
    ];
    let is_of =
        |job: &str| name == format!("Job {job}") || name.starts_with(&format!("Pod {job}-"));
    name == "Lease default/gpu-rollout" || of_hook.into_iter().any(is_of)
}

/// Checks that no node is cordoned, and that none has a taint, label or annotation of gpu-rollout.
async fn check_nodes(stack: &Stack) -> Result<()> {
    for node in Api::<Node>::all(stack.client.clone()).list(&ListParams::default()).await? {
        let spec = node.spec.clone().unwrap_or_default();
        ensure!(spec.unschedulable != Some(true), "{} is cordoned", node.name_any());
        let foreign = spec
            .taints
            .iter()
            .flatten()
            .find(|taint| taint.key != KWOK_TAINT && taint.key.contains("gpu-rollout"));
        ensure!(foreign.is_none(), "{}: {foreign:?}", node.name_any());
        let ours: Vec<_> = node
            .labels()
            .keys()
            .chain(node.annotations().keys())
            .filter(|key| key.starts_with("gpu-rollout.dev/"))
            .collect();
        ensure!(ours.is_empty(), "{}: {ours:?}", node.name_any());
    }
    Ok(())
}
