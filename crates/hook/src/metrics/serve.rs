//! `GET /metrics` over HTTP. Nothing of a run depends on it: who cannot listen says so and goes on.

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

/// Where the metrics are.
const PATH: &str = "/metrics";
/// So many connections at once: Prometheus, a spare one, and a curious person. Others wait.
const CONNECTIONS: usize = 8;
/// How long a connection may take, from its first byte to its last.
const LONGEST: Duration = Duration::from_secs(30);
/// How soon a failed accept is tried again: it fails when file descriptors run out.
const RETRY: Duration = Duration::from_secs(1);

/// Listens at a port of all addresses of the pod: of both families, or of IPv4 where there is no other.
///
/// # Errors
/// The port cannot be had.
pub async fn listen(port: u16) -> std::io::Result<TcpListener> {
    match TcpListener::bind(("::", port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(("0.0.0.0", port)).await,
    }
}

/// Serves until the runtime ends.
pub async fn serve(listener: TcpListener, metrics: Arc<HookMetrics>, clock: RunClock) {
    metrics.enable_snapshots();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "unable to accept a connection");
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
                // Who asked is gone, or asked for something else than HTTP.
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
        (_, _) => answer.status(StatusCode::NOT_FOUND).body(format!("there is only {PATH}\n")),
    };
    // Its parts are constants that are well formed.
    answer.unwrap_or_default()
}
