//! The names of findings that `docs/lints.md` explains.

use strum::{EnumCount, IntoStaticStr, VariantArray};

/// A named check, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Lint {
    /// A key in the values that the chart never reads.
    UnknownKey,
    /// A value of a type that the chart cannot use.
    WrongType,
    /// A value that is not one of the possible values.
    UnknownValue,
    /// A scalar that YAML 1.1 and YAML 1.2 parsers read differently.
    OldYaml,
    /// A string that the chart writes without quotes, and that YAML reads as something else.
    Unquoted,
    /// A secret in plain text.
    Secret,
    /// A value that every bundle sets itself.
    BundleValue,
    /// A value that moves or renames what the hook looks for.
    MovedObject,
    /// A setting that is set in two places.
    SetTwice,
    /// A wait without a timeout.
    EndlessWait,
    /// A setting of a deployer, which the bundle sets itself.
    DeployerSetting,
    /// A field of a custom resource that its CRD does not have.
    UnknownField,
    /// A setting that nothing reads.
    NoEffect,
    /// A setting that the mode does not use, or a value that contradicts the mode.
    ModeConflict,
    /// Values that cannot be checked.
    Unchecked,
    /// Two device plugins for the same GPUs.
    TwoDevicePlugins,
    /// A device plugin and the DRA driver for the same GPUs.
    PluginAndDra,
    /// A component that runs twice.
    RunsTwice,
    /// `driver` values that have no effect, because NVIDIADriver objects apply.
    DriverCrd,
    /// A driver that the DRA driver cannot find.
    DriverRoot,
    /// GPUs in the DRA driver without the chart's second switch.
    GpuOverride,
    /// Versions or values of different components that are incompatible.
    Incompatible,
}

impl Lint {
    /// All lints, in the order of the page.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// Returns the name, as in messages and on the page.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
