//! `gpu-rollout accept`: a user runs the deployed tests by hand.

use anyhow::{Result, ensure};
use contract::exit::ExitCode;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::Value;

use super::{
    PREVIOUS, check_no_test_pods, deploy, driven, driver_is, fleet, is_cordoned, shell_test,
};
use crate::harness::console::Console;
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::test_timeline::TestTimeline;
use crate::harness::workloads::{NAMESPACE, Serving};

/// Runs `gpu-rollout accept` with these arguments. Checks its exit code, the results as
/// `NODE TEST VERDICT`, and that no pod is left.
async fn check_accept(
    stack: &Stack,
    console: &Console,
    arguments: &str,
    code: ExitCode,
    expected: &[&str],
) -> Result<()> {
    let output = console.tries(&format!("gpu-rollout accept {arguments} --yes -o json")).await?;
    let message = String::from_utf8_lossy(&output.stderr);
    // A refusal has no document.
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let results: Vec<String> = document["results"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|result| ["node", "test", "verdict"].map(|key| text(&result[key])).join(" "))
        .collect();
    let ended = output.status.code();
    ensure!(ended == Some(i32::from(code.number())), "{arguments}: {ended:?}: {message}");
    ensure!(results == expected, "{arguments}: {results:?}: {message}");
    check_no_test_pods(stack).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn tests_run_by_hand_and_leave_no_pod() -> Result<()> {
    scenario("acceptance-by-hand", async |stack| {
        fleet(stack, 76, 3, &PREVIOUS.driven_values()).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let timeline = TestTimeline::record(&stack.client);
        let tests = [driver_is("driver", PREVIOUS.driver), shell_test("bad", "exit 3")];
        let said = deploy(stack, &hook, &PREVIOUS, &driven(&tests)).await?;
        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        stack.create_namespace(NAMESPACE).await?;
        stack.run(&Serving { node: Some("gpu-2"), ..Serving::default() }).await?;
        stack.await_serving("serve", 1).await?;
        let console = Console::new(stack)?;
        console.types("kubectl cordon gpu-1").await?;

        let of_idle = ["gpu-0 driver passed"];
        let of_cordoned = ["gpu-1 driver passed", "gpu-1 bad failed"];
        for (arguments, code, expected) in [
            ("gpu-0 --test driver", ExitCode::Success, &of_idle[..]),
            ("gpu-1", ExitCode::NodesFailed, &of_cordoned[..]),
            // Workloads use the GPUs of gpu-2.
            ("gpu-0 gpu-2", ExitCode::Input, &[]),
            ("gpu-0 --test drive", ExitCode::Input, &[]),
        ] {
            check_accept(stack, &console, arguments, code, expected).await?;
        }

        let nodes = Api::<Node>::all(stack.client.clone());
        for (name, cordoned) in [("gpu-0", false), ("gpu-1", true), ("gpu-2", false)] {
            ensure!(is_cordoned(&nodes.get(name).await?) == cordoned, "the cordon of {name}");
        }
        let started = timeline.started();
        ensure!(started.is_empty(), "the hook ran tests: {started:?}");
        Ok(())
    })
    .await
}
