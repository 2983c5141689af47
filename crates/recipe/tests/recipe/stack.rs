//! Checks of components against each other.

use diagnostics::diagnostic::{Diagnostics, Severity};
use diagnostics::lint::Lint;
use recipe::load::load;

use crate::Text;

/// Returns the findings of a recipe with these lines of components.
fn findings(components: &str) -> Diagnostics {
    let text = format!(
        "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {{name: stack}}\ncluster: {{gpuNodes: 4}}\ncomponents:\n{components}"
    );
    match load("-", &[], &mut Text(text.into_bytes())) {
        Ok(loaded) => loaded.warnings,
        Err(findings) => findings,
    }
}

#[test]
fn driver_root_matches_who_installs_driver() {
    for (is_managed, root, expected) in [
        (true, "/run/nvidia/driver", None),
        (true, "/", Some(Severity::Error)),
        (false, "/", None),
        (false, "/home/kubernetes/bin/nvidia", None),
        (false, "/run/nvidia/driver", Some(Severity::Warning)),
    ] {
        let findings = findings(&format!(
            "  - name: gpu-operator\n    version: v26.7.0\n    values: {{driver: {{enabled: {is_managed}}}, devicePlugin: {{enabled: false}}}}\n  - name: nvidia-dra-driver-gpu\n    version: 25.12.0\n    values: {{nvidiaDriverRoot: {root}, gpuResourcesEnabledOverride: true}}\n"
        ));
        let found = findings.list.iter().find(|finding| finding.lint == Some(Lint::DriverRoot));
        assert_eq!(found.map(|finding| finding.severity), expected, "{is_managed} {root}");
    }
}

/// In mode `drive`, the hook itself finds and evicts pods that use GPUs through DRA.
#[test]
fn unseen_claims_are_reported_unless_hook_evicts() {
    for (mode, expected) in [("observe", true), ("assist", true), ("steer", true), ("drive", false)]
    {
        let findings = findings(&format!(
            "  - name: gpu-operator\n    version: v26.3.3\n    values: {{devicePlugin: {{enabled: false}}}}\n  - name: nvidia-dra-driver-gpu\n    version: 25.12.0\n    values: {{nvidiaDriverRoot: /run/nvidia/driver, gpuResourcesEnabledOverride: true}}\nrollout: {{gpuDriver: {{mode: {mode}}}}}\n"
        ));
        let mut hints = findings.list.iter().flat_map(|finding| &finding.hints);
        let is_found = hints.any(|hint| hint.contains("`dra-claims-unseen`"));
        assert_eq!(is_found, expected, "{mode}");
    }
}

/// The Job removes NFD's labels from all nodes when the release is uninstalled. These charts have
/// no value that disables it.
#[test]
fn trap_nfd_cleanup_that_no_value_disables_is_reported() {
    const NFD: &str = "  - name: node-feature-discovery\n";
    let plugin = "nvidia-device-plugin";
    let discovery = "{gfd: {enabled: true}}";
    for (name, version, values, more, expected) in [
        (plugin, "0.17.4", discovery, "", false),
        (plugin, "0.18.0", discovery, "", true),
        (plugin, "0.18.2", discovery, "", true),
        (plugin, "0.19.3", discovery, "", true),
        (plugin, "0.19.3", "{nfd: {enabled: true}}", "", true),
        (plugin, "0.19.3", "{}", "", false),
        (plugin, "0.19.3", "{gfd: {enabled: true}, nfd: {enabled: false}}", "", false),
        (plugin, "0.19.3", discovery, NFD, false),
        (plugin, "0.19.3", discovery, "  - name: gpu-operator\n", false),
        (plugin, "0.20.0", discovery, "", false),
        ("network-operator", "24.7.1", "{}", "", false),
        ("network-operator", "25.1.0", "{}", "", true),
        ("network-operator", "25.1.0", "{}", "  - name: gpu-operator\n", true),
        ("network-operator", "25.1.0", "{}", NFD, false),
        ("network-operator", "25.1.0", "{nfd: {enabled: false}}", "", false),
        ("network-operator", "25.4.0", "{}", "", false),
        ("network-operator", "26.1.2", "{}", "", false),
    ] {
        let findings = findings(&format!(
            "  - name: {name}\n    version: {version}\n    values: {values}\n{more}"
        ));
        let mut hints = findings.list.iter().flat_map(|finding| &finding.hints);
        let is_found = hints.any(|hint| hint.contains("-nfd-cleanup`, source: "));
        assert_eq!(is_found, expected, "{name} {version} {values} {more}");
    }
}

/// The only system pods of the device plugin's chart are those of its sub-chart NFD.
#[test]
fn node_scheduling_of_a_disabled_sub_chart_is_reported() {
    const NFD: &str = "  - name: node-feature-discovery\n";
    let (plugin, network) = ("nvidia-device-plugin", "network-operator");
    // Without a policy, the operator has a finding of its own.
    let policy = "{}\n    customResources: {NicClusterPolicy: {tolerations: []}}";
    let system = "system: {nodeSelector: {pool: system}}";
    let accelerated = "accelerated: {tolerations: [{operator: Exists}]}";
    for (name, values, scheduling, more, expected) in [
        (plugin, "{gfd: {enabled: true}}", system, "", false),
        (plugin, "{}", system, "", true),
        (plugin, "{gfd: {enabled: true}}", system, NFD, true),
        (plugin, "{}", accelerated, "", false),
        (network, policy, accelerated, "", false),
        (network, policy, accelerated, NFD, true),
        (network, policy, system, NFD, false),
    ] {
        let findings = findings(&format!(
            "  - name: {name}\n    values: {values}\n    nodeScheduling: {{{scheduling}}}\n{more}"
        ));
        let is_found = findings.list.iter().any(|finding| finding.lint == Some(Lint::NoEffect));
        let name = format!("{name} {values} {scheduling} {more}");
        assert!(!findings.has_errors(), "{name}:\n{}", findings.render_plain());
        assert_eq!(is_found, expected, "{name}:\n{}", findings.render_plain());
    }
}
