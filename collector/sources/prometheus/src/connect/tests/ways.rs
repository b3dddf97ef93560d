//! Tests of proxies, redirects, refused addresses and endless heads.

use std::sync::Arc;

use millrace_certificates::Authority;
use millrace_config::{Authorization, BasicAuth, HttpAccess, HttpTls, NoProxy, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::super::{Connector, HostNames, Network, REDIRECTS_MAX};
use super::authorization::oauth2;
use super::server::{Files, Server, connector, get, ok, redirect, status};

/// Starts a proxy that connects to any server for clients with `me:pass`. Returns its port and the
/// requests.
async fn tunnels() -> (u16, tokio::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, asked) = tokio::sync::mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let server = head.split(' ').nth(1).unwrap().to_owned();
                if !head.contains("proxy-authorization: Basic bWU6cGFzcw==\r\n") {
                    let refusal = status("407 Proxy Authentication Required");
                    stream.write_all(refusal.as_bytes()).await.unwrap();
                    return;
                }
                sender.send(head).await.unwrap();
                let mut server = TcpStream::connect(server).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut server).await;
            });
        }
    });
    (port, asked)
}

fn through(port: u16, basic_auth: Option<BasicAuth>, no_proxy: &[&str]) -> Option<Proxy> {
    let url = format!("http://127.0.0.1:{port}").parse().unwrap();
    let no_proxy = no_proxy.iter().map(|text| NoProxy::new(text).unwrap()).collect();
    Some(Proxy { url, basic_auth, no_proxy })
}

/// Scenario: a target over https is scraped through a proxy that requires a password, with and
/// without it. Guarantee: the proxy gets a `CONNECT` and sees nothing else; the certificate is the
/// target's.
#[tokio::test]
async fn a_proxy_connects_to_encrypted_targets() {
    let (files, ours) = (Files::new(), Authority::new("ours"));
    let server = Server::with(ours.sign("localhost").server(), |_| ok("a 1\n")).await;
    let (port, mut asked) = tunnels().await;
    let tls = Some(files.trust(&ours));
    let authorization = Some(Authorization {
        r#type: "Bearer".into(),
        credentials_file: files.write("token", "t"),
    });
    let basic = BasicAuth {
        username: Some("me".into()),
        password_file: Some(files.write("password", "pass")),
        ..BasicAuth::default()
    };
    let proxy = through(port, Some(basic), &[]);
    let access = HttpAccess { tls, authorization, proxy, ..HttpAccess::default() };
    assert_eq!(get(&connector(&access), &server.url("/m")).await.unwrap(), "a 1\n");
    let head = asked.recv().await.unwrap();
    assert!(head.starts_with(&format!("CONNECT localhost:{}", server.address.port())), "{head}");
    assert!(!head.contains("\r\nauthorization:"), "{head}");
    assert!(server.asked()[0].contains("\r\nauthorization: Bearer t\r\n"));
    assert!(!server.asked()[0].contains("proxy-authorization"));
    let nobody = HttpAccess { proxy: through(port, None, &[]), ..access };
    let error = get(&connector(&nobody), &server.url("/m")).await.unwrap_err();
    assert!(error.contains("407") && error.contains("proxy.basicAuth"), "{error}");
}

/// Scenario: one target over http is scraped through a proxy, one without it. Guarantee: the proxy
/// receives the complete URL; the other target is connected to directly.
#[tokio::test]
async fn a_proxy_is_sent_whole_urls_of_plain_targets() {
    let proxy = Server::new(|_| ok("by proxy")).await;
    let server = Server::new(|_| ok("straight")).await;
    let proxied = through(proxy.address.port(), None, &["localhost"]);
    let asking = connector(&HttpAccess { proxy: proxied, ..HttpAccess::default() });
    let far = "http://shop.example:8080/m?a=b".parse().unwrap();
    assert_eq!(get(&asking, &far).await.unwrap(), "by proxy");
    let asked = &proxy.asked()[0];
    assert!(asked.starts_with("GET http://shop.example:8080/m?a=b HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("host: shop.example:8080\r\n"), "{asked}");
    assert_eq!(get(&asking, &server.url("/")).await.unwrap(), "straight");
}

/// Scenario: redirects lead to the same server, to another one, in a loop, to nowhere, from https
/// to http; in one job they are off. Guarantee: the first two are followed, the second without
/// authorization; the others fail with the reason.
#[tokio::test]
async fn redirects_are_followed_with_care() {
    let files = Files::new();
    let other = Server::new(|_| ok("other")).await;
    let (to_other, ours) = (other.url("/x").to_string(), Authority::new("ours"));
    let answers = move |request: &str| match request.split(' ').nth(1).unwrap() {
        "/near" => redirect("there?x=y"),
        "/there?x=y" => ok("there"),
        "/other" => redirect(&to_other),
        "/loop" => redirect("/loop"),
        "/file" => redirect("file:///etc/passwd"),
        _ => status("302 Found"),
    };
    let tls = ours.sign("localhost").server();
    let (plain, encrypted) = (Server::new(answers.clone()).await, Server::with(tls, answers).await);
    let authorization = Some(Authorization {
        r#type: "Bearer".into(),
        credentials_file: files.write("token", "t"),
    });
    let tls = Some(files.trust(&ours));
    let access = HttpAccess { authorization, tls, follow_redirects: true, ..HttpAccess::default() };
    let asking = connector(&access);
    assert_eq!(get(&asking, &plain.url("/near")).await.unwrap(), "there");
    assert!(plain.asked().iter().all(|it| it.contains("authorization: Bearer t")));
    assert_eq!(get(&asking, &plain.url("/other")).await.unwrap(), "other");
    assert!(!other.asked()[0].contains("authorization"), "{:?}", other.asked());
    for (url, said) in [
        (plain.url("/loop"), "it redirects more than 10 times"),
        (plain.url("/file"), "it redirects to an invalid URL"),
        (plain.url("/nowhere"), "it redirects without a location"),
        (encrypted.url("/other"), "it redirects from https to http, which is not followed"),
    ] {
        let error = get(&asking, &url).await.unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    let loops = plain.asked().iter().filter(|it| it.starts_with("GET /loop ")).count();
    assert_eq!(loops, REDIRECTS_MAX + 1);
    let still = connector(&HttpAccess { follow_redirects: false, ..access });
    let error = get(&still, &plain.url("/near")).await.unwrap_err();
    assert!(error.contains("302 Found; redirects are not followed"), "{error}");
}

/// Scenario: a redirect leads to another server that requires a client certificate. Guarantee: ours
/// is not presented to it.
#[tokio::test]
async fn a_certificate_is_not_shown_to_another_server() {
    let (files, ours) = (Files::new(), Authority::new("ours"));
    let wants = ours.sign("localhost").server_for(&ours);
    let other = Server::with(Arc::clone(&wants), |_| ok("other")).await;
    let to_other = other.url("/").to_string();
    let server = Server::with(wants, move |_| redirect(&to_other)).await;
    let own = ours.sign("scraper");
    let tls = HttpTls {
        cert_file: Some(files.write("tls.crt", &own.pem())),
        key_file: Some(files.write("tls.key", &own.key_pem())),
        ..files.trust(&ours)
    };
    let access = HttpAccess { tls: Some(tls), follow_redirects: true, ..HttpAccess::default() };
    let error = get(&connector(&access), &server.url("/")).await.unwrap_err();
    assert!(error.contains("CertificateRequired"), "{error}");
    assert_eq!((server.asked().len(), other.asked().len()), (1, 0));
}

/// Scenario: a token server over https is reached through a proxy with a password, its target
/// directly; then without the password. Guarantee: the proxy connects only to the token server, and
/// its refusal is reported.
#[tokio::test]
async fn a_token_may_be_asked_for_through_a_proxy() {
    let (files, ours) = (Files::new(), Authority::new("ours"));
    let token = r#"{"access_token":"t1","token_type":"Bearer"}"#;
    let tokens = Server::with(ours.sign("localhost").server(), move |_| ok(token)).await;
    let target = Server::new(|_| ok("a 1\n")).await;
    let (port, mut asked) = tunnels().await;
    let basic = BasicAuth {
        username: Some("me".into()),
        username_file: None,
        password_file: Some(files.write("password", "pass")),
    };
    let mut access = oauth2(&files, &tokens);
    let settings = access.oauth2.as_mut().unwrap();
    settings.tls = Some(files.trust(&ours));
    settings.proxy = through(port, Some(basic), &[]);
    assert_eq!(get(&connector(&access), &target.url("/")).await.unwrap(), "a 1\n");
    assert!(target.asked()[0].contains("authorization: Bearer t1\r\n"), "{:?}", target.asked());
    assert!(tokens.asked()[0].starts_with("POST /token HTTP/1.1\r\n"), "{:?}", tokens.asked());
    let head = asked.recv().await.unwrap();
    assert!(head.starts_with(&format!("CONNECT localhost:{} ", tokens.address.port())), "{head}");
    assert!(asked.try_recv().is_err(), "the target is asked straight");
    access.oauth2.as_mut().unwrap().proxy = through(port, None, &[]);
    let error = get(&connector(&access), &target.url("/")).await.unwrap_err();
    assert!(error.contains("no token from") && error.contains("407"), "{error}");
}

/// Scenario: a local address is a target, by name or mapped, a proxy, a token server, or the target
/// of a proxy. Guarantee: each is refused before anything is sent to it.
#[tokio::test]
async fn local_addresses_are_refused_everywhere() {
    let (files, server) = (Files::new(), Server::new(|_| ok("a 1\n")).await);
    let network = Network::new(false, HostNames::of_system());
    let strict = |access: &HttpAccess| Connector::new(access, &network);
    let port = server.address.port();
    let far = "http://10.255.255.1:1/".parse().unwrap();
    let usual = HttpAccess::default();
    let by_proxy = HttpAccess { proxy: through(port, None, &[]), ..usual.clone() };
    let by_token = oauth2(&files, &server);
    let mut by_token_proxy = by_token.clone();
    let tokens = by_token_proxy.oauth2.as_mut().unwrap();
    tokens.token_url = "http://10.255.255.1:1/token".parse().unwrap();
    tokens.proxy = through(port, None, &[]);
    let mapped = format!("http://[::ffff:127.0.0.1]:{port}/").parse().unwrap();
    for (access, url) in [
        (&usual, &server.url("/")),
        (&usual, &mapped),
        (&by_proxy, &far),
        (&by_proxy, &"http://sub.localhost/".parse().unwrap()),
        (&by_token, &far),
        (&by_token_proxy, &far),
    ] {
        let error = get(&strict(access), url).await.unwrap_err();
        assert!(error.contains("loopback, link-local or unusable"), "{error}");
    }
    assert!(server.asked().is_empty());
}

/// Scenario: one server sends endless headers, one a header that is too long. Guarantee: both fail
/// as soon as the head is too long.
#[tokio::test]
async fn heads_without_end_are_broken_off() {
    let many: String = (0..100_000).map(|n| format!("x-{n}: y\r\n")).collect();
    let long = format!("x: {}\r\n", "y".repeat(1 << 20));
    for headers in [many, long] {
        let server = Server::new(move |_| format!("HTTP/1.1 200 OK\r\n{headers}")).await;
        let error = get(&connector(&HttpAccess::default()), &server.url("/")).await.unwrap_err();
        assert!(error.contains("cannot read the answer"), "{error}");
    }
}
