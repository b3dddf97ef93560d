//! HTTPS: who is trusted, and whom the server lets in; the library, and the command with its flags.
//! Certificates are made anew for every test.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Command;

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use millrace_certificates::Authority;
use millrace_ddl::{
    Category, ClientError, ClientIdentity, ClientOptions, DdlClient, Declared, Secret, Signals,
    TableOptions, TlsCertificates, render,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// Answers every request with a wrong-password exception: who reads it has come through TLS.
struct Server {
    url: String,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// `clients`: only those are let in whom this authority signed.
    async fn start(authority: &Authority, clients: Option<&Authority>) -> Self {
        let shown = authority.sign("localhost");
        let config = match clients {
            None => shown.server(),
            Some(clients) => shown.server_for(clients),
        };
        let acceptor = TlsAcceptor::from(config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    let answer = service_fn(|_| async {
                        let text = "Code: 516. DB::Exception: wrong password";
                        let response = Response::builder()
                            .status(403)
                            .header("X-ClickHouse-Exception-Code", "516");
                        Ok::<_, Infallible>(response.body(Full::new(Bytes::from(text))).unwrap())
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Self { url, task }
    }
}

fn identity(signed: &millrace_certificates::Identity) -> ClientIdentity {
    ClientIdentity {
        certificate_pem: signed.pem().into_bytes(),
        key_pem: Secret::new(signed.key_pem()),
    }
}

async fn ask(server: &Server, tls: TlsCertificates) -> ClientError {
    let mut options = ClientOptions::new(vec![server.url.parse().unwrap()]);
    options.tls = tls;
    let name = || "otel".parse().unwrap();
    let declared = Declared::uniform(name(), name(), Signals::ALL, &TableOptions::default());
    let statement = render::create_all(&declared).remove(0);
    DdlClient::new(options).unwrap().execute(&statement).await.unwrap_err()
}

/// Scenario: the server's authority is trusted, another's is, or the server wants a certificate and
/// gets none, a stranger's, ours. Guarantee: only the right ones come through; the others are TLS
/// errors, told apart from a server that is down.
#[tokio::test]
async fn certificates_decide_who_comes_through() {
    let (ours, strange) = (Authority::new("ours"), Authority::new("strange"));
    let trusting = |authority: &Authority| Some(authority.pem().into_bytes());
    let open = Server::start(&ours, None).await;
    let through = ask(&open, TlsCertificates { ca_pem: trusting(&ours), identity: None }).await;
    assert_eq!(through.category(), Category::Authentication, "{through}");
    let distrusted =
        ask(&open, TlsCertificates { ca_pem: trusting(&strange), identity: None }).await;
    assert_eq!(distrusted.category(), Category::Tls, "{distrusted}");

    let closed = Server::start(&ours, Some(&ours)).await;
    let nobody = ask(&closed, TlsCertificates { ca_pem: trusting(&ours), identity: None }).await;
    assert_eq!(nobody.category(), Category::Tls, "{nobody}");
    let stranger = Some(identity(&strange.sign("otel")));
    let stranger =
        ask(&closed, TlsCertificates { ca_pem: trusting(&ours), identity: stranger }).await;
    assert_eq!(stranger.category(), Category::Tls, "{stranger}");
    let known = Some(identity(&ours.sign("otel")));
    let known = ask(&closed, TlsCertificates { ca_pem: trusting(&ours), identity: known }).await;
    assert_eq!(known.category(), Category::Authentication, "{known}");
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Scenario: the command with files for authority, certificate and key; without the key; with a file
/// that is not there. Guarantee: it comes through; or says which flag or file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_reads_certificates_from_files() {
    let ours = Authority::new("ours");
    let server = Server::start(&ours, Some(&ours)).await;
    let folder = tempfile::tempdir().unwrap();
    let signed = ours.sign("otel");
    let ca = write(folder.path(), "ca.crt", &ours.pem());
    let certificate = write(folder.path(), "tls.crt", &signed.pem());
    let key = write(folder.path(), "tls.key", &signed.key_pem());
    let password = write(folder.path(), "password", "hunter2\n");
    let run = |files: &[(&str, &Path)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clickhouse-ddl"));
        command.args(["verify", "--traces", "--endpoint", &server.url]);
        for (flag, path) in files {
            command.arg(flag).arg(path);
        }
        let output = command.env_remove("CLICKHOUSE_PASSWORD").output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (ca, certificate) = (("--ca-file", &*ca), ("--certificate-file", &*certificate));
    let (key, password) = (("--key-file", &*key), ("--password-file", &*password));
    let (code, error) = run(&[ca, certificate, key, password]);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("refuses user \"default\""), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
    let (code, error) = run(&[ca, certificate]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("--key-file"), "{error}");
    let (code, error) = run(&[ca]);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("the TLS connection to"), "{error}");
    let (code, error) = run(&[("--ca-file", Path::new("/nowhere/ca.crt"))]);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("/nowhere/ca.crt"), "{error}");
}
