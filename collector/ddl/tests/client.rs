//! The client against a scripted HTTP server on loopback: how each kind of answer, and no answer,
//! is classed; which endpoint is asked; and that a password never shows.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use millrace_ddl::{
    AddressRule, Budget, Category, ClientError, ClientLimits, ClientOptions, DdlClient, Declared,
    MigrateOptions, RefusedAddresses, Secret, Signals, TableOptions, UserCredentials,
    converge_servers, observe_declared,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the server answers to every request.
#[derive(Clone, Copy)]
enum Script {
    Say(u16, &'static str),
    Hang,
    Cut,
    /// Says this status, and then more and more.
    Endless(u16),
}

/// A body without an end.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 16 * 1024])))))
    }
}

struct Server {
    url: String,
    asked: Arc<Mutex<Vec<(String, String, String)>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                if matches!(script, Script::Cut) {
                    continue; // dropped: the connection ends without a word
                }
                let seen = Arc::clone(&seen);
                let answer = service_fn(move |request| reply(request, script, Arc::clone(&seen)));
                tokio::spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(socket), answer).await;
                });
            }
        });
        Self { url, asked, task }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

async fn reply(
    request: Request<Incoming>,
    script: Script,
    seen: Arc<Mutex<Vec<(String, String, String)>>>,
) -> Result<Response<Either<Full<Bytes>, Endless>>, Infallible> {
    let header = |name: &str| {
        let value = request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        value.unwrap_or_default()
    };
    let credentials = (header("X-ClickHouse-User"), header("X-ClickHouse-Key"));
    let uri = request.uri().to_string();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    seen.lock().unwrap().push((format!("{uri} {body}"), credentials.0, credentials.1));
    let (status, text) = match script {
        Script::Say(status, text) => (status, text),
        Script::Endless(status) => {
            return Ok(Response::builder().status(status).body(Either::Right(Endless)).unwrap());
        }
        Script::Hang | Script::Cut => return std::future::pending().await,
    };
    let mut response = Response::builder().status(status);
    if let Some(code) = text.strip_prefix("Code: ").and_then(|rest| rest.split('.').next()) {
        response = response.header("X-ClickHouse-Exception-Code", code);
    }
    let body = Full::new(Bytes::from_static(text.as_bytes()));
    Ok(response.body(Either::Left(body)).unwrap())
}

fn options(urls: &[&str]) -> ClientOptions {
    let mut options = ClientOptions::new(urls.iter().map(|url| url.parse().unwrap()).collect());
    options.credentials =
        UserCredentials::Password { user: "otel".to_owned(), password: Secret::new("hunter2") };
    options.statement_timeout = Duration::from_millis(300);
    options
}

fn declared() -> Declared {
    let name = || "otel".parse().unwrap();
    Declared::uniform(name(), name(), Signals::ALL, &TableOptions::default())
}

async fn ask(urls: &[&str]) -> ClientError {
    observe_declared(&DdlClient::new(options(urls)).unwrap(), &declared()).await.unwrap_err()
}

/// Scenario: each answer a server gives, and none. Guarantee: classed by what can be done,
/// transient or not, with the endpoint and without the password in the words.
#[tokio::test]
async fn answers_are_classed_by_what_can_be_done() {
    for (script, category, is_transient) in [
        (
            Script::Say(403, "Code: 516. DB::Exception: otel: Authentication failed: hunter2?"),
            Category::Authentication,
            false,
        ),
        (
            Script::Say(500, "Code: 497. DB::Exception: Not enough privileges"),
            Category::Privilege,
            false,
        ),
        (Script::Say(500, "Code: 164. DB::Exception: readonly mode"), Category::ReadOnly, true),
        (
            Script::Say(404, "Code: 81. DB::Exception: no database"),
            Category::UnknownDatabase,
            false,
        ),
        (Script::Say(404, "Code: 60. DB::Exception: no table"), Category::UnknownTable, false),
        (Script::Say(500, "Code: 241. DB::Exception: memory"), Category::Overloaded, true),
        (Script::Say(400, "Code: 62. DB::Exception: syntax"), Category::Server, false),
        (Script::Say(404, "<html>not here</html>"), Category::Protocol, false),
        (Script::Say(200, "not what was asked for"), Category::Protocol, false),
        (Script::Hang, Category::Timeout, true),
        (Script::Cut, Category::Unreachable, true),
    ] {
        let server = Server::start(script).await;
        let error = ask(&[&server.url]).await;
        assert_eq!(error.category(), category, "{error}");
        assert_eq!(error.category().is_transient(), is_transient, "{error}");
        assert!(error.to_string().contains(&server.url), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

/// Scenario: the server's disk is full; the user's quota is used up. Guarantee: the server's words,
/// and what to do about it.
#[tokio::test]
async fn a_full_disk_and_a_used_up_quota_say_what_to_do() {
    for (answer, words) in [
        ("Code: 243. DB::Exception: Cannot reserve 1.00 MiB, not enough space", "free space"),
        ("Code: 201. DB::Exception: Quota has been exceeded", "wait for the quota's next"),
    ] {
        let server = Server::start(Script::Say(500, answer)).await;
        let message = ask(&[&server.url]).await.to_string();
        assert!(message.contains(answer) && message.contains(words), "{message}");
    }
}

/// Scenario: no such host, and nobody listening. Guarantee: told apart.
#[tokio::test]
async fn an_unknown_host_is_not_an_unreachable_one() {
    let error = ask(&["http://no-such-host.invalid:8123"]).await;
    assert_eq!(error.category(), Category::UnknownHost, "{error}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(&[&url]).await;
    assert_eq!(error.category(), Category::Unreachable, "{error}");
}

/// Scenario: TLS to a port that speaks plain HTTP. Guarantee: a TLS error, not a mere broken line.
#[tokio::test]
async fn tls_to_a_plain_port_is_a_tls_error() {
    let server = Server::start(Script::Say(200, "")).await;
    let error = ask(&[&server.url.replace("http://", "https://")]).await;
    assert_eq!(error.category(), Category::Tls, "{error}");
}

/// Scenario: the first endpoint is down, the second answers. Guarantee: the second is asked, and
/// first the next time; credentials go in headers, never in the address.
#[tokio::test]
async fn the_next_endpoint_is_asked_and_remembered() {
    let down = Server::start(Script::Cut).await;
    let up = Server::start(Script::Say(200, "")).await;
    let client = DdlClient::new(options(&[&down.url, &up.url])).unwrap();
    // An empty answer is no RowBinary header for `observe`; statements need none.
    let statement = millrace_ddl::render::create_all(&declared()).remove(0);
    client.execute(&statement).await.unwrap();
    assert_eq!(client.endpoint().to_string(), up.url);
    client.execute(&statement).await.unwrap();
    assert_eq!(up.asked(), 2);
    for (request, user, password) in up.asked.lock().unwrap().iter() {
        assert_eq!((user.as_str(), password.as_str()), ("otel", "hunter2"));
        assert!(!request.contains("hunter2"), "{request}");
        assert!(request.ends_with("CREATE DATABASE IF NOT EXISTS `otel`"), "{request}");
    }
}

/// Scenario: an answer that is an error of the server, with another endpoint at hand. Guarantee:
/// the other is not asked: it would say the same, or the statement half ran.
#[tokio::test]
async fn a_refusal_is_not_taken_elsewhere() {
    let refuses = Server::start(Script::Say(500, "Code: 497. DB::Exception: no")).await;
    let other = Server::start(Script::Say(200, "")).await;
    let error = ask(&[&refuses.url, &other.url]).await;
    assert_eq!(error.category(), Category::Privilege);
    assert_eq!(other.asked(), 0);
}

/// Scenario: every server is down. Guarantee: converging fails with the cause; one that is down
/// among others only counts as failed (proven with a real engine in e2e).
#[tokio::test]
async fn converging_nowhere_is_an_error() {
    let down = Server::start(Script::Cut).await;
    let client = DdlClient::new(options(&[&down.url, &down.url])).unwrap();
    let options = MigrateOptions::new("test");
    let error = converge_servers(&client, &declared(), &options).await.unwrap_err();
    assert_eq!(error.client_error().unwrap().category(), Category::Unreachable);
}

/// Scenario: no endpoint at all. Guarantee: said at set-up.
#[test]
fn a_client_needs_an_endpoint() {
    let error = DdlClient::new(ClientOptions::new(Vec::new())).map(|_| ()).unwrap_err();
    assert_eq!(error.category(), Category::Setup);
}

/// Bytes of an answer in these tests, and of all of them together.
const ANSWER_MAX: usize = 64 * 1024;
const SHARED_MAX: usize = 100 * 1024;

fn limited(url: &str, shared: &Budget) -> DdlClient {
    let mut options = options(&[url]);
    options.limits = ClientLimits {
        response_bytes_max: Some(ANSWER_MAX),
        budget: Some(shared.clone()),
        addresses: AddressRule::NoLinkLocal.into(),
    };
    DdlClient::new(options).unwrap()
}

/// Scenario: a server whose answers have no end, as a result and as an error. Guarantee: given up
/// at the bound, not when time is over, and what was held of the shared budget is given back.
#[tokio::test]
async fn an_answer_without_an_end_is_given_up_at_its_bound() {
    for status in [200, 500] {
        let server = Server::start(Script::Endless(status)).await;
        let shared = Budget::new(SHARED_MAX);
        let client = limited(&server.url, &shared);
        let error = observe_declared(&client, &declared()).await.unwrap_err();
        assert_eq!(error.category(), Category::Protocol, "{error}");
        drop(client);
        let all = u32::try_from(SHARED_MAX).unwrap();
        let back = tokio::time::timeout(Duration::from_secs(5), shared.acquire_bytes(all)).await;
        assert!(back.is_ok(), "{} of {SHARED_MAX} bytes came back", shared.free_bytes());
    }
}

/// Scenario: proxies in front of servers that are away, over one connection that is used again.
/// Guarantee: each answer's status is named, and none of its words.
#[tokio::test]
async fn the_status_of_an_answer_that_is_not_clickhouses_is_named() {
    let shared = Budget::new(SHARED_MAX);
    for (status, named) in [(502, "502"), (404, "404"), (200, "200")] {
        let server = Server::start(Script::Say(status, "<html>hunter2</html>")).await;
        let client = limited(&server.url, &shared);
        for _ in 0..2 {
            let error = observe_declared(&client, &declared()).await.unwrap_err();
            assert_eq!(error.category(), Category::Protocol, "{error}");
            let text = error.to_string();
            assert!(text.contains(&format!("HTTP status {named}")), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
}

/// Scenario: the shared budget is used up by others, and then isn't. Guarantee: an answer waits for
/// it, and is taken then.
#[tokio::test]
async fn an_answer_waits_for_the_shared_budget() {
    let server = Server::start(Script::Say(500, "Code: 62. DB::Exception: syntax")).await;
    let shared = Budget::new(SHARED_MAX);
    let all = u32::try_from(SHARED_MAX).unwrap();
    let others = shared.acquire_bytes(all).await.unwrap();
    let client = limited(&server.url, &shared);
    let waited = observe_declared(&client, &declared()).await.unwrap_err();
    assert_eq!(waited.category(), Category::Timeout, "{waited}");
    drop(others);
    let answered = observe_declared(&client, &declared()).await.unwrap_err();
    assert_eq!(answered.category(), Category::Server, "{answered}");
}

/// Scenario: endpoints that are link-local, this machine or the API server, in several spellings.
/// Guarantee: none is connected to.
#[tokio::test]
async fn local_addresses_are_not_connected_to() {
    let link = ["169.254.169.254", "2852039166", "0xa9fea9fe", "[fe80::1]", "[::ffff:a9fe:a9fe]"];
    let machine = ["localhost", "127.0.0.1", "2130706433", "0", "[::1]"];
    let link = link.map(|host| (host, AddressRule::NoLinkLocal.into()));
    let machine = machine.map(|host| (host, AddressRule::NoLocal.into()));
    let api_server = Some("10.96.0.1".parse().unwrap());
    let api_server = RefusedAddresses { api_server, ..RefusedAddresses::default() };
    let server = ["10.96.0.1", "174063617", "[::ffff:a60:1]"].map(|host| (host, api_server));
    for (host, addresses) in link.into_iter().chain(machine).chain(server) {
        let mut options = options(&[&format!("http://{host}:80")]);
        options.limits = ClientLimits { addresses, ..ClientLimits::default() };
        let refused =
            observe_declared(&DdlClient::new(options).unwrap(), &declared()).await.unwrap_err();
        assert_eq!(refused.category(), Category::LocalAddress, "{refused}");
    }
}
