//! The names of findings that `docs/lints.md` explains.

use strum::{EnumCount, IntoStaticStr, VariantArray};

/// A kind of finding, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
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
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// Its name, as messages and the page have it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
