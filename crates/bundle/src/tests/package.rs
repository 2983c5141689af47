//! Tests of packages: they depend only on the content of a bundle.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::{bundle, tree};
use crate::package::{pack, unpack};
use crate::{BundleError, MAX_ENTRIES, verify, write};
use archive::ArchiveFile;

#[test]
fn package_is_independent_of_file_modes() {
    let (_directory, output) = bundle();
    let files = pack(&output).unwrap().files;
    for mode in [0o600, 0o755] {
        for path in files.keys() {
            fs::set_permissions(output.join(path), Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(pack(&output).unwrap().files, files, "{mode:o}");
    }
    assert!(files["deploy.sh"].executable && !files["README.md"].executable);
    assert_eq!(unpack(&output, files).unwrap().tree, *tree());
}

/// Regression: only files counted, so a bundle was pulled that every other command refused.
#[test]
fn folders_count_as_entries_of_a_package() {
    let (directory, output) = bundle();
    let packed = pack(&output).unwrap().files;
    let with_folders = |count: usize| {
        let mut files = packed.clone();
        let more = (0..count).map(|number| (format!("{number}/a"), ArchiveFile::new("")));
        files.extend(more);
        unpack(&output, files)
    };
    let most = (MAX_ENTRIES - packed.len()) / 2;
    let error = with_folders(most).unwrap_err();
    assert!(error.to_string().ends_with("more than 20000 files and directories"), "{error}");
    // What is unpacked can be read from disk too.
    let tree = with_folders(most - 50).unwrap().tree;
    let copy = directory.path().join("copy");
    write(&tree, &copy, false).unwrap();
    assert!(!verify(&copy).unwrap().is_empty());
}

/// `bundle pull` refuses them, so they are refused before they are pushed.
#[test]
fn git_repository_is_not_packed() {
    for path in [".git", "notes/.git/config"] {
        let (_directory, output) = bundle();
        let file = output.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "[core]\n").unwrap();
        let error = pack(&output).unwrap_err();
        assert!(matches!(&error, BundleError::File { .. }), "{error}");
        assert!(error.to_string().contains("a Git repository"), "{error}");
    }
    let (_directory, output) = bundle();
    fs::create_dir(output.join(".git")).unwrap();
    fs::write(output.join(".git/config"), "[core]\n").unwrap();
    let files = pack(&output).unwrap().files;
    assert!(files.keys().all(|path| !path.starts_with(".git")), "a bundle may be a repository");
}
