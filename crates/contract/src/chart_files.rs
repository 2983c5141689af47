//! Names of the files of a chart in a bundle. The code that writes bundles and the code that reads
//! them share these names.

/// The file that makes a directory a chart.
pub const CHART: &str = "Chart.yaml";
/// The values that a component shares with its hook.
pub const VALUES: &str = "values.yaml";
/// The hook's own settings.
pub const SETTINGS: &str = "rollout.yaml";
/// The folder with the recipe's own templates.
pub const FILES: &str = "files";
