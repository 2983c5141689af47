//! Runs a story on a new stack, with a deadline. Keeps all files that explain a failure.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::dump::dump_objects;
use super::run_directory::RunDirectory;
use super::stack::Stack;

/// The default deadline. No scenario needs as much, even on a busy machine.
const DEADLINE: Duration = Duration::from_mins(10);

/// Starts a stack for the scenario `name` and runs `story` on it.
pub(crate) fn scenario<'s>(
    name: &'s str,
    story: impl AsyncFnOnce(&mut Stack) -> Result<()> + 's,
) -> LocalBoxFuture<'s, Result<()>> {
    scenario_within(DEADLINE, name, story)
}

/// Runs a scenario with a deadline of its own. The future of a story is large, so it is on the
/// heap.
pub(crate) fn scenario_within<'s>(
    deadline: Duration,
    name: &'s str,
    story: impl AsyncFnOnce(&mut Stack) -> Result<()> + 's,
) -> LocalBoxFuture<'s, Result<()>> {
    scenario_on(None, deadline, name, story)
}

/// Runs a scenario on a control plane of a minor version of Kubernetes, such as `1.32`.
pub(crate) fn scenario_on<'s>(
    version: Option<&'static str>,
    deadline: Duration,
    name: &'s str,
    story: impl AsyncFnOnce(&mut Stack) -> Result<()> + 's,
) -> LocalBoxFuture<'s, Result<()>> {
    Box::pin(tell(version, deadline, name, story))
}

async fn tell(
    version: Option<&'static str>,
    deadline: Duration,
    name: &str,
    story: impl AsyncFnOnce(&mut Stack) -> Result<()>,
) -> Result<()> {
    let mut directory = RunDirectory::create(name)?;
    let begin = Instant::now();
    let mut stack = Stack::start(directory.path(), version)
        .await
        .with_context(|| format!("starting the stack of {name}"))?;
    eprintln!("{name}: stack ready after {:.1?}", begin.elapsed());
    let told =
        tokio::time::timeout(deadline, AssertUnwindSafe(story(&mut stack)).catch_unwind()).await;
    let result = match told {
        Ok(Ok(result)) => result.and_then(|()| stack.check_alive()),
        Ok(Err(panic)) => Err(anyhow!("{}", panic_text(panic.as_ref()))),
        Err(_) => Err(anyhow!("{name} took longer than {deadline:?}")),
    };
    eprintln!(
        "{name}: {} after {:.1?}",
        if result.is_ok() { "told" } else { "failed" },
        begin.elapsed()
    );
    if result.is_ok() {
        directory.succeeded();
    } else if let Err(error) = dump_objects(&stack.client, &directory.path().join("objects")).await
    {
        eprintln!("{name}: the objects could not be stored: {error:#}");
    }
    result
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("panicked").to_owned()
}
