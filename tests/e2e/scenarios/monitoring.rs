//! A run in monitoring and support: metrics during the run, metrics of the report after it, and the
//! support bundle.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use contract::metrics::{ALL, MetricKind};
use serde_json::{Value, json};

use crate::harness::browser::look;
use crate::harness::console::Console;
use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::ports::free_port;
use crate::harness::scenario::scenario;
use crate::harness::scrape::{sample, scrape};
use crate::harness::stand_in::{Fault, OPERATOR_NAMESPACE, Script};
use crate::harness::tools::run_script;
use crate::harness::wait::until;
use crate::harness::workloads::NAMESPACE;

const LIMIT: Duration = Duration::from_mins(2);
const NODES: usize = 4;
/// A value in an object that looks like a secret.
const SECRET: &str = "nvapi-0123456789abcdefghijklmnopqrstuvwxyz";

fn settings(port: u16) -> Value {
    json!({
        "component": {"version": NEW.chart}, "mode": "drive", "tasks": ["settle", "drive", "reroll"], "budgetSeconds": 300, "perNodeSeconds": 20,
        "upgrade": {"policy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%"}, "attempts": 1, "startSeconds": 60},
        "metrics": {"enabled": true, "port": port},
    })
}

/// A page that loads the report in the width of a telephone and records its layout.
const FRAME: &str = r#"<iframe id="page" src="report.html" style="width:390px;height:800px;border:0"></iframe><script>
page.onload = () => {
  const inside = page.contentDocument, style = page.contentWindow.getComputedStyle(inside.body);
  const bars = inside.querySelectorAll("svg rect").length;
  document.body.dataset.seen = [inside.documentElement.scrollWidth, bars, style.backgroundColor, style.color].join(" ");
};
</script>"#;

/// Checks the report's page in a browser: no horizontal scrolling, a bar for each node, and a dark
/// color scheme on request.
async fn check_page(directory: &Path) -> Result<()> {
    let mut grounds = BTreeSet::new();
    for is_dark in [false, true] {
        let seen = look(directory, FRAME, is_dark).await?;
        let mut parts = seen.splitn(3, ' ');
        let (width, bars) = (
            parts.next().context("width")?.parse::<u32>()?,
            parts.next().context("bars")?.parse::<usize>()?,
        );
        ensure!(width <= 390 && bars >= NODES, "{seen}");
        grounds.insert(parts.next().context("colors")?.to_owned());
    }
    ensure!(grounds.len() == 2, "light and dark have the same background: {grounds:?}");
    Ok(())
}

/// Checks that promtool parses the metrics and finds no violated convention.
fn check(text: &str) -> Result<()> {
    let program = run_script("tests/tools/promtool.sh", &[])?;
    // promtool reads the older format, in which the HELP and TYPE lines of a counter have the name
    // of its samples.
    let counters = ALL.into_iter().filter(|metric| metric.kind == MetricKind::Counter);
    let older = counters.fold(text.to_owned(), |text, metric| {
        ["HELP", "TYPE"].iter().fold(text, |text, word| {
            text.replace(
                &format!("# {word} {} ", metric.name),
                &format!("# {word} {} ", metric.sample_name()),
            )
        })
    });
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), older)?;
    let output = Command::new(program.trim())
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(file.path())?)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{said}\n{text}");
    Ok(())
}

/// Checks that the archive contains what it lists, and no secrets or unrelated workloads.
async fn check_archive(console: &Console, directory: &Path) -> Result<()> {
    let archive = directory.join("support.tar.gz");
    console.types(&format!("gpu-rollout support-bundle --logs -f {}", archive.display())).await?;
    let again =
        console.tries(&format!("gpu-rollout support-bundle -f {}", archive.display())).await?;
    ensure!(again.status.code() == Some(1), "an existing file was overwritten: {again:?}");
    console
        .types(&format!(
            "tar xzf {0} -C {1} --strip-components=1",
            archive.display(),
            directory.display()
        ))
        .await?;
    let list = console.types("gpu-rollout support-bundle -f - | tar tz").await?;
    ensure!(!list.contains("/logs/"), "logs without --logs:\n{list}");
    let list = console.types("gpu-rollout support-bundle --logs -f - | tar tz").await?;
    let names: BTreeSet<&str> =
        list.lines().filter_map(|line| line.split_once('/')).map(|(_, name)| name).collect();
    for wanted in [
        "README.txt",
        "status.json",
        "status.txt",
        "report.html",
        "versions.txt",
        "objects/nodes/gpu-0.yaml",
        "objects/clusterpolicies/cluster-policy.yaml",
        "objects/configmaps/gpu-operator/gpu-rollout-record.yaml",
        "objects/jobs/gpu-operator/gpu-rollout.yaml",
        "objects/deployments/gpu-operator/gpu-operator.yaml",
    ] {
        ensure!(names.contains(wanted), "{wanted} is missing:\n{list}");
    }
    let log = names
        .iter()
        .find(|name| name.starts_with("logs/gpu-operator/gpu-rollout-"))
        .with_context(|| format!("no log:\n{list}"))?;
    let log = std::fs::read_to_string(directory.join(log))?;
    ensure!(
        log.lines().count() > 1 && log.lines().all(|line| line.starts_with("20")),
        "the log has lines without a time\n{log}"
    );
    // The nodes of kwok serve no logs. The archive lists the missing ones.
    let readme = std::fs::read_to_string(directory.join("README.txt"))?;
    ensure!(readme.contains("\n  log of gpu-operator/gpu-operator-"), "{readme}");
    ensure!(
        names.iter().any(|name| name.starts_with("objects/pods/gpu-operator/gpu-rollout-")),
        "the archive has no pod of the hook:\n{list}"
    );
    ensure!(
        !names.iter().any(|name| name.starts_with(&format!("objects/pods/{NAMESPACE}/"))),
        "the archive has pods of workloads:\n{list}"
    );
    let whole = console.types(&format!("grep -r {SECRET} {} | head", directory.display())).await?;
    ensure!(whole.is_empty(), "{whole}");
    let node = std::fs::read_to_string(directory.join("objects/nodes/gpu-0.yaml"))?;
    ensure!(
        node.contains("example.com/registry-token: '[redacted]'")
            || node.contains("example.com/registry-token: \"[redacted]\""),
        "{node}"
    );
    Ok(())
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn run_is_measured_live_and_archived_afterwards() -> Result<()> {
    scenario("monitoring", async |stack| {
        stack.fleet(Script { driver: (300, 900), ..Script::seeded(91) }, NODES, false).await?;
        stack.create_namespace(NAMESPACE).await?;
        stack.serve("serve", 2, None).await?;
        stack.rewrite(|script| script.faults = [("gpu-3".to_owned(), Fault::CrashLoop)].into())?;
        let console = Console::new(stack)?;
        console
            .types(&format!("kubectl annotate node gpu-0 example.com/registry-token={SECRET}"))
            .await?;
        let port = free_port()?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let (values, settings) = (NEW.driven_values(), settings(port));
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &values).await?;

        let watching = async {
            until("a node in progress, one that is done, and an eviction", LIMIT, async || {
                let text = scrape(port).await.context("the metrics port is closed")?;
                let busy = sample(&text, "gpu_rollout_nodes", "stage=\"in-progress\"") >= Some(1.0);
                let done = sample(&text, "gpu_rollout_nodes", "stage=\"done\"") >= Some(1.0);
                let evicted =
                    sample(&text, "gpu_rollout_evictions_total", "answer=\"accepted\"").is_some();
                Ok((busy && done && evicted).then_some(text))
            })
            .await
        };
        let (said, text) = tokio::try_join!(hook.deploy(&values, &settings), watching)?;

        check(&text)?;
        let all: f64 = ["failed", "in-progress", "pending", "deferred", "done"]
            .iter()
            .filter_map(|stage| sample(&text, "gpu_rollout_nodes", &format!("stage=\"{stage}\"")))
            .sum();
        ensure!((all - 4.0).abs() < 0.1, "{text}");
        ensure!(
            sample(
                &text,
                "gpu_rollout_slots_limit",
                "namespace=\"gpu-operator\",release=\"gpu-rollout\",driver=\"gpu\""
            ) == Some(1.0),
            "{text}"
        );
        ensure!(
            sample(&text, "gpu_rollout_lease_held", "") == Some(1.0)
                && sample(&text, "gpu_rollout_in_step", "") == Some(1.0),
            "{text}"
        );
        ensure!(
            scrape(port).await.is_none(),
            "the metrics port is still open after the end of the pod"
        );

        ensure!(!said.success, "the hook succeeded although gpu-3 fails\n{said:?}");
        let report = console.types("gpu-rollout report -o metrics").await?;
        check(&report)?;
        ensure!(
            sample(&report, "gpu_rollout_last_run_exit_code", "namespace=\"gpu-operator\"")
                == Some(21.0),
            "{report}"
        );
        ensure!(
            sample(&report, "gpu_rollout_last_run_nodes", "outcome=\"failed\"") == Some(1.0),
            "{report}"
        );
        let explained = console.types("gpu-rollout explain 21").await?;
        ensure!(explained.contains("nodes-failed"), "{explained}");
        let directory = stack.helm.directory().join("support");
        std::fs::create_dir_all(&directory)?;
        check_archive(&console, &directory).await?;
        check_page(&directory).await
    })
    .await
}
