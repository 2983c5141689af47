//! Finds settings of a hook that no recipe has a key for. They come from a hook chart that the user
//! installed without a recipe.

use contract::driver::Driver;
use contract::settings::{Mode, Settings};

/// Returns the chart's keys below `rollout` that a recipe of this hook would lose.
pub fn unmapped_settings(settings: &Settings) -> Vec<&'static str> {
    let (dra, plugin, usual) = (&settings.dra, &settings.device_plugin, Settings::default());
    let decides = settings.mode.decides() && settings.driver == Driver::Gpu;
    let rows = [
        (
            "upgrade.policy.podDeletion.enable",
            decides && settings.upgrade.policy.pod_deletion.is_none(),
        ),
        (
            "upgrade.extraConsumers",
            settings.mode == Mode::Steer && !settings.upgrade.extra_consumers.is_empty(),
        ),
        ("upgrade.acceptance", decides && !settings.upgrade.acceptance.is_empty()),
        ("graceSeconds", settings.grace_seconds != usual.grace_seconds),
        ("dra.maxUnavailable", dra.max_unavailable != usual.dra.max_unavailable),
        ("dra.replacementSeconds", dra.replacement_seconds != usual.dra.replacement_seconds),
        (
            "devicePlugin.maxUnavailable",
            plugin.max_unavailable != usual.device_plugin.max_unavailable,
        ),
        (
            "devicePlugin.replacementSeconds",
            plugin.replacement_seconds != usual.device_plugin.replacement_seconds,
        ),
    ];
    rows.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key).collect()
}
