//! Tests of signed bundles: the signature comes first, and nothing else changes.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pem::Pem;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{bundle, paths, tree};
use crate::checksums::{CHECKSUMS, SIGNATURE};
use crate::signature::SignatureError;
use crate::{VerifyError, diff, has_signature, verify, verify_signed, write};
use contract::digest::sha256;

/// A key pair that signs as cosign does.
pub(super) struct Signer {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signer {
    pub(super) fn new() -> Self {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).unwrap();
        Self { pair, random }
    }

    /// Writes the public key into `directory`.
    pub(super) fn public_key(&self, directory: &Path) -> PathBuf {
        // A P-256 key in a `SubjectPublicKeyInfo`, up to the point
        let start = STANDARD.decode("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgA=").unwrap();
        let der = [&start[..], self.pair.public_key().as_ref()].concat();
        let path = directory.join("cosign.pub");
        fs::write(&path, pem::encode(&Pem::new("PUBLIC KEY", der))).unwrap();
        path
    }

    /// Returns the signature of a text as cosign writes it.
    fn sign(&self, text: &[u8]) -> String {
        let signature = self.pair.sign(&self.random, text).unwrap();
        let document = json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": "team"}},
            "messageSignature": {
                "messageDigest": {
                    "algorithm": "SHA2_256",
                    "digest": STANDARD.encode(Sha256::digest(text)),
                },
                "signature": STANDARD.encode(signature),
            },
        });
        document.to_string()
    }

    /// Signs a bundle: `cosign sign-blob --bundle`.
    fn sign_bundle(&self, output: &Path) {
        let checksums = fs::read(output.join(CHECKSUMS)).unwrap();
        fs::write(output.join(SIGNATURE), self.sign(&checksums)).unwrap();
    }
}

#[test]
fn signed_bundle_verifies_with_its_key_only() {
    let (directory, output) = bundle();
    let signer = Signer::new();
    let key = signer.public_key(directory.path());
    let error = verify_signed(&output, &key, None).unwrap_err();
    assert!(matches!(error, VerifyError::Unsigned { .. }), "{error}");
    signer.sign_bundle(&output);
    assert_eq!(verify_signed(&output, &key, None).unwrap(), []);
    assert_eq!(verify(&output).unwrap(), [], "the signature is not an edit");
    let others = tempfile::tempdir().unwrap();
    let other = Signer::new().public_key(others.path());
    let error = verify_signed(&output, &other, None).unwrap_err();
    assert!(
        matches!(error, VerifyError::Signature { source: SignatureError::Mismatch, .. }),
        "{error}"
    );
}

#[test]
fn signature_outside_the_bundle_is_used_instead() {
    let (directory, output) = bundle();
    let signer = Signer::new();
    let key = signer.public_key(directory.path());
    signer.sign_bundle(&output);
    let detached = directory.path().join("signature.json");
    fs::rename(output.join(SIGNATURE), &detached).unwrap();
    assert_eq!(verify_signed(&output, &key, Some(&detached)).unwrap(), []);
    // The one in the bundle is then not read.
    fs::write(output.join(SIGNATURE), "none").unwrap();
    assert_eq!(verify_signed(&output, &key, Some(&detached)).unwrap(), []);
    let missing = directory.path().join("missing");
    let error = verify_signed(&output, &key, Some(&missing)).unwrap_err();
    assert!(matches!(&error, VerifyError::Read { path, .. } if *path == missing), "{error}");
}

/// An attacker who can write the bundle can also write its checksums.
#[test]
fn changed_checksums_are_refused_before_the_files() {
    let (directory, output) = bundle();
    let signer = Signer::new();
    let key = signer.public_key(directory.path());
    signer.sign_bundle(&output);
    let page = output.join("README.md");
    let text = fs::read_to_string(&page).unwrap();
    fs::write(&page, text.replacen("# ", "## ", 1)).unwrap();
    let findings = verify_signed(&output, &key, None).unwrap();
    assert_eq!(paths(&findings), ["changed: README.md"]);
    let (old, new) = (sha256(text.as_bytes()), sha256(&fs::read(&page).unwrap()));
    let list = fs::read_to_string(output.join(CHECKSUMS)).unwrap();
    fs::write(output.join(CHECKSUMS), list.replace(&old, &new)).unwrap();
    assert_eq!(verify(&output).unwrap(), [], "the checksums alone do not show the edit");
    let error = verify_signed(&output, &key, None).unwrap_err();
    assert!(
        matches!(error, VerifyError::Signature { source: SignatureError::OtherText, .. }),
        "{error}"
    );
}

#[test]
fn rendering_replaces_a_signed_bundle() {
    let (_directory, output) = bundle();
    let signer = Signer::new();
    assert!(!write(tree(), &output, false).unwrap().was_signed);
    signer.sign_bundle(&output);
    assert!(has_signature(&output));
    assert!(write(tree(), &output, false).unwrap().was_signed);
    assert!(!has_signature(&output));
}

#[test]
fn signature_is_not_a_difference() {
    let ((_first, plain), (_second, signed)) = (bundle(), bundle());
    Signer::new().sign_bundle(&signed);
    assert!(diff::diff(&plain, &signed).unwrap().is_empty());
    assert!(diff::diff(&signed, &plain).unwrap().is_empty());
}
