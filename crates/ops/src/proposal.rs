//! Derives from a recipe what a prediction needs to know about the GPU Operator and its hook.

use serde_json::{Map, Value};

use catalog::lookup;
use contract::count::Count;
use contract::driver::Driver;
use contract::names;
use contract::policy::Policy;
use contract::preflight::PreflightSettings;
use contract::settings::{DraSettings, Mode, Settings};
use contract::task::Task;
use nvidia_upgrade::controller_generation::ControllerGeneration;
use recipe::model::Recipe;
use release::values::gpu;
use release::{EmbeddedCatalog, PlanError, PlanOptions, ReleasePlan, plan};

use super::plan::ProposedDeployment;

/// Why the effect of a recipe cannot be predicted.
#[derive(Debug, thiserror::Error)]
pub enum ProposalError {
    /// The recipe cannot be rendered.
    #[error(transparent)]
    Recipe(#[from] PlanError),
    /// The recipe does not deploy the GPU Operator.
    #[error("the recipe has no component `gpu-operator`, so there is no upgrade to simulate")]
    NoOperator,
    /// Neither the operator nor the hook upgrades drivers.
    #[error("{} is false, so nothing upgrades drivers in mode `{}`", gpu::AUTO_UPGRADE, .0.name())]
    UpgradesOff(Mode),
    /// The operator's controller upgrades drivers, and there is no model of this version.
    #[error("there is no model of the upgrade controller in gpu-operator {0}")]
    UnknownController(String),
}

impl ProposalError {
    /// Returns the hint: what to do about the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Recipe(error) => error.hint(),
            Self::NoOperator => None,
            Self::UpgradesOff(_) | Self::UnknownController(_) => Some(
                "simulate the hook's own engine with `--set rollout.gpuDriver.mode=drive`"
                    .to_owned(),
            ),
        }
    }
}

impl ProposedDeployment {
    /// Derives the deployment from a recipe.
    ///
    /// # Errors
    /// The recipe deploys nothing whose driver upgrades can be predicted.
    pub fn from_recipe(recipe: &Recipe) -> Result<Self, ProposalError> {
        let planned = plan(recipe, &EmbeddedCatalog, &PlanOptions::default())?;
        let mut hooks = planned.releases.iter().filter_map(|release| release.kind.hook());
        let hook = hooks
            .find(|hook| {
                hook.component == names::GPU_OPERATOR && hook.tasks.contains(&Task::Settle)
            })
            .ok_or(ProposalError::NoOperator)?;
        let (component, version) = (hook.component.clone(), hook.version.clone());
        let values = chart_values(&planned, &component);
        let rollout = &recipe.rollout.gpu_driver;
        let mode = gpu::mode(rollout, &values);
        let mut upgrade = release::upgrade(&recipe.rollout, Driver::Gpu);
        if mode != Mode::Drive {
            check_controller(mode, &version, &values)?;
        }
        if !mode.decides() {
            take_limits(&values, &mut upgrade.policy);
        }
        let has_dra = recipe
            .components
            .iter()
            .any(|component| component.enabled && component.name == names::DRA_DRIVER);
        let settings = Settings {
            release: format!("{component}-post"),
            namespace: component.clone(),
            record: format!("{component}-post-record"),
            component: component.clone(),
            component_version: Some(version.clone()),
            tasks: tasks(mode, has_dra),
            mode,
            gate: rollout.gate,
            budget_seconds: hook.budget.seconds,
            per_node_seconds: hook.budget.per_node_seconds,
            quiet_seconds: rollout.quiet.as_secs(),
            operator_namespace: component,
            tolerate_not_ready: rollout.tolerate_not_ready,
            upgrade,
            settle: rollout.settle,
            operator_upgrade: rollout.operator_upgrade,
            dra: DraSettings {
                reroll: recipe.rollout.dra.reroll,
                required: recipe.rollout.dra.required,
                namespaces: vec![names::DRA_DRIVER.to_owned()],
                ..DraSettings::default()
            },
            preflight: PreflightSettings {
                coming: gpu::coming(&values),
                waits: None,
                strictness: rollout.preflight.clone(),
            },
            ..Settings::default()
        };
        let operator = (mode != Mode::Drive).then(|| version.clone());
        Ok(Self { settings, driver: rollout.version.clone(), chart: Some(version), operator })
    }
}

/// Returns the values that a component's chart is installed with.
fn chart_values(planned: &ReleasePlan, component: &str) -> Map<String, Value> {
    let chart = planned
        .releases
        .iter()
        .filter(|release| release.name == component)
        .find_map(|release| release.kind.upstream());
    chart.map(|chart| chart.values.clone()).unwrap_or_default()
}

/// Checks that the operator's controller upgrades drivers, and that there is a model of it.
fn check_controller(
    mode: Mode,
    version: &str,
    values: &Map<String, Value>,
) -> Result<(), ProposalError> {
    if lookup(values, gpu::AUTO_UPGRADE) == Some(&Value::Bool(false)) {
        return Err(ProposalError::UpgradesOff(mode));
    }
    match ControllerGeneration::from_version(Driver::Gpu, Some(version)) {
        Some(_) => Ok(()),
        None => Err(ProposalError::UnknownController(version.to_owned())),
    }
}

/// Applies the limits of the operator's own policy, if its values set them.
fn take_limits(values: &Map<String, Value>, policy: &mut Policy) {
    let value = |key: &str| lookup(values, &format!("{}.{key}", gpu::POLICY));
    if let Some(limit) =
        value("maxParallelUpgrades").and_then(|value| u32::try_from(value.as_u64()?).ok())
    {
        policy.max_parallel_upgrades = limit;
    }
    if let Some(limit) = value("maxUnavailable")
        .and_then(|value| serde_json::from_value::<Count>(value.clone()).ok())
    {
        policy.max_unavailable = Some(limit);
    }
}

/// Returns the tasks of the hook after the operator's release.
fn tasks(mode: Mode, has_dra: bool) -> Vec<Task> {
    let of_mode = mode.tasks().iter().copied().filter(|task| !task.is_step());
    std::iter::once(Task::Settle).chain(of_mode).chain(has_dra.then_some(Task::Reroll)).collect()
}
