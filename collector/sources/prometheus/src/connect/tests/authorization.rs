//! Tests of authorization headers made from files, and of tokens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millrace_config::{Authorization, BasicAuth, HttpAccess, OAuth2};

use super::server::{Files, Server, connector, get, ok, status, until};

fn bearer(files: &Files, text: &str) -> HttpAccess {
    let credentials_file = files.write("token", text);
    let authorization = Some(Authorization { r#type: "Bearer".into(), credentials_file });
    HttpAccess { authorization, ..HttpAccess::default() }
}

/// Starts a server that accepts requests with one header.
async fn guarded(header: &'static str) -> Server {
    Server::new(move |request| match request.contains(header) {
        true => ok("a 1\n"),
        false => status("401 Unauthorized"),
    })
    .await
}

/// Scenario: the file of a token is replaced while the collector runs, then has characters that no
/// header may have, then is removed. Guarantee: the newest token is sent, messages name the
/// setting, and no error shows the token.
#[tokio::test]
async fn a_token_is_read_again_when_its_file_changes() {
    let files = Files::new();
    let server = guarded("authorization: Bearer second\r\n").await;
    let asking = connector(&bearer(&files, "first\n"));
    let error = get(&asking, &server.url("/")).await.unwrap_err();
    assert_eq!(
        error,
        "it answered 401 Unauthorized: it refused the credentials in authorization.credentialsFile"
    );
    files.write("token", "second\n");
    until(&asking, &server.url("/"), "a 1").await;
    files.write("token", "hunter2\u{7}x");
    until(&asking, &server.url("/"), "token has characters that are not allowed in a header").await;
    let error = get(&asking, &server.url("/")).await.unwrap_err();
    assert!(!error.contains("hunter2"), "{error}");
    std::fs::remove_file(files.path("token")).unwrap();
    until(&asking, &server.url("/"), "cannot read").await;
    files.write("token", &"x".repeat(65 * 1024));
    until(&asking, &server.url("/"), "is longer than").await;
    let nobody = connector(&HttpAccess::default());
    let error = get(&nobody, &server.url("/")).await.unwrap_err();
    assert!(error.contains("no authorization is set"), "{error}");
}

/// Scenario: a user name as text and from a file, with a password. Guarantee: both send the same
/// header.
#[tokio::test]
async fn a_password_is_sent() {
    let files = Files::new();
    // me:pass word
    let server = guarded("authorization: Basic bWU6cGFzcyB3b3Jk\r\n").await;
    let password_file = Some(files.write("password", "pass word\n"));
    for (username, username_file) in
        [(Some("me".to_owned()), None), (None, Some(files.write("name", "me\n")))]
    {
        let basic_auth =
            Some(BasicAuth { username, username_file, password_file: password_file.clone() });
        let asking = connector(&HttpAccess { basic_auth, ..HttpAccess::default() });
        assert!(get(&asking, &server.url("/")).await.is_ok());
    }
}

pub(super) fn oauth2(files: &Files, tokens: &Server) -> HttpAccess {
    let oauth2 = Some(OAuth2 {
        client_id: Some("me".into()),
        client_id_file: None,
        client_secret_file: files.write("secret", "s:s\n"),
        token_url: tokens.url("/token"),
        scopes: vec!["a".into(), "b c".into()],
        endpoint_params: BTreeMap::from([("audience".into(), "x&y".into())]),
        tls: None,
        proxy: None,
    });
    HttpAccess { oauth2, ..HttpAccess::default() }
}

/// Scenario: eight targets need a job's token at once, then again, then after the secret was
/// replaced. Guarantee: they cause one token request, in the specification's form, and another one
/// only with the new secret.
#[tokio::test]
async fn a_token_is_asked_for_once() {
    let files = Files::new();
    let tokens =
        Server::new(|_| ok(r#"{"access_token":"t1","token_type":"bearer","expires_in":3600}"#))
            .await;
    let server = guarded("authorization: Bearer t1\r\n").await;
    let asking = Arc::new(connector(&oauth2(&files, &tokens)));
    for _ in 0..2 {
        let url = server.url("/");
        let all = (0..8).map(|_| get(&asking, &url));
        for answer in futures::future::join_all(all).await {
            assert_eq!(answer.unwrap(), "a 1\n");
        }
    }
    let asked = tokens.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].starts_with("POST /token HTTP/1.1\r\n"), "{asked:?}");
    // me:s%3As
    assert!(asked[0].contains("authorization: Basic bWU6cyUzQXM=\r\n"), "{asked:?}");
    assert!(
        asked[0].ends_with("grant_type=client_credentials&scope=a%20b%20c&audience=x%26y"),
        "{asked:?}"
    );
    files.write("secret", "other");
    while tokens.asked().len() == 1 {
        get(&asking, &server.url("/")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Scenario: one token server supports only the form; others refuse or send endless or invalid
/// responses. Guarantee: the first works; the errors of the others state the reason without the
/// secret, and targets that follow cause no further request.
#[tokio::test]
async fn token_servers_that_refuse_are_told() {
    let files = Files::new();
    let server = guarded("authorization: Bearer t2\r\n").await;
    let by_form = Server::new(|request| match request.contains("client_secret=s%3As") {
        true => ok(r#"{"access_token":"t2","expires_in":"60"}"#),
        false => status("401 Unauthorized"),
    })
    .await;
    assert!(get(&connector(&oauth2(&files, &by_form)), &server.url("/")).await.is_ok());
    assert_eq!(by_form.asked().len(), 2);
    let refusal = r#"{"error":"invalid_scope","error_description":"s:s"}"#;
    let head = format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {}\r\n\r\n", refusal.len());
    for (answer, said) in [
        (format!("{head}{refusal}"), "it answered 403 Forbidden (invalid_scope)"),
        (ok("{}"), "its answer has no access_token"),
        (ok("never"), "its answer has no access_token"),
        (ok(r#"{"access_token":"a","token_type":"mac"}"#), "unsupported token type mac"),
        (ok(r#"{"access_token":"a\nb"}"#), "characters that are not allowed in a header"),
        (ok(&"x".repeat(80 * 1024)), "cannot read the answer"),
    ] {
        let tokens = Server::new(move |_| answer.clone()).await;
        let asking = connector(&oauth2(&files, &tokens));
        for _ in 0..3 {
            let error = get(&asking, &server.url("/")).await.unwrap_err();
            assert!(error.contains(said), "{error}");
            assert!(error.starts_with(&format!("no token from {}", tokens.url("/token"))));
            assert!(!error.contains("s:s"), "{error}");
        }
        assert_eq!(tokens.asked().len(), 1);
    }
}

/// Scenario: a token expires after two seconds. Guarantee: another one is requested before.
#[tokio::test]
async fn a_token_is_renewed_before_it_expires() {
    let files = Files::new();
    let count = Arc::new(AtomicUsize::new(0));
    let own = Arc::clone(&count);
    let tokens = Server::new(move |_| {
        let number = own.fetch_add(1, Ordering::SeqCst);
        ok(&format!(r#"{{"access_token":"t{number}","expires_in":2}}"#))
    })
    .await;
    let server = Server::new(|request| match request.contains("Bearer t") {
        true => ok("a 1\n"),
        false => status("401 Unauthorized"),
    })
    .await;
    let asking = connector(&oauth2(&files, &tokens));
    while count.load(Ordering::SeqCst) < 2 {
        assert!(get(&asking, &server.url("/")).await.is_ok());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
