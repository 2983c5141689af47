//! Checks of label selectors. The operators and the hook read them only during an upgrade.

use super::RuleTarget;
use crate::model::DriverRollout;
use contract::selector::Selector;
use diagnostics::diagnostic::Diagnostic;

/// Checks the label selectors that must not be empty.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for driver in subject.recipe.rollout.drivers() {
        extra_consumers(subject, &driver, findings);
    }
}

fn extra_consumers(
    subject: &RuleTarget<'_>,
    driver: &DriverRollout,
    findings: &mut Vec<Diagnostic>,
) {
    let keys = ["rollout", driver.key, "policy", "extraConsumers"];
    let written = subject.node_at(&keys);
    for (index, selector) in driver.policy.extra_consumers.iter().enumerate() {
        if !selector.parse::<Selector>().is_ok_and(|parsed| parsed.is_everything()) {
            continue;
        }
        let place = written
            .and_then(|list| list.items().get(index))
            .map_or_else(|| subject.place(&keys), |item| item.origin);
        Diagnostic::error("an empty selector makes every pod a device user")
            .at(place)
            .hint("label selectors look like `app=train`, `tier in (a,b)`, `!keep`; with commas, all parts must hold")
            .report(findings);
    }
}
