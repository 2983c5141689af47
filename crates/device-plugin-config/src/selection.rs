//! Determines which of several configurations a node gets.

use super::environment::PluginChart;
use super::rule::{ConfigFinding, ConfigRule};

/// The node label that selects a configuration.
pub const LABEL: &str = "nvidia.com/device-plugin.config";
/// The fallback name of the plugin's own chart.
const NAMED: &str = "default";
/// The longest value of a label.
const LONGEST_LABEL: usize = 63;

/// The configuration that a node gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectedConfig<'a> {
    /// The configuration of this name.
    Config(&'a str),
    /// No configuration: the plugin's defaults, with the environment.
    Empty,
    /// The plugin's pod does not start, for this reason.
    Fails(String),
}

/// Returns the configuration of a node without the label.
pub fn without_label<'a>(
    chart: PluginChart,
    names: &[&'a str],
    default: Option<&'a str>,
) -> SelectedConfig<'a> {
    if names.is_empty() {
        return SelectedConfig::Fails("there is no configuration".to_owned());
    }
    if let Some(default) = default.filter(|default| !default.is_empty()) {
        return if names.contains(&default) {
            SelectedConfig::Config(default)
        } else {
            SelectedConfig::Fails(format!(
                "the default `{default}` is not one of the configurations"
            ))
        };
    }
    match (chart, names) {
        (PluginChart::GpuOperator, _) => SelectedConfig::Empty,
        (PluginChart::DevicePlugin, [only]) => SelectedConfig::Config(only),
        (PluginChart::DevicePlugin, _) if names.contains(&NAMED) => SelectedConfig::Config(NAMED),
        (PluginChart::DevicePlugin, _) => SelectedConfig::Fails(format!(
            "there are several configurations, no default, and none with the name `{NAMED}`"
        )),
    }
}

/// Returns the finding if nodes without the label get the plugin's defaults.
pub fn no_default(names: &[&str]) -> ConfigFinding {
    let means_nothing = if names.contains(&NAMED) {
        format!("; the name `{NAMED}` has no special meaning there")
    } else {
        String::new()
    };
    ConfigRule::NoDefault
        .finding(format!("under the GPU Operator, nodes without the label `{LABEL}` get the plugin's defaults{means_nothing}"))
        .hint("name a default, unless this is intended")
}

/// Returns why no label can select a configuration of this name; `None` if one can.
pub fn unusable(name: &str) -> Option<String> {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_LABEL {
        Some(format!("a value of the node label `{LABEL}` has 1 to {LONGEST_LABEL} characters"))
    } else if !name.bytes().all(allowed) || !ends(name.bytes().next()) || !ends(name.bytes().last())
    {
        Some(format!(
            "a value of the node label `{LABEL}` has letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PluginChart::{DevicePlugin, GpuOperator};

    #[test]
    fn operator_has_no_fallback_and_chart_a_name() {
        let fails = |chart, names: &[&str], default| {
            matches!(without_label(chart, names, default), SelectedConfig::Fails(_))
        };
        assert_eq!(without_label(GpuOperator, &["default"], None), SelectedConfig::Empty);
        assert_eq!(without_label(GpuOperator, &["a"], Some("")), SelectedConfig::Empty);
        assert_eq!(without_label(GpuOperator, &["a", "b"], Some("b")), SelectedConfig::Config("b"));
        assert_eq!(without_label(DevicePlugin, &["a"], None), SelectedConfig::Config("a"));
        assert_eq!(
            without_label(DevicePlugin, &["a", "default"], None),
            SelectedConfig::Config("default")
        );
        assert!(
            fails(DevicePlugin, &["a", "b"], None)
                && fails(GpuOperator, &[], None)
                && fails(GpuOperator, &["a"], Some("b"))
        );
    }

    #[test]
    fn names_are_values_of_a_label() {
        for good in ["a", "a100-40gb", "A_1.b"] {
            assert_eq!(unusable(good), None, "{good}");
        }
        for bad in ["", "-a", "a-", "..data", "a b", "a/b", "é", &"a".repeat(64)] {
            assert!(unusable(bad).is_some(), "{bad}");
        }
    }
}
