//! The defaults of upgrade policies.

use contract::driver::Driver;
use contract::duration::Duration;
use contract::policy::{DrainPolicy, PodDeletionPolicy, UpgradeSettings};
use contract::proof::Halt;

use super::{RecipeDrain, RecipeOfedUpgradePolicy, RecipePodDeletion, RecipeUpgradePolicy};

impl RecipeUpgradePolicy {
    /// Returns the policy with the default of every absent key that has one: the defaults of the
    /// hook, which are those of NVIDIA's operators where these have the key.
    #[must_use]
    pub fn with_defaults(&self, driver: Driver) -> Self {
        let default = UpgradeSettings::default();
        // The Network Operator has neither step unless the policy names it.
        let is_gpu = driver == Driver::Gpu;
        let deletion =
            self.pod_deletion.clone().or_else(|| is_gpu.then(RecipePodDeletion::default));
        let drain = self.drain.clone().or_else(|| is_gpu.then(RecipeDrain::default));
        Self {
            max_parallel_upgrades: self
                .max_parallel_upgrades
                .or(Some(default.policy.max_parallel_upgrades)),
            max_unavailable: self.max_unavailable.or(default.policy.max_unavailable),
            wait_for_completion: self.wait_for_completion.clone(),
            pod_deletion: deletion.map(RecipePodDeletion::with_defaults),
            drain: drain.map(|drain| drain.with_defaults(!is_gpu)),
            failure_budget: self.failure_budget.or(Some(default.failure_budget)),
            attempts: self.attempts.or(Some(default.attempts)),
            soak: self.soak.or(Some(Duration::from_secs(default.soak_seconds))),
            windows: self.windows.clone(),
            canary: self.canary.clone(),
            ramp: self.ramp.clone(),
            halt: self.halt.or_else(|| Halt::of_steps(self.canary.is_some(), &self.ramp)),
            topology: self.topology.clone(),
            foreign_cordon: self.foreign_cordon.or(Some(default.foreign_cordon)),
            extra_consumers: self.extra_consumers.clone(),
            driver_start: self.driver_start.or(Some(Duration::from_secs(default.start_seconds))),
            validation: self.validation.or(Some(Duration::from_secs(default.validation_seconds))),
        }
    }
}

impl RecipeOfedUpgradePolicy {
    /// Returns the policy with the default of every absent key that has one.
    #[must_use]
    pub fn with_defaults(&self) -> Self {
        let common = self.common().with_defaults(Driver::Ofed);
        Self {
            max_parallel_upgrades: common.max_parallel_upgrades,
            max_unavailable: common.max_unavailable,
            wait_for_completion: common.wait_for_completion,
            pod_deletion: common.pod_deletion,
            drain: common.drain,
            safe_load: Some(self.safe_load.unwrap_or_default()),
            failure_budget: common.failure_budget,
            attempts: common.attempts,
            soak: common.soak,
            windows: common.windows,
            canary: common.canary,
            ramp: common.ramp,
            halt: common.halt,
            topology: common.topology,
            foreign_cordon: common.foreign_cordon,
            extra_consumers: common.extra_consumers,
            driver_start: common.driver_start,
        }
    }
}

impl RecipePodDeletion {
    fn with_defaults(self) -> Self {
        let default = PodDeletionPolicy::default();
        Self {
            force: self.force.or(Some(default.force)),
            timeout: self.timeout.or(Some(Duration::from_secs(default.timeout_seconds))),
            delete_empty_dir: self.delete_empty_dir.or(Some(default.delete_empty_dir)),
        }
    }
}

impl RecipeDrain {
    /// `drains`: whether an operator drains nodes if the policy has a drain.
    fn with_defaults(self, drains: bool) -> Self {
        let default = DrainPolicy::default();
        Self {
            enable: self.enable.or(Some(drains)),
            force: self.force.or(Some(default.force)),
            pod_selector: self.pod_selector.or(Some(default.pod_selector)),
            timeout: self.timeout.or(Some(Duration::from_secs(default.timeout_seconds))),
            delete_empty_dir: self.delete_empty_dir.or(Some(default.delete_empty_dir)),
        }
    }
}
