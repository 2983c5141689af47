//! Settings that the templates of the charts change on their way to the operator.

use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use recipe::load::load;

use crate::Text;

/// The findings about a recipe with this `rollout` and this component.
fn findings(rollout: &str, component: &str) -> Vec<Diagnostic> {
    let text = format!(
        "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {{name: rendered}}\ncluster: {{gpuNodes: 4}}\nrollout: {rollout}\ncomponents:\n  - {component}\n"
    );
    match load("-", &[], &mut Text(text.into_bytes())) {
        Ok(loaded) => loaded.warnings.list,
        Err(findings) => findings.list,
    }
}

/// How many strings the chart would write without the quotes that they need.
fn unquoted(rollout: &str, component: &str) -> usize {
    let found = findings(rollout, component);
    found.iter().filter(|finding| finding.lint == Some(Lint::Unquoted)).count()
}

fn gpu_operator(version: &str, driver: &str) -> String {
    format!("{{name: gpu-operator, version: {version}, values: {{driver: {driver}}}}}")
}

/// A Network Operator with an OFED driver: in values up to 24.7, in a custom resource since then.
fn network_operator(version: &str) -> String {
    let policy = if version.starts_with("24.1.") || version.starts_with("24.7.") {
        "values: {deployCR: true, ofedDriver: {deploy: true}}"
    } else {
        "customResources: {NicClusterPolicy: {ofedDriver: {image: doca-driver, repository: nvcr.io/nvidia/mellanox}}}"
    };
    format!("{{name: network-operator, version: {version}, {policy}}}")
}

/// A drain with an empty selector evicts every pod, and with one the operator waits for no job.
#[test]
fn selector_that_chart_would_change_is_refused() {
    let policies = [
        (r#"drain: {enable: true, podSelector: "!keep"}"#, 1),
        (r#"drain: {enable: true, podSelector: "! keep"}"#, 1),
        (r#"drain: {enable: true, podSelector: "123"}"#, 1),
        (r#"drain: {enable: true, podSelector: "null"}"#, 1),
        (r#"waitForCompletion: {timeout: 1h, podSelector: "!keep"}"#, 1),
        (r#"waitForCompletion: {timeout: 1h, podSelector: "y"}"#, 1),
        (r#"drain: {enable: true, podSelector: "gpu-rollout.dev/none!=true,!keep"}"#, 0),
        (r#"drain: {enable: true, podSelector: "tier in (a, b),!keep"}"#, 0),
        (r#"drain: {enable: true, podSelector: ""}"#, 0),
    ];
    // The catalog does not have the last one.
    for version in ["v25.10.1", "v26.3.1", "v26.3.2", "v26.3.3", "v26.7.0", "v26.7.1"] {
        for (policy, expected) in policies {
            let rollout = format!("{{gpuDriver: {{policy: {{{policy}}}}}}}");
            let found = unquoted(&rollout, &gpu_operator(version, "{}"));
            assert_eq!(found, expected, "{version} {policy}");
        }
    }
    let wait = policies[4].0;
    for (version, policy, expected) in [
        ("24.1.1", wait, 1),
        ("24.7.1", wait, 1),
        ("24.7.1", policies[0].0, 0),
        ("25.1.0", wait, 0),
        ("26.4.1", wait, 0),
    ] {
        let rollout = format!("{{ofedDriver: {{policy: {{{policy}}}}}}}");
        let found = unquoted(&rollout, &network_operator(version));
        assert_eq!(found, expected, "{version} {policy}");
    }
}

/// In `drive`, the hook reads the selectors, and no chart.
#[test]
fn selector_is_checked_where_chart_writes_it() {
    let policy = r#"{waitForCompletion: {podSelector: "!keep", timeout: 1h}}"#;
    for (mode, expected) in [("observe", 1), ("assist", 1), ("steer", 1), ("drive", 0)] {
        for (driver, component) in [
            ("gpuDriver", gpu_operator("v26.3.3", "{}")),
            ("ofedDriver", network_operator("24.7.1")),
        ] {
            let rollout = format!("{{{driver}: {{mode: {mode}, policy: {policy}}}}}");
            assert_eq!(unquoted(&rollout, &component), expected, "{mode} {driver}");
        }
    }
    let disabled = gpu_operator("v26.3.3", "{enabled: false}");
    assert_eq!(unquoted(&format!("{{gpuDriver: {{policy: {policy}}}}}"), &disabled), 0);
}

/// The CRD of NVIDIADriver refuses a version that is a number.
#[test]
fn driver_version_that_chart_would_change_is_refused() {
    let precompiled = "{usePrecompiled: true, nvidiaDriverCRD: {enabled: true}}";
    let compiled = "{nvidiaDriverCRD: {enabled: true}}";
    let own = "{nvidiaDriverCRD: {enabled: true, deployDefaultCR: false}}";
    for (version, driver, chart, expected) in [
        ("580", precompiled, "v25.10.1", 1),
        ("580", precompiled, "v26.3.1", 1),
        ("580", precompiled, "v26.3.2", 1),
        ("580", precompiled, "v26.3.3", 1),
        // The catalog does not have this one.
        ("580", precompiled, "v26.3.4", 1),
        ("580", precompiled, "v26.7.0", 0),
        ("580", "{usePrecompiled: true}", "v26.3.3", 0),
        ("580.10", compiled, "v26.3.3", 1),
        ("580.10", compiled, "v26.7.0", 0),
        ("580.10", "{}", "v26.3.3", 0),
        ("580.10", own, "v26.3.3", 0),
        ("580.126.20", compiled, "v26.3.3", 0),
    ] {
        for mode in ["observe", "drive"] {
            let rollout = format!(r#"{{gpuDriver: {{mode: {mode}, version: "{version}"}}}}"#);
            let found = unquoted(&rollout, &gpu_operator(chart, driver));
            assert_eq!(found, expected, "{version} {driver} {chart} {mode}");
        }
    }
    let in_values = r#"{usePrecompiled: true, version: "580", nvidiaDriverCRD: {enabled: true}}"#;
    assert_eq!(unquoted("{}", &gpu_operator("v26.3.3", in_values)), 1);
    for (version, chart, expected) in
        [("24.10", "24.7.1", 1), ("24.10", "26.4.1", 0), ("24.07-0.6.1.0-0", "24.7.1", 0)]
    {
        let rollout = format!(r#"{{ofedDriver: {{version: "{version}"}}}}"#);
        assert_eq!(unquoted(&rollout, &network_operator(chart)), expected, "{version} {chart}");
    }
}

/// Charts up to 24.7 have `drain.enable | default true`, which is true for `false`.
#[test]
fn drain_that_old_chart_cannot_disable_is_refused() {
    let rule = "rule `ofed-drain-always-on`, source: ";
    for (version, is_old) in [
        ("24.1.1", true),
        // The catalog does not have this one.
        ("24.7.0", true),
        ("24.7.1", true),
        ("25.1.0", false),
        ("26.4.1", false),
    ] {
        for (mode, is_charts) in
            [("observe", true), ("assist", true), ("steer", true), ("drive", false)]
        {
            for enable in [false, true] {
                let rollout = format!(
                    "{{ofedDriver: {{mode: {mode}, policy: {{drain: {{enable: {enable}}}}}}}}}"
                );
                let found = findings(&rollout, &network_operator(version))
                    .iter()
                    .filter(|finding| finding.hints.iter().any(|hint| hint.starts_with(rule)))
                    .count();
                let expected = usize::from(is_old && is_charts && !enable);
                assert_eq!(found, expected, "{version} {mode} {enable}");
            }
        }
    }
}
