//! The client of a registry. It only moves bytes: the content is in [`super::artifact`].

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::ready;
use futures::stream::once;
use http::HeaderValue;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::OCI_IMAGE_MEDIA_TYPE;
use oci_client::secrets::RegistryAuth;
use oci_client::token_cache::RegistryTokenType;
use oci_client::{Client, Reference, RegistryOperation};

use super::artifact::{self, Artifact, ArtifactBlob};
use super::credentials;
use super::error::{RegistryError, root_cause};
use super::reference::ArtifactReference;
use archive::{ArchiveError, ArchiveFiles, ArchiveLimits};
use contract::grammar::shown;

mod login;
mod request;

/// The time limit for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for an answer. It includes the upload of a blob.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);
const USER_AGENT: &str = concat!("gpu-rollout/", env!("CARGO_PKG_VERSION"));

/// A client of one registry, with the user's credentials.
pub struct RegistryClient {
    /// The client for logins and manifests, which the client library does not handle safely.
    http: reqwest::Client,
    credentials: RegistryAuth,
    plain_http: bool,
}

/// A bundle from a registry.
#[derive(Debug)]
pub struct PulledArtifact {
    /// The digest of its manifest, with its algorithm.
    pub digest: String,
    /// Its files.
    pub files: ArchiveFiles,
}

impl RegistryClient {
    /// Creates a client for the registry `host`. Opens no connection. `login_files`: where `docker
    /// login` and similar programs store credentials, most important first. TLS trusts the root
    /// certificates of the system.
    ///
    /// # Errors
    /// The credentials cannot be read, or the system has no root certificates.
    pub fn new(
        host: &str,
        login_files: &[PathBuf],
        plain_http: bool,
    ) -> Result<Self, RegistryError> {
        // The client library takes the provider of the process. This fails if there is one already,
        // which is then the same one: no other is linked.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(ANSWER_TIMEOUT)
            .user_agent(USER_AGENT)
            // Also for what a server redirects to.
            .https_only(!plain_http)
            .build()
            .map_err(|error| RegistryError::Client(root_cause(&error).to_string()))?;
        Ok(Self { http, credentials: credentials::find(login_files, host)?, plain_http })
    }

    /// Returns the digest of an artifact, or `None` if it does not exist. The digest is computed
    /// from the manifest: what the registry reports is not trusted.
    ///
    /// # Errors
    /// The registry cannot be reached, or gives no usable answer.
    pub async fn digest(
        &self,
        reference: &ArtifactReference,
    ) -> Result<Option<String>, RegistryError> {
        match self.fetch_manifest(reference).await {
            Ok((manifest, _)) => Ok(Some(artifact::digest(&manifest))),
            // Some registries refuse access to a repository that does not exist yet. If the
            // credentials are really wrong, the next request reports it.
            Err(RegistryError::Missing { .. } | RegistryError::Unauthorized { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Pushes an artifact. The manifest comes last, so that a failure leaves no incomplete artifact
    /// behind the tag.
    ///
    /// # Errors
    /// The registry refuses it, or cannot be reached.
    pub async fn push(
        &self,
        reference: &ArtifactReference,
        artifact: &Artifact,
    ) -> Result<(), RegistryError> {
        let image = reference.image();
        let failed = self.failed(reference);
        let login = self.log_in(reference, RegistryOperation::Push).await?;
        let client = self.library_client(&image, login).await?;
        for ArtifactBlob { digest, content } in &artifact.blobs {
            let size = content.len() as u64;
            let content = once(ready(Ok(content.clone())));
            let pushed = client.push_blob_stream(&image, content, digest, Some(size)).await;
            pushed.map_err(&failed)?;
        }
        let kind = HeaderValue::from_static(OCI_IMAGE_MEDIA_TYPE);
        let pushed = client.push_manifest_raw(&image, artifact.manifest.clone(), kind).await;
        pushed.map(drop).map_err(failed)
    }

    /// Pulls a bundle. All content has the digest by which the manifest names it, and the manifest
    /// that of the reference, if it has one.
    ///
    /// # Errors
    /// The registry refuses it or cannot be reached; the artifact is not a bundle, or exceeds a
    /// limit.
    pub async fn pull(
        &self,
        reference: &ArtifactReference,
        limits: ArchiveLimits,
    ) -> Result<PulledArtifact, RegistryError> {
        let image = reference.image();
        let (manifest, login) = self.fetch_manifest(reference).await?;
        let layer = artifact::bundle_layer(&manifest).map_err(|reason| {
            RegistryError::NotBundle { reference: reference.to_string(), reason: shown(&reason) }
        })?;
        let refused = |source| RegistryError::Archive { reference: reference.to_string(), source };
        let client = self.library_client(&image, login).await?;
        // By digest only: the addresses of other servers in a manifest are not used.
        let answer = client.pull_blob_stream(&image, layer.as_str()).await;
        let mut stream = answer.map_err(self.failed(reference))?;
        let mut content = Vec::new();
        while let Some(part) = stream.next().await {
            let part = part.map_err(|error| RegistryError::from_stream(reference, &error))?;
            content.extend_from_slice(&part);
            if content.len() as u64 > limits.bytes {
                return Err(refused(ArchiveError::Size(limits.bytes)));
            }
        }
        let files = archive::unpack(&content, limits).map_err(refused)?;
        Ok(PulledArtifact { digest: artifact::digest(&manifest), files })
    }

    /// Logs in, and returns the manifest of an artifact with the login for its blobs.
    async fn fetch_manifest(
        &self,
        reference: &ArtifactReference,
    ) -> Result<(Vec<u8>, RegistryAuth), RegistryError> {
        let login = self.log_in(reference, RegistryOperation::Pull).await?;
        let manifest = self.manifest(reference, &login).await?;
        Ok((manifest, login))
    }

    /// Returns a client of the library with a login for one repository: a client never replaces the
    /// login that it has for a registry. It would send a password to any token server that the
    /// registry names, so it gets no password that it could send there.
    async fn library_client(
        &self,
        image: &Reference,
        login: RegistryAuth,
    ) -> Result<Client, RegistryError> {
        let config = ClientConfig {
            protocol: if self.plain_http { ClientProtocol::Http } else { ClientProtocol::Https },
            // Every registry supports uploads in one request, and not all support chunks.
            use_monolithic_push: true,
            platform_resolver: None,
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(ANSWER_TIMEOUT),
            user_agent: USER_AGENT,
            ..ClientConfig::default()
        };
        // `Client::new` would use another configuration if this one fails.
        let client = Client::try_from(config)
            .map_err(|error| RegistryError::Client(root_cause(&error).to_string()))?;
        let login = match login {
            // The registry takes the password itself, and the library sends a token only there.
            RegistryAuth::Basic(user, password) => {
                for operation in [RegistryOperation::Pull, RegistryOperation::Push] {
                    let token = RegistryTokenType::Basic(user.clone(), password.clone());
                    client.tokens.insert(image, operation, token).await;
                }
                RegistryAuth::Anonymous
            }
            other @ (RegistryAuth::Anonymous | RegistryAuth::Bearer(_)) => other,
        };
        client.store_auth_if_needed(image.resolve_registry(), &login).await;
        Ok(client)
    }

    /// Returns a function that converts errors of the client library.
    fn failed(
        &self,
        reference: &ArtifactReference,
    ) -> impl Fn(OciDistributionError) -> RegistryError {
        move |error| RegistryError::from_client(reference, self.plain_http, &error)
    }
}

#[cfg(test)]
mod tests;
