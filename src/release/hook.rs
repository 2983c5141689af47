//! The hook release `<component>-post`: the hook chart's own values, below `rollout:`.

use serde_json::{Map, Value, json};

use super::image::Image;
use super::model::Hook;
use super::plan::GPU_OPERATOR;
use super::time::Budget;
use crate::contract::driver::Driver;
use crate::contract::duty::{Duty, rights};
use crate::contract::settings::Required;
use crate::recipe::model::Recipe;

/// The component that brings the DRA driver.
pub const DRA_DRIVER: &str = "nvidia-dra-driver-gpu";
/// Ends the name of a hook release.
pub const SUFFIX: &str = "-post";

/// What the hook of one component is made from.
pub(super) struct Parts<'a> {
    /// The recipe.
    pub(super) recipe: &'a Recipe,
    /// The component that it follows.
    pub(super) component: &'a str,
    /// The releases whose values it shares, that component first.
    pub(super) shares: Vec<String>,
    /// That component's version.
    pub(super) version: &'a str,
    /// What its Job does.
    pub(super) duties: &'a [Duty],
    /// B.
    pub(super) budget: Budget,
    /// Where the operator is.
    pub(super) operator_namespace: &'a str,
    /// Where this recipe's DRA driver is, if it has one.
    pub(super) dra_namespace: Option<&'a str>,
    /// The image, if it is not the chart's.
    pub(super) image: Option<&'a Image>,
}

/// The hook release's own part of the plan.
pub(super) fn of(parts: Parts<'_>) -> Hook {
    let driver = &parts.recipe.rollout.gpu_driver;
    let mut settings = Map::new();
    let mut put = |key: &str, value: Value| settings.insert(key.to_owned(), value);
    if let Some(image) = parts.image {
        put("image", Value::Object(image.values()));
    }
    put("component", json!({"name": parts.component, "version": parts.version}));
    put("duties", json!(parts.duties));
    put("mode", json!(driver.mode));
    put("gate", json!(driver.gate));
    put("budgetSeconds", json!(parts.budget.seconds));
    put("perNodeSeconds", json!(parts.budget.per_node_seconds));
    put("quietSeconds", json!(driver.quiet.as_secs()));
    put("tolerateNotReady", json!(driver.tolerate_not_ready));
    put("operatorNamespace", json!(parts.operator_namespace));
    put("dra", dra(&parts));
    Hook {
        component: parts.component.to_owned(),
        shares: parts.shares,
        version: parts.version.to_owned(),
        duties: parts.duties.to_vec(),
        rights: rights(Driver::Gpu, parts.duties).collect(),
        budget: parts.budget,
        settings,
    }
}

/// The bundle creates the DRA driver's namespace before any hook is installed, so none may be absent: the roles, and with them the
/// rights, are the same with every deployer.
///
/// Whether the driver must be there is judged after the driver's own release: the operator's hook runs before it on a first install.
fn dra(parts: &Parts<'_>) -> Value {
    let dra = parts.recipe.rollout.dra;
    let required = if parts.component == GPU_OPERATOR { Required::Auto } else { dra.required };
    json!({
        "reroll": dra.reroll,
        "required": required,
        "namespaces": parts.dra_namespace.into_iter().collect::<Vec<_>>(),
        "skipAbsentNamespaces": false,
    })
}
