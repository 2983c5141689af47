//! Why a recipe cannot be turned into releases.

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A component that the catalog does not have.
    #[error("component `{0}` is not in the catalog")]
    UnknownComponent(String),
    /// A component that stands in the recipe twice.
    #[error("component `{0}` stands in the recipe twice")]
    Twice(String),
    /// Nothing to deploy.
    #[error("the recipe has no components")]
    Empty,
    /// Components that wait for each other.
    #[error("components wait for each other, by the catalog's or the recipe's `after`: {}", .0.join(" → "))]
    Circle(Vec<String>),
    /// A value that the recipe sets in two ways.
    #[error("`{first}` and `{second}` of component `{component}` both set the same thing")]
    SetTwice {
        /// The component.
        component: String,
        /// The place that should stay.
        first: String,
        /// The place below the component.
        second: String,
    },
    /// Node scheduling that the chart cannot express.
    #[error("the chart of component `{component}` has no place for `{path}`")]
    NoPlace {
        /// The component.
        component: String,
        /// The path below the component.
        path: String,
    },
    /// A sub-chart that the recipe switches on although another component runs the same thing.
    #[error(
        "`values.{switch}` of component `{host}` is true, and `{nested}` would run twice: `{runner}` runs it, before that component"
    )]
    RunsTwice {
        /// The component with the sub-chart.
        host: String,
        /// The dotted path of the switch.
        switch: String,
        /// What would run twice.
        nested: String,
        /// The component that runs it.
        runner: String,
    },
    /// A kind of custom resource that the component does not take.
    #[error("component `{component}` takes no custom resource `{kind}` in version {version}")]
    UnknownKind {
        /// The component.
        component: String,
        /// Its version.
        version: String,
        /// The kind.
        kind: String,
    },
    /// A name that Helm does not take.
    #[error("the release name `{0}` is longer than the 53 characters that Helm takes")]
    LongName(String),
    /// Two releases of one name.
    #[error("two releases would be called `{0}`")]
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
    #[error("`{path}` of component `{component}` is {found}, and mode `{mode}` needs {expected}")]
    AgainstMode {
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
    /// A path of values goes through something that is no map.
    #[error("`values.{path}` of component `{component}` is no map")]
    NoMap {
        /// The component.
        component: String,
        /// The dotted path of the value that should be a map.
        path: String,
    },
    /// A value that budgets are made from has the wrong type.
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
        "component `{0}` does not deploy the device plugin, so it takes no `devicePluginConfig`"
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
    /// A wait without an end before a gate with a budget.
    #[error(
        "`waitForCompletion` has no timeout, so one endless job would hold up the whole rollout, and gate `settled` could never be promised"
    )]
    EndlessWait(&'static str),
    /// A limit that the chart reads as unset.
    #[error(
        "`maxUnavailable: {0}` does not forbid anything: the gpu-operator chart reads zero as unset and renders 25%"
    )]
    ZeroUnavailable(String),
    /// The DRA driver is required, and nothing brings it.
    #[error(
        "`rollout.dra.required: true`, but the recipe has no component `nvidia-dra-driver-gpu`"
    )]
    DraMissing,
    /// Two components bring the same CRD in different forms.
    #[error(
        "CRD `{crd}` comes with component `{first}` and, in another form, with component `{second}`"
    )]
    CrdConflict {
        /// The CRD.
        crd: String,
        /// The first component.
        first: String,
        /// The second component.
        second: String,
    },
    /// A file of the catalog that is no CRD as expected.
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
        /// The names that there are.
        known: Vec<String>,
    },
    /// A duration that does not fit the chart.
    #[error("`rollout.{driver}` takes too long, at most 24 days are possible: {explanation}")]
    TooLong {
        /// The driver's key below `rollout`.
        driver: &'static str,
        /// How the time came about.
        explanation: String,
    },
}

impl PlanError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownComponent(_) => Some("`gpu-rollout recipe check` names the components that there are".to_owned()),
            Self::Empty => Some("add at least one entry to `components`, or set `enabled: true` on one".to_owned()),
            Self::SetTwice { first, second, .. } if first.starts_with("rollout.") => {
                Some(format!("remove `{second}`; the path below `rollout` is the one that budgets are made from"))
            }
            Self::SetTwice { second, .. } => Some(format!("remove `{second}`, or the other one")),
            Self::NoPlace { .. } => Some("remove it, or set the keys that the chart has in `values`".to_owned()),
            Self::RunsTwice { switch, .. } => {
                Some(format!("remove `{switch}`: a bundle sets it to false where another component runs the same thing"))
            }
            Self::Reserved { path, .. } => Some(format!(
                "remove `{path}`: the bundle sets it, because it brings CRDs itself and keeps the names of what an upgrade must find again"
            )),
            Self::AgainstMode { path, .. } => Some(format!("remove `{path}`: the mode sets it; or take another mode (docs/modes.md)")),
            Self::EndlessWait(driver) => Some(format!(
                "set `rollout.{driver}.policy.waitForCompletion.timeout`, for example `2h`: the longest time that a job may hold up its node"
            )),
            Self::TooLong { driver, .. } => Some(format!(
                "shorten `rollout.{driver}.perNode`, raise the limits below `rollout.{driver}.policy`, or `daemonsets.rollingUpdate.maxUnavailable` of the GPU operator's values"
            )),
            Self::ZeroUnavailable(_) => Some("set `maxUnavailable: 1` for one node at a time".to_owned()),
            Self::DraMissing => Some("add the component, or set `rollout.dra.required: auto`".to_owned()),
            Self::CrdConflict { .. } => {
                Some("one CRD has one owner: take versions of both components that agree, or leave one component out".to_owned())
            }
            Self::UnknownRepository { known, .. } => Some(format!("the repositories are {}", known.join(", "))),
            Self::UnknownKind { .. } => Some("remove it, or take a version of the component that takes it".to_owned()),
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

    /// A value of a component that cannot be used.
    pub(super) fn value(
        component: &str,
        path: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self::Value { component: component.to_owned(), path: path.into(), reason: reason.into() }
    }

    /// A setting of a component with two places.
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
