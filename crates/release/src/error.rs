//! Errors of planning.

/// Why a recipe cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A component that the catalog does not have.
    #[error("component `{0}` is not in the catalog")]
    UnknownComponent(String),
    /// A component is in the recipe twice.
    #[error("component `{0}` is in the recipe twice")]
    Twice(String),
    /// Nothing to deploy.
    #[error("the recipe has no components")]
    Empty,
    /// Components that wait for each other.
    #[error("components wait for each other because of `after` in the catalog or the recipe: {}", .0.join(" → "))]
    Circle(Vec<String>),
    /// A setting that the recipe sets in two places.
    #[error("`{first}` and `{second}` of component `{component}` set the same value")]
    SetTwice {
        /// The component.
        component: String,
        /// The path to keep.
        first: String,
        /// The other path, below the component.
        second: String,
    },
    /// Node scheduling that the chart cannot express.
    #[error("the chart of component `{component}` has no key for `{path}`")]
    NoPlace {
        /// The component.
        component: String,
        /// The path below the component.
        path: String,
    },
    /// A sub-chart that the recipe enables although another component runs the same.
    #[error(
        "`values.{switch}` of component `{host}` is true, so `{nested}` would run twice: an earlier component, `{runner}`, runs it already"
    )]
    RunsTwice {
        /// The component with the sub-chart.
        host: String,
        /// The dotted path of the switch.
        switch: String,
        /// The component that would run twice.
        nested: String,
        /// The component that runs it.
        runner: String,
    },
    /// A kind of custom resource that the component does not have.
    #[error("component `{component}` has no custom resource `{kind}` in version {version}")]
    UnknownKind {
        /// The component.
        component: String,
        /// Its version.
        version: String,
        /// The kind.
        kind: String,
    },
    /// A release name that is too long for Helm.
    #[error("the release name `{0}` is longer than Helm's limit of 53 characters")]
    LongName(String),
    /// Two releases with the same name.
    #[error("two releases would have the name `{0}`")]
    NameTwice(String),
    /// A value that the bundle itself must set.
    #[error("`values.{path}` of component `{component}` must be {expected}, found {found}")]
    Reserved {
        /// The component.
        component: String,
        /// The dotted path.
        path: String,
        /// What the bundle sets, as JSON.
        expected: String,
        /// What the recipe sets, as JSON.
        found: String,
    },
    /// A value that contradicts the recipe's mode.
    #[error("`{path}` of component `{component}`: mode `{mode}` needs {expected}, found {found}")]
    ModeConflict {
        /// The component.
        component: String,
        /// The dotted path below the component.
        path: String,
        /// The mode.
        mode: &'static str,
        /// What the mode sets, as JSON.
        expected: String,
        /// What the recipe sets, as JSON.
        found: String,
    },
    /// A path of values leads through a value that is not a map.
    #[error("`values.{path}` of component `{component}` is not a map")]
    NoMap {
        /// The component.
        component: String,
        /// The dotted path of the value that should be a map.
        path: String,
    },
    /// A value that time budgets derive from has the wrong type.
    #[error("`{path}` of component `{component}`: {reason}")]
    Value {
        /// The component.
        component: String,
        /// The dotted path below the component.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// Configurations of the device plugin at a component that has none.
    #[error(
        "component `{0}` does not deploy the device plugin, so it cannot have `devicePluginConfig`"
    )]
    NoDevicePlugin(String),
    /// Configurations of the device plugin that cannot be written.
    #[error("`devicePluginConfig` of component `{component}`: {reason}")]
    DevicePluginConfig {
        /// The component.
        component: String,
        /// What is wrong.
        reason: String,
    },
    /// An endless wait in a rollout with a time budget.
    #[error(
        "`waitForCompletion` has no timeout, so one endless job would block the whole rollout, and the rollout may never finish"
    )]
    EndlessWait(&'static str),
    /// A limit that the chart reads as unset.
    #[error(
        "`maxUnavailable: {0}` has no effect: the gpu-operator chart treats 0 as not set, and renders 25%"
    )]
    ZeroUnavailable(String),
    /// The DRA driver is required, but the recipe does not deploy it.
    #[error(
        "`rollout.dra.required` is true, but the recipe has no component `nvidia-dra-driver-gpu`"
    )]
    DraMissing,
    /// Two components have different versions of the same CRD.
    #[error(
        "CRD `{crd}` comes with component `{first}` and, in a different version, with component `{second}`"
    )]
    CrdConflict {
        /// The CRD.
        crd: String,
        /// The first component.
        first: String,
        /// The second component.
        second: String,
    },
    /// A file of the catalog that is not a CRD as expected.
    #[error("catalog: file `{file}` of component `{component}`: {reason}")]
    CrdFile {
        /// The component.
        component: String,
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// `--chart-repository` names a repository that no component of the catalog uses.
    #[error("the catalog has no chart repository `{name}`")]
    UnknownRepository {
        /// The name.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// A time budget that is too large for the chart.
    #[error(
        "the time budget of `rollout.{driver}` is longer than the limit of 24 days: {explanation}"
    )]
    TooLong {
        /// The driver's key below `rollout`.
        driver: &'static str,
        /// Whether soaks or maintenance windows are a part of it.
        pauses: bool,
        /// Whether acceptance tests are a part of it.
        tests: bool,
        /// How the time was computed.
        explanation: String,
    },
}

impl PlanError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownComponent(_) => Some("`gpu-rollout recipe check` lists the known components".to_owned()),
            Self::Empty => Some("add at least one entry to `components`, or set `enabled: true` on one".to_owned()),
            Self::SetTwice { first, second, .. } if first.starts_with("rollout.") => {
                Some(format!("remove `{second}`; time budgets derive from the path below `rollout`"))
            }
            Self::SetTwice { second, .. } => Some(format!("remove `{second}` or the other path")),
            Self::NoPlace { .. } => Some("remove it, or set the chart's own keys in `values`".to_owned()),
            Self::RunsTwice { switch, .. } => {
                Some(format!("remove `{switch}`: a bundle sets it to false if another component runs the same"))
            }
            Self::Reserved { path, .. } => Some(format!(
                "remove `{path}`: the bundle sets it, because it deploys CRDs itself, and keeps the names of objects that an upgrade must find again"
            )),
            Self::ModeConflict { path, .. } => Some(format!("remove `{path}`, which the mode sets; or use another mode (docs/modes.md)")),
            Self::EndlessWait(driver) => Some(format!(
                "set `rollout.{driver}.policy.waitForCompletion.timeout` to the longest time that a job may delay its node, such as `2h`"
            )),
            Self::TooLong { driver, tests: true, .. } => Some(format!(
                "shorten the timeouts in `rollout.acceptance`, or test fewer nodes (`nodes`); or shorten `rollout.{driver}.perNode` and the soaks, or raise the limits below `rollout.{driver}.policy`"
            )),
            Self::TooLong { driver, pauses: true, .. } => Some(format!(
                "shorten the soaks, take fewer steps, or open longer windows below `rollout.{driver}.policy`; or shorten `rollout.{driver}.perNode`, or raise the limits below `rollout.{driver}.policy`"
            )),
            Self::TooLong { driver, pauses: false, .. } => Some(format!(
                "shorten `rollout.{driver}.perNode`, raise the limits below `rollout.{driver}.policy`, or `daemonsets.rollingUpdate.maxUnavailable` in the GPU Operator's values"
            )),
            Self::ZeroUnavailable(_) => Some("set `maxUnavailable: 1` for one node at a time".to_owned()),
            Self::DraMissing => Some("add the component, or set `rollout.dra.required: auto`".to_owned()),
            Self::CrdConflict { .. } => {
                Some("a CRD can have only one owner: use versions of both components that agree, or remove one component".to_owned())
            }
            Self::UnknownRepository { known, .. } => Some(format!("known repositories: {}", known.join(", "))),
            Self::UnknownKind { .. } => Some("remove it, or use a version of the component that has it".to_owned()),
            Self::LongName(_)
            | Self::NameTwice(_)
            | Self::Twice(_)
            | Self::Circle(_)
            | Self::NoMap { .. }
            | Self::Value { .. }
            | Self::CrdFile { .. }
            | Self::NoDevicePlugin(_)
            | Self::DevicePluginConfig { .. } => None,
        }
    }

    /// Creates the error for an unusable value of a component.
    pub(super) fn value(
        component: &str,
        path: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self::Value { component: component.to_owned(), path: path.into(), reason: reason.into() }
    }

    /// Creates the error for a setting in two places.
    pub(super) fn set_twice(
        component: &str,
        first: impl Into<String>,
        second: impl Into<String>,
    ) -> Self {
        Self::SetTwice {
            component: component.to_owned(),
            first: first.into(),
            second: second.into(),
        }
    }
}
