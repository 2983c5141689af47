//! A registry on a port of this machine, for tests: what clients use of OCI's distribution
//! specification, with a token server and faults.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::Value;

use super::artifact::digest;

/// A Docker configuration with the credentials that the registry at `HOST` accepts.
pub const DOCKER_CONFIG: &str = r#"{"auths": {"HOST": {"auth": "dXNlcjpzZWNyZXQ="}}}"#;
/// The header of these credentials, and that of a token.
const BASIC: &str = "Basic dXNlcjpzZWNyZXQ=";
const BEARER: &str = "Bearer token";

/// What the registry does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryFault {
    /// It fails in the middle of an upload.
    Upload,
    /// It sends another content than it has received.
    Content,
}

/// A registry. It stops with the process.
pub struct FakeRegistry {
    host: String,
    content: Arc<Mutex<FakeContent>>,
}

#[derive(Default)]
struct FakeContent {
    requires_login: bool,
    fault: Option<RegistryFault>,
    /// By repository and digest.
    blobs: BTreeMap<String, Vec<u8>>,
    /// By repository and tag or digest.
    manifests: BTreeMap<String, Vec<u8>>,
    requests: Vec<String>,
}

struct FakeRequest {
    method: String,
    path: String,
    query: String,
    authorization: String,
    body: Vec<u8>,
}

struct FakeAnswer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl FakeRegistry {
    /// Starts a registry on a free port.
    ///
    /// # Errors
    /// There is no free port.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let host = listener.local_addr()?.to_string();
        let content: Arc<Mutex<FakeContent>> = Arc::default();
        let (served, own_host) = (Arc::clone(&content), host.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (served, host) = (Arc::clone(&served), own_host.clone());
                // A client that went away needs no answer.
                thread::spawn(move || stream.and_then(|stream| serve(stream, &host, &served)));
            }
        });
        Ok(Self { host, content })
    }

    /// Returns its address with the port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// From now on, the registry requires a token, which it gives for [`DOCKER_CONFIG`] only.
    pub fn require_login(&self) {
        self.content().requires_login = true;
    }

    /// From now on, the registry has a fault.
    pub fn fail(&self, fault: RegistryFault) {
        self.content().fault = Some(fault);
    }

    /// Stores a blob, and returns its digest.
    pub fn put_blob(&self, repository: &str, blob: Vec<u8>) -> String {
        let digest = digest(&blob);
        self.content().blobs.insert(format!("{repository}@{digest}"), blob);
        digest
    }

    /// Stores a manifest under a tag or digest.
    pub fn put_manifest(&self, repository: &str, version: &str, manifest: Vec<u8>) {
        self.content().manifests.insert(manifest_key(repository, version), manifest);
    }

    /// Returns `REPOSITORY:TAG` of each artifact, sorted.
    pub fn tags(&self) -> Vec<String> {
        let content = self.content();
        content.manifests.keys().filter(|key| !key.contains('@')).cloned().collect()
    }

    /// Returns method and path of each request so far, in their order.
    pub fn requests(&self) -> Vec<String> {
        self.content().requests.clone()
    }

    fn content(&self) -> MutexGuard<'_, FakeContent> {
        lock(&self.content)
    }
}

/// Returns the key of a manifest with a tag or digest.
fn manifest_key(repository: &str, version: &str) -> String {
    let separator = if version.contains(':') { '@' } else { ':' };
    format!("{repository}{separator}{version}")
}

/// A thread that failed has failed its test already.
fn lock(content: &Mutex<FakeContent>) -> MutexGuard<'_, FakeContent> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request.
fn serve(stream: TcpStream, host: &str, content: &Mutex<FakeContent>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let request = FakeRequest::read(&mut stream)?;
    let FakeAnswer { status, headers, body } = lock(content).answer(&request, host);
    let length = body.len();
    let mut head =
        format!("HTTP/1.1 {status} answer\r\ncontent-length: {length}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.extend([name, ": ", value.as_str(), "\r\n"]);
    }
    head.push_str("\r\n");
    let stream = stream.get_mut();
    stream.write_all(head.as_bytes())?;
    if request.method != "HEAD" {
        stream.write_all(&body)?;
    }
    stream.flush()
}

impl FakeRequest {
    fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Self> {
        let lines = stream.by_ref().lines().map_while(Result::ok);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let header = |wanted: &str| {
            let mut fields = head.iter().skip(1).filter_map(|line| line.split_once(": "));
            let found = fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.to_owned()).unwrap_or_default()
        };
        let mut words = head.first().map(String::as_str).unwrap_or_default().split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut body = vec![0; header("content-length").parse().unwrap_or_default()];
        stream.read_exact(&mut body)?;
        Ok(Self {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            authorization: header("authorization"),
            body,
        })
    }
}

impl FakeContent {
    fn answer(&mut self, request: &FakeRequest, host: &str) -> FakeAnswer {
        let FakeRequest { method, path, query, authorization, body } = request;
        self.requests.push(format!("{method} {path}"));
        if path == "/token" {
            return if authorization == BASIC {
                FakeAnswer::new(200, r#"{"token": "token"}"#)
            } else {
                FakeAnswer::new(
                    401,
                    r#"{"errors": [{"code": "UNAUTHORIZED", "message": "wrong password"}]}"#,
                )
            };
        }
        if self.requires_login && authorization != BEARER {
            let challenge = format!("Bearer realm=\"http://{host}/token\",service=\"fake\"");
            return FakeAnswer::new(401, "").with("www-authenticate", challenge);
        }
        let rest = path.strip_prefix("/v2/").unwrap_or_default();
        if rest.is_empty() {
            return FakeAnswer::new(200, "{}");
        }
        match (method.as_str(), rest.split_once("/manifests/"), rest.split_once("/blobs/")) {
            ("PUT", Some((repository, version)), _) => self.put(repository, version, body),
            (_, Some((repository, version)), _) => {
                let key = manifest_key(repository, version);
                self.manifests.get(&key).map_or_else(FakeAnswer::unknown, |manifest| {
                    FakeAnswer::new(200, manifest).with("docker-content-digest", digest(manifest))
                })
            }
            ("POST", _, Some(_)) => FakeAnswer::new(202, "").with("location", format!("{path}1")),
            ("PUT", _, Some((repository, _))) => self.upload(repository, query, body),
            (_, _, Some((repository, digest))) => {
                let blob = self.blobs.get(&format!("{repository}@{digest}")).cloned();
                blob.map_or_else(FakeAnswer::unknown, |mut blob| {
                    if self.fault == Some(RegistryFault::Content) {
                        blob.push(0);
                    }
                    FakeAnswer::new(200, blob)
                })
            }
            _ => FakeAnswer::unknown(),
        }
    }

    /// Stores an uploaded blob.
    fn upload(&mut self, repository: &str, query: &str, body: &[u8]) -> FakeAnswer {
        if self.fault == Some(RegistryFault::Upload) {
            return FakeAnswer::new(
                500,
                r#"{"errors": [{"code": "UNKNOWN", "message": "disk full"}]}"#,
            );
        }
        let digest = digest(body);
        if query.replace("%3A", ":") != format!("digest={digest}") {
            return FakeAnswer::new(400, r#"{"errors": [{"code": "DIGEST_INVALID"}]}"#);
        }
        let location = format!("/v2/{repository}/blobs/{digest}");
        self.blobs.insert(format!("{repository}@{digest}"), body.to_vec());
        FakeAnswer::new(201, "").with("location", location)
    }

    /// Stores a manifest, if all its blobs exist.
    fn put(&mut self, repository: &str, version: &str, body: &[u8]) -> FakeAnswer {
        let manifest: Value = serde_json::from_slice(body).unwrap_or_default();
        let layers = manifest["layers"].as_array().cloned().unwrap_or_default();
        let digests = layers.iter().chain([&manifest["config"]]).map(|part| &part["digest"]);
        let mut digests = digests.map(|digest| digest.as_str().unwrap_or_default());
        if !digests.all(|digest| self.blobs.contains_key(&format!("{repository}@{digest}"))) {
            return FakeAnswer::new(400, r#"{"errors": [{"code": "MANIFEST_BLOB_UNKNOWN"}]}"#);
        }
        let digest = digest(body);
        let location = format!("/v2/{repository}/manifests/{digest}");
        for version in [version, digest.as_str()] {
            self.manifests.insert(manifest_key(repository, version), body.to_vec());
        }
        FakeAnswer::new(201, "").with("location", location)
    }
}

impl FakeAnswer {
    fn new(status: u16, body: impl AsRef<[u8]>) -> Self {
        Self { status, headers: Vec::new(), body: body.as_ref().to_vec() }
    }

    fn unknown() -> Self {
        Self::new(
            404,
            r#"{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}"#,
        )
    }

    fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}
