//! Git repositories over smart HTTP on loopback: `git http-backend` answers, as behind any web
//! server.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinSet;

use super::git::Repository;
use super::ports::free_port;

/// Serves the bare repositories of one directory read-only until it is dropped.
pub(crate) struct GitServer {
    root: PathBuf,
    port: u16,
    #[expect(dead_code, reason = "dropping it stops the tasks")]
    tasks: JoinSet<()>,
}

/// The parts of a request that `git http-backend` needs.
#[derive(Default)]
struct Request {
    method: String,
    path: String,
    query: String,
    /// Environment variables created from headers.
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl GitServer {
    /// Serves the directory that a repository is in.
    pub(crate) async fn start(repository: &Repository) -> Result<Self> {
        let root = repository.path().parent().context("a repository is in a directory")?.to_owned();
        let port = free_port()?;
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let mut tasks = JoinSet::new();
        let served = root.clone();
        tasks.spawn_local(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let root = served.clone();
                // A client that went away needs no answer.
                connections
                    .spawn_local(async move { answer(stream, &root).await.unwrap_or_default() });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { root, port, tasks })
    }

    /// Returns the URL of a repository.
    pub(crate) fn url(&self, repository: &Repository) -> Result<String> {
        let path = repository
            .path()
            .strip_prefix(&self.root)
            .context("a repository of this server's directory")?;
        Ok(format!("http://127.0.0.1:{}/{}", self.port, path.display()))
    }
}

async fn answer(mut stream: TcpStream, root: &Path) -> Result<()> {
    let (read, mut write) = stream.split();
    let request = Request::read(BufReader::new(read)).await?;
    let output = backend(root, &request).await?;
    let blank = b"\r\n\r\n";
    let end = output
        .windows(blank.len())
        .position(|window| window == blank)
        .context("an answer has headers")?;
    let (head, body) = (std::str::from_utf8(&output[..end])?, &output[end + blank.len()..]);
    // A CGI program writes `Status:` if it is not 200.
    let (status, headers): (Vec<_>, Vec<_>) =
        head.split("\r\n").partition(|line| line.starts_with("Status: "));
    let status = status.first().and_then(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let head = format!(
        "HTTP/1.1 {status}\r\n{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        headers.join("\r\n"),
        body.len()
    );
    write.write_all(head.as_bytes()).await?;
    write.write_all(body).await?;
    write.shutdown().await?;
    Ok(())
}

impl Request {
    async fn read(mut stream: BufReader<impl tokio::io::AsyncRead + Unpin>) -> Result<Self> {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let mut words = line.split_whitespace();
        let (method, target) =
            words.next().zip(words.next()).context("a request has a method and a target")?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method: method.into(),
            path: path.into(),
            query: query.into(),
            ..Self::default()
        };
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse()?,
                "content-type" => request.headers.push(("CONTENT_TYPE", value.to_owned())),
                "content-encoding" => {
                    request.headers.push(("HTTP_CONTENT_ENCODING", value.to_owned()));
                }
                "git-protocol" => request.headers.push(("GIT_PROTOCOL", value.to_owned())),
                "transfer-encoding" => anyhow::bail!("a body without length: {value}"),
                _ => {}
            }
        }
        request.body.resize(length, 0);
        stream.read_exact(&mut request.body).await?;
        Ok(request)
    }
}

/// Returns the output of the program: headers, an empty line, and the body.
async fn backend(root: &Path, request: &Request) -> Result<Vec<u8>> {
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("REQUEST_METHOD", &request.method)
        .env("PATH_INFO", &request.path)
        .env("QUERY_STRING", &request.query)
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .envs(request.headers.iter().map(|(name, value)| (*name, value.as_str())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("running git http-backend")?;
    // Requests of a few kilobytes fit into the pipe before the program answers.
    let mut stdin = child.stdin.take().context("its standard input")?;
    stdin.write_all(&request.body).await?;
    drop(stdin);
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "git http-backend: {}", output.status);
    Ok(output.stdout)
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn what_was_pushed_is_cloned_over_http() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let repository = Repository::create(directory.path(), "fleet").await?;
    std::fs::write(repository.checkout().join("file"), "content")?;
    let commit = repository.commit("A file").await?;
    let server = GitServer::start(&repository).await?;

    let clone = directory.path().join("clone");
    let url = server.url(&repository)?;
    let output = Command::new("git")
        .args(["clone", "--quiet", &url])
        .arg(&clone)
        .kill_on_drop(true)
        .output()
        .await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ensure!(std::fs::read_to_string(clone.join("file"))? == "content");
    let head = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(&clone).output().await?;
    ensure!(String::from_utf8_lossy(&head.stdout).trim() == commit);

    let absent = Command::new("git")
        .args(["ls-remote", &url.replace("fleet", "absent")])
        .env("GIT_TERMINAL_PROMPT", "0")
        .output()
        .await?;
    ensure!(!absent.status.success(), "git listed a missing repository");
    Ok(())
}
