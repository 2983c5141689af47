//! What options write for the pods of sub-charts, with the real catalog. What each chart's pods
//! read was checked with `helm template` on the charts.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::upstream;
use crate::fixture::recipe;
use crate::{EmbeddedCatalog, PlanOptions, ReleasePlan, plan};

/// Plans a recipe with one component.
fn planned(name: &str, version: &str, values: &Value, options: &PlanOptions) -> ReleasePlan {
    let component = json!({"name": name, "version": version, "values": values});
    let recipe = recipe(json!({"rollout": {}, "components": [component]}));
    plan(&recipe, &EmbeddedCatalog, options)
        .unwrap_or_else(|error| panic!("{name} {version}: {error}"))
}

/// Returns all values with this key, by the dotted path of the map that they are in.
fn places(values: &Map<String, Value>, key: &str) -> BTreeMap<String, Value> {
    fn collect(
        path: &str,
        map: &Map<String, Value>,
        key: &str,
        found: &mut BTreeMap<String, Value>,
    ) {
        for (name, value) in map {
            if name == key {
                found.insert(path.to_owned(), value.clone());
            } else if let Value::Object(below) = value {
                let place = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(&place, below, key, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    collect("", values, key, &mut found);
    found
}

/// Values that enable every sub-chart of the Network Operator.
fn all_on() -> Value {
    let on = json!({"enabled": true});
    json!({"sriovNetworkOperator": on, "maintenanceOperator": on, "nicConfigurationOperator": on})
}

/// The parent's default values do not have the sub-charts' keys. A Secret that a pod does not name
/// leaves it without its image from the mirror.
#[test]
fn pull_secrets_reach_pods_of_sub_charts() {
    let options = PlanOptions { pull_secrets: vec!["pull".to_owned()], ..PlanOptions::default() };
    let (names, references) = (json!(["pull"]), json!([{"name": "pull"}]));
    let (nfd, sriov) = ("node-feature-discovery", "sriov-network-operator");
    let (maintenance, nic) = ("maintenance-operator-chart", "nic-configuration-operator-chart");
    let discovery = json!({"gfd": {"enabled": true}});
    let own = json!({
        "sriovNetworkOperator": {"enabled": true}, "sriov-network-operator": {"imagePullSecrets": ["own"]},
    });
    let cases = [
        ("gpu-operator", "v25.10.1", json!({}), vec![(nfd, references.clone())]),
        ("gpu-operator", "v26.7.0", json!({}), vec![(nfd, references.clone())]),
        ("gpu-operator", "v26.7.0", json!({"nfd": {"enabled": false}}), vec![]),
        ("nvidia-device-plugin", "0.17.4", discovery.clone(), vec![("nfd", references.clone())]),
        ("nvidia-device-plugin", "0.20.0", discovery, vec![("nfd", references.clone())]),
        ("nvidia-device-plugin", "0.20.0", json!({}), vec![]),
        // These versions have no other sub-charts.
        (
            "network-operator",
            "24.1.1",
            all_on(),
            vec![(nfd, references.clone()), (sriov, names.clone())],
        ),
        (
            "network-operator",
            "24.7.1",
            all_on(),
            vec![(nfd, references.clone()), (sriov, names.clone())],
        ),
        (
            "network-operator",
            "25.1.0",
            all_on(),
            vec![
                (maintenance, references.clone()),
                (nic, references.clone()),
                (nfd, references.clone()),
                (sriov, names.clone()),
            ],
        ),
        (
            "network-operator",
            "26.1.2",
            all_on(),
            vec![
                (maintenance, references.clone()),
                (nfd, references.clone()),
                (sriov, names.clone()),
            ],
        ),
        (
            "network-operator",
            "26.4.1",
            all_on(),
            vec![(maintenance, references.clone()), (nfd, references.clone()), (sriov, names)],
        ),
        ("network-operator", "26.4.1", json!({}), vec![(nfd, references.clone())]),
        ("network-operator", "26.4.1", own, vec![(nfd, references), (sriov, json!(["own"]))]),
    ];
    let sub_charts = [nfd, "nfd", sriov, maintenance, nic];
    for (name, version, values, expected) in cases {
        let plan = planned(name, version, &values, &options);
        let mut found = places(&upstream(&plan, name).values, "imagePullSecrets");
        found.retain(|path, _| sub_charts.iter().any(|key| path.split('.').next() == Some(*key)));
        let expected: BTreeMap<String, Value> =
            expected.into_iter().map(|(path, value)| (path.to_owned(), value)).collect();
        assert_eq!(found, expected, "{name} {version} {values}");
    }
}

fn system_options() -> PlanOptions {
    let scheduling = json!({"system": {
        "nodeSelector": {"pool": "system"}, "tolerations": [{"key": "system", "operator": "Exists"}],
    }});
    PlanOptions {
        node_scheduling: serde_json::from_value(scheduling).unwrap(),
        ..PlanOptions::default()
    }
}

/// A pod without the toleration stays pending on nodes with the taint. A key of a pod that does not
/// exist is not written.
#[test]
fn system_node_options_reach_pods_of_sub_charts() {
    let discovery = json!({"gfd": {"enabled": true}});
    let sriov_on = json!({"sriovNetworkOperator": {"enabled": true}});
    let (gc, master) = ("node-feature-discovery.gc", "node-feature-discovery.master");
    let (sriov, maintenance) =
        ("sriov-network-operator.operator", "maintenance-operator-chart.operator");
    let nic = "nic-configuration-operator-chart.operator";
    // Component, version, values, places of both, and places of tolerations only.
    let cases = [
        ("nvidia-device-plugin", "0.17.4", discovery.clone(), vec!["nfd.gc", "nfd.master"], vec![]),
        ("nvidia-device-plugin", "0.18.2", discovery.clone(), vec!["nfd.gc", "nfd.master"], vec![]),
        ("nvidia-device-plugin", "0.19.3", discovery.clone(), vec!["nfd.gc", "nfd.master"], vec![]),
        ("nvidia-device-plugin", "0.20.0", discovery, vec!["nfd.gc", "nfd.master"], vec![]),
        ("nvidia-device-plugin", "0.20.0", json!({}), vec![], vec![]),
        // NFD 0.13 has no Deployment `gc`.
        ("network-operator", "24.1.1", json!({}), vec![master, "operator"], vec![]),
        ("network-operator", "24.1.1", sriov_on.clone(), vec![master, "operator", sriov], vec![]),
        ("network-operator", "24.7.1", json!({}), vec![gc, master, "operator"], vec![]),
        ("network-operator", "24.7.1", sriov_on, vec![gc, master, "operator", sriov], vec![]),
        // A selector would also move the DaemonSet of the NIC configuration operator.
        (
            "network-operator",
            "25.1.0",
            all_on(),
            vec![maintenance, gc, master, "operator", sriov],
            vec![nic],
        ),
        (
            "network-operator",
            "26.1.2",
            all_on(),
            vec![maintenance, gc, master, "operator", sriov],
            vec![],
        ),
        (
            "network-operator",
            "26.4.1",
            all_on(),
            vec![maintenance, gc, master, "operator", sriov],
            vec![],
        ),
        ("network-operator", "26.4.1", json!({}), vec![gc, master, "operator"], vec![]),
    ];
    for (name, version, values, both, only_tolerations) in cases {
        let plan = planned(name, version, &values, &system_options());
        let written = &upstream(&plan, name).values;
        let found = |key: &str| places(written, key).into_keys().collect::<Vec<String>>();
        assert_eq!(found("nodeSelector"), both, "{name} {version} {values}");
        let mut tolerations = [both, only_tolerations].concat();
        tolerations.sort_unstable();
        assert_eq!(found("tolerations"), tolerations, "{name} {version} {values}");
        let has_no_effect = plan.notes.iter().any(|note| note.contains("--system-node-"));
        assert_eq!(has_no_effect, tolerations.is_empty(), "{name} {version}: {:?}", plan.notes);
    }
}

/// Helm replaces lists, so the catalog has the default tolerations of sub-charts without values.
#[test]
fn system_tolerations_add_to_those_of_sub_charts() {
    let exists = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    for version in ["24.1.1", "24.7.1", "25.1.0", "26.1.2", "26.4.1"] {
        let plan = planned("network-operator", version, &all_on(), &system_options());
        let found = places(&upstream(&plan, "network-operator").values, "tolerations");
        assert_eq!(
            found["sriov-network-operator.operator"],
            json!([
                exists("node-role.kubernetes.io/master"),
                exists("node-role.kubernetes.io/control-plane"),
                {"key": "system", "operator": "Exists"},
            ]),
            "{version}"
        );
    }
}

/// The catalog has the values of newer versions, which no longer tolerate the older taint.
#[test]
fn system_tolerations_add_to_those_of_older_sub_charts() {
    let equal =
        |key: &str| json!({"key": key, "operator": "Equal", "value": "", "effect": "NoSchedule"});
    let cases = [
        ("network-operator", "24.1.1", "node-feature-discovery.master"),
        ("network-operator", "24.7.1", "node-feature-discovery.master"),
        ("network-operator", "25.1.0", "node-feature-discovery.master"),
        ("nvidia-device-plugin", "0.17.4", "nfd.master"),
        ("nvidia-device-plugin", "0.18.2", "nfd.master"),
        ("nvidia-device-plugin", "0.19.3", "nfd.master"),
    ];
    for (name, version, place) in cases {
        let values =
            if name == "network-operator" { all_on() } else { json!({"gfd": {"enabled": true}}) };
        let plan = planned(name, version, &values, &system_options());
        let found = places(&upstream(&plan, name).values, "tolerations");
        assert_eq!(
            found[place],
            json!([
                equal("node-role.kubernetes.io/master"),
                equal("node-role.kubernetes.io/control-plane"),
                {"key": "system", "operator": "Exists"},
            ]),
            "{name} {version}"
        );
    }
}
