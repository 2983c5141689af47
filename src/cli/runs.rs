//! Parallel simulation runs with a progress line, because large fleets take a while.

use super::parallel;
use crate::printer::Printer;
use simulator::report::SimulationReport;

/// Runs `run` on all of `runs`. The reports are in the same order.
pub(super) fn run_all<T: Sync>(
    runs: &[T],
    run: impl Fn(&T) -> SimulationReport + Sync,
    printer: &mut Printer,
) -> Vec<SimulationReport> {
    let total = runs.len();
    let mut report = |done: usize| printer.progress(&format!("{done} of {total} runs simulated"));
    report(0);
    parallel::map_reporting(runs, run, report)
}
