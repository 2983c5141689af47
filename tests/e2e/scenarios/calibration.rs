//! Measures the accuracy of `plan` where NVIDIA's controller upgrades, with its real sleep of two
//! minutes. It is not a test. `make bench` runs it; `make e2e` does not.

use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use simulator::setup::SimulationTimes;

use super::plan::{deploy, duration};
use crate::harness::ask::Ask;
use crate::harness::console::Console;
use crate::harness::fleet::NEW;
use crate::harness::scenario::scenario_within;
use crate::harness::stand_in::Script;

const LIMIT: Duration = Duration::from_hours(1);
/// The time per node within which the drivers of a new fleet become ready.
const COMES_UP_WITHIN: Duration = Duration::from_millis(500);
/// Selects one fleet by its number of nodes and the seconds that its drivers take, such as `30-1`.
const CHOSEN: &str = "GPU_ROLLOUT_FLEET";

/// A fleet: its nodes, the number of concurrent upgrades, and the time that a driver takes, in
/// seconds.
struct Fleet {
    nodes: usize,
    at_once: usize,
    driver_seconds: u64,
}

/// Fast drivers show the cost of the controller and of the wakes. Slow drivers show the effect of
/// long installations.
const FLEETS: [Fleet; 5] = [
    Fleet { nodes: 6, at_once: 2, driver_seconds: 1 },
    Fleet { nodes: 6, at_once: 2, driver_seconds: 130 },
    Fleet { nodes: 30, at_once: 4, driver_seconds: 1 },
    Fleet { nodes: 100, at_once: 10, driver_seconds: 1 },
    Fleet { nodes: 100, at_once: 25, driver_seconds: 130 },
];

async fn measure(fleet: &Fleet) -> Result<(f64, f64)> {
    let &Fleet { nodes, at_once, driver_seconds } = fleet;
    let mut measured = (0.0, 0.0);
    scenario_within(LIMIT, &format!("calibration-{nodes}-{driver_seconds}"), async |stack| {
        // The drivers become ready one after another. If all did at once, they would wait for the
        // CPU, and plans use the measured times of the operands. No cluster shows in advance how
        // long a driver pod takes to end, so it takes the time that plans assume.
        let come_up = COMES_UP_WITHIN.saturating_mul(u32::try_from(nodes)?);
        let driver = (0, u64::try_from(come_up.as_millis())?);
        stack.play(Script { driver, driver_end: (0, SimulationTimes::default().operand_end.most()), ..Script::seeded(91) }).await?;
        stack.add_gpu_nodes(nodes).await?;
        let policy = json!({"maxParallelUpgrades": at_once, "maxUnavailable": "50%", "podDeletion": {"timeout": "60s"}});
        let old = Ask { dra: false, ..Ask::old(nodes) };
        ensure!(stack.deploy_bundle(&stack.render(&old).await?).await?.success, "the deployment of the old release failed");
        let milliseconds = driver_seconds * 1_000;
        stack.rewrite(|live| {
            live.driver = (milliseconds, milliseconds + 1);
            live.tick = Duration::from_mins(2);
        })?;
        let new = Ask { gpu_driver: json!({"mode": "assist", "policy": policy}), ..old.with(&NEW) };
        let bundle = stack.render(&new).await?;
        let console = Console::new(stack)?;
        let line = format!("gpu-rollout plan --bundle {} --driver-time {driver_seconds}s -o json", bundle.display());
        let plan: Value = serde_json::from_str(&console.types(&line).await?)?;
        let [_, likely, _] = duration(&plan["rollouts"][0])?;
        let (_, took) = deploy(stack, &bundle, Timestamp::now()).await?;
        measured = (likely, took);
        Ok(())
    })
    .await?;
    Ok(measured)
}

#[tokio::test(flavor = "local")]
#[ignore = "a measurement: make bench"]
async fn predicted_and_measured() -> Result<()> {
    let mut rows =
        vec!["assist  at once  driver s  predicted s  measured s  predicted/measured".to_owned()];
    let chosen = std::env::var(CHOSEN).ok();
    let is_chosen = |fleet: &&Fleet| {
        chosen
            .as_ref()
            .is_none_or(|chosen| *chosen == format!("{}-{}", fleet.nodes, fleet.driver_seconds))
    };
    for fleet in FLEETS.iter().filter(is_chosen) {
        let (likely, took) = measure(fleet).await?;
        let Fleet { nodes, at_once, driver_seconds } = fleet;
        let ratio = likely / took;
        rows.push(format!("{nodes:<6}  {at_once:>7}  {driver_seconds:>8}  {likely:>11.0}  {took:>10.0}  {ratio:>18.2}"));
        eprintln!(
            "{nodes} nodes, drivers of {driver_seconds} s: {took:.0} s, predicted {likely:.0} s"
        );
    }
    eprintln!("\n{}\n", rows.join("\n"));
    Ok(())
}
