//! A chart repository on loopback: files over HTTP.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::harness::ports::free_port;

/// Serves the files of a directory. Returns the URL, and the handle that stops the server.
pub(super) async fn serve(
    directory: &Path,
    tasks: &mut JoinSet<()>,
) -> Result<(String, AbortHandle)> {
    let port = free_port()?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let directory = directory.to_owned();
    let server = tasks.spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that went away needs no answer.
            tokio::task::spawn_local(answer(stream, directory.clone()));
        }
    });
    Ok((format!("http://127.0.0.1:{port}"), server))
}

async fn answer(mut stream: TcpStream, directory: PathBuf) -> Result<()> {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    let request = lines.next_line().await?.unwrap_or_default();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    let name = request.split(' ').nth(1).unwrap_or("/").trim_start_matches('/');
    let content = if name.contains('/') { None } else { std::fs::read(directory.join(name)).ok() };
    let status = if content.is_some() { "200 OK" } else { "404 Not Found" };
    let content = content.unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        content.len()
    );
    write.write_all(head.as_bytes()).await?;
    write.write_all(&content).await?;
    write.shutdown().await?;
    Ok(())
}
