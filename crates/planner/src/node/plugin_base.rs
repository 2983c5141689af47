//! The driver and toolkit that a plugin on a node uses, and the time since which they have been
//! ready.

use jiff::{SignedDuration, Timestamp};

use observed::ObservedPod;
use observed::version::DriverVersion;

/// The maximum time from a driver container's start to its first readiness: the chart's startup
/// probe allows 21 minutes (60 s, then 120 times 10 s); this is twice that and more, for users who
/// raised it.
const FIRST_READINESS: SignedDuration = SignedDuration::from_hours(1);

/// Pods of a node take about the same time to start; a larger difference shows that a clock was
/// set.
const CLOCK_STEP: SignedDuration = SignedDuration::from_mins(20);

/// The driver and toolkit that a plugin on a node uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginBase {
    /// `<pod UID>/<restarts>` of driver and toolkit: another driver container is another identity.
    pub identity: String,
    /// The latest time at which a container of driver or toolkit started, or their pods became
    /// ready.
    pub served_since: Option<Timestamp>,
    /// The driver's version, if its image shows it.
    pub driver_version: Option<DriverVersion>,
    /// The start of the youngest of these pods, if its containers were never restarted.
    pub beginning: Option<PodStart>,
    /// Upper bound of how far the node's clock is ahead of the API server's, from its pods: none
    /// starts before it is created.
    pub clock_lead: Option<SignedDuration>,
}

/// The start of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodStart {
    /// When the object was created, by the API server's clock.
    pub created: Timestamp,
    /// How much later its first containers started, by the node's clock.
    pub delay: SignedDuration,
}

impl PodStart {
    /// Returns the start of a pod; `None` if nothing runs, or if a container was restarted.
    pub fn of_pod(pod: &ObservedPod) -> Option<Self> {
        let once = pod.containers.iter().all(|container| container.restarts == 0);
        clock_lead(pod).filter(|_| once).map(|delay| Self { created: pod.created, delay })
    }
}

impl PluginBase {
    /// Returns why a plugin is stale although it seems to have started after its driver and
    /// toolkit: by the API server's clock, its pod is older, and the node's clock was set in
    /// between, so that container times show no order.
    pub fn replaced_under(&self, plugin: &ObservedPod) -> Option<String> {
        let (base, plugin) = (self.beginning?, PodStart::of_pod(plugin)?);
        let is_set = base.delay.saturating_sub(plugin.delay).abs() > CLOCK_STEP;
        (plugin.created < base.created && is_set).then(|| {
            format!(
                "its pod was created at {:.0}, the pod of its driver or toolkit at {:.0}, and the node's clock was set in between",
                plugin.created, base.created
            )
        })
    }
}

/// Returns an upper bound of how far the node's clock is ahead of the API server's, from this pod.
pub fn clock_lead(pod: &ObservedPod) -> Option<SignedDuration> {
    let started = pod.containers.iter().filter_map(|container| container.started).min()?;
    Some(started.duration_since(pod.created))
}

/// Returns when a pod's containers had started and it became ready. The time of the Ready condition
/// is renewed whenever the node or its kubelet is temporarily away: a time too long after the start
/// is not the first readiness, and only the start counts.
pub(super) fn serves_since(pod: &ObservedPod) -> Option<Timestamp> {
    let started = pod.containers.iter().filter_map(|container| container.started).max()?;
    let latest = started.saturating_add(FIRST_READINESS).unwrap_or(Timestamp::MAX);
    let ready = pod.ready_since.filter(|ready| pod.ready && *ready <= latest);
    Some(ready.map_or(started, |ready| ready.max(started)))
}
