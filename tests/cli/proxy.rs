//! Console commands with the proxies of a real environment, against listeners on this machine.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use assert_cmd::Command;

/// A listener that records the first line of each request. It accepts a CONNECT as a proxy does,
/// records the request inside of it too, and then closes the connection.
struct Recorder {
    address: String,
    lines: Receiver<String>,
}

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let line = request(&mut stream);
                let connects = line.starts_with("CONNECT ");
                if sender.send(line).is_err() {
                    return;
                }
                if connects {
                    stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                    let _ = sender.send(request(&mut stream));
                }
            }
        });
        Self { address, lines }
    }

    /// Returns the method and target of each request so far.
    fn requests(&self) -> Vec<String> {
        let targets = self.lines.try_iter().map(|line| {
            let (target, _) = line.split_once('?').unwrap_or((&line, ""));
            target.trim_end_matches(" HTTP/1.1").to_owned()
        });
        targets.collect()
    }
}

/// Reads the head of a request, and returns its first line.
fn request(stream: &mut impl BufRead) -> String {
    let head: Vec<String> =
        stream.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    head.first().cloned().unwrap_or_default()
}

/// Runs `status` on a server with these variables. Returns the errors that it prints.
fn status(server: &str, proxy_url: Option<&str>, environment: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let proxy = proxy_url.map(|url| format!(", proxy-url: \"{url}\"")).unwrap_or_default();
    let text = format!(
        "apiVersion: v1
kind: Config
current-context: one
clusters: [{{name: one, cluster: {{server: \"{server}\"{proxy}}}}}]
users: [{{name: one, user: {{}}}}]
contexts: [{{name: one, context: {{cluster: one, user: one}}}}]
"
    );
    std::fs::write(&file, text).unwrap();
    let output = Command::cargo_bin("gpu-rollout")
        .unwrap()
        .env_clear()
        .envs(environment.iter().copied())
        .args(["status", "--kubeconfig"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// Returns the address of a local server that does not look local.
fn address_of(server: &Recorder) -> String {
    format!("http://{}", server.address.replace("127.0.0.1", "0.0.0.0"))
}

#[test]
fn proxy_of_the_environment_is_used() {
    for name in ["HTTPS_PROXY", "https_proxy"] {
        let (proxy, server) = (Recorder::start(), Recorder::start());
        let address = address_of(&server);
        let url = format!("http://{}", proxy.address);
        status(&address, None, &[(name, &url), ("NO_PROXY", "example.com,")]);
        let found = proxy.requests();
        assert_eq!(found[0], format!("CONNECT {}", address.trim_start_matches("http://")));
        assert!(found[1].starts_with("GET /api"), "{found:?}");
        assert_eq!(server.requests(), [""; 0], "the server was reached directly");
    }
}

#[test]
fn excluded_server_is_reached_directly() {
    for (name, excluded) in [("NO_PROXY", "example.com,0.0.0.0,"), ("no_proxy", "0.0.0.0/8")] {
        let (proxy, server) = (Recorder::start(), Recorder::start());
        let url = format!("http://{}", proxy.address);
        status(&address_of(&server), None, &[("HTTPS_PROXY", &url), (name, excluded)]);
        assert_eq!(proxy.requests(), [""; 0]);
        assert!(server.requests()[0].starts_with("GET /api"));
    }
}

#[test]
fn proxy_of_the_kubeconfig_precedes_the_environment() {
    let (proxy, server) = (Recorder::start(), Recorder::start());
    let url = format!("http://{}", proxy.address);
    let environment = [("HTTPS_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "*")];
    status(&address_of(&server), Some(&url), &environment);
    assert!(proxy.requests()[0].starts_with("CONNECT "));
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn unsupported_proxy_names_what_is_supported() {
    let environment = [("HTTPS_PROXY", "https://user:word@proxy.example:3128")];
    insta::assert_snapshot!(status("https://api.example:6443", None, &environment), @r"
    error: cannot use the proxy `https://proxy.example:3128`: the API server is reached through proxies with the address `http://…` or `socks5://…` only
    hint: set HTTPS_PROXY, or `proxy-url` in the kubeconfig, to such an address, or exclude the API server with NO_PROXY
    ");
}
