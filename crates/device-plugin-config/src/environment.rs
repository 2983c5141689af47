//! The environment of the plugin: variables from charts and operator override the file.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::version::PluginVersion;

/// The chart that deploys the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginChart {
    /// NVIDIA's GPU Operator.
    GpuOperator,
    /// The plugin's own chart.
    DevicePlugin,
}

/// One variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentVariable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What sets it, for messages.
    pub because: String,
}

/// All variables that are known to be set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginEnvironment(Vec<EnvironmentVariable>);

/// The directory of the MPS daemons' files in both charts.
const MPS_ROOT: &str = "/run/nvidia/mps";

/// Values of the plugin's own chart, with the variables that they set.
const CHART_VALUES: [(&str, &str, ValueKind); 10] = [
    ("migStrategy", "MIG_STRATEGY", ValueKind::Text),
    ("failOnInitError", "FAIL_ON_INIT_ERROR", ValueKind::Switch),
    ("compatWithCPUManager", "PASS_DEVICE_SPECS", ValueKind::Switch),
    ("deviceListStrategy", "DEVICE_LIST_STRATEGY", ValueKind::Text),
    ("deviceIDStrategy", "DEVICE_ID_STRATEGY", ValueKind::Text),
    ("nvidiaDriverRoot", "NVIDIA_DRIVER_ROOT", ValueKind::Text),
    ("gdrcopyEnabled", "GDRCOPY_ENABLED", ValueKind::Switch),
    ("gdsEnabled", "GDS_ENABLED", ValueKind::Switch),
    ("mofedEnabled", "MOFED_ENABLED", ValueKind::Switch),
    ("deviceDiscoveryStrategy", "DEVICE_DISCOVERY_STRATEGY", ValueKind::Text),
];

/// The type that a template requires before it sets a variable.
#[derive(Clone, Copy)]
enum ValueKind {
    Text,
    Switch,
}

impl PluginChart {
    /// All charts.
    pub const ALL: [Self; 2] = [Self::GpuOperator, Self::DevicePlugin];

    /// Returns the chart's name, which is also the component's.
    pub fn name(self) -> &'static str {
        match self {
            Self::GpuOperator => "gpu-operator",
            Self::DevicePlugin => "nvidia-device-plugin",
        }
    }

    /// Returns the dotted path in the chart's values with the ConfigMap (`name`) and the default
    /// (`default`).
    pub fn config_path(self) -> &'static str {
        match self {
            Self::GpuOperator => "devicePlugin.config",
            Self::DevicePlugin => "config",
        }
    }

    /// Returns the environment that this chart sets. `values` returns the value at a dotted path;
    /// `None` if it is not set.
    pub fn environment(
        self,
        version: PluginVersion,
        values: &dyn Fn(&str) -> Option<Value>,
    ) -> PluginEnvironment {
        let mut environment = PluginEnvironment::default();
        match self {
            Self::GpuOperator => operator(&mut environment, version, values),
            Self::DevicePlugin => {
                for (path, name, kind) in CHART_VALUES {
                    let text = match (kind, values(path)) {
                        (ValueKind::Text, Some(Value::String(text))) => text,
                        (ValueKind::Switch, Some(Value::Bool(flag))) => flag.to_string(),
                        _ => continue,
                    };
                    let because = if text.is_empty() {
                        format!("the chart's `{path}`")
                    } else {
                        format!("the chart's `{path}: {text}`")
                    };
                    environment.set(name, text, because);
                }
                let root = values("mps.root").and_then(|root| root.as_str().map(str::to_owned));
                environment.set(
                    "MPS_ROOT",
                    root.unwrap_or_else(|| MPS_ROOT.to_owned()),
                    "the chart's `mps.root`",
                );
            }
        }
        environment
    }
}

fn operator(
    environment: &mut PluginEnvironment,
    version: PluginVersion,
    values: &dyn Fn(&str) -> Option<Value>,
) {
    let is_on = |path: &str| values(path).and_then(|value| value.as_bool());
    let strategy = match values("mig.strategy") {
        None => Some("single".to_owned()),
        Some(value) => value.as_str().filter(|strategy| !strategy.is_empty()).map(str::to_owned),
    };
    if let Some(strategy) = strategy {
        let because = format!("`mig.strategy: {strategy}` of the GPU Operator");
        environment.set("MIG_STRATEGY", strategy, because);
    }
    for (name, value) in [
        ("FAIL_ON_INIT_ERROR", "true"),
        ("PASS_DEVICE_SPECS", "true"),
        ("DEVICE_ID_STRATEGY", "uuid"),
        ("MPS_ROOT", MPS_ROOT),
    ] {
        environment.set(name, value, "the GPU Operator, always");
    }
    // Enabled by default since the operator's v25.10, which deploys the plugin 0.18.
    let cdi = is_on("cdi.enabled").unwrap_or(version >= PluginVersion::minor(18));
    let (list, because) =
        if cdi { ("cdi-annotations,cdi-cri", "true") } else { ("envvar", "false") };
    environment.set(
        "DEVICE_LIST_STRATEGY",
        list,
        format!("`cdi.enabled: {because}` of the GPU Operator"),
    );
    for (path, names) in [
        ("gds.enabled", &["GDS_ENABLED", "MOFED_ENABLED"][..]),
        ("gdrcopy.enabled", &["GDRCOPY_ENABLED"]),
    ] {
        if is_on(path) == Some(true) {
            for name in names {
                environment.set(name, "true", format!("`{path}: true` of the GPU Operator"));
            }
        }
    }
    for variable in values("devicePlugin.env").iter().filter_map(Value::as_array).flatten() {
        if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
            environment.set(name, value, "`devicePlugin.env`");
        }
    }
}

impl FromStr for PluginChart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|chart| chart.name() == text)
            .ok_or_else(|| format!("`{text}` is not a chart that deploys the device plugin"))
    }
}

impl fmt::Display for PluginChart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl PluginEnvironment {
    /// Sets a variable. The plugin treats an empty string as set.
    pub fn set(&mut self, name: &str, value: impl Into<String>, because: impl Into<String>) {
        self.0.retain(|variable| variable.name != name);
        self.0.push(EnvironmentVariable {
            name: name.to_owned(),
            value: value.into(),
            because: because.into(),
        });
    }

    /// Returns the first of these variables that is set.
    pub fn first(&self, names: &[&str]) -> Option<&EnvironmentVariable> {
        names.iter().find_map(|name| self.0.iter().find(|variable| variable.name == *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(chart: PluginChart, values: &str) -> Vec<(String, String)> {
        let values: Value = yaml::from_str(values).unwrap();
        let lookup =
            |path: &str| path.split('.').try_fold(&values, |value, key| value.get(key)).cloned();
        let environment = chart.environment(PluginVersion::NEWEST, &lookup);
        environment.0.into_iter().map(|variable| (variable.name, variable.value)).collect()
    }

    #[test]
    fn operator_sets_much_and_chart_only_its_values() {
        let names = |list: Vec<(String, String)>| {
            list.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(
            names(environment(
                PluginChart::DevicePlugin,
                "{migStrategy: null, deviceListStrategy: ''}"
            )),
            ["DEVICE_LIST_STRATEGY=", "MPS_ROOT=/run/nvidia/mps"]
        );
        let operator = names(environment(
            PluginChart::GpuOperator,
            "{mig: {strategy: mixed}, cdi: {enabled: false}, gds: {enabled: true}, devicePlugin: {env: [{name: PASS_DEVICE_SPECS, value: 'false'}]}}",
        ));
        for expected in [
            "MIG_STRATEGY=mixed",
            "DEVICE_LIST_STRATEGY=envvar",
            "GDS_ENABLED=true",
            "PASS_DEVICE_SPECS=false",
        ] {
            assert!(operator.contains(&expected.to_owned()), "{expected}: {operator:?}");
        }
        assert!(
            !names(environment(PluginChart::GpuOperator, "{mig: {strategy: ''}}"))
                .iter()
                .any(|row| row.starts_with("MIG_STRATEGY"))
        );
    }
}
