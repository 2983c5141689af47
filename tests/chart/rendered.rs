//! The objects that the chart renders: the settings, the rights, the Job.

use std::collections::BTreeSet;

use contract::acceptance::{
    ACCEPTANCE_NAMESPACE, ALL_GPUS_CLAIM_TEMPLATE, AcceptanceGpus, AcceptanceNodes, AcceptanceTest,
    AcceptanceTime,
};
use contract::budget::TERMINATION_GRACE_SECONDS;
use contract::count::Count;
use contract::driver::Driver;
use contract::policy::{
    CompletionPolicy, DrainPolicy, ForeignCordon, Policy, TopologyLimit, UpgradeSettings,
};
use contract::proof::{Canary, Halt};
use contract::settings::{DraRequired, Expected, FORMAT_VERSION, Gate, Mode, Reroll};
use contract::task::{self, RightScope, Task};
use serde_json::{Value, json};

use super::helm::{Objects, template, template_as, values};

#[test]
#[ignore = "needs helm (make e2e)"]
fn the_program_reads_the_default_settings() {
    let settings = template(&[]).settings();
    assert_eq!(settings.format_version, FORMAT_VERSION);
    assert_eq!(
        (settings.release.as_str(), settings.namespace.as_str(), settings.record.as_str()),
        ("post", "gpu-operator", "post-record")
    );
    assert_eq!(
        (settings.component.as_str(), settings.component_version.as_deref()),
        ("gpu-operator", None)
    );
    assert_eq!(
        (settings.tasks.as_slice(), settings.mode, settings.gate),
        (&[Task::Settle, Task::Wake, Task::Reroll][..], Mode::Assist, Gate::Settled)
    );
    assert_eq!(settings.operator_namespace, "gpu-operator");
    assert_eq!(
        settings.upgrade,
        UpgradeSettings::default(),
        "the chart's defaults must be those of the program"
    );
    assert_eq!(settings.tolerate_not_ready, Count::Number(0));
    assert_eq!((settings.dra.reroll, settings.dra.required), (Reroll::Auto, DraRequired::Auto));
    assert_eq!(settings.dra.namespaces, contract::names::DRA_NAMESPACES);
    assert_eq!(settings.dra.max_unavailable, Count::Percent(25));
    assert_eq!(settings.expected, Expected::default());
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn the_program_reads_every_form_of_the_settings() {
    let file = values(
        "driver: {enabled: false, version: \"580.10\"}
toolkit: {version: v1.18.0-ubuntu20.04}
rollout:
  component: {version: v26.3.1}
  mode: observe
  tasks: [settle]
  budgetSeconds: 2000000
  quietSeconds: 0
  tolerateNotReady: 10%
  operatorNamespace: nvidia
  dra: {reroll: off, required: true, maxUnavailable: 3, namespaces: [a, b, a]}
",
    );
    let objects = template(&["--values", file.to_str().unwrap()]);
    let settings = objects.settings();
    assert_eq!((settings.budget_seconds, settings.quiet_seconds), (2_000_000, 0));
    assert_eq!(objects.job()["spec"]["activeDeadlineSeconds"], 2_000_000);
    assert_eq!(settings.component_version.as_deref(), Some("v26.3.1"));
    assert_eq!(
        (settings.tasks.as_slice(), settings.operator_namespace.as_str()),
        (&[Task::Settle][..], "nvidia")
    );
    assert_eq!(
        (settings.tolerate_not_ready, settings.dra.max_unavailable),
        (Count::Percent(10), Count::Number(3))
    );
    assert_eq!((settings.dra.reroll, settings.dra.required), (Reroll::Off, DraRequired::True));
    assert_eq!(settings.dra.namespaces, ["a", "b"]);
    let expected = Expected {
        driver_enabled: Some(false),
        driver_version: Some("580.10".to_owned()),
        toolkit_version: Some("v1.18.0-ubuntu20.04".to_owned()),
        ..Expected::default()
    };
    assert_eq!(settings.expected, expected);

    let file = values(
        "rollout:
  mode: drive
  tasks: [settle, drive]
  upgrade:
    policy:
      maxParallelUpgrades: 0
      maxUnavailable: 3
      waitForCompletion: {podSelector: app=train, timeoutSeconds: 7200}
      podDeletion: {enable: false}
      drain: {enable: true, force: true, podSelector: \"a in (b,c)\", timeoutSeconds: 60, deleteEmptyDir: true}
    failureBudget: 10%
    attempts: 3
    soakSeconds: 2000000
    windows: [Mon-Fri 22:00-05:00 Europe/Berlin]
    canary: {nodes: 2, per: [nvidia.com/gpu.product], soakSeconds: 2000000}
    ramp: [9%, 50%, 100%]
    halt: {failedProofs: 3, failedNodes: 4}
    acceptance:
      - {name: smi, template: {spec: {containers: [{name: test, image: \"r/a:1\"}]}}}
      - name: dcgm
        timeoutSeconds: 1800
        when: [before, after]
        nodes: 10%
        gpus: template
        logLines: 20
        template: {spec: {restartPolicy: Never, securityContext: {runAsUser: 2000000}, containers: [{name: test, image: \"r/b:1\"}]}}
    topology: {label: nvidia.com/gpu.clique, maxUnavailable: 50%}
    foreignCordon: include
    extraConsumers: [app=dcgm]
    startSeconds: 10
    validationSeconds: 20
",
    );
    let objects = template(&[
        "--values",
        file.to_str().unwrap(),
        "--api-versions",
        "resource.k8s.io/v1/ResourceClaimTemplate",
    ]);
    let mut of_tests: Vec<(String, String)> = objects
        .0
        .iter()
        .filter(|object| object["metadata"]["namespace"] == ACCEPTANCE_NAMESPACE)
        .filter(|object| !["Role", "RoleBinding"].iter().any(|kind| object["kind"] == *kind))
        .map(|object| (object["kind"].to_string(), object["metadata"]["name"].to_string()))
        .collect();
    let named = |kind: &str, name: &str| (format!("\"{kind}\""), format!("\"{name}\""));
    of_tests.sort();
    assert_eq!(
        of_tests,
        [
            named("PodTemplate", "dcgm"),
            named("PodTemplate", "smi"),
            named("ResourceClaimTemplate", ALL_GPUS_CLAIM_TEMPLATE),
        ]
    );
    let mut templates = objects.kind("PodTemplate").map(|object| &object["template"]["spec"]);
    let of_dcgm = templates.find(|spec| spec["securityContext"]["runAsUser"] == 2_000_000);
    assert_eq!(of_dcgm.unwrap()["containers"][0]["image"], "r/b:1");
    let settings = objects.settings();
    let test = |name: &str, timeout_seconds: u64| AcceptanceTest {
        name: name.into(),
        timeout_seconds,
        when: vec![AcceptanceTime::After],
        nodes: AcceptanceNodes::All,
        gpus: AcceptanceGpus::All,
        log_lines: 0,
    };
    let acceptance = vec![
        test("smi", 600),
        AcceptanceTest {
            when: vec![AcceptanceTime::Before, AcceptanceTime::After],
            nodes: AcceptanceNodes::Share("10%".parse().unwrap()),
            gpus: AcceptanceGpus::Template,
            log_lines: 20,
            ..test("dcgm", 1800)
        },
    ];
    let upgrade = UpgradeSettings {
        acceptance,
        policy: Policy {
            max_parallel_upgrades: 0,
            max_unavailable: Some(Count::Number(3)),
            wait_for_completion: Some(CompletionPolicy {
                pod_selector: "app=train".into(),
                timeout_seconds: 7200,
            }),
            pod_deletion: None,
            drain: Some(DrainPolicy {
                force: true,
                pod_selector: "a in (b,c)".into(),
                timeout_seconds: 60,
                delete_empty_dir: true,
            }),
        },
        failure_budget: Count::Percent(10),
        attempts: 3,
        soak_seconds: 2_000_000,
        windows: vec!["Mon-Fri 22:00-05:00 Europe/Berlin".parse().unwrap()],
        canary: Some(Canary {
            nodes: 2,
            per: vec!["nvidia.com/gpu.product".into()],
            soak_seconds: 2_000_000,
        }),
        ramp: vec!["9%".parse().unwrap(), "50%".parse().unwrap(), "100%".parse().unwrap()],
        halt: Some(Halt { failed_proofs: 3, failed_nodes: Some(4) }),
        topology: Some(TopologyLimit {
            label: "nvidia.com/gpu.clique".into(),
            max_unavailable: Count::Percent(50),
        }),
        foreign_cordon: ForeignCordon::Include,
        extra_consumers: vec!["app=dcgm".into()],
        start_seconds: 10,
        validation_seconds: 20,
    };
    assert_eq!((settings.mode, settings.upgrade), (Mode::Drive, upgrade));

    // One key of `halt` alone; the other one has its default.
    let file = values(
        "rollout:
  mode: drive
  tasks: [settle, drive]
  upgrade: {halt: {failedNodes: 2}}
",
    );
    let halting = template(&["--values", file.to_str().unwrap()]).settings().upgrade;
    let halt = Some(Halt { failed_nodes: Some(2), ..Halt::default() });
    assert_eq!((halting.halt, halting.canary, halting.ramp), (halt, None, Vec::new()));

    // The key `driver` of another component has no meaning here and may have any type.
    let other =
        template(&["--set", "rollout.component.name=nvidia-dra-driver-gpu,driver.version=3"]);
    assert_eq!(other.settings().expected, Expected::default());
}

/// Returns a rule as one line.
fn line(group: &str, resource: &str, verbs: &[&str], named: bool) -> String {
    format!("{group}/{resource} {} {}", verbs.join(","), if named { "named" } else { "any" })
}

/// Returns the rules of every role of a scope, and the namespaces of those roles.
fn rendered_rights(objects: &Objects, scope: RightScope) -> (BTreeSet<String>, Vec<&str>) {
    let (kind, suffix) = match scope {
        RightScope::Cluster => ("ClusterRole", ":post"),
        RightScope::Release => ("Role", ":release"),
        RightScope::Default => ("Role", ":default"),
        RightScope::Operator => ("Role", ":operator"),
        RightScope::Dra => ("Role", ":dra"),
        RightScope::DevicePlugin => ("Role", ":device-plugin"),
        RightScope::Acceptance => ("Role", ":acceptance"),
    };
    let mut lines = BTreeSet::new();
    let mut namespaces = Vec::new();
    for role in objects
        .kind(kind)
        .filter(|role| role["metadata"]["name"].as_str().unwrap().ends_with(suffix))
    {
        namespaces.extend(role["metadata"]["namespace"].as_str());
        for rule in role["rules"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let verbs: Vec<&str> = rule["verbs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|verb| verb.as_str().unwrap())
                .collect();
            let named = rule
                .get("resourceNames")
                .is_some_and(|names| !names.as_array().unwrap().is_empty());
            lines.insert(line(
                &text(&rule["apiGroups"][0]),
                &text(&rule["resources"][0]),
                &verbs,
                named,
            ));
        }
        let binding = objects.0.iter().find(|object| {
            object["kind"] == format!("{kind}Binding")
                && object["metadata"]["namespace"] == role["metadata"]["namespace"]
                && object["roleRef"]["name"] == role["metadata"]["name"]
        });
        let subject =
            json!([{"kind": "ServiceAccount", "name": "post", "namespace": "gpu-operator"}]);
        assert_eq!(binding.unwrap()["subjects"], subject);
    }
    (lines, namespaces)
}

/// An acceptance test.
const TESTED: &str = "rollout.upgrade.acceptance[0].name=smi,rollout.upgrade.acceptance[0].template.spec.containers[0].name=test";
/// An acceptance test that asks for lines of its log.
const TESTED_WITH_LOG: &str = "rollout.upgrade.acceptance[0].name=smi,rollout.upgrade.acceptance[0].logLines=20,rollout.upgrade.acceptance[0].template.spec.containers[0].name=test";

#[test]
#[ignore = "needs helm (make e2e)"]
fn the_rights_are_those_of_the_tasks() {
    let cases: [(Driver, Mode, &[Task], &str); 20] = [
        (Driver::Gpu, Mode::Observe, &[Task::Settle, Task::Reroll], ""),
        (Driver::Gpu, Mode::Observe, &[Task::Settle], ""),
        (
            Driver::Gpu,
            Mode::Assist,
            &[Task::Settle, Task::Wake, Task::Reroll, Task::RestartPlugins],
            "",
        ),
        (Driver::Gpu, Mode::Assist, &[Task::RestartPlugins], ""),
        (Driver::Gpu, Mode::Assist, &[Task::Preflight], ""),
        (Driver::Gpu, Mode::Assist, &[Task::Preflight, Task::Hold], ""),
        (Driver::Gpu, Mode::Steer, &[Task::Preflight, Task::Hold], ""),
        (Driver::Gpu, Mode::Steer, &[Task::Settle, Task::Wake, Task::Steer, Task::Reroll], ""),
        (Driver::Gpu, Mode::Drive, &[Task::Settle, Task::Drive], ""),
        (Driver::Ofed, Mode::Observe, &[Task::Settle], ""),
        (Driver::Ofed, Mode::Assist, &[Task::PrepareNetwork, Task::Preflight], ""),
        (Driver::Ofed, Mode::Steer, &[Task::Settle, Task::Wake, Task::Steer], ""),
        (Driver::Ofed, Mode::Drive, &[Task::Settle, Task::Drive], ""),
        (Driver::Gpu, Mode::Observe, &[Task::Settle, Task::Reroll], "rollout.dra.reroll=off"),
        (
            Driver::Gpu,
            Mode::Assist,
            &[Task::Preflight, Task::Hold],
            "rollout.operatorUpgrade.hold=never",
        ),
        (
            Driver::Gpu,
            Mode::Drive,
            &[Task::Settle, Task::Drive],
            "rollout.upgrade.policy.podDeletion.enable=false",
        ),
        (Driver::Gpu, Mode::Drive, &[Task::Settle, Task::Drive], TESTED),
        (Driver::Gpu, Mode::Steer, &[Task::Settle, Task::Wake, Task::Steer], TESTED),
        (Driver::Gpu, Mode::Drive, &[Task::Settle, Task::Drive], TESTED_WITH_LOG),
        (Driver::Gpu, Mode::Steer, &[Task::Settle, Task::Wake, Task::Steer], TESTED_WITH_LOG),
    ];
    for (driver, mode, tasks, setting) in cases {
        let names: Vec<&str> = tasks.iter().map(|task| task.name()).collect();
        let objects = template(&[
            "--set-json",
            &format!("rollout.tasks={}", json!(names)),
            "--set",
            &format!(
                "rollout.driver={},rollout.mode={},rollout.operatorNamespace=nvidia,devicePlugin.config.name=plugins",
                driver.traits().name,
                mode.name()
            ),
            "--set",
            setting,
        ]);
        // The hook asks for the rights of the settings that the chart gives it.
        let settings = objects.settings();
        assert_eq!((settings.driver, settings.tasks.as_slice()), (driver, tasks));
        for scope in RightScope::ALL {
            let expected: BTreeSet<String> = task::rights(&settings)
                .filter(|right| right.scope == scope)
                .map(|right| {
                    line(
                        right.group,
                        right.resource,
                        right.verbs,
                        right.object != task::RightTarget::Any,
                    )
                })
                .collect();
            let (found, namespaces) = rendered_rights(&objects, scope);
            assert_eq!(found, expected, "{scope:?} of {tasks:?} about {driver:?} {setting}");
            let wanted: &[&str] = match scope {
                RightScope::Release => &["gpu-operator"],
                RightScope::Default => &["default"],
                RightScope::Operator
                    if tasks.contains(&Task::Settle) || tasks.contains(&Task::Preflight) =>
                {
                    &["nvidia"]
                }
                RightScope::Dra if tasks.contains(&Task::Reroll) => {
                    &contract::names::DRA_NAMESPACES
                }
                RightScope::DevicePlugin if tasks.contains(&Task::RestartPlugins) => &["nvidia"],
                RightScope::Acceptance if [TESTED, TESTED_WITH_LOG].contains(&setting) => {
                    &["gpu-rollout-acceptance"]
                }
                RightScope::Cluster
                | RightScope::Operator
                | RightScope::Dra
                | RightScope::DevicePlugin
                | RightScope::Acceptance => &[],
            };
            assert_eq!(namespaces, wanted, "{scope:?} of {tasks:?} about {driver:?} {setting}");
        }
    }
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn objects_have_unique_names_in_shared_namespaces() {
    let same = [
        "--set-json",
        r#"rollout.dra.namespaces=["default","default"]"#,
        "--set",
        "rollout.operatorNamespace=default",
    ];
    let mut seen = BTreeSet::new();
    for release in ["one", "two"] {
        for object in template_as(release, "default", &same).0 {
            let name = (
                object["kind"].to_string(),
                object["metadata"]["namespace"].to_string(),
                object["metadata"]["name"].to_string(),
            );
            assert!(seen.insert(name.clone()), "{name:?}");
        }
    }
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn job_is_only_hook_and_ends_itself() {
    let objects = template(&[]);
    let hooks: Vec<&Value> = objects
        .0
        .iter()
        .filter(|object| object["metadata"]["annotations"].get("helm.sh/hook").is_some())
        .collect();
    assert_eq!(hooks, [objects.job()]);
    let annotations = json!({
        "helm.sh/hook": "post-install,post-upgrade,post-rollback",
        "helm.sh/hook-weight": "100",
        "helm.sh/hook-delete-policy": "before-hook-creation",
        "argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation,HookSucceeded",
    });
    assert_eq!(objects.job()["metadata"]["annotations"], annotations);
    let specification = objects.job()["spec"].as_object().unwrap();
    let keys: Vec<&str> = specification.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        ["activeDeadlineSeconds", "backoffLimit", "template"],
        "the Job must have no ttlSecondsAfterFinished and no podFailurePolicy"
    );
    assert_eq!(objects.pod()["terminationGracePeriodSeconds"], TERMINATION_GRACE_SECONDS);
    assert_eq!(objects.pod()["restartPolicy"], "Never");
    let record =
        objects.kind("ConfigMap").find(|map| map["metadata"]["name"] == "post-record").unwrap();
    assert!(record.get("data").is_none(), "an upgrade would reset the record");
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn the_pod_takes_what_a_cluster_asks_for() {
    let file = values(
        "rollout:
  image: {repository: registry.example:5000/tools/gpu-rollout, digest: \"sha256:0000000000000000000000000000000000000000000000000000000000000000\", pullPolicy: Always, pullSecrets: [one]}
  pod:
    runAsUser: null
    labels: {team: ml, sidecar.istio.io/inject: \"true\"}
    nodeSelector: {pool: system}
    tolerations: [{key: dedicated, operator: Exists}]
    affinity: {podAntiAffinity: {}}
    priorityClassName: high
    resources: {limits: {memory: 1Gi, ephemeral-storage: 64Mi}}
",
    );
    let objects = template(&["--values", file.to_str().unwrap()]);
    let pod = objects.pod();
    assert_eq!(
        pod["containers"][0]["image"],
        "registry.example:5000/tools/gpu-rollout@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    );
    assert_eq!(pod["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "one"}]));
    assert_eq!(
        pod["securityContext"],
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}})
    );
    assert_eq!(
        pod["nodeSelector"],
        json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "pool": "system"})
    );
    assert_eq!(pod["affinity"], json!({"podAntiAffinity": {}}));
    assert_eq!(pod["priorityClassName"], "high");
    assert_eq!(
        pod["containers"][0]["resources"]["limits"],
        json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "64Mi"})
    );
    let tolerations = pod["tolerations"].as_array().unwrap();
    assert_eq!(tolerations.last(), Some(&json!({"key": "dedicated", "operator": "Exists"})));
    assert!(tolerations.iter().any(|toleration| toleration["key"] == "nvidia.com/gpu"));
    let labels = &objects.job()["spec"]["template"]["metadata"]["labels"];
    assert_eq!(
        (&labels["team"], &labels["sidecar.istio.io/inject"]),
        (&json!("ml"), &json!("true"))
    );
    assert_eq!(
        template(&[]).pod()["containers"][0]["image"],
        concat!("gpu-rollout:", env!("CARGO_PKG_VERSION"))
    );
}
