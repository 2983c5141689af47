//! `scripts/install.sh` installs only an archive that has its checksum.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::{add_program, errors, script, succeed};

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
