//! Which change fires which hook, with each deployer: once for every hook that has a reason, and never without one but where the deployer
//! runs everything anyway; then the hook only reads.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;

use crate::harness::ask::Ask;
use crate::harness::cells::Cells;
use crate::harness::deployers::{Deployer, Kind, Outcome};
use crate::harness::fleet::{NEW, OLD};
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;

use super::{NAMES, Reason, fired, for_each_deployer, hooks, told};

for_each_deployer!(triggers);

/// Ten deployments, on a busy machine.
const DEADLINE: Duration = Duration::from_mins(30);
const NODES: usize = 2;
/// A driver between the old one and the new one.
const EDITED: &str = "580.105.09";

/// Why the hooks fire: before the operator, after it, after the DRA driver.
type Reasons = [Reason; 3];
const ALL: Reasons = [Reason::Own; 3];
const OPERATOR: Reasons = [Reason::Own, Reason::Own, Reason::Others];
const NONE: Reasons = [Reason::None; 3];

async fn triggers(kind: Kind) -> Result<()> {
    kind.build_tools()?;
    scenario_within(DEADLINE, &format!("triggers-{}", kind.word()), async |stack| {
        stack.play(Script::seeded(21)).await?;
        stack.add_gpu_nodes(NODES).await?;
        let stack = &*stack;
        let deployer = kind.start(stack).await?;
        let table = Table { stack, deployer: &*deployer, cells: Cells::new("triggers", kind) };
        let old = Ask::old(NODES);

        table.row("first install", ALL, 0, async || deployer.deploy(stack, &old).await).await?;
        table.row("nothing changed", NONE, 0, async || deployer.hand_over(stack, "Nothing has changed").await).await?;
        if kind.is_client() {
            table.cells.note("looked at by hand", "–");
        } else {
            table.row("looked at by hand", NONE, 0, async || deployer.look(stack).await.map(drop)).await?;
        }

        let policy = Ask { max_unavailable: "100%", ..old.clone() };
        table.row("policy changed", OPERATOR, 0, async || deployer.deploy(stack, &policy).await).await?;
        let image = Ask { hook_tag: "e2e-next", ..policy.clone() };
        table.row("hook image bumped", ALL, 0, async || deployer.deploy(stack, &image).await).await?;

        let edit = async || {
            edit_values(&deployer.bundle(), OLD.driver, EDITED)?;
            deployer.hand_over(stack, "Another driver, by hand").await
        };
        table.row("values edited, not rendered", OPERATOR, NODES, edit).await?;
        let driver = Ask { driver: NEW.driver, ..image.clone() };
        table.row("driver version bumped", OPERATOR, NODES, async || deployer.deploy(stack, &driver).await).await?;
        let chart = Ask { chart: NEW.chart, ..driver.clone() };
        table.row("operator chart bumped", OPERATOR, NODES, async || deployer.deploy(stack, &chart).await).await?;
        table.row("back to the previous bundle", OPERATOR, NODES, async || deployer.deploy(stack, &driver).await).await?;
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
    /// One change. `plugins`: so many go on serving the driver from before, and each one is replaced once. (In a first install without an
    /// order some may come before their driver.)
    async fn row(&self, row: &'static str, reasons: Reasons, plugins: usize, change: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
        let (stack, hooks) = (self.stack, hooks(self.stack));
        let (before, begin) = (stack.plugins().await?, Timestamp::now());
        change().await?;
        let waited = self.deployer.wait(stack, Outcome::Succeeded).await;
        if let Err(error) = waited {
            let mut logs = String::new();
            for hook in &hooks {
                logs += &hook.logs().await?;
            }
            return Err(error.context(format!("{row}\n{}\n{logs}", self.deployer.status(stack).await?)));
        }
        // A client runs everything.
        let expected = |index: usize| self.deployer.kind().is_client() || reasons[index] == Reason::Own;
        let seen = fired(stack, begin)?;
        let mut cell = Vec::new();
        for (index, hook) in hooks.iter().enumerate() {
            ensure!(seen[index] == usize::from(expected(index)), "{row}: {} fired {} times: {seen:?}", hook.name(), seen[index]);
            if seen[index] > 0 {
                let end = hook.end().await?;
                ensure!(end.exit_code == 0, "{row}: {}: {:?}\n{}", hook.name(), end.message, hook.logs().await?);
                cell.push(told(hook, NAMES[index], begin, reasons[index], plugins > 0).with_context(|| row)?);
            }
        }
        let after = stack.plugins().await?;
        ensure!(after.len() == NODES, "{row}: a plugin on every node: {after:?}");
        let replaced = before.iter().filter(|(node, plugin)| after.get(*node) != Some(plugin)).count();
        ensure!(replaced == plugins, "{row}: {replaced} plugins are new, expected {plugins}");
        self.cells.note(row, if cell.is_empty() { "none".to_owned() } else { cell.join(", ") });
        Ok(())
    }
}

/// What a user does with an editor in the bundle's values.
fn edit_values(bundle: &Path, from: &str, to: &str) -> Result<()> {
    let folders = std::fs::read_dir(bundle)?.collect::<std::io::Result<Vec<_>>>()?;
    let is_operator = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-gpu-operator"));
    let folder = folders.iter().map(std::fs::DirEntry::path).find(is_operator).context("no folder of gpu-operator")?;
    let file = folder.join("values.yaml");
    let text = std::fs::read_to_string(&file)?;
    ensure!(text.contains(from), "{} does not name {from}", file.display());
    std::fs::write(&file, text.replace(from, to))?;
    Ok(())
}
