//! Tests of the private parts of `coordination/probe.rs`, against scripted servers on loopback.

use std::time::Duration;

use millrace_certificates::Authority;
use millrace_coordination::observation::ServerRole;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::outbound::credentials::Login;

const MNTR_TEXT: &str = "zk_version\t3.9\nzk_server_state\tleader\nzk_followers\t2\n\
    zk_synced_followers\t2\nzk_outstanding_requests\t4\n";

/// A scripted server's behavior on each connection.
#[derive(Clone, Copy)]
enum Does {
    /// Answers four-letter words.
    Words,
    /// Answers as Keeper's HTTP API, with or without a leader.
    Api { has_leader: bool },
    /// Sends this text and closes.
    Says(&'static str),
    /// Writes without end.
    Floods,
    /// Accepts the query and stays silent.
    Hangs,
}

async fn serve(does: Does) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, does));
        }
    });
    let scheme = if matches!(does, Does::Api { .. }) { "http://" } else { "" };
    format!("{scheme}{at}").parse().unwrap()
}

/// Serves behind TLS, with a certificate for this name.
async fn serve_encrypted(does: Does, name: &str, authority: &Authority) -> Address {
    let acceptor = TlsAcceptor::from(authority.sign(name).server());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    converse(stream, does).await;
                }
            });
        }
    });
    let scheme = if matches!(does, Does::Api { .. }) { "https://" } else { "" };
    format!("{scheme}{at}").parse().unwrap()
}

async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, does: Does) {
    let mut question = [0_u8; 1_024];
    let read = stream.read(&mut question).await.unwrap_or(0);
    let question = String::from_utf8_lossy(&question[..read]).into_owned();
    let answer = match does {
        Does::Words if question == "mntr" => MNTR_TEXT.to_owned(),
        Does::Words if question == "dirs" => "snapshot_dir_size: 5\nlog_dir_size: 6\n".to_owned(),
        Does::Words => "imok".to_owned(),
        Does::Says(text) => text.to_owned(),
        Does::Api { has_leader } => api(&question, has_leader),
        Does::Hangs => return std::future::pending().await,
        Does::Floods => {
            while stream.write_all(&[b'x'; 8_192]).await.is_ok() {}
            return;
        }
    };
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.flush().await;
}

fn api(question: &str, has_leader: bool) -> String {
    assert!(question.to_lowercase().contains("authorization: basic dtpw"), "{question}");
    let (status, body) = if question.starts_with("GET /ready ") {
        let status = if has_leader { "200 OK" } else { "503 Service Unavailable" };
        (status, serde_json::json!({"details": {"hasLeader": has_leader}, "status": "x"}))
    } else if question.starts_with("GET /api/v1/commands/mntr ") {
        ("200 OK", serde_json::json!({"result": MNTR_TEXT}))
    } else {
        ("403 Forbidden", serde_json::json!({"message": "disabled"}))
    };
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn ask(servers: Vec<Address>) -> ProbeRequest {
    let login = Login { username: "u".into(), password: "p".into() };
    ProbeRequest { servers, login: Some(login), ..ProbeRequest::default() }
}

async fn said(does: Does) -> Result<ServerReport, ProbeError> {
    let ask = ask(vec![serve(does).await]);
    Prober::default().probe_servers(&ask).await.remove(0).report
}

/// Scenario: four-letter words, and Keeper's HTTP API with credentials. Guarantee: both give the
/// same report; it has bytes on disk only where they are requested and allowed.
#[tokio::test]
async fn words_and_the_http_api_are_read_alike() {
    for does in [Does::Words, Does::Api { has_leader: true }] {
        let report = said(does).await.unwrap();
        assert_eq!((report.role, report.outstanding_requests), (ServerRole::Leader, Some(4)));
        assert_eq!((report.synced_followers, report.disk_bytes), (Some(2), None));
    }
    let with_disk = |address| ProbeRequest { disk: true, ..ask(vec![address]) };
    let asked = with_disk(serve(Does::Words).await);
    let servers = Prober::default().probe_servers(&asked).await;
    assert_eq!(servers[0].report.as_ref().unwrap().disk_bytes, Some(11));
    let asked = with_disk(serve(Does::Api { has_leader: true }).await);
    let servers = Prober::default().probe_servers(&asked).await;
    assert_eq!(servers[0].report.as_ref().unwrap().disk_bytes, None);
}

/// Scenario: a server without a leader, in both protocols; one that doesn't allow the word, a web
/// server, one that closes at once, one that floods. Guarantee: each is distinguished, and none
/// blocks the query.
#[tokio::test]
async fn servers_that_dont_serve_are_told_apart() {
    let words = "This ZooKeeper instance is not currently serving requests\n";
    assert_eq!(said(Does::Says(words)).await, Err(ProbeError::NotServing));
    assert_eq!(said(Does::Api { has_leader: false }).await, Err(ProbeError::NotServing));
    let words = "mntr is not executed because it is not in the whitelist.\n";
    assert_eq!(said(Does::Says(words)).await, Err(ProbeError::NotAllowed("mntr")));
    assert_eq!(
        said(Does::Says("HTTP/1.1 400 Bad Request\r\n\r\n")).await,
        Err(ProbeError::Foreign)
    );
    assert!(matches!(said(Does::Says("")).await, Err(ProbeError::Unreachable(_))));
    assert_eq!(said(Does::Floods).await, Err(ProbeError::Foreign));
}

/// Scenario: four-letter words and the HTTP API behind TLS, with a certificate of the trusted
/// authority, of another, and for another name; then queried without TLS. Guarantee: the first is
/// read, although it closes without a TLS close notification; the errors of the next two name the
/// certificate; the last is silent, and never reported as a server without a leader.
#[tokio::test]
async fn certificates_decide_which_server_is_believed() {
    let (trusted, other) = (Authority::new("trusted"), Authority::new("other"));
    for does in [Does::Words, Does::Api { has_leader: true }] {
        let look = async |address: Address, encrypted, prober: Prober| {
            let pem = trusted.pem().into_bytes();
            let ask = ProbeRequest { encrypted, authority: Some(pem), ..ask(vec![address]) };
            prober.probe_servers(&ask).await.remove(0).report
        };
        let right = serve_encrypted(does, "127.0.0.1", &trusted).await;
        let report = look(right.clone(), true, Prober::default()).await.unwrap();
        assert_eq!((report.role, report.synced_followers), (ServerRole::Leader, Some(2)));
        let foreign = serve_encrypted(does, "127.0.0.1", &other).await;
        let misnamed = serve_encrypted(does, "keeper-1.db", &trusted).await;
        for (address, word) in [(foreign, "UnknownIssuer"), (misnamed, "not valid for name")] {
            let said = look(address, true, Prober::default()).await;
            let Err(ProbeError::Unreachable(why)) = &said else { panic!("{said:?}") };
            assert!(why.contains("invalid peer certificate") && why.contains(word), "{why}");
        }
        let plain = right.text.trim_start_matches("https://");
        let scheme = if plain.len() < right.text.len() { "http://" } else { "" };
        // A word is shorter than the head of a TLS record: both sides wait.
        let brief = Prober { probe_max: Duration::from_millis(500), ..Prober::default() };
        let said = look(format!("{scheme}{plain}").parse().unwrap(), false, brief).await;
        assert!(matches!(said, Err(ProbeError::Unreachable(_) | ProbeError::Foreign)), "{said:?}");
    }
}

/// Scenario: three servers, of which one hangs and one doesn't exist. Guarantee: the one that
/// answers is read, and each keeps its position and name; all within the time of one query.
#[tokio::test]
async fn a_server_that_hangs_delays_no_other() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let servers =
        vec![serve(Does::Hangs).await, free.to_string().parse().unwrap(), serve(Does::Words).await];
    let names: Vec<String> = servers.iter().map(|it| it.text.clone()).collect();
    let prober = Prober { probe_max: Duration::from_millis(1_500), ..Prober::default() };
    let seen = prober.probe_servers(&ask(servers)).await;
    assert_eq!(seen.iter().map(|it| it.address.clone()).collect::<Vec<_>>(), names);
    assert_eq!(seen[0].report, Err(ProbeError::Unreachable("no answer in 1.5 s".into())));
    assert!(matches!(seen[1].report, Err(ProbeError::Unreachable(_))) && seen[2].report.is_ok());
}

/// Scenario: hosts that the operator may not connect to. Guarantee: it doesn't connect, and reports
/// why.
#[tokio::test]
async fn hosts_that_are_not_allowed_are_not_asked() {
    let refused = async |prober: &Prober, address: &str| {
        let asked = ask(vec![address.parse().unwrap()]);
        let Err(ProbeError::Unreachable(why)) = prober.probe_servers(&asked).await.remove(0).report
        else {
            panic!("{address} was asked");
        };
        why
    };
    let listed = Outbound::new(vec!["*.example.com".parse().unwrap()], None);
    let listed = Prober::bounded_by(listed);
    assert!(refused(&listed, "keeper:2181").await.contains("allowedHosts"));
    let any = Prober::bounded_by(Outbound::new(Vec::new(), None));
    assert!(refused(&any, "2130706433:2181").await.contains("loopback"));
    let all = Prober::default();
    assert!(refused(&all, "http://169.254.169.254:80").await.contains("link-local"));
}

/// Scenario: valid addresses of a spec, and invalid ones. Guarantee: the first are parsed, the
/// others refused.
#[test]
fn addresses_are_read_or_refused() {
    for (text, host, port) in [
        ("zk-0.zk:2181", "zk-0.zk", 2_181),
        ("[fd00::7]:9181", "fd00::7", 9_181),
        ("https://keeper-0:9443", "keeper-0", 9_443),
    ] {
        let address: Address = text.parse().unwrap();
        assert_eq!((address.host.as_str(), address.port), (host, port));
    }
    for text in ["", "zk-0", ":2181", "ftp://a:1", "http://a:99999"] {
        assert!(text.parse::<Address>().is_err(), "{text}");
    }
}
