//! Tests of who may read the console.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::AUTHORIZATION;

use super::*;
use crate::telemetry::token::TOKEN_BYTES_MAX;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn file(content: &str) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("millrace-console-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::File::create(&path).unwrap().write_all(content.as_bytes()).unwrap();
    path
}

fn with(name: http::HeaderName, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
}

fn basic(pair: &str) -> HeaderMap {
    with(AUTHORIZATION, &format!("Basic {}", STANDARD.encode(pair)))
}

/// Scenario: requests with no token, an invalid one, a prefix of the valid one, the valid one as
/// bearer token and as password, and malformed headers. Guarantee: only the valid one is admitted.
#[tokio::test]
async fn only_the_right_token_is_let_in() {
    let path = file(&format!("  {TOKEN}\n"));
    let access = Access::Token(path.clone());
    let longer = format!("Bearer {TOKEN}0");
    for denied in [
        HeaderMap::new(),
        with(AUTHORIZATION, "Bearer 0123456789abcdef0123456789abcdee"),
        with(AUTHORIZATION, &longer),
        with(AUTHORIZATION, "Bearer "),
        with(AUTHORIZATION, "Bearer"),
        with(AUTHORIZATION, TOKEN),
        with(AUTHORIZATION, "Basic !!!"),
        basic(TOKEN),
        basic(&format!("{TOKEN}:")),
        basic("admin:wrong"),
    ] {
        assert_eq!(access.admit_request(&denied).await, Err(Denied::Unknown), "{denied:?}");
    }
    for admitted in [
        with(AUTHORIZATION, &format!("Bearer {TOKEN}")),
        with(AUTHORIZATION, &format!("bearer  {TOKEN} ")),
        basic(&format!("anybody:{TOKEN}")),
        basic(&format!(":{TOKEN}")),
    ] {
        assert_eq!(access.admit_request(&admitted).await, Ok(()), "{admitted:?}");
    }
    std::fs::write(&path, "another-token-another-token-another").unwrap();
    let old = with(AUTHORIZATION, &format!("Bearer {TOKEN}"));
    assert_eq!(
        access.admit_request(&old).await,
        Err(Denied::Unknown),
        "a changed token counts at once"
    );
    std::fs::remove_file(path).unwrap();
}

/// Scenario: no token file, an empty one, one with a short token, one far too large. Guarantee:
/// nobody is admitted, and the cause names the file, not its content.
#[tokio::test]
async fn a_token_that_is_no_token_lets_nobody_in() {
    let long = "x".repeat(TOKEN_BYTES_MAX + 1);
    for content in ["", "\n", "short", &long] {
        let path = file(content);
        let headers = with(AUTHORIZATION, &format!("Bearer {content}").replace('\n', ""));
        let denied = Access::Token(path.clone()).admit_request(&headers).await;
        let Err(Denied::NoToken(why)) = denied else { panic!("{denied:?}") };
        assert!(why.contains("millrace-console") && !why.contains("short"), "{why}");
        std::fs::remove_file(path).unwrap();
    }
    let gone = Access::Token("/nowhere/token".into()).admit_request(&HeaderMap::new()).await;
    assert!(matches!(gone, Err(Denied::NoToken(why)) if why.contains("/nowhere/token")));
}

/// Scenario: on loopback, requests for names of this machine, for another name that resolves to it,
/// for none. Guarantee: only the first are answered: a page elsewhere can't read by a name of its
/// own.
#[tokio::test]
async fn loopback_answers_to_this_machines_names_alone() {
    for own in ["localhost", "localhost:9000", "127.0.0.1:80", "[::1]:8081"] {
        assert_eq!(Access::Loopback.admit_request(&with(HOST, own)).await, Ok(()), "{own}");
    }
    for foreign in ["evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example", "[::2]"]
    {
        let denied = Access::Loopback.admit_request(&with(HOST, foreign)).await;
        assert_eq!(denied, Err(Denied::ForeignHost), "{foreign}");
    }
    assert_eq!(Access::Loopback.admit_request(&HeaderMap::new()).await, Err(Denied::ForeignHost));
}
