//! A scripted ClickHouse server on loopback: it answers each question by a function, and remembers
//! what it was asked.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use millrace_ddl::{ClientOptions, DdlClient};

/// Rows of a `RowBinaryWithNamesAndTypes` answer, or an exception.
pub(crate) type Answer = Result<Vec<u8>, String>;

/// What a server was asked, in order.
pub(crate) type Asked = Arc<Mutex<Vec<String>>>;

/// A text as a row has it.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    [&[length], text.as_bytes()].concat()
}

/// The head of an answer: its columns' names and types.
pub(crate) fn head(columns: &[(&str, &str)]) -> Vec<u8> {
    let names = columns.iter().flat_map(|(name, _)| text(name));
    let types = columns.iter().flat_map(|(_, ty)| text(ty));
    [u8::try_from(columns.len()).unwrap()].into_iter().chain(names).chain(types).collect()
}

/// A server that answers by this function, one request after the other, and everything it was
/// asked. Ends with the test's process.
pub(crate) fn serve(mut answer: impl FnMut(&str) -> Answer + Send + 'static) -> (DdlClient, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let Some(question) = read_question(&mut socket) else { continue };
            seen.lock().unwrap().push(question.clone());
            let (status, body) = match answer(&question) {
                Ok(body) => ("200 OK", body),
                Err(words) => ("500 Internal Server Error", words.into_bytes()),
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            let _ = socket.write_all(&[head.into_bytes(), body].concat());
        }
    });
    let client = DdlClient::new(ClientOptions::new(vec![url.parse().unwrap()])).unwrap();
    (client, asked)
}

fn read_question(socket: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    let mut piece = [0_u8; 65_536];
    loop {
        let read = socket.read(&mut piece).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let lines = head.to_lowercase();
        let length = lines.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.and_then(|it| it.trim().parse().ok()).unwrap_or(0_usize);
        if body.len() >= length {
            return Some(body.to_owned());
        }
    }
}

/// What a server without tables answers to the questions of an observation; `None`: another
/// question.
pub(crate) fn answer_empty(question: &str) -> Option<Vec<u8>> {
    let columns: &[(&str, &str)] = if question.contains("FROM system.tables") {
        &[
            ("name", "String"),
            ("engine", "String"),
            ("engine_full", "String"),
            ("partition_key", "String"),
            ("sorting_key", "String"),
            ("create_table_query", "String"),
            ("rows", "UInt64"),
            ("bytes", "UInt64"),
        ]
    } else if question.contains("FROM system.columns") {
        &[
            ("table", "String"),
            ("name", "String"),
            ("kind", "String"),
            ("default_kind", "String"),
            ("codec", "String"),
        ]
    } else if question.contains("FROM system.data_skipping_indices") {
        &[("table", "String"), ("name", "String"), ("expr", "String"), ("kind", "String")]
    } else {
        return None;
    };
    Some(head(columns))
}
