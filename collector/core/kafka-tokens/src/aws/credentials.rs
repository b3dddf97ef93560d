//! AWS credentials of a pod, by the variables that EKS sets: of a role for its service account
//! (IRSA) from STS, or of EKS Pod Identity from the node's agent.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::Full;
use jiff::Timestamp;
use millrace_config::{SecretFile, push_encoded};
use serde_json::Value;

use crate::http_client::{HttpClient, limit_time};

const ROLE_ARN: &str = "AWS_ROLE_ARN";
const TOKEN_FILE: &str = "AWS_WEB_IDENTITY_TOKEN_FILE";
const SESSION_NAME: &str = "AWS_ROLE_SESSION_NAME";
const REGION: &str = "AWS_REGION";
const STS_ENDPOINT: &str = "AWS_ENDPOINT_URL_STS";
const CONTAINER_URL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const CONTAINER_TOKEN_FILE: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";

/// Credentials that sign requests. They have no `Debug`.
#[derive(Clone)]
pub(super) struct AwsCredentials {
    pub(super) access_key_id: String,
    pub(super) secret_access_key: String,
    pub(super) session_token: Option<String>,
    /// `None` for keys of a user, which don't expire.
    pub(super) expires_at: Option<Timestamp>,
}

impl AwsCredentials {
    /// Returns how long they are valid, at most `limit`.
    pub(super) fn remaining_seconds(&self, now: Timestamp, limit: u64) -> u64 {
        let seconds = self.expires_at.map(|until| until.as_second() - now.as_second());
        seconds.map_or(limit, |seconds| u64::try_from(seconds).unwrap_or(0).min(limit))
    }
}

/// The variables of a pod with an AWS identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwsEnvironment(BTreeMap<&'static str, String>);

impl AwsEnvironment {
    /// Reads this process' variables.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of_variables(|name| std::env::var(name).ok())
    }

    /// Reads variables by name.
    #[must_use]
    pub fn of_variables(read: impl Fn(&str) -> Option<String>) -> Self {
        let names = [
            ROLE_ARN,
            TOKEN_FILE,
            SESSION_NAME,
            REGION,
            STS_ENDPOINT,
            CONTAINER_URL,
            CONTAINER_TOKEN_FILE,
        ];
        let set = |name| Some((name, read(name).filter(|value| !value.is_empty())?));
        Self(names.into_iter().filter_map(set).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Requests credentials; the error names the server and what to check.
    pub(super) async fn fetch_credentials(&self, region: &str) -> Result<AwsCredentials, String> {
        match (self.get(ROLE_ARN), self.get(TOKEN_FILE), self.get(CONTAINER_URL)) {
            (Some(role), Some(file), _) => {
                let url = self.get(STS_ENDPOINT).map_or_else(
                    || sts_url(self.get(REGION).unwrap_or(region)),
                    |url| format!("{}/", url.trim_end_matches('/')),
                );
                let session = self.get(SESSION_NAME).unwrap_or("millrace");
                let outcome = limit_time(assume_role(&url, role, session, file)).await;
                outcome.map_err(|reason| format!("AWS STS at {url}: {reason}"))
            }
            (_, _, Some(url)) => {
                let file = self.get(CONTAINER_TOKEN_FILE);
                let outcome = limit_time(request_of_agent(url, file)).await;
                outcome.map_err(|reason| format!("EKS Pod Identity at {url}: {reason}"))
            }
            _ => Err("this pod has no AWS identity: annotate its service account with \
                      eks.amazonaws.com/role-arn, or associate it with EKS Pod Identity, or set \
                      accessKeyIdSecret and secretAccessKeySecret"
                .to_owned()),
        }
    }
}

fn sts_url(region: &str) -> String {
    let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://sts.{region}.amazonaws.com{suffix}/")
}

async fn assume_role(
    url: &str,
    role: &str,
    session: &str,
    token_file: &str,
) -> Result<AwsCredentials, String> {
    let token = read_file(token_file)?;
    let mut form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15".to_owned();
    for (name, value) in
        [("RoleArn", role), ("RoleSessionName", session), ("WebIdentityToken", &token)]
    {
        form.push('&');
        form.push_str(name);
        form.push('=');
        push_encoded(&mut form, value);
    }
    let request = Request::post(url)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(Full::new(Bytes::from(form)))
        .map_err(|error| error.to_string())?;
    let (status, body) = HttpClient::new(None)?.send(request).await?;
    parse_role(status, &String::from_utf8_lossy(&body))
}

async fn request_of_agent(url: &str, token_file: Option<&str>) -> Result<AwsCredentials, String> {
    let mut request = Request::get(url).body(Full::default()).map_err(|error| error.to_string())?;
    if let Some(file) = token_file {
        let token = HeaderValue::from_str(&read_file(file)?);
        let mut token = token.map_err(|_| format!("{file} is not a valid header value"))?;
        token.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, token);
    }
    let (status, body) = HttpClient::new(None)?.send(request).await?;
    parse_agent_response(status, &body)
}

fn read_file(path: &str) -> Result<String, String> {
    let secret = SecretFile::new(path).and_then(|file| file.read());
    secret.map(|secret| secret.expose().to_owned()).map_err(|error| error.to_string())
}

/// Parses a response of STS. Of an error only its code is shown.
fn parse_role(status: StatusCode, body: &str) -> Result<AwsCredentials, String> {
    if status != StatusCode::OK {
        let code = element(body, "Code").map_or_else(String::new, |code| format!(" ({code})"));
        return Err(format!(
            "it answered {status}{code}; check the role's trust policy and the role-arn of the \
             service account"
        ));
    }
    let value = |name: &str| {
        let value = element(body, name).ok_or_else(|| format!("its answer has no {name}"));
        value.map(str::to_owned)
    };
    Ok(AwsCredentials {
        access_key_id: value("AccessKeyId")?,
        secret_access_key: value("SecretAccessKey")?,
        session_token: Some(value("SessionToken")?),
        expires_at: Some(parse_time(&value("Expiration")?)?),
    })
}

/// Returns the text of the first element with this name. The values that are read (base 64, times
/// and codes) have no escapes.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = after.split_once(&format!("</{name}>"))?;
    Some(text.trim()).filter(|text| !text.is_empty() && !text.contains(['<', '&']))
}

/// Parses a response of the agent.
fn parse_agent_response(status: StatusCode, body: &[u8]) -> Result<AwsCredentials, String> {
    if status != StatusCode::OK {
        return Err(format!(
            "it answered {status}; check the association of the service account and the trust \
             policy of its role"
        ));
    }
    let answer: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let value = |name: &str| {
        let text = answer.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| format!("its answer has no {name}"))
    };
    Ok(AwsCredentials {
        access_key_id: value("AccessKeyId")?,
        secret_access_key: value("SecretAccessKey")?,
        session_token: Some(value("Token")?),
        expires_at: Some(parse_time(&value("Expiration")?)?),
    })
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "its answer has an invalid Expiration".to_owned())
}
