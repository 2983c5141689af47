//! An API server that generates each page of a list on request.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::Client;
use tokio::sync::watch;
use tower::BoxError;

use crate::objects;

type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The server. Clones share one state.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) nodes: usize,
    /// How often all watches have been ended. After each end, the client lists everything again.
    pub(crate) endings: watch::Sender<u64>,
    /// Sent data in MiB.
    pub(crate) sent: Arc<Mutex<f64>>,
}

fn response(body: Body) -> http::Response<Body> {
    http::Response::builder().header("content-type", "application/json").body(body).unwrap()
}

impl Server {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes, endings: watch::Sender::new(0), sent: Arc::default() }
    }

    /// Returns a client of the server, without a network.
    pub(crate) fn client(&self) -> Client {
        let answering = self.clone();
        let service = tower::service_fn(move |request| {
            std::future::ready(Ok::<_, Infallible>(answering.answer(&request)))
        });
        Client::new(service, "default")
    }

    fn answer(&self, request: &http::Request<kube::client::Body>) -> http::Response<Body> {
        let uri = request.uri().clone();
        let pairs =
            uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let parameter =
            |key: &str| pairs.clone().find(|(name, _)| *name == key).map(|(_, value)| value);
        if parameter("watch").is_some() {
            return self.watch();
        }
        let (mut items, begin) =
            (Vec::new(), parameter("continue").map_or(0, |text| text.parse().unwrap()));
        let end = begin + parameter("limit").unwrap().parse::<usize>().unwrap();
        let selector = parameter("labelSelector").unwrap_or_default();
        let total = objects::count(uri.path(), selector, self.nodes);
        for index in begin..end.min(total) {
            items.push(objects::object(uri.path(), selector, index));
        }
        let next = if end < total { end.to_string() } else { String::new() };
        let metadata = format!(r#"{{"resourceVersion":"1","continue":"{next}"}}"#);
        let text = format!(
            r#"{{"kind":"List","apiVersion":"v1","metadata":{metadata},"items":[{}]}}"#,
            items.join(",")
        );
        *self.sent.lock().unwrap() +=
            f64::from(u32::try_from(text.len()).unwrap()) / f64::from(1 << 20);
        response(Full::new(Bytes::from(text)).map_err(Into::into).boxed_unsync())
    }

    /// A watch without events. It ends with an error when all watches are ended.
    fn watch(&self) -> http::Response<Body> {
        let mut endings = self.endings.subscribe();
        let body = futures::stream::once(async move {
            endings.changed().await.unwrap();
            let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":410,"reason":"Expired","message":"old"}"#;
            Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(format!(
                "{{\"type\":\"ERROR\",\"object\":{status}}}\n"
            ))))
        });
        response(StreamBody::new(body).map_err(|never| match never {}).boxed_unsync())
    }
}
