//! Which pods hold the device: the vendor's filter as it is, and ours.

use std::collections::BTreeSet;

use crate::pods::device_users::{
    DeviceRelation, DeviceRules, DeviceUse, DeviceUsers, HiddenDeviceUse, consumers,
};
use crate::pods::fixture::{gpu_pod, labeled, of_daemon_set, pod};
use contract::driver::Driver;
use contract::policy::UpgradeSettings;
use contract::selector::Selector;
use observed::OptionalApi;
use observed::workload::{DeviceClaim, PodPhase, Workload};

const VENDOR: DeviceRules = DeviceRules::Vendor { claims: true };

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn claim(name: &str, drivers: &[&str]) -> DeviceClaim {
    DeviceClaim {
        namespace: "team".into(),
        name: name.into(),
        drivers: set(drivers),
        ..DeviceClaim::default()
    }
}

fn claims() -> OptionalApi<Vec<DeviceClaim>> {
    OptionalApi::Served(vec![
        claim("gpu", &["gpu.nvidia.com"]),
        claim("domain", &["compute-domain.nvidia.com"]),
        claim("unallocated", &[]),
        DeviceClaim { namespace: "other".into(), ..claim("elsewhere", &["gpu.nvidia.com"]) },
    ])
}

fn with_claim(name: Option<&str>) -> Workload {
    Workload { claims: vec![name.map(str::to_owned)], ..pod("trainer") }
}

fn asks(resources: &[&str]) -> Workload {
    Workload { resources: set(resources), ..pod("trainer") }
}

fn judge(driver: Driver, rules: DeviceRules, pod: &Workload) -> DeviceRelation {
    DeviceUsers::new(driver, rules, &claims()).judge(pod)
}

fn holds(driver: Driver, rules: DeviceRules, pod: &Workload) -> bool {
    matches!(judge(driver, rules, pod), DeviceRelation::Holds(_))
}

/// Lines 79 and 80 of the conformance list, for the vendor's rules and ours alike.
#[test]
fn gpu_resources_mark_gpu_pods_like_the_vendor() {
    for (resources, expected) in [
        (&["nvidia.com/gpu"][..], true),
        (&["nvidia.com/gpu.shared"], true),
        (&["nvidia.com/mig-1g.10gb"], true),
        (&["cpu", "memory", "nvidia.com/gpu"], true),
        (&["cpu", "memory"], false),
        (&["nvidia.com/hostdev"], false),
        (&["amd.com/gpu"], false),
        (&[], false),
    ] {
        for phase in [PodPhase::Running, PodPhase::Pending] {
            let pod = Workload { phase, ..asks(resources) };
            assert_eq!(holds(Driver::Gpu, VENDOR, &pod), expected, "{resources:?} {phase:?}");
            assert_eq!(
                holds(Driver::Gpu, DeviceRules::Ours, &pod),
                expected,
                "{resources:?} {phase:?}"
            );
        }
    }
}

#[test]
fn kubernetes_26080_finished_pods_hold_nothing() {
    for phase in [PodPhase::Succeeded, PodPhase::Failed] {
        let pods = [
            Workload { phase, ..gpu_pod("trainer") },
            Workload { phase, ..with_claim(Some("gpu")) },
        ];
        for pod in pods {
            assert_eq!(judge(Driver::Gpu, VENDOR, &pod), DeviceRelation::No);
            assert_eq!(judge(Driver::Gpu, DeviceRules::Ours, &pod), DeviceRelation::No);
        }
    }
}

#[test]
fn pod_on_unreachable_node_may_still_run() {
    let pod = Workload { phase: PodPhase::Unknown, ..gpu_pod("trainer") };
    assert!(!holds(Driver::Gpu, VENDOR, &pod), "the vendor looks at Running and Pending only");
    assert!(holds(Driver::Gpu, DeviceRules::Ours, &pod));
}

/// Lines 81 to 83 of the conformance list.
#[test]
fn claims_mark_gpu_pods_like_the_vendor() {
    for (name, expected) in [
        (Some("gpu"), Some(DeviceUse::Claim("gpu".into()))),
        (Some("domain"), None),
        (Some("unallocated"), None),
        (Some("elsewhere"), Some(DeviceUse::UnreadableClaim("elsewhere".into()))),
        (Some("deleted"), Some(DeviceUse::UnreadableClaim("deleted".into()))),
        (None, None),
    ] {
        let expected = expected.map_or(DeviceRelation::No, DeviceRelation::Holds);
        assert_eq!(judge(Driver::Gpu, VENDOR, &with_claim(name)), expected, "{name:?}");
        assert_eq!(judge(Driver::Gpu, DeviceRules::Ours, &with_claim(name)), expected, "{name:?}");
        assert_eq!(
            judge(Driver::Gpu, DeviceRules::Vendor { claims: false }, &with_claim(name)),
            DeviceRelation::No,
            "up to v26.3 no controller looks"
        );
    }
    let absent = OptionalApi::Absent;
    let unread =
        DeviceUsers::new(Driver::Gpu, DeviceRules::Ours, &absent).judge(&with_claim(Some("gpu")));
    assert_eq!(unread, DeviceRelation::Holds(DeviceUse::UnreadableClaim("gpu".into())));
}

#[test]
fn sidecar_can_hold_a_gpu_unseen_by_vendor() {
    let pod = Workload { sidecar_resources: set(&["nvidia.com/gpu"]), ..pod("trainer") };
    assert_eq!(judge(Driver::Gpu, VENDOR, &pod), DeviceRelation::No);
    assert_eq!(
        judge(Driver::Gpu, DeviceRules::Ours, &pod),
        DeviceRelation::Holds(DeviceUse::Sidecar("nvidia.com/gpu".into()))
    );
}

#[test]
fn gpu_operator_2570_pods_without_request_go_only_if_selected() {
    let by_class = Workload { runtime_class: Some("nvidia".into()), ..pod("notebook") };
    let by_files = Workload { host_devices: true, ..pod("notebook") };
    assert_eq!(
        judge(Driver::Gpu, DeviceRules::Ours, &by_class),
        DeviceRelation::Hidden(HiddenDeviceUse::RuntimeClass("nvidia".into()))
    );
    assert_eq!(
        judge(Driver::Gpu, DeviceRules::Ours, &by_files),
        DeviceRelation::Hidden(HiddenDeviceUse::HostDevices)
    );
    assert_eq!(judge(Driver::Gpu, VENDOR, &by_class), DeviceRelation::No);
    assert_eq!(
        judge(Driver::Ofed, DeviceRules::Ours, &by_class),
        DeviceRelation::No,
        "GPUs are no matter of the network's"
    );
    let other = Workload { runtime_class: Some("kata".into()), ..pod("notebook") };
    assert_eq!(judge(Driver::Gpu, DeviceRules::Ours, &other), DeviceRelation::No);

    let upgrade = UpgradeSettings {
        extra_consumers: vec!["app in (notebook)".into()],
        ..UpgradeSettings::default()
    };
    let selectors = consumers(&upgrade).expect("selectors");
    let claims = claims();
    let holders =
        DeviceUsers::new(Driver::Gpu, DeviceRules::Ours, &claims).with_consumers(&selectors);
    assert_eq!(
        holders.judge(&labeled("app", "notebook", by_class.clone())),
        DeviceRelation::Holds(DeviceUse::Selected("app=notebook".into()))
    );
    assert_eq!(
        holders.judge(&by_class),
        DeviceRelation::Hidden(HiddenDeviceUse::RuntimeClass("nvidia".into()))
    );
}

#[test]
fn the_operators_own_pods_are_not_hidden_holders() {
    let exporter = of_daemon_set(
        "nvidia-dcgm-exporter",
        Workload { runtime_class: Some("nvidia".into()), ..pod("exporter") },
    );
    let claims = claims();
    let judge = |namespaces: &[&'static str]| {
        DeviceUsers::new(Driver::Gpu, DeviceRules::Ours, &claims)
            .with_operands_in(namespaces.iter().copied())
            .judge(&exporter)
    };
    assert_eq!(judge(&["team"]), DeviceRelation::No);
    assert!(
        matches!(judge(&["gpu-operator"]), DeviceRelation::Hidden(_)),
        "a stand-alone exporter"
    );
}

#[test]
fn consumers_are_selectors_and_never_everything() {
    let of = |text: &str| {
        consumers(&UpgradeSettings {
            extra_consumers: vec![text.into()],
            ..UpgradeSettings::default()
        })
    };
    assert_eq!(
        of("app=x").expect("a selector"),
        ["app=x".parse::<Selector>().expect("a selector")]
    );
    assert_eq!(
        of(" ").expect_err("everything").to_string(),
        "extraConsumers: an empty selector would evict every pod; use `drain` for that"
    );
    assert!(
        of("a b")
            .expect_err("no selector")
            .to_string()
            .starts_with("extraConsumers: `a b` is not a label selector")
    );
}

#[test]
fn network_operator_263_pods_on_device_networks_hold_it() {
    for (pod, expected) in [
        (asks(&["rdma/rdma_shared_device_a"]), true),
        (asks(&["nvidia.com/rdma_shared"]), true),
        (asks(&["openshift.io/mlnxnics"]), true),
        (Workload { secondary_network: true, ..pod("trainer") }, true),
        (Workload { sidecar_resources: set(&["rdma/hca"]), ..pod("trainer") }, true),
        (gpu_pod("trainer"), false),
        (with_claim(Some("gpu")), false),
    ] {
        assert_eq!(holds(Driver::Ofed, DeviceRules::Ours, &pod), expected, "{pod:?}");
        assert!(!holds(Driver::Ofed, VENDOR, &pod), "the Network Operator has no such filter");
    }
}
