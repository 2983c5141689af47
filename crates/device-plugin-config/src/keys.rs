//! The table of all keys of the config API v1. It determines which keys the plugin reads, from
//! which version, and which environment variables override them. The reference page is generated
//! from it.
//!
//! Source: NVIDIA/k8s-device-plugin `api/config/v1` and `cmd/nvidia-device-plugin/main.go`, v0.12
//! to v0.20.0.

use super::version::PluginVersion;

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigKeyKind {
    /// A map with keys of the table.
    Map,
    /// A list of maps with keys of the table.
    Maps,
    /// A string.
    Text,
    /// A boolean.
    Switch,
    /// An integer.
    Whole,
    /// A list of integers.
    Wholes,
    /// A string, or a list of strings.
    Texts,
    /// A duration of Go.
    Duration,
    /// `all`, a number of devices or a list of devices.
    Devices,
}

/// The program that reads a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigKeyReader {
    /// Device plugin and GPU feature discovery.
    Both,
    /// The device plugin.
    Plugin,
    /// GPU feature discovery.
    Discovery,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// The dotted path from the top; `[]` is any item of a list.
    pub path: &'static str,
    /// The type of its value.
    pub kind: ConfigKeyKind,
    /// The first version that reads it.
    pub since: PluginVersion,
    /// The environment variables that override it, in order of precedence.
    pub environment: &'static [&'static str],
    /// The plugin's default.
    pub default: &'static str,
    /// The allowed strings; empty if any string is allowed.
    pub words: &'static [&'static str],
    /// The program that reads it.
    pub reader: ConfigKeyReader,
}

const fn row(path: &'static str, kind: ConfigKeyKind, since: u16) -> ConfigKey {
    ConfigKey {
        path,
        kind,
        since: PluginVersion::minor(since),
        environment: &[],
        default: "",
        words: &[],
        reader: ConfigKeyReader::Both,
    }
}

impl ConfigKey {
    const fn env(mut self, environment: &'static [&'static str]) -> Self {
        self.environment = environment;
        self
    }

    const fn default(mut self, default: &'static str) -> Self {
        self.default = default;
        self
    }

    const fn words(mut self, words: &'static [&'static str]) -> Self {
        self.words = words;
        self
    }

    const fn read_by(mut self, reader: ConfigKeyReader) -> Self {
        self.reader = reader;
        self
    }

    /// Returns the last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// Whether the key is directly below `parent`.
    pub fn is_below(&self, parent: &str) -> bool {
        match self.path.rsplit_once('.') {
            Some((above, _)) => above == parent,
            None => parent.is_empty(),
        }
    }

    /// Whether the plugin reads this key case-sensitively. It ignores the case of other keys.
    pub fn is_exact(&self) -> bool {
        ["sharing.timeSlicing.", "sharing.mps.", "resources.gpus.", "resources.mig."]
            .iter()
            .any(|above| self.path.starts_with(above))
    }
}

/// The MIG strategy.
pub const MIG_STRATEGY: &str = "flags.migStrategy";
/// Whether the plugin fails if it cannot start.
pub const FAIL_ON_INIT_ERROR: &str = "flags.failOnInitError";
/// The directory of the MPS daemons' files.
pub const MPS_ROOT: &str = "flags.mpsRoot";
/// How the plugin finds devices.
pub const DISCOVERY_STRATEGY: &str = "flags.deviceDiscoveryStrategy";
/// Whether the plugin passes device nodes to the kubelet.
pub const PASS_DEVICE_SPECS: &str = "flags.plugin.passDeviceSpecs";
/// How the plugin passes devices to the container runtime.
pub const DEVICE_LIST_STRATEGY: &str = "flags.plugin.deviceListStrategy";
/// How the plugin names devices to the container runtime.
pub const DEVICE_ID_STRATEGY: &str = "flags.plugin.deviceIDStrategy";
/// How the plugin selects the next shared device.
pub const SHARED_POLICY: &str = "flags.plugin.sharedDevicesAllocationPolicy";
/// How long GPU feature discovery sleeps.
pub const SLEEP_INTERVAL: &str = "flags.gfd.sleepInterval";
/// The IMEX channels.
pub const IMEX_CHANNELS: &str = "imex.channelIDs";
/// Whether containers require the IMEX channels.
pub const IMEX_REQUIRED: &str = "imex.required";

use ConfigKeyKind::{Devices, Duration, Map, Maps, Switch, Text, Texts, Whole, Wholes};
use ConfigKeyReader::{Discovery, Plugin};

/// The table, parents before children.
pub const KEYS: &[ConfigKey] = &[
    row("version", Text, 12).default("v1").words(&["v1"]),
    row("flags", Map, 12),
    row(MIG_STRATEGY, Text, 12)
        .env(&["MIG_STRATEGY"])
        .default("none")
        .words(&["none", "single", "mixed"]),
    row(FAIL_ON_INIT_ERROR, Switch, 12).env(&["FAIL_ON_INIT_ERROR"]).default("true"),
    row(MPS_ROOT, Text, 15).env(&["MPS_ROOT"]).read_by(Plugin),
    row("flags.nvidiaDriverRoot", Text, 12).env(&["NVIDIA_DRIVER_ROOT"]).default("/"),
    row("flags.nvidiaDevRoot", Text, 16).env(&["NVIDIA_DEV_ROOT"]).default("the driver root"),
    row("flags.gdrcopyEnabled", Switch, 18)
        .env(&["GDRCOPY_ENABLED"])
        .default("false (0.19.0 to 0.19.2: true)")
        .read_by(Plugin),
    row("flags.gdsEnabled", Switch, 13)
        .env(&["GDS_ENABLED"])
        .default("false (0.19.0 to 0.19.2: true)")
        .read_by(Plugin),
    row("flags.mofedEnabled", Switch, 13)
        .env(&["MOFED_ENABLED"])
        .default("false (0.19.0 to 0.19.2: true)")
        .read_by(Plugin),
    row("flags.useNodeFeatureAPI", Switch, 15)
        .env(&["USE_NODE_FEATURE_API"])
        .default("true (before 0.19: false)")
        .read_by(Discovery),
    row(DISCOVERY_STRATEGY, Text, 16)
        .env(&["DEVICE_DISCOVERY_STRATEGY"])
        .default("auto")
        .words(&["auto", "nvml", "tegra"]),
    row("flags.plugin", Map, 12).read_by(Plugin),
    row(PASS_DEVICE_SPECS, Switch, 12).env(&["PASS_DEVICE_SPECS"]).default("false").read_by(Plugin),
    row(DEVICE_LIST_STRATEGY, Texts, 12)
        .env(&["DEVICE_LIST_STRATEGY"])
        .default("envvar")
        .words(&["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"])
        .read_by(Plugin),
    row(DEVICE_ID_STRATEGY, Text, 12)
        .env(&["DEVICE_ID_STRATEGY"])
        .default("uuid")
        .words(&["uuid", "index"])
        .read_by(Plugin),
    row("flags.plugin.cdiAnnotationPrefix", Text, 14)
        .env(&["CDI_ANNOTATION_PREFIX"])
        .default("cdi.k8s.io/")
        .read_by(Plugin),
    row("flags.plugin.nvidiaCTKPath", Text, 14)
        .env(&["NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"])
        .default("/usr/bin/nvidia-ctk")
        .read_by(Plugin),
    row("flags.plugin.containerDriverRoot", Text, 14)
        .env(&["DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"])
        .default("/driver-root")
        .read_by(Plugin),
    row(SHARED_POLICY, Text, 20)
        .env(&["SHARED_DEVICES_ALLOCATION_POLICY"])
        .default("distributed")
        .words(&["distributed", "packed"])
        .read_by(Plugin),
    row("flags.gfd", Map, 12).read_by(Discovery),
    row("flags.gfd.oneshot", Switch, 12).env(&["GFD_ONESHOT"]).default("false").read_by(Discovery),
    row("flags.gfd.noTimestamp", Switch, 12)
        .env(&["GFD_NO_TIMESTAMP"])
        .default("false")
        .read_by(Discovery),
    row(SLEEP_INTERVAL, Duration, 12)
        .env(&["GFD_SLEEP_INTERVAL"])
        .default("60s")
        .read_by(Discovery),
    row("flags.gfd.outputFile", Text, 12)
        .env(&["GFD_OUTPUT_FILE"])
        .default("/etc/kubernetes/node-feature-discovery/features.d/gfd")
        .read_by(Discovery),
    row("flags.gfd.machineTypeFile", Text, 13)
        .env(&["GFD_MACHINE_TYPE_FILE"])
        .default("/sys/class/dmi/id/product_name")
        .read_by(Discovery),
    row("resources", Map, 12).read_by(Plugin),
    row("resources.gpus", Maps, 12).read_by(Plugin),
    row("resources.gpus.[].pattern", Text, 12).read_by(Plugin),
    row("resources.gpus.[].name", Text, 12).read_by(Plugin),
    row("resources.mig", Maps, 12).read_by(Plugin),
    row("resources.mig.[].pattern", Text, 12).read_by(Plugin),
    row("resources.mig.[].name", Text, 12).read_by(Plugin),
    row("sharing", Map, 12),
    row("sharing.timeSlicing", Map, 12),
    row("sharing.timeSlicing.renameByDefault", Switch, 12).default("false"),
    row("sharing.timeSlicing.failRequestsGreaterThanOne", Switch, 12).default("false"),
    row("sharing.timeSlicing.resources", Maps, 12),
    row("sharing.timeSlicing.resources.[].name", Text, 12),
    row("sharing.timeSlicing.resources.[].replicas", Whole, 12),
    row("sharing.timeSlicing.resources.[].devices", Devices, 12).default("all"),
    row("sharing.timeSlicing.resources.[].rename", Text, 12),
    row("sharing.mps", Map, 15),
    row("sharing.mps.renameByDefault", Switch, 15).default("false"),
    row("sharing.mps.failRequestsGreaterThanOne", Switch, 15).default("true"),
    row("sharing.mps.resources", Maps, 15),
    row("sharing.mps.resources.[].name", Text, 15),
    row("sharing.mps.resources.[].replicas", Whole, 15),
    row("sharing.mps.resources.[].devices", Devices, 15).default("all"),
    row("sharing.mps.resources.[].rename", Text, 15),
    row("imex", Map, 17).read_by(Plugin),
    row(IMEX_CHANNELS, Wholes, 17).env(&["IMEX_CHANNEL_IDS"]).default("[]").read_by(Plugin),
    row(IMEX_REQUIRED, Switch, 17).env(&["IMEX_REQUIRED"]).default("false").read_by(Plugin),
];

/// Returns the row of this path.
///
/// # Panics
/// Never with the constants of this module: a test looks each one up.
pub fn key(path: &str) -> &'static ConfigKey {
    KEYS.iter().find(|key| key.path == path).expect("constants of this module are in the table")
}

/// Returns the keys directly below `parent` (`""` is the top).
pub fn below(parent: &str) -> impl Iterator<Item = &'static ConfigKey> {
    let parent = parent.to_owned();
    KEYS.iter().filter(move |key| key.is_below(&parent))
}

/// Returns the row that this plugin version reads `name` below `parent` as.
pub fn taken_for(parent: &str, name: &str, version: PluginVersion) -> Option<&'static ConfigKey> {
    let known = |key: &&ConfigKey| key.since <= version;
    let exact = below(parent).filter(known).find(|key| key.name() == name);
    exact.or_else(|| {
        below(parent)
            .filter(known)
            .find(|key| !key.is_exact() && key.name().eq_ignore_ascii_case(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_precede_children_and_paths_are_unique() {
        for (index, row) in KEYS.iter().enumerate() {
            let above = row.path.rsplit_once('.').map(|(above, _)| above.trim_end_matches(".[]"));
            let parents = &KEYS[..index];
            assert!(
                above.is_none_or(|above| parents.iter().any(|parent| parent.path == above)),
                "{}",
                row.path
            );
            assert!(parents.iter().all(|other| other.path != row.path), "{} twice", row.path);
        }
        for path in [
            MIG_STRATEGY,
            FAIL_ON_INIT_ERROR,
            MPS_ROOT,
            DISCOVERY_STRATEGY,
            PASS_DEVICE_SPECS,
            DEVICE_LIST_STRATEGY,
            DEVICE_ID_STRATEGY,
            SHARED_POLICY,
            SLEEP_INTERVAL,
            IMEX_CHANNELS,
            IMEX_REQUIRED,
        ] {
            assert_eq!(key(path).path, path);
        }
    }

    #[test]
    fn case_matters_where_the_plugin_says_so() {
        let newest = PluginVersion::NEWEST;
        assert_eq!(taken_for("", "Flags", newest).map(|key| key.path), Some("flags"));
        assert_eq!(
            taken_for("flags", "MIGSTRATEGY", newest).map(|key| key.path),
            Some(MIG_STRATEGY)
        );
        assert!(taken_for("sharing.timeSlicing", "Resources", newest).is_none());
        assert!(
            taken_for("flags.plugin", "sharedDevicesAllocationPolicy", PluginVersion::minor(19))
                .is_none()
        );
    }
}
