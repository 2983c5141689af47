//! Keys that real charts read, against the findings about a recipe that sets them.

use diagnostics::lint::Lint;
use recipe::load::load;

use crate::Text;

/// Component, versions, key, and whether the templates of these versions read it.
const KEYS: &[(&str, &[&str], &str, bool)] = &[
    ("gpu-operator", GPU, "operator.labels", true),
    ("gpu-operator", GPU, "operator.defaultGPUMode", true),
    ("gpu-operator", BEFORE_26_7, "operator.initContainer.image", true),
    ("gpu-operator", &["v26.7.0"], "operator.initContainer.image", false),
    ("gpu-operator", FROM_26_3_2, "dcgmExporter.podLabelAllowlistRegex", true),
    ("gpu-operator", &["v25.10.1", "v26.3.1"], "dcgmExporter.podLabelAllowlistRegex", false),
    ("gpu-operator", &["v26.7.0"], "hostPaths.kubeletRootDir", true),
    ("gpu-operator", BEFORE_26_7, "hostPaths.kubeletRootDir", false),
    ("gpu-operator", &["v26.7.0"], "operator.metrics.serviceMonitor.enabled", true),
    ("gpu-operator", BEFORE_26_7, "operator.metrics", false),
    ("gpu-operator", &["v26.7.0"], "dcgmExporter.serviceMonitor.scrapeTimeout", true),
    ("gpu-operator", BEFORE_26_7, "dcgmExporter.serviceMonitor.scrapeTimeout", false),
    ("gpu-operator", BEFORE_26_7, "driver.nvidiaDriverCRD.nodeSelector.pool", true),
    ("gpu-operator", &["v26.7.0"], "driver.nvidiaDriverCRD.nodeSelector.pool", false),
    ("gpu-operator", GPU, "driver.startupProbe.successThreshold", true),
    ("gpu-operator", GPU, "driver.startupProbe.exec", false),
    ("gpu-operator", GPU, "operator.resources.claims", true),
    ("gpu-operator", GPU, "cdi.default", false),
    ("gpu-operator", GPU, "kataManager.config.artifactsDir", true),
    ("gpu-operator", GPU, "kataManager.config.anything", false),
    ("gpu-operator", GPU, "node-feature-discovery.worker.config", true),
    ("gpu-operator", GPU, "node-feature-discovery.worker.configs", false),
    ("gpu-operator", GPU, "global.imagePullSecrets", true),
    ("network-operator", NETWORK, "operator.nameOverride", true),
    ("network-operator", NETWORK, "node-feature-discovery.anything", true),
    ("network-operator", &["24.7.1"], "ofedDriver.initContainer.image", true),
    ("network-operator", &["26.1.2", "26.4.1"], "ofedDriver.initContainer.image", false),
    ("network-operator", &["26.1.2"], "operator.ofedDriver.initContainer.image", true),
    ("nvidia-device-plugin", PLUGIN, "nvidiaDevRoot", true),
    ("nvidia-device-plugin", PLUGIN, "noTimestamp", true),
    ("nvidia-device-plugin", PLUGIN, "sleepInterval", true),
    ("nvidia-device-plugin", PLUGIN, "gfd.noTimestamp", false),
    ("nvidia-device-plugin", PLUGIN, "gfd.sleepInterval", false),
    ("nvidia-device-plugin", PLUGIN, "namespace", false),
    ("nvidia-device-plugin", &["0.20.0"], "devicePlugin.enableHostNetwork", true),
    ("nvidia-device-plugin", BEFORE_0_20, "devicePlugin.enableHostNetwork", false),
    ("nvidia-dra-driver-gpu", DRA, "webhook.serviceAccount.annotations.a", true),
    ("nvidia-dra-driver-gpu", DRA, "featureGates.AnyGate", true),
    ("nvidia-dra-driver-gpu", DRA, "webhook.strategy.type", false),
    ("nvidia-dra-driver-gpu", DRA, "kubeletPlugin.containers.init.resources", false),
    ("nvidia-dra-driver-gpu", DRA, "global", false),
    ("node-feature-discovery", NFD, "gc.podDisruptionBudget.minAvailable", true),
    ("node-feature-discovery", NFD, "gc.podDisruptionBudgets", false),
    ("aws-efa", &["v0.5.3"], "supportedInstanceLabels.values", true),
    ("aws-efa", &["v0.5.3"], "serviceAccount.create", false),
    // AICR sets it.
    ("aws-efa", &["v0.5.3"], "affinity", false),
];
const GPU: &[&str] = &["v25.10.1", "v26.3.1", "v26.3.2", "v26.3.3", "v26.7.0"];
const BEFORE_26_7: &[&str] = &["v25.10.1", "v26.3.1", "v26.3.2", "v26.3.3"];
const FROM_26_3_2: &[&str] = &["v26.3.2", "v26.3.3", "v26.7.0"];
const NETWORK: &[&str] = &["24.1.1", "24.7.1", "25.1.0", "26.1.2", "26.4.1"];
const PLUGIN: &[&str] = &["0.17.4", "0.18.2", "0.19.3", "0.20.0"];
const BEFORE_0_20: &[&str] = &["0.17.4", "0.18.2", "0.19.3"];
const DRA: &[&str] = &["25.8.1", "25.12.0", "0.4.0", "0.4.1"];
const NFD: &[&str] = &["0.18.2", "0.18.3", "0.19.0"];

#[test]
fn keys_of_values_are_accepted_exactly_if_read() {
    for (component, versions, path, is_read) in KEYS {
        for version in *versions {
            let values = path
                .rsplit('.')
                .fold("null".to_owned(), |value, key| format!("{{{key}: {value}}}"));
            let refused = lints(component, version, &values)
                .into_iter()
                .filter(|lint| *lint == Lint::UnknownKey)
                .count();
            assert_eq!(refused, usize::from(!is_read), "{component} {version}: {path}");
        }
    }
}

/// Returns the lints of findings about a recipe with one component and these values.
fn lints(component: &str, version: &str, values: &str) -> Vec<Lint> {
    let text = format!(
        "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {{name: keys}}\ncluster: {{gpuNodes: 4}}\ncomponents:\n  - name: {component}\n    version: {version}\n    values: {values}\n"
    );
    let findings = match load("-", &[], &mut Text(text.into_bytes())) {
        Ok(loaded) => loaded.warnings,
        Err(findings) => findings,
    };
    findings.list.iter().filter_map(|finding| finding.lint).collect()
}

/// The hook would look for these objects elsewhere, or under another name.
#[test]
fn values_that_move_objects_are_refused() {
    for (component, version, values) in [
        ("gpu-operator", "v26.3.3", "{operator: {labels: {helm.sh/chart: other}}}"),
        ("gpu-operator", "v26.3.3", "{daemonsets: {labels: {app.kubernetes.io/component: other}}}"),
        ("nvidia-device-plugin", "0.20.0", "{namespaceOverride: other}"),
        (
            "nvidia-device-plugin",
            "0.20.0",
            "{selectorLabelsOverride: {app.kubernetes.io/instance: other}}",
        ),
        ("nvidia-dra-driver-gpu", "25.12.0", "{namespaceOverride: other}"),
    ] {
        let moved = lints(component, version, values)
            .into_iter()
            .filter(|lint| *lint == Lint::MovedObject)
            .count();
        assert_eq!(moved, 1, "{component}: {values}");
    }
    let all = catalog::component_names().filter_map(catalog::component);
    assert_eq!(all.map(|component| component.moving_values.len()).sum::<usize>(), 5);
}

/// The device plugin of gpu-operator v26.3.1 and v26.3.2 mounts the devices of EFA too
/// (k8s-device-plugin#1692).
#[test]
fn operators_in_conflict_with_efa_are_named() {
    for (version, is_found) in [("v26.3.1", true), ("v26.3.2", true), ("v26.3.3", false)] {
        let text = format!(
            "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {{name: efa}}\ncluster: {{gpuNodes: 4}}\ncomponents:\n  - {{name: gpu-operator, version: {version}}}\n  - name: aws-efa\n"
        );
        let findings = match load("-", &[], &mut Text(text.into_bytes())) {
            Ok(loaded) => loaded.warnings,
            Err(findings) => findings,
        };
        let is_named = findings.render_plain().contains("EFA");
        assert_eq!(is_named, is_found, "{version}: {}", findings.render_plain());
    }
}
