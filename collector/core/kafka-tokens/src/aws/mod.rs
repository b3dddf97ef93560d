//! Tokens for Amazon MSK with IAM access control: a presigned URL of `kafka-cluster:Connect` in
//! base64url, which each pod signs itself. No server issues them.
//!
//! Credentials of an identity are requested again when less than [`REFRESH_SECONDS`] remain, and
//! used until they expire if their server is away.

pub(crate) mod credentials;
mod sigv4;

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;

use crate::access_token::AccessToken;
use crate::secret_text::SecretText;
use crate::settings::{AwsIdentity, AwsMskIamSettings};
use credentials::{AwsCredentials, AwsEnvironment};
use sigv4::PresignedGet;

/// How long a token is valid: the most that MSK accepts.
const TOKEN_SECONDS: u64 = 900;

/// Credentials with less time left are requested again: those of STS last an hour, so that it may
/// be away for half of that.
const REFRESH_SECONDS: u64 = 1_800;

/// Credentials with less time left sign no token: connections would not outlast the handshake.
const REMAINING_SECONDS_MIN: u64 = 30;

/// Names this client in the logs of AWS. It is not a part of what is signed.
const AGENT: &str = concat!("&User-Agent=millrace%2F", env!("CARGO_PKG_VERSION"));

/// Signs tokens.
pub(crate) struct MskSigner {
    settings: AwsMskIamSettings,
    /// The last credentials of an identity.
    cached: Option<AwsCredentials>,
}

impl MskSigner {
    pub(crate) fn new(settings: AwsMskIamSettings) -> Self {
        Self { settings, cached: None }
    }

    /// Signs a token; the error names what to check.
    pub(crate) async fn create_token(&mut self) -> Result<AccessToken, String> {
        let Self { settings: AwsMskIamSettings { region, identity }, cached } = self;
        let credentials = match identity {
            AwsIdentity::Keys { access_key_id, secret_access_key } => {
                let read = |text: &SecretText| text.read().map_err(|error| error.to_string());
                AwsCredentials {
                    access_key_id: read(access_key_id)?,
                    secret_access_key: read(secret_access_key)?,
                    session_token: None,
                    expires_at: None,
                }
            }
            AwsIdentity::Environment(environment) => {
                current_credentials(environment, region, cached).await?
            }
        };
        // The clocks of AWS decide whether a signature is valid.
        let now = Timestamp::now();
        let seconds = credentials.remaining_seconds(now, TOKEN_SECONDS);
        if seconds < REMAINING_SECONDS_MIN {
            return Err("the AWS credentials have expired; check this node's clock".to_owned());
        }
        let lifetime = Duration::from_secs(seconds);
        Ok(AccessToken {
            value: sign_token(region, &credentials, now),
            principal: "aws-msk-iam".to_owned(),
            expires_at: Instant::now() + lifetime,
            lifetime,
        })
    }
}

async fn current_credentials(
    environment: &AwsEnvironment,
    region: &str,
    cached: &mut Option<AwsCredentials>,
) -> Result<AwsCredentials, String> {
    let now = Timestamp::now();
    let remaining = |it: &AwsCredentials| it.remaining_seconds(now, REFRESH_SECONDS);
    if let Some(credentials) = cached.as_ref().filter(|it| remaining(it) >= REFRESH_SECONDS) {
        return Ok(credentials.clone());
    }
    match environment.fetch_credentials(region).await {
        Ok(credentials) => Ok(cached.insert(credentials).clone()),
        Err(reason) => {
            let usable = cached.as_ref().filter(|it| remaining(it) >= REMAINING_SECONDS_MIN);
            let Some(credentials) = usable else { return Err(reason) };
            tracing::warn!(
                reason,
                remaining_seconds = remaining(credentials),
                "cannot renew AWS credentials; using the present ones until they expire"
            );
            Ok(credentials.clone())
        }
    }
}

/// Returns the token: the host is the same in all partitions of AWS, as AWS' own signers have it.
fn sign_token(region: &str, credentials: &AwsCredentials, now: Timestamp) -> String {
    let request = PresignedGet {
        host: &format!("kafka.{region}.amazonaws.com"),
        query: &[("Action", "kafka-cluster:Connect")],
        region,
        service: "kafka-cluster",
        lifetime_seconds: TOKEN_SECONDS,
    };
    URL_SAFE_NO_PAD.encode(request.sign(credentials, now) + AGENT)
}

#[cfg(test)]
mod tests;
