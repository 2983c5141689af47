//! The names of findings that `docs/lints.md` explains.

/// A kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lint {
    /// A key of values that the chart never reads.
    UnknownKey,
    /// A value of a type that the chart cannot use.
    WrongType,
    /// A value that is none of those that there are.
    UnknownWord,
    /// A scalar that YAML parsers of different ages read differently.
    OldYaml,
    /// A secret where everybody can read it.
    Secret,
    /// A value that is the same in every bundle.
    BundleValue,
    /// Something that is set in two places.
    SetTwice,
    /// A wait without an end.
    EndlessWait,
    /// A deployer's setting, which a bundle makes itself.
    DeployerSetting,
    /// A field of a custom resource that its CRD does not have.
    UnknownField,
    /// A setting that nothing reads.
    NoEffect,
    /// A setting that the mode has no use for, or a value that contradicts it.
    AgainstMode,
    /// Values that cannot be checked.
    Unchecked,
    /// Two device plugins for the same GPUs.
    TwoDevicePlugins,
    /// Device plugin and DRA driver for the same GPUs.
    PluginBesideDra,
    /// One component twice.
    RunsTwice,
    /// `driver` values while NVIDIADriver objects are what counts.
    DriverCrd,
    /// A driver that the DRA driver does not find.
    DriverRoot,
    /// GPUs in the DRA driver without the chart's second switch.
    GpuOverride,
    /// Versions or values of different components that do not go together.
    Incompatible,
}

impl Lint {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 20] = [
        Self::UnknownKey,
        Self::WrongType,
        Self::UnknownWord,
        Self::OldYaml,
        Self::Secret,
        Self::BundleValue,
        Self::SetTwice,
        Self::EndlessWait,
        Self::DeployerSetting,
        Self::UnknownField,
        Self::NoEffect,
        Self::AgainstMode,
        Self::Unchecked,
        Self::TwoDevicePlugins,
        Self::PluginBesideDra,
        Self::RunsTwice,
        Self::DriverCrd,
        Self::DriverRoot,
        Self::GpuOverride,
        Self::Incompatible,
    ];

    /// Its name, as messages and the page have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnknownKey => "unknown-key",
            Self::WrongType => "wrong-type",
            Self::UnknownWord => "unknown-word",
            Self::OldYaml => "old-yaml",
            Self::Secret => "secret",
            Self::BundleValue => "bundle-value",
            Self::SetTwice => "set-twice",
            Self::EndlessWait => "endless-wait",
            Self::DeployerSetting => "deployer-setting",
            Self::UnknownField => "unknown-field",
            Self::NoEffect => "no-effect",
            Self::AgainstMode => "against-mode",
            Self::Unchecked => "unchecked",
            Self::TwoDevicePlugins => "two-device-plugins",
            Self::PluginBesideDra => "plugin-beside-dra",
            Self::RunsTwice => "runs-twice",
            Self::DriverCrd => "driver-crd",
            Self::DriverRoot => "driver-root",
            Self::GpuOverride => "gpu-override",
            Self::Incompatible => "incompatible",
        }
    }
}
