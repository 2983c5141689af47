//! Checks of `rollout.metrics`.

use super::RuleTarget;
use diagnostics::diagnostic::Diagnostic;

/// Checks that objects of the Prometheus Operator have metrics to read.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let metrics = &subject.recipe.rollout.metrics;
    for (key, enabled) in [
        ("podMonitor", metrics.pod_monitor.enabled),
        ("prometheusRule", metrics.prometheus_rule.enabled),
    ] {
        if enabled && !metrics.enabled {
            Diagnostic::error(format!(
                "`rollout.metrics.{key}` is enabled, but no hook serves metrics"
            ))
            .at(subject.place(&["rollout", "metrics", key, "enabled"]))
            .hint("set `rollout.metrics.enabled: true`")
            .report(findings);
        }
    }
    if metrics.port == Some(0) {
        Diagnostic::error("`rollout.metrics.port` must be from 1 to 65535")
            .at(subject.place(&["rollout", "metrics", "port"]))
            .report(findings);
    }
}
