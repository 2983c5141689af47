//! Staleness of the DRA kubelet plugin. The plugin resolves the driver's libraries once, when its
//! container starts: a plugin that started before its driver (or container toolkit) serves files
//! that no longer exist. Its readiness does not show this.

use super::node::PluginBase;
use observed::version::DriverVersion;
use observed::{ObservedPod, ObservedSlice};

/// Seconds within which a ready plugin must publish; only then does an old `driverVersion` count as
/// stale.
pub const PUBLISH_SECONDS: u64 = 30;

/// Returns why the plugin is stale; `None` if it is not. `outdated`: the plugin had
/// [`PUBLISH_SECONDS`] to publish the loaded version, and publishes another one.
pub fn staleness(
    plugin: &ObservedPod,
    base: &PluginBase,
    slices: &[&ObservedSlice],
    outdated: bool,
) -> Option<String> {
    // The container with the earliest start decides; a pod without running containers serves no old
    // driver.
    let started = plugin.containers.iter().filter_map(|container| container.started).min();
    // Times have a resolution of one second: equal times count as stale.
    if let (Some(started), Some(served_since)) = (started, base.served_since)
        && started <= served_since
    {
        return Some(format!(
            "its container started at {started:.0}, its driver or toolkit became ready at {served_since:.0}"
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

/// Returns the published and the loaded driver version, if both are known and differ.
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
