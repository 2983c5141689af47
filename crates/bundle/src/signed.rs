//! Verifies a signed bundle: first the signature of its checksums, then the bundle.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::checksums::SIGNATURE;
use super::directory::{BundleDirectory, MAX_LIST};
use super::error::BundleError;
use super::signature::{KeyError, PublicKey, SignatureError};
use super::verify::{BundleFinding, findings, read_checksums};

/// Why a bundle cannot be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The directory is not a bundle, or cannot be read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A file that the user named cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The key cannot be used.
    #[error("cannot check a signature with `{}`: {source}", path.display())]
    Key {
        /// The file with the key.
        path: PathBuf,
        /// The reason.
        source: KeyError,
    },
    /// The bundle has no signature.
    #[error("`{}` is not signed: it has no `{SIGNATURE}`", directory.display())]
    Unsigned {
        /// The bundle's directory.
        directory: PathBuf,
    },
    /// The signature in the bundle may not be read: it is a link, or too large.
    #[error(transparent)]
    Unreadable(BundleError),
    /// The signature is not valid.
    #[error("the signature `{}` is not valid: {source}", path.display())]
    Signature {
        /// The file with the signature.
        path: PathBuf,
        /// The reason.
        source: SignatureError,
    },
}

impl VerifyError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Bundle(error) => error.hint(),
            Self::Read { .. } => "name the file with the public key, or with the signature",
            Self::Key { source, .. } => source.hint(),
            Self::Unsigned { .. } => {
                "sign it with `cosign sign-blob --key cosign.key --bundle DIR/checksums.txt.sigstore.json DIR/checksums.txt`, or name a signature elsewhere with --signature"
            }
            Self::Unreadable(_) => "cosign writes no such file: do not deploy this bundle",
            Self::Signature { source, .. } => source.hint(),
        }
    }
}

/// Whether a bundle has a file with a signature, valid or not.
pub fn has_signature(directory: &Path) -> bool {
    fs::symlink_metadata(directory.join(SIGNATURE)).is_ok_and(|about| about.is_file())
}

/// Checks the signature of a bundle's checksums with the public key in the file `key`. Then checks
/// the bundle, as [`verify()`](super::verify()) does. Without `signature`, the signature is the
/// file in the bundle.
///
/// # Errors
/// The signature is missing or not valid, or the bundle or a named file cannot be read.
pub fn verify_signed(
    directory: &Path,
    key: &Path,
    signature: Option<&Path>,
) -> Result<Vec<BundleFinding>, VerifyError> {
    let public_key = PublicKey::parse(&read_named(key)?)
        .map_err(|source| VerifyError::Key { path: key.to_owned(), source })?;
    let bundle = BundleDirectory::open(directory)?;
    // Read once: what is compared with the files is what was signed.
    let checksums = read_checksums(&bundle, directory)?;
    let (path, content) = match signature {
        Some(path) => (path.to_owned(), read_named(path)?),
        None => (directory.join(SIGNATURE), own_signature(&bundle, directory)?),
    };
    public_key
        .check(&content, &checksums)
        .map_err(|source| VerifyError::Signature { path, source })?;
    Ok(findings(&bundle, directory, &checksums)?)
}

/// Reads the signature in a bundle.
fn own_signature(bundle: &BundleDirectory, directory: &Path) -> Result<Vec<u8>, VerifyError> {
    if bundle.kind(SIGNATURE).is_none() {
        return Err(VerifyError::Unsigned { directory: directory.to_owned() });
    }
    bundle.read(SIGNATURE).map_err(VerifyError::Unreadable)
}

/// Reads a file that the user named. It may be a link, as the files of a mounted Secret are, or a
/// pipe of the shell, and it may have no end.
fn read_named(path: &Path) -> Result<Vec<u8>, VerifyError> {
    let error = |source| VerifyError::Read { path: path.to_owned(), source };
    let mut content = Vec::new();
    let file = File::open(path).map_err(error)?;
    file.take(MAX_LIST + 1).read_to_end(&mut content).map_err(error)?;
    if content.len() as u64 > MAX_LIST {
        let reason = format!("more than {} MiB", MAX_LIST >> 20);
        return Err(error(io::Error::new(io::ErrorKind::FileTooLarge, reason)));
    }
    Ok(content)
}
