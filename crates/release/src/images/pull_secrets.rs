//! Finds the values of a chart and its sub-charts that take image pull Secrets.

use serde_json::{Map, Value};

use crate::values::over;
use catalog::lookup;
use catalog::model::{CatalogComponent, ComponentVersion, PullSecretForm};
use catalog::nested::is_within;

/// The key of most charts for Secrets.
const KEY: &str = "imagePullSecrets";

/// The map whose values Helm shares with all sub-charts.
const GLOBAL: &str = "global";

/// One value that takes image pull Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PullSecretPlace {
    /// Its dotted path.
    pub(crate) path: String,
    /// Whether it takes plain names, otherwise references as in a pod.
    pub(crate) is_by_name: bool,
}

/// Returns the values of this chart and of the sub-charts that are on, sorted by path. `all` are
/// the recipe's values over the chart's defaults.
pub(crate) fn of_chart(
    component: &CatalogComponent,
    details: &ComponentVersion,
    all: &Map<String, Value>,
) -> Vec<PullSecretPlace> {
    let place = |path, is_by_name| PullSecretPlace { path, is_by_name };
    let listed = &component.images.sub_chart_pull_secrets;
    let is_of_sub_chart = |path: &str| {
        listed.contains_key(path)
            || details.nested.iter().any(|nested| is_within(path, &[nested.key.as_str()]))
    };
    let mut places: Vec<PullSecretPlace> = of_templates(component, details, all)
        .into_iter()
        .filter(|path| !is_of_sub_chart(path))
        .map(|path| place(path, component.images.pull_secrets_by_name))
        .collect();
    for nested in component.nested(details, all) {
        let Some(sub) = catalog::component(&nested.component) else { continue };
        let like = sub.closest_version(&nested.version);
        let below = all.get(&nested.key).and_then(Value::as_object).cloned().unwrap_or_default();
        let paths = of_templates(sub, like, &over(sub.defaults(Some(like)), &below));
        // The sub-chart's own key is enough: it has precedence over the shared one.
        let own = paths.into_iter().filter(|path| !is_within(path, &[GLOBAL]));
        places.extend(
            own.map(|path| {
                place(format!("{}.{path}", nested.key), sub.images.pull_secrets_by_name)
            }),
        );
    }
    let off = component.off(&details.version, all);
    let open: Vec<&str> = details.open_keys.iter().map(String::as_str).collect();
    let on = listed.iter().filter(|(path, _)| is_within(path, &open) && !is_within(path, &off));
    places.extend(on.map(|(path, form)| place(path.clone(), *form == PullSecretForm::Names)));
    places.sort_unstable_by(|first, second| first.path.cmp(&second.path));
    places
}

/// Returns the paths that a chart's own templates read for Secrets: those of its values, and keys
/// that its default values do not have, in maps that they do have.
fn of_templates(
    component: &CatalogComponent,
    details: &ComponentVersion,
    all: &Map<String, Value>,
) -> Vec<String> {
    let further = component.read_keys(details).into_iter().flatten().filter(|path| {
        path.rsplit_once('.')
            .is_some_and(|(map, key)| key == KEY && lookup(all, map).is_some_and(Value::is_object))
    });
    let mut paths = Vec::new();
    collect("", all, &mut paths);
    paths.extend(further.map(str::to_owned));
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Adds the paths of all lists with the key of Secrets.
fn collect(path: &str, map: &Map<String, Value>, paths: &mut Vec<String>) {
    for (key, value) in map {
        let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            Value::Array(_) if key == KEY => paths.push(place),
            Value::Object(below) => collect(&place, below, paths),
            Value::Array(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_) => {}
        }
    }
}
