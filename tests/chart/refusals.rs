//! Values that the chart rejects, with its messages.

use super::helm::{refusal, run};

/// Values as `--set`, `--set-json` or `--set-string`, and fragments of the message: the place, and
/// the expected value.
const REFUSALS: &[(&[&str], &[&str])] = &[
    (&["--set", "rollout.mode=drove"], &["/rollout/mode", "'observe', 'assist', 'steer', 'drive'"]),
    (
        &["--set", "rollout.mode=observe"],
        &[
            "`wake`, which mode `observe` does not have (only assist, steer)",
            "hint: rollout.tasks: [settle, reroll], or another rollout.mode",
        ],
    ),
    (
        &["--set", "rollout.mode=drive"],
        &[
            "`wake`, which mode `drive` does not have",
            "hint: rollout.tasks: [settle, drive, reroll]",
        ],
    ),
    (
        &["--set", "rollout.mode=steer"],
        &[
            "rollout.mode is `steer` and rollout.tasks has no `steer`",
            "hint: rollout.tasks: [settle, wake, steer, reroll]",
        ],
    ),
    (
        &["--set-json", r#"rollout.tasks=["settle","reroll"]"#],
        &["rollout.mode is `assist` and rollout.tasks has no `wake`"],
    ),
    (
        &[
            "--set",
            "rollout.mode=drive",
            "--set-json",
            r#"rollout.tasks=["settle","drive","hold"]"#,
        ],
        &["`hold`, which mode `drive` does not have (only assist, steer)"],
    ),
    (
        &["--set", "rollout.operatorUpgrade.hold=sometimes"],
        &["/rollout/operatorUpgrade/hold", "'auto', 'always', 'never'"],
    ),
    (
        &["--set-json", r#"rollout.tasks=["wake"]"#],
        &["`wake` without `settle`", "hint: rollout.tasks: [settle, wake, reroll]"],
    ),
    (&["--set", "rollout.upgrade.attempts=0"], &["/rollout/upgrade/attempts", "want 1"]),
    (&["--set", "rollout.upgrade.soak=5"], &["/rollout/upgrade'", "'soak' not allowed"]),
    (
        &["--set-string", "rollout.upgrade.failureBudget=0%"],
        &["/rollout/upgrade/failureBudget", "does not match pattern"],
    ),
    (
        &["--set", "rollout.upgrade.topology.label=a b"],
        &["/rollout/upgrade/topology/label", "does not match pattern"],
    ),
    (
        &["--set-json", r#"rollout.upgrade.canary.per=["a b"]"#],
        &["/rollout/upgrade/canary/per/0", "does not match pattern"],
    ),
    (
        &["--set", "rollout.upgrade.canary.soak=30m"],
        &["/rollout/upgrade/canary'", "'soak' not allowed"],
    ),
    (
        &["--set-json", r#"rollout.upgrade.ramp=["0%"]"#],
        &["/rollout/upgrade/ramp/0", "does not match pattern"],
    ),
    (&["--set-json", "rollout.upgrade.ramp=[10]"], &["/rollout/upgrade/ramp/0", "want string"]),
    (
        &["--set-json", r#"rollout.upgrade.ramp=["9%","50%","10%"]"#],
        &["rollout.upgrade.ramp does not rise: it has 10% after 50%", "hint: each share contains"],
    ),
    (
        &["--set-json", r#"rollout.upgrade.acceptance=[{"name":"a"}]"#],
        &["rollout.upgrade.acceptance has tests, and rollout.mode is `assist`"],
    ),
    (
        &["--set-json", r#"rollout.upgrade.acceptance=[{"name":"A"}]"#],
        &["/rollout/upgrade/acceptance/0/name", "does not match pattern"],
    ),
    (
        &["--set-json", r#"rollout.upgrade.acceptance=[{"name":"a","timeout":"10m"}]"#],
        &["/rollout/upgrade/acceptance/0'", "'timeout' not allowed"],
    ),
    (
        &["--set-json", r#"rollout.upgrade.acceptance=[{"name":"a","logLines":51}]"#],
        &["/rollout/upgrade/acceptance/0/logLines", "want 50"],
    ),
    (
        &[
            "--set",
            "rollout.mode=drive",
            "--set-json",
            r#"rollout.tasks=["settle","drive"]"#,
            "--set-json",
            r#"rollout.upgrade.acceptance=[{"name":"a"}]"#,
        ],
        &["the test `a` of rollout.upgrade.acceptance has no pod", "hint: template:"],
    ),
    (
        &[
            "--set",
            "rollout.mode=drive",
            "--set-json",
            r#"rollout.tasks=["settle","drive"]"#,
            "--set-json",
            r#"rollout.upgrade.acceptance=[{"name":"a","nodes":"canaries","template":{}}]"#,
        ],
        &["the test `a` runs on canaries, and there are none"],
    ),
    (
        &[
            "--set",
            "rollout.mode=drive",
            "--set-json",
            r#"rollout.tasks=["settle","drive"]"#,
            "--set-json",
            r#"rollout.upgrade.acceptance=[{"name":"a","template":{"spec":{"nodeName":"n","containers":[{}]}}}]"#,
        ],
        &["the template of the test `a` sets `nodeName`"],
    ),
    (
        &["--set", "rollout.upgrade.halt.failedNodes=-1"],
        &["/rollout/upgrade/halt/failedNodes", "want 0"],
    ),
    (
        &["--set", "rollout.upgrade.policy.drain.timeoutSeconds=0"],
        &["/rollout/upgrade/policy/drain/timeoutSeconds", "want 1"],
    ),
    (
        &[
            "--set",
            "rollout.mode=drive,rollout.upgrade.policy.waitForCompletion.podSelector=a",
            "--set-json",
            r#"rollout.tasks=["settle","drive"]"#,
        ],
        &["waitForCompletion waits forever", "hint: set timeoutSeconds"],
    ),
    (&["--set", "rollout.gate=canary"], &["/rollout/gate", "'settled'"]),
    (&["--set", "rollout.budgetSecond=60"], &["/rollout'", "'budgetSecond' not allowed"]),
    (&["--set", "rollout.dra.retry=true"], &["/rollout/dra'", "'retry' not allowed"]),
    (
        &["--set-json", "rollout.tasks=[]"],
        &["rollout.tasks is empty", "hint: rollout.tasks: [settle, wake, reroll]"],
    ),
    (
        &["--set-json", r#"rollout.tasks=["drove"]"#],
        &["/rollout/tasks/0", "'settle', 'wake', 'steer', 'drive', 'reroll'"],
    ),
    (&["--set", "rollout.driver=mofed"], &["/rollout/driver", "'gpu', 'ofed', 'daemonset'"]),
    (
        &["--set", "rollout.driver=daemonset"],
        &[
            "rollout.daemonSet does not name a DaemonSet",
            "hint: rollout.daemonSet: {namespace: …, name: …}",
        ],
    ),
    (
        &[
            "--set",
            "rollout.driver=daemonset,rollout.daemonSet.namespace=a,rollout.daemonSet.name=b",
        ],
        &[
            "rollout.mode is `assist` and rollout.driver is daemonset: NVIDIA's controller does not upgrade a DaemonSet of your own",
            "hint: rollout.mode: drive",
        ],
    ),
    (
        &[
            "--set",
            "rollout.driver=daemonset,rollout.daemonSet.namespace=a,rollout.daemonSet.name=b,rollout.mode=drive",
            "--set-json",
            r#"rollout.tasks=["settle","drive"]"#,
        ],
        &["no setting selects the pods that must leave a node", "podDeletion.enable: false"],
    ),
    (
        &[
            "--set",
            "rollout.driver=daemonset,rollout.daemonSet.namespace=a,rollout.daemonSet.name=b,rollout.mode=drive",
            "--set-json",
            r#"rollout.upgrade.extraConsumers=["app=train"]"#,
            "--set-json",
            r#"rollout.tasks=["settle","drive","reroll"]"#,
        ],
        &["`reroll` and rollout.driver is daemonset"],
    ),
    (
        &["--set", "rollout.preflight.strictness.actors=warn"],
        &["/rollout/preflight/strictness/actors", "'block'"],
    ),
    (
        &["--set", "rollout.preflight.strictness.emptyDir=warn"],
        &["/rollout/preflight/strictness'", "'emptyDir' not allowed"],
    ),
    (
        &["--set", "rollout.driver=ofed"],
        &["`reroll` and rollout.driver is ofed", "hint: rollout.driver: gpu"],
    ),
    (
        &["--set", "rollout.driver=ofed", "--set-json", r#"rollout.tasks=["restart-plugins"]"#],
        &[
            "`restart-plugins` and rollout.driver is ofed",
            "remove `restart-plugins` from rollout.tasks",
        ],
    ),
    (
        &["--set", "devicePlugin.config.name=7"],
        &["devicePlugin.config.name: expected a string, found 7", "hint: write it in quotes"],
    ),
    (
        &[
            "--set",
            "devicePlugin.config.name=plugins,devicePlugin.config.create=true",
            "--set-json",
            r#"devicePlugin.config.data={"a": {}}"#,
        ],
        &[
            "ConfigMap plugins, key a: expected a string",
            "hint: write the configuration as a block scalar: `a: |`",
        ],
    ),
    (
        &[
            "--set",
            "rollout.component.name=network-operator",
            "--set-json",
            r#"objects=[{"kind": "NicClusterPolicy", "metadata": {"name": "nic-cluster-policy"}, "spec": {"ofedDriver": {"version": 25.1}}}]"#,
        ],
        &["ofedDriver.version: expected a string, found 25.1"],
    ),
    (
        &["--set-json", r#"rollout.tasks=["reroll"]"#],
        &["`reroll` without `settle`", "hint: rollout.tasks: [settle, wake, reroll]"],
    ),
    (
        &["--set-json", "rollout.dra.namespaces=[]"],
        &["rollout.dra.namespaces is empty", "hint: name its namespace"],
    ),
    (
        &["--set-json", r#"rollout.dra.namespaces=["A b"]"#],
        &["/rollout/dra/namespaces/0", "does not match pattern"],
    ),
    (
        &["--set", "rollout.budgetSeconds=60"],
        &["rollout.budgetSeconds is 60", "hint: at least 106"],
    ),
    (&["--set", "rollout.budgetSeconds=1h"], &["/rollout/budgetSeconds", "want integer"]),
    (&["--set", "rollout.perNodeSeconds=0"], &["/rollout/perNodeSeconds", "want 1"]),
    (
        &["--set-string", "rollout.tolerateNotReady=some"],
        &["/rollout/tolerateNotReady", "does not match pattern"],
    ),
    (
        &["--set-json", "rollout.component.version=25.10"],
        &["/rollout/component/version", "want string"],
    ),
    (
        &["--set", "rollout.image.digest=latest"],
        &["/rollout/image/digest", "does not match pattern"],
    ),
    (
        &["--set", "rollout.admissionPolicy.enable=true"],
        &["/rollout/admissionPolicy'", "'enable' not allowed"],
    ),
    (
        &["--set-json", r#"rollout.admissionPolicy.users=[""]"#],
        &["/rollout/admissionPolicy/users/0", "minLength"],
    ),
    (
        &["--set-json", r#"rollout.networkPolicy.apiServer.cidrs=["10.0.0.1"]"#],
        &["/rollout/networkPolicy/apiServer/cidrs/0", "does not match pattern"],
    ),
    (&["--set", "rollout.pod.runAsUser=0"], &["/rollout/pod/runAsUser", "want 1"]),
    (&["--set-json", "rollout.mode=null"], &["/rollout'", "missing property 'mode'"]),
    (&["--set-json", "rollout=null"], &["missing property 'rollout'"]),
    (
        &["--set-json", "driver.version=580.10"],
        &["driver.version: expected a string, found 580.1", "hint: write it in quotes"],
    ),
    (
        &["--set", "toolkit.version=118"],
        &["toolkit.version: expected a string, found 118", "hint: write it in quotes"],
    ),
    (
        &["--set-string", "driver.enabled=yes"],
        &["driver.enabled: expected a bool, found yes", "hint: write true or false"],
    ),
    (&["--kube-version", "1.31.9"], &["kubeVersion: >=1.32.0-0"]),
];

#[test]
#[ignore = "needs helm (make e2e)"]
fn each_refusal_names_place_and_expected_value() {
    for (arguments, fragments) in REFUSALS {
        let message = refusal(arguments);
        for fragment in *fragments {
            assert!(
                message.contains(fragment),
                "{arguments:?}: the message\n{message}\nlacks: {fragment}"
            );
        }
    }
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn the_chart_itself_is_lint_clean() {
    let output = run(&["lint", "--strict", "CHART"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
