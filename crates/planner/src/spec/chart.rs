//! Checks that a component has the version that this hook expects. A deployer that does not order
//! releases may have installed the new values before the new chart, or the reverse: the fleet then
//! looks settled in the state before the upgrade, and changes again.

use crate::reason::Reason;
use contract::names;
use contract::settings::Settings;
use observed::{ObservedDaemonSet, ObservedDeployment};

/// Longer values of [`names::CHART_LABEL`] are truncated, so their version is unknown.
const LONGEST_LABEL: usize = 63;

/// Checks the operator, if the hook belongs to it. An operator without a chart label passes.
///
/// # Errors
/// [`Reason::OtherChart`].
pub fn of_operator(operator: &ObservedDeployment, settings: &Settings) -> Result<(), Reason> {
    if settings.component != settings.driver.traits().component {
        return Ok(());
    }
    check_chart(operator.chart.as_deref(), settings, || {
        format!("deployment/{}", settings.operator_deployment())
    })
}

/// Checks the DRA driver's plugins in the hook's own namespace, if the hook belongs to the DRA
/// driver.
///
/// # Errors
/// [`Reason::OtherChart`].
pub fn of_plugins<'a>(
    mut daemon_sets: impl Iterator<Item = &'a ObservedDaemonSet>,
    settings: &Settings,
) -> Result<(), Reason> {
    if settings.component != names::DRA_DRIVER {
        return Ok(());
    }
    daemon_sets.try_for_each(|daemon_set| {
        if daemon_set.namespace != settings.namespace {
            return Ok(());
        }
        check_chart(daemon_set.chart.as_deref(), settings, || {
            format!("daemonset/{}", daemon_set.name)
        })
    })
}

fn check_chart(
    chart: Option<&str>,
    settings: &Settings,
    object: impl FnOnce() -> String,
) -> Result<(), Reason> {
    let (Some(chart), Some(version)) = (chart, settings.component_version.as_deref()) else {
        return Ok(());
    };
    if is_version(chart, version) {
        return Ok(());
    }
    Err(Reason::OtherChart {
        object: object(),
        found: chart.to_owned(),
        expected: version.to_owned(),
    })
}

/// Returns whether a chart label ends with a version; a leading `v` is ignored, as in Helm.
pub fn is_version(chart: &str, version: &str) -> bool {
    let version = version.trim_start_matches('v').replace('+', "_");
    chart.len() >= LONGEST_LABEL
        || chart
            .strip_suffix(&version)
            .is_some_and(|rest| rest.ends_with('-') || rest.ends_with("-v"))
}

/// Returns the version in the label of a chart of this name.
pub fn version_of<'l>(label: &'l str, chart: &str) -> Option<&'l str> {
    label.strip_prefix(chart)?.strip_prefix('-').filter(|_| label.len() < LONGEST_LABEL)
}

#[cfg(test)]
mod tests {
    use super::{is_version, version_of};

    #[test]
    fn the_label_of_another_chart_tells_nothing() {
        assert_eq!(version_of("gpu-operator-v26.3.1", "gpu-operator"), Some("v26.3.1"));
        assert_eq!(version_of("network-operator-26.4.1", "gpu-operator"), None);
        assert_eq!(version_of("gpu-operatorv26.3.1", "gpu-operator"), None);
    }

    #[test]
    fn chart_label_tells_version_whatever_the_name() {
        for (chart, version, same) in [
            ("gpu-operator-v26.3.1", "v26.3.1", true),
            ("gpu-operator-v26.3.1", "26.3.1", true),
            ("network-operator-26.4.1", "v26.4.1", true),
            ("gpu-operator-v25.10.1", "v26.3.1", false),
            ("gpu-operator-v26.3.10", "v26.3.1", false),
            ("gpu-operator-v126.3.1", "v26.3.1", false),
            ("dra-driver-nvidia-gpu-25.12.0-rc.1", "25.12.0", false),
            ("gpu-operator-v26.3.1-rc.1_build5", "v26.3.1-rc.1+build5", true),
        ] {
            assert_eq!(is_version(chart, version), same, "{chart} {version}");
        }
    }
}
