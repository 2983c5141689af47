//! `scripts/install.sh` installs only an archive that has its checksum.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::{add_program, errors, path_with, script, succeed};

const NAME: &str = "gpu-rollout-0.1.0-linux-x86_64";

/// A directory with an archive and its checksums, as users download them.
struct Download(TempDir);

impl Download {
    fn new() -> Self {
        let download = Self(tempfile::tempdir().unwrap());
        let tree = download.path(NAME);
        add_program(&tree.join("gpu-rollout"), "echo gpu-rollout 0.1.0");
        for file in [
            "completions/gpu-rollout.bash",
            "completions/_gpu-rollout",
            "completions/gpu-rollout.fish",
            "man/man1/gpu-rollout.1",
        ] {
            let file = tree.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "text\n").unwrap();
        }
        let shell = format!("tar -czf {NAME}.tar.gz {NAME} && sha256sum *.tar.gz >checksums.txt");
        succeed(Command::new("sh").args(["-c", &shell]).current_dir(download.0.path()));
        download
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn archive(&self) -> PathBuf {
        self.path(&format!("{NAME}.tar.gz"))
    }

    fn install(&self, bin: &Path) -> Output {
        script("scripts/install.sh")
            .arg("-a")
            .arg(self.archive())
            .arg("-b")
            .arg(bin)
            .output()
            .unwrap()
    }
}

#[test]
fn archive_is_installed_with_plugin_and_pages() {
    let download = Download::new();
    let bin = download.path("usr/bin");
    let output = download.install(&bin);
    assert!(output.status.success(), "{}", errors(&output));
    for name in ["gpu-rollout", "kubectl-gpu_rollout"] {
        assert_eq!(succeed(&mut Command::new(bin.join(name))), "gpu-rollout 0.1.0\n");
    }
    for file in [
        "man/man1/gpu-rollout.1",
        "bash-completion/completions/gpu-rollout",
        "zsh/site-functions/_gpu-rollout",
        "fish/vendor_completions.d/gpu-rollout.fish",
    ] {
        assert!(download.path("usr/share").join(file).exists(), "{file}");
    }
}

#[test]
fn archive_with_a_changed_byte_is_refused() {
    let download = Download::new();
    let mut bytes = fs::read(download.archive()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(download.archive(), bytes).unwrap();
    let bin = download.path("usr/bin");
    let output = download.install(&bin);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("checksums.txt says"), "{}", errors(&output));
    assert!(!bin.exists());
}

#[test]
fn archive_without_its_line_in_the_checksums_is_refused() {
    let download = Download::new();
    fs::write(download.path("checksums.txt"), "0a  other.tar.gz\n").unwrap();
    let output = download.install(&download.path("usr/bin"));
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("has no line for"), "{}", errors(&output));
}

#[test]
fn release_installs_its_own_version() {
    let text = succeed(script("scripts/release/install-script.sh").args([
        concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/install.sh"),
        "1.2.3",
        "https://git.example.com/tools/gpu-rollout",
    ]));
    for line in [
        "release_version=1.2.3",
        "release_url=https://git.example.com/tools/gpu-rollout/releases/download/v1.2.3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
}

/// Writes the install script of a release that names no repository, or this one.
fn released(place: &Path, repository: &str) -> PathBuf {
    let text = succeed(script("scripts/release/install-script.sh").args([
        concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/install.sh"),
        "1.2.3",
        repository,
    ]));
    let file = place.join("install.sh");
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn release_without_a_repository_asks_for_its_address() {
    let place = tempfile::tempdir().unwrap();
    let file = released(place.path(), "");
    let output = Command::new("sh").arg(file).env("HOME", place.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("hint: pass -u URL"), "{}", errors(&output));
}

/// `--proto` also limits the addresses of redirects.
#[test]
fn download_over_https_follows_no_redirect_to_http() {
    let place = tempfile::tempdir().unwrap();
    let file = released(place.path(), "https://git.example.com/tools/gpu-rollout");
    add_program(&place.path().join("bin/curl"), "echo \"$*\" >\"${0%/*}/../called\"\nexit 22");
    let output = Command::new("sh")
        .arg(file)
        .env("HOME", place.path())
        .env("PATH", path_with(&place.path().join("bin")))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let called = fs::read_to_string(place.path().join("called")).unwrap();
    let url = "https://git.example.com/tools/gpu-rollout/releases/download/v1.2.3/checksums.txt";
    assert!(
        called.starts_with("--proto =https ") && called.ends_with(&format!("{url}\n")),
        "{called}"
    );
}

#[test]
fn download_without_curl_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let file = released(place.path(), "https://git.example.com/tools/gpu-rollout");
    let bin = place.path().join("bin");
    for (name, body) in [
        ("id", "echo 1000"),
        ("mktemp", "echo \"${0%/*}/../work\""),
        ("rm", "true"),
        ("uname", "case $1 in -s) echo Linux ;; *) echo x86_64 ;; esac"),
        ("wget", "echo wget >\"${0%/*}/../called\""),
    ] {
        add_program(&bin.join(name), body);
    }
    let output = Command::new("/bin/sh")
        .arg(file)
        .env("HOME", place.path())
        .env("PATH", &bin)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("hint: install curl"), "{}", errors(&output));
    assert!(!place.path().join("called").exists());
}

/// cargo-binstall replaces the names in braces by what the package and the machine have.
#[test]
fn url_for_cargo_binstall_is_that_of_the_archive() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/how-to/install.md")).unwrap();
    let (_, url) = page.split_once("--pkg-url '").unwrap();
    let (url, _) = url.split_once('\'').unwrap();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let (_, directory) = manifest.split_once("\nbin-dir = \"").unwrap();
    let (directory, _) = directory.split_once('"').unwrap();
    let filled = |template: &str| {
        [
            ("{ name }", "gpu-rollout"),
            ("{ version }", "0.1.0"),
            ("{ target-family }", "linux"),
            ("{ target-arch }", "x86_64"),
            ("{ bin }", "gpu-rollout"),
            ("{ binary-ext }", ""),
        ]
        .into_iter()
        .fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
    };
    let expected = format!("/releases/download/v0.1.0/{NAME}.tar.gz");
    assert!(filled(url).ends_with(&expected), "{}", filled(url));
    assert_eq!(filled(directory), format!("{NAME}/gpu-rollout"));
}
