//! The catalog, extended with the recipe's own components and their order.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::catalog::PlanCatalog;
use ::recipe::model::{self as recipe, Recipe};
use catalog::CatalogCrd;
use catalog::model::{CatalogComponent, ComponentVersion};

/// The version of a component without one, as in AICR.
const NO_VERSION: &str = "0.1.0";

/// A catalog with the recipe's additions.
pub(super) struct DescribedCatalog<'a, C> {
    inner: &'a C,
    own: BTreeMap<String, CatalogComponent>,
}

impl<'a, C: PlanCatalog> DescribedCatalog<'a, C> {
    /// Creates a catalog from `inner` and the additions of `recipe`.
    pub(super) fn new(recipe: &Recipe, inner: &'a C) -> Self {
        let own = recipe.components.iter().filter_map(|asked| {
            let known = inner.component(&asked.name);
            let component = match (known, &asked.chart) {
                (Some(_), _) if asked.after.is_empty() => return None,
                (Some(known), _) => known.clone(),
                (None, Some(chart)) => described(asked, &chart.name, &chart.repository),
                (None, None) if asked.manifests.is_empty() && asked.kustomize.is_none() => {
                    return None;
                }
                (None, None) => described(asked, "", ""),
            };
            Some(with_after(component, &asked.after))
        });
        Self { inner, own: own.map(|component| (component.name.clone(), component)).collect() }
    }
}

fn with_after(mut component: CatalogComponent, after: &[String]) -> CatalogComponent {
    component.after.extend(after.iter().cloned());
    component
}

/// Returns the catalog entry of a component of which only the chart is known; without a chart, its
/// name is empty. The needs of its pods are unknown, so nothing is forbidden.
fn described(asked: &recipe::RecipeComponent, chart: &str, repository: &str) -> CatalogComponent {
    let version = asked.version.as_deref().unwrap_or(NO_VERSION);
    serde_json::from_value(json!({
        "name": asked.name,
        "description": "described by the recipe",
        "chart": chart,
        "repository": {"name": asked.name, "url": repository},
        "namespace": asked.namespace.clone().unwrap_or_default(),
        "podSecurity": "privileged",
        "defaultVersion": version,
        "versions": [{"version": version}],
    }))
    .expect("strings where the catalog's format has strings; the test `what_the_recipe_describes_is_a_component` checks it")
}

impl<C: PlanCatalog> PlanCatalog for DescribedCatalog<'_, C> {
    fn component(&self, name: &str) -> Option<&CatalogComponent> {
        self.own.get(name).or_else(|| self.inner.component(name))
    }

    fn repositories(&self) -> Vec<&str> {
        let mut names = self.inner.repositories();
        let with_chart = self.own.values().filter(|component| !component.chart.is_empty());
        names.extend(with_chart.map(|component| component.repository.name.as_str()));
        names.sort_unstable();
        names.dedup();
        names
    }

    fn crds<'a>(
        &'a self,
        component: &'a CatalogComponent,
        version: &'a ComponentVersion,
        values: &Map<String, Value>,
        present: &[&str],
    ) -> Vec<CatalogCrd<'a>> {
        self.inner.crds(component, version, values, present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{catalog, recipe};
    use crate::{ChartOrigin, PlanOptions, ReleaseKind, plan};

    #[test]
    fn what_the_recipe_describes_is_a_component() {
        let recipe = recipe(json!({"components": [
            {"name": "queue", "version": "1.0.0", "namespace": "queue", "after": ["gpu-operator"], "values": {"replicas": 2},
             "chart": {"repository": "oci://charts.example.com/library", "name": "queue-chart"}},
            {"name": "gpu-operator", "version": "v26.3.1", "after": ["cert-manager"]},
            {"name": "cert-manager"},
        ]}));
        let options = PlanOptions::default();
        let plan = |options: &PlanOptions| plan(&recipe, &catalog(), options).unwrap().releases;
        let releases = plan(&options);
        let find = |name: &str| releases.iter().position(|release| release.name == name).unwrap();
        assert!(
            find("cert-manager") < find("gpu-operator-crds")
                && find("gpu-operator-post") < find("queue")
        );
        assert!(releases[find("gpu-operator")].needs.contains(&"cert-manager".to_owned()));
        let queue = &releases[find("queue")];
        assert_eq!(
            (queue.namespace.as_str(), &queue.needs),
            ("queue", &vec!["gpu-rollout-namespaces".to_owned(), "gpu-operator-post".to_owned()])
        );
        let ReleaseKind::Upstream(upstream) = &queue.kind else { panic!("no chart of a vendor") };
        assert_eq!(
            upstream.chart,
            ChartOrigin::Oci("oci://charts.example.com/library/queue-chart".to_owned())
        );
        assert_eq!(
            (upstream.version.as_str(), &upstream.values["replicas"], upstream.skip_crds),
            ("1.0.0", &json!(2), false)
        );
        let mirror = PlanOptions {
            chart_repositories: [("queue".to_owned(), "/mnt/charts".to_owned())].into(),
            ..options.clone()
        };
        let ReleaseKind::Upstream(upstream) = &plan(&mirror)[find("queue")].kind else {
            panic!("no chart of a vendor")
        };
        assert_eq!(
            upstream.chart,
            ChartOrigin::File("/mnt/charts/queue-chart-1.0.0.tgz".to_owned())
        );
    }
}
