//! Writes the `verify` of an OCIRepository.

use minijinja::{Value, context};

use crate::source::BundleSource;
use crate::verification::{SignerIdentity, SourceVerification};

/// The tool that signs.
const PROVIDER: &str = "cosign";

/// Returns the `verify` of all that is pushed with the bundle; `None` if nothing is verified.
pub(super) fn spec(source: &BundleSource) -> Option<Value> {
    let spec = match source.verification.as_ref()? {
        SourceVerification::Secret(name) => {
            context! { provider => PROVIDER, secretRef => context! { name } }
        }
        SourceVerification::Identities(identities) => {
            let matched = identities.iter().map(|identity| {
                let [issuer, subject] = identity.patterns();
                context! { issuer, subject }
            });
            context! { provider => PROVIDER, matchOIDCIdentity => matched.collect::<Value>() }
        }
    };
    Some(spec)
}

/// Returns the signers for `README.md`; `None` if nothing is verified.
pub(super) fn signers(source: &BundleSource) -> Option<Value> {
    let (secret, identities): (_, &[SignerIdentity]) = match source.verification.as_ref()? {
        SourceVerification::Secret(name) => (Some(name), &[]),
        SourceVerification::Identities(identities) => (None, identities.as_slice()),
    };
    let identities = identities
        .iter()
        .map(|identity| context! { issuer => &identity.issuer, subject => &identity.subject });
    Some(context! { secret, identities => identities.collect::<Value>() })
}
