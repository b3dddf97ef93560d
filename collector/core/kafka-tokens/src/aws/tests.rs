//! Tests of tokens for Amazon MSK, with STS and EKS Pod Identity on loopback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::ToSpan;

use super::*;

/// A server that answers each request with the present response, and records requests.
struct Server {
    port: u16,
    response: Arc<Mutex<(u16, String)>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self { port, response: Arc::default(), requests: Arc::default() };
        let (response, requests) = (Arc::clone(&server.response), Arc::clone(&server.requests));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (mut request, mut buffer) = (String::new(), [0; 4096]);
                // Each form of this test ends with the token, and a GET has no body.
                let is_complete = |text: &str| match text.starts_with("POST") {
                    true => text.contains("WebIdentityToken=pod.token"),
                    false => text.ends_with("\r\n\r\n"),
                };
                while !is_complete(&request) {
                    let read = stream.read(&mut buffer).unwrap();
                    request.push_str(&String::from_utf8_lossy(&buffer[..read]));
                }
                requests.lock().unwrap().push(request);
                let (status, body) =
                    response.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
        server
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn set_response(&self, status: u16, body: impl Into<String>) {
        *self.response.lock().unwrap() = (status, body.into());
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn role_response(key: &str, minutes: i64) -> String {
    let expires = Timestamp::now() + minutes.minutes();
    format!(
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\n\
         <AccessKeyId>{key}</AccessKeyId><SecretAccessKey>s3/cr+et=</SecretAccessKey>\n\
         <SessionToken>session+token==</SessionToken><Expiration>{expires}</Expiration>\n\
         </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
    )
}

fn signer(identity: AwsIdentity) -> MskSigner {
    MskSigner::new(AwsMskIamSettings { region: "eu-central-1".to_owned(), identity })
}

fn in_pod(variables: &[(&str, &str)]) -> MskSigner {
    let read = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    signer(AwsIdentity::Environment(AwsEnvironment::of_variables(read)))
}

fn decode(token: &AccessToken) -> String {
    String::from_utf8(URL_SAFE_NO_PAD.decode(&token.value).unwrap()).unwrap()
}

fn token_file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// Scenario: access keys in a Secret. Guarantee: the token is a presigned URL of MSK's action,
/// valid for 15 minutes, with the parameters of AWS' own signers and without the secret key.
#[tokio::test]
async fn keys_sign_a_token() {
    let text = |text: &str| SecretText::Text(text.to_owned());
    let (access_key_id, secret_access_key) = (text("AKIDEXAMPLE"), text("wJalr"));
    let token = signer(AwsIdentity::Keys { access_key_id, secret_access_key });
    let token = { token }.create_token().await.unwrap();
    assert_eq!(token.lifetime, Duration::from_secs(900));
    let url = decode(&token);
    let start = "https://kafka.eu-central-1.amazonaws.com/?Action=kafka-cluster%3AConnect\
                 &X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F";
    assert!(url.starts_with(start), "{url}");
    for part in [
        "%2Feu-central-1%2Fkafka-cluster%2Faws4_request&X-Amz-Date=",
        "&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature=",
        "&User-Agent=millrace%2F",
    ] {
        assert!(url.contains(part), "{url}");
    }
    assert!(!url.contains("wJalr"), "{url}");
}

/// Scenario: a pod with a role (IRSA); STS is away when the credentials are to be renewed, then
/// back, then refuses after they have expired. Guarantee: one request serves tokens for half an
/// hour, an outage costs nothing while the credentials last, and a refusal names STS and its code
/// without the token.
#[tokio::test]
async fn a_role_outlasts_an_outage_of_sts() {
    let (sts, file) = (Server::start(), token_file("pod.token\n"));
    let url = sts.url();
    let mut signer = in_pod(&[
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/edge"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file.path().to_str().unwrap()),
        ("AWS_ENDPOINT_URL_STS", &url),
        // EKS sets both for some pods: the role of the service account comes first.
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/"),
    ]);
    sts.set_response(200, role_response("FIRST", 60));
    for _ in 0..3 {
        let url = decode(&signer.create_token().await.unwrap());
        assert!(url.contains("Credential=FIRST%2F"), "{url}");
        assert!(url.contains("&X-Amz-Security-Token=session%2Btoken%3D%3D&"), "{url}");
    }
    let requests = sts.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(requests[0].starts_with("POST / HTTP/1.1\r\n"), "{requests:?}");
    let form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15\
                &RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fedge&RoleSessionName=millrace\
                &WebIdentityToken=pod.token";
    assert!(requests[0].ends_with(form), "{requests:?}");

    let expire_in = |signer: &mut MskSigner, seconds: i64| {
        signer.cached.as_mut().unwrap().expires_at = Some(Timestamp::now() + seconds.seconds());
    };
    expire_in(&mut signer, 120);
    sts.set_response(503, "");
    let token = signer.create_token().await.unwrap();
    assert!((110..=120).contains(&token.lifetime.as_secs()), "{:?}", token.lifetime);
    sts.set_response(200, role_response("SECOND", 60));
    let token = signer.create_token().await.unwrap();
    assert!(decode(&token).contains("Credential=SECOND%2F"));
    assert_eq!(token.lifetime, Duration::from_secs(900));

    expire_in(&mut signer, 0);
    let denied = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\
                  <Message>pod.token</Message></Error></ErrorResponse>";
    sts.set_response(403, denied);
    let reason = signer.create_token().await.err().unwrap();
    let expected = format!("AWS STS at {url}/: it answered 403 Forbidden (AccessDenied); ");
    assert!(reason.starts_with(&expected), "{reason}");
    assert!(!reason.contains("pod.token"), "{reason}");
}

/// Scenario: a pod with EKS Pod Identity, whose agent answers, refuses, or sends invalid
/// credentials. Guarantee: the agent receives the pod's token, its credentials sign, and failures
/// name the agent.
#[tokio::test]
async fn pod_identity_signs_a_token() {
    let (agent, file) = (Server::start(), token_file("pod.token"));
    let url = format!("{}/v1/credentials", agent.url());
    let new = || {
        in_pod(&[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file.path().to_str().unwrap()),
        ])
    };
    let expires = Timestamp::now() + 6.hours();
    let credentials = |expires: &str| {
        format!(
            r#"{{"AccessKeyId": "ASIA", "SecretAccessKey": "s", "Token": "t",
                 "AccountId": "1", "Expiration": "{expires}"}}"#
        )
    };
    agent.set_response(200, credentials(&expires.to_string()));
    let token = new().create_token().await.unwrap();
    assert!(decode(&token).contains("Credential=ASIA%2F"));
    let request = agent.requests().remove(0);
    assert!(request.starts_with("GET /v1/credentials HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("authorization: pod.token\r\n"), "{request}");
    for (status, body, expected) in [
        (403, String::new(), "it answered 403 Forbidden; check the association"),
        (200, "{}".to_owned(), "its answer has no AccessKeyId"),
        (200, credentials("soon"), "its answer has an invalid Expiration"),
    ] {
        agent.set_response(status, body);
        let reason = new().create_token().await.err().unwrap();
        assert!(reason.starts_with(&format!("EKS Pod Identity at {url}: ")), "{reason}");
        assert!(reason.contains(expected), "{reason}");
    }
    agent.set_response(200, credentials("2015-08-30T12:36:00Z"));
    let reason = new().create_token().await.err().unwrap();
    assert!(reason.contains("have expired"), "{reason}");
}

/// Scenario: a pod without an AWS identity. Guarantee: the reason names the three remedies.
#[tokio::test]
async fn a_pod_without_an_identity_is_reported() {
    let reason = in_pod(&[]).create_token().await.err().unwrap();
    for remedy in ["eks.amazonaws.com/role-arn", "Pod Identity", "accessKeyIdSecret"] {
        assert!(reason.contains(remedy), "{reason}");
    }
}
