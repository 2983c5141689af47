//! `gpu-rollout bundle push` and `pull` as processes, with a registry in the process of the test.

use std::fs;
use std::process::Output;

use assert_cmd::Command;
use registry::fixture::{DOCKER_CONFIG, FakeRegistry, RegistryFault};
use serde_json::Value;

use super::command::Scene;

/// Runs the program with the Docker configuration in `docker/`.
fn run(scene: &Scene, arguments: &str) -> Output {
    Command::cargo_bin("gpu-rollout")
        .unwrap()
        .current_dir(scene.path())
        .env("DOCKER_CONFIG", scene.path().join("docker"))
        .env("NO_PROXY", "127.0.0.1")
        .env_remove("REGISTRY_AUTH_FILE")
        .env_remove("XDG_RUNTIME_DIR")
        .args(arguments.split(' '))
        .output()
        .unwrap()
}

/// Runs the program, which must exit with `code`. Returns standard output and standard error.
#[track_caller]
fn ran(scene: &Scene, arguments: &str, code: i32) -> (String, String) {
    let output = run(scene, arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (data, messages) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments}\n{data}{messages}");
    (data, messages)
}

/// Returns a directory with the bundle `out`, which Flux reads from the registry with tag `v1`.
fn scene_for(registry: &FakeRegistry) -> Scene {
    let scene = Scene::new();
    let source = format!("--repo oci://{}/gpu --revision v1 --path clusters/a", registry.host());
    ran(&scene, &format!("bundle render -r kind-dev -d flux -o out {source}"), 0);
    scene
}

#[test]
fn pulled_bundle_is_the_pushed_one() {
    let registry = FakeRegistry::start().unwrap();
    let scene = scene_for(&registry);
    let host = registry.host();
    let push = format!("bundle push out oci://{host}/gpu --plain-http");
    let (data, messages) = ran(&scene, &push, 0);
    let lines: Vec<&str> = data.lines().collect();
    let (bundle, charts) = lines.split_last().unwrap();
    assert!(bundle.starts_with(&format!("{host}/gpu@sha256:")), "{data}");
    let own_chart = format!("{host}/gpu/charts/gpu-rollout@sha256:");
    assert!(charts.iter().any(|line| line.starts_with(&own_chart)), "{data}");
    assert!(messages.contains("pushing chart gpu-rollout 0.1.0+d"), "{messages}");
    // The bundle comes after all charts, so that Flux finds them.
    let tags: Vec<String> = registry
        .requests()
        .iter()
        .filter_map(|request| request.strip_prefix("PUT ")?.split_once("/manifests/"))
        .map(|(repository, tag)| format!("{repository}:{tag}"))
        .collect();
    assert_eq!(tags.len(), lines.len());
    assert_eq!(tags.last().map(String::as_str), Some("/v2/gpu:v1"));

    let (again, messages) = ran(&scene, &push, 0);
    assert_eq!(again, data, "the same bundle has the same digests");
    assert!(messages.contains("skipping chart gpu-rollout 0.1.0+d"), "{messages}");

    for address in [format!("{host}/gpu:v1"), (*bundle).to_owned()] {
        let pull = format!("bundle pull oci://{address} copy --plain-http");
        let (pulled, _) = ran(&scene, &pull, 0);
        assert_eq!(pulled, format!("{bundle}\n"));
        ran(&scene, "bundle verify copy", 0);
        ran(&scene, "bundle diff out copy", 0);
        let checksums = |bundle: &str| fs::read(scene.path().join(bundle).join("checksums.txt"));
        assert_eq!(checksums("copy").unwrap(), checksums("out").unwrap());
    }
}

/// Returns the tag of the hook's chart in the registry.
fn chart_tag(registry: &FakeRegistry) -> String {
    let tags = registry.tags();
    let mut found = tags.iter().filter_map(|tag| tag.strip_prefix("gpu/charts/gpu-rollout:"));
    found.next().unwrap().to_owned()
}

/// Asserts that `push` fails because of another chart, and pushes and prints nothing.
#[track_caller]
fn assert_other_chart(scene: &Scene, registry: &FakeRegistry, push: &str) {
    let tags = registry.tags();
    let before = registry.requests().len();
    let (data, messages) = ran(scene, push, 1);
    assert_eq!(data, "", "a user would sign it");
    let error = format!(
        "error: a chart of this version with other content is in the registry: `{}/gpu/charts/gpu-rollout:",
        registry.host()
    );
    assert!(messages.contains(&error), "{messages}");
    assert!(messages.contains("hint: if you edited the chart after rendering"), "{messages}");
    assert_eq!(registry.tags(), tags);
    let requests = registry.requests();
    let mut writes = requests[before..].iter().filter(|request| !request.starts_with("GET "));
    assert_eq!(writes.next(), None);
}

#[test]
fn digest_of_a_foreign_chart_is_not_printed() {
    let registry = FakeRegistry::start().unwrap();
    let scene = scene_for(&registry);
    let push = format!("bundle push out oci://{}/gpu --plain-http", registry.host());
    ran(&scene, &push, 0);
    let tag = chart_tag(&registry);
    registry.put_manifest("gpu/charts/gpu-rollout", &tag, br#"{"schemaVersion": 2}"#.to_vec());
    let other_tag = format!("bundle push out oci://{}/gpu:v2 --plain-http", registry.host());
    assert_other_chart(&scene, &registry, &other_tag);
}

/// Otherwise Flux would keep the chart without the edit.
#[test]
fn edited_chart_is_not_skipped() {
    let registry = FakeRegistry::start().unwrap();
    let scene = scene_for(&registry);
    let push = format!("bundle push out oci://{}/gpu --plain-http", registry.host());
    ran(&scene, &push, 0);
    for entry in fs::read_dir(scene.path().join("out")).unwrap() {
        let folder = entry.unwrap().path();
        // Only charts of the hook have this file.
        let file = folder.join("templates/job.yaml");
        if file.is_file() {
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, format!("{text}# mine\n")).unwrap();
        }
    }
    assert_other_chart(&scene, &registry, &push);
}

#[test]
fn push_prints_json_for_programs() {
    let registry = FakeRegistry::start().unwrap();
    let scene = scene_for(&registry);
    let host = registry.host();
    let push = format!("bundle push out oci://{host}/gpu:v2 --plain-http -o json");
    let (data, messages) = ran(&scene, &push, 0);
    let summary: Value = serde_json::from_str(&data).unwrap();
    assert_eq!(
        (&summary["bundle"]["tag"], &summary["bundle"]["pushed"]),
        (&"v2".into(), &true.into())
    );
    assert_eq!(summary["charts"][0]["pushed"], true);
    assert!(summary["charts"][0]["reference"].as_str().unwrap().starts_with(host), "{summary}");
    let note = format!("note: flux reads this bundle from oci://{host}/gpu, revision v1\n");
    assert!(messages.contains(&note), "{messages}");
    let (data, _) = ran(&scene, &push, 0);
    let summary: Value = serde_json::from_str(&data).unwrap();
    assert_eq!(summary["charts"][0]["pushed"], false);
}

#[test]
fn push_logs_in_with_the_credentials_of_docker() {
    let registry = FakeRegistry::start().unwrap();
    registry.require_login();
    let scene = scene_for(&registry);
    let push = format!("bundle push out oci://{}/gpu --plain-http", registry.host());
    let (_, messages) = ran(&scene, &push, 10);
    let hint = format!("hint: log in with `docker login {}`", registry.host());
    assert!(messages.contains(&hint), "{messages}");
    fs::create_dir(scene.path().join("docker")).unwrap();
    let config = DOCKER_CONFIG.replace("HOST", registry.host());
    fs::write(scene.path().join("docker/config.json"), config).unwrap();
    ran(&scene, &push, 0);
    assert!(registry.tags().contains(&"gpu:v1".to_owned()));
}

#[test]
fn broken_bundle_is_not_pushed() {
    let registry = FakeRegistry::start().unwrap();
    let scene = scene_for(&registry);
    let push = format!("bundle push out oci://{}/gpu --plain-http", registry.host());
    fs::write(scene.path().join("out/notes.md"), "mine\n").unwrap();
    let release = scene.path().join("out/releases/004-gpu-operator-post.yaml");
    let text = fs::read_to_string(&release).unwrap();
    let broken = text.replace("disableWait: true", "disableWait: false");
    assert_ne!(broken, text);
    fs::write(&release, broken).unwrap();
    let (_, messages) = ran(&scene, &push, 1);
    assert!(
        messages.contains("error: the parts of `out` are not consistent:\n  broken: "),
        "{messages}"
    );
    assert_eq!(registry.requests(), [""; 0]);
    fs::write(&release, text).unwrap();
    let (_, messages) = ran(&scene, &push, 0);
    assert!(
        messages.contains(
            "note: the bundle was edited after rendering (1 edit); the edits are pushed too"
        ),
        "{messages}"
    );
}

#[test]
fn failed_push_leaves_no_tag() {
    let registry = FakeRegistry::start().unwrap();
    let scene = scene_for(&registry);
    registry.fail(RegistryFault::Upload);
    let push = format!("bundle push out oci://{}/gpu --plain-http", registry.host());
    let (data, messages) = ran(&scene, &push, 41);
    assert_eq!(data, "");
    assert!(messages.contains("status 500: disk full"), "{messages}");
    assert_eq!(registry.tags(), [""; 0]);
}

#[test]
fn edited_bundle_is_replaced_only_by_force() {
    let registry = FakeRegistry::start().unwrap();
    let scene = scene_for(&registry);
    let address = format!("oci://{}/gpu:v1", registry.host());
    ran(&scene, &format!("bundle push out {address} --plain-http"), 0);
    let notes = scene.path().join("out/notes.md");
    fs::write(&notes, "mine\n").unwrap();
    let pull = format!("bundle pull {address} out --plain-http");
    let (_, messages) = ran(&scene, &pull, 1);
    assert!(messages.contains("added: notes.md\nhint: pull into another directory"), "{messages}");
    registry.fail(RegistryFault::Content);
    ran(&scene, &format!("{pull} --force"), 1);
    assert!(notes.exists(), "nothing is written before the digests are checked");
}

#[test]
fn address_without_version_is_wrong_usage() {
    let scene = Scene::new();
    ran(&scene, "bundle render -r kind-dev -d helm -o out", 0);
    let digest = "0a".repeat(32);
    for (arguments, message) in [
        ("push out oci://127.0.0.1:1/gpu", "the address has no tag"),
        (&*format!("push out oci://127.0.0.1:1/gpu@sha256:{digest}"), "the digest of a bundle"),
        ("push out 127.0.0.1:1/gpu:v1", "expected an address such as"),
        ("push out oci://127.0.0.1:1/GPU:v1", "`GPU` is not a repository"),
        ("push out oci://me:word@127.0.0.1:1/gpu:v1", "contains a user name or a password"),
        ("pull oci://127.0.0.1:1/gpu copy", "the address has no tag and no digest"),
    ] {
        let (_, messages) = ran(&scene, &format!("bundle {arguments}"), 2);
        assert!(messages.contains(message), "{arguments}: {messages}");
    }
    assert_eq!(scene.names(), ["out"]);
}
