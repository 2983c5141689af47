//! Label selectors, which the operators and the hook read only when an upgrade is under way.

use super::RuleTarget;
use crate::model::RecipeUpgradePolicy;
use contract::selector::Selector;
use diagnostics::diagnostic::Diagnostic;

/// Checks the label selectors that must select something.
pub fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let rollout = &subject.recipe.rollout;
    policy(subject, "gpuDriver", &rollout.gpu_driver.policy, findings);
    if let Some(driver) = &rollout.ofed_driver {
        policy(subject, "ofedDriver", &driver.policy.common(), findings);
    }
}

fn policy(subject: &RuleTarget<'_>, driver: &str, policy: &RecipeUpgradePolicy, findings: &mut Vec<Diagnostic>) {
    let written = subject.node_at(&["rollout", driver, "policy", "extraConsumers"]);
    for (index, selector) in policy.extra_consumers.iter().enumerate() {
        let place = written.and_then(|list| list.items().get(index)).map(|item| item.origin);
        if !selector.parse::<Selector>().is_ok_and(|parsed| parsed.is_everything()) {
            continue;
        }
        let place = place.unwrap_or_else(|| subject.place(&["rollout", driver, "policy", "extraConsumers"]));
        findings.push(
            Diagnostic::error("an empty selector takes every pod for one that uses the device")
                .at(place)
                .hint("label selectors look like `app=train`, `tier in (a,b)`, `!keep`; commas join what must all hold"),
        );
    }
}
