//! What a hook's metrics say.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Returns the answer of the hook at `/metrics`, or `None` if the port is closed.
pub(crate) async fn scrape(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: hook\r\n\r\n").await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// The value of the first sample of a metric that has this label.
pub(crate) fn sample(text: &str, name: &str, label: &str) -> Option<f64> {
    let line =
        text.lines().find(|line| line.split('{').next() == Some(name) && line.contains(label))?;
    line.rsplit(' ').next()?.parse().ok()
}
