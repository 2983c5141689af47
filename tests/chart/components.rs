//! The settings that the chart derives from the values that the hook shares with its component.

use std::collections::BTreeMap;

use contract::check::{CheckLevel, PreflightCheck};
use contract::count::Count;
use contract::digest::sha256;
use contract::driver::Driver;
use contract::preflight::{ComingValues, PreflightSettings, WaitingJob};
use contract::settings::{
    ConfigFallback, DevicePluginSettings, Expected, ExpectedNvidiaDriver, ExpectedUpgradePolicy,
    Settings,
};
use release::values::gpu;

use super::helm::{template, values};

fn settings(text: &str) -> Settings {
    let file = values(text);
    template(&["--values", file.to_str().unwrap()]).settings()
}

const MAP: &str = "
objects:
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: plugins, namespace: gpu-operator}
    data:
      default: |
        version: v1
      shared: |
        version: v1
        flags: {migStrategy: none}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: another}, data: {default: x}}
";

fn digests() -> BTreeMap<String, String> {
    let digest = |key: &str, text: &str| (key.to_owned(), sha256(text.as_bytes()));
    BTreeMap::from([
        digest("default", "version: v1\n"),
        digest("shared", "version: v1\nflags: {migStrategy: none}\n"),
    ])
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn gpu_operators_device_plugin_falls_back_to_defaults() {
    let found = settings(&format!(
        "{MAP}devicePlugin: {{config: {{name: plugins, default: shared}}}}\nrollout: {{operatorNamespace: nvidia}}\n"
    ));
    let expected = DevicePluginSettings {
        namespace: "nvidia".to_owned(),
        release: None,
        config_map: Some("plugins".to_owned()),
        default: Some("shared".to_owned()),
        fallbacks: vec![ConfigFallback::Empty],
        digests: Some(digests()),
        max_unavailable: Count::Percent(25),
        replacement_seconds: 300,
    };
    assert_eq!(found.device_plugin, expected);
    assert_eq!(found.driver, Driver::Gpu);
    assert_eq!(found.operator_deployment.as_deref(), Some("gpu-operator"));

    let created = settings("devicePlugin: {config: {name: plugins, create: true, data: {a: b}}}\n")
        .device_plugin;
    assert_eq!(created.digests, Some(BTreeMap::from([("a".to_owned(), sha256(b"b"))])));
    let foreign = settings("devicePlugin: {config: {name: plugins}}\n").device_plugin;
    assert_eq!((foreign.config_map.as_deref(), foreign.digests), (Some("plugins"), None));
    let none = settings("devicePlugin: {enabled: true}\n").device_plugin;
    assert_eq!(
        (none.config_map, none.digests, none.namespace.as_str()),
        (None, None, "gpu-operator")
    );
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn stand_alone_device_plugin_has_chart_fallbacks() {
    let component = "rollout: {component: {name: nvidia-device-plugin}, operatorNamespace: nvidia, devicePlugin: {maxUnavailable: 2, release: nvdp}}\n";
    let found = settings(&format!("{MAP}config: {{name: plugins}}\n{component}")).device_plugin;
    assert_eq!(
        (found.namespace.as_str(), found.release.as_deref()),
        ("gpu-operator", Some("nvdp"))
    );
    assert_eq!(found.fallbacks, [ConfigFallback::Named, ConfigFallback::Single]);
    assert_eq!(
        (found.digests, found.default, found.max_unavailable),
        (Some(digests()), None, Count::Number(2))
    );
    let own =
        settings(&format!("config: {{name: plugins, fallbackStrategies: [empty]}}\n{component}"))
            .device_plugin;
    assert_eq!(own.fallbacks, [ConfigFallback::Empty]);
    // The chart's own checksum annotation restarts the pods.
    let map = settings(&format!("config: {{map: {{default: x}}}}\n{component}")).device_plugin;
    assert_eq!((map.config_map, map.digests), (None, None));
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn the_network_operators_policy_is_what_is_expected() {
    let network = |version: &str| {
        format!(
            "rollout: {{driver: ofed, tasks: [settle, wake], component: {{name: network-operator, version: \"{version}\"}}}}\n"
        )
    };
    let policy = "
objects:
  - kind: NicClusterPolicy
    metadata: {name: nic-cluster-policy}
    spec: {ofedDriver: {version: 25.01-0.6.0.0-0}}
";
    let expected = |version: Option<&str>| Expected {
        nic_cluster_policy: true,
        ofed_driver_version: version.map(str::to_owned),
        ..Expected::default()
    };
    let found = settings(&format!("{policy}{}", network("25.1.0")));
    assert_eq!(
        (found.driver, found.operator_deployment.as_deref()),
        (Driver::Ofed, Some("network-operator"))
    );
    assert_eq!(found.expected, expected(Some("25.01-0.6.0.0-0")));
    let inbox = "objects: [{kind: NicClusterPolicy, metadata: {name: nic-cluster-policy}, spec: {nvIpam: {}}}]\n";
    assert_eq!(settings(&format!("{inbox}{}", network("25.1.0"))).expected, expected(None));
    assert_eq!(settings(&network("25.1.0")).expected, Expected::default());
    // Charts before 24.10 render the policy themselves; later ones do not read these keys.
    let old = "deployCR: true\nofedDriver: {deploy: true, version: 24.07-0.6.1.0-0}\n";
    assert_eq!(
        settings(&format!("{old}{}", network("24.7.1"))).expected,
        expected(Some("24.07-0.6.1.0-0"))
    );
    assert_eq!(settings(&format!("{old}{}", network("25.1.0"))).expected, Expected::default());
    let undeployed = "deployCR: true\nofedDriver: {deploy: false, version: 24.07-0.6.1.0-0}\n";
    assert_eq!(settings(&format!("{undeployed}{}", network("24.7.1"))).expected, expected(None));
}

const BEFORE: &str = "rollout: {mode: steer, tasks: [preflight, hold]}\n";

#[test]
#[ignore = "needs helm (make e2e)"]
fn preflight_knows_coming_daemon_sets_of_gpu_operator() {
    // The command `plan` reads the values itself, with the same result.
    let coming = |values: &str| {
        let told = settings(&format!("{values}{BEFORE}")).preflight.coming;
        let read: Option<serde_json::Map<_, _>> = yaml::from_str(values).unwrap();
        assert_eq!(gpu::coming(&read.unwrap_or_default()), told, "{values}");
        told
    };
    assert_eq!(coming(""), ComingValues::default(), "without values, the live settings must stay");
    let defaults = ComingValues {
        driver: Some(true),
        precompiled: Some(false),
        nvidia_drivers: Some(false),
        driver_toolkit: Some(false),
        auto_upgrade: Some(true),
        manager_environment: Some(BTreeMap::new()),
    };
    assert_eq!(
        coming("driver: {version: \"580\"}\n"),
        defaults,
        "a missing key must have the operator's default"
    );
    let all = coming(
        "driver:
  enabled: false
  usePrecompiled: true
  nvidiaDriverCRD: {enabled: true}
  upgradePolicy: {autoUpgrade: false}
  manager: {env: [{name: ENABLE_GPU_POD_EVICTION, value: \"false\"}, {name: A, valueFrom: {}}]}
operator: {use_ocp_driver_toolkit: true}
",
    );
    let environment = [("ENABLE_GPU_POD_EVICTION", "false"), ("A", "")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    let expected = ComingValues {
        driver: Some(false),
        precompiled: Some(true),
        nvidia_drivers: Some(true),
        driver_toolkit: Some(true),
        auto_upgrade: Some(false),
        manager_environment: Some(BTreeMap::from(environment)),
    };
    assert_eq!(all, expected);
    assert_eq!(
        settings("driver: {usePrecompiled: true}\n").preflight,
        PreflightSettings::default(),
        "without the task, the settings must have the defaults"
    );
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn default_nvidia_driver_is_expected_as_values_say() {
    let expected = |values: &str| {
        settings(&format!(
            "{values}rollout: {{component: {{name: gpu-operator, version: v26.7.0}}}}\n"
        ))
        .expected
    };
    let values = |crd: &str| {
        format!(
            "driver:
  version: \"595.91.07\"
  repository: registry.example.com/nvidia
  nvidiaDriverCRD: {{{crd}}}
  upgradePolicy: {{autoUpgrade: true, maxParallelUpgrades: 1, maxUnavailable: 25%}}
"
        )
    };
    let found = expected(&values("enabled: true"));
    let object = ExpectedNvidiaDriver {
        repository: Some("registry.example.com/nvidia".to_owned()),
        image: None,
        version: Some("595.91.07".to_owned()),
    };
    assert_eq!((found.nvidia_drivers, found.default_nvidia_driver), (Some(true), Some(object)));
    let policy = ExpectedUpgradePolicy {
        auto_upgrade: Some(true),
        max_parallel_upgrades: Some(1),
        max_unavailable: Some("25%".to_owned()),
    };
    assert_eq!(found.upgrade_policy, policy);
    let own = expected(&values("enabled: true, deployDefaultCR: false"));
    assert_eq!((own.nvidia_drivers, own.default_nvidia_driver), (Some(true), None));
    let off = expected(&values("enabled: false"));
    assert_eq!((off.nvidia_drivers, off.default_nvidia_driver), (Some(false), None));
    let numbers =
        expected("driver: {upgradePolicy: {maxParallelUpgrades: 0, maxUnavailable: 3}}\n");
    assert_eq!(
        (
            numbers.upgrade_policy.max_parallel_upgrades,
            numbers.upgrade_policy.max_unavailable.as_deref()
        ),
        (Some(0), Some("3"))
    );
    assert_eq!(
        (numbers.upgrade_policy.auto_upgrade, numbers.nvidia_drivers),
        (None, None),
        "the values do not set it"
    );
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn preflight_knows_future_of_network_operators_policy() {
    let coming = |version: &str, values: &str| {
        let component = format!("component: {{name: network-operator, version: \"{version}\"}}");
        settings(&format!("{values}rollout: {{driver: ofed, mode: steer, tasks: [preflight, hold], {component}}}\n")).preflight.coming
    };
    let of = |driver, auto_upgrade| ComingValues {
        driver: Some(driver),
        auto_upgrade: Some(auto_upgrade),
        ..ComingValues::default()
    };
    let policy = |spec: &str| {
        format!(
            "objects: [{{kind: NicClusterPolicy, metadata: {{name: nic-cluster-policy}}, spec: {spec}}}]\n"
        )
    };
    assert_eq!(coming("25.1.0", ""), ComingValues::default());
    assert_eq!(
        coming("25.1.0", &policy("{ofedDriver: {image: x, upgradePolicy: {autoUpgrade: true}}}")),
        of(true, true)
    );
    assert_eq!(coming("25.1.0", &policy("{ofedDriver: {image: x}}")), of(true, false));
    assert_eq!(coming("25.1.0", &policy("{nvIpam: {}}")), of(false, false));
    assert_eq!(coming("24.7.1", "deployCR: true\nofedDriver: {deploy: true}\n"), of(true, true));
    assert_eq!(
        coming("24.7.1", "deployCR: true\nofedDriver: {upgradePolicy: {autoUpgrade: false}}\n"),
        of(false, false)
    );
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn preflight_knows_waiting_job_and_its_strictness() {
    let preflight = settings(
        "rollout: {mode: drive, tasks: [preflight], preflight: {waits: {release: post, budgetSeconds: 2000000}, strictness: {empty-dir: warn}}}\n",
    )
    .preflight;
    assert_eq!(
        preflight.waits,
        Some(WaitingJob { release: "post".into(), budget_seconds: 2_000_000 })
    );
    assert_eq!(
        preflight.strictness,
        [(PreflightCheck::EmptyDir, CheckLevel::Warn)].into_iter().collect()
    );
    assert_eq!(settings(BEFORE).preflight, PreflightSettings::default());
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn own_daemon_set_is_named_without_operators_values() {
    let text = "driver: {version: \"580\", enabled: true}\nrollout: {driver: daemonset, mode: drive, tasks: [settle, drive], \
                daemonSet: {namespace: accelerators, name: accelerator-driver}, upgrade: {extraConsumers: [app=train]}}\n";
    let file = values(text);
    let objects = template(&["--values", file.to_str().unwrap()]);
    let found = objects.settings();
    assert_eq!(
        (found.driver, found.daemon_set.as_deref()),
        (Driver::DaemonSet, Some("accelerator-driver"))
    );
    assert_eq!((found.operator_namespace.as_str(), found.contradiction()), ("accelerators", None));
    assert_eq!(
        (found.expected, found.preflight),
        (Expected::default(), PreflightSettings::default())
    );
    let roles: Vec<&serde_json::Value> = objects
        .kind("Role")
        .filter(|role| role["metadata"]["namespace"] == "accelerators")
        .collect();
    let granted: Vec<&serde_json::Value> =
        roles.iter().flat_map(|role| role["rules"].as_array().unwrap()).collect();
    let of = |resource: &str| {
        granted.iter().find(|rule| rule["resources"] == serde_json::json!([resource])).copied()
    };
    assert_eq!(
        of("daemonsets").unwrap()["resourceNames"],
        serde_json::json!(["accelerator-driver"])
    );
    assert_eq!(of("deployments"), None);
    let settings = settings("rollout: {mode: observe, tasks: [settle]}\n");
    assert_eq!((settings.driver, settings.daemon_set), (Driver::Gpu, None));
}
