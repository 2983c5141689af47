//! The checks of a preflight: one table, and how strict a user is about each. `docs/preflight.md` is made from it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::settings::Mode;

/// One thing that a preflight looks at.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PreflightCheck {
    /// A selector of the policy is none.
    Selectors,
    /// A PodDisruptionBudget that never lets a pod go.
    BudgetNeverYields,
    /// Pods whose emptyDir would be lost.
    EmptyDir,
    /// Pods that nobody would bring back.
    UnmanagedPods,
    /// Pods with the device that cannot be evicted.
    PinnedHolders,
    /// Pods whose controller is of a kind that Kubernetes does not know.
    ForeignControllers,
    /// Pods that are being deleted and do not end.
    TerminatingPods,
    /// Pods that may use the device without asking for it.
    HiddenHolders,
    /// ResourceClaims that running pods hold.
    HeldClaims,
    /// ResourceClaims that nobody gives back.
    LeftoverClaims,
    /// Driver DaemonSets that give way to others.
    DaemonSetIdentity,
    /// A change of mode that replaces every driver pod.
    ModeChange,
    /// Two that upgrade drivers, or none where one is steered.
    Actors,
    /// Nobody upgrades drivers.
    NobodyUpgrades,
    /// A driver manager that evicts beside the hook.
    ManagerEviction,
    /// A time budget that is too small.
    TimeBudget,
    /// Nodes of different Kubernetes versions.
    KubernetesUpgrade,
    /// No node is ready.
    NoReadyNodes,
    /// Nodes that are not ready.
    NotReadyNodes,
    /// Nodes that somebody else has cordoned.
    ForeignCordons,
    /// Nodes that somebody has in maintenance.
    NodeMaintenance,
    /// Operands that stay away since an upgrade that is over.
    PausedOperands,
    /// What an earlier run of ours has left.
    Leftovers,
}

/// What a finding means for the rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckSeverity {
    /// It must not begin.
    Blocking,
    /// It is worth knowing.
    Warning,
}

/// The severity of a check where the user says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultSeverity {
    /// It blocks.
    Blocks,
    /// It warns.
    Warns,
    /// It blocks where we drive the upgrade, and warns where the vendor's controller does.
    BlocksDrive,
    /// It blocks, and a user cannot turn that down: the rollout would be impossible, or bypass its own limits.
    AlwaysBlocks,
}

/// What a user makes of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckLevel {
    /// Its findings block.
    Block,
    /// Its findings warn.
    Warn,
    /// It is not looked at.
    Ignore,
}

/// How strict a user is, by check; what is not named is as in the table. Checks that always block can only be told to block, which in mode
/// `assist` they do not do by themselves.
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
            "`{}` cannot be turned down: expected `block`",
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
                (check.name().to_owned(), json!({"description": check.finds(), "enum": words}))
            })
            .collect();
        json_schema!({
            "description": "What becomes of the findings of a preflight, by check; what is not named is as `docs/preflight.md` says.",
            "type": "object",
            "additionalProperties": false,
            "properties": properties,
        })
    }
}

impl FromIterator<(PreflightCheck, CheckLevel)> for CheckStrictness {
    /// What a check does not take is left out.
    fn from_iter<I: IntoIterator<Item = (PreflightCheck, CheckLevel)>>(levels: I) -> Self {
        Self(levels.into_iter().filter(|(check, level)| check.takes(*level)).collect())
    }
}

impl CheckStrictness {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the severity of a check's findings; `None`: the user ignores them.
    pub fn severity(&self, check: PreflightCheck, mode: Mode) -> Option<CheckSeverity> {
        match self.0.get(&check) {
            Some(CheckLevel::Block) => Some(CheckSeverity::Blocking),
            Some(CheckLevel::Warn) => Some(CheckSeverity::Warning),
            Some(CheckLevel::Ignore) => None,
            None => Some(match check.normally() {
                // There the operator goes on as it would without us.
                _ if mode == Mode::Assist => CheckSeverity::Warning,
                DefaultSeverity::Blocks | DefaultSeverity::AlwaysBlocks => CheckSeverity::Blocking,
                DefaultSeverity::BlocksDrive if mode == Mode::Drive => CheckSeverity::Blocking,
                DefaultSeverity::Warns | DefaultSeverity::BlocksDrive => CheckSeverity::Warning,
            }),
        }
    }
}

impl CheckLevel {
    /// Every level, from the strictest on.
    pub const ALL: [Self; 3] = [Self::Block, Self::Warn, Self::Ignore];
}

impl PreflightCheck {
    /// Whether a user may say this of it.
    pub fn takes(self, level: CheckLevel) -> bool {
        level == CheckLevel::Block || self.normally() != DefaultSeverity::AlwaysBlocks
    }

    /// Every check, in the order of findings and of the page.
    pub const ALL: [Self; 23] = [
        Self::Selectors,
        Self::Actors,
        Self::ManagerEviction,
        Self::NoReadyNodes,
        Self::DaemonSetIdentity,
        Self::BudgetNeverYields,
        Self::EmptyDir,
        Self::UnmanagedPods,
        Self::PinnedHolders,
        Self::TimeBudget,
        Self::NobodyUpgrades,
        Self::ModeChange,
        Self::ForeignControllers,
        Self::TerminatingPods,
        Self::HiddenHolders,
        Self::HeldClaims,
        Self::LeftoverClaims,
        Self::KubernetesUpgrade,
        Self::NotReadyNodes,
        Self::ForeignCordons,
        Self::NodeMaintenance,
        Self::PausedOperands,
        Self::Leftovers,
    ];

    /// Its name, as settings, findings and the page have it.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Its severity where the user says nothing.
    pub fn normally(self) -> DefaultSeverity {
        self.row().1
    }

    /// What it finds, and why that matters.
    pub fn finds(self) -> &'static str {
        self.row().2
    }

    /// What people can do about it.
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
                "A label selector of the policy that is none, or one of `extraConsumers` that selects every pod.",
                "correct the selector",
            ),
            Self::Actors => (
                "actors",
                AlwaysBlocks,
                "In mode `drive` an `autoUpgrade` that is on: two would upgrade the same nodes. In `steer` one that is off: nobody would.",
                "deploy the operator's release with the values of this mode",
            ),
            Self::NobodyUpgrades => (
                "nobody-upgrades",
                Warns,
                "In the modes `observe` and `assist` an `autoUpgrade` that is off: the operator changes its DaemonSets, and no driver pod is replaced.",
                "set autoUpgrade, let the hook drive, or delete the driver pods yourself, node by node",
            ),
            Self::ManagerEviction => (
                "manager-eviction",
                AlwaysBlocks,
                "In mode `drive` a driver manager that evicts or drains by itself: it goes round the policy, and uncordons nodes that others cordoned.",
                "set ENABLE_GPU_POD_EVICTION and ENABLE_AUTO_DRAIN to \"false\" in driver.manager.env",
            ),
            Self::NoReadyNodes => (
                "no-ready-nodes",
                Blocks,
                "There are nodes with the device, and none of them is ready. With precompiled drivers the operator then makes and deletes its DaemonSet in a loop.",
                "repair the nodes first",
            ),
            Self::DaemonSetIdentity => (
                "daemon-set-identity",
                Blocks,
                "Values under which the operator deletes a driver DaemonSet and makes another one (precompiled or not, ClusterPolicy or NVIDIADriver, driver off), and nodes that have left the selector of theirs. The driver pods are then replaced at once and outside every policy, under running workloads.",
                "drain the nodes first and change it in a maintenance window, or leave it as it is",
            ),
            Self::BudgetNeverYields => (
                "budget-never-yields",
                Blocks,
                "A PodDisruptionBudget under which a pod that has to go never may. The eviction would be tried until its time is over.",
                "change the PodDisruptionBudget, or the number of replicas, before the rollout",
            ),
            Self::EmptyDir => (
                "empty-dir",
                Blocks,
                "Pods that have to go, with an emptyDir that would be lost. The vendor's controller then touches no pod of the node and calls it failed. Training pods nearly always have one in memory for /dev/shm.",
                "set deleteEmptyDir where nothing of value is in them (in memory nothing can be kept), or end the pods yourself",
            ),
            Self::UnmanagedPods => (
                "unmanaged-pods",
                Blocks,
                "Pods that have to go and that nobody brings back: without a controller, or with a DaemonSet that is gone.",
                "set force where they may be lost, or end the pods yourself",
            ),
            Self::PinnedHolders => (
                "pinned-holders",
                Blocks,
                "Pods of DaemonSets and static pods that use the device. They cannot be evicted, and the driver does not unload while they run.",
                "give the DaemonSet the node selector nvidia.com/gpu.deploy.client: \"true\" (and the nodes that label), so that the driver manager sends its pods away (v0.12 and later), or take it off the nodes for the time of the rollout",
            ),
            Self::TimeBudget => (
                "time-budget",
                BlocksDrive,
                "A time budget of the Job that is smaller than what all nodes of the live fleet take by the policy.",
                "raise the budget to the number that is named (from a recipe: rollout.gpuDriver.perNode, cluster.gpuNodes), or upgrade more nodes at once",
            ),
            Self::ModeChange => (
                "mode-change",
                Warns,
                "Into and out of mode `drive` the environment of the driver manager changes, and with it the template of the driver DaemonSets: every driver pod is replaced once.",
                "do it together with a driver version",
            ),
            Self::ForeignControllers => (
                "foreign-controllers",
                Warns,
                "Pods that have to go, with a controller of a kind that is not Kubernetes' own. Nobody here knows whether it brings them back, and what a restart costs it.",
                "see what the controller does when one of its pods is evicted",
            ),
            Self::TerminatingPods => (
                "terminating-pods",
                Warns,
                "Pods that have been terminating for more than ten minutes and past their grace period. Their node would wait for them, and their processes may still own the device.",
                "see what holds them (finalizers, an unreachable kubelet, a device that does not answer), and repair or skip the node",
            ),
            Self::HiddenHolders => (
                "hidden-holders",
                Warns,
                "Pods that may use the device without asking for it: by runtime class, or by the host's device files. Nobody evicts them, and the driver may not unload.",
                "select them by the policy's extraConsumers, or end them yourself",
            ),
            Self::HeldClaims => (
                "held-claims",
                Warns,
                "ResourceClaims with GPUs that running pods hold. The vendor's controller up to v26.3 does not see such pods; the DRA driver must run until they are gone.",
                "with an operator before v26.7, evict these pods yourself or let the hook drive",
            ),
            Self::LeftoverClaims => (
                "leftover-claims",
                Warns,
                "ResourceClaims with GPUs that are reserved for pods that are gone, or that do not end. Pods that were deleted by force leave such claims.",
                "see which node still has them prepared; do not strip finalizers while the DRA driver of the node can still do it",
            ),
            Self::KubernetesUpgrade => (
                "kubernetes-upgrade",
                Warns,
                "Nodes with the device whose kubelets are of different versions: an upgrade of Kubernetes may be on its way, which cordons and drains the same nodes.",
                "let one of the two upgrades end before the other one begins",
            ),
            Self::NotReadyNodes => (
                "not-ready-nodes",
                Warns,
                "Nodes with the device that are not ready: they count as unavailable, and their driver cannot be replaced.",
                "repair or remove them, or raise rollout.tolerateNotReady",
            ),
            Self::ForeignCordons => (
                "foreign-cordons",
                Warns,
                "Nodes that somebody else has cordoned. They are left alone unless the policy includes them; the vendor's controller takes them first and past its limits.",
                "uncordon them, or choose by policy.foreignCordon",
            ),
            Self::NodeMaintenance => (
                "node-maintenance",
                Warns,
                "Nodes that somebody has asked NVIDIA's maintenance-operator to take out of service. They are waited for.",
                "see who asked and when it ends: kubectl get nodemaintenances -A",
            ),
            Self::PausedOperands => (
                "paused-operands",
                Warns,
                "Node labels by which the driver manager sent operands away for an upgrade, on nodes whose driver is ready or not there. Nobody brings the operands back.",
                "set the labels back to what stands before `paused-for-driver-upgrade` (that text alone: to true)",
            ),
            Self::Leftovers => (
                "leftovers",
                Warns,
                "Labels and annotations of gpu-rollout on nodes: an earlier run was ended, or is still at work.",
                "nothing, if that run is to go on: the next one continues from there; otherwise uncordon the node if the cordon is of that run, and remove them",
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
                        "`{}` cannot be turned down: expected `block`",
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
