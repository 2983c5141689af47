//! How a deployer verifies the signatures of what it reads from a registry.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use contract::grammar::{is_address, shown};

/// The longest accepted text.
const LONGEST: usize = 1000;
/// Characters with a meaning in regular expressions, except the wildcard.
const SPECIAL: &str = "\\.+?()|[]{}^$";

/// The signers that a deployer trusts. It refuses what none of them signed with cosign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceVerification {
    /// Those with a public key in the Secret of this name.
    Secret(String),
    /// Those with one of these identities, who sign without a key of their own.
    Identities(Vec<SignerIdentity>),
}

/// The identity of a signer in certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignerIdentity {
    /// The address of the OIDC issuer that knows the signer.
    pub issuer: String,
    /// The signer, such as an address or the URL of a workflow. `*` stands for any text.
    pub subject: String,
}

/// Why a text is not a [`SignerIdentity`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerIdentityError {
    /// There is no equals sign.
    #[error(
        "expected ISSUER=SUBJECT, such as `https://accounts.example.com=team@example.com`, found `{0}`"
    )]
    NoSubject(String),
    /// The issuer is not an address.
    #[error("expected an issuer that starts with https://, found `{0}`")]
    Issuer(String),
    /// The subject is empty, matches every signer, or has characters that are not allowed.
    #[error(
        "expected a subject such as `team@example.com` or `https://git.example.com/team/*`, found `{0}`"
    )]
    Subject(String),
}

impl FromStr for SignerIdentity {
    type Err = SignerIdentityError;

    fn from_str(text: &str) -> Result<Self, SignerIdentityError> {
        let (issuer, subject) =
            text.split_once('=').ok_or_else(|| SignerIdentityError::NoSubject(shown(text)))?;
        let fits = |text: &str| text.len() <= LONGEST && is_address(text);
        if issuer.strip_prefix("https://").is_none_or(str::is_empty) || !fits(issuer) {
            return Err(SignerIdentityError::Issuer(shown(issuer)));
        }
        let literal = subject.replace('*', "");
        if literal.is_empty() || !fits(&literal) {
            return Err(SignerIdentityError::Subject(shown(subject)));
        }
        Ok(Self { issuer: issuer.to_owned(), subject: subject.to_owned() })
    }
}

impl SignerIdentity {
    /// Returns the regular expressions of Go that match issuer and subject.
    pub(super) fn patterns(&self) -> [String; 2] {
        [&self.issuer, &self.subject].map(|text| pattern(text))
    }
}

/// Returns a regular expression for a whole text, in which `*` stands for any text. Without `^` and
/// `$`, it would also match an identity that only contains the text.
fn pattern(text: &str) -> String {
    let mut pattern = "^".to_owned();
    for character in text.chars() {
        if character == '*' {
            pattern.push('.');
        } else if SPECIAL.contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('$');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_matches_only_itself() {
        for (text, issuer, subject) in [
            (
                "https://accounts.example.com=team+gpu@example.com",
                r"^https://accounts\.example\.com$",
                r"^team\+gpu@example\.com$",
            ),
            (
                "https://token.example.com=https://git.example.com/team/fleet/.ci/push.yml@refs/tags/*",
                r"^https://token\.example\.com$",
                r"^https://git\.example\.com/team/fleet/\.ci/push\.yml@refs/tags/.*$",
            ),
            ("https://a=*@b?c=[d]", r"^https://a$", r"^.*@b\?c=\[d\]$"),
        ] {
            let identity: SignerIdentity = text.parse().unwrap();
            assert_eq!(identity.patterns(), [issuer, subject], "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_by_part() {
        for (text, part) in [
            ("", "no subject"),
            ("https://a", "no subject"),
            ("=a", "issuer"),
            ("https://=a", "issuer"),
            ("http://a=b", "issuer"),
            ("https://*.example.com=b", "issuer"),
            ("https://a b=c", "issuer"),
            ("https://a=", "subject"),
            ("https://a=*", "subject"),
            ("https://a=**", "subject"),
            ("https://a=b c", "subject"),
            ("https://a=b|c", "subject"),
            ("https://a=(b)", "subject"),
            ("https://a=${b}", "subject"),
            ("https://a=b\n", "subject"),
        ] {
            let found = match text.parse::<SignerIdentity>().unwrap_err() {
                SignerIdentityError::NoSubject(_) => "no subject",
                SignerIdentityError::Issuer(_) => "issuer",
                SignerIdentityError::Subject(_) => "subject",
            };
            assert_eq!(found, part, "{text:?}");
        }
        let long = format!("https://a={}", "b".repeat(LONGEST + 1));
        assert!(long.parse::<SignerIdentity>().is_err());
    }
}
