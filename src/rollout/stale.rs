//! Is a DRA kubelet plugin stale? It resolves the driver's libraries once, when its container starts: a plugin that started before the
//! driver (or the container toolkit) under it serves what is no longer there. Ready says nothing about it.

use jiff::{SignedDuration, Timestamp};

use super::node::Base;
use super::observed::{Pod, Slice};
use super::version::DriverVersion;

/// How long a ready plugin gets to publish before an old `driverVersion` counts against it.
pub const PUBLISH_SECONDS: i64 = 30;

/// Why the plugin is stale; `None`: it is not.
pub fn staleness(plugin: &Pod, base: &Base, slices: &[&Slice], now: Timestamp) -> Option<String> {
    // The container that has been running longest decides; a pod without running containers serves nothing old.
    let started = plugin.containers.iter().filter_map(|container| container.started).min();
    // Times have a grain of one second: a tie is stale.
    if let (Some(started), Some(served_since)) = (started, base.served_since)
        && started <= served_since
    {
        return Some(format!("its container started {started}, what it serves is there since {served_since}"));
    }
    let settled = published_by(plugin).is_some_and(|at| at <= now);
    match outdated_slice(base, slices) {
        Some((published, loaded)) if settled => Some(format!("it publishes driver {published}, loaded is {loaded}")),
        Some(_) | None => None,
    }
}

/// By when a plugin that is ready must have published what it serves.
pub fn published_by(plugin: &Pod) -> Option<Timestamp> {
    let since = plugin.ready_since.filter(|_| plugin.ready)?;
    Some(since.saturating_add(SignedDuration::from_secs(PUBLISH_SECONDS)).unwrap_or(Timestamp::MAX))
}

/// The published and the loaded driver version, where both are known and differ.
pub fn outdated_slice(base: &Base, slices: &[&Slice]) -> Option<(DriverVersion, DriverVersion)> {
    let loaded = base.driver_version.as_ref()?;
    let published = slices.iter().filter_map(|slice| DriverVersion::parse(slice.driver_version.as_ref()?));
    published.filter(|published| published != loaded).map(|published| (published, loaded.clone())).next()
}
