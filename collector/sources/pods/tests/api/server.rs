//! A server that returns its responses in order, whatever the request.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Longer than any wait here should take, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The end of a response.
#[derive(Clone, Copy)]
pub(crate) enum Then {
    /// The response is complete.
    End,
    /// The connection breaks.
    Break,
    /// The response never ends.
    Hold,
}

/// A response: its status, its parts, and its end.
pub(crate) struct Answer(pub(crate) u16, pub(crate) Vec<String>, pub(crate) Then);

/// Serves one connection after the other; the token changes from the second on.
pub(crate) async fn serve(
    listener: TcpListener,
    mut answers: VecDeque<Answer>,
    requests: Arc<Mutex<Vec<String>>>,
    token: PathBuf,
) {
    let mut held = Vec::new();
    while let Some(answer) = answers.pop_front() {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        requests.lock().unwrap().push(String::from_utf8(head).unwrap());
        std::fs::write(&token, "second").unwrap();
        if reply(&mut stream, &answer).await {
            held.push(stream);
        }
    }
    std::future::pending::<()>().await;
}

/// Sends a response. Returns whether the connection is held.
async fn reply(stream: &mut TcpStream, Answer(status, parts, then): &Answer) -> bool {
    let mut text = format!("HTTP/1.1 {status} X\r\ntransfer-encoding: chunked\r\n\r\n");
    for part in parts {
        text.push_str(&format!("{:x}\r\n{part}\r\n", part.len()));
        stream.write_all(std::mem::take(&mut text).as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    if matches!(then, Then::End) {
        text.push_str("0\r\n\r\n");
    }
    stream.write_all(text.as_bytes()).await.unwrap();
    matches!(then, Then::Hold)
}
