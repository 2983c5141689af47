//! The real client on a real socket, for behavior that a test service would hide.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube::Config;
use kube_io::actions::delete_pod;
use kube_io::call::CallError;
use kube_io::client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Answers every request with 429 and counts them.
async fn refuses(listener: TcpListener, requests: Arc<AtomicUsize>) {
    let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"TooManyRequests","message":"slow down","code":429}"#;
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.windows(4).any(|window| window == b"\r\n\r\n") {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).await.unwrap();
            head.extend_from_slice(&buffer[..count]);
        }
        requests.fetch_add(1, Ordering::SeqCst);
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn a_refused_deletion_is_one_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let server = tokio::spawn(refuses(listener, Arc::clone(&requests)));
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let client = client::from_config(config).unwrap();
    let refused = delete_pod(&client, "namespace", "pod", "uid").await;
    assert!(matches!(refused, Err(CallError::Refused { code: 429, .. })), "{refused:?}");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    server.abort();
}
