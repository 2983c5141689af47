//! Tests of bundles on disk: they are complete or absent, and every edit is found.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use proptest::prelude::*;
use tempfile::TempDir;

use super::directory::BundleDirectory;
use super::write::write_with;
use super::{
    BundleError, BundleFinding, BundleInput, BundleTree, WriteError, build, verify, write,
};
use deployer::BundleFile;
use recipe::model::Recipe;
use release::{self, PlanOptions, plan};

mod format;
mod hostile;
mod package;
mod signed;

const CHART: [(&str, &str); 2] =
    [("Chart.yaml", "name: gpu-rollout\n"), ("templates/job.yaml", "kind: Job\n")];

fn recipe() -> Recipe {
    release::fixture::recipe(serde_json::json!({}))
}

fn tree() -> &'static BundleTree {
    static TREE: OnceLock<BundleTree> = OnceLock::new();
    TREE.get_or_init(|| tree_of(&recipe()))
}

fn tree_of(recipe: &Recipe) -> BundleTree {
    let options = PlanOptions::default();
    let plan = plan(recipe, &release::fixture::catalog(), &options).unwrap();
    build(BundleInput {
        recipe,
        plan: &plan,
        options: &options,
        deployer: "helm".parse().unwrap(),
        hook_chart: &CHART.map(|(path, text)| (path, text.into())),
        source: None,
    })
    .unwrap()
}

/// Writes a bundle into its own directory.
fn bundle() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    write(tree(), &output, false).unwrap();
    (directory, output)
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn paths(findings: &[BundleFinding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn what_was_written_verifies_and_can_be_replaced() {
    let (directory, output) = bundle();
    assert_eq!(verify(&output).unwrap(), []);
    assert_eq!(
        fs::metadata(output.join("deploy.sh")).unwrap().permissions().mode() & 0o111,
        0o111 & !umask()
    );
    assert_eq!(fs::metadata(output.join("README.md")).unwrap().permissions().mode() & 0o111, 0);
    let written = write(tree(), &output, false).unwrap();
    assert!(written.replaced && written.left_over.is_none());
    assert_eq!(names(directory.path()), ["out"]);
    let count = tree().files().count();
    assert_eq!(BundleDirectory::open(&output).unwrap().files().count(), count);
}

/// Returns the process's umask, from the permissions of a new file.
fn umask() -> u32 {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("probe");
    std::os::unix::fs::OpenOptionsExt::mode(fs::OpenOptions::new().write(true).create(true), 0o777)
        .open(&path)
        .unwrap();
    0o777 & !fs::metadata(path).unwrap().permissions().mode()
}

#[test]
fn write_creates_parents_and_accepts_empty_directory() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("a/b/c");
    write(tree(), &deep, false).unwrap();
    let empty = directory.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(!write(tree(), &empty, false).unwrap().replaced);
    let link = directory.path().join("link");
    symlink(&empty, &link).unwrap();
    write(tree(), &link, false).unwrap();
    assert!(
        fs::symlink_metadata(&link).unwrap().is_symlink(),
        "the link stays, its target is replaced"
    );
    assert_eq!(verify(&link).unwrap(), []);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    fs::create_dir(&output).unwrap();
    fs::write(output.join("thesis.tex"), "years of work").unwrap();
    for force in [false, true] {
        assert!(matches!(write(tree(), &output, force), Err(WriteError::Foreign { .. })));
    }
    fs::write(output.join("bundle-info.yaml"), "kind: Other\n").unwrap();
    assert!(matches!(write(tree(), &output, true), Err(WriteError::Foreign { .. })));
    assert_eq!(names(&output), ["bundle-info.yaml", "thesis.tex"]);
    let file = output.join("thesis.tex");
    assert!(matches!(write(tree(), &file, true), Err(WriteError::NoDirectory(_))));
    assert!(matches!(
        write(tree(), Path::new("/"), true),
        Err(WriteError::NoDirectory(_) | WriteError::CurrentDirectory(_))
    ));
    let current = std::env::current_dir().unwrap();
    assert!(matches!(write(tree(), &current, true), Err(WriteError::CurrentDirectory(_))));
    let (_directory, bundle) = bundle();
    fs::create_dir(bundle.join(".git")).unwrap();
    assert_eq!(verify(&bundle).unwrap(), [], "a bundle may be a repository");
    assert!(matches!(write(tree(), &bundle, true), Err(WriteError::Repository(_))));
}

#[test]
fn edits_are_not_thrown_away_unasked() {
    let (_directory, output) = bundle();
    let values = output.join("004-gpu-operator/values.yaml");
    let edited = format!("{}edited: true\n", fs::read_to_string(&values).unwrap());
    fs::write(&values, &edited).unwrap();
    fs::write(output.join("notes.md"), "mine").unwrap();
    let error = write(tree(), &output, false).unwrap_err();
    let WriteError::Edited { edits, .. } = &error else { panic!("{error}") };
    assert_eq!(edits, &["changed: 004-gpu-operator/values.yaml", "added: notes.md"]);
    assert_eq!(fs::read_to_string(&values).unwrap(), edited);
    write(tree(), &output, true).unwrap();
    assert_eq!(verify(&output).unwrap(), []);
}

#[test]
fn a_full_disk_leaves_everything_as_it_was() {
    let count = tree().files().count();
    for fail_at in 0..count {
        for before in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let output = directory.path().join("out");
            if before {
                write(tree(), &output, false).unwrap();
            }
            let mut written = 0;
            let mut full = |root: &Path, file: &BundleFile| -> io::Result<()> {
                if written == fail_at {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                written += 1;
                fs::write(root.join(&file.path), &file.content[..file.content.len() / 2])
            };
            let error = write_with(tree(), &output, false, &mut full).unwrap_err();
            let WriteError::Io { path, .. } = &error else { panic!("{error}") };
            let expected = output
                .canonicalize()
                .unwrap_or(directory.path().canonicalize().unwrap().join("out"));
            assert_eq!(path, &expected.join(&tree().files().nth(fail_at).unwrap().path));
            assert_eq!(error.hint(), Some("free disk space, or choose another directory"));
            assert_eq!(names(directory.path()), if before { vec!["out"] } else { vec![] });
            assert!(!before || verify(&output).unwrap().is_empty());
        }
    }
}

#[test]
fn write_repairs_what_a_killed_run_left() {
    let (directory, output) = bundle();
    let (staging, backup) = (
        directory.path().join(".out.gpu-rollout-new"),
        directory.path().join(".out.gpu-rollout-old"),
    );
    fs::create_dir(&staging).unwrap();
    fs::rename(&output, &backup).unwrap();
    fs::write(backup.join("README.md"), "edited").unwrap();
    assert!(
        matches!(write(tree(), &output, false), Err(WriteError::Edited { .. })),
        "the old bundle is back, with its edits"
    );
    assert_eq!(names(directory.path()), ["out"]);
    fs::create_dir(&backup).unwrap();
    write(tree(), &output, true).unwrap();
    assert_eq!(names(directory.path()), ["out"]);
}

/// Regression: after a killed run, every later run through a link failed.
#[test]
fn old_bundle_behind_a_link_is_restored() {
    for name in ["link", "link/"] {
        let (directory, output) = bundle();
        symlink("out", directory.path().join("link")).unwrap();
        fs::rename(&output, directory.path().join(".out.gpu-rollout-old")).unwrap();
        let link = directory.path().join(name);
        assert!(write(tree(), &link, false).unwrap().replaced, "{name}");
        assert_eq!(names(directory.path()), ["link", "out"], "{name}");
        assert_eq!(verify(&link).unwrap(), [], "{name}");
    }
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link");
    symlink("not-mounted/out", &link).unwrap();
    let error = write(tree(), &link, false).unwrap_err();
    assert!(matches!(&error, WriteError::DanglingLink { .. }), "{error}");
    assert!(error.hint().is_some(), "{error}");
    assert_eq!(names(directory.path()), ["link"]);
}

#[test]
fn what_is_no_bundle_is_said_so() {
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(
        verify(directory.path()),
        Err(BundleError::NoBundle { file: "bundle-info.yaml", .. })
    ));
    assert!(matches!(verify(&directory.path().join("nowhere")), Err(BundleError::Read { .. })));
    let (_directory, output) = bundle();
    fs::remove_file(output.join("checksums.txt")).unwrap();
    assert!(matches!(verify(&output), Err(BundleError::Incomplete { file: "checksums.txt", .. })));
    let error = write(tree(), &output, false).unwrap_err();
    assert!(matches!(&error, WriteError::Unverifiable(_)), "{error}");
    write(tree(), &output, true).unwrap();
    assert_eq!(verify(&output).unwrap(), []);
}

#[test]
fn every_kind_of_edit_is_named_at_once() {
    let (_directory, output) = bundle();
    fs::remove_file(output.join("README.md")).unwrap();
    fs::remove_file(output.join("undeploy.sh")).unwrap();
    symlink("deploy.sh", output.join("undeploy.sh")).unwrap();
    fs::write(output.join("004-gpu-operator/values.yaml"), "a: b\n").unwrap();
    fs::create_dir(output.join("more")).unwrap();
    fs::write(output.join("more/.hidden"), "").unwrap();
    assert_eq!(
        paths(&verify(&output).unwrap()),
        [
            "changed: 004-gpu-operator/values.yaml",
            "missing: README.md",
            "added: more/.hidden",
            "no file: undeploy.sh"
        ]
    );
}

#[test]
fn rewritten_directory_keeps_permissions_and_group() {
    for mode in [0o2775, 0o750, 0o700, 0o1777, 0o2555] {
        let (_directory, output) = bundle();
        fs::set_permissions(&output, fs::Permissions::from_mode(mode)).unwrap();
        let before = fs::metadata(&output).unwrap();
        write(tree(), &output, false).unwrap();
        let after = fs::metadata(&output).unwrap();
        assert_eq!(after.mode() & 0o7777, mode, "{mode:o}");
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()), "{mode:o}");
        // Files below get the group that the directory passes on.
        let folder = fs::metadata(output.join("004-gpu-operator")).unwrap();
        assert_eq!(folder.mode() & 0o2000, mode & 0o2000, "{mode:o}");
    }
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o2770)).unwrap();
    write(tree(), &empty, false).unwrap();
    assert_eq!(fs::metadata(&empty).unwrap().mode() & 0o7777, 0o2770);
}

#[test]
fn broken_promise_is_found_despite_valid_checksums() {
    let broken = |path: &str, from: &str, to: &str| {
        let (_directory, output) = bundle();
        let text = fs::read_to_string(output.join(path)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(output.join(path), text.replacen(from, to, 1)).unwrap();
        let findings = verify(&output).unwrap();
        let promises: Vec<&BundleFinding> = findings
            .iter()
            .filter(|finding| matches!(finding, BundleFinding::Promise { .. }))
            .collect();
        promises.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(broken("deploy.sh", "600 v26.3.1", "600 v26.7.0"));
    insta::assert_snapshot!(broken(
        "bundle-info.yaml",
        "nvidia/gpu-operator\n    version: v26.3.1",
        "nvidia/gpu-operator\n    version: v26.7.0"
    ));
    insta::assert_snapshot!(broken(
        "005-gpu-operator-post/rollout.yaml",
        "budgetSeconds: 3",
        "budgetSeconds: 13"
    ));
    insta::assert_snapshot!(broken(
        "deploy.sh",
        "upstream 004-gpu-operator ",
        "# upstream 004-gpu-operator "
    ));
    insta::assert_snapshot!(broken(
        "deploy.sh",
        "3870 004-gpu-operator/values.yaml",
        "3870 my-values.yaml"
    ));
    assert_eq!(
        broken("005-gpu-operator-post/rollout.yaml", "version: v26.3.1", "version: \"\""),
        "broken: deploy.sh: deploys gpu-operator v26.3.1, but the settings of its hook gpu-operator-post do not name a version: render again with --force"
    );
    assert_eq!(
        broken("002-gpu-operator-crds/Chart.yaml", "appVersion:", "# appVersion:"),
        "broken: deploy.sh: deploys gpu-operator v26.3.1, but its CRDs in `002-gpu-operator-crds` do not name a version: render again with --force"
    );
    assert_eq!(
        broken("004-gpu-operator/values.yaml", "580.126.20", "580.126.21"),
        "",
        "an edit of values is a way to work"
    );
}

/// Edits of values are allowed, but not a configuration that the device plugin refuses or misreads.
#[test]
fn edited_device_plugin_configuration_is_checked() {
    let sharing = serde_json::json!({"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}});
    let config = serde_json::json!({"default": "shared", "configs": {"shared": {"version": "v1", "sharing": sharing}}});
    let recipe = release::fixture::recipe(
        serde_json::json!({"components": [{"name": "gpu-operator", "devicePluginConfig": config}]}),
    );
    let broken = |path: &str, from: &str, to: &str| {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        write(&tree_of(&recipe), &output, false).unwrap();
        let text = fs::read_to_string(output.join(path)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(output.join(path), text.replacen(from, to, 1)).unwrap();
        let findings = verify(&output).unwrap();
        findings
            .iter()
            .filter(|finding| matches!(finding, BundleFinding::Promise { .. }))
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let config = "003-gpu-operator-config/values.yaml";
    assert_eq!(broken(config, "replicas: 4", "replicas: 8"), [""; 0]);
    assert_eq!(
        broken(config, "replicas: 4", "replicas: 1"),
        [format!(
            "broken: {config}: configuration shared, line 6: the device plugin 0.19.0 refuses this: number of replicas must be >= 2"
        )]
    );
    assert_eq!(
        broken(config, "timeSlicing:", "timeslicing:"),
        [format!(
            "broken: {config}: configuration shared, line 3: the key is spelled `timeSlicing`; here, the plugin reads this spelling; elsewhere, it ignores it"
        )]
    );
    assert_eq!(
        broken("005-gpu-operator/values.yaml", "default: shared", "default: whole"),
        [format!(
            "broken: 005-gpu-operator/values.yaml: the default configuration of gpu-operator is `whole`, which `{config}` does not have"
        )]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_changed_byte_is_found(file in any::<prop::sample::Index>(), byte in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let (_directory, output) = bundle();
        let files: Vec<&BundleFile> = tree().files().collect();
        let file = file.get(&files);
        let mut content = file.content.to_vec();
        let index = byte.index(content.len());
        content[index] ^= flip;
        fs::write(output.join(&file.path), &content).unwrap();
        match verify(&output) {
            Ok(findings) if file.path == "checksums.txt" => prop_assert!(!findings.is_empty()),
            Ok(findings) => prop_assert!(findings.contains(&BundleFinding::Changed(file.path.clone())), "{findings:?}"),
            // The byte is in the version of the format.
            Err(BundleError::OtherFormat { .. }) if file.path == "bundle-info.yaml" => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn any_added_and_any_removed_file_is_found(file in any::<prop::sample::Index>(), name in "[a-z.]{1,8}[a-z]") {
        let (_directory, output) = bundle();
        let files: Vec<&BundleFile> = tree().files().filter(|file| file.path != "checksums.txt" && file.path != "bundle-info.yaml").collect();
        let removed = &file.get(&files).path;
        fs::remove_file(output.join(removed)).unwrap();
        let added = format!("004-gpu-operator/{name}");
        prop_assume!(tree().get(&added).is_none());
        fs::write(output.join(&added), "x").unwrap();
        let findings = verify(&output).unwrap();
        prop_assert!(findings.contains(&BundleFinding::Missing(removed.clone())), "{findings:?}");
        prop_assert!(findings.contains(&BundleFinding::Added(added)), "{findings:?}");
    }
}
