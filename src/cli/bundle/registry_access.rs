//! What `bundle push` and `bundle pull` share: the connection to a registry, and their failures.

use std::path::PathBuf;

use clap::Args;

use crate::cli::runtime;
use crate::printer::Printer;
use contract::exit::ExitCode;
use registry::reference::{AddressError, ArtifactRepository};
use registry::{RegistryClient, RegistryError};

/// Options about the registry.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Registry")]
pub(super) struct RegistryOptions {
    /// Use HTTP without TLS, for a registry on this machine or in a test network
    #[arg(long)]
    plain_http: bool,
}

impl RegistryOptions {
    /// Returns a client of the registry with the credentials of the user.
    pub(super) fn client(
        self,
        repository: &ArtifactRepository,
    ) -> Result<RegistryClient, RegistryError> {
        RegistryClient::new(repository.host(), &login_files(), self.plain_http)
    }
}

/// Why a bundle was not pushed or pulled.
#[derive(Debug)]
pub(super) struct TransferFailure {
    message: String,
    hint: Option<String>,
    code: ExitCode,
}

impl TransferFailure {
    /// Creates a failure because of a bundle, a directory or an artifact.
    pub(super) fn input(message: String, hint: Option<&str>) -> Self {
        Self { message, hint: hint.map(str::to_owned), code: ExitCode::Input }
    }

    /// Creates a failure because of the command line.
    pub(super) fn usage(message: &str, hint: &str) -> Self {
        Self { code: ExitCode::Usage, ..Self::input(message.to_owned(), Some(hint)) }
    }
}

impl From<RegistryError> for TransferFailure {
    fn from(error: RegistryError) -> Self {
        Self { message: error.to_string(), hint: error.hint(), code: error.exit_code() }
    }
}

impl From<AddressError> for TransferFailure {
    fn from(error: AddressError) -> Self {
        Self::input(error.to_string(), None)
    }
}

/// Runs a push or a pull, and prints its failure.
pub(super) fn run(
    printer: &mut Printer,
    transfer: impl AsyncFnOnce(&mut Printer) -> Result<ExitCode, TransferFailure>,
) -> ExitCode {
    runtime::run(printer, async |printer| {
        transfer(printer).await.unwrap_or_else(|failure| {
            let TransferFailure { message, hint, code } = failure;
            printer.error(&message, hint.as_deref());
            code
        })
    })
}

/// Returns the files in which `docker login`, `podman login` and similar programs store
/// credentials, most important first.
fn login_files() -> Vec<PathBuf> {
    let variable =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let docker =
        variable("DOCKER_CONFIG").or_else(|| variable("HOME").map(|home| home.join(".docker")));
    let files = [
        variable("REGISTRY_AUTH_FILE"),
        docker.map(|folder| folder.join("config.json")),
        variable("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")),
    ];
    files.into_iter().flatten().collect()
}
