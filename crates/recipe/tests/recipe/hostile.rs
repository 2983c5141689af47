//! Recipes from an untrusted source: nothing outside their directory is read or shown.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use recipe::aicr::AicrOptions;
use recipe::load::{load, load_with};
use recipe::read::{AllowedDirectoriesReader, FileSystemReader};
use tempfile::TempDir;

/// The content of a file that no message may show.
const PRIVATE: &str = "root:x:0:0:private-content:/root:/bin/sh\nkey: private-content\n";
const HEAD: &str = "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {name: x}\n";

/// A directory with a private file, a shared recipe, and `team/` for the recipes of a test.
fn scene() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("team/sub")).unwrap();
    fs::create_dir(directory.path().join("shared")).unwrap();
    fs::write(directory.path().join("private"), PRIVATE).unwrap();
    fs::write(directory.path().join("private.yaml"), PRIVATE).unwrap();
    fs::write(directory.path().join("shared/base.yaml"), format!("{HEAD}extends: [base]\n"))
        .unwrap();
    directory
}

/// Returns the messages about a recipe that extends `parent`; empty if it is valid.
fn said(scene: &Path, parent: &str, allowed: &[&str]) -> String {
    let recipe = scene.join("team/recipe.yaml");
    fs::write(&recipe, format!("{HEAD}extends: [{parent}]\n")).unwrap();
    let allowed = allowed.iter().map(|path| scene.join(path).display().to_string()).collect();
    let mut reader = AllowedDirectoriesReader { allowed };
    let options = AicrOptions::default();
    match load_with(recipe.to_str().unwrap(), &[], &options, &mut reader) {
        Ok(_) => String::new(),
        Err(findings) => findings.render_plain(),
    }
}

#[test]
fn extended_file_outside_is_refused_unread() {
    let scene = scene();
    let absolute = scene.path().join("private.yaml").display().to_string();
    for parent in [
        "../private.yaml",
        "../private",
        "../nowhere.yaml",
        &absolute,
        "/proc/self/environ",
        "sub/../../private",
    ] {
        let said = said(scene.path(), parent, &[]);
        assert!(said.contains("is outside the directory of the recipe"), "{parent}: {said}");
        assert!(!said.contains("private-content"), "{parent}: {said}");
    }
}

#[test]
fn link_that_leaves_directory_is_refused() {
    let scene = scene();
    symlink("../private.yaml", scene.path().join("team/link.yaml")).unwrap();
    symlink("..", scene.path().join("team/up")).unwrap();
    symlink("/dev/zero", scene.path().join("team/endless.yaml")).unwrap();
    for parent in ["link.yaml", "up/private.yaml", "up/shared/base.yaml", "endless.yaml"] {
        let said = said(scene.path(), parent, &[]);
        assert!(said.contains("is outside the directory of the recipe"), "{parent}: {said}");
        assert!(!said.contains("private-content"), "{parent}: {said}");
    }
}

#[test]
fn pipe_in_directory_is_refused_at_once() {
    let scene = scene();
    let pipe = scene.path().join("team/pipe.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(said(scene.path(), "pipe.yaml", &[]).contains("not a regular file"));
}

#[test]
fn extended_file_in_allowed_directory_is_read() {
    let scene = scene();
    fs::copy(scene.path().join("shared/base.yaml"), scene.path().join("team/sub/base.yaml"))
        .unwrap();
    symlink("sub/base.yaml", scene.path().join("team/link.yaml")).unwrap();
    for (parent, allowed) in [
        ("sub/base.yaml", &[][..]),
        ("./link.yaml", &[]),
        ("../shared/base.yaml", &["shared"]),
        ("../shared/base.yaml", &["nowhere", "."]),
    ] {
        let said = said(scene.path(), parent, allowed);
        assert!(!said.contains("outside") && !said.contains("cannot read"), "{parent}: {said}");
    }
    // A parent in a subdirectory may name files of the recipe's directory, and no others.
    fs::write(scene.path().join("team/base.yaml"), format!("{HEAD}extends: [base]\n")).unwrap();
    let nested = scene.path().join("team/sub/nested.yaml");
    fs::write(&nested, format!("{HEAD}extends: [../base.yaml]\n")).unwrap();
    assert!(!said(scene.path(), "sub/nested.yaml", &[]).contains("outside"));
    fs::write(&nested, format!("{HEAD}extends: [../../shared/base.yaml]\n")).unwrap();
    assert!(said(scene.path(), "sub/nested.yaml", &[]).contains("outside"));
}

#[test]
fn file_that_is_not_a_recipe_is_never_shown() {
    let scene = scene();
    fs::copy(scene.path().join("private.yaml"), scene.path().join("team/private.yaml")).unwrap();
    let said = said(scene.path(), "private.yaml", &[]);
    assert!(said.contains("is not a recipe") && !said.contains("private-content"), "{said}");
    for text in [PRIVATE, "[private-content", "a: private-content\na: private-content\n"] {
        let file = scene.path().join("team/named.yaml");
        fs::write(&file, text).unwrap();
        let findings =
            load(file.to_str().unwrap(), &[], &mut FileSystemReader).unwrap_err().render_plain();
        assert!(findings.contains("named.yaml:"), "{findings}");
        assert!(!findings.contains("private-content"), "{findings}");
    }
}

/// Secrets of a recipe in findings about other places on the same line, and next to broken YAML.
#[test]
fn secret_next_to_finding_is_masked() {
    let rest = "extends: [base]\ncomponents:\n  - name: gpu-operator\n    values: ";
    for values in [
        "{password: swordfish, dgcm: 1}",
        "{dgcm: 1, registryPassword: \"swordfish\"}",
        "{driver: {env: [{name: NGC_API_KEY, value: swordfish}], dgcm: 1}}",
        "{password: swordfish, x: [}",
        "{dgcm: {apiKey: swordfish1, x: 1}}",
        "{dgcm: 'https://me:swordfish@example.com'}",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("recipe.yaml");
        fs::write(&file, format!("{HEAD}{rest}{values}\n")).unwrap();
        let findings =
            load(file.to_str().unwrap(), &[], &mut FileSystemReader).unwrap_err().render_plain();
        assert!(!findings.contains("swordfish"), "{findings}");
    }
}

/// Names of AICR's components become parts of paths below `--data`.
#[test]
fn component_name_of_aicr_reaches_no_file_outside() {
    let scene = scene();
    let data = scene.path().join("data");
    fs::create_dir_all(data.join("components/gpu-operator")).unwrap();
    fs::create_dir_all(scene.path().join("outside")).unwrap();
    fs::write(scene.path().join("outside/values.yaml"), "key: [private-content\n").unwrap();
    fs::write(data.join("values.yaml"), "").unwrap();
    symlink("../../outside/values.yaml", data.join("components/link.yaml")).unwrap();
    let options = AicrOptions { data: Some(data.display().to_string()), ..AicrOptions::default() };
    for (name, values) in [
        ("../../outside", "values.yaml"),
        ("a/../../outside", "values.yaml"),
        ("gpu-operator", "components/link.yaml"),
        ("gpu-operator", "../outside/values.yaml"),
    ] {
        let file = scene.path().join("team/aicr.yaml");
        let text = format!(
            "kind: RecipeResult\napiVersion: aicr.nvidia.com/v1alpha1\ncomponentRefs:\n  - {{name: {name}, type: Helm, version: 26.3.1, valuesFile: {values}}}\n"
        );
        fs::write(&file, text).unwrap();
        let findings =
            load_with(file.to_str().unwrap(), &[], &options, &mut FileSystemReader).unwrap_err();
        let said = findings.render_plain();
        assert!(!said.contains("private-content") && !said.contains("not YAML"), "{name}: {said}");
        assert!(
            said.contains("not a valid component name") || said.contains("outside the data"),
            "{name}: {said}"
        );
    }
}
