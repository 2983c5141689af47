//! The status of a rollout as text: the headline, the progress, the nodes that are not done, and
//! what to do.

use std::fmt::Write;

use crate::cli::{advice, terminal};
use ops::status::RolloutStatus;

mod head;
mod nodes;

pub(super) use nodes::stage_text;
pub(in crate::cli) use nodes::{driver, node_condition};

/// Formats all rollouts. `all`: with one line for every node. `width`: of the terminal, in
/// characters.
pub(super) fn text(rollouts: &[RolloutStatus], all: bool, width: Option<usize>) -> String {
    let texts: Vec<String> =
        rollouts.iter().map(|rollout| status_text(rollout, all, width)).collect();
    texts.join("\n")
}

fn status_text(status: &RolloutStatus, all: bool, width: Option<usize>) -> String {
    let mut text = String::new();
    for line in head::lines(status) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    text.push_str(&nodes::text(status, all, width));
    text.push_str(&advice::fleet_text(status, width.unwrap_or(terminal::LINE)));
    for note in &status.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

#[cfg(test)]
mod tests;
