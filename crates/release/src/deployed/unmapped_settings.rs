//! Settings of a hook that no recipe has a key for: the user has installed it by its chart alone, with values of their own.

use crate::time::{DRA_MAX_UNAVAILABLE, REPLACEMENT_SECONDS};
use contract::driver::Driver;
use contract::settings::{DevicePluginSettings, Mode, Settings};

/// The hook chart's default.
const GRACE_SECONDS: u64 = 300;

/// Returns the chart's keys below `rollout` that a recipe of this hook would lose.
pub fn unmapped_settings(settings: &Settings) -> Vec<&'static str> {
    let (dra, plugin, usual) = (&settings.dra, &settings.device_plugin, DevicePluginSettings::default());
    let decides = settings.mode.decides() && settings.driver == Driver::Gpu;
    let rows = [
        ("upgrade.policy.podDeletion.enable", decides && settings.upgrade.policy.pod_deletion.is_none()),
        ("upgrade.extraConsumers", settings.mode == Mode::Steer && !settings.upgrade.extra_consumers.is_empty()),
        ("graceSeconds", settings.grace_seconds != GRACE_SECONDS),
        ("dra.maxUnavailable", dra.max_unavailable != DRA_MAX_UNAVAILABLE),
        ("dra.replacementSeconds", dra.replacement_seconds != REPLACEMENT_SECONDS),
        ("devicePlugin.maxUnavailable", plugin.max_unavailable != usual.max_unavailable),
        ("devicePlugin.replacementSeconds", plugin.replacement_seconds != usual.replacement_seconds),
    ];
    rows.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key).collect()
}
