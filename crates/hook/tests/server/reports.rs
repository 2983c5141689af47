//! The content of `report` and `support-bundle` after runs of hooks.

use contract::names;
use contract::record::proof::{DriverProof, HaltCause, Halted};
use contract::user_request::{RequestCommand, UserRequest};
use kube_io::user_request::record_request;
use ops::observe::RolloutSnapshot;
use ops::report::{format_metrics, report};
use ops::run_phase::RunPhase;
use ops::support_bundle::support;
use serde_json::json;

use crate::person::Person;
use crate::settings::OPERATOR;
use crate::world::World;

/// Regression: the record keeps the replacements of earlier runs, so a run with 4 replacements was
/// reported with 14.
#[tokio::test(flavor = "local", start_paused = true)]
async fn report_counts_replacements_of_its_run_only() {
    let mut world = World::at_rest(4);
    world.upgrade(&[2, 0, 3, 1]);
    world.run("pod-a", "job-1").await;
    let mut person = Person::with_rights(&world, &[]).await;
    assert_eq!(report(&person.observe(&world).await).totals.replaced, 4);
    world.settings.digest = "e".repeat(64);
    let settings = world.settings.clone();
    world.install(&settings, "job-2");
    world.upgrade(&[1]);
    let ended = world.run("pod-b", "job-2").await;
    assert_eq!(ended.message, "settled: 4 of 4 nodes done; 1 DRA plugin replaced");
    let found = report(&person.observe(&world).await);
    assert_eq!((found.totals.replaced, found.totals.touched), (1, 1), "{:#?}", found.nodes);
    assert!(
        found.nodes.iter().all(|node| node.node == "gpu-1" && node.replaced.len() == 1),
        "{:#?}",
        found.nodes
    );
    let metrics = format_metrics(&[found]);
    let replaced = metrics.lines().find(|line| line.contains("replaced") && !line.starts_with('#'));
    assert!(replaced.is_some_and(|line| line.ends_with(" 1.0")), "{metrics}");
}

/// The hook's own metric of a halt disappears with its pod.
#[tokio::test(flavor = "local", start_paused = true)]
async fn report_has_halt_until_user_ends_it() {
    let mut world = World::at_rest(1);
    world.upgrade(&[0]);
    world.run("pod-a", "job-1").await;
    let mut person = Person::with_rights(&world, &[]).await;
    let mut snapshot = person.observe(&world).await;
    let halted = |snapshot: &RolloutSnapshot| {
        let metrics = format_metrics(&[report(snapshot)]);
        let line = metrics.lines().find(|line| line.starts_with("gpu_rollout_last_run_halted{"));
        line.map(|line| line.contains("cause=\"failed-proofs\"") && line.ends_with(" 1.0"))
    };
    assert_eq!(halted(&snapshot), None, "it has not halted");
    let at = world.clock.now();
    let halt = Halted {
        at,
        cause: HaltCause::FailedProofs,
        nodes: vec!["gpu-0".to_owned()],
        labels: Vec::new(),
    };
    let proof = DriverProof { halt: Some(halt), ..DriverProof::new("driver".to_owned()) };
    snapshot.record.run.as_mut().expect("the run is recorded").proof = Some(proof);
    assert_eq!(halted(&snapshot), Some(true));
    let resume = UserRequest {
        halt: Some(at),
        ..UserRequest::new(RequestCommand::Resume, "ada".to_owned(), at)
    };
    snapshot.record.requests.push(resume);
    assert_eq!(halted(&snapshot), None, "a user has ended the halt");
}

/// Regression (P14): the report of an aborted run said that it continued, and how long so far.
#[tokio::test(flavor = "local", start_paused = true)]
async fn aborted_run_stops_growing() {
    let mut world = World::at_rest(3);
    world.upgrade(&[0, 1, 2]);
    let pod = world.start("pod-a", "job-1");
    world.pass(60).await;
    pod.handle.abort();
    let rights = [("get", "", "configmaps"), ("patch", "", "configmaps")];
    let mut person = Person::with_rights(&world, &rights).await;
    let request = UserRequest::new(RequestCommand::Abort, "ada".to_owned(), world.clock.now());
    let settings = &world.settings;
    record_request(&person.client, &settings.namespace, &settings.record, &request).await.unwrap();
    world.edit("jobs", &settings.namespace, &settings.release, |job| {
        job["status"] = json!({"conditions": [{"type": "Failed", "status": "True"}]});
    });
    let mut reported = Vec::new();
    for seconds in [10, 60] {
        world.pass(seconds).await;
        person.start_anew().await;
        let report = report(&person.observe(&world).await);
        let run = report.run.expect("the run is recorded");
        assert_eq!((run.phase, run.ended_at), (RunPhase::Aborted, None));
        let spans: Vec<_> = report.nodes.into_iter().map(|node| (node.node, node.spans)).collect();
        reported.push((run.seconds, spans));
    }
    assert_eq!(reported[0], reported[1]);
}

/// Regression: every bundle lacked the holder of the Lease, the state of the operator's leader, and
/// the users of devices through claims.
#[tokio::test(flavor = "local", start_paused = true)]
async fn support_bundle_has_two_leases_claims_and_gpu_clusters() {
    let world = World::at_rest(1);
    world
        .server
        .change(|state| state.served.insert(("nvidia.com", "gpuclusters"), vec!["v1alpha1"]));
    let lease = || json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "spec": {"holderIdentity": "pod-a"}});
    world.put("leases", names::LEASE_NAMESPACE, names::LEASE_NAME, lease());
    world.put("leases", names::LEASE_NAMESPACE, "another", lease());
    world.put("leases", OPERATOR, "another", lease());
    world.put(
        "resourceclaims",
        "jobs",
        "train-gpus",
        json!({"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1"}),
    );
    world.put(
        "gpuclusters",
        "",
        "cluster",
        json!({"kind": "GPUCluster", "apiVersion": "nvidia.com/v1alpha1"}),
    );
    let rights = [
        ("list", "", "configmaps"),
        ("list", "apps", "deployments"),
        ("list", "apps", "daemonsets"),
        ("list", "apps", "controllerrevisions"),
        ("list", "batch", "jobs"),
        ("list", "", "events"),
        ("list", "coordination.k8s.io", "leases"),
        ("list", "mellanox.com", "nicclusterpolicies"),
        ("list", "nvidia.com", "clusterpolicies"),
        ("list", "nvidia.com", "gpuclusters"),
        ("list", "nvidia.com", "nvidiadrivers"),
        ("list", "policy", "poddisruptionbudgets"),
        ("list", "resource.k8s.io", "resourceclaims"),
        ("list", "resource.k8s.io", "resourceslices"),
    ];
    let mut person = Person::with_rights(&world, &rights).await;
    let snapshots = [person.observe(&world).await];
    let bundle = support(&person.client, &snapshots, &[], &[], false).await;
    assert_eq!(bundle.missing, Vec::<String>::new());
    let paths: Vec<&str> = bundle.files.iter().map(|file| file.path.as_str()).collect();
    let leases: Vec<&&str> = paths.iter().filter(|path| path.contains("/leases/")).collect();
    assert_eq!(
        leases,
        [
            &"objects/leases/default/gpu-rollout.yaml",
            &"objects/leases/gpu-operator/53822513.nvidia.com.yaml"
        ]
    );
    for path in ["objects/resourceclaims/jobs/train-gpus.yaml", "objects/gpuclusters/cluster.yaml"]
    {
        assert!(paths.contains(&path), "{path}: {paths:#?}");
    }
}
