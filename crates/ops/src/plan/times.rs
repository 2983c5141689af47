//! Measures how long drivers take to start in this cluster, from the running pods.

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Serialize;

use contract::driver::Driver;
use contract::names;
use observed::{Observed, ObservedPod};
use planner::node::{DriverOperands, driver_nodes};
use simulator::random::TimeSpread;
use simulator::setup::SimulationTimes;

/// A pod that became ready later than this after its creation did so for another reason than its
/// start.
const STARTS_WITHIN: SignedDuration = SignedDuration::from_hours(1);
/// With at least this many pods, the slowest twentieth is left out.
const MANY: usize = 20;

/// Measured durations in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredSeconds {
    /// The minimum.
    pub least_seconds: u64,
    /// The median.
    pub middle_seconds: u64,
    /// The maximum, without outliers.
    pub most_seconds: u64,
    /// The number of measured pods.
    pub pods: usize,
}

/// The measurements of the running pods.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PodMeasurements {
    /// The time from a driver pod's creation to its readiness.
    pub(crate) driver: Option<MeasuredSeconds>,
    /// The time from the driver's readiness to the toolkit's.
    pub(crate) toolkit: Option<MeasuredSeconds>,
    /// The time from the toolkit's readiness to the validator's.
    pub(crate) validator: Option<MeasuredSeconds>,
}

fn spread(mut all: Vec<i64>) -> Option<MeasuredSeconds> {
    all.retain(|seconds| (0..=STARTS_WITHIN.as_secs()).contains(seconds));
    all.sort_unstable();
    let pods = all.len();
    let most = if pods >= MANY { pods - pods.div_ceil(20) } else { pods.checked_sub(1)? };
    let seconds = |place: usize| u64::try_from(all[place]).unwrap_or(0);
    Some(MeasuredSeconds {
        least_seconds: seconds(0),
        middle_seconds: seconds(most / 2),
        most_seconds: seconds(most),
        pods,
    })
}

/// Measures how long pods took to start. Pods that are not ready, or whose container was restarted,
/// are left out.
pub(crate) fn measured(observed: &Observed, driver: Driver) -> PodMeasurements {
    let operands = DriverOperands::new(observed, driver);
    let undisturbed = |pod: &&ObservedPod| {
        pod.ready && pod.containers.iter().all(|container| container.restarts == 0)
    };
    let (mut drivers, mut toolkits, mut validators) = (Vec::new(), Vec::new(), Vec::new());
    for node in driver_nodes(observed, driver) {
        let Some(pod) = operands.driver_pod(node).map(|driver| driver.pod).filter(undisturbed)
        else {
            continue;
        };
        let Some(ready) = pod.ready_since else { continue };
        drivers.push(ready.duration_since(pod.created).as_secs());
        let (key, value) = names::TOOLKIT_APP;
        let is_toolkit =
            |pod: &&ObservedPod| pod.labels.get(key).is_some_and(|found| found == value);
        let Some(toolkit) = observed
            .pods
            .on(&node.name)
            .filter(is_toolkit)
            .find(undisturbed)
            .and_then(|pod| pod.ready_since)
        else {
            continue;
        };
        toolkits.push(toolkit.duration_since(ready).as_secs());
        let validator =
            observed.validators.on(&node.name).find(undisturbed).and_then(|pod| pod.ready_since);
        validators.extend(
            validator.map(|validator| validator.duration_since(toolkit.max(ready)).as_secs()),
        );
    }
    PodMeasurements {
        driver: spread(drivers),
        toolkit: spread(toolkits),
        validator: spread(validators),
    }
}

/// Returns the times to draw: as measured or as assumed. Timestamps of objects have whole seconds,
/// so a measured time may be off by one second.
pub(super) fn times(measured: &PodMeasurements, driver: Option<TimeSpread>) -> SimulationTimes {
    let of = |measured: Option<MeasuredSeconds>, or: TimeSpread| {
        measured.map_or(
            or,
            |MeasuredSeconds { least_seconds, middle_seconds, most_seconds, .. }| {
                TimeSpread::Halves {
                    least: least_seconds.saturating_sub(1) * 1000,
                    middle: middle_seconds * 1000,
                    most: (most_seconds + 1) * 1000,
                }
            },
        )
    };
    let usual = SimulationTimes::default();
    SimulationTimes {
        driver: driver.unwrap_or_else(|| of(measured.driver, usual.driver)),
        toolkit: of(measured.toolkit, usual.toolkit),
        validator: of(measured.validator, usual.validator),
        // A pod may end at once or use its whole grace period.
        operand_end: TimeSpread::Uniform(0, usual.operand_end.most()),
        grace_percent: TimeSpread::Uniform(0, 100),
        recreate: TimeSpread::Uniform(0, 1_000),
        pod_start: TimeSpread::Uniform(0, usual.pod_start.most()),
        plugin: TimeSpread::Uniform(0, usual.plugin.most()),
        ..usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_pods_the_slowest_are_outliers() {
        assert_eq!(spread(vec![]), None);
        assert_eq!(
            spread(vec![90, -3, 4000]),
            Some(MeasuredSeconds {
                least_seconds: 90,
                middle_seconds: 90,
                most_seconds: 90,
                pods: 1
            })
        );
        let many: Vec<i64> = (100..119).chain([3000]).collect();
        assert_eq!(
            spread(many),
            Some(MeasuredSeconds {
                least_seconds: 100,
                middle_seconds: 109,
                most_seconds: 3000,
                pods: 20
            })
        );
        let more: Vec<i64> = (100..139).chain([3000]).collect();
        assert_eq!(
            spread(more),
            Some(MeasuredSeconds {
                least_seconds: 100,
                middle_seconds: 119,
                most_seconds: 138,
                pods: 40
            })
        );
    }
}
