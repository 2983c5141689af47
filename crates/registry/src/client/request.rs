//! Requests whose answers are read up to a limit. The client library reads most answers whole,
//! however large they are.

use http::HeaderMap;
use http::header::ACCEPT;
use oci_client::Reference;
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE,
    OCI_IMAGE_MEDIA_TYPE,
};
use oci_client::secrets::RegistryAuth;
use reqwest::RequestBuilder;

use super::RegistryClient;
use crate::artifact;
use crate::error::RegistryError;
use crate::reference::{ArtifactReference, ArtifactVersion};
use contract::grammar::is_digest;

/// The limit for an answer: the size of manifests that the OCI distribution specification wants all
/// registries to support. Tokens and errors are smaller.
const MAX_ANSWER: usize = 4 << 20;
/// The types of artifacts. A registry may hide an artifact of another type.
const ACCEPTED: [&str; 4] = [
    OCI_IMAGE_MEDIA_TYPE,
    OCI_IMAGE_INDEX_MEDIA_TYPE,
    IMAGE_MANIFEST_MEDIA_TYPE,
    IMAGE_MANIFEST_LIST_MEDIA_TYPE,
];
/// The header with the digest of the answer.
const DIGEST: &str = "docker-content-digest";

/// An answer of a registry or of its token server.
pub(super) struct RegistryAnswer {
    /// The HTTP status.
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) content: Vec<u8>,
}

impl RegistryClient {
    /// Returns the URL of `path` in the API of the registry.
    pub(super) fn url(&self, image: &Reference, path: &str) -> String {
        let scheme = if self.plain_http { "http" } else { "https" };
        format!("{scheme}://{}/v2/{path}", image.resolve_registry())
    }

    /// Sends a request, and reads the answer of any status.
    ///
    /// # Errors
    /// The server cannot be reached, or the answer is too large.
    pub(super) async fn send(
        &self,
        reference: &ArtifactReference,
        request: RequestBuilder,
    ) -> Result<RegistryAnswer, RegistryError> {
        let failed = |error: reqwest::Error| {
            RegistryError::from_connection(reference, self.plain_http, &error)
        };
        let mut response = request.send().await.map_err(failed)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut content = Vec::new();
        while let Some(part) = response.chunk().await.map_err(failed)? {
            content.extend_from_slice(&part);
            if content.len() > MAX_ANSWER {
                return Err(RegistryError::Answer {
                    reference: reference.to_string(),
                    reason: format!("it is larger than {} MiB", MAX_ANSWER >> 20),
                });
            }
        }
        Ok(RegistryAnswer { status, headers, content })
    }

    /// Returns the manifest of an artifact. It has the digest of the reference, if that has one.
    ///
    /// # Errors
    /// The registry refuses it or cannot be reached, or the manifest is too large or has another
    /// digest.
    pub(super) async fn manifest(
        &self,
        reference: &ArtifactReference,
        login: &RegistryAuth,
    ) -> Result<Vec<u8>, RegistryError> {
        let image = reference.image();
        let version = match &reference.version {
            ArtifactVersion::Tag(version) | ArtifactVersion::Digest(version) => version,
        };
        let url = self.url(&image, &format!("{}/manifests/{version}", image.repository()));
        let request = self.http.get(url).header(ACCEPT, ACCEPTED.join(", "));
        let RegistryAnswer { status, headers, content } =
            self.send(reference, authorized(request, login)).await?;
        if status != 200 {
            return Err(RegistryError::from_answer(reference, status, &content));
        }
        let expected = match &reference.version {
            ArtifactVersion::Digest(digest) => Some(digest.as_str()),
            ArtifactVersion::Tag(_) => {
                let digest = headers.get(DIGEST).and_then(|value| value.to_str().ok());
                digest.filter(|digest| is_digest(digest))
            }
        };
        let found = artifact::digest(&content);
        match expected.filter(|expected| *expected != found) {
            None => Ok(content),
            Some(expected) => Err(RegistryError::Digest {
                reference: reference.to_string(),
                reason: format!("expected {expected}, found {found}"),
            }),
        }
    }
}

/// Adds a login to a request.
pub(super) fn authorized(request: RequestBuilder, login: &RegistryAuth) -> RequestBuilder {
    match login {
        RegistryAuth::Anonymous => request,
        RegistryAuth::Basic(user, password) => request.basic_auth(user, Some(password)),
        RegistryAuth::Bearer(token) => request.bearer_auth(token),
    }
}
