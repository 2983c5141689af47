//! Which change fires which hook, with each deployer. A hook fires once for each reason. It fires
//! without a reason only if the deployer runs everything anyway, and then it only reads.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::harness::ask::Ask;
use crate::harness::cells::Cells;
use crate::harness::deployers::{Deployer, Kind};
use crate::harness::fleet::{NEW, OLD};
use crate::harness::node_agent::HOOK_REPOSITORY;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;

use super::change::{ALL, NONE, OPERATOR, Reasons, changed};
use super::editor::replace_driver;
use super::for_each_deployer;

for_each_deployer!(triggers);

/// Ten deployments, on a busy machine.
const DEADLINE: Duration = Duration::from_mins(30);
const NODES: usize = 2;
/// A driver between the old one and the new one.
const EDITED: &str = "580.105.09";

async fn triggers(kind: Kind) -> Result<()> {
    scenario_within(DEADLINE, &format!("triggers-{}", kind.word()), async |stack| {
        stack.play(Script::seeded(21)).await?;
        stack.add_gpu_nodes(NODES).await?;
        let stack = &*stack;
        let deployer = kind.start(stack).await?;
        let table = Table { stack, deployer: &*deployer, cells: Cells::new("triggers", kind) };
        let old = Ask::old(NODES);

        table.row("first install", ALL, 0, async || deployer.deploy(stack, &old).await).await?;
        table
            .row("nothing changed", NONE, 0, async || {
                deployer.hand_over(stack, "Nothing has changed").await
            })
            .await?;
        if kind.is_client() {
            table.cells.note("refreshed by hand, nothing changed", "–");
        } else {
            table
                .row("refreshed by hand, nothing changed", NONE, 0, async || {
                    deployer.look(stack).await.map(drop)
                })
                .await?;
        }

        let policy = Ask { max_unavailable: "100%", ..old.clone() };
        table
            .row("policy changed", OPERATOR, 0, async || deployer.deploy(stack, &policy).await)
            .await?;
        let image = Ask { hook_image: format!("{HOOK_REPOSITORY}:e2e-next"), ..policy.clone() };
        table
            .row("hook image bumped", ALL, 0, async || deployer.deploy(stack, &image).await)
            .await?;

        let edit = async || {
            replace_driver(&deployer.bundle(), OLD.driver, EDITED)?;
            deployer.hand_over(stack, "Another driver, by hand").await
        };
        table.row("values.yaml edited in the bundle", OPERATOR, NODES, edit).await?;
        let driver = Ask { driver: NEW.driver, ..image.clone() };
        table
            .row("driver version bumped", OPERATOR, NODES, async || {
                deployer.deploy(stack, &driver).await
            })
            .await?;
        let chart = Ask { chart: NEW.chart, ..driver.clone() };
        table
            .row("operator chart bumped", OPERATOR, NODES, async || {
                deployer.deploy(stack, &chart).await
            })
            .await?;
        table
            .row("previous bundle deployed again", OPERATOR, NODES, async || {
                deployer.deploy(stack, &driver).await
            })
            .await?;
        table.cells.check()
    })
    .await
}

struct Table<'a> {
    stack: &'a Stack,
    deployer: &'a dyn Deployer,
    cells: Cells,
}

impl Table<'_> {
    async fn row(
        &self,
        row: &'static str,
        reasons: Reasons,
        plugins: usize,
        change: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        let cell = changed(self.stack, self.deployer, reasons, plugins, change)
            .await
            .with_context(|| row)?;
        self.cells.note(row, cell);
        Ok(())
    }
}
