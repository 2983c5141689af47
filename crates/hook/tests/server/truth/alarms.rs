//! Claims about advice and findings that would alarm users without a reason.

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

/// Checks that `doctor` does not report plugins that the running hook is about to replace, and that
/// a node that is NotReady is not blamed on its driver.
pub(super) fn false_alarms(moment: &Moment<'_>) -> Vec<String> {
    let mut lies = Vec::new();
    let runs = matches!(moment.hook, HookState::Running { has_led: true, .. });
    let stale = moment.findings.iter().find(|finding| finding.check == "stale-plugins");
    if let Some(finding) = stale.filter(|_| runs && !moment.has_verdict) {
        lies.push(format!("doctor: {finding:?}"));
    }
    for row in &moment.status.nodes {
        let is_away = moment.nodes.get(&row.node).is_some_and(|truth| !truth.ready);
        let blamed = row.waiting.as_ref().filter(|waiting| {
            is_away && waiting.reason == "DriverNotReady" && waiting.remedy.text.contains("driver")
        });
        lies.extend(blamed.map(|waiting| format!("{}: {:?}", row.node, waiting.remedy)));
    }
    lies
}
