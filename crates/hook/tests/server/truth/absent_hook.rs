//! Claims about nodes for which only a hook does the next step.

use super::moment::{HookState, Moment};

/// Reasons that say what a hook does or will do.
const DONE_BY_HOOK: [&str; 2] = ["RetryDue", "Releasing"];

/// Checks that no step of a hook is announced after its run.
pub(super) fn steps_of_absent_hook(moment: &Moment<'_>) -> Vec<String> {
    if !matches!(moment.hook, HookState::Ended) {
        return Vec::new();
    }
    let rows = moment.status.nodes.iter();
    let waits = rows.filter_map(|row| Some((row, row.waiting.as_ref()?)));
    waits
        .filter(|(_, waiting)| DONE_BY_HOOK.contains(&waiting.reason))
        .map(|(row, waiting)| format!("{}: no hook does this: {}", row.node, waiting.text))
        .collect()
}
