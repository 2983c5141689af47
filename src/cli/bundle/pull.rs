//! `gpu-rollout bundle pull`.

use std::path::{Path, PathBuf};

use super::registry_access::{RegistryOptions, TransferFailure, run};
use crate::printer::Printer;
use archive::ArchiveLimits;
use bundle::package::{UnpackedBundle, unpack};
use bundle::{MAX_BYTES, MAX_ENTRIES, WriteError, write};
use contract::exit::ExitCode;
use registry::PulledArtifact;
use registry::reference::{ArtifactReference, RegistryAddress};

/// Arguments of `gpu-rollout bundle pull`.
#[derive(Debug, clap::Args)]
pub struct PullArguments {
    /// Bundle in the registry
    #[arg(value_name = "oci://HOST/REPOSITORY:TAG|@DIGEST")]
    address: RegistryAddress,
    /// Directory of the bundle. An existing bundle is replaced as a whole, and an edited one only
    /// with --force
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Replace a bundle even if it was edited; the edits are lost
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    registry: RegistryOptions,
}

impl PullArguments {
    /// Runs the command. Prints the bundle with its digest to standard output.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        run(printer, async |printer| self.pull(printer).await)
    }

    async fn pull(self, printer: &mut Printer) -> Result<ExitCode, TransferFailure> {
        let Self { address: RegistryAddress { repository, version }, directory, force, registry } =
            self;
        let version = version.ok_or_else(|| {
            TransferFailure::usage(
                "the address has no tag and no digest",
                "add one: oci://HOST/REPOSITORY:TAG or oci://HOST/REPOSITORY@sha256:DIGITS",
            )
        })?;
        let client = registry.client(&repository)?;
        let reference = ArtifactReference { repository, version };
        let limits = ArchiveLimits { bytes: MAX_BYTES, files: MAX_ENTRIES };
        let PulledArtifact { digest, files } = client.pull(&reference, limits).await?;
        let place = format!("oci://{reference}");
        let UnpackedBundle { tree, identity } =
            unpack(Path::new(&place), files).map_err(|error| {
                let hint = "name an artifact that `gpu-rollout bundle push` pushed";
                TransferFailure::input(error.to_string(), Some(hint))
            })?;
        let written = write(&tree, &directory, force).map_err(|error| not_written(&error))?;
        printer.note(&format!(
            "pulled the bundle of recipe `{}` for {} into `{}`",
            identity.recipe,
            identity.deployer,
            directory.display()
        ));
        for note in written.notes(&directory, &identity) {
            printer.note(&format!("note: {note}"));
        }
        printer.data(&format!("{}@{digest}\n", reference.repository));
        Ok(ExitCode::Success)
    }
}

fn not_written(error: &WriteError) -> TransferFailure {
    let hint = if let WriteError::Edited { .. } | WriteError::Unverifiable(_) = error {
        Some("pull into another directory, or replace the bundle with --force")
    } else {
        error.hint()
    };
    TransferFailure::input(error.to_string(), hint)
}
