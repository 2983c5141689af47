//! Tests with signatures of OpenSSL in the form of cosign (`tests/data/signed`). An end-to-end test
//! runs cosign itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{KeyError, PublicKey, SignatureError};

/// The content of a file in `tests/data/signed`.
macro_rules! data {
    ($file:literal) => {
        include_bytes!(concat!("../../../../tests/data/signed/", $file))
    };
}

const TEXT: &[u8] = data!("bundle/checksums.txt");
const SIGNATURE: &[u8] = data!("bundle/checksums.txt.sigstore.json");

fn key() -> PublicKey {
    PublicKey::parse(data!("cosign.pub")).unwrap()
}

/// Returns the signature after an edit of its JSON.
fn edited(edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut signature: Value = serde_json::from_slice(SIGNATURE).unwrap();
    edit(&mut signature);
    serde_json::to_vec(&signature).unwrap()
}

#[test]
fn signature_of_the_text_by_the_key_is_valid() {
    assert_eq!(key().check(SIGNATURE, TEXT), Ok(()));
    // A comment before the key, and the line breaks of another system
    let text = String::from_utf8(data!("cosign.pub").to_vec()).unwrap();
    let other = format!("the key of the team\n{}", text.replace('\n', "\r\n"));
    assert_eq!(PublicKey::parse(other.as_bytes()), Ok(key()));
    // With a transparency log, cosign adds more material.
    let logged = edited(|signature| {
        signature["verificationMaterial"]["tlogEntries"] = json!([{"logIndex": "1"}]);
    });
    assert_eq!(key().check(&logged, TEXT), Ok(()));
}

#[test]
fn other_keys_are_refused_by_kind() {
    let private = "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nbm90aGluZw==\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n";
    let broken_private = "-----BEGIN EC PRIVATE KEY-----\n!\n";
    let two = [&data!("cosign.pub")[..], &data!("other.pub")[..]].concat();
    let cases: [(&[u8], KeyError); 13] = [
        (b"", KeyError::NotPem),
        (b"\xff\xfe\x00", KeyError::NotPem),
        (SIGNATURE, KeyError::NotPem),
        (b"-----BEGIN PUBLIC KEY-----\nMFkw", KeyError::NotPem),
        (b"-----BEGIN PUBLIC KEY-----\n!!!\n-----END PUBLIC KEY-----\n", KeyError::NotPem),
        (private.as_bytes(), KeyError::Private),
        (broken_private.as_bytes(), KeyError::Private),
        (data!("certificate.pem"), KeyError::Certificate),
        (&two, KeyError::Several),
        (data!("ed25519.pub"), KeyError::Kind("an Ed25519 key")),
        (data!("rsa.pub"), KeyError::Kind("an RSA key")),
        (data!("p384.pub"), KeyError::Kind("an ECDSA key with the curve P-384")),
        (data!("p521.pub"), KeyError::Kind("an ECDSA key with the curve P-521")),
    ];
    for (text, expected) in cases {
        let shown = String::from_utf8_lossy(text);
        assert_eq!(PublicKey::parse(text), Err(expected), "{shown}");
        assert!(!expected.hint().is_empty(), "{shown}");
    }
    let short = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n";
    assert_eq!(PublicKey::parse(short.as_bytes()), Err(KeyError::Kind(super::OTHER_KEY)));
}

/// A private key that a user names by mistake must not get into the log of a CI system.
#[test]
fn message_about_a_key_contains_nothing_of_it() {
    let secret = "c2VjcmV0";
    for tag in ["EC PRIVATE KEY", "PUBLIC KEY", "c2VjcmV0"] {
        let text = format!("-----BEGIN {tag}-----\n{secret}\n-----END {tag}-----\n");
        let error = PublicKey::parse(text.as_bytes()).unwrap_err();
        let shown = format!("{error} {error:?} {}", error.hint());
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn other_signatures_are_refused_with_the_reason() {
    let digest =
        |digest: Value| edited(|signature| signature["messageSignature"]["messageDigest"] = digest);
    let no_signature = SignatureError::NoSignature;
    let cases: [(Vec<u8>, SignatureError); 16] = [
        (b"".to_vec(), SignatureError::NotJson { line: 1, column: 0 }),
        (b"MEUCIQ==".to_vec(), SignatureError::NotJson { line: 1, column: 1 }),
        // The format of cosign 2
        (
            br#"{"base64Signature": "MEUCIQ==", "cert": "", "rekorBundle": {}}"#.to_vec(),
            SignatureError::MediaType,
        ),
        (b"{}".to_vec(), SignatureError::MediaType),
        (
            edited(|signature| {
                signature["mediaType"] =
                    "application/vnd.dev.sigstore.bundle+json;version=0.2".into();
            }),
            SignatureError::MediaType,
        ),
        (
            edited(|signature| {
                signature["dsseEnvelope"] = json!({"payload": "e30=", "signatures": []});
            }),
            SignatureError::Envelope,
        ),
        (
            edited(|signature| {
                signature["verificationMaterial"] = json!({"certificate": {"rawBytes": "MIIC"}});
            }),
            SignatureError::Certificate,
        ),
        (
            edited(|signature| {
                signature["verificationMaterial"] =
                    json!({"x509CertificateChain": {"certificates": []}});
            }),
            SignatureError::Certificate,
        ),
        (edited(|signature| signature["messageSignature"] = Value::Null), no_signature),
        (edited(|signature| signature["messageSignature"]["signature"] = "!".into()), no_signature),
        (digest(Value::Null), no_signature),
        (digest(json!({"algorithm": "SHA2_384", "digest": "AAAA"})), no_signature),
        (digest(json!({"algorithm": "SHA2_256", "digest": "AAAA"})), SignatureError::OtherText),
        (
            edited(|signature| signature["messageSignature"]["signature"] = "".into()),
            SignatureError::Mismatch,
        ),
        (
            edited(|signature| signature["messageSignature"]["signature"] = "MEUCIQ==".into()),
            SignatureError::Mismatch,
        ),
        // Both numbers are zero, which some programs have accepted for every text.
        (
            edited(|signature| signature["messageSignature"]["signature"] = "MAYCAQACAQA=".into()),
            SignatureError::Mismatch,
        ),
    ];
    for (signature, expected) in cases {
        let shown = String::from_utf8_lossy(&signature);
        assert_eq!(key().check(&signature, TEXT), Err(expected), "{shown}");
        assert!(!expected.hint().is_empty(), "{shown}");
    }
}

#[test]
fn signature_that_is_not_text_is_refused() {
    let cases: [&[u8]; 5] =
        [b"\xff\xfe", b"{\"mediaType\": \"\xff\"}", b"[[[[", b"{}{}", &[b'['; 10_000]];
    for hostile in cases {
        let found = key().check(hostile, TEXT);
        assert!(matches!(found, Err(SignatureError::NotJson { .. })), "{found:?}");
    }
}

#[test]
fn other_key_or_text_does_not_match() {
    let other = PublicKey::parse(data!("other.pub")).unwrap();
    assert_eq!(other.check(SIGNATURE, TEXT), Err(SignatureError::Mismatch));
    let changed = [TEXT, &b" "[..]].concat();
    assert_eq!(key().check(SIGNATURE, &changed), Err(SignatureError::OtherText));
    // With the digest of the changed text, which every user can compute
    let forged = edited(|signature| {
        signature["messageSignature"]["messageDigest"]["digest"] =
            STANDARD.encode(Sha256::digest(&changed)).into();
    });
    assert_eq!(key().check(&forged, &changed), Err(SignatureError::Mismatch));
}

#[test]
fn every_changed_byte_of_the_signature_is_found() {
    let decoded = |signature: &Value| {
        STANDARD.decode(signature["messageSignature"]["signature"].as_str().unwrap()).unwrap()
    };
    let valid: Value = serde_json::from_slice(SIGNATURE).unwrap();
    for index in 0..decoded(&valid).len() {
        let changed = edited(|signature| {
            let mut bytes = decoded(signature);
            bytes[index] ^= 1;
            signature["messageSignature"]["signature"] = STANDARD.encode(bytes).into();
        });
        assert_eq!(key().check(&changed, TEXT), Err(SignatureError::Mismatch), "byte {index}");
    }
}
