//! Is a DRA kubelet plugin stale? It resolves the driver's libraries once, when its container starts: a plugin that started before the
//! driver (or the container toolkit) under it serves what is no longer there. Ready says nothing about it.

use super::node::PluginBase;
use observed::version::DriverVersion;
use observed::{ObservedPod, ObservedSlice};

/// How long a ready plugin gets to publish before an old `driverVersion` counts against it.
pub const PUBLISH_SECONDS: u64 = 30;

/// Why the plugin is stale; `None`: it is not. `outdated`: it has had its time to publish what is loaded, and publishes something else.
pub fn staleness(
    plugin: &ObservedPod,
    base: &PluginBase,
    slices: &[&ObservedSlice],
    outdated: bool,
) -> Option<String> {
    // The container that has been running longest decides; a pod without running containers serves nothing old.
    let started = plugin.containers.iter().filter_map(|container| container.started).min();
    // Times have a grain of one second: a tie is stale.
    if let (Some(started), Some(served_since)) = (started, base.served_since)
        && started <= served_since
    {
        return Some(format!(
            "its container started at {started:.0}, its driver or toolkit was ready at {served_since:.0}"
        ));
    }
    if let Some(cause) = base.replaced_under(plugin) {
        return Some(cause);
    }
    match outdated_slice(base, slices) {
        Some((published, loaded)) if outdated => {
            Some(format!("it publishes driver {published}, but driver {loaded} is loaded"))
        }
        Some(_) | None => None,
    }
}

/// The published and the loaded driver version, where both are known and differ.
pub fn outdated_slice(
    base: &PluginBase,
    slices: &[&ObservedSlice],
) -> Option<(DriverVersion, DriverVersion)> {
    let loaded = base.driver_version.as_ref()?;
    let published =
        slices.iter().filter_map(|slice| DriverVersion::parse(slice.driver_version.as_ref()?));
    published
        .filter(|published| published != loaded)
        .map(|published| (published, loaded.clone()))
        .next()
}
