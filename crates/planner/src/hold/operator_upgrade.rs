//! Holds before an upgrade of the GPU Operator. Between `helm upgrade` and the hook behind it, the
//! old operator renders the new spec, and then the new operator renders it again: nodes that
//! NVIDIA's controller starts in between replace their driver pod twice.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::spec::chart;
use contract::driver::Driver;
use contract::settings::{HoldNodes, Mode, Settings};
use observed::{Observed, ObservedDeployment, ObservedNode};

/// The format of [`UpgradeHold`].
const FORMAT_VERSION: u32 = 1;

/// The contents of the hold's annotation: who holds the node, and for which deployment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeHold {
    version: u32,
    /// `namespace/name` of the hook release that holds the node.
    pub release: String,
    /// Its trigger digest D.
    pub digest: String,
    /// The operator's version at that time; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The operator's version that is about to be deployed; `None` if the release does not specify
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// When the node was held.
    pub at: Timestamp,
}

impl UpgradeHold {
    /// Returns the contents of the node's annotation; `None` if the node has no such hold.
    pub fn read(node: &ObservedNode, driver: Driver) -> Option<Self> {
        if !super::is_held(node, driver) {
            return None;
        }
        // Mode `steer` writes `true`, and a pause writes its own word: neither is JSON of this
        // form.
        serde_json::from_str(node.annotations.get(driver.traits().hold)?).ok()
    }

    /// Returns the annotation's value.
    pub fn value(&self) -> String {
        // A struct of plain fields always has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the change of the operator's version, for messages.
    pub fn change(&self) -> String {
        let known = |version: &Option<String>| {
            version.clone().unwrap_or_else(|| "an unknown version".to_owned())
        };
        format!("from {} to {}", known(&self.from), known(&self.to))
    }
}

/// What task `hold` does with the nodes before the operator's release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldPlan {
    /// Mode `steer`: each node is held until it is started.
    UntilStarted,
    /// The operator's version changes: each node is held until the new operator has rendered its
    /// DaemonSets.
    UntilRendered(UpgradeHold),
    /// No node is held, for this reason.
    Leave(String),
}

/// Decides whether nodes are held before the operator's release. `now` becomes the time of the
/// holds.
pub fn before_operator(observed: &Observed, settings: &Settings, now: Timestamp) -> HoldPlan {
    let change = version_change(observed, settings, now);
    match settings.mode {
        // If the version does not change, or if the leader of the operator is not watched, the hold
        // is an ordinary one.
        Mode::Steer => change.ok().map_or(HoldPlan::UntilStarted, HoldPlan::UntilRendered),
        Mode::Assist => match (settings.operator_upgrade.hold, change) {
            (HoldNodes::Never, _) => {
                HoldPlan::Leave("`operatorUpgrade.hold` is `never`".to_owned())
            }
            (HoldNodes::Auto | HoldNodes::Always, Ok(hold)) => HoldPlan::UntilRendered(hold),
            (HoldNodes::Always, Err(UnchangedOperator::Same(version))) => HoldPlan::UntilRendered(
                new_hold(settings, now, Some(version.clone()), Some(version)),
            ),
            (HoldNodes::Auto, Err(UnchangedOperator::Same(version))) => HoldPlan::Leave(format!(
                "{} {version} is already installed",
                settings.driver.traits().operator
            )),
            (HoldNodes::Auto | HoldNodes::Always, Err(UnchangedOperator::FirstInstall)) => {
                HoldPlan::Leave(format!(
                    "there is no {} to upgrade",
                    settings.driver.traits().operator
                ))
            }
            (HoldNodes::Auto | HoldNodes::Always, Err(UnchangedOperator::OtherDriver)) => {
                HoldPlan::Leave(
                    "mode `assist` holds nodes only before an upgrade of the GPU Operator"
                        .to_owned(),
                )
            }
        },
        // Mode `observe` does not write to nodes. In mode `drive`, the operator does not upgrade
        // drivers.
        Mode::Observe | Mode::Drive => {
            HoldPlan::Leave(format!("mode `{}` does not hold nodes", settings.mode.name()))
        }
    }
}

/// Why the operator's version does not change.
enum UnchangedOperator {
    /// The live operator has this version.
    Same(String),
    /// There is no operator.
    FirstInstall,
    /// The driver is not the GPU Operator's.
    OtherDriver,
}

/// Returns the hold for a change of the operator's version. An unknown version counts as a change.
fn version_change(
    observed: &Observed,
    settings: &Settings,
    now: Timestamp,
) -> Result<UpgradeHold, UnchangedOperator> {
    if settings.driver != Driver::Gpu {
        return Err(UnchangedOperator::OtherDriver);
    }
    let operator = observed.operator.as_ref().ok_or(UnchangedOperator::FirstInstall)?;
    let (from, to) = (live_version(operator, settings), settings.component_version.clone());
    match (from, to) {
        (Some(from), Some(to)) if without_prefix(&from) == without_prefix(&to) => {
            Err(UnchangedOperator::Same(to))
        }
        (from, to) => Ok(new_hold(settings, now, from, to)),
    }
}

fn new_hold(
    settings: &Settings,
    now: Timestamp,
    from: Option<String>,
    to: Option<String>,
) -> UpgradeHold {
    let release = format!("{}/{}", settings.namespace, settings.release);
    UpgradeHold {
        version: FORMAT_VERSION,
        release,
        digest: settings.digest.clone(),
        from,
        to,
        at: now,
    }
}

/// Returns the version of the live operator: the version of its chart, otherwise of its program.
fn live_version(operator: &ObservedDeployment, settings: &Settings) -> Option<String> {
    let of_chart = operator
        .chart
        .as_deref()
        .and_then(|label| chart::version_of(label, settings.driver.traits().component));
    of_chart.map(str::to_owned).or_else(|| operator.version.clone())
}

/// Labels cannot contain a `+`; Helm ignores a leading `v`.
fn without_prefix(version: &str) -> String {
    version.trim_start_matches('v').replace('+', "_")
}

/// Returns whether the operator's version has changed, so that the new operator is expected to
/// render its DaemonSets again: nodes have holds for that, or the operator had another version,
/// `settled`, when a run last succeeded.
pub fn is_expected_to_render(
    observed: &Observed,
    settings: &Settings,
    settled: Option<&str>,
) -> bool {
    let driver = settings.driver;
    let holds = |node: &ObservedNode| {
        UpgradeHold::read(node, driver).is_some_and(|hold| hold.from != hold.to)
    };
    let was_other = || {
        settled
            .zip(operator_version(observed, settings))
            .is_some_and(|(settled, live)| settled != live)
    };
    driver == Driver::Gpu && (was_other() || observed.nodes.values().any(holds))
}

/// Returns the version of the live operator; `None` if unknown.
pub fn operator_version(observed: &Observed, settings: &Settings) -> Option<String> {
    observed
        .operator
        .as_ref()
        .and_then(|operator| live_version(operator, settings))
        .map(|version| without_prefix(&version))
}
