//! Lines 67 to 83: the pods that use the GPU, and those that are deleted.

use contract::policy::PodDeletionPolicy;
use nvidia_upgrade::ControllerGeneration;
use nvidia_upgrade::users::{users, uses_gpu};
use observed::OptionalApi;
use observed::workload::{DeviceClaim, PodController, PodPhase, Workload, Workloads};

fn pod(resources: &[&str]) -> Workload {
    Workload {
        namespace: "ns".into(),
        phase: PodPhase::Running,
        resources: resources.iter().map(|name| (*name).to_owned()).collect(),
        labels: [("app".to_owned(), "train".to_owned())].into(),
        ..Workload::default()
    }
}

fn controlled(kind: &str, resources: &[&str]) -> Workload {
    let controller = PodController {
        api_version: "apps/v1".into(),
        kind: kind.into(),
        ..PodController::default()
    };
    Workload { controller: Some(controller), ..pod(resources) }
}

/// Returns the number of pods that use the GPU, and the number of those that are deleted.
fn counts(pods: &[Workload], force: bool, delete_empty_dir: bool) -> (usize, usize) {
    let policy = PodDeletionPolicy { force, delete_empty_dir, ..PodDeletionPolicy::default() };
    let found = users(pods, &Workloads::default(), &policy, ControllerGeneration::Gpu26_7);
    (found.wanted, found.evictable)
}

fn gpu(pod: &Workload) -> bool {
    uses_gpu(pod, &Workloads::default(), ControllerGeneration::Gpu26_7)
}

#[test]
fn line_067_to_069_pods_without_controller_go_by_force_only() {
    let pods = [pod(&["nvidia.com/gpu"]), pod(&["nvidia.com/mig-1g.10gb"]), pod(&["cpu"])];
    assert_eq!(counts(&pods, true, false), (2, 2));
    assert_eq!(counts(&pods, false, false), (2, 0));
    assert_eq!(counts(&[controlled("ReplicaSet", &["nvidia.com/gpu"])], false, false), (1, 1));
}

#[test]
fn line_070_to_072_empty_dir_pods_follow_policy() {
    for (empty_dir, memory_dir) in [(true, false), (false, true)] {
        let pods = [Workload { empty_dir, memory_dir, ..pod(&["nvidia.com/gpu"]) }];
        assert_eq!(counts(&pods, true, true), (1, 1));
        assert_eq!(counts(&pods, true, false), (1, 0));
    }
}

#[test]
fn line_074_daemon_set_and_static_pods_stay() {
    assert_eq!(counts(&[controlled("DaemonSet", &["nvidia.com/gpu"])], true, true), (1, 0));
    assert_eq!(
        counts(&[Workload { mirror: true, ..pod(&["nvidia.com/gpu"]) }], true, true),
        (1, 0)
    );
}

#[test]
fn line_076_pods_without_gpu_do_not_matter() {
    let pods = [
        pod(&["nvidia.com/gpu"]),
        controlled("DaemonSet", &[]),
        Workload { empty_dir: true, ..pod(&[]) },
    ];
    assert_eq!(counts(&pods, true, false), (1, 1));
}

#[test]
fn line_079_gpu_and_mig_requests_of_pods_count() {
    assert!(gpu(&pod(&["nvidia.com/gpu"])));
    assert!(gpu(&pod(&["nvidia.com/gpu.shared"])));
    assert!(gpu(&pod(&["nvidia.com/mig-1g.10gb"])));
    assert!(gpu(&Workload { phase: PodPhase::Pending, ..pod(&["nvidia.com/gpu"]) }));
}

#[test]
fn line_080_other_resources_and_finished_pods_do_not() {
    assert!(!gpu(&pod(&["cpu", "memory", "nvidia.com/A100"])));
    for phase in [PodPhase::Succeeded, PodPhase::Failed, PodPhase::Unknown] {
        assert!(!gpu(&Workload { phase, ..pod(&["nvidia.com/gpu"]) }), "{phase:?}");
    }
    assert!(
        !gpu(&Workload { sidecar_resources: ["nvidia.com/gpu".to_owned()].into(), ..pod(&[]) }),
        "init containers are not looked at"
    );
}

fn claims(drivers: &[&str]) -> Workloads {
    let drivers = drivers.iter().map(|name| (*name).to_owned()).collect();
    let claim = DeviceClaim {
        namespace: "ns".into(),
        name: "claim".into(),
        drivers,
        ..DeviceClaim::default()
    };
    Workloads { claims: OptionalApi::Served(vec![claim]), ..Workloads::default() }
}

fn claiming(name: Option<&str>) -> Workload {
    Workload { claims: vec![name.map(str::to_owned)], ..pod(&[]) }
}

#[test]
fn line_081_allocated_gpus_count_from_v26_7() {
    let workloads = claims(&["gpu.nvidia.com"]);
    assert!(uses_gpu(&claiming(Some("claim")), &workloads, ControllerGeneration::Gpu26_7));
    assert!(!uses_gpu(&claiming(Some("claim")), &workloads, ControllerGeneration::Gpu26_3));
}

#[test]
fn line_082_foreign_unnamed_and_finished_pods_are_ignored() {
    // A claim with only admin access, and a claim without allocation, have no driver in the view.
    for drivers in [&[] as &[&str], &["compute-domain.nvidia.com"]] {
        assert!(
            !uses_gpu(&claiming(Some("claim")), &claims(drivers), ControllerGeneration::Gpu26_7),
            "{drivers:?}"
        );
    }
    assert!(!uses_gpu(
        &claiming(None),
        &claims(&["gpu.nvidia.com"]),
        ControllerGeneration::Gpu26_7
    ));
    let finished = Workload { phase: PodPhase::Succeeded, ..claiming(Some("claim")) };
    assert!(!uses_gpu(&finished, &claims(&["gpu.nvidia.com"]), ControllerGeneration::Gpu26_7));
}

#[test]
fn line_083_a_claim_that_cannot_be_read_counts() {
    assert!(uses_gpu(&claiming(Some("gone")), &claims(&[]), ControllerGeneration::Gpu26_7));
    assert!(uses_gpu(
        &claiming(Some("claim")),
        &Workloads::default(),
        ControllerGeneration::Gpu26_7
    ));
}
