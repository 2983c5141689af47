//! What a plan refuses.

use serde_json::{Value, json};

use super::{planned, with_policy};
use crate::fixture::{catalog, crd, recipe};
use crate::{PlanError, PlanOptions, plan};

#[test]
fn contradictions_are_errors() {
    let operator =
        |values: Value| json!({"components": [{"name": "gpu-operator", "values": values}]});
    let endless = json!({"waitForCompletion": {"podSelector": "a=b"}});
    let cases = [
        (json!({"components": []}), "the recipe has no components"),
        (json!({"components": [{"name": "nope"}]}), "component `nope` is not in the catalog"),
        (
            json!({"components": [{"name": "gpu-operator"}, {"name": "gpu-operator"}]}),
            "component `gpu-operator` is in the recipe twice",
        ),
        (
            operator(json!({"driver": {"version": "1"}})),
            "`rollout.gpuDriver.version` and `values.driver.version` of component `gpu-operator` set the same value",
        ),
        (
            operator(json!({"driver": "x"})),
            "`values.driver` of component `gpu-operator` is not a map",
        ),
        (
            operator(json!({"operator": {"upgradeCRD": true}})),
            "`values.operator.upgradeCRD` of component `gpu-operator` must be false, found true",
        ),
        (
            with_policy(&json!({"maxUnavailable": 0})),
            "`maxUnavailable: 0` has no effect: the gpu-operator chart treats 0 as not set, and renders 25%",
        ),
        (
            json!({"components": [{"name": "gpu-operator"}], "rollout": {"dra": {"required": true}}}),
            "`rollout.dra.required` is true, but the recipe has no component `nvidia-dra-driver-gpu`",
        ),
        (
            json!({"rollout": {"gpuDriver": {"perNode": "600h"}}}),
            "the time budget of `rollout.gpuDriver` is longer than the limit of 24 days: 9600h15m: 16 GPU nodes, 1 upgraded at once, 600h per node, 15m for \
             everything else",
        ),
        (
            json!({"rollout": {"gpuDriver": {"mode": "drive", "policy": {
                "canary": {"soak": "168h"}, "ramp": ["10%", "50%"], "windows": ["Sat 22:00-24:00 UTC"],
            }}}}),
            "the time budget of `rollout.gpuDriver` is longer than the limit of 24 days: 839h27m: 16 GPU nodes, 1 upgraded at once, 12m per node, 4 steps \
             (first 1 canary) with 168h between them, at most 332h of waiting for maintenance windows, 15m for everything else",
        ),
    ];
    for (overlay, message) in cases {
        assert_eq!(planned(overlay).unwrap_err().to_string(), message);
    }
    assert_eq!(planned(with_policy(&endless)).unwrap_err(), PlanError::EndlessWait("gpuDriver"));
    let zero = json!({"waitForCompletion": {"podSelector": "a=b", "timeout": "0s"}});
    assert_eq!(planned(with_policy(&zero)).unwrap_err(), PlanError::EndlessWait("gpuDriver"));
    let raw = json!({"driver": {"upgradePolicy": {"waitForCompletion": {"podSelector": "a=b"}}}});
    let raw = json!({"rollout": {}, "components": [{"name": "gpu-operator", "values": raw}]});
    assert_eq!(
        planned(raw).unwrap_err(),
        PlanError::EndlessWait("gpuDriver"),
        "also where the values say it"
    );
}

#[test]
fn two_forms_of_one_crd_are_refused() {
    let mut catalog = catalog();
    let key = ("node-feature-discovery".to_owned(), "crds/features.yaml".to_owned());
    catalog.files.insert(key, crd("nodefeatures.nfd.k8s-sigs.io").replace("such as", "like"));
    let both = recipe(
        json!({"components": [{"name": "gpu-operator"}, {"name": "node-feature-discovery"}]}),
    );
    let error = plan(&both, &catalog, &PlanOptions::default()).unwrap_err();
    assert!(matches!(error, PlanError::CrdConflict { .. }), "{error}");
}

#[test]
fn names_that_helm_does_not_take_are_errors() {
    let renamed = |from: &str, name: &str| {
        let mut catalog = catalog();
        let component =
            catalog.components.iter_mut().find(|component| component.name == from).unwrap();
        component.name = name.to_owned();
        catalog
    };
    let one = |name: &str| recipe(json!({"rollout": {}, "components": [{"name": name}]}));
    let long = "a".repeat(54);
    let error =
        plan(&one(&long), &renamed("cert-manager", &long), &PlanOptions::default()).unwrap_err();
    assert_eq!(error, PlanError::LongName(long));
    let both = recipe(
        json!({"rollout": {}, "components": [{"name": "gpu-operator"}, {"name": "gpu-operator-post"}]}),
    );
    let error = plan(&both, &renamed("cert-manager", "gpu-operator-post"), &PlanOptions::default())
        .unwrap_err();
    assert_eq!(error, PlanError::NameTwice("gpu-operator-post".to_owned()));
}
