//! cosign with a key pair: signs and verifies without a transparency log, so it contacts nothing
//! but the registry.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tokio::process::Command;

use super::rendered::said;
use super::tools::program;

/// The flags to sign with a key and record it nowhere. With the default signing configuration,
/// cosign refuses the second one.
const UNRECORDED: [&str; 2] = ["--use-signing-config=false", "--tlog-upload=false"];

/// A signer.
pub(crate) struct Cosign {
    program: PathBuf,
    directory: PathBuf,
    name: String,
}

impl Cosign {
    /// Creates the key pair `<name>.key` and `<name>.pub` in a directory. The key has no password.
    pub(crate) async fn generate(directory: &Path, name: &str) -> Result<Self> {
        let signer = Self {
            program: program("cosign")?,
            directory: directory.to_owned(),
            name: name.to_owned(),
        };
        let mut command = signer.command("generate-key-pair");
        said(command.args(["--output-key-prefix", name])).await?;
        Ok(signer)
    }

    /// Returns the file with the private key.
    pub(crate) fn private_key(&self) -> PathBuf {
        self.directory.join(format!("{}.key", self.name))
    }

    /// Returns the file with the public key.
    pub(crate) fn public_key(&self) -> PathBuf {
        self.directory.join(format!("{}.pub", self.name))
    }

    /// Signs an image, chart or bundle in a registry by its digest.
    pub(crate) async fn sign(&self, reference: &str) -> Result<()> {
        let mut command = self.command("sign");
        command.arg("--yes").arg("--key").arg(self.private_key()).args(UNRECORDED);
        said(command.args(["--allow-http-registry", reference])).await?;
        Ok(())
    }

    /// Verifies that this signer has signed what a registry has under a reference.
    pub(crate) async fn verify(&self, reference: &str) -> Result<()> {
        let mut command = self.command("verify");
        command.arg("--key").arg(self.public_key()).arg("--insecure-ignore-tlog=true");
        said(command.args(["--allow-http-registry", reference])).await?;
        Ok(())
    }

    /// Signs a file. The signature is next to it, see [`signature`].
    pub(crate) async fn sign_blob(&self, file: &Path) -> Result<()> {
        let mut command = self.command("sign-blob");
        command.arg("--yes").arg("--key").arg(self.private_key()).args(UNRECORDED);
        said(command.arg("--bundle").arg(signature(file)).arg(file)).await?;
        Ok(())
    }

    /// Verifies that this signer has signed a file.
    pub(crate) async fn verify_blob(&self, file: &Path) -> Result<()> {
        let mut command = self.command("verify-blob");
        command.arg("--key").arg(self.public_key()).arg("--insecure-ignore-tlog=true");
        said(command.arg("--bundle").arg(signature(file)).arg(file)).await?;
        Ok(())
    }

    /// Returns a command without the logins of the user who runs the tests.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(name)
            .current_dir(&self.directory)
            .env("COSIGN_PASSWORD", "")
            .env("DOCKER_CONFIG", self.directory.join("no-logins"));
        command
    }
}

/// Returns the file with the signature of a file.
pub(crate) fn signature(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".sigstore.json");
    PathBuf::from(name)
}
