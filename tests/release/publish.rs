//! What a release publishes, with programs that only record their calls: nothing is replaced, a
//! failure stops everything after it, and no password is an argument.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::{add_program, errors, path_with, succeed};
use contract::digest::sha256;

/// Appends the name and the arguments of a program to `calls`.
const RECORD: &str = "here=${0%/*}/..\necho \"${0##*/} $*\" >>\"$here/calls\"\n";
const REGISTRY: &str = "registry.example.com/team";
/// What the chart's archive contains.
const CHART: &str = "chart\n";
/// What the registry has of the image, if it is the same.
const INDEX: &str = "index\n";

/// Returns the digest of a content in a registry.
fn digest(content: &str) -> String {
    format!("sha256:{}", sha256(content.as_bytes()))
}

/// Returns the reference of the image.
fn image_reference() -> String {
    format!("{REGISTRY}/gpu-rollout@{}", digest(INDEX))
}

/// Returns what the registry has of the chart, if it is the same.
fn chart_manifest() -> String {
    format!("{{\"layers\": [{{\"digest\": \"{}\"}}]}}", digest(CHART))
}

/// A copy of the scripts in a repository, with the files of release 0.1.0 in `target/dist`. The
/// programs that contact servers are replaced.
struct Release(TempDir);

impl Release {
    fn new() -> Self {
        let release = Self(tempfile::tempdir().unwrap());
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
        succeed(Command::new("cp").arg("-R").arg(scripts).arg(release.0.path()));
        let image = format!("{}\n", image_reference());
        for (file, text) in [
            ("source/Cargo.toml", "version = \"0.1.0\"\n"),
            ("source/charts/gpu-rollout/Chart.yaml", "version: 0.1.0\nappVersion: 0.1.0\n"),
            ("source/CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-01-02\n"),
            ("files/image.txt", image.as_str()),
            ("files/gpu-rollout-0.1.0.tgz", CHART),
        ] {
            release.write(&format!("target/dist/{file}"), text);
        }
        for program in ["gh", "cosign"] {
            release.add(program, "");
        }
        release.add("git", "echo 1700000000");
        release.add("helm", "echo Digest: sha256:0a");
        release
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Adds a program that records its calls.
    fn add(&self, name: &str, body: &str) {
        add_program(&self.path("bin").join(name), &format!("{RECORD}{body}"));
    }

    /// Adds a `skopeo` that knows the manifests of an image and a chart. Without a manifest, the
    /// registry has none.
    fn add_skopeo(&self, image: Option<&str>, chart: Option<&str>) {
        let answer = |manifest: Option<&str>| match manifest {
            Some(text) => format!("printf '%s' '{text}'"),
            None => "echo 'manifest unknown' >&2; exit 1".to_owned(),
        };
        let (image, chart) = (answer(image), answer(chart));
        self.add(
            "skopeo",
            &format!("case $* in\ninspect*/charts/*) {chart} ;;\ninspect*) {image} ;;\nesac"),
        );
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Output {
        Command::new(self.path("scripts/release").join(name))
            .args(arguments)
            .env("PATH", path_with(&self.path("bin")))
            .env("COSIGN", self.path("bin/cosign"))
            .env("COSIGN_KEYLESS", "true")
            .env_remove("COSIGN_KEY")
            .env_remove("PLAIN_HTTP")
            .env("HELM", self.path("bin/helm"))
            .env("GH_TOKEN", "top-secret")
            .env("REPOSITORY", "https://git.example.com/team/gpu-rollout")
            .output()
            .unwrap()
    }

    /// Returns the calls of the programs, one per line.
    fn calls(&self) -> String {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls.replace(&self.0.path().display().to_string(), "PLACE")
    }

    /// Returns the first words of the calls.
    fn commands(&self) -> Vec<String> {
        let first = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        self.calls().lines().map(first).collect()
    }
}

#[test]
fn github_release_is_one_call_with_all_files() {
    let release = Release::new();
    release.write("target/dist/chart.txt", &format!("{REGISTRY}/charts/gpu-rollout@sha256:0a\n"));
    let output = release.run("github.sh", &["v0.1.0"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(
        release.calls(),
        "gh release create v0.1.0 --verify-tag --title 0.1.0 \
         --notes-file PLACE/target/dist/notes.md PLACE/target/dist/files/gpu-rollout-0.1.0.tgz \
         PLACE/target/dist/files/image.txt\n"
    );
    let notes = fs::read_to_string(release.path("target/dist/notes.md")).unwrap();
    for text in [
        "https://git.example.com/team/gpu-rollout/releases/download/v0.1.0/install.sh",
        "oci://registry.example.com/team/charts/gpu-rollout --version 0.1.0 ",
        &format!("`{}`", image_reference()),
        "`registry.example.com/team/charts/gpu-rollout@sha256:0a`",
    ] {
        assert!(notes.contains(text), "{text}: {notes}");
    }
}

#[test]
fn files_are_not_published_before_the_chart() {
    let release = Release::new();
    assert!(!release.run("github.sh", &["v0.1.0"]).status.success());
    assert_eq!(release.calls(), "");
}

#[test]
fn tag_needs_its_version_and_its_changes() {
    let release = Release::new();
    let source = release.path("target/dist/source");
    let check = |tag: &[&str]| {
        let mut arguments = vec![source.to_str().unwrap()];
        arguments.extend_from_slice(tag);
        let output = release.run("version.sh", &arguments);
        (output.status.code(), errors(&output))
    };
    assert_eq!(check(&["v0.1.0"]), (Some(0), String::new()));
    let (code, message) = check(&["v0.2.0"]);
    assert!(code == Some(1) && message.contains("the tag is v0.2.0"), "{message}");
    for changes in ["## Unreleased\n", "## 0.1.0\n", "## 0.1.01 - 2026-01-02\n"] {
        release.write("target/dist/source/CHANGELOG.md", changes);
        let (code, message) = check(&["v0.1.0"]);
        assert!(code == Some(1) && message.contains("no section for version 0.1.0"), "{message}");
        assert_eq!(check(&[]), (Some(0), String::new()));
    }
}

#[test]
fn version_with_another_content_is_never_replaced() {
    let chart = chart_manifest();
    for (image, chart) in [
        (Some("another index"), None),
        (Some("another index"), Some(chart.as_str())),
        (None, Some("{\"layers\": []}")),
        (Some(INDEX), Some("{\"layers\": []}")),
    ] {
        let release = Release::new();
        release.add_skopeo(image, chart);
        let output = release.run("push.sh", &[]);
        assert_eq!(output.status.code(), Some(1), "{image:?}, {chart:?}");
        assert!(errors(&output).contains(":0.1.0 exists with another content"), "{image:?}");
        let commands = release.commands();
        assert!(commands.iter().all(|command| command == "skopeo inspect"), "{commands:?}");
    }
}

/// An error that does not say that the version is absent may hide a version that exists.
#[test]
fn registry_that_does_not_answer_stops_the_push() {
    let release = Release::new();
    release.add("skopeo", "echo 'x509: certificate signed by unknown authority' >&2\nexit 1");
    let output = release.run("push.sh", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("x509"), "{}", errors(&output));
    assert_eq!(release.commands(), ["skopeo inspect"]);
}

#[test]
#[ignore = "needs GNU touch: make e2e"]
fn first_push_and_the_same_again_sign_what_they_pushed() {
    let chart = chart_manifest();
    for (image, chart) in [(None, None), (Some(INDEX), Some(chart.as_str())), (Some(INDEX), None)] {
        let release = Release::new();
        release.add_skopeo(image, chart);
        let output = release.run("push.sh", &[]);
        assert!(output.status.success(), "{image:?}, {chart:?}: {}", errors(&output));
        assert_eq!(
            release.commands(),
            [
                "skopeo inspect",
                "skopeo inspect",
                "skopeo copy",
                "cosign sign",
                "git log",
                "helm push",
                "cosign sign"
            ]
        );
        let published = fs::read_to_string(release.path("target/dist/chart.txt")).unwrap();
        assert_eq!(published, format!("{REGISTRY}/charts/gpu-rollout@sha256:0a\n"));
        let calls = release.calls();
        let signed: Vec<&str> =
            calls.lines().filter_map(|line| line.strip_prefix("cosign sign --yes ")).collect();
        let image = image_reference();
        assert_eq!(signed, [image.as_str(), published.trim_end()]);
    }
}

#[test]
fn failed_push_of_the_image_stops_the_rest() {
    let release = Release::new();
    release.add("skopeo", "case $1 in inspect) echo 'manifest unknown' >&2 ;; esac\nexit 1");
    assert_eq!(release.run("push.sh", &[]).status.code(), Some(1));
    assert_eq!(release.commands(), ["skopeo inspect", "skopeo inspect", "skopeo copy"]);
}

#[test]
fn private_packages_are_named() {
    let release = Release::new();
    release.write("target/dist/chart.txt", &format!("{REGISTRY}/charts/gpu-rollout@sha256:0a\n"));
    release.add("skopeo", "case $* in */charts/*) ;; *) exit 1 ;; esac");
    let output = release.run("public.sh", &[]);
    assert_eq!(output.status.code(), Some(1));
    let named = format!("cannot pull {REGISTRY}/gpu-rollout without a login\n");
    assert!(errors(&output).contains(&named), "{}", errors(&output));
    assert!(!errors(&output).contains("/charts/"), "{}", errors(&output));
    release.add("skopeo", "");
    assert!(release.run("public.sh", &[]).status.success());
    let calls = release.calls();
    assert_eq!(calls.lines().count(), 4, "{calls}");
    assert!(calls.lines().all(|line| line.starts_with("skopeo inspect --no-creds ")), "{calls}");
}

#[test]
fn password_of_a_registry_is_no_argument() {
    let release = Release::new();
    release.add("cosign", "cat >\"$here/password\"");
    let login = "printf top-secret | \"$0\" registry.example.com user";
    succeed(
        Command::new("sh")
            .args(["-c", login])
            .arg(release.path("scripts/release/login.sh"))
            .env("COSIGN", release.path("bin/cosign")),
    );
    assert_eq!(
        release.calls(),
        "cosign login registry.example.com --username user --password-stdin\n"
    );
    assert_eq!(fs::read_to_string(release.path("password")).unwrap(), "top-secret");
}

/// A user on GitHub may have capital letters in its name, but no image.
#[test]
fn name_of_the_image_has_no_capital_letters() {
    let release = Release::new();
    fs::create_dir_all(release.path("target/dist/images/amd64")).unwrap();
    for (name, body) in [
        ("needs.sh", ""),
        ("release/source.sh", ""),
        ("release/version.sh", "echo 0.1.0"),
        ("release/index.sh", "echo sha256:0a"),
        ("release/program.sh", ""),
        ("release/stamp.sh", "echo \"$2 $3\" >\"$here/../stamped\""),
    ] {
        add_program(&release.path("scripts").join(name), &format!("{RECORD}{body}"));
    }
    succeed(
        Command::new(release.path("scripts/release.sh"))
            .arg("program")
            .env("PATH", path_with(&release.path("bin")))
            .env("TARGET", "x86_64-unknown-linux-musl")
            .env("REGISTRY", "ghcr.io/Some-Owner"),
    );
    let stamped = fs::read_to_string(release.path("stamped")).unwrap();
    assert_eq!(stamped, "ghcr.io/some-owner/gpu-rollout sha256:0a\n");
}
