//! The releases of a component's manifests: templates of objects that its chart does not contain.

use std::collections::BTreeMap;

use super::chosen::ChosenComponent;
use super::model::{Release, ReleaseKind, TemplatesRelease};
use super::time::LOCAL_TIMEOUT_SECONDS;
use super::values::over;
use recipe::manifests::{is_crds, kinds, namespaces};
use recipe::model::ManifestTime;

/// Suffix of the release that comes before the component's chart.
pub const BEFORE: &str = "-pre-manifests";
/// Suffix of the release that comes after the component's chart.
pub const AFTER: &str = "-manifests";

/// Returns the release of a component's manifests for one time. A component without a chart has one
/// release with all of them and its own name.
pub(super) fn release(
    choice: &ChosenComponent<'_>,
    time: ManifestTime,
    needs: &[String],
) -> Option<Release> {
    let suffix = match time {
        ManifestTime::Before => BEFORE,
        ManifestTime::After if choice.has_chart() => AFTER,
        ManifestTime::After => "",
    };
    let files: BTreeMap<String, String> = choice
        .asked
        .manifests
        .iter()
        .filter(|(_, manifest)| {
            let when = if choice.has_chart() { manifest.when } else { ManifestTime::After };
            when == time && !is_crds(&manifest.template)
        })
        .map(|(file, manifest)| (file.clone(), manifest.template.clone()))
        .collect();
    if files.is_empty() {
        return None;
    }
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let own = &choice.asked.manifest_values;
    let (shares, values, chart) = if choice.has_chart() {
        let chart = choice.known.chart_in(choice.version);
        (vec![choice.name().to_owned()], own.clone(), chart)
    } else {
        (Vec::new(), over(&choice.values, own), choice.name())
    };
    Some(Release {
        name: format!("{}{suffix}", choice.name()),
        namespace: choice.namespace.to_owned(),
        needs: needs.to_vec(),
        timeout_seconds: LOCAL_TIMEOUT_SECONDS,
        kind: ReleaseKind::Templates(TemplatesRelease {
            description: format!("Manifests of {}: {}", choice.name(), names.join(", ")),
            component: choice.name().to_owned(),
            shares,
            chart: chart.to_owned(),
            chart_version: choice.version.trim_start_matches('v').to_owned(),
            values,
            namespaces: files
                .values()
                .flat_map(|text| namespaces(text))
                .map(str::to_owned)
                .collect(),
            kinds: files.values().flat_map(|text| kinds(text)).filter_map(group_and_kind).collect(),
            files,
        }),
    })
}

/// Returns group and kind; `None` if only the template's evaluation shows them.
fn group_and_kind((version, kind): (&str, &str)) -> Option<(String, String)> {
    let is_literal = |text: &str| !text.is_empty() && !text.contains("{{");
    let group = version.split_once('/').map_or("", |(group, _)| group);
    (is_literal(version) && is_literal(kind)).then(|| (group.to_owned(), kind.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{catalog, recipe};
    use crate::{PlanOptions, ReleasePlan, plan};

    fn planned() -> ReleasePlan {
        let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: queues.example.com\nspec: {}\n";
        let recipe = recipe(json!({"components": [
            {"name": "gpu-operator", "version": "v26.3.1", "manifestValues": {"extra": 1}, "manifests": {
                "map.yaml": {"when": "before", "template": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: other\n"},
                "pod.yaml": {"when": "after", "template": "apiVersion: v1\nkind: {{ .Values.x }}\n"},
            }},
            {"name": "own", "namespace": "own", "after": ["gpu-operator"], "values": {"a": 1}, "manifests": {
                "job.yaml": {"when": "before", "template": "apiVersion: batch/v1\nkind: Job\n"},
                "crd.yaml": {"when": "after", "template": crd},
            }},
        ]}));
        plan(&recipe, &catalog(), &PlanOptions::default()).unwrap()
    }

    fn find<'a>(plan: &'a ReleasePlan, name: &str) -> (usize, &'a Release) {
        let position = plan.releases.iter().position(|release| release.name == name);
        position.map(|at| (at, &plan.releases[at])).unwrap_or_else(|| panic!("{name} is missing"))
    }

    fn templates<'a>(plan: &'a ReleasePlan, name: &str) -> &'a TemplatesRelease {
        let ReleaseKind::Templates(templates) = &find(plan, name).1.kind else {
            panic!("{name} has no templates")
        };
        templates
    }

    #[test]
    fn manifests_are_released_around_their_chart() {
        let plan = planned();
        let order = [
            "gpu-operator-pre",
            "gpu-operator-pre-manifests",
            "gpu-operator",
            "gpu-operator-manifests",
            "gpu-operator-post",
            "own-crds",
            "own",
        ];
        assert!(order.map(|name| find(&plan, name).0).is_sorted());
        let before = "gpu-operator-pre-manifests".to_owned();
        assert!(find(&plan, "gpu-operator").1.needs.contains(&before));
        assert_eq!(find(&plan, "gpu-operator-manifests").1.needs, ["gpu-operator"]);
        assert!(find(&plan, "own").1.needs.contains(&"gpu-operator-post".to_owned()));
        let hook = find(&plan, "gpu-operator-post").1;
        for name in ["gpu-operator-pre-manifests", "gpu-operator-manifests"] {
            assert!(hook.kind.shares().contains(&name.to_owned()), "{name}");
            assert!(hook.needs.contains(&name.to_owned()), "{name}");
        }
    }

    #[test]
    fn templates_see_the_values_and_chart_of_their_component() {
        let plan = planned();
        let before = templates(&plan, "gpu-operator-pre-manifests");
        assert_eq!(before.shares, ["gpu-operator"]);
        assert_eq!(
            (before.chart.as_str(), before.chart_version.as_str()),
            ("gpu-operator", "26.3.1")
        );
        assert_eq!(json!(before.values), json!({"extra": 1}));
        let own = templates(&plan, "own");
        assert!(own.shares.is_empty());
        assert_eq!((own.chart.as_str(), own.chart_version.as_str()), ("own", "0.1.0"));
        assert_eq!(json!(own.values), json!({"a": 1}));
        assert_eq!(own.files.keys().collect::<Vec<_>>(), ["job.yaml"]);
    }

    #[test]
    fn literal_kinds_and_namespaces_are_known() {
        let plan = planned();
        let before = templates(&plan, "gpu-operator-pre-manifests");
        assert!(before.namespaces.contains("other"));
        assert!(before.kinds.contains(&(String::new(), "ConfigMap".to_owned())));
        assert!(templates(&plan, "gpu-operator-manifests").kinds.is_empty());
        assert!(templates(&plan, "own").kinds.contains(&("batch".to_owned(), "Job".to_owned())));
    }
}
