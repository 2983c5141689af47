//! Logs in to a registry: exchanges the user's password for a token. The client library can do this
//! too, but it sends the password to any server that the registry names, also without TLS.

use http::HeaderValue;
use http::header::WWW_AUTHENTICATE;
use http_auth::ChallengeParser;
use oci_client::RegistryOperation;
use oci_client::secrets::RegistryAuth;
use oci_client::token_cache::RegistryToken;
use reqwest::Url;

use super::RegistryClient;
use super::request::{RegistryAnswer, authorized};
use crate::error::RegistryError;
use crate::reference::ArtifactReference;
use contract::grammar::shown;

/// The server that gives tokens for a registry.
#[derive(Debug)]
struct TokenServer {
    /// Its address, as the registry writes it.
    realm: String,
    /// The name of the registry there.
    service: Option<String>,
}

impl RegistryClient {
    /// Returns the login for `operation` on the repository of `reference`: a token if the registry
    /// has a token server, the user's credentials if it asks for them itself, nothing if it asks
    /// for nothing.
    ///
    /// # Errors
    /// The token server refuses the credentials, cannot be reached, or has no TLS.
    pub(super) async fn log_in(
        &self,
        reference: &ArtifactReference,
        operation: RegistryOperation,
    ) -> Result<RegistryAuth, RegistryError> {
        let image = reference.image();
        let answer = self.send(reference, self.http.get(self.url(&image, ""))).await?;
        let Some(challenge) = answer.headers.get(WWW_AUTHENTICATE) else {
            return Ok(RegistryAuth::Anonymous);
        };
        let Some(server) = TokenServer::from_challenge(challenge) else {
            return Ok(self.credentials.clone());
        };
        let url = server.url(reference, self.plain_http)?;
        let rights = match operation {
            RegistryOperation::Pull => "pull",
            RegistryOperation::Push => "pull,push",
        };
        let mut query = vec![("scope", format!("repository:{}:{rights}", image.repository()))];
        query.extend(server.service.map(|service| ("service", service)));
        let request = authorized(self.http.get(url).query(&query), &self.credentials);
        let RegistryAnswer { status, content, .. } = self.send(reference, request).await?;
        if status != 200 {
            return Err(RegistryError::from_token_server(reference, status, &content));
        }
        token(&content).map(RegistryAuth::Bearer).ok_or_else(|| RegistryError::Answer {
            reference: reference.to_string(),
            reason: format!("its token server `{}` gives no token", shown(&server.realm)),
        })
    }
}

impl TokenServer {
    /// Reads the challenge of a registry. Returns `None` if the registry takes the password itself.
    fn from_challenge(challenge: &HeaderValue) -> Option<Self> {
        let bearer = ChallengeParser::new(challenge.to_str().ok()?)
            .map_while(Result::ok)
            .find(|challenge| challenge.scheme.eq_ignore_ascii_case("Bearer"))?;
        let parameter = |wanted: &str| {
            let found = bearer.params.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.to_unescaped())
        };
        Some(Self { realm: parameter("realm")?, service: parameter("service") })
    }

    /// Returns its address, to which the password is sent.
    ///
    /// # Errors
    /// It is not an address, or it is one without TLS, and the user has not asked for that.
    fn url(&self, reference: &ArtifactReference, plain_http: bool) -> Result<Url, RegistryError> {
        let url = Url::parse(&self.realm).map_err(|error| RegistryError::Answer {
            reference: reference.to_string(),
            reason: format!("the address of its token server `{}`: {error}", shown(&self.realm)),
        })?;
        if plain_http || url.scheme() == "https" {
            Ok(url)
        } else {
            Err(RegistryError::InsecureLogin {
                host: reference.repository.host().to_owned(),
                realm: shown(&self.realm),
            })
        }
    }
}

/// Returns the token in the answer of a token server, if it can be in a header: the client library
/// expects that.
fn token(answer: &[u8]) -> Option<String> {
    let token: RegistryToken = serde_json::from_slice(answer).ok()?;
    let token = token.token();
    HeaderValue::from_str(token).ok()?;
    Some(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::RegistryAddress;

    fn reference() -> ArtifactReference {
        let address: RegistryAddress = "oci://registry.example.com/gpu".parse().unwrap();
        address.repository.with_tag("v1").unwrap()
    }

    fn server(challenge: &'static str) -> Option<TokenServer> {
        TokenServer::from_challenge(&HeaderValue::from_static(challenge))
    }

    #[test]
    fn password_is_not_sent_to_token_server_without_tls() {
        for challenge in [
            r#"Bearer realm="http://tokens.example.com/token",service="fake""#,
            r#"bearer Realm="HTTP://tokens.example.com/token""#,
            r#"Bearer realm="ht\tp://tokens.example.com/token""#,
            r#"Basic realm="a", Bearer realm="http://registry.example.com/token""#,
        ] {
            let server = server(challenge).unwrap();
            let error = server.url(&reference(), false).unwrap_err();
            assert!(matches!(&error, RegistryError::InsecureLogin { .. }), "{challenge}: {error}");
            assert!(error.hint().is_some());
            assert_eq!(server.url(&reference(), true).unwrap().scheme(), "http", "{challenge}");
        }
    }

    #[test]
    fn token_server_with_tls_gets_the_password() {
        let challenge =
            r#"Bearer realm="https://tokens.example.com/token",service="fake",scope="a""#;
        let server = server(challenge).unwrap();
        assert_eq!(server.service.as_deref(), Some("fake"));
        let url = server.url(&reference(), false).unwrap();
        assert_eq!(url.as_str(), "https://tokens.example.com/token");
    }

    #[test]
    fn registry_without_token_server_takes_the_password() {
        for challenge in [r#"Basic realm="a""#, "Bearer", r#"Bearer service="a""#, "=", ""] {
            assert!(server(challenge).is_none(), "{challenge}");
        }
    }

    #[test]
    fn unusable_token_is_not_a_token() {
        for (answer, expected) in [
            (r#"{"token": "a.b"}"#, Some("a.b")),
            (r#"{"access_token": "c"}"#, Some("c")),
            (r#"{"token": "a\nb"}"#, None),
            (r#"{"other": "a"}"#, None),
            ("a", None),
        ] {
            assert_eq!(token(answer.as_bytes()).as_deref(), expected, "{answer}");
        }
    }
}
