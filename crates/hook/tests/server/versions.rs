//! Servers of different versions, and both resources that request a driver.

use contract::exit::ExitCode;
use serde_json::json;

use crate::fake::served;
use crate::settings::OPERATOR;
use crate::world::objects::Operand;
use crate::world::{NEW, World, named};

#[tokio::test(flavor = "local", start_paused = true)]
async fn slices_use_the_newest_common_api_version() {
    // Kubernetes 1.32 (and 1.31), 1.33, 1.34 with the betas still enabled, 1.35 and later, and one
    // with a future version.
    let servers: [(&[&str], &str); 6] = [
        (&["v1beta1"], "v1beta1"),
        (&["v1beta1", "v1alpha3"], "v1beta1"),
        (&["v1beta2", "v1beta1"], "v1beta2"),
        (&["v1", "v1beta2", "v1beta1"], "v1"),
        (&["v1"], "v1"),
        (&["v2", "v1"], "v1"),
    ];
    for (versions, expected) in servers {
        let mut world = World::at_rest(2);
        world.server.state().served = served(versions);
        world.upgrade(&[0, 1]);
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(ended.code, ExitCode::Success, "{versions:?}: {}", ended.message);
        world.assert_replaced_once();
        let log = world.log();
        let mut asked = log
            .iter()
            .filter(|entry| entry.request.resource == "resourceslices")
            .map(|entry| entry.request.version.as_str());
        assert!(asked.all(|version| version == expected), "{versions:?}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn old_version_in_slice_is_always_seen() {
    for version in ["v1beta1", "v1beta2", "v1"] {
        let mut world = World::at_rest(1);
        world.plugins_come_back();
        world.server.state().served = served(&[version]);
        world.edit("resourceslices", "", "gpu-0-gpu.nvidia.com-x", |slice| {
            for device in slice["spec"]["devices"].as_array_mut().unwrap() {
                device["attributes"]["driverVersion"]["version"] = json!("570.1.1");
            }
        });
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(ended.message, "settled: 1 of 1 nodes done; 1 DRA plugin replaced", "{version}");
        assert_eq!(world.deletions().len(), 1);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn without_the_api_of_slices_the_containers_tell() {
    for versions in [&[][..], &["v1alpha3"][..]] {
        let mut world = World::at_rest(2);
        world.server.state().served = served(versions);
        world.upgrade(&[0, 1]);
        assert_eq!(world.run("pod-a", "job-1").await.code, ExitCode::Success);
        world.assert_replaced_once();
        assert!(!world.log().iter().any(|entry| entry.request.resource == "resourceslices"));
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_crd_of_nvidia_drivers_may_be_missing() {
    let mut world = World::at_rest(1);
    world.server.state().served.remove(&("nvidia.com", "nvidiadrivers"));
    world.upgrade(&[0]);
    assert_eq!(world.run("pod-a", "job-1").await.code, ExitCode::Success);
    world.assert_replaced_once();
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn nvidia_driver_mode_has_version_in_those_objects() {
    let mut world = World::at_rest(2);
    let driver = json!({
        "kind": "NVIDIADriver", "apiVersion": "nvidia.com/v1alpha1", "metadata": {"uid": "nvidia-driver"},
        "spec": {"repository": "nvcr.io/nvidia", "image": "driver", "version": NEW},
    });
    world.put("nvidiadrivers", "", "default", driver);
    world.edit("daemonsets", OPERATOR, Operand::Driver.daemon_set(), |object| {
        object["metadata"]["ownerReferences"][0]["uid"] = json!("nvidia-driver");
    });
    world.upgrade(&[0, 1]);
    world.edit("clusterpolicies", "", "cluster-policy", |policy| {
        policy["spec"]["driver"]["useNvidiaDriverCRD"] = json!(true);
        policy["spec"]["driver"].as_object_mut().unwrap().remove("version");
    });
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    world.assert_replaced_once();
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn nvidia_driver_mode_without_object_or_crd_fails() {
    for crd in [true, false] {
        let world = World::at_rest(1);
        if !crd {
            world.server.state().served.remove(&("nvidia.com", "nvidiadrivers"));
        }
        world.edit("clusterpolicies", "", "cluster-policy", |policy| {
            policy["spec"]["driver"]["useNvidiaDriverCRD"] = json!(true);
        });
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(ended.code, ExitCode::OperatorMissing);
        assert_eq!(named(&ended), ["*:NvidiaDriverMissing"], "CRD: {crd}");
    }
}
