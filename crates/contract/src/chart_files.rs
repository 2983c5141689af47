//! Files of a chart in a bundle, by names that those who write bundles and those who read them agree on.

/// What makes a folder a chart.
pub const CHART: &str = "Chart.yaml";
/// The values that a component shares with its hook.
pub const VALUES: &str = "values.yaml";
/// The hook's own settings.
pub const SETTINGS: &str = "rollout.yaml";
