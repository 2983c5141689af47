//! Versions of precompiled drivers, which have only a branch.

use diagnostics::diagnostic::Severity;
use recipe::load::load;

use crate::Text;

/// The findings about `rollout.gpuDriver.version`, or the chart's `driver.version`.
fn severities(version: &str, values: &str) -> Vec<Severity> {
    let text = format!(
        "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {{name: precompiled}}\ncluster: {{gpuNodes: 4}}\nrollout: {{gpuDriver: {{version: {version}}}}}\ncomponents:\n  - name: gpu-operator\n    version: v26.3.3\n    values: {{driver: {values}}}\n"
    );
    let findings = match load("-", &[], &mut Text(text.into_bytes())) {
        Ok(loaded) => loaded.warnings,
        Err(findings) => findings,
    };
    findings.list.iter().map(|finding| finding.severity).collect()
}

#[test]
fn precompiled_drivers_are_set_by_branch() {
    let digest = format!("\"sha256:{}\"", "0a".repeat(32));
    let precompiled = "{usePrecompiled: true}";
    for (version, values, expected) in [
        ("\"580\"", precompiled, &[] as &[Severity]),
        ("580.126.20", precompiled, &[Severity::Warning]),
        (digest.as_str(), precompiled, &[Severity::Error]),
        ("latest", precompiled, &[Severity::Error]),
        ("null", precompiled, &[Severity::Warning]),
        ("null", "{usePrecompiled: true, version: \"580\"}", &[]),
        ("null", "{usePrecompiled: true, version: \"580.126.20\"}", &[Severity::Warning]),
        ("\"580\"", "{usePrecompiled: false}", &[Severity::Error]),
        ("580.126.20", "{usePrecompiled: false}", &[]),
    ] {
        assert_eq!(severities(version, values), expected, "{version} {values}");
    }
}
