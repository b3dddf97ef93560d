//! Tests of TLS: accepted and presented certificates, and the messages for the others.

use std::time::{Duration, Instant};

use http::HeaderMap;
use millrace_certificates::Authority;
use millrace_config::{HttpAccess, HttpTls};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::server::{Files, Server, connector, get, get_kept, ok, ok_kept, until};

fn with(tls: HttpTls) -> HttpAccess {
    HttpAccess { tls: Some(tls), ..HttpAccess::default() }
}

/// Scenario: certificates are valid, signed by another authority, by one of the same name, for
/// another name, or expired; one server has no TLS. Guarantee: the valid one is accepted; the error
/// of each other states the fault and the setting to change, with the certificate's names.
#[tokio::test]
async fn a_server_is_known_by_its_certificate() {
    let (files, ours) = (Files::new(), Authority::new("ours"));
    let trusting = connector(&with(files.trust(&ours)));
    let good = Server::with(ours.sign("localhost").server(), |_| ok("a 1\n")).await;
    assert_eq!(get(&trusting, &good.url("/m")).await.unwrap(), "a 1\n");
    let plain = Server::new(|_| ok("a 1\n")).await;
    let not_tls = plain.url("/").to_string().replace("http:", "https:").parse().unwrap();
    let not_trusted = "signed by a CA that is not trusted";
    for (server, url, said) in [
        (Some(Authority::new("theirs").sign("localhost")), None, not_trusted),
        (Some(Authority::new("ours").sign("localhost")), None, not_trusted),
        (Some(ours.sign("shop.net")), None, "not for localhost but for [shop.net]"),
        (Some(ours.sign_expired("localhost")), None, "its certificate has expired"),
        (None, Some(not_tls), "it doesn't speak TLS"),
    ] {
        let server = match server {
            Some(shown) => Some(Server::with(shown.server(), |_| ok("a 1\n")).await),
            None => None,
        };
        let url = url.unwrap_or_else(|| server.as_ref().unwrap().url("/m"));
        let error = get(&trusting, &url).await.unwrap_err();
        assert!(error.contains(said), "{error}");
        assert!(error.starts_with(&format!("TLS with {} failed", url.authority())), "{error}");
    }
    let system = connector(&HttpAccess::default());
    let error = get(&system, &good.url("/m")).await.unwrap_err();
    assert!(error.contains("tls.caFile"), "{error}");
}

/// Scenario: a certificate is for another name, which is set; another one is arbitrary, with checks
/// off. Guarantee: both are accepted.
#[tokio::test]
async fn names_can_be_set_and_checks_switched_off() {
    let (files, ours) = (Files::new(), Authority::new("ours"));
    let server = Server::with(ours.sign("shop.net").server(), |_| ok("a 1\n")).await;
    let named = HttpTls { server_name: Some("shop.net".into()), ..files.trust(&ours) };
    assert!(get(&connector(&with(named)), &server.url("/")).await.is_ok());
    let any = HttpTls { insecure_skip_verify: true, ..HttpTls::default() };
    assert!(get(&connector(&with(any)), &server.url("/")).await.is_ok());
}

/// Scenario: a server requires certificates of an authority; a client has none, another
/// authority's, then the right one, renewed in its files. Guarantee: only the right one is
/// accepted, without a restart, and the error of the others names the settings.
#[tokio::test]
async fn a_client_certificate_is_shown_and_renewed() {
    let (files, ours, clients) = (Files::new(), Authority::new("ours"), Authority::new("clients"));
    let tls = ours.sign("localhost").server_for(&clients);
    let server = Server::with(tls, |_| ok("a 1\n")).await;
    let bare = connector(&with(files.trust(&ours)));
    let error = get(&bare, &server.url("/")).await.unwrap_err();
    assert!(error.contains("CertificateRequired"), "{error}");
    let write = |authority: &Authority| {
        let shown = authority.sign("scraper");
        (files.write("tls.crt", &shown.pem()), files.write("tls.key", &shown.key_pem()))
    };
    let (cert_file, key_file) = write(&Authority::new("others"));
    let (cert_file, key_file) = (Some(cert_file), Some(key_file));
    let showing = connector(&with(HttpTls { cert_file, key_file, ..files.trust(&ours) }));
    assert!(get(&showing, &server.url("/")).await.is_err());
    write(&clients);
    until(&showing, &server.url("/"), "a 1").await;
    // Renewed files that can't be used leave the former certificate in use.
    files.write("tls.key", "no key");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) {
        assert_eq!(get(&showing, &server.url("/")).await.unwrap(), "a 1\n");
    }
}

/// Scenario: a connection is retained; the client certificate is renewed, then unchanged.
/// Guarantee: the next request has a connection with the new certificate, and otherwise the same
/// connection.
#[tokio::test]
async fn a_kept_connection_ends_with_its_certificate() {
    let (files, ours, clients) = (Files::new(), Authority::new("ours"), Authority::new("clients"));
    let tls = ours.sign("localhost").server_for(&clients);
    let server = Server::with(tls, |_| ok_kept("a 1\n")).await;
    let write = || {
        let shown = clients.sign("scraper");
        (files.write("tls.crt", &shown.pem()), files.write("tls.key", &shown.key_pem()))
    };
    let (cert_file, key_file) = write();
    let (cert_file, key_file) = (Some(cert_file), Some(key_file));
    let showing = connector(&with(HttpTls { cert_file, key_file, ..files.trust(&ours) }));
    let (kept, url) = (showing.idle_slot(), server.url("/"));
    for _ in 0..5 {
        get_kept(&showing, &url, &kept).await;
    }
    assert_eq!((server.connections(), server.asked().len()), (1, 5));
    write();
    // Files are read once a second.
    while server.connections() == 1 {
        get_kept(&showing, &url, &kept).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for _ in 0..5 {
        get_kept(&showing, &url, &kept).await;
    }
    assert_eq!(server.connections(), 2);
    kept.close_idle();
    get_kept(&showing, &url, &kept).await;
    assert_eq!(server.connections(), 3);
}

/// Scenario: a server's authority is replaced, then the file of trusted authorities. Guarantee: the
/// server is refused until the file has the authority, then accepted without a restart.
#[tokio::test]
async fn authorities_are_read_again() {
    let (files, first, second) = (Files::new(), Authority::new("first"), Authority::new("second"));
    let trusting = connector(&with(files.trust(&first)));
    let server = Server::with(first.sign("localhost").server(), |_| ok("a 1\n")).await;
    assert!(get(&trusting, &server.url("/")).await.is_ok());
    server.renew(second.sign("localhost").server());
    assert!(get(&trusting, &server.url("/")).await.is_err());
    files.trust(&second);
    until(&trusting, &server.url("/"), "a 1").await;
}

/// Scenario: files are missing, not PEM, or without their counterpart. Guarantee: the error names
/// the file and shows none of its content.
#[tokio::test]
async fn files_that_cannot_be_used_are_named_and_not_shown() {
    let (files, ours) = (Files::new(), Authority::new("ours"));
    let server = Server::with(ours.sign("localhost").server(), |_| ok("a 1\n")).await;
    let no_pem = HttpTls { ca_file: Some(files.write("x", "hunter2")), ..HttpTls::default() };
    let error = get(&connector(&with(no_pem)), &server.url("/")).await.unwrap_err();
    assert!(error.contains("contains no valid certificate in PEM"), "{error}");
    assert!(error.contains(&files.path("x").display().to_string()), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
    std::fs::remove_file(files.path("x")).unwrap();
    let absent = millrace_config::SecretFile::new(files.path("x")).unwrap();
    let absent = HttpTls { ca_file: Some(absent), ..HttpTls::default() };
    let error = get(&connector(&with(absent)), &server.url("/")).await.unwrap_err();
    assert!(error.contains("cannot read"), "{error}");
}

/// Scenario: a server accepts connections and never answers the handshake. Guarantee: the caller
/// can cancel the request, as a scrape does.
#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap()).parse().unwrap();
    let any = HttpTls { insecure_skip_verify: true, ..HttpTls::default() };
    let asking = connector(&with(any));
    let asked = tokio::spawn(async move { asking.get(&url, &HeaderMap::new()).await.is_ok() });
    let (mut stream, _) = silent.accept().await.unwrap();
    // The handshake has begun.
    stream.read_u8().await.unwrap();
    asked.abort();
    // No task remains that holds the connection.
    stream.read_to_end(&mut Vec::new()).await.unwrap();
}
