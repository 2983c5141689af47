//! The defaults that `recipe explain` shows.

use recipe::explain::explain;
use recipe::load::load;
use recipe::overrides::ValueOverride;
use recipe::read::FileSystemReader;

/// Returns what `recipe explain` says about a path in a recipe of the library with an override.
fn explained(recipe: &str, set: &str, path: &str) -> String {
    let overrides: [ValueOverride; 1] = [set.parse().expect("an override")];
    let loaded = load(recipe, &overrides, &mut FileSystemReader)
        .unwrap_or_else(|findings| panic!("{}", findings.render_plain()));
    explain(&loaded, &path.parse().expect("a path")).unwrap_or_else(|error| error.to_string())
}

#[test]
fn every_default_is_shown_with_its_source() {
    let (in_assist, in_drive) =
        ("; mode `assist` does not use it", "; mode `drive` does not use it");
    for (recipe, mode, path, source, value, tail) in [
        ("base", "drive", "gpuDriver.policy.failureBudget", "gpu-rollout", "1", ""),
        ("base", "steer", "gpuDriver.policy.attempts", "gpu-rollout", "2", ""),
        ("base", "drive", "gpuDriver.policy.soak", "gpu-rollout", "\"0s\"", ""),
        ("base", "drive", "gpuDriver.policy.driverStart", "gpu-rollout", "\"30m\"", ""),
        ("base", "drive", "gpuDriver.policy.validation", "gpu-rollout", "\"10m\"", ""),
        ("base", "drive", "gpuDriver.policy.foreignCordon", "gpu-rollout", "\"skip\"", ""),
        ("base", "assist", "gpuDriver.policy.soak", "gpu-rollout", "\"0s\"", in_assist),
        ("base", "drive", "gpuDriver.policy.podDeletion.timeout", "gpu-rollout", "\"5m\"", ""),
        ("base", "assist", "gpuDriver.policy.podDeletion.timeout", "the chart", "\"5m\"", ""),
        ("base", "steer", "gpuDriver.policy.drain.enable", "the chart", "false", ""),
        ("base", "drive", "gpuDriver.preflight.empty-dir", "gpu-rollout", "\"block\"", ""),
        ("base", "assist", "gpuDriver.preflight.selectors", "gpu-rollout", "\"warn\"", ""),
        ("base", "assist", "gpuDriver.settle.operands", "gpu-rollout", "\"gating\"", ""),
        ("base", "drive", "gpuDriver.operatorUpgrade.hold", "gpu-rollout", "\"auto\"", in_drive),
        ("base", "drive", "acceptancePodSecurity", "gpu-rollout", "\"baseline\"", ""),
        ("base", "drive", "metrics.enabled", "gpu-rollout", "false", ""),
        ("base", "drive", "metrics.port", "gpu-rollout", "9797", ""),
        ("base", "drive", "metrics.podMonitor.interval", "gpu-rollout", "\"15s\"", ""),
        ("rdma", "assist", "ofedDriver.policy.safeLoad", "the Network Operator", "false", ""),
        ("rdma", "assist", "ofedDriver.policy.drain.force", "the Network Operator", "false", ""),
        ("rdma", "assist", "ofedDriver.policy.attempts", "gpu-rollout", "2", ""),
    ] {
        let path = format!("rollout.{path}");
        assert_eq!(
            explained(recipe, &format!("rollout.gpuDriver.mode={mode}"), &path),
            format!(
                "{path}: {value}\n  default of {source}: {value}  ← wins, no recipe sets it{tail}\n"
            ),
            "{recipe} {mode}"
        );
    }
    let platform = explained("base", "cluster.gpuNodes=4", "cluster.platform");
    assert!(platform.starts_with("cluster.platform: \"kubernetes\"\n"), "{platform}");
}

#[test]
fn key_without_default_is_said_to_have_none() {
    for path in [
        "gpuDriver.policy.topology",
        "gpuDriver.policy.canary",
        "gpuDriver.policy.halt",
        "gpuDriver.version",
        "ofedDriver.mode",
    ] {
        let path = format!("rollout.{path}");
        let said = explained("kind-dev", "cluster.gpuNodes=2", &path);
        assert_eq!(said, format!("no recipe sets `{path}`, and it has no default"));
    }
}
