//! Whether the operator's DaemonSets carry the labels that the ClusterPolicy sets on them.

use super::behind;
use crate::reason::Reason;
use observed::{ClusterPolicy, ObservedDaemonSet};

/// Checks that the template carries `spec.daemonsets.labels`; they contain the operator chart's
/// version, which changes with every chart bump.
pub(super) fn labels_observed(
    daemon_set: &ObservedDaemonSet,
    policy: &ClusterPolicy,
) -> Result<(), Reason> {
    let Some((key, value)) = missing_label(daemon_set, policy) else { return Ok(()) };
    let found = daemon_set.template_labels.get(key);
    Err(behind(daemon_set, &format!("label {key}"), value, found.map_or("absent", String::as_str)))
}

/// Returns whether the DaemonSet's template carries all labels that the ClusterPolicy sets on the
/// operator's DaemonSets.
pub fn carries_labels(daemon_set: &ObservedDaemonSet, policy: &ClusterPolicy) -> bool {
    missing_label(daemon_set, policy).is_none()
}

fn missing_label<'a>(
    daemon_set: &ObservedDaemonSet,
    policy: &'a ClusterPolicy,
) -> Option<(&'a String, &'a String)> {
    let mut wanted =
        policy.labels.iter().filter(|(key, _)| !RESERVED_LABELS.contains(&key.as_str()));
    wanted.find(|(key, value)| daemon_set.template_labels.get(*key) != Some(*value))
}

/// Labels that the operator reserves (`applyCommonDaemonsetMetadata` in its
/// `controllers/object_controls.go`).
const RESERVED_LABELS: [&str; 2] = ["app", "app.kubernetes.io/part-of"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_policy_are_missed_unless_reserved() {
        let daemon_set = ObservedDaemonSet::default();
        for (label, is_missed) in [
            ("helm.sh/chart", true),
            ("app.kubernetes.io/component", true),
            ("app.kubernetes.io/part-of", false),
            ("app", false),
        ] {
            let labels = [(label.to_owned(), "x".to_owned())].into_iter().collect();
            let policy = ClusterPolicy { labels, ..ClusterPolicy::default() };
            assert_eq!(carries_labels(&daemon_set, &policy), !is_missed, "{label}");
        }
    }
}
