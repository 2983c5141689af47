//! What runs under a plugin on a node: driver and toolkit, and since when.

use jiff::{SignedDuration, Timestamp};

use observed::ObservedPod;
use observed::version::DriverVersion;

/// The longest that a driver takes from its container's start to its first readiness: the chart's startup probe gives it 21 minutes
/// (60 s, then 120 times 10 s); twice that and some for those who gave it more.
const FIRST_READINESS: SignedDuration = SignedDuration::from_hours(1);

/// Pods of a node take about as long to start; what differs by more is the work of a clock that was set.
const CLOCK_STEP: SignedDuration = SignedDuration::from_mins(20);

/// What runs under a plugin on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginBase {
    /// `<pod UID>/<restarts>` of driver and toolkit: another driver container is another identity.
    pub identity: String,
    /// The latest moment at which a container of driver or toolkit started, or their pods became ready.
    pub served_since: Option<Timestamp>,
    /// The driver's version, where its image tells.
    pub driver_version: Option<DriverVersion>,
    /// How the youngest of these pods began, if its containers were never restarted.
    pub beginning: Option<PodStart>,
    /// At most so far is the node's clock ahead of the API server's, by its pods: none starts before it is created.
    pub clock_lead: Option<SignedDuration>,
}

/// How a pod began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodStart {
    /// When the object was created, by the API server's clock.
    pub created: Timestamp,
    /// How much later its first containers started, by the node's clock.
    pub delay: SignedDuration,
}

impl PodStart {
    /// `None`: nothing runs, or it was restarted.
    pub fn of_pod(pod: &ObservedPod) -> Option<Self> {
        let once = pod.containers.iter().all(|container| container.restarts == 0);
        clock_lead(pod).filter(|_| once).map(|delay| Self { created: pod.created, delay })
    }
}

impl PluginBase {
    /// Why a plugin that seems to have started later than what it serves is stale all the same: its pod is the older one by the API server's clock, and the
    /// node's clock was set in between, so that container times do not tell an order.
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

/// By how much the node's clock is ahead of the API server's at most, as far as this pod tells.
pub fn clock_lead(pod: &ObservedPod) -> Option<SignedDuration> {
    let started = pod.containers.iter().filter_map(|container| container.started).min()?;
    Some(started.duration_since(pod.created))
}

/// When a pod's containers had started and it became ready. The Ready condition's time is renewed whenever the node or its kubelet goes
/// away for a moment: one that lies further from the start than a first readiness can is none, and the start counts alone.
pub(super) fn serves_since(pod: &ObservedPod) -> Option<Timestamp> {
    let started = pod.containers.iter().filter_map(|container| container.started).max()?;
    let latest = started.saturating_add(FIRST_READINESS).unwrap_or(Timestamp::MAX);
    let ready = pod.ready_since.filter(|ready| pod.ready && *ready <= latest);
    Some(ready.map_or(started, |ready| ready.max(started)))
}
