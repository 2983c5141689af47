//! The directory of the driver, in the DRA driver and in the GPU Operator.

use diagnostics::diagnostic::Severity;
use diagnostics::lint::Lint;
use recipe::load::load;

use crate::Text;

#[test]
fn driver_root_matches_who_installs_driver() {
    for (is_managed, root, expected) in [
        (true, "/run/nvidia/driver", None),
        (true, "/", Some(Severity::Error)),
        (false, "/", None),
        (false, "/home/kubernetes/bin/nvidia", None),
        (false, "/run/nvidia/driver", Some(Severity::Warning)),
    ] {
        let text = format!(
            "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {{name: root}}\ncluster: {{gpuNodes: 4}}\ncomponents:\n  - name: gpu-operator\n    version: v26.7.0\n    values: {{driver: {{enabled: {is_managed}}}, devicePlugin: {{enabled: false}}}}\n  - name: nvidia-dra-driver-gpu\n    version: 25.12.0\n    values: {{nvidiaDriverRoot: {root}, gpuResourcesEnabledOverride: true}}\n"
        );
        let findings = match load("-", &[], &mut Text(text.into_bytes())) {
            Ok(loaded) => loaded.warnings,
            Err(findings) => findings,
        };
        let found = findings.list.iter().find(|finding| finding.lint == Some(Lint::DriverRoot));
        assert_eq!(found.map(|finding| finding.severity), expected, "{is_managed} {root}");
    }
}
