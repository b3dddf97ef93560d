//! Tests of token renewal against a provider on loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::secret_text::SecretText;

/// A provider that issues numbered tokens, or refuses while it is away.
struct Provider {
    port: u16,
    issued: Arc<AtomicUsize>,
    is_away: Arc<AtomicBool>,
}

impl Provider {
    fn start(lifetime_seconds: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (issued, is_away) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, away) = (Arc::clone(&issued), Arc::clone(&is_away));
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), lifetime_seconds, &counted, away.load(Ordering::SeqCst));
            }
        });
        Self { port, issued, is_away }
    }

    fn settings(&self) -> OAuthSettings {
        OAuthSettings {
            token_endpoint: format!("http://127.0.0.1:{}/token", self.port).parse().unwrap(),
            client_id: "edge".to_owned(),
            client_secret: SecretText::Text("s3cret".to_owned()),
            scope: None,
            ca: None,
        }
    }

    fn wait_for_tokens(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.issued.load(Ordering::SeqCst) < count {
            assert!(Instant::now() < until, "{count} tokens were never requested");
            thread::yield_now();
        }
    }
}

fn answer(mut stream: TcpStream, lifetime: u64, issued: &AtomicUsize, is_away: bool) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&request).contains("grant_type=client_credentials") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend_from_slice(&buffer[..read]),
        }
    }
    let (status, body) = match is_away {
        true => ("503 Service Unavailable", "{}".to_owned()),
        false => {
            let number = issued.fetch_add(1, Ordering::SeqCst);
            let body = format!("{{\"access_token\":\"t{number}\",\"expires_in\":{lifetime}}}");
            ("200 OK", body)
        }
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all((head + &body).as_bytes());
}

/// Scenario: tokens last two seconds. Guarantee: the source renews them without being asked.
#[test]
fn tokens_are_renewed_before_they_expire() {
    let provider = Provider::start(2);
    let source = TokenSource::start(provider.settings()).unwrap();
    source.wait_for_token(Duration::from_secs(20)).unwrap();
    provider.wait_for_tokens(3);
    assert!(source.0.0.lock_state().valid_token().is_some());
}

/// Scenario: the provider is away at the start and comes back. Guarantee: the failure names the
/// endpoint, and a later request gets the token.
#[test]
fn a_provider_that_is_away_is_asked_again() {
    let provider = Provider::start(60);
    provider.is_away.store(true, Ordering::SeqCst);
    let source = TokenSource::start(provider.settings()).unwrap();
    let failure = source.wait_for_token(Duration::from_secs(20)).unwrap_err();
    assert!(failure.contains("/token: it answered 503"), "{failure}");
    assert!(!failure.contains("s3cret"), "{failure}");
    provider.is_away.store(false, Ordering::SeqCst);
    provider.wait_for_tokens(1);
    let shared = Arc::clone(&source.0.0);
    let state = shared.changed.wait_while(shared.lock_state(), |state| state.token.is_none());
    assert!(state.unwrap().failure.is_none());
}

/// Scenario: a valid token, and the provider goes away. Guarantee: the failure is no loss: the
/// token is used until it expires, and failures are repeated less and less often.
#[test]
fn a_valid_token_outlasts_failed_requests() {
    let provider = Provider::start(60);
    let source = TokenSource::start(provider.settings()).unwrap();
    source.wait_for_token(Duration::from_secs(20)).unwrap();
    let shared = &source.0.0;
    let mut failures = 0;
    let waits: Vec<u64> = (0..7)
        .map(|_| shared.record_outcome(Err("away".to_owned()), &mut failures).as_secs())
        .collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
    assert_eq!(source.wait_for_token(Duration::ZERO), Ok(()));
}
