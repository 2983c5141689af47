//! Tests of bundles from an untrusted source: nothing outside them is read, and no file without an
//! end.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use super::signed::Signer;
use super::{bundle, paths, tree};
use crate::checksums::SIGNATURE;
use crate::directory::MAX_FILE;
use crate::{
    BundleError, VerifyError, WriteError, diff, images, read, recipe_path, verify, verify_signed,
    write,
};

/// Creates one path that must not be read, next to a bundle's files or in place of one.
type Trap = fn(&Path);

/// Everything that is not a regular file, or is larger than any file of a bundle.
const TRAPS: [(&str, Trap); 6] = [
    ("endless device", |path| symlink("/dev/zero", path).unwrap()),
    ("link to a file", |path| symlink("/proc/self/environ", path).unwrap()),
    ("link to a directory", |path| symlink("/etc", path).unwrap()),
    ("link to itself", |path| symlink(path, path).unwrap()),
    ("pipe without a writer", |path| {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }),
    ("large file", |path| fs::File::create(path).unwrap().set_len(MAX_FILE + 1).unwrap()),
];

/// Removes all releases but the vendor's chart from `bundle-info.yaml`, and sets its folder.
fn keep_upstream(output: &Path, folder: Option<&str>) {
    let file = output.join("bundle-info.yaml");
    let mut info: Value = yaml::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let releases = info["releases"].as_array_mut().unwrap();
    releases.retain(|release| release["kind"] == "upstream");
    if let Some(folder) = folder {
        releases[0]["folder"] = folder.into();
    }
    fs::write(file, yaml::to_string(&info).unwrap()).unwrap();
}

#[test]
fn hostile_file_is_named_and_never_read() {
    for (name, trap) in TRAPS {
        let (_directory, output) = bundle();
        trap(&output.join("extra.yaml"));
        let values = output.join("004-gpu-operator/values.yaml");
        fs::remove_file(&values).unwrap();
        trap(&values);
        let verified = paths(&verify(&output).unwrap());
        let found =
            ["changed: ", "no file: "].map(|kind| format!("{kind}004-gpu-operator/values.yaml"));
        assert!(found.iter().any(|finding| verified.contains(finding)), "{name}: {verified:?}");
        assert!(verified.contains(&"added: extra.yaml".to_owned()), "{name}: {verified:?}");
        let (_other_directory, other) = bundle();
        assert!(matches!(read(&output), Err(BundleError::File { .. })), "{name}");
        assert!(matches!(diff::diff(&other, &output), Err(BundleError::File { .. })), "{name}");
        assert!(matches!(write(tree(), &output, false), Err(WriteError::Edited { .. })), "{name}");
        keep_upstream(&output, None);
        assert!(matches!(images::images(&output), Err(BundleError::File { .. })), "{name}");
    }
}

#[test]
fn hostile_list_or_info_is_never_read() {
    for (name, trap) in TRAPS {
        for file in ["checksums.txt", "bundle-info.yaml", "recipe.yaml"] {
            let (_directory, output) = bundle();
            fs::remove_file(output.join(file)).unwrap();
            trap(&output.join(file));
            if file == "checksums.txt" {
                assert!(matches!(verify(&output), Err(BundleError::File { .. })), "{name}");
            } else {
                assert!(matches!(recipe_path(&output), Err(BundleError::File { .. })), "{name}");
                let found = paths(&verify(&output).unwrap());
                assert!(found.iter().any(|finding| finding.ends_with(file)), "{name}: {found:?}");
            }
            assert!(write(tree(), &output, false).is_err(), "{name}: {file}");
        }
    }
}

#[test]
fn hostile_signature_is_never_read() {
    let signer = Signer::new();
    for (name, trap) in TRAPS {
        let (directory, output) = bundle();
        let key = signer.public_key(directory.path());
        trap(&output.join(SIGNATURE));
        let error = verify_signed(&output, &key, None).unwrap_err();
        assert!(matches!(error, VerifyError::Unreadable(_)), "{name}: {error}");
        let found = paths(&verify(&output).unwrap());
        assert_eq!(found, [format!("added: {SIGNATURE}")], "{name}");
        assert!(matches!(write(tree(), &output, false), Err(WriteError::Edited { .. })), "{name}");
        let (_other_directory, other) = bundle();
        assert!(matches!(diff::diff(&other, &output), Err(BundleError::File { .. })), "{name}");
    }
    // The user decides which file it is, but not how long it is.
    let (directory, output) = bundle();
    let endless = directory.path().join("endless");
    symlink("/dev/zero", &endless).unwrap();
    let key = signer.public_key(directory.path());
    for (key, signature) in [(&key, &endless), (&endless, &key)] {
        let error = verify_signed(&output, key, Some(signature)).unwrap_err();
        assert!(matches!(error, VerifyError::Read { .. }), "{error}");
        assert!(error.to_string().contains("more than 1 MiB"), "{error}");
    }
}

/// A part of the check was left out without a word.
#[test]
fn bundle_with_too_many_releases_does_not_verify() {
    let (_directory, output) = bundle();
    let file = output.join("bundle-info.yaml");
    let mut info: Value = yaml::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let releases = info["releases"].as_array_mut().unwrap();
    let one = releases[0].clone();
    releases.extend(std::iter::repeat_n(one, 1_000));
    fs::write(file, yaml::to_string(&info).unwrap()).unwrap();
    let findings = verify(&output).unwrap();
    let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(shown.iter().any(|shown| shown.contains("more than 1000 releases")), "{shown:?}");
}

/// A folder that is a link: the files in it are not those of the bundle, whatever their content.
#[test]
fn link_to_folder_is_not_followed() {
    let (directory, output) = bundle();
    let outside = directory.path().join("outside");
    fs::rename(output.join("004-gpu-operator"), &outside).unwrap();
    symlink(&outside, output.join("004-gpu-operator")).unwrap();
    assert_eq!(
        paths(&verify(&output).unwrap())[..2],
        ["added: 004-gpu-operator", "missing: 004-gpu-operator/values.yaml"]
    );
    for folder in ["004-gpu-operator", "../outside", outside.to_str().unwrap()] {
        keep_upstream(&output, Some(folder));
        assert!(matches!(images::images(&output), Err(BundleError::Read { .. })), "{folder}");
    }
    fs::remove_file(output.join("004-gpu-operator")).unwrap();
    fs::rename(&outside, output.join("004-gpu-operator")).unwrap();
    keep_upstream(&output, Some("004-gpu-operator"));
    assert!(!images::images(&output).unwrap().images.is_empty());
}

#[test]
fn bundle_without_end_is_refused() {
    let (_directory, output) = bundle();
    let deep = (0..40).fold(output.join("deep"), |path, _| path.join("a"));
    fs::create_dir_all(deep).unwrap();
    assert!(matches!(verify(&output), Err(BundleError::File { .. })));
    let (_directory, output) = bundle();
    for number in 0..20_001 {
        fs::write(output.join(format!("{number}")), "").unwrap();
    }
    assert!(matches!(verify(&output), Err(BundleError::File { .. })));
    let (_directory, output) = bundle();
    let file = output.join("bundle-info.yaml");
    let mut info: Value = yaml::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    info["releases"] = vec![info["releases"][0].clone(); 1_001].into();
    fs::write(&file, yaml::to_string(&info).unwrap()).unwrap();
    assert!(matches!(images::images(&output), Err(BundleError::File { .. })));
}

/// A name that would move the cursor, and one that would forge a second finding.
#[test]
fn hostile_name_is_one_visible_line() {
    let (_directory, output) = bundle();
    fs::write(output.join("a\u{1b}[2J\nmissing: b"), "").unwrap();
    assert_eq!(paths(&verify(&output).unwrap()), [r"added: a\u{1b}[2J\nmissing: b"]);
}
