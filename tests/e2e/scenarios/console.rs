//! The output of commands for a fleet that is stuck in many ways. Running the printed commands
//! exactly must resolve it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use contract::exit::ExitCode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::apply::Applier;
use crate::harness::console::Console;
use crate::harness::fleet::{NEW, first_image};
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{Fault, OPERATOR_NAMESPACE, Script, driver_version, published};
use crate::harness::wait::until;
use crate::harness::workloads::{NAMESPACE, Serving};

const LIMIT: Duration = Duration::from_mins(3);
const STATE: &str = "nvidia.com/gpu-driver-upgrade-state";
/// Nodes of the fleet, and the number of those without an obstacle.
const NODES: usize = 30;
const FREE: usize = NODES - 7;

fn settings() -> Value {
    json!({
        "component": {"version": NEW.chart}, "mode": "drive", "tasks": ["settle", "drive"], "budgetSeconds": 900, "perNodeSeconds": 20,
        "upgrade": {
            "policy": {
                "maxParallelUpgrades": 0, "maxUnavailable": "100%", "podDeletion": {"timeoutSeconds": 60},
                "waitForCompletion": {"podSelector": "wait=yes", "timeoutSeconds": 600},
            },
            "attempts": 1,
            "failureBudget": 10,
            "startSeconds": 20,
        },
    })
}

/// Creates the obstacles on the nodes, before the rollout starts.
async fn obstruct(stack: &Stack) -> Result<()> {
    let applier = Applier::new(&stack.client);
    stack.create_namespace(NAMESPACE).await?;
    stack.run(&Serving { name: "never", node: Some("gpu-0"), ..Serving::default() }).await?;
    stack
        .protect(
            "never",
            &json!({"maxUnavailable": 0, "selector": {"matchLabels": {"app": "never"}}}),
        )
        .await?;
    let mut template = Serving {
        name: "train",
        node: Some("gpu-1"),
        labels: json!({"wait": "yes"}),
        ..Serving::default()
    }
    .template();
    template["spec"]["restartPolicy"] = "Never".into();
    let metadata = json!({"name": "train", "namespace": NAMESPACE});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"backoffLimit": 0, "template": template}});
    applier.apply(&job, NAMESPACE).await?;
    let mut template =
        Serving { name: "scratch", node: Some("gpu-2"), ..Serving::default() }.template();
    template["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "scratch", "namespace": NAMESPACE},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "scratch"}}, "template": template},
    });
    applier.apply(&deployment, NAMESPACE).await?;
    for name in ["never", "scratch"] {
        stack.await_serving(name, 1).await?;
    }
    let nodes = Api::<Node>::all(stack.client.clone());
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    nodes
        .patch(
            "gpu-4",
            &PatchParams { field_manager: Some("somebody-else".into()), ..PatchParams::default() },
            &cordon,
        )
        .await?;
    let down = json!({"status": {"conditions": [{
        "type": "Ready", "status": "False", "reason": "KubeletDown", "lastTransitionTime": Timestamp::now(), "lastHeartbeatTime": Timestamp::now(),
    }]}});
    nodes.patch_status("gpu-5", &PatchParams::default(), &Patch::Strategic(down)).await?;
    Ok(())
}

/// Returns the row of a node.
fn row<'s>(status: &'s Value, node: &str) -> Result<&'s Value> {
    let rows = status["nodes"].as_array().context("nodes")?;
    rows.iter().find(|row| row["node"] == node).with_context(|| format!("no {node}"))
}

fn commands(remedy: &Value, kind: &str) -> Vec<String> {
    remedy[kind]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|line| line.as_str().map(str::to_owned))
        .collect()
}

/// Returns the remedies of a row: those for now, and those for when the node is done.
fn remedies(row: &Value) -> (Vec<String>, Vec<String>) {
    let waiting = &row["waiting"];
    let obstacles =
        waiting["obstacles"].as_array().into_iter().flatten().map(|obstacle| &obstacle["remedy"]);
    let all: Vec<&Value> = obstacles.chain([&waiting["remedy"]]).collect();
    let of = |kind| all.iter().flat_map(|remedy| commands(remedy, kind)).collect();
    (of("run"), of("later"))
}

/// Each stuck node, its reason and its obstacle.
const STUCK: [(&str, &str, &str); 7] = [
    ("gpu-0", "UpgradeFailed", "PodDisruptionBudget"),
    ("gpu-1", "JobsRunning", "Job"),
    ("gpu-2", "UpgradeFailed", "EmptyDir"),
    ("gpu-3", "UpgradeFailed", ""),
    ("gpu-4", "ForeignCordon", ""),
    ("gpu-5", "NodeNotReady", ""),
    ("gpu-6", "Paused", ""),
];

/// Checks that `status` shows the cause, the time and the remedy of each stuck node, and that `why`
/// describes the same.
async fn check_told(console: &Console, status: &Value, begin: Timestamp) -> Result<()> {
    for (node, reason, kind) in STUCK {
        let row = row(status, node)?;
        let waiting = &row["waiting"];
        ensure!(waiting["reason"] == reason, "{node}: {row:#}");
        let since: Timestamp =
            waiting["since"]["at"].as_str().with_context(|| format!("{node}: {row:#}"))?.parse()?;
        ensure!(
            since >= begin.round(jiff::Unit::Second)? - Duration::from_secs(2)
                && since <= Timestamp::now(),
            "{node}: {since}"
        );
        let obstacle = waiting["obstacles"][0]["kind"].as_str().unwrap_or_default();
        ensure!(obstacle == kind, "{node}: {row:#}");
        ensure!(!remedies(row).0.is_empty(), "{node}: {row:#}");
        let why = console.types(&format!("gpu-rollout why {node}")).await?;
        ensure!(why.contains(reason) && why.contains("hint: "), "{why}");
    }
    let by = |node: &str| {
        Ok::<_, anyhow::Error>(
            row(status, node)?["waiting"]["since"]["by"].as_str().unwrap_or_default().to_owned(),
        )
    };
    ensure!(by("gpu-4")? == "somebody-else", "who cordoned gpu-4: {}", by("gpu-4")?);
    let paused = row(status, "gpu-6")?["waiting"]["text"].as_str().unwrap_or_default().to_owned();
    ensure!(paused.contains("paused by ") && paused.contains("INC-7"), "{paused}");
    Ok(())
}

/// Checks that `preflight` reports the same obstacles.
async fn check_preflight(console: &Console) -> Result<()> {
    let output = console.tries("gpu-rollout preflight -o json").await?;
    ensure!(output.status.code() == Some(14), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout)?;
    let findings = document["rollouts"][0]["findings"].as_array().context("findings")?;
    let concerns = |check: &str, kind: &str, what: &str| {
        let found = findings.iter().find(|finding| finding["check"] == check);
        found.is_some_and(|finding| {
            finding[kind]
                .as_array()
                .into_iter()
                .flatten()
                .any(|name| name.as_str().is_some_and(|name| name.contains(what)))
        })
    };
    for (check, kind, what) in [
        ("blocking-budgets", "pods", "ml/never-"),
        ("empty-dir", "pods", "ml/scratch-"),
        ("foreign-cordons", "nodes", "gpu-4"),
        ("not-ready-nodes", "nodes", "gpu-5"),
    ] {
        ensure!(concerns(check, kind, what), "{check}: {document:#}");
    }
    Ok(())
}

/// Runs the printed commands exactly. Returns those that are for the end.
async fn follow(console: &Console, stack: &Stack) -> Result<Vec<String>> {
    let status = console.status().await?;
    let mut later = Vec::new();
    // No command can repair the driver's image.
    stack.rewrite(|script| script.faults.clear())?;
    for (node, _, _) in STUCK {
        let (run, then) = remedies(row(&status, node)?);
        for line in run {
            eprintln!("{node}: {line}");
            console.confirms(&line).await?;
        }
        later.extend(then);
    }
    Ok(later)
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn documented_fixes_resolve_stuck_nodes_literally() -> Result<()> {
    scenario("console-stuck", async |stack| {
        stack.fleet(Script { driver: (300, 900), ..Script::seeded(71) }, NODES, false).await?;
        let begin = Timestamp::now();
        obstruct(stack).await?;
        stack.rewrite(|script| script.faults = [("gpu-3".to_owned(), Fault::CrashLoop)].into())?;
        let console = Console::new(stack)?;
        console
            .types("gpu-rollout pause -l kubernetes.io/hostname=gpu-6 --reason INC-7 --yes")
            .await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let (values, settings) = (NEW.driven_values(), settings());
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &values).await?;

        let person = async {
            hook.running_pod().await?;
            until("all nodes without an obstacle to be done", LIMIT, async || {
                let totals = console.status().await?["totals"].clone();
                Ok((totals["done"] == FREE && totals["failed"] == 3).then_some(()))
            })
            .await?;
            let status = console.status().await?;
            eprintln!("{}", console.types("gpu-rollout status").await?);
            check_told(&console, &status, begin).await?;
            check_preflight(&console).await?;
            follow(&console, stack).await
        };
        let (said, later) = tokio::try_join!(hook.deploy(&values, &settings), person)?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        for line in &later {
            console.types(line).await?;
        }
        ensure!(later == ["kubectl uncordon gpu-2"], "{later:?}");
        let drivers = stack.drivers().await?;
        for node in Api::<Node>::all(stack.client.clone())
            .list(&ListParams::default().labels("nvidia.com/gpu.present=true"))
            .await?
        {
            let name = node.name_any();
            ensure!(name != "gpu-5", "it was deleted");
            ensure!(
                node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true),
                "{name} is cordoned"
            );
            let ours = |key: &&String| key.starts_with("gpu-rollout.dev/");
            ensure!(
                !node.labels().keys().any(|key| ours(&key))
                    && !node.annotations().keys().any(|key| ours(&key)),
                "{name}: {node:?}"
            );
            ensure!(
                !node.labels().contains_key("nvidia.com/gpu-driver-upgrade.skip"),
                "{name} keeps its hold"
            );
            let image = drivers.get(&name).map(first_image).unwrap_or_default();
            ensure!(driver_version(image) == NEW.driver, "{name} runs {image}");
        }
        let end = console.status().await?;
        ensure!(end["totals"]["done"] == NODES - 1, "{:#}", end["totals"]);
        Ok(())
    })
    .await
}

/// Checks that commands of a user who may only read are refused with the exit code for rights, and
/// change nothing.
async fn check_refused(stack: &Stack, console: &Console, failed: &str) -> Result<()> {
    let (applier, group) = (Applier::new(&stack.client), "rbac.authorization.k8s.io");
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "reader"}],
    });
    for object in [role, binding] {
        applier.apply(&object, "").await?;
    }
    let reader = Console::for_user(stack, "reader")?;
    for command in ["skip gpu-0", &format!("retry {failed}"), "pause", "abort"] {
        let output = reader.tries(&format!("gpu-rollout {command} --yes")).await?;
        let told = String::from_utf8_lossy(&output.stderr);
        let is_refused = output.status.code() == Some(ExitCode::Rights.number().into());
        ensure!(is_refused && told.contains("forbidden"), "{command}: {output:?}");
    }
    let status = console.status().await?;
    ensure!(status["pauses"].is_null() && status["requests"].is_null(), "{status:#}");
    ensure!(row(&status, failed)?["stage"] == "failed", "{:#}", row(&status, failed)?);
    Ok(())
}

/// NVIDIA's controller has one slot, and the node in it fails. The other nodes wait for the slot,
/// and their status names that node.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn slot_of_failed_node_is_named_and_freed() -> Result<()> {
    scenario("console-slot", async |stack| {
        let nodes =
            stack.fleet(Script { driver: (300, 900), ..Script::seeded(72) }, 4, false).await?;
        // The first node fails, whichever it is.
        stack.rewrite(|script| {
            script.faults = nodes.iter().map(|node| (node.clone(), Fault::CrashLoop)).collect();
        })?;
        let values = NEW.values();
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &values).await?;
        let console = Console::new(stack)?;
        let holder = until("a node to fail", LIMIT, async || {
            let status = console.status().await?;
            let failed = status["nodes"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|row| row["stage"] == "failed");
            Ok(failed.and_then(|row| row["node"].as_str().map(str::to_owned)))
        })
        .await?;
        let status = console.status().await?;
        eprintln!("{}", console.types("gpu-rollout status").await?);
        for node in nodes.iter().filter(|node| **node != holder) {
            let row = row(&status, node)?;
            let waiting = &row["waiting"];
            ensure!(
                waiting["reason"] == "DriverOutOfDate"
                    && waiting["text"].as_str().is_some_and(|text| text.contains(&holder)),
                "{row:#}"
            );
            let look = commands(&waiting["remedy"], "look");
            ensure!(look == [format!("gpu-rollout why {holder}")], "{row:#}");
            ensure!(waiting["resolvesItself"] == false, "{row:#}");
        }
        ensure!(
            status["totals"]["end"].is_null()
                && status["totals"]["slots"] == json!({"used": 1, "limit": 1}),
            "{:#}",
            status["totals"]
        );
        check_refused(stack, &console, &holder).await?;
        // During the pause, the slot may become free, but no node takes it.
        console.types("gpu-rollout pause --reason INC-8 --yes").await?;
        stack.rewrite(|script| script.faults.clear())?;
        let (run, _) = remedies(row(&console.status().await?, &holder)?);
        ensure!(!run.is_empty(), "{}", console.types(&format!("gpu-rollout why {holder}")).await?);
        for line in run {
            eprintln!("{holder}: {line}");
            console.confirms(&line).await?;
        }
        let paused = console.status().await?;
        for node in nodes.iter().filter(|node| **node != holder) {
            ensure!(
                row(&paused, node)?["waiting"]["reason"] == "Paused",
                "{:#}",
                row(&paused, node)?
            );
        }
        ensure!(paused["totals"]["inProgress"] == 0, "{:#}", paused["totals"]);
        console.types("gpu-rollout resume --yes").await?;
        eprintln!("{}", console.types("gpu-rollout status --watch").await?);
        let end = console.status().await?;
        ensure!(end["totals"]["done"] == nodes.len(), "{end:#}");
        for node in Api::<Node>::all(stack.client.clone()).list(&ListParams::default()).await? {
            ensure!(
                !node.labels().contains_key("nvidia.com/gpu-driver-upgrade.skip"),
                "{} keeps its hold",
                node.name_any()
            );
        }
        Ok(())
    })
    .await
}

/// Returns the findings of `doctor`, by name.
async fn findings(console: &Console) -> Result<BTreeMap<String, Value>> {
    let output = console.tries("gpu-rollout doctor -o json").await?;
    let document: Value =
        serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
    let found = document["findings"].as_array().context("findings")?;
    let problems = found.iter().any(|one| one["severity"] == "problem");
    ensure!(output.status.code() == Some(if problems { 14 } else { 0 }), "{output:?}");
    Ok(found
        .iter()
        .map(|one| (one["check"].as_str().unwrap_or_default().to_owned(), one.clone()))
        .collect())
}

/// A cluster without bundle and hook: no controller replaces the stale DRA plugins, and users have
/// left a skip label and a cordon.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn remedies_of_doctor_resolve_findings() -> Result<()> {
    scenario("console-doctor", async |stack| {
        let nodes = stack.fleet(Script { driver: (300, 900), ..Script::seeded(73) }, 3, true).await?;
        let console = Console::new(stack)?;
        let before = findings(&console).await?;
        ensure!(["stale-plugins", "skipped-nodes", "idle-cordons"].iter().all(|check| !before.contains_key(*check)), "{before:#?}");

        let values = json!({"driver": {"version": NEW.driver, "upgradePolicy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%"}, "usePrecompild": true}});
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &values).await?;
        // No node waits for its driver. Only the plugins are stale.
        until("every plugin to be stale", LIMIT, async || {
            let stale = findings(&console).await?.remove("stale-plugins");
            Ok(stale.filter(|stale| stale["nodes"].as_array().map(Vec::len) == Some(nodes.len())).map(drop))
        })
        .await?;
        // NVIDIA's controller still uncordons the last node, even if a user has cordoned it since.
        until("NVIDIA's controller to finish every node", LIMIT, async || {
            let all = Api::<Node>::all(stack.client.clone()).list(&ListParams::default()).await?;
            let done = |node: &Node| node.labels().get(STATE).is_some_and(|state| state == "upgrade-done");
            Ok(nodes.iter().all(|name| all.iter().any(|node| node.name_any() == *name && done(node))).then_some(()))
        })
        .await?;
        console.types("gpu-rollout skip --yes gpu-0").await?;
        console.types("kubectl cordon gpu-1").await?;
        eprintln!("{}", String::from_utf8_lossy(&console.tries("gpu-rollout doctor").await?.stdout));
        let found = findings(&console).await?;
        for (check, node) in [("skipped-nodes", json!(["gpu-0"])), ("idle-cordons", json!(["gpu-1"]))] {
            ensure!(found.get(check).is_some_and(|one| one["nodes"] == node), "{check}: {found:#?}");
        }
        let unknown = found.get("unknown-key").context("no finding for the typing error in the values")?;
        ensure!(unknown["text"].as_str().is_some_and(|text| text.contains("usePrecompild")), "{unknown:#}");
        for check in ["skipped-nodes", "idle-cordons"] {
            for line in commands(&found[check]["remedy"], "run") {
                eprintln!("{check}: {line}");
                console.confirms(&line).await?;
            }
        }
        // The commands for the plugins are those of one node.
        for left in (1..=nodes.len()).rev() {
            let stale = until("the plugin of the previous node to be ready", LIMIT, async || {
                let stale = findings(&console).await?.remove("stale-plugins");
                Ok(stale.filter(|stale| stale["nodes"].as_array().map(Vec::len) == Some(left)))
            })
            .await?;
            let lines = commands(&stale["remedy"], "run");
            ensure!(!lines.is_empty(), "{stale:#}");
            for line in lines {
                eprintln!("stale-plugins: {line}");
                console.types(&line).await?;
            }
        }
        until("the plugins to serve the new driver", LIMIT, async || {
            let served = stack.served().await?;
            Ok(nodes.iter().all(|node| served.get(node) == Some(&published(NEW.driver))).then_some(()))
        })
        .await?;
        let after = findings(&console).await?;
        ensure!(["stale-plugins", "skipped-nodes", "idle-cordons"].iter().all(|check| !after.contains_key(*check)), "{after:#?}");
        // The deployed releases as a recipe. Without the typing error, it renders unchanged.
        let folder = tempfile::tempdir()?;
        let typed = format!("cd {} && gpu-rollout doctor --recipe > deployed.yaml", folder.path().display());
        console.types(&typed).await?;
        let recipe = std::fs::read_to_string(folder.path().join("deployed.yaml"))?;
        ensure!(recipe.contains(NEW.chart) && recipe.contains("nvidia-dra-driver-gpu") && recipe.contains("maxUnavailable: 50%"), "{recipe}");
        std::fs::write(folder.path().join("deployed.yaml"), recipe.replace("usePrecompild", "usePrecompiled"))?;
        let typed = format!("cd {} && gpu-rollout bundle render -r deployed.yaml -d helm -o bundle", folder.path().display());
        console.types(&typed).await?;
        Ok(())
    })
    .await
}
