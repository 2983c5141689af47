//! Differences between the versions of the operators that run the controller.

use jiff::SignedDuration;

use contract::driver::Driver;

use super::wake::WakingChange;

/// Pause between a successful pass and the next (gpu-operator `controllers/upgrade_controller.go`,
/// `plannedRequeueInterval`; the Network Operator uses the same).
pub const TICK: SignedDuration = SignedDuration::from_secs(120);

/// A range of versions with the same behavior.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControllerGeneration {
    /// gpu-operator v25.3 and v25.10.
    Gpu25,
    /// gpu-operator v26.3.
    Gpu26_3,
    /// gpu-operator v26.7.
    Gpu26_7,
    /// network-operator up to 26.7, with an older library.
    Network,
}

/// One row of the table.
#[expect(
    clippy::struct_excessive_bools,
    reason = "features that have nothing to do with one another"
)]
#[derive(Debug)]
pub struct GenerationFeatures {
    /// The releases, for messages.
    pub releases: &'static str,
    /// Whether a pod whose driver configuration is unchanged is restarted without an eviction of
    /// workloads.
    pub restart_only: bool,
    /// Whether NVIDIADrivers have their own policies; before, the ClusterPolicy's policy applied to
    /// all.
    pub policy_per_driver: bool,
    /// Whether ResourceClaims make a pod a user of the GPU.
    pub claims: bool,
    /// Whether pods that use the device are evicted; otherwise there is only the drain.
    pub pod_deletion: bool,
    /// Whether a validator must be ready.
    pub validation: bool,
    /// Whether a policy without a `drain` section ends every pass.
    pub needs_drain: bool,
    /// Pause between two attempts of an eviction that a PodDisruptionBudget refuses (kubectl 0.33:
    /// 5 s; none since 0.35.1).
    pub eviction_retry: SignedDuration,
    /// Pause after the first failed pass; it doubles …
    pub backoff_first: SignedDuration,
    /// … up to this.
    pub backoff_last: SignedDuration,
    /// Changes that make it run at once.
    pub wakes: &'static [WakingChange],
}

const GPU_25: GenerationFeatures = GenerationFeatures {
    releases: "gpu-operator v25.3 to v25.10",
    restart_only: false,
    policy_per_driver: false,
    claims: false,
    pod_deletion: true,
    validation: true,
    needs_drain: true,
    eviction_retry: SignedDuration::from_secs(5),
    backoff_first: SignedDuration::from_millis(100),
    backoff_last: SignedDuration::from_secs(3),
    wakes: &[
        WakingChange::NodeState,
        WakingChange::NodeCreated,
        WakingChange::NodeDeleted,
        WakingChange::PolicySpec,
        WakingChange::DaemonSetSpec,
    ],
};

const GPU_26_3: GenerationFeatures = GenerationFeatures {
    releases: "gpu-operator v26.3",
    eviction_retry: SignedDuration::ZERO,
    ..copy(&GPU_25)
};

const GPU_26_7: GenerationFeatures = GenerationFeatures {
    releases: "gpu-operator v26.7",
    restart_only: true,
    policy_per_driver: true,
    claims: true,
    needs_drain: false,
    wakes: &[
        WakingChange::NodeState,
        WakingChange::NodeSkip,
        WakingChange::NodeCreated,
        WakingChange::NodeDeleted,
        WakingChange::PolicySpec,
        WakingChange::DriverSpec,
        WakingChange::DaemonSetSpec,
    ],
    ..copy(&GPU_26_3)
};

const NETWORK: GenerationFeatures = GenerationFeatures {
    releases: "network-operator up to 26.7",
    restart_only: false,
    policy_per_driver: false,
    claims: false,
    pod_deletion: false,
    validation: false,
    needs_drain: false,
    eviction_retry: SignedDuration::ZERO,
    // The default of controller-runtime.
    backoff_first: SignedDuration::from_millis(5),
    backoff_last: SignedDuration::from_secs(1000),
    wakes: &[
        WakingChange::NodeState,
        WakingChange::NodeSkip,
        WakingChange::NodeLabel,
        WakingChange::NodeAnnotation,
        WakingChange::NodeCreated,
        WakingChange::PolicySpec,
        WakingChange::DaemonSetSpec,
        WakingChange::DaemonSetStatus,
        WakingChange::Maintenance,
    ],
};

/// Copies the row above; the row below overrides parts of it.
const fn copy(features: &GenerationFeatures) -> GenerationFeatures {
    GenerationFeatures {
        releases: features.releases,
        restart_only: features.restart_only,
        policy_per_driver: features.policy_per_driver,
        claims: features.claims,
        pod_deletion: features.pod_deletion,
        validation: features.validation,
        needs_drain: features.needs_drain,
        eviction_retry: features.eviction_retry,
        backoff_first: features.backoff_first,
        backoff_last: features.backoff_last,
        wakes: features.wakes,
    }
}

impl ControllerGeneration {
    /// Every generation.
    pub const ALL: [Self; 4] = [Self::Gpu25, Self::Gpu26_3, Self::Gpu26_7, Self::Network];

    /// Returns the generation of an operator of this version, such as `v26.3.1`; `None` if the
    /// version does not show it (a development build).
    pub fn from_version(driver: Driver, version: Option<&str>) -> Option<Self> {
        match driver {
            Driver::Gpu => {}
            Driver::Ofed => return Some(Self::Network),
            Driver::DaemonSet => return None,
        }
        let mut parts =
            version?.trim_start_matches('v').split('.').map(|part| part.parse::<u32>().ok());
        let (major, minor) = (parts.next()??, parts.next()??);
        Some(match (major, minor) {
            (..26, _) => Self::Gpu25,
            (26, ..7) => Self::Gpu26_3,
            (26.., _) => Self::Gpu26_7,
        })
    }

    /// Returns its row of the table.
    pub fn features(self) -> &'static GenerationFeatures {
        match self {
            Self::Gpu25 => &GPU_25,
            Self::Gpu26_3 => &GPU_26_3,
            Self::Gpu26_7 => &GPU_26_7,
            Self::Network => &NETWORK,
        }
    }

    /// Returns the pause after a number of consecutive failed passes (1: after the first).
    pub fn backoff(self, failures: u32) -> SignedDuration {
        let features = self.features();
        let doubled = 1_i32.checked_shl(failures.saturating_sub(1)).filter(|factor| *factor > 0);
        doubled
            .and_then(|factor| features.backoff_first.checked_mul(factor))
            .unwrap_or(features.backoff_last)
            .min(features.backoff_last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_of_generations() {
        for (version, generation) in [
            ("v25.3.0", Some(ControllerGeneration::Gpu25)),
            ("v25.10.1", Some(ControllerGeneration::Gpu25)),
            ("v26.3.1", Some(ControllerGeneration::Gpu26_3)),
            ("26.3.0", Some(ControllerGeneration::Gpu26_3)),
            ("v26.7.0", Some(ControllerGeneration::Gpu26_7)),
            ("v27.1.0", Some(ControllerGeneration::Gpu26_7)),
            ("main-latest", None),
        ] {
            assert_eq!(
                ControllerGeneration::from_version(Driver::Gpu, Some(version)),
                generation,
                "{version}"
            );
        }
        assert_eq!(
            ControllerGeneration::from_version(Driver::Ofed, None),
            Some(ControllerGeneration::Network)
        );
    }

    #[test]
    fn pause_after_errors_doubles_up_to_limit() {
        let pauses: Vec<i128> = (1..=8)
            .map(|failures| ControllerGeneration::Gpu26_7.backoff(failures).as_millis())
            .collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3000, 3000, 3000]);
        assert_eq!(ControllerGeneration::Network.backoff(40), SignedDuration::from_secs(1000));
    }
}
