//! `gpu-rollout bundle verify --key` as a process, and the options of `bundle render` with which
//! Flux verifies signatures.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::command::{Scene, snapshot};

const SIGNATURE: &str = "checksums.txt.sigstore.json";

/// Returns a scene with `tests/data/signed`: the signed bundle `bundle`, and keys.
fn scene() -> Scene {
    let scene = Scene::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/signed");
    fs::create_dir(scene.path().join("bundle")).unwrap();
    for folder in ["", "bundle"] {
        for entry in fs::read_dir(data.join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                let target = scene.path().join(folder).join(entry.file_name());
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    scene
}

#[test]
fn signature_is_checked_before_the_files() {
    let scene = scene();
    let bundle = scene.path().join("bundle");
    let mut seen = scene.seen("bundle verify bundle");
    seen += &scene.seen("bundle verify bundle --key cosign.pub");
    fs::write(bundle.join("notes.md"), "mine").unwrap();
    seen += &scene.seen("bundle verify bundle --key cosign.pub");
    seen += &scene.seen("bundle verify bundle --key cosign.pub -o json");
    seen += &scene.seen("bundle verify bundle --key other.pub");
    seen += &scene.seen("bundle verify bundle --key other.pub -o json");
    fs::rename(bundle.join(SIGNATURE), scene.path().join("signature.json")).unwrap();
    seen += &scene.seen("bundle verify bundle --key cosign.pub");
    fs::remove_file(bundle.join("notes.md")).unwrap();
    seen += &scene.seen("bundle verify bundle --key cosign.pub --signature signature.json");
    fs::write(bundle.join("checksums.txt"), "").unwrap();
    seen += &scene.seen("bundle verify bundle --key cosign.pub --signature signature.json");
    seen += &scene.seen("bundle verify bundle --key cosign.pub --signature cosign.pub");
    seen += &scene.seen("bundle verify bundle --signature signature.json");
    snapshot!("command-verify-signature", seen);
}

#[test]
fn keys_that_cannot_verify_are_named() {
    let scene = scene();
    let private = "-----BEGIN EC PRIVATE KEY-----\nc2VjcmV0\n-----END EC PRIVATE KEY-----\n";
    fs::write(scene.path().join("private.pem"), private).unwrap();
    let mut seen = String::new();
    for key in ["ed25519.pub", "rsa.pub", "certificate.pem", "private.pem", "bundle", "nowhere"] {
        seen += &scene.seen(&format!("bundle verify bundle --key {key}"));
    }
    assert!(!seen.contains("c2VjcmV0"), "{seen}");
    snapshot!("command-verify-keys", seen);
}

#[test]
fn document_says_whether_the_signature_was_checked() {
    let scene = scene();
    let document = |arguments: &str| {
        let output = scene.run(&format!("bundle verify bundle -o json{arguments}"));
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(document(" --key cosign.pub"), json!({"signature": "valid", "findings": []}));
    assert_eq!(document("")["signature"], "not-checked");
    fs::remove_file(scene.path().join("bundle").join(SIGNATURE)).unwrap();
    assert_eq!(document("")["signature"], "none");
}

#[test]
fn replaced_bundle_loses_its_signature() {
    let scene = Scene::new();
    scene.run("bundle render -r base -d helm -o out");
    fs::write(scene.path().join("out").join(SIGNATURE), "{}").unwrap();
    let output = scene.run("bundle render -r base -d helm -o out");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("note: `out` has no signature any more"), "{said}");
    assert!(!scene.path().join("out").join(SIGNATURE).exists());
}

#[test]
fn verification_is_refused_where_it_would_not_happen() {
    let scene = Scene::new();
    let mut seen = Vec::new();
    for arguments in [
        "-d argocd --repo https://a --verify-secret cosign",
        "-d helm --repo oci://a/b --verify-identity https://a=b",
        "-d all --repo oci://a/b --revision v1 --verify-secret cosign",
        "-d flux --repo https://a/b --verify-secret cosign",
        "-d flux --repo https://a/b --verify-identity https://a=b",
        "-d flux --verify-secret cosign",
        "-d flux --repo oci://a/b --verify-secret cosign --verify-identity https://a=b",
        "-d flux --repo oci://a/b --verify-secret A_B",
        "-d flux --repo oci://a/b --verify-identity https://a",
        "-d flux --repo oci://a/b --verify-identity a@example.com=https://a",
        "-d flux --repo oci://a/b --verify-identity https://a=**",
        "-d flux --repo oci://a/b --verify-identity https://a=b|c",
    ] {
        let output = scene.run(&format!("bundle render -r base -o out {arguments}"));
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        let said = String::from_utf8(output.stderr).unwrap();
        let is_shown = |line: &&str| line.starts_with("error") || line.starts_with("hint");
        let lines: Vec<&str> = said.lines().filter(is_shown).collect();
        seen.push(format!("$ {arguments}\n{}", lines.join("\n")));
    }
    snapshot!("command-verify-options", seen.join("\n"));
    assert!(scene.names().is_empty());
}
