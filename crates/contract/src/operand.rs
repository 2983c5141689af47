//! The operands of a ClusterPolicy that the hook recognizes, one row each: the name of the
//! DaemonSet, the part of the spec that enables it, and whether success depends on it. Source:
//! NVIDIA/gpu-operator v25.10.1 to v26.7.0, `assets/` and `controllers/state_manager.go`.

use strum::{EnumCount, VariantArray};

use super::names;

/// An operand other than the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumCount, VariantArray)]
pub enum Operand {
    /// Container toolkit.
    Toolkit,
    /// The operator's validator.
    Validator,
    /// Device plugin.
    DevicePlugin,
    /// MPS control daemon.
    Mps,
    /// GPU feature discovery.
    Gfd,
    /// DCGM.
    Dcgm,
    /// DCGM exporter.
    DcgmExporter,
    /// MIG manager.
    MigManager,
    /// Node status exporter.
    NodeStatusExporter,
}

/// The properties of an operand.
#[derive(Debug)]
pub struct OperandTraits {
    /// The name of its DaemonSet, which is also the value of its pods' label `app`.
    pub daemon_set: &'static str,
    /// Its key in the ClusterPolicy's spec, with `enabled`, `repository`, `image` and `version`.
    pub spec: &'static str,
    /// Whether the operator deploys it if the spec has no `enabled`. `None`: the operator always
    /// deploys it.
    pub default: Option<bool>,
    /// Whether success, and the uncordon of a node, wait for it.
    pub gates: bool,
    /// Whether every GPU node has one, so that the DaemonSet must exist where the operand is
    /// enabled.
    pub everywhere: bool,
    /// What the user can do if it does not become ready.
    pub remedy: &'static str,
}

const fn row(
    daemon_set: &'static str,
    spec: &'static str,
    default: Option<bool>,
    gates: bool,
    remedy: &'static str,
) -> OperandTraits {
    OperandTraits { daemon_set, spec, default, gates, everywhere: true, remedy }
}

const TOOLKIT: OperandTraits = row(
    names::TOOLKIT_APP.1,
    "toolkit",
    Some(true),
    true,
    "check the pod of nvidia-container-toolkit-daemonset on the node; its init container waits for the driver",
);
const VALIDATOR: OperandTraits = row(
    names::VALIDATOR_APP.1,
    "validator",
    None,
    true,
    "check the init containers of the nvidia-operator-validator pod on the node: each one validates the driver, the toolkit, CUDA or the device plugin",
);
const DEVICE_PLUGIN: OperandTraits = row(
    "nvidia-device-plugin-daemonset",
    "devicePlugin",
    Some(true),
    true,
    "check the log of the nvidia-device-plugin-daemonset pod on the node, and its configuration (ConfigMap of devicePlugin.config)",
);
const MPS: OperandTraits = OperandTraits {
    everywhere: false,
    ..row(
        "nvidia-device-plugin-mps-control-daemon",
        "devicePlugin",
        Some(true),
        false,
        "check the log of the MPS control daemon on the node",
    )
};
const GFD: OperandTraits = row(
    "gpu-feature-discovery",
    "gfd",
    Some(true),
    false,
    "check the log of the gpu-feature-discovery pod on the node",
);
const DCGM: OperandTraits = row(
    "nvidia-dcgm",
    "dcgm",
    Some(true),
    false,
    "check the log of the nvidia-dcgm pod on the node",
);
const DCGM_EXPORTER: OperandTraits = row(
    "nvidia-dcgm-exporter",
    "dcgmExporter",
    Some(true),
    false,
    "check the log of the nvidia-dcgm-exporter pod on the node; only metrics are missing, the GPUs are available",
);
const MIG_MANAGER: OperandTraits = OperandTraits {
    everywhere: false,
    ..row(
        "nvidia-mig-manager",
        "migManager",
        Some(true),
        false,
        "check the log of the nvidia-mig-manager pod on the node, and the label nvidia.com/mig.config.state",
    )
};
const NODE_STATUS_EXPORTER: OperandTraits = row(
    "nvidia-node-status-exporter",
    "nodeStatusExporter",
    Some(false),
    false,
    "check the log of the nvidia-node-status-exporter pod on the node",
);

impl Operand {
    /// Every operand: those that gate first, in the order in which they start on a node.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// Returns the operand's row of the table.
    pub fn traits(self) -> &'static OperandTraits {
        match self {
            Self::Toolkit => &TOOLKIT,
            Self::Validator => &VALIDATOR,
            Self::DevicePlugin => &DEVICE_PLUGIN,
            Self::Mps => &MPS,
            Self::Gfd => &GFD,
            Self::Dcgm => &DCGM,
            Self::DcgmExporter => &DCGM_EXPORTER,
            Self::MigManager => &MIG_MANAGER,
            Self::NodeStatusExporter => &NODE_STATUS_EXPORTER,
        }
    }

    /// Returns the operand whose pods have this value of the label `app`.
    pub fn from_app(app: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operand| operand.traits().daemon_set == app)
    }
}

#[cfg(test)]
mod tests {
    use super::Operand;

    #[test]
    fn operands_have_distinct_daemon_sets() {
        for operand in Operand::ALL {
            assert_eq!(Operand::from_app(operand.traits().daemon_set), Some(operand));
        }
    }
}
