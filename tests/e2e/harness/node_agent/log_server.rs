//! The part of a kubelet's HTTPS server that users need: the logs of containers. For `kubectl
//! logs`, the API server requests `/containerLogs/NAMESPACE/POD/CONTAINER`. The server authorizes
//! no requests, because it listens on loopback.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use http::{Request, Response, StatusCode, Uri};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use super::Shared;

/// The interval at which a followed log is read again.
const AGAIN: Duration = Duration::from_millis(250);

type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

/// Opens a port on loopback. Returns the listener and the port.
pub(super) async fn listen() -> Result<(TcpListener, u16)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Returns an acceptor with a self-signed certificate. The API server does not verify it.
pub(super) fn acceptor() -> Result<TlsAcceptor> {
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key.into())?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves logs until the node ends.
pub(super) async fn serve(shared: Arc<Shared>, listener: TcpListener, acceptor: TlsAcceptor) {
    loop {
        // Fails when file descriptors run out. The client retries.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let (shared, acceptor) = (Arc::clone(&shared), acceptor.clone());
        tokio::task::spawn_local(async move {
            // A client that has disconnected, or that does not use TLS, gets no answer.
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let answer = service_fn(|request: Request<Incoming>| {
                let answer = answer(&shared, request.uri());
                std::future::ready(Ok::<_, Infallible>(answer))
            });
            hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await
                .ok();
        });
    }
}

fn answer(shared: &Arc<Shared>, uri: &Uri) -> Response<Body> {
    let (status, body) = match asked(shared, uri) {
        Ok(log) => (StatusCode::OK, log.stream()),
        Err(error) => (StatusCode::NOT_FOUND, frames(format!("{error:#}\n"))),
    };
    let mut response = Response::new(StreamBody::new(body));
    *response.status_mut() = status;
    response
}

fn frames(text: String) -> BoxStream<'static, Result<Frame<Bytes>, Infallible>> {
    stream::once(std::future::ready(Ok(Frame::data(Bytes::from(text))))).boxed()
}

/// A log, with the options of the request.
struct Log {
    shared: Arc<Shared>,
    /// `namespace/pod`
    pod: String,
    path: PathBuf,
    /// Return only this number of lines, the last ones.
    tail: Option<usize>,
    /// Start each line with its time.
    timestamps: bool,
    /// Continue until the container has ended.
    follow: bool,
}

fn asked(shared: &Arc<Shared>, uri: &Uri) -> Result<Log> {
    let place: Vec<&str> = uri.path().split('/').collect();
    let ["", "containerLogs", namespace, pod, _] = place[..] else {
        anyhow::bail!("this node serves only logs")
    };
    let option = |name: &str| {
        let pairs =
            uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next_back()
    };
    anyhow::ensure!(
        option("previous") != Some("true"),
        "previous terminated container in pod {pod} not found"
    );
    let path = shared.log(namespace, pod);
    anyhow::ensure!(path.exists(), "no container of {namespace}/{pod} has written a log here");
    Ok(Log {
        shared: Arc::clone(shared),
        pod: format!("{namespace}/{pod}"),
        path,
        tail: option("tailLines").map(str::parse).transpose().context("tailLines")?,
        timestamps: option("timestamps") == Some("true"),
        follow: option("follow") == Some("true"),
    })
}

impl Log {
    fn stream(self) -> BoxStream<'static, Result<Frame<Bytes>, Infallible>> {
        if !self.follow {
            let (text, _) = self.read(0);
            return frames(text);
        }
        stream::unfold(Some((self, 0)), |state| async {
            let (mut log, read) = state?;
            loop {
                // Check before the read, so that the last lines are read too.
                let runs = log.shared.running().contains_key(&log.pod);
                let (text, next) = log.read(read);
                log.tail = None;
                if !runs {
                    return Some((Ok(Frame::data(Bytes::from(text))), None));
                }
                if !text.is_empty() {
                    return Some((Ok(Frame::data(Bytes::from(text))), Some((log, next))));
                }
                tokio::time::sleep(AGAIN).await;
            }
        })
        .boxed()
    }

    /// Returns the content from this byte on, and the offset of its end.
    fn read(&self, from: usize) -> (String, usize) {
        // The file exists as long as the node.
        let all = std::fs::read(&self.path).unwrap_or_default();
        let new = String::from_utf8_lossy(all.get(from..).unwrap_or_default()).into_owned();
        let mut lines: Vec<&str> = new.split_inclusive('\n').collect();
        if let Some(tail) = self.tail {
            lines.drain(..lines.len().saturating_sub(tail));
        }
        if !self.timestamps {
            return (lines.concat(), all.len());
        }
        let lines: Vec<String> =
            lines.into_iter().map(|line| format!("{} {line}", self.time_of(line))).collect();
        (lines.concat(), all.len())
    }

    /// Returns the time of a line. A kubelet stores it. Here it is the time at the start of the
    /// line, or that of the last write.
    fn time_of(&self, line: &str) -> Timestamp {
        let own = line.split_whitespace().next().and_then(|word| word.parse().ok());
        let written = || {
            std::fs::metadata(&self.path)
                .and_then(|file| file.modified())
                .unwrap_or(SystemTime::UNIX_EPOCH)
        };
        own.unwrap_or_else(|| Timestamp::try_from(written()).unwrap_or_default())
    }
}
