//! Versions of the device plugin.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::environment::PluginChart;

/// A version of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginVersion(u16, u16, u16);

/// Why a text is not a version with known verdicts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginVersionError {
    /// The text is not a version.
    #[error("`{0}` is not a version of the device plugin")]
    Text(String),
    /// The version is older than [`PluginVersion::OLDEST`].
    #[error("the verdicts of the device plugin {0} are unknown; the oldest supported version is {oldest}", oldest = PluginVersion::OLDEST)]
    TooOld(PluginVersion),
}

impl PluginVersion {
    /// The oldest version that makes all known checks (the MIG strategy was the last).
    pub const OLDEST: Self = Self(0, 17, 0);
    /// The versions whose verdicts were compared with the plugin's own code.
    pub const PROVEN: [Self; 4] = [Self(0, 17, 4), Self(0, 18, 2), Self(0, 19, 3), Self(0, 20, 0)];
    /// The newest of them. Newer plugins are treated like it.
    pub const NEWEST: Self = Self::PROVEN[3];

    /// Returns the version that a chart deploys. The operator's chart has it in its values. The
    /// plugin's own chart has the plugin's version (`chart_version`), unless its values name
    /// another image. `values` returns the value at a dotted path.
    ///
    /// # Errors
    /// The version is unknown or too old.
    pub fn deployed(
        chart: PluginChart,
        chart_version: &str,
        values: &dyn Fn(&str) -> Option<Value>,
    ) -> Result<Self, PluginVersionError> {
        let named = values(Self::path(chart))
            .and_then(|value| value.as_str().map(str::to_owned))
            .filter(|text| !text.is_empty());
        match (chart, named) {
            (_, Some(text)) => text.parse(),
            (PluginChart::GpuOperator, None) => Err(PluginVersionError::Text(String::new())),
            (PluginChart::DevicePlugin, None) => chart_version.parse(),
        }
    }

    /// Returns the path of the plugin's version in the values.
    pub fn path(chart: PluginChart) -> &'static str {
        match chart {
            PluginChart::GpuOperator => "devicePlugin.version",
            PluginChart::DevicePlugin => "image.tag",
        }
    }

    /// Returns the nearest version with known verdicts.
    pub fn nearest(error: &PluginVersionError) -> Self {
        match error {
            PluginVersionError::Text(_) => Self::NEWEST,
            PluginVersionError::TooOld(_) => Self::OLDEST,
        }
    }

    /// Returns the version `0.MINOR.0`.
    pub const fn minor(minor: u16) -> Self {
        Self(0, minor, 0)
    }
}

impl fmt::Display for PluginVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl FromStr for PluginVersion {
    type Err = PluginVersionError;

    /// Parses `0.19.3`, `v0.19.3` or `v0.17.4-ubi8`.
    fn from_str(text: &str) -> Result<Self, PluginVersionError> {
        let wrong = || PluginVersionError::Text(text.to_owned());
        let plain = text.strip_prefix('v').unwrap_or(text);
        let numbers = plain.split_once(['-', '+']).map_or(plain, |(numbers, _)| numbers);
        let numbers: Vec<u16> =
            numbers.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
        let [major, minor, patch] = numbers[..] else { return Err(wrong()) };
        let version = Self(major, minor, patch);
        if version < Self::OLDEST { Err(PluginVersionError::TooOld(version)) } else { Ok(version) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_images_are_tagged() {
        for (text, version) in [
            ("0.20.0", PluginVersion(0, 20, 0)),
            ("v0.19.3", PluginVersion(0, 19, 3)),
            ("v0.17.4-ubi8", PluginVersion(0, 17, 4)),
        ] {
            assert_eq!(text.parse(), Ok(version));
        }
        for wrong in ["", "latest", "0.20", "0.20.0.1", "0.20.x", "sha256:1234"] {
            assert_eq!(
                wrong.parse::<PluginVersion>(),
                Err(PluginVersionError::Text(wrong.to_owned()))
            );
        }
        assert_eq!(
            "0.14.1".parse::<PluginVersion>(),
            Err(PluginVersionError::TooOld(PluginVersion(0, 14, 1)))
        );
    }
}
