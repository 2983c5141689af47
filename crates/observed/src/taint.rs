//! Taints, and whether pods of a DaemonSet tolerate them.

use super::{ObservedDaemonSet, ObservedNode};

/// A taint that keeps pods off a node: effect `NoSchedule` or `NoExecute`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedTaint {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// `NoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A toleration of a pod template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedToleration {
    /// Key; empty: every taint.
    pub key: String,
    /// Operator `Exists`: any value.
    pub exists: bool,
    /// Value.
    pub value: String,
    /// Effect; empty: every effect.
    pub effect: String,
}

/// Taints that the DaemonSet controller tolerates for every pod (Kubernetes
/// `pkg/controller/daemon/util/daemonset_util.go`). It tolerates `network-unavailable` only for
/// pods in the host's network, but a node with this taint is not Ready anyway.
const DAEMON_SET_TOLERATED: [&str; 7] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/network-unavailable",
];

impl ObservedToleration {
    /// Returns whether it tolerates the taint, by the rules of Kubernetes'
    /// `Toleration.ToleratesTaint`.
    fn covers(&self, taint: &ObservedTaint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() && self.exists || self.key == taint.key)
            && (self.exists || self.value == taint.value)
    }
}

/// Returns whether pods of a DaemonSet with these tolerations may run on a node with this taint.
pub fn tolerates(tolerations: &[ObservedToleration], taint: &ObservedTaint) -> bool {
    DAEMON_SET_TOLERATED.contains(&taint.key.as_str())
        || tolerations.iter().any(|toleration| toleration.covers(taint))
}

/// Returns the first taint of the node that pods of the DaemonSet do not tolerate.
pub fn untolerated_taint<'a>(
    daemon_set: &ObservedDaemonSet,
    node: &'a ObservedNode,
) -> Option<&'a ObservedTaint> {
    node.taints.iter().find(|taint| !tolerates(&daemon_set.tolerations, taint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_cover_taints_as_in_kubernetes() {
        let taint = ObservedTaint {
            key: "nvidia.com/gpu".into(),
            value: "present".into(),
            effect: "NoSchedule".into(),
        };
        let toleration = |key: &str, exists, value: &str, effect: &str| ObservedToleration {
            key: key.into(),
            exists,
            value: value.into(),
            effect: effect.into(),
        };
        for (toleration, covers) in [
            (toleration("nvidia.com/gpu", true, "", "NoSchedule"), true),
            (toleration("nvidia.com/gpu", true, "", "NoExecute"), false),
            (toleration("nvidia.com/gpu", false, "present", ""), true),
            (toleration("nvidia.com/gpu", false, "", ""), false),
            (toleration("", true, "", ""), true),
            (toleration("", false, "present", ""), false),
        ] {
            assert_eq!(
                tolerates(std::slice::from_ref(&toleration), &taint),
                covers,
                "{toleration:?}"
            );
        }
        let cordon = ObservedTaint {
            key: "node.kubernetes.io/unschedulable".into(),
            effect: "NoSchedule".into(),
            ..ObservedTaint::default()
        };
        assert!(tolerates(&[], &cordon));
    }
}
