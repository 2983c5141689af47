//! Watch streams.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use http_body::Frame;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Server;
use super::fault::Break;
use super::request::Request;

const BOOKMARK: Duration = Duration::from_secs(20);

/// The next step of a watch.
enum Next {
    Item(Result<Vec<u8>, io::Error>),
    End,
    Nothing,
}

struct Watch {
    server: Server,
    request: Request,
    cursor: u64,
    until: Instant,
    bookmark: Instant,
    breaks: usize,
    over: bool,
    /// When the next delayed change is sent.
    held: Option<Instant>,
}

fn line(kind: &str, object: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec(&json!({"type": kind, "object": object})).unwrap();
    text.push(b'\n');
    text
}

fn error(code: u16, message: &str) -> Vec<u8> {
    let reason = if code == 410 { "Expired" } else { "InternalError" };
    line(
        "ERROR",
        &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}),
    )
}

/// Streams the changes after `cursor`.
pub(crate) fn stream(
    server: Server,
    request: Request,
    cursor: u64,
) -> impl Stream<Item = Result<Frame<Bytes>, io::Error>> + Send {
    let seconds =
        request.query.get("timeoutSeconds").and_then(|text| text.parse().ok()).unwrap_or(290);
    let now = Instant::now();
    let (breaks, limit) = {
        let state = server.state();
        (state.breaks.len(), state.watch_seconds)
    };
    let seconds = limit.unwrap_or(seconds);
    let until = now + Duration::from_secs(seconds);
    let watch = Watch {
        server,
        request,
        cursor,
        until,
        bookmark: now + BOOKMARK,
        breaks,
        over: false,
        held: None,
    };
    stream::unfold(watch, async |mut watch| {
        let item = watch.next().await?;
        Some((item.map(|bytes| Frame::data(Bytes::from(bytes))), watch))
    })
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Vec<u8>, io::Error>> {
        let mut changed = self.server.changed.subscribe();
        loop {
            if self.over {
                return None;
            }
            match self.ready() {
                Next::Item(item) => return Some(item),
                Next::End => return None,
                Next::Nothing => {}
            }
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep_until(self.wake_at()) => {}
            }
        }
    }

    /// Returns when there may be something to send without a change.
    fn wake_at(&self) -> Instant {
        let silent = self.server.state().silent_until;
        let regular = self.until.min(self.bookmark);
        silent
            .filter(|until| *until > Instant::now())
            .unwrap_or_else(|| self.held.map_or(regular, |held| held.min(regular)))
    }

    /// Returns the item to send now, if any.
    fn ready(&mut self) -> Next {
        let now = Instant::now();
        let server = self.server.clone();
        let state = server.state();
        if let Some(how) = state.breaks.get(self.breaks) {
            self.over = true;
            return match how {
                Break::EndOfFile => Next::End,
                Break::Gone => Next::Item(Ok(error(410, "too old resource version"))),
                Break::Error => Next::Item(Ok(error(500, "etcdserver: leader changed"))),
                Break::Cut => Next::Item(Err(io::Error::other("connection reset by peer"))),
            };
        }
        if state.silent_until.is_some_and(|until| now < until) {
            return Next::Nothing;
        }
        let mut visible = state.visible(&self.request.resource);
        self.held = None;
        if let Some(lag) = state.lag(&self.request.resource) {
            let from = usize::try_from(self.cursor).unwrap().min(state.store.history.len());
            if let Some(change) =
                state.store.history[from..].iter().find(|change| change.at + lag > now)
            {
                self.held = Some(change.at + lag);
                visible = visible.min(change.version - 1);
            }
        }
        let mut lines: Vec<Vec<u8>> = Vec::new();
        // Each change raises the version by one, so versions are positions.
        let known = |version: u64| usize::try_from(version).unwrap().min(state.store.history.len());
        let (from, to) = (known(self.cursor), known(visible.max(self.cursor)));
        for change in &state.store.history[from..to] {
            if self.request.selects(&change.key, &change.object) {
                let object = super::convert(&self.request, &change.object);
                lines.push(line(change.kind, &object));
                if state.duplicate && change.kind != "DELETED" {
                    lines.push(line("MODIFIED", &object));
                }
            }
        }
        self.cursor = self.cursor.max(visible);
        if state.reversed {
            lines.reverse();
        }
        let text = lines.concat();
        if !text.is_empty() {
            return Next::Item(Ok(text));
        }
        if now >= self.until {
            return Next::End;
        }
        if now >= self.bookmark {
            self.bookmark = now + BOOKMARK;
            if self.cursor > state.store.version {
                // For a watch from a future version, the server sends nothing.
                return Next::Nothing;
            }
            let metadata =
                json!({"resourceVersion": self.cursor.to_string(), "creationTimestamp": null});
            return Next::Item(Ok(line(
                "BOOKMARK",
                &json!({"kind": "Any", "apiVersion": "v1", "metadata": metadata}),
            )));
        }
        Next::Nothing
    }
}
