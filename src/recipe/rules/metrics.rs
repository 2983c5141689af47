//! What monitoring is to see.

use super::Subject;
use crate::text::diagnostic::Diagnostic;

/// Objects of the Prometheus operator need metrics that they can go by.
pub fn check(subject: &Subject<'_>, findings: &mut Vec<Diagnostic>) {
    let metrics = &subject.recipe.rollout.metrics;
    for (key, enabled) in [("podMonitor", metrics.pod_monitor.enabled), ("prometheusRule", metrics.prometheus_rule.enabled)] {
        if enabled && !metrics.enabled {
            findings.push(
                Diagnostic::error(format!("`rollout.metrics.{key}` is enabled, and no hook serves the metrics that it goes by"))
                    .at(subject.place(&["rollout", "metrics", key, "enabled"]))
                    .hint("set `rollout.metrics.enabled: true`"),
            );
        }
    }
    if let Some(interval) = metrics.pod_monitor.interval.as_deref().filter(|interval| !is_interval(interval)) {
        findings.push(
            Diagnostic::error(format!("`{interval}` is no interval"))
                .at(subject.place(&["rollout", "metrics", "podMonitor", "interval"]))
                .hint("write one number with its unit: `500ms`, `15s`, `1m`"),
        );
    }
    if metrics.port == Some(0) {
        findings
            .push(Diagnostic::error("`rollout.metrics.port` must be from 1 to 65535").at(subject.place(&["rollout", "metrics", "port"])));
    }
}

/// As the hook chart's schema takes it: a number from 1 on, with one unit.
fn is_interval(text: &str) -> bool {
    let digits = text.len() - text.trim_start_matches(|one: char| one.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    number.starts_with(|first: char| first != '0') && ["ms", "s", "m", "h"].contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_one_number_with_its_unit() {
        for good in ["15s", "500ms", "1m", "2h"] {
            assert!(is_interval(good), "{good}");
        }
        for bad in ["", "s", "0s", "015s", "1m30s", "15", "15 s", "1d"] {
            assert!(!is_interval(bad), "{bad}");
        }
    }
}
