//! Simulations beside each other, which takes a while in large fleets: people see how far it is.

use super::parallel;
use super::printer::Printer;
use crate::simulate::report::Report;

/// Runs `run` on all of them; the reports are in their order.
pub(super) fn all<T: Sync>(runs: &[T], run: impl Fn(&T) -> Report + Sync, printer: &mut Printer) -> Vec<Report> {
    let total = runs.len();
    let mut tell = |done: usize| printer.progress(&format!("{done} of {total} runs simulated"));
    tell(0);
    parallel::map_telling(runs, run, tell)
}
