//! The observed workloads, and the tasks for which they are requested.

use std::collections::BTreeSet;

use contract::policy::CompletionPolicy;
use contract::settings::{Mode, Settings};
use contract::task::Task;
use kube_io::watches::{CacheState, Watches, slice_version};
use observed::OptionalApi;
use serde_json::json;

use crate::fake::rights::Grant;
use crate::rig::Rig;
use crate::settings::settings;
use crate::world::at;

/// Returns a server with pods, a budget, a claim and a maintenance, all of which may be watched.
fn rig() -> Rig {
    let rig = Rig::new();
    let served: Vec<(&str, &str)> = rig.server.state().served.keys().copied().collect();
    for (group, resource) in served {
        for verb in ["list", "watch"] {
            rig.server.change(|state| state.grants.push(Grant::everywhere(verb, group, resource)));
        }
    }
    rig.budget("train", 1);
    let claim = json!({"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1"});
    rig.put("resourceclaims", "jobs", "claim", claim);
    let spec = json!({"nodeName": "node-1", "requestorID": "ops"});
    let maintenance = json!({"kind": "NodeMaintenance", "apiVersion": "maintenance.nvidia.com/v1alpha1", "spec": spec});
    rig.put("nodemaintenances", "default", "ops-node-1", maintenance);
    rig
}

fn driving() -> Settings {
    let tasks = vec![Task::Settle, Task::Drive, Task::Reroll];
    let mut settings = Settings { mode: Mode::Drive, tasks, ..settings() };
    let wait = CompletionPolicy { pod_selector: "app=train".into(), timeout_seconds: 0 };
    settings.upgrade.policy.wait_for_completion = Some(wait);
    settings
}

async fn watching(rig: &Rig, settings: &Settings) -> Watches {
    let version = slice_version(&rig.client, settings).await.unwrap();
    let watches = Watches::start(&rig.client, settings, Vec::new(), version);
    while watches.sync() != CacheState::InStep {
        watches.changed().await;
    }
    watches
}

/// Returns the requested resources that only workloads need.
fn asked(rig: &Rig) -> BTreeSet<String> {
    let workloads = ["poddisruptionbudgets", "resourceclaims", "nodemaintenances"];
    let log = rig.server.state().log.clone();
    let of_interest = log.into_iter().map(|entry| entry.request).filter(|request| {
        let everywhere = request.resource == "pods" && request.namespace.is_empty();
        everywhere || workloads.contains(&request.resource.as_str())
    });
    of_interest.map(|request| request.resource).collect()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn drive_sees_jobs_budgets_claims_maintenances_and_pods() {
    for version in ["v1", "v1beta2", "v1beta1"] {
        let rig = rig();
        for resource in ["resourceslices", "resourceclaims"] {
            rig.server.state().served.insert(("resource.k8s.io", resource), vec![version]);
        }
        rig.pod("other-0", "node-2");
        rig.server.change(|state| {
            let key = crate::fake::store::Key::new("pods", "jobs", "other-0");
            let mut pod = state.store.objects[&key].clone();
            pod["metadata"]["labels"]["app"] = json!("other");
            state.store.update(&key, pod);
        });
        let mut watches = watching(&rig, &driving()).await;
        let seen = watches.observed(at(0)).workloads;
        let jobs: Vec<(&str, &str)> =
            seen.jobs.iter().map(|job| (job.name.as_str(), job.node.as_str())).collect();
        assert_eq!(jobs, [("train-0", "node-1"), ("train-1", "node-1")]);
        assert_eq!(
            seen.budgets
                .iter()
                .map(|budget| (budget.name.as_str(), budget.allowed))
                .collect::<Vec<_>>(),
            [("train", 1)]
        );
        assert_eq!(
            seen.claims.served().map(|claims| claims[0].name.as_str()),
            Some("claim"),
            "{version}"
        );
        assert_eq!(seen.maintenances.served().map(|all| all[0].requestor.as_str()), Some("ops"));
        assert!(seen.pods.is_empty());
        watches.focus(&BTreeSet::from(["node-2".to_owned()]));
        while watches.observed(at(0)).workloads.pods.is_empty() {
            watches.changed().await;
        }
        let pods = watches.observed(at(0)).workloads.pods;
        assert_eq!(
            pods["node-2"].iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(),
            ["other-0"]
        );
        assert_eq!(watches.sync(), CacheState::InStep);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_the_server_does_not_serve_is_absent() {
    let rig = rig();
    rig.server.change(|state| {
        state
            .served
            .retain(|(group, _), _| !["resource.k8s.io", "maintenance.nvidia.com"].contains(group));
    });
    let seen = watching(&rig, &driving()).await.observed(at(0)).workloads;
    assert_eq!((seen.claims, seen.maintenances), (OptionalApi::Absent, OptionalApi::Absent));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn task_asks_for_no_more_than_needed() {
    let all = ["nodemaintenances", "poddisruptionbudgets", "pods", "resourceclaims"].as_slice();
    for (tasks, wait, expected) in [
        ([Task::Settle, Task::Reroll].as_slice(), true, [].as_slice()),
        (&[Task::Preflight], true, &["nodemaintenances", "poddisruptionbudgets", "resourceclaims"]),
        (&[Task::Settle, Task::Steer], true, &["nodemaintenances"]),
        (
            &[Task::Settle, Task::Drive],
            false,
            &["nodemaintenances", "poddisruptionbudgets", "resourceclaims"],
        ),
        (&[Task::Settle, Task::Drive], true, all),
    ] {
        let rig = rig();
        let mut settings = Settings { tasks: tasks.to_vec(), ..driving() };
        if !wait {
            settings.upgrade.policy.wait_for_completion = None;
        }
        let _watches = watching(&rig, &settings).await;
        assert_eq!(
            asked(&rig),
            expected.iter().map(|resource| (*resource).to_owned()).collect(),
            "{tasks:?} {wait}"
        );
    }
}
