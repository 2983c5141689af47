//! The checks of a preflight, and how strict a user is about each. `docs/preflight.md` is generated
//! from this table.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::settings::Mode;

/// One check of a preflight. The aliases are the names that version 0.1.0 wrote.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PreflightCheck {
    /// A selector of the policy is not valid.
    Selectors,
    /// A PodDisruptionBudget that never allows an eviction.
    #[serde(alias = "budget-never-yields")]
    BlockingBudgets,
    /// Pods with an emptyDir whose data would be lost.
    EmptyDir,
    /// Pods that would not be recreated.
    UnmanagedPods,
    /// Pods that use the device and cannot be evicted.
    #[serde(alias = "pinned-holders")]
    UnevictableDeviceUsers,
    /// Pods whose controller is of a kind that is not part of Kubernetes.
    ForeignControllers,
    /// Pods that are stuck in termination.
    TerminatingPods,
    /// Pods that may use the device without requesting it.
    #[serde(alias = "hidden-holders")]
    UndeclaredDeviceUsers,
    /// ResourceClaims that running pods hold.
    HeldClaims,
    /// ResourceClaims that are not released.
    LeftoverClaims,
    /// Driver DaemonSets that the operator would replace.
    DaemonSetIdentity,
    /// A change of mode that replaces every driver pod.
    ModeChange,
    /// Two controllers that upgrade drivers, or none in mode `steer`.
    Actors,
    /// No controller upgrades drivers.
    #[serde(alias = "nobody-upgrades")]
    AutoUpgradeOff,
    /// A driver manager that evicts pods at the same time as the hook.
    ManagerEviction,
    /// A time budget that is too small.
    TimeBudget,
    /// A label of the canaries that no node has.
    CanaryLabels,
    /// Nodes with different Kubernetes versions.
    KubernetesUpgrade,
    /// No node is ready.
    NoReadyNodes,
    /// Nodes that are not ready.
    NotReadyNodes,
    /// Nodes with a foreign cordon.
    ForeignCordons,
    /// Nodes that another user or controller has put into maintenance.
    NodeMaintenance,
    /// Operands that are still paused after an upgrade has ended.
    PausedOperands,
    /// Labels and annotations that an earlier run left on nodes.
    Leftovers,
}

/// What a finding means for the rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckSeverity {
    /// The rollout must not start.
    Blocking,
    /// The rollout may start; the finding is reported.
    Warning,
}

/// The severity of a check that the user does not configure. In mode `assist`, such a check warns
/// in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultSeverity {
    /// The finding blocks.
    Blocks,
    /// The finding warns.
    Warns,
    /// The finding blocks in mode `drive`, and warns where NVIDIA's controller upgrades the nodes.
    BlocksDrive,
    /// The finding blocks, and a user cannot lower its severity: the rollout would be impossible,
    /// or would bypass its own limits.
    AlwaysBlocks,
}

/// The severity that a user sets for a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckLevel {
    /// Its findings block.
    Block,
    /// Its findings warn.
    Warn,
    /// The check is not performed.
    Ignore,
}

/// The severity that a user sets, by check. Checks that are not named have the default of the
/// table. Checks whose severity cannot be lowered can only be set to `block`, which has an effect
/// in mode `assist`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckStrictness(
    #[serde(deserialize_with = "levels")] BTreeMap<PreflightCheck, CheckLevel>,
);

fn levels<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<PreflightCheck, CheckLevel>, D::Error> {
    let levels = BTreeMap::<PreflightCheck, CheckLevel>::deserialize(deserializer)?;
    match levels.iter().find(|(check, level)| !check.takes(**level)) {
        Some((check, _)) => Err(serde::de::Error::custom(format!(
            "the severity of `{}` cannot be lowered: expected `block`",
            check.name()
        ))),
        None => Ok(levels),
    }
}

impl JsonSchema for CheckStrictness {
    fn schema_name() -> Cow<'static, str> {
        "Strictness".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let properties: Map<String, Value> = PreflightCheck::ALL
            .into_iter()
            .map(|check| {
                let words: Vec<CheckLevel> =
                    CheckLevel::ALL.into_iter().filter(|level| check.takes(*level)).collect();
                let description = format!("The severity of this finding: {}", check.finds());
                (check.name().to_owned(), json!({"description": description, "enum": words}))
            })
            .collect();
        json_schema!({
            "description": "The severity of preflight findings, by check. Checks that are not named have the default severity in `docs/preflight.md`.",
            "type": "object",
            "additionalProperties": false,
            "properties": properties,
        })
    }
}

impl FromIterator<(PreflightCheck, CheckLevel)> for CheckStrictness {
    /// Ignores levels that a check does not accept.
    fn from_iter<I: IntoIterator<Item = (PreflightCheck, CheckLevel)>>(levels: I) -> Self {
        Self(levels.into_iter().filter(|(check, level)| check.takes(*level)).collect())
    }
}

impl CheckStrictness {
    /// Returns whether no check is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the severity of a check's findings; `None` if the user ignores them.
    pub fn severity(&self, check: PreflightCheck, mode: Mode) -> Option<CheckSeverity> {
        match self.0.get(&check) {
            Some(CheckLevel::Block) => Some(CheckSeverity::Blocking),
            Some(CheckLevel::Warn) => Some(CheckSeverity::Warning),
            Some(CheckLevel::Ignore) => None,
            None => Some(match check.normally() {
                // In mode `assist`, the operator upgrades the nodes with or without the hook.
                _ if mode == Mode::Assist => CheckSeverity::Warning,
                DefaultSeverity::Blocks | DefaultSeverity::AlwaysBlocks => CheckSeverity::Blocking,
                DefaultSeverity::BlocksDrive if mode == Mode::Drive => CheckSeverity::Blocking,
                DefaultSeverity::Warns | DefaultSeverity::BlocksDrive => CheckSeverity::Warning,
            }),
        }
    }
}

impl CheckLevel {
    /// Every level, strictest first.
    pub const ALL: [Self; 3] = [Self::Block, Self::Warn, Self::Ignore];
}

impl PreflightCheck {
    /// Returns whether a user may set this level for the check.
    pub fn takes(self, level: CheckLevel) -> bool {
        level == CheckLevel::Block || self.normally() != DefaultSeverity::AlwaysBlocks
    }

    /// Every check, in the order of findings and of `docs/preflight.md`.
    pub const ALL: [Self; 24] = [
        Self::Selectors,
        Self::Actors,
        Self::ManagerEviction,
        Self::NoReadyNodes,
        Self::DaemonSetIdentity,
        Self::BlockingBudgets,
        Self::EmptyDir,
        Self::UnmanagedPods,
        Self::UnevictableDeviceUsers,
        Self::TimeBudget,
        Self::CanaryLabels,
        Self::AutoUpgradeOff,
        Self::ModeChange,
        Self::ForeignControllers,
        Self::TerminatingPods,
        Self::UndeclaredDeviceUsers,
        Self::HeldClaims,
        Self::LeftoverClaims,
        Self::KubernetesUpgrade,
        Self::NotReadyNodes,
        Self::ForeignCordons,
        Self::NodeMaintenance,
        Self::PausedOperands,
        Self::Leftovers,
    ];

    /// Returns the name in settings, findings and `docs/preflight.md`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns the severity that applies if the user does not configure the check.
    pub fn normally(self) -> DefaultSeverity {
        self.row().1
    }

    /// Returns what the check finds, and why that matters.
    pub fn finds(self) -> &'static str {
        self.row().2
    }

    /// Returns what the user can do about a finding.
    pub fn advice(self) -> &'static str {
        self.row().3
    }

    /// The table: name, severity, what it finds, advice.
    fn row(self) -> (&'static str, DefaultSeverity, &'static str, &'static str) {
        use DefaultSeverity::{AlwaysBlocks, Blocks, BlocksDrive, Warns};
        match self {
            Self::Selectors => (
                "selectors",
                AlwaysBlocks,
                "A label selector of the policy that is not valid, or a selector of `extraConsumers` that selects every pod.",
                "correct the selector",
            ),
            Self::Actors => (
                "actors",
                AlwaysBlocks,
                "In mode `drive`, `autoUpgrade` is on: the operator and the hook would upgrade the same nodes. In mode `steer`, `autoUpgrade` is off: no node would be upgraded.",
                "deploy the operator's release with the values of this mode",
            ),
            Self::AutoUpgradeOff => (
                "auto-upgrade-off",
                Warns,
                "In the modes `observe` and `assist`, `autoUpgrade` is off: the operator changes its DaemonSets, but no driver pod is replaced.",
                "set autoUpgrade, use mode drive, or delete the driver pods yourself, node by node",
            ),
            Self::ManagerEviction => (
                "manager-eviction",
                AlwaysBlocks,
                "In mode `drive` of the GPU driver, the driver manager is set to evict pods or drain nodes: it would bypass the policy, and would uncordon nodes with a foreign cordon.",
                "set ENABLE_GPU_POD_EVICTION and ENABLE_AUTO_DRAIN to \"false\" in driver.manager.env",
            ),
            Self::NoReadyNodes => (
                "no-ready-nodes",
                Blocks,
                "Nodes with the device exist, but none of them is ready. With precompiled drivers, the operator then creates and deletes its DaemonSet in a loop.",
                "repair the nodes first",
            ),
            Self::DaemonSetIdentity => (
                "daemon-set-identity",
                Blocks,
                "Values that make the operator delete a driver DaemonSet: precompiled drivers are switched on or off, the driver moves from the ClusterPolicy to an NVIDIADriver or back, or the driver is switched off. Also nodes that the node selector of their DaemonSet no longer selects. The driver pods are then deleted at once, without any policy, while workloads run.",
                "make the change in a maintenance window, after you have drained the nodes, or do not make it",
            ),
            Self::BlockingBudgets => (
                "blocking-budgets",
                Blocks,
                "A PodDisruptionBudget that never allows the eviction of a pod that must be evicted. The eviction would be retried until its timeout.",
                "change the PodDisruptionBudget, or the number of replicas, before the rollout",
            ),
            Self::EmptyDir => (
                "empty-dir",
                Blocks,
                "Pods that must leave their node and have an emptyDir. An eviction deletes the data in it, and the policy does not allow that (`deleteEmptyDir` is off). If a node has such a pod, NVIDIA's controller evicts none of its pods, and the upgrade of the node fails. Training pods nearly always have an emptyDir in memory for /dev/shm.",
                "if the data in the emptyDirs is not needed, set the policy key that the finding names (podDeletion.deleteEmptyDir or drain.deleteEmptyDir) to true; otherwise, save the data, then delete the pods yourself. Shared memory (/dev/shm) never needs to be saved",
            ),
            Self::UnmanagedPods => (
                "unmanaged-pods",
                Blocks,
                "Pods that must leave their node and would not start again: they have no controller, or their DaemonSet no longer exists. The policy does not allow their eviction (`force` is off).",
                "if you can afford to lose the pods, set the policy key that the finding names (podDeletion.force or drain.force) to true; otherwise, wait until the pods have ended, or delete them yourself and start them again after the rollout",
            ),
            Self::UnevictableDeviceUsers => (
                "unevictable-device-users",
                Blocks,
                "Pods of DaemonSets and static pods that use the device. They cannot be evicted, and the driver does not unload while they run.",
                "give the DaemonSet the node selector nvidia.com/gpu.deploy.client: \"true\", and add that label to the nodes: the driver manager (v0.12 and later) then removes the pods; or remove the DaemonSet from the nodes during the rollout",
            ),
            Self::TimeBudget => (
                "time-budget",
                BlocksDrive,
                "A time budget of the Job that is too small for all nodes of the live fleet under the policy.",
                "raise the budget at least to the number that the finding names (in a recipe: raise rollout.gpuDriver.perNode or cluster.gpuNodes), or upgrade more nodes at once",
            ),
            Self::CanaryLabels => (
                "canary-labels",
                Warns,
                "A label in `canary.per` that no node has: it distinguishes no nodes, so there are fewer canaries than the policy wants.",
                "correct the label in policy.canary.per of the recipe, or label the nodes (`kubectl get nodes --show-labels` shows their labels)",
            ),
            Self::ModeChange => (
                "mode-change",
                Warns,
                "A change into or out of mode `drive` of the GPU driver changes the environment of the driver manager, and so the template of the driver DaemonSets: every driver pod is replaced once.",
                "change the mode together with the driver version",
            ),
            Self::ForeignControllers => (
                "foreign-controllers",
                Warns,
                "Pods that must be evicted and have a controller of a kind that is not part of Kubernetes. The hook does not know whether the controller recreates them, or what a restart costs.",
                "find out what the controller does when one of its pods is evicted",
            ),
            Self::TerminatingPods => (
                "terminating-pods",
                Warns,
                "Pods that have been terminating for more than ten minutes and are past their grace period. Their node would wait for them, and their processes may still own the device.",
                "find out what keeps them (finalizers, an unreachable kubelet, a device that does not respond), and repair or skip the node",
            ),
            Self::UndeclaredDeviceUsers => (
                "undeclared-device-users",
                Warns,
                "Pods that may use the device without requesting it: through a runtime class, or through the device files of the host. No step evicts them, so the driver may not unload.",
                "select them with extraConsumers of the policy, or delete them yourself",
            ),
            Self::HeldClaims => (
                "held-claims",
                Warns,
                "ResourceClaims with GPUs that running pods hold. NVIDIA's controller up to v26.3 does not detect such pods; the DRA driver must run until they are gone.",
                "with an operator before v26.7, evict these pods yourself or use mode drive",
            ),
            Self::LeftoverClaims => (
                "leftover-claims",
                Warns,
                "GPU ResourceClaims that are stuck in deletion, or are reserved for pods that no longer exist. Pods that were force-deleted leave such claims.",
                "find out which node still has them prepared; do not remove their finalizers while the DRA driver of that node can still unprepare them",
            ),
            Self::KubernetesUpgrade => (
                "kubernetes-upgrade",
                Warns,
                "Nodes with the device that have different kubelet versions: an upgrade of Kubernetes may be in progress, which cordons and drains the same nodes.",
                "finish one of the two upgrades before you start the other",
            ),
            Self::NotReadyNodes => (
                "not-ready-nodes",
                Warns,
                "Nodes with the device that are not ready: they count as unavailable, and their driver cannot be replaced.",
                "repair or remove them, or raise tolerateNotReady",
            ),
            Self::ForeignCordons => (
                "foreign-cordons",
                Warns,
                "Nodes with a foreign cordon. The hook does not upgrade them unless the policy includes them; NVIDIA's controller upgrades them even if no slot is free.",
                "uncordon them, or set foreignCordon to `include`",
            ),
            Self::NodeMaintenance => (
                "node-maintenance",
                Warns,
                "Nodes with a NodeMaintenance: another user or controller has asked NVIDIA's maintenance-operator to take them out of service. The hook waits for them.",
                "find out who requested the maintenance and when it ends: kubectl get nodemaintenances -A",
            ),
            Self::PausedOperands => (
                "paused-operands",
                Warns,
                "On nodes whose driver is ready or absent: labels that the driver manager set to remove operands during an upgrade, and did not reset. No controller brings the operands back.",
                "remove the suffix `_paused-for-driver-upgrade` from the value of each label; if the value is only `paused-for-driver-upgrade`, set the label to `true`",
            ),
            Self::Leftovers => (
                "leftovers",
                Warns,
                "Labels and annotations of gpu-rollout on nodes: an earlier run was interrupted, or is still running.",
                "if a hook is still running (see gpu-rollout status), wait until it ends. To continue an interrupted run, deploy again. To give it up, run gpu-rollout abort: it ends all rollouts, and removes the labels, annotations and cordons that gpu-rollout has set",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_listed_once_under_its_name() {
        let mut all = PreflightCheck::ALL.to_vec();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), PreflightCheck::ALL.len());
        for check in PreflightCheck::ALL {
            assert_eq!(serde_json::to_value(check).expect("a name"), check.name());
        }
    }

    #[test]
    fn a_user_may_turn_each_check() {
        let strictness: CheckStrictness = serde_json::from_str(
            r#"{"empty-dir": "warn", "not-ready-nodes": "block", "leftovers": "ignore"}"#,
        )
        .expect("strictness");
        let severity = |check| strictness.severity(check, Mode::Assist);
        assert_eq!(severity(PreflightCheck::EmptyDir), Some(CheckSeverity::Warning));
        assert_eq!(severity(PreflightCheck::NotReadyNodes), Some(CheckSeverity::Blocking));
        assert_eq!(severity(PreflightCheck::Leftovers), None);
        assert_eq!(
            severity(PreflightCheck::Actors),
            Some(CheckSeverity::Warning),
            "with assist the operator goes on without us"
        );
        assert_eq!(
            strictness.severity(PreflightCheck::Actors, Mode::Steer),
            Some(CheckSeverity::Blocking)
        );
        assert_eq!(severity(PreflightCheck::TimeBudget), Some(CheckSeverity::Warning));
        assert_eq!(
            strictness.severity(PreflightCheck::TimeBudget, Mode::Drive),
            Some(CheckSeverity::Blocking)
        );
        assert!(
            serde_json::from_str::<CheckStrictness>(r#"{"empty-dirs": "warn"}"#).is_err(),
            "no such check"
        );
    }

    /// Settings that version 0.1.0 deployed are still in clusters.
    #[test]
    fn names_of_version_0_1_0_are_read() {
        for (old, check) in [
            ("budget-never-yields", PreflightCheck::BlockingBudgets),
            ("pinned-holders", PreflightCheck::UnevictableDeviceUsers),
            ("nobody-upgrades", PreflightCheck::AutoUpgradeOff),
            ("hidden-holders", PreflightCheck::UndeclaredDeviceUsers),
        ] {
            let text = json!({ old: "ignore" }).to_string();
            let strictness: CheckStrictness = serde_json::from_str(&text).expect(old);
            assert_eq!(strictness.severity(check, Mode::Assist), None, "{old}");
        }
    }

    #[test]
    fn dangerous_checks_cannot_be_downgraded() {
        for check in
            [PreflightCheck::Selectors, PreflightCheck::Actors, PreflightCheck::ManagerEviction]
        {
            for level in ["warn", "ignore"] {
                let text = format!(r#"{{"{}": "{level}"}}"#, check.name());
                let error =
                    serde_json::from_str::<CheckStrictness>(&text).expect_err(&text).to_string();
                assert!(
                    error.starts_with(&format!(
                        "the severity of `{}` cannot be lowered: expected `block`",
                        check.name()
                    )),
                    "{error}"
                );
            }
            let strict: CheckStrictness =
                serde_json::from_str(&format!(r#"{{"{}": "block"}}"#, check.name()))
                    .expect("stricter");
            assert_eq!(strict.severity(check, Mode::Assist), Some(CheckSeverity::Blocking));
        }
    }
}
