//! Tests of packages: they depend only on the content of a bundle.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::{bundle, tree};
use crate::package::{pack, unpack};

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
