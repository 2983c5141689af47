//! Tests of the client on a registry in this process.

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::fixture::{DOCKER_CONFIG, FakeRegistry, RegistryFault};
use crate::reference::{ArtifactVersion, RegistryAddress};
use archive::ArchiveFile;
use contract::exit::ExitCode;

const LIMITS: ArchiveLimits = ArchiveLimits { bytes: 1 << 20, files: 10 };

fn files() -> ArchiveFiles {
    let file = |text: &str, executable| ArchiveFile { content: text.into(), executable };
    ArchiveFiles::from([
        ("gpu/bundle-info.yaml".to_owned(), file("kind: BundleInfo\n", false)),
        ("gpu/deploy.sh".to_owned(), file("#!/bin/sh\n", true)),
    ])
}

fn bundle() -> Artifact {
    Artifact::bundle("mine", "0a", &files()).unwrap()
}

/// Returns the reference of the bundle in these tests.
fn reference(registry: &FakeRegistry) -> ArtifactReference {
    let address: RegistryAddress = format!("oci://{}/team/gpu", registry.host()).parse().unwrap();
    address.repository.with_tag("v1").unwrap()
}

fn client(registry: &FakeRegistry) -> RegistryClient {
    RegistryClient::new(registry.host(), &[], true).unwrap()
}

/// Returns a client with the credentials of a Docker configuration.
fn client_with(registry: &FakeRegistry, config: &str) -> RegistryClient {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.json");
    std::fs::write(&file, config.replace("HOST", registry.host())).unwrap();
    RegistryClient::new(registry.host(), &[file], true).unwrap()
}

#[tokio::test]
async fn pulled_bundle_is_the_one_that_was_pushed() {
    let registry = FakeRegistry::start().unwrap();
    let (client, reference) = (client(&registry), reference(&registry));
    assert_eq!(client.digest(&reference).await.unwrap(), None);
    client.push(&reference, &bundle()).await.unwrap();
    client.push(&reference, &bundle()).await.unwrap();
    assert_eq!(registry.tags(), ["team/gpu:v1"]);
    assert_eq!(client.digest(&reference).await.unwrap(), Some(bundle().digest));
    let by_digest = ArtifactReference {
        version: ArtifactVersion::Digest(bundle().digest),
        ..reference.clone()
    };
    for reference in [&reference, &by_digest] {
        let pulled = client.pull(reference, LIMITS).await.unwrap();
        assert_eq!((pulled.digest, pulled.files), (bundle().digest, files()));
    }
}

#[tokio::test]
async fn token_is_requested_with_the_users_credentials() {
    let registry = FakeRegistry::start().unwrap();
    registry.require_login();
    let client = client_with(&registry, DOCKER_CONFIG);
    client.push(&reference(&registry), &bundle()).await.unwrap();
    assert_eq!(registry.requests()[..2], ["GET /v2/", "GET /token"]);
    let logins = registry.requests().iter().filter(|request| *request == "GET /token").count();
    assert_eq!(logins, 1, "the client library gets a token, and no password");
    client.pull(&reference(&registry), LIMITS).await.unwrap();
}

#[tokio::test]
async fn refused_credentials_are_named_with_a_hint() {
    let registry = FakeRegistry::start().unwrap();
    registry.require_login();
    let wrong =
        client_with(&registry, r#"{"auths": {"HOST": {"username": "user", "password": "x"}}}"#);
    for client in [wrong, client(&registry)] {
        let error = client.push(&reference(&registry), &bundle()).await.unwrap_err();
        assert!(matches!(&error, RegistryError::Unauthorized { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            format!("`{0}` refuses access to `{0}/team/gpu:v1`: wrong password", registry.host())
        );
        let hint = error.hint().unwrap();
        assert!(hint.contains(&format!("docker login {}", registry.host())), "{hint}");
        assert_eq!(error.exit_code(), ExitCode::Rights);
        assert_eq!(client.digest(&reference(&registry)).await.unwrap(), None);
    }
    assert_eq!(registry.tags(), [""; 0]);
}

#[tokio::test]
async fn failed_upload_leaves_no_tag() {
    let registry = FakeRegistry::start().unwrap();
    registry.fail(RegistryFault::Upload);
    let error = client(&registry).push(&reference(&registry), &bundle()).await.unwrap_err();
    assert!(matches!(&error, RegistryError::Refused { is_temporary: true, .. }), "{error}");
    assert!(error.to_string().ends_with("status 500: disk full"), "{error}");
    assert_eq!(registry.tags(), [""; 0]);
}

#[tokio::test]
async fn changed_content_is_refused() {
    let registry = FakeRegistry::start().unwrap();
    let client = client(&registry);
    client.push(&reference(&registry), &bundle()).await.unwrap();
    registry.fail(RegistryFault::Content);
    let error = client.pull(&reference(&registry), LIMITS).await.unwrap_err();
    assert!(matches!(&error, RegistryError::Digest { .. }), "{error}");
}

#[tokio::test]
async fn layer_with_a_path_out_of_the_bundle_is_refused() {
    let registry = FakeRegistry::start().unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    header.as_old_mut().name[..4].copy_from_slice(b"../a");
    header.set_cksum();
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    builder.append(&header, std::io::empty()).unwrap();
    let layer = builder.into_inner().unwrap().finish().unwrap();
    let digest = registry.put_blob("team/gpu", layer);
    let manifest = String::from_utf8(bundle().manifest.to_vec()).unwrap();
    let manifest = manifest.replace(&bundle().blobs[0].digest, &digest);
    registry.put_manifest("team/gpu", "v1", manifest.into_bytes());
    let error = client(&registry).pull(&reference(&registry), LIMITS).await.unwrap_err();
    assert!(
        matches!(&error, RegistryError::Archive { source: ArchiveError::Path(_), .. }),
        "{error}"
    );
}

#[tokio::test]
async fn large_layer_is_not_read_to_its_end() {
    let registry = FakeRegistry::start().unwrap();
    let client = client(&registry);
    client.push(&reference(&registry), &bundle()).await.unwrap();
    let limits = ArchiveLimits { bytes: 10, ..LIMITS };
    let error = client.pull(&reference(&registry), limits).await.unwrap_err();
    assert!(
        matches!(&error, RegistryError::Archive { source: ArchiveError::Size(10), .. }),
        "{error}"
    );
}

#[tokio::test]
async fn large_manifest_is_not_read_to_its_end() {
    let registry = FakeRegistry::start().unwrap();
    let mut manifest = bundle().manifest.to_vec();
    manifest.resize(5 << 20, b' ');
    registry.put_manifest("team/gpu", "v1", manifest);
    let (client, reference) = (client(&registry), reference(&registry));
    let pulled = client.pull(&reference, LIMITS).await.map(drop);
    for error in [pulled.unwrap_err(), client.digest(&reference).await.unwrap_err()] {
        assert!(matches!(&error, RegistryError::Answer { .. }), "{error}");
        assert!(error.to_string().ends_with("it is larger than 4 MiB"), "{error}");
    }
}

#[tokio::test]
async fn manifest_with_another_digest_is_refused() {
    let registry = FakeRegistry::start().unwrap();
    let (client, reference) = (client(&registry), reference(&registry));
    registry.put_manifest("team/gpu", "v1", b"{}".to_vec());
    let digest = client.digest(&reference).await.unwrap();
    assert_eq!(digest, Some(artifact::digest(b"{}")));
    let by_digest =
        ArtifactReference { version: ArtifactVersion::Digest(bundle().digest), ..reference };
    registry.put_manifest("team/gpu", &bundle().digest, b"{}".to_vec());
    let error = client.pull(&by_digest, LIMITS).await.unwrap_err();
    assert!(matches!(&error, RegistryError::Digest { .. }), "{error}");
}

#[tokio::test]
async fn other_artifacts_are_named_as_such() {
    let registry = FakeRegistry::start().unwrap();
    let client = client(&registry);
    let error = client.pull(&reference(&registry), LIMITS).await.unwrap_err();
    assert!(matches!(&error, RegistryError::Missing { .. }), "{error}");
    let chart = Artifact::chart("gpu", "1.0.0", b"{}".to_vec(), &files()).unwrap();
    client.push(&reference(&registry), &chart).await.unwrap();
    let error = client.pull(&reference(&registry), LIMITS).await.unwrap_err();
    assert!(matches!(&error, RegistryError::NotBundle { .. }), "{error}");
}

#[tokio::test]
async fn registry_that_does_not_answer_is_unreachable() {
    let address: RegistryAddress = "oci://127.0.0.1:1/gpu".parse().unwrap();
    let client = RegistryClient::new("127.0.0.1:1", &[], false).unwrap();
    let reference = address.repository.with_tag("v1").unwrap();
    let error = client.push(&reference, &bundle()).await.unwrap_err();
    assert!(matches!(&error, RegistryError::Unreachable { might_be_http: false, .. }), "{error}");
    assert_eq!(error.exit_code(), ExitCode::ApiUnreachable);
}

#[tokio::test]
async fn registry_without_tls_is_recognized() {
    let registry = FakeRegistry::start().unwrap();
    let client = RegistryClient::new(registry.host(), &[], false).unwrap();
    let error = client.push(&reference(&registry), &bundle()).await.unwrap_err();
    assert!(matches!(&error, RegistryError::Unreachable { might_be_http: true, .. }), "{error}");
}
