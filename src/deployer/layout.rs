//! Which folder a release has: its place in the order, then its name.

use crate::release::{Plan, Release};

/// The values that a component shares with its hook.
pub const VALUES: &str = "values.yaml";
/// What makes a folder a chart.
pub const CHART: &str = "Chart.yaml";
/// The hook's own settings.
pub const SETTINGS: &str = "rollout.yaml";

/// The releases with their folders, in order.
pub fn folders(plan: &Plan) -> impl Iterator<Item = (String, &Release)> {
    plan.releases.iter().enumerate().map(|(index, release)| (format!("{:03}-{}", index + 1, release.name), release))
}

/// The folder of the release called `name`.
pub fn folder_of(plan: &Plan, name: &str) -> Option<String> {
    folders(plan).find(|(_, release)| release.name == name).map(|(folder, _)| folder)
}
