//! Tests of `deploy.sh` and `undeploy.sh` with a fake Helm that only records its arguments. The
//! end-to-end tests run the scripts with real Helm.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bundle::write;
use tempfile::TempDir;

use super::library;

/// Answers like Helm as far as the scripts go, and appends its arguments, one call a line, to
/// `calls`.
const HELM: &str = r#"#!/bin/sh
here=$(dirname "$0")
case $1 in
  version) cat "$here/version"; exit 0 ;;
  list) cat "$here/pending"; exit 0 ;;
esac
for word in "$@"; do printf '<%s> ' "$word"; done >> "$here/calls"
printf '\n' >> "$here/calls"
[ "$3" != "$(cat "$here/interrupting")" ] || { kill -INT $PPID; echo 'Error: context canceled' >&2; exit 1; }
[ "$3" != "$(cat "$here/failing")" ] || { echo 'Error: UPGRADE FAILED' >&2; exit 1; }
"#;

struct Scene {
    directory: TempDir,
    bundle: PathBuf,
}

impl Scene {
    /// The largest recipe, in a path with a space and a quote.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bundle = directory.path().join("it's a/bundle");
        write(&library::bundle("eks-gb200-training", "helm".parse().unwrap()), &bundle, false)
            .unwrap();
        let scene = Self { directory, bundle };
        scene.put("helm", HELM);
        fs::set_permissions(scene.path("helm"), fs::Permissions::from_mode(0o755)).unwrap();
        for (name, text) in [
            ("version", "v4.3.1"),
            ("pending", ""),
            ("failing", ""),
            ("interrupting", ""),
            ("calls", ""),
        ] {
            scene.put(name, text);
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, script: &str, arguments: &[&str]) -> Output {
        // What was started in the background has SIGINT ignored, and a shell cannot change that.
        let mut shell = Command::new("env");
        shell.args(["--default-signal=INT", "sh"]).arg(self.bundle.join(script)).args(arguments);
        shell.env("HELM", self.path("helm")).current_dir("/").output().unwrap()
    }

    /// Returns the recorded calls, with placeholders for this run's paths.
    fn calls(&self) -> String {
        self.filtered(&fs::read_to_string(self.path("calls")).unwrap())
    }

    fn filtered(&self, text: &str) -> String {
        let real = fs::canonicalize(&self.bundle).unwrap();
        let quoted = |path: &Path| path.to_str().unwrap().replace('\'', "'\\''");
        text.replace(real.to_str().unwrap(), "BUNDLE")
            .replace(&quoted(&real), "BUNDLE")
            .replace(self.bundle.to_str().unwrap(), "BUNDLE")
            .replace(self.directory.path().to_str().unwrap(), "DIRECTORY")
    }

    /// Exit code, standard output and standard error in one text.
    fn seen(&self, output: &Output) -> String {
        let text = |bytes: &[u8]| self.filtered(std::str::from_utf8(bytes).unwrap());
        format!(
            "exit code: {}\n--- stdout\n{}--- stderr\n{}",
            output.status.code().unwrap(),
            text(&output.stdout),
            text(&output.stderr)
        )
    }
}

macro_rules! snapshot {
    ($name:expr, $text:expr) => {{
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!($name, $text));
    }};
}

#[test]
fn script_deploys_in_order_with_both_helm_versions() {
    let scene = Scene::new();
    let output = scene.run("deploy.sh", &[]);
    snapshot!("script-helm-4", format!("{}--- calls\n{}", scene.seen(&output), scene.calls()));
    scene.put("calls", "");
    scene.put("version", "v3.18.0");
    assert!(scene.run("deploy.sh", &[]).status.success());
    snapshot!("script-helm-3", scene.calls());
    scene.put("calls", "");
    assert!(scene.run("deploy.sh", &["--force-conflicts"]).status.success());
    assert!(!scene.calls().contains("--force-conflicts"), "Helm 3 does not know it");
}

/// After Argo CD, Helm refused objects that it had not created, and no option of the script changed
/// that.
#[test]
fn script_takes_every_release_over_on_request() {
    let scene = Scene::new();
    assert!(scene.run("deploy.sh", &["--take-ownership"]).status.success());
    let calls = scene.calls();
    assert_eq!(calls.lines().count(), 9);
    for call in calls.lines() {
        assert_eq!(call.matches("--take-ownership").count(), 1, "{call}");
    }
}

/// Regression: hooks did not get `--force-conflicts`, and a failed hook did not name it. After Argo
/// CD or Flux, the next upgrade with Helm 4 stopped at a field of a hook.
#[test]
fn script_forces_conflicts_of_every_release_on_request() {
    let scene = Scene::new();
    assert!(scene.run("deploy.sh", &["--force-conflicts"]).status.success());
    let calls = scene.calls();
    assert_eq!(calls.lines().count(), 9);
    for call in calls.lines() {
        assert_eq!(call.matches("<--server-side=true> <--force-conflicts>").count(), 1, "{call}");
    }
    for release in ["gpu-operator", "gpu-operator-post"] {
        scene.put("failing", release);
        let errors = String::from_utf8(scene.run("deploy.sh", &[]).stderr).unwrap();
        assert!(errors.contains("let Helm win with --force-conflicts"), "{release}: {errors}");
    }
}

#[test]
fn script_refuses_broken_helm_versions() {
    let scene = Scene::new();
    let mut answers = Vec::new();
    for version in [
        "v3.17.4",
        "v3.18.0",
        "v3.22.0",
        "v3.18.0-rc.1",
        "v2.17.0",
        "v4.0.0",
        "v4.0.5",
        "v4.1.0",
        "v4.1.1",
        "v4.2.0",
        "v4.2.1",
        "v4.2.2",
        "v4.2.2+g1a2b",
        "v4.3",
        "v4.10.1",
        "v5.0.0",
        "4.3.1",
        "",
        "v",
        "vX.Y",
        "v4",
        "v4.3.1.2",
        "v4.2.x",
        "1;echo",
    ] {
        scene.put("version", version);
        let output = scene.run("deploy.sh", &["--dry-run"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        let answer = errors.lines().next().unwrap_or("taken").to_owned();
        assert_eq!(output.status.success(), answer == "taken", "{version}: {errors}");
        answers.push(format!("{version}: {answer}"));
    }
    snapshot!("script-helm-versions", scene.filtered(&answers.join("\n")));
    assert_eq!(scene.calls(), "", "nothing is run");
    let output = Command::new("sh")
        .arg(scene.bundle.join("deploy.sh"))
        .env("HELM", "/nowhere/helm")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .starts_with("error: cannot run `/nowhere/helm`\n")
    );
}

#[test]
fn dry_run_prints_equivalent_commands() {
    let scene = Scene::new();
    let output = scene.run("deploy.sh", &["--dry-run", "--force-conflicts"]);
    assert!(output.status.success() && scene.calls().is_empty());
    let printed = String::from_utf8(output.stdout).unwrap();
    let commands =
        printed.lines().filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n");
    assert!(Command::new("sh").arg("-c").arg(&commands).output().unwrap().status.success());
    let pasted = scene.calls();
    scene.put("calls", "");
    assert!(scene.run("deploy.sh", &["--force-conflicts"]).status.success());
    assert_eq!(scene.calls(), pasted);
    assert_eq!(pasted.lines().count(), 9);
}

#[test]
fn failed_hook_is_explained_and_resumed_next_run() {
    let scene = Scene::new();
    scene.put("failing", "gpu-operator-post");
    let output = scene.run("deploy.sh", &[]);
    snapshot!("script-hook-failed", scene.seen(&output));
    assert_eq!(scene.calls().lines().count(), 5, "nothing after the failure");
    scene.put("failing", "");
    scene.put("calls", "");
    let output = scene.run("deploy.sh", &["--from", "gpu-operator-post"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("[5/9] gpu-operator-post "));
    assert_eq!(scene.calls().lines().count(), 5);
}

#[test]
fn ctrl_c_ends_helm_first_and_explains_resuming() {
    let scene = Scene::new();
    scene.put("interrupting", "gpu-operator-post");
    let output = scene.run("deploy.sh", &[]);
    snapshot!("script-interrupted", scene.seen(&output));
    assert_eq!(scene.calls().lines().count(), 5, "nothing after Ctrl-C");
}

/// The upstream charts of an air-gap archive are in a folder, and nothing comes from elsewhere.
#[test]
fn script_takes_charts_from_a_folder() {
    let scene = Scene::new();
    let folder = scene.path("my charts");
    fs::create_dir(&folder).unwrap();
    let charts = ["--charts", folder.to_str().unwrap()];
    let output = scene.run("deploy.sh", &charts);
    assert_eq!(output.status.code(), Some(1));
    let missing = scene.filtered(std::str::from_utf8(&output.stderr).unwrap());
    let start = "error: there is no chart DIRECTORY/my charts/gpu-operator-";
    assert!(missing.starts_with(start), "{missing}");
    scene.put("calls", "");
    let script = fs::read_to_string(scene.bundle.join("deploy.sh")).unwrap();
    let lines = script.lines().filter(|line| line.starts_with("upstream ")).map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let name = words[6].rsplit('/').next().unwrap();
        format!("{name}-{}.tgz", words[4])
    });
    let files: Vec<String> = lines.collect();
    for file in &files {
        fs::write(folder.join(file), "").unwrap();
    }
    scene.put("failing", "gpu-operator-post");
    let failed = scene.run("deploy.sh", &charts);
    let hint = scene.filtered(std::str::from_utf8(&failed.stderr).unwrap());
    assert!(hint.contains("deploy.sh --charts DIRECTORY/my charts --from gpu-operator-post\n"));
    scene.put("failing", "");
    scene.put("calls", "");
    assert!(scene.run("deploy.sh", &charts).status.success());
    let calls = scene.calls();
    for file in &files {
        let word = format!("<DIRECTORY/my charts/{file}>");
        assert_eq!(calls.matches(&word).count(), 1, "{word}\n{calls}");
    }
    for flag in ["<--repo>", "://"] {
        assert!(!calls.contains(flag), "{calls}");
    }
    let versions = calls.matches("<--version>").count();
    assert_eq!((files.len(), versions), (3, 0), "the package determines the version: {calls}");
}

#[test]
fn pending_release_is_not_touched() {
    let scene = Scene::new();
    scene.put("pending", "gpu-operator\n");
    let output = scene.run("deploy.sh", &["--from=gpu-operator"]);
    snapshot!("script-pending", scene.seen(&output));
    assert_eq!(scene.calls(), "");
}

#[test]
fn wrong_usage_is_told_and_nothing_is_run() {
    let scene = Scene::new();
    for (script, arguments) in [
        ("deploy.sh", &["--frm"][..]),
        ("deploy.sh", &["--from"]),
        ("deploy.sh", &["--from", "gpu-operator-"]),
        ("deploy.sh", &["--charts"]),
        ("deploy.sh", &["--charts="]),
        ("deploy.sh", &["x"]),
        ("undeploy.sh", &[]),
        ("undeploy.sh", &["--yess"]),
    ] {
        let output = scene.run(script, arguments);
        assert_eq!(output.status.code(), Some(2), "{script} {arguments:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("usage: "));
    }
    assert_eq!(scene.calls(), "");
    let comma = scene.path("a,b");
    fs::rename(&scene.bundle, &comma).unwrap();
    let output = Command::new("sh")
        .arg(comma.join("deploy.sh"))
        .env("HELM", scene.path("helm"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("error: the path ") && errors.contains("has a comma"), "{errors}");
}

/// A link to the script, in a folder that has files of the same names.
#[test]
fn script_behind_links_uses_its_own_bundle() {
    let scene = Scene::new();
    let folder = scene.path("links");
    fs::create_dir(&folder).unwrap();
    symlink(scene.bundle.join("deploy.sh"), folder.join("absolute")).unwrap();
    symlink("../links/absolute", folder.join("relative")).unwrap();
    assert!(scene.run("deploy.sh", &[]).status.success());
    let direct = scene.calls();
    for link in ["absolute", "relative"] {
        scene.put("calls", "");
        let output = Command::new("sh")
            .arg(folder.join(link))
            .env("HELM", scene.path("helm"))
            .current_dir("/")
            .output()
            .unwrap();
        assert!(output.status.success(), "{link}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(scene.calls(), direct, "{link}");
    }
}

#[test]
fn undeploy_runs_backwards_and_keeps_shared_objects() {
    let scene = Scene::new();
    let output = scene.run("undeploy.sh", &["--dry-run"]);
    assert!(output.status.success() && scene.calls().is_empty());
    let output = scene.run("undeploy.sh", &["--yes"]);
    snapshot!("script-undeploy", format!("{}--- calls\n{}", scene.seen(&output), scene.calls()));
}

#[test]
fn the_scripts_are_clean_for_shellcheck() {
    let scene = Scene::new();
    // Not every machine has it; the lint step of the continuous integration does.
    let Ok(output) = Command::new("shellcheck")
        .arg("--shell=sh")
        .args(["deploy.sh", "undeploy.sh"])
        .current_dir(&scene.bundle)
        .output()
    else {
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
