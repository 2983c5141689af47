//! Checks the signature of a text with a public key, without any input or output. The signature is
//! a sigstore bundle, as `cosign sign-blob --bundle` writes it. Only the key decides: certificates,
//! times and transparency logs are not read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};

/// The format of signatures that cosign 3 writes.
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The name of SHA-256 in this format.
const SHA256: &str = "SHA2_256";
/// The DER of every P-256 key in a `SubjectPublicKeyInfo` (RFC 5480), up to the point.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The length of an uncompressed point: a mark and two coordinates.
const POINT_LENGTH: usize = 65;
/// Where the names of algorithm and curve are in the DER of a key, in bytes from its start.
const NAMES_END: usize = 32;
/// The names (OIDs, in DER) of the algorithms and curves of other keys.
const OTHER_KEYS: [(&[u8], &str); 4] = [
    (&[0x06, 0x03, 0x2b, 0x65, 0x70], "an Ed25519 key"),
    (&[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01], "an RSA key"),
    (&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22], "an ECDSA key with the curve P-384"),
    (&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23], "an ECDSA key with the curve P-521"),
];
const OTHER_KEY: &str = "a key of another kind";

/// An ECDSA key with the curve P-256, which verifies signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(Vec<u8>);

/// Why a text is not a [`PublicKey`]. No message contains a part of the text, which may be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no PEM block with a public key.
    #[error("it has no public key in PEM format")]
    NotPem,
    /// A private key, encrypted or not.
    #[error("it is a private key")]
    Private,
    /// A certificate.
    #[error("it is a certificate, not a key")]
    Certificate,
    /// Several PEM blocks.
    #[error("it has more than one key")]
    Several,
    /// A public key that this module cannot use.
    #[error("it is {0}, not an ECDSA key with the curve P-256")]
    Kind(&'static str),
}

impl KeyError {
    /// Returns a hint for the user.
    pub fn hint(self) -> &'static str {
        match self {
            Self::NotPem | Self::Several => {
                "pass the public key that `cosign generate-key-pair` writes, by default to `cosign.pub`"
            }
            Self::Private => "name the public key (`cosign.pub`), and keep the private key secret",
            Self::Certificate => {
                "certificates are not verified here: use `cosign verify-blob`, and then `bundle verify` without --key"
            }
            Self::Kind(_) => {
                "`cosign generate-key-pair` makes keys with the curve P-256; for other keys, use `cosign verify-blob`"
            }
        }
    }
}

/// Why a signature is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The text is not JSON, or a field has another type.
    #[error("it is not JSON in the form that cosign writes (line {line}, column {column})")]
    NotJson {
        /// The line of the error, from 1.
        line: usize,
        /// The column of the error, from 1.
        column: usize,
    },
    /// Another format, or another version of the format.
    #[error("its `mediaType` is not `{MEDIA_TYPE}`")]
    MediaType,
    /// The signature of an attestation.
    #[error("it signs an attestation (`dsseEnvelope`), not a file")]
    Envelope,
    /// A signature without a key of the signer.
    #[error("it has a certificate instead of a key")]
    Certificate,
    /// The signature or the digest is missing, or has another form.
    #[error("it has no `messageSignature` with a digest of the kind {SHA256}")]
    NoSignature,
    /// The signature of another text.
    #[error("it is the signature of another text")]
    OtherText,
    /// The signature of this text by another key, or a forged one.
    #[error("it does not match the key")]
    Mismatch,
}

impl SignatureError {
    /// Returns a hint for the user.
    pub fn hint(self) -> &'static str {
        match self {
            Self::NotJson { .. } | Self::MediaType | Self::Envelope | Self::NoSignature => {
                "sign again with cosign 3: `cosign sign-blob --key cosign.key --bundle DIR/checksums.txt.sigstore.json DIR/checksums.txt`"
            }
            Self::Certificate => {
                "certificates are not verified here: use `cosign verify-blob`, and then `bundle verify` without --key"
            }
            Self::OtherText => {
                "the checksums were changed after they were signed: do not deploy this bundle; get it again, or let the signer sign it again"
            }
            Self::Mismatch => {
                "another key signed the bundle, or the signature is forged: do not deploy this bundle until the key of its signer matches"
            }
        }
    }
}

/// A sigstore bundle, as far as it is read here (`sigstore_bundle.proto`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SigstoreBundle {
    media_type: Option<String>,
    verification_material: Option<VerificationMaterial>,
    message_signature: Option<MessageSignature>,
    dsse_envelope: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VerificationMaterial {
    certificate: Option<IgnoredAny>,
    x509_certificate_chain: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageSignature {
    message_digest: Option<MessageDigest>,
    signature: Option<String>,
}

#[derive(Deserialize)]
struct MessageDigest {
    algorithm: Option<String>,
    digest: Option<String>,
}

impl PublicKey {
    /// Reads a public key in PEM format, as `cosign generate-key-pair` writes it.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub fn parse(text: &[u8]) -> Result<Self, KeyError> {
        // Also one that is damaged, or next to other blocks.
        if String::from_utf8_lossy(text).contains("PRIVATE KEY-----") {
            return Err(KeyError::Private);
        }
        let blocks = pem::parse_many(text).map_err(|_| KeyError::NotPem)?;
        let block = match blocks.as_slice() {
            [] => return Err(KeyError::NotPem),
            [block] => block,
            [_, _, ..] => return Err(KeyError::Several),
        };
        match block.tag() {
            "PUBLIC KEY" => {}
            "CERTIFICATE" => return Err(KeyError::Certificate),
            "RSA PUBLIC KEY" => return Err(KeyError::Kind("an RSA key")),
            _ => return Err(KeyError::NotPem),
        }
        let der = block.contents();
        let point = der.strip_prefix(&P256).filter(|point| point.len() == POINT_LENGTH);
        point.map(|point| Self(point.to_vec())).ok_or_else(|| KeyError::Kind(kind(der)))
    }

    /// Checks that `signature` is a sigstore bundle with a signature of `text` by this key.
    ///
    /// # Errors
    /// See [`SignatureError`].
    pub fn check(&self, signature: &[u8], text: &[u8]) -> Result<(), SignatureError> {
        let bundle: SigstoreBundle = serde_json::from_slice(signature).map_err(|error| {
            SignatureError::NotJson { line: error.line(), column: error.column() }
        })?;
        if bundle.media_type.as_deref() != Some(MEDIA_TYPE) {
            return Err(SignatureError::MediaType);
        }
        if bundle.dsse_envelope.is_some() {
            return Err(SignatureError::Envelope);
        }
        if bundle.verification_material.is_some_and(|material| material.has_certificate()) {
            return Err(SignatureError::Certificate);
        }
        let (digest, signature) = bundle
            .message_signature
            .and_then(MessageSignature::parts)
            .ok_or(SignatureError::NoSignature)?;
        // The digest is not signed. It only tells apart why a signature does not match.
        if digest[..] != Sha256::digest(text)[..] {
            return Err(SignatureError::OtherText);
        }
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.0)
            .verify(text, &signature)
            .map_err(|_| SignatureError::Mismatch)
    }
}

/// Describes a key that is not one with P-256, from its DER.
fn kind(der: &[u8]) -> &'static str {
    let names = &der[..der.len().min(NAMES_END)];
    let has = |name: &[u8]| names.windows(name.len()).any(|part| part == name);
    OTHER_KEYS.iter().find(|other| has(other.0)).map_or(OTHER_KEY, |other| other.1)
}

impl VerificationMaterial {
    fn has_certificate(&self) -> bool {
        self.certificate.is_some() || self.x509_certificate_chain.is_some()
    }
}

impl MessageSignature {
    /// Returns the SHA-256 of the signed text, and the signature in DER.
    fn parts(self) -> Option<(Vec<u8>, Vec<u8>)> {
        let digest =
            self.message_digest.filter(|digest| digest.algorithm.as_deref() == Some(SHA256));
        let decoded = |text: Option<String>| STANDARD.decode(text?).ok();
        Some((decoded(digest?.digest)?, decoded(self.signature)?))
    }
}

#[cfg(test)]
mod tests;
