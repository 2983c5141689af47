//! The program as a user runs it: exit code, standard output, standard error.

use assert_cmd::Command;

fn program() -> Command {
    Command::cargo_bin("gpu-rollout").expect("cargo builds it for these tests")
}

/// Runs the program in a folder of its own. Returns its exit code and its output.
fn run(arguments: &[&str], input: &str, files: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().expect("a test has a folder for temporary files");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("its own folder is writable");
    }
    let output = program()
        .args(arguments)
        .current_dir(&folder)
        .write_stdin(input)
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes UTF-8");
    let code = output.status.code().expect("no signal ends it");
    format!("exit {code}\n--- output\n{}--- errors\n{}", text(output.stdout), text(output.stderr))
}

macro_rules! snapshot {
    ($name:expr, $text:expr) => {
        insta::with_settings!({snapshot_path => "cli/snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!($name, $text);
        });
    };
}

const MINE: &str = "apiVersion: gpu-rollout.dev/v1
kind: Recipe
metadata: {name: mine}
extends: [base]
cluster: {gpuNodes: 16}
components:
  - name: gpu-operator
    values: {dcgm: {enabled: true}}
";

#[test]
fn check() {
    snapshot!(
        "check-good",
        run(&["recipe", "check", "mine.yaml", "kind-dev"], "", &[("mine.yaml", MINE)])
    );
    snapshot!("check-input", run(&["recipe", "check", "-"], MINE, &[]));
    let bad = MINE.replace("dcgm", "dgcm");
    snapshot!(
        "check-bad",
        run(
            &["recipe", "check", "mine.yaml", "bad.yaml"],
            "",
            &[("mine.yaml", MINE), ("bad.yaml", &bad)]
        )
    );
    let newer = MINE.replace("    values", "    version: v26.9.9\n    values");
    snapshot!(
        "check-warning",
        run(&["recipe", "check", "newer.yaml"], "", &[("newer.yaml", &newer)])
    );
    snapshot!(
        "check-strict",
        run(&["recipe", "check", "--strict", "newer.yaml"], "", &[("newer.yaml", &newer)])
    );
}

/// A recipe of one team must not show files of another.
#[test]
fn extended_recipes_outside_need_permission() {
    let folder = tempfile::tempdir().expect("a test has a folder for temporary files");
    let write = |path: &str, text: &str| {
        std::fs::write(folder.path().join(path), text).expect("its own folder is writable");
    };
    std::fs::create_dir(folder.path().join("team")).expect("its own folder is writable");
    write("team/mine.yaml", &MINE.replace("[base]", "[../other.yaml]"));
    write("other.yaml", &MINE.replace("mine", "theirs"));
    let check = |more: &[&str]| {
        let output = program()
            .args([&["recipe", "check", "team/mine.yaml"], more].concat())
            .current_dir(&folder)
            .output()
            .expect("the program starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = check(&[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("outside the directory") && !said.contains("theirs"), "{said}");
    let (code, said) = check(&["--allow-extends", "."]);
    assert_eq!(code, Some(0), "{said}");
}

/// Names of files and arguments that would erase the screen.
#[test]
fn control_characters_of_arguments_are_visible() {
    let hostile = "a\u{1b}[2J\u{9b}31m.yaml";
    // The parser of the command line removes the sequences that it knows.
    for (arguments, shown) in [
        (&["recipe", "check", hostile][..], r"a\u{1b}[2J\u{9b}31m.yaml"),
        (&["status", hostile], r"a\u{9b}31m.yaml"),
    ] {
        let said = run(arguments, "", &[]);
        assert!(said.contains(shown), "{said}");
        assert!(!said.contains(['\u{1b}', '\u{9b}']), "{said:?}");
    }
}

/// A recipe of NVIDIA AICR, its values file, and the options that it needs.
#[test]
fn aicr() {
    let result = "kind: RecipeResult
apiVersion: aicr.nvidia.com/v1alpha1
criteria: {service: eks, accelerator: h100, intent: any}
componentRefs:
  - name: gpu-operator
    type: Helm
    version: 26.3.1
    valuesFile: values.yaml
    manifestFiles: [exporter.yaml]
";
    let files = [
        ("Result_1.yaml", result),
        ("values.yaml", "driver: {maxParallelUpgrades: 5, version: 580.126.20}\n"),
        ("exporter.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: exporter}\n"),
    ];
    snapshot!("aicr-bare", run(&["recipe", "check", "Result_1.yaml"], "", &files));
    let all = ["--data", ".", "--fix-dead-keys", "--set", "cluster.gpuNodes=8"];
    snapshot!(
        "aicr-show",
        run(&[&["recipe", "show", "Result_1.yaml"], &all[..]].concat(), "", &files)
    );
    let without = ["recipe", "check", "Result_1.yaml", "--without-manifests"];
    snapshot!("aicr-without-manifests", run(&[&without, &all[..]].concat(), "", &files));
    snapshot!(
        "aicr-render",
        run(
            &[&["bundle", "render", "-r", "Result_1.yaml", "-d", "helm", "-o", "out"], &all[..]]
                .concat(),
            "",
            &files
        )
    );
}

#[test]
fn what_cannot_be_read() {
    snapshot!("missing-file", run(&["recipe", "check", "kind-dev.yaml"], "", &[]));
    snapshot!("missing-name", run(&["recipe", "show", "kind"], "", &[]));
    snapshot!("missing-name-with-ending", run(&["recipe", "check", "base.txt"], "", &[]));
    snapshot!("directory", run(&["recipe", "show", "./"], "", &[]));
    snapshot!("directory-without-slash", run(&["recipe", "check", "."], "", &[]));
}

/// The program reads no byte beyond the limit, so a sparse file of 64 MB is cheap.
#[test]
fn a_file_of_64_megabytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.yaml");
    std::fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let output =
        program().args(["recipe", "check", "large.yaml"]).current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @r"
    error: cannot read `large.yaml`: larger than 1 MiB
    hint: check that this is the right file; recipes are much smaller

    error: the recipe `large.yaml` cannot be used: 1 error
    ");
}

#[test]
fn show() {
    let files = [("mine.yaml", MINE)];
    snapshot!(
        "show-yaml",
        run(
            &["recipe", "show", "mine.yaml", "--set", "rollout.gpuDriver.version=580.10"],
            "",
            &files
        )
    );
    snapshot!("show-json", run(&["recipe", "show", "mine.yaml", "-o", "json"], "", &files));
}

#[test]
fn explain() {
    let files = [("mine.yaml", MINE)];
    snapshot!(
        "explain-value",
        run(
            &["recipe", "explain", "mine.yaml", "cluster.gpuNodes", "--set", "cluster.gpuNodes=64"],
            "",
            &files
        )
    );
    snapshot!(
        "explain-map",
        run(&["recipe", "explain", "mine.yaml", "components.gpu-operator"], "", &files)
    );
    snapshot!(
        "explain-default",
        run(&["recipe", "explain", "mine.yaml", "rollout.gpuDriver.perNode"], "", &files)
    );
    snapshot!(
        "explain-chart",
        run(
            &["recipe", "explain", "mine.yaml", "components.gpu-operator.values.mig.strategy"],
            "",
            &files
        )
    );
    snapshot!(
        "explain-catalog",
        run(&["recipe", "explain", "mine.yaml", "components.gpu-operator.namespace"], "", &files)
    );
    snapshot!(
        "explain-unknown",
        run(&["recipe", "explain", "mine.yaml", "rollout.gpuDriver.perNod"], "", &files)
    );
    let deleted = MINE.replace("components:", "rollout: {gpuDriver: {policy: null}}\ncomponents:");
    snapshot!(
        "explain-deleted",
        run(
            &["recipe", "explain", "mine.yaml", "rollout.gpuDriver.policy"],
            "",
            &[("mine.yaml", &deleted)]
        )
    );
}

#[test]
fn list() {
    snapshot!("list", run(&["recipe", "list"], "", &[]));
    snapshot!("list-json", run(&["recipe", "list", "-o", "json"], "", &[]));
}

#[test]
fn list_by_criteria() {
    let list = |criteria: &[&str]| run(&[&["recipe", "list"], criteria].concat(), "", &[]);
    let leaf = ["--service=eks", "--accelerator=gb200", "--intent=training", "--os=ubuntu"];
    snapshot!("list-criteria", list(&leaf));
    snapshot!("list-criteria-nearest", list(&["--service=gke", "--accelerator=gb200"]));
    snapshot!("list-criteria-unknown", list(&["--service=eks", "--accelerator=gb20"]));
}

/// Runs `recipe` in `folder`. Returns the exit code.
fn recipe_in(folder: &tempfile::TempDir, arguments: &[&str]) -> Option<i32> {
    let arguments = [&["recipe"], arguments].concat();
    let output = program().args(arguments).current_dir(folder).output();
    output.expect("the program starts").status.code()
}

/// Also after the comments with the inherited settings were removed.
#[test]
fn new_recipe_of_every_library_recipe_is_valid() {
    let folder = tempfile::tempdir().expect("a test has a folder for temporary files");
    let path = |name: &str| folder.path().join(name);
    let new = |arguments: &[&str]| {
        recipe_in(&folder, &[&["new", "mine.yaml", "--gpu-nodes=9"], arguments].concat())
    };
    for name in catalog::recipe_names() {
        assert_eq!(new(&["--extends", name]), Some(0), "{name}");
        let text = std::fs::read_to_string(path("mine.yaml")).expect("the new recipe");
        let (own, inherited) = text.split_once("gpuNodes: 9\n").expect("its own number of nodes");
        let settings = inherited.lines().filter_map(|line| line.strip_prefix('#'));
        let settings: Vec<&str> =
            settings.filter(|line| !line.starts_with(' ') || line.starts_with("  ")).collect();
        let all = format!("{own}gpuNodes: 9\n{}\n", settings.join("\n"));
        std::fs::write(path("all.yaml"), all).expect("its own folder is writable");
        assert_eq!(recipe_in(&folder, &["check", "mine.yaml", "all.yaml"]), Some(0), "{name}");
        std::fs::remove_file(path("mine.yaml")).expect("its own folder is writable");
    }
}

#[test]
fn new_recipe_never_overwrites_a_file() {
    let created = [
        "recipe",
        "new",
        "mine.yaml",
        "--gpu-nodes=9",
        "--service=eks",
        "--accelerator=gb200",
        "--intent=training",
    ];
    let folder = tempfile::tempdir().expect("a test has a folder for temporary files");
    let file = folder.path().join("mine.yaml");
    std::fs::write(&file, MINE).expect("its own folder is writable");
    let again = ["new", "mine.yaml", "--gpu-nodes=9", "--extends=base"];
    assert_eq!(recipe_in(&folder, &again), Some(1));
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), MINE);
    snapshot!("new-exists", run(&created, "", &[("mine.yaml", MINE)]));
    snapshot!(
        "new-several",
        run(&["recipe", "new", "mine.yaml", "--gpu-nodes=9", "--service=eks"], "", &[])
    );
    snapshot!("new-name", run(&["recipe", "new", "Mine_1.yaml", "--gpu-nodes=9"], "", &[]));
    let folder = tempfile::tempdir().expect("a test has a folder for temporary files");
    assert_eq!(recipe_in(&folder, &created[1..]), Some(0));
    let text = std::fs::read_to_string(folder.path().join("mine.yaml")).expect("the new recipe");
    snapshot!("new", text);
}

#[test]
fn schema() {
    let said = run(&["recipe", "schema"], "", &[]);
    assert!(said.starts_with("exit 0\n--- output\n{\n  \"$schema\":"), "{said}");
}

/// A simulation depends only on its seed, on every machine.
#[test]
fn simulate() {
    let files = [("mine.yaml", MINE)];
    let told = |options: &[&str]| {
        let drive = [
            "simulate",
            "-r",
            "mine.yaml",
            "--nodes",
            "6",
            "--runs",
            "3",
            "--set",
            "rollout.gpuDriver.mode=drive",
        ];
        run(&[&drive, options].concat(), "", &files)
    };
    snapshot!("simulate", told(&[]));
    let faster = [
        "--set",
        "rollout.gpuDriver.policy.maxParallelUpgrades=3",
        "--set",
        "rollout.gpuDriver.policy.maxUnavailable=50%",
    ];
    snapshot!("simulate-what-if", told(&faster));
    snapshot!("simulate-fail", told(&["--fail", "30", "--seed", "7"]));
    snapshot!(
        "simulate-json",
        run(
            &[
                "simulate",
                "-r",
                "mine.yaml",
                "--nodes",
                "2",
                "--runs",
                "1",
                "-o",
                "json",
                "--set",
                "rollout.gpuDriver.mode=drive"
            ],
            "",
            &files
        )
    );
    for mode in ["observe", "assist", "steer"] {
        let set = format!("rollout.gpuDriver.mode={mode}");
        let operated =
            ["simulate", "-r", "mine.yaml", "--nodes", "4", "--runs", "2", "--set", &set];
        snapshot!(format!("simulate-{mode}"), run(&operated, "", &files));
    }
    let off = ["simulate", "-r", "mine.yaml", "--set", "rollout.gpuDriver.mode=observe"];
    let off_values =
        ["--set", "components.gpu-operator.values.driver.upgradePolicy.autoUpgrade=false"];
    snapshot!("simulate-nobody", run(&[&off[..], &off_values[..]].concat(), "", &files));
    let many = ["simulate", "-r", "mine.yaml", "--nodes", "10001"];
    snapshot!("simulate-too-many", run(&many, "", &files));
    snapshot!("simulate-help", run(&["simulate", "--help"], "", &[]));
}

#[test]
fn wrong_usage() {
    snapshot!("usage-set", run(&["recipe", "show", "base", "--set", "cluster.gpuNodes"], "", &[]));
    snapshot!("usage-path", run(&["recipe", "explain", "base", "a..b"], "", &[]));
    snapshot!("usage-no-recipe", run(&["recipe", "check"], "", &[]));
}

#[test]
fn help() {
    for command in ["check", "show", "explain", "new", "list", "schema"] {
        let said = run(&["recipe", command, "--help"], "", &[]);
        insta::with_settings!({snapshot_path => "cli/snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(format!("help-{command}"), said);
        });
    }
}

#[test]
fn completions_and_manual_pages_are_of_all_commands() {
    for (shell, word) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef gpu-rollout"),
        ("fish", "complete -c gpu-rollout"),
    ] {
        let script = run(&["completions", shell], "", &[]);
        assert!(
            script.starts_with("exit 0")
                && script.contains(word)
                && script.contains("device-plugin"),
            "{script}"
        );
    }
    let folder = tempfile::tempdir().expect("a test has a folder for temporary files");
    let pages = folder.path().join("share/man1");
    program().arg("man").arg(&pages).assert().success();
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).expect("a page");
    assert!(
        page("gpu-rollout.1").contains("gpu\\-rollout\\-bundle(1)"),
        "{}",
        page("gpu-rollout.1")
    );
    assert!(
        page("gpu-rollout-bundle-render.1").contains("\\-\\-hook\\-image"),
        "the manual page lacks an option"
    );
    let bad = run(&["man", "file/man1"], "", &[("file", "")]);
    assert!(
        bad.starts_with("exit 1\n") && bad.contains("cannot write manual pages into file/man1"),
        "{bad}"
    );
}

/// A failed write is an error, because a truncated list looks complete to its reader.
#[test]
#[cfg(target_os = "linux")]
fn full_disk_is_reported_but_not_closed_pipe() {
    use std::process::{Command, Stdio};
    let run = |output: Stdio| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("gpu-rollout"));
        let child = command
            .args(["recipe", "schema"])
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        child.wait_with_output().expect("it ends")
    };
    // Every write to /dev/full fails with ENOSPC.
    let full = run(std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("it is there on Linux")
        .into());
    let said = String::from_utf8(full.stderr).expect("it writes UTF-8");
    assert!(
        said.contains("cannot write to standard output: ") && said.contains("hint: "),
        "{said}"
    );
    assert_eq!(full.status.code(), Some(1), "{said}");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let gone = run(writer.into());
    assert_eq!(
        (gone.status.code(), String::from_utf8(gone.stderr).expect("it writes UTF-8")),
        (Some(0), String::new())
    );
}

mod cli {
    mod device_plugin;
    mod new_recipe;
    mod proxy;
}
