//! Serves `GET /metrics` over HTTP. No part of a run depends on it: if the port is unavailable, the
//! caller logs a warning and continues.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use contract::metrics::MEDIA_TYPE;

use super::super::RunClock;
use super::HookMetrics;

/// Path of the metrics.
const PATH: &str = "/metrics";
/// The maximum number of connections at the same time. Further connections wait.
const CONNECTIONS: usize = 8;
/// The time limit of a connection, from its first byte to its last.
const LONGEST: Duration = Duration::from_secs(30);
/// The pause after a failed accept. It fails when file descriptors run out.
const RETRY: Duration = Duration::from_secs(1);

/// Listens on a port of all addresses of the pod: both IPv4 and IPv6, or only IPv4 if there is no
/// IPv6.
///
/// # Errors
/// The port cannot be bound.
pub async fn listen(port: u16) -> std::io::Result<TcpListener> {
    match TcpListener::bind(("::", port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(("0.0.0.0", port)).await,
    }
}

/// Serves the metrics until the runtime ends.
pub async fn serve(listener: TcpListener, metrics: Arc<HookMetrics>, clock: RunClock) {
    metrics.enable_snapshots();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        let (metrics, clock) = (Arc::clone(&metrics), clock.clone());
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                std::future::ready(Ok::<_, Infallible>(answer(&request, &metrics, &clock)))
            });
            let serving = hyper::server::conn::http1::Builder::new()
                .keep_alive(false)
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), answer);
            match tokio::time::timeout(LONGEST, serving).await {
                Ok(Ok(())) => {}
                // The client is gone or does not speak HTTP.
                Ok(Err(error)) => tracing::debug!(%error, "a connection for metrics failed"),
                Err(_) => tracing::debug!("a connection for metrics took too long"),
            }
            drop(place);
        });
    }
}

fn answer(
    request: &Request<Incoming>,
    metrics: &HookMetrics,
    clock: &RunClock,
) -> Response<String> {
    let answer = Response::builder();
    let answer = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, PATH) => {
            answer.header(CONTENT_TYPE, MEDIA_TYPE).body(metrics.text(clock.now()))
        }
        (_, PATH) => answer
            .status(StatusCode::METHOD_NOT_ALLOWED)
            .header(ALLOW, "GET, HEAD")
            .body(String::new()),
        (_, _) => answer
            .status(StatusCode::NOT_FOUND)
            .body(format!("not found; the only path is {PATH}\n")),
    };
    // All parts are well-formed constants, so building the response cannot fail.
    answer.unwrap_or_default()
}
