//! Servers on loopback whose responses a function returns, with or without TLS.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millrace_certificates::Authority;
use millrace_config::{HttpAccess, HttpTls, HttpUrl, SecretFile};
use rustls::ServerConfig;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::super::{Connector, HostNames, IdleSlot, Network};

/// Longer than any wait here should take, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

type Answers = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A server that records its requests.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    is_https: bool,
    tls: Arc<Mutex<Option<Arc<ServerConfig>>>>,
    asked: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Server {
    pub(super) async fn new(answers: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::start(None, Arc::new(answers)).await
    }

    pub(super) async fn with(
        tls: Arc<ServerConfig>,
        answers: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::start(Some(tls), Arc::new(answers)).await
    }

    async fn start(tls: Option<Arc<ServerConfig>>, answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_https = tls.is_some();
        let (tls, asked) = (Arc::new(Mutex::new(tls)), Arc::new(Mutex::new(Vec::new())));
        let (shared, log) = (Arc::clone(&tls), Arc::clone(&asked));
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let tls = shared.lock().unwrap().clone();
                let (log, answers) = (Arc::clone(&log), Arc::clone(&answers));
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &log, &answers).await,
                        Some(tls) => {
                            let accepted = TlsAcceptor::from(tls).accept(stream).into_fallible();
                            match accepted.await {
                                Ok(stream) => serve(stream, &log, &answers).await,
                                // Read to the end, so that a reset doesn't discard the alert.
                                Err((_, mut stream)) => {
                                    let _ = stream.shutdown().await;
                                    let _ = stream.read_to_end(&mut Vec::new()).await;
                                }
                            }
                        }
                    }
                });
            }
        });
        Self { address, is_https, tls, asked, connections, serving }
    }

    /// Presents another certificate from the next connection on.
    pub(super) fn renew(&self, tls: Arc<ServerConfig>) {
        *self.tls.lock().unwrap() = Some(tls);
    }

    /// Returns a URL with the name that the certificates are for.
    pub(super) fn url(&self, path: &str) -> HttpUrl {
        let scheme = if self.is_https { "https" } else { "http" };
        HttpUrl::new(&format!("{scheme}://localhost:{}{path}", self.address.port())).unwrap()
    }

    /// Returns the number of connections so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the requests so far.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Answers requests while the responses keep the connection alive.
async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    log: &Mutex<Vec<String>>,
    answers: &Answers,
) {
    while let Some(wanted) = request(&mut stream).await {
        log.lock().unwrap().push(wanted.clone());
        let answer = answers(&wanted);
        let _ = stream.write_all(answer.as_bytes()).await;
        if !answer.contains("connection: keep-alive") {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

async fn request(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Option<String> {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request).to_lowercase();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1);
            let length = length.map_or(0, |it| it.lines().next().unwrap().parse().unwrap());
            if request.len() >= head.len() + 4 + length {
                return Some(String::from_utf8(request).unwrap());
            }
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes).await {
            // This is a TLS handshake at a plain server: it refuses it as common servers do.
            Ok(read) if read > 0 && request.is_empty() && bytes[0] == 0x16 => {
                let _ = stream.write_all(status("400 Bad Request").as_bytes()).await;
                return None;
            }
            Ok(read) if read > 0 => request.extend_from_slice(&bytes[..read]),
            _ => return None,
        }
    }
}

pub(super) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The same as [`ok`], with the connection kept alive.
pub(super) fn ok_kept(body: &str) -> String {
    ok(body).replacen("\r\n", "\r\nconnection: keep-alive\r\n", 1)
}

pub(super) fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n")
}

pub(super) fn redirect(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
}

/// Files in a temporary directory.
pub(super) struct Files(TempDir);

impl Files {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn write(&self, name: &str, text: &str) -> SecretFile {
        std::fs::write(self.path(name), text).unwrap();
        SecretFile::new(self.path(name)).unwrap()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(super) fn trust(&self, authority: &Authority) -> HttpTls {
        let ca_file = Some(self.write("ca.crt", &authority.pem()));
        HttpTls { ca_file, ..HttpTls::default() }
    }
}

pub(super) fn connector(access: &HttpAccess) -> Connector {
    Connector::new(access, &Network::new(true, HostNames::of_system()))
}

/// Sends one request over the retained connection.
pub(super) async fn get_kept(connector: &Connector, url: &HttpUrl, kept: &IdleSlot) {
    use http_body_util::BodyExt;
    let asked = async {
        let mut answer =
            connector.get_reusing(url, &http::HeaderMap::new(), Some(kept)).await.unwrap();
        while let Some(frame) = answer.body.frame().await {
            frame.unwrap();
        }
        answer.retain_connection(kept);
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
}

/// Returns a response's body or the error's text.
pub(super) async fn get(connector: &Connector, url: &HttpUrl) -> Result<String, String> {
    use http_body_util::BodyExt;
    let asked = async {
        let answer = connector.get(url, &http::HeaderMap::new()).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let body = answer.body.collect().await.map_err(|error| error.to_string())?;
        Ok(String::from_utf8(body.to_bytes().to_vec()).unwrap())
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap()
}

/// Repeats a request until its result contains a text: files are read once a second.
pub(super) async fn until(connector: &Connector, url: &HttpUrl, wanted: &str) {
    let mut last = String::new();
    let asked = async {
        loop {
            last = get(connector, url).await.unwrap_or_else(|error| error);
            if last.contains(wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let is_done = tokio::time::timeout(PATIENCE, asked).await.is_ok();
    assert!(is_done, "{wanted} was wanted");
}
