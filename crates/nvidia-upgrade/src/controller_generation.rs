//! What differs between the releases of the operators that run the controller.

use jiff::SignedDuration;

use contract::driver::Driver;

use super::wake::WakingChange;

/// Pause between a pass that went well and the next (gpu-operator `controllers/upgrade_controller.go`, `plannedRequeueInterval`; the
/// network operator has the same).
pub const TICK: SignedDuration = SignedDuration::from_secs(120);

/// A line of releases with the same behavior.
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
    /// The releases, for people.
    pub releases: &'static str,
    /// A pod whose driver configuration is unchanged is restarted without moving workloads.
    pub restart_only: bool,
    /// NVIDIADrivers have policies of their own; before that the ClusterPolicy's was for all.
    pub policy_per_driver: bool,
    /// ResourceClaims make a pod a user of the GPU.
    pub claims: bool,
    /// Pods that use the device are evicted; without that there is only the drain.
    pub pod_deletion: bool,
    /// A validator must be ready.
    pub validation: bool,
    /// A policy without a `drain` section ends every pass.
    pub needs_drain: bool,
    /// Pause between two tries of an eviction that a PodDisruptionBudget refuses (kubectl 0.33: 5 s; from 0.35.1 on none).
    pub eviction_retry: SignedDuration,
    /// Pause after the first failed pass; it doubles …
    pub backoff_first: SignedDuration,
    /// … up to this.
    pub backoff_last: SignedDuration,
    /// What makes it run at once.
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
    // controller-runtime's own.
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

/// The row above, as far as a row below does not say otherwise.
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

    /// The generation of an operator of this version, such as `v26.3.1`. `None`: the version does not tell (a development build).
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

    /// Its row of the table.
    pub fn features(self) -> &'static GenerationFeatures {
        match self {
            Self::Gpu25 => &GPU_25,
            Self::Gpu26_3 => &GPU_26_3,
            Self::Gpu26_7 => &GPU_26_7,
            Self::Network => &NETWORK,
        }
    }

    /// The pause after so many failed passes in a row (1: after the first).
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
