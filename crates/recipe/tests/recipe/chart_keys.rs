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
            let text = format!(
                "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {{name: keys}}\ncluster: {{gpuNodes: 4}}\ncomponents:\n  - name: {component}\n    version: {version}\n    values: {values}\n"
            );
            let findings = match load("-", &[], &mut Text(text.into_bytes())) {
                Ok(loaded) => loaded.warnings,
                Err(findings) => findings,
            };
            let lints = findings.list.iter().filter_map(|finding| finding.lint);
            let refused = lints.filter(|lint| *lint == Lint::UnknownKey).count();
            assert_eq!(refused, usize::from(!is_read), "{component} {version}: {path}");
        }
    }
}
