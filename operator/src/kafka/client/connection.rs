//! Converts the connection in a spec into librdkafka's settings, with the values of its Secrets.

use kube::Client;
use millrace_crds::v1alpha1::{
    KafkaAuthentication, KafkaAwsMskIam, KafkaConnection, KafkaLogin, KafkaOAuth, KafkaTls,
    SaslMechanism,
};
use millrace_kafka_tokens::{
    AwsEnvironment, AwsIdentity, AwsMskIamSettings, OAuthSettings, SecretText, TokenSettings,
};
use rdkafka::ClientConfig;
use sha2::{Digest, Sha256};

use crate::error::StepError;
use crate::outbound::credentials::{Login, Secrets};

/// Longest wait for a TCP or TLS connection, in milliseconds: shorter than a session call, so that
/// its cause is known before the call's deadline.
const CONNECT_TIMEOUT_MILLIS: &str = "7000";

/// Longest response of a broker, in bytes: twice the metadata of 1,000 topics with a hundred
/// partitions each (40 bytes each). The library's default is 100 MB, more than the pod has.
const ANSWER_BYTES_MAX: &str = "8388608";

/// The library's minimum, which is the longest message.
const FETCH_BYTES_MAX: &str = "1048576";

/// librdkafka's settings for one connection. It has no `Debug`: it holds passwords.
#[derive(Clone)]
pub struct ConnectionSettings {
    entries: Entries,
    servers: usize,
    login: LoginSource,
    tokens: Option<TokenSettings>,
    /// The namespace for which the operator signs with its own AWS identity.
    own_identity_for: Option<String>,
}

/// Where a connection's credentials are from, for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::kafka) struct LoginSource {
    /// The field of the spec.
    pub(in crate::kafka) field: &'static str,
    /// The Secret with the credentials.
    pub(in crate::kafka) secret: Option<String>,
    /// Whether the operator signs with its own AWS identity.
    pub(super) is_own_identity: bool,
}

impl ConnectionSettings {
    /// Reads the Secrets that `kafka` refers to in `namespace`: of the operator's own credentials.
    ///
    /// # Errors
    /// When a Secret or key is missing, or the API server refuses or can't be reached.
    pub async fn resolve(
        client: &Client,
        namespace: &str,
        kafka: &KafkaConnection,
    ) -> Result<Self, StepError> {
        let KafkaConnection { bootstrap_servers, tls, authentication: _, admin } = kafka;
        let login = kafka.operator_authentication().map(KafkaAuthentication::login).transpose();
        let login = login.map_err(StepError::spec_invalid)?;
        let uses_sasl = !matches!(login, None | Some(KafkaLogin::Certificate(_)));
        let protocol = match (tls.is_some(), uses_sasl) {
            (false, false) => "plaintext",
            (true, false) => "ssl",
            (false, true) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        };
        let servers: Vec<&str> = bootstrap_servers.iter().map(AsRef::as_ref).collect();
        let mut entries = common_entries(servers.join(","));
        entries.push(("security.protocol", protocol.to_owned()));
        let secrets = Secrets::in_namespace(client, namespace);
        if let Some(KafkaTls { ca: Some(ca) }) = tls {
            entries.push(("ssl.ca.pem", secrets.read_authority(ca).await?));
        }
        let (mut secret, mut tokens, mut own_identity_for) = (None, None, None);
        match login {
            None => {}
            Some(KafkaLogin::Password { mechanism, username, password }) => {
                secret = Some(password.name.to_string());
                add_login(&mut entries, mechanism, secrets.read_user(username, password).await?);
            }
            Some(KafkaLogin::Certificate(pair)) => {
                secret = Some(pair.name.to_string());
                let (certificate, key) = secrets.read_certificate(pair).await?;
                entries.push(("ssl.certificate.pem", certificate));
                entries.push(("ssl.key.pem", key));
            }
            Some(KafkaLogin::OAuth(provider)) => {
                secret = Some(provider.client_secret.name.to_string());
                entries.push(("sasl.mechanism", "OAUTHBEARER".to_owned()));
                tokens = Some(TokenSettings::OAuth(read_oauth(&secrets, provider).await?));
            }
            Some(KafkaLogin::AwsMskIam(aws)) => {
                secret = aws.keys.map(|(_, key)| key.name.to_string());
                own_identity_for = aws.keys.is_none().then(|| namespace.to_owned());
                entries.push(("sasl.mechanism", "OAUTHBEARER".to_owned()));
                tokens = Some(TokenSettings::AwsMskIam(read_aws(&secrets, aws).await?));
            }
        }
        let field = match admin {
            Some(_) => "kafka.admin.authentication",
            None => "kafka.authentication",
        };
        let is_own_identity = own_identity_for.is_some();
        let login = LoginSource { field, secret, is_own_identity };
        Ok(Self { entries, servers: servers.len(), login, tokens, own_identity_for })
    }

    /// Creates settings without a cluster to read Secrets from: comma-separated `host:port`, with
    /// or without credentials, unencrypted.
    #[must_use]
    pub fn from_servers(bootstrap_servers: &str, login: Option<(SaslMechanism, Login)>) -> Self {
        let mut entries = common_entries(bootstrap_servers.to_owned());
        if let Some((mechanism, login)) = login {
            entries.push(("security.protocol", "sasl_plaintext".to_owned()));
            add_login(&mut entries, mechanism, login);
        }
        let servers = bootstrap_servers.split(',').count();
        let login = LoginSource::default();
        Self { entries, servers, login, tokens: None, own_identity_for: None }
    }

    /// Creates settings for SASL OAUTHBEARER without a cluster, unencrypted.
    #[must_use]
    pub fn with_tokens(bootstrap_servers: &str, tokens: impl Into<TokenSettings>) -> Self {
        let mut settings = Self::from_servers(bootstrap_servers, None);
        settings.entries.push(("security.protocol", "sasl_plaintext".to_owned()));
        settings.entries.push(("sasl.mechanism", "OAUTHBEARER".to_owned()));
        settings.tokens = Some(tokens.into());
        settings
    }

    /// Identifies this connection by servers, protocol and secrets, none of which can be recovered
    /// from it.
    pub(in crate::kafka) fn compute_identity(&self) -> ConnectionHash {
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        };
        for (key, value) in &self.entries {
            add(key.as_bytes());
            add(value.as_bytes());
        }
        for part in self.tokens.iter().flat_map(TokenSettings::distinctive_parts) {
            add(part.as_bytes());
        }
        add(self.own_identity_for.as_deref().unwrap_or_default().as_bytes());
        // The failures of a connection name its Secret.
        add(self.login.field.as_bytes());
        add(self.login.secret.as_deref().unwrap_or_default().as_bytes());
        ConnectionHash(hash.finalize().into())
    }

    /// Returns the bootstrap servers, separated by commas.
    pub(in crate::kafka) fn bootstrap_servers(&self) -> &str {
        let servers = self.entries.iter().find(|(key, _)| *key == "bootstrap.servers");
        servers.map_or("", |(_, servers)| servers)
    }

    /// Returns the number of bootstrap servers.
    pub(super) fn server_count(&self) -> usize {
        self.servers
    }

    /// Returns where the credentials are from.
    pub(super) fn login_source(&self) -> &LoginSource {
        &self.login
    }

    /// Returns where tokens are from, if the connection needs them.
    pub(in crate::kafka) fn tokens(&self) -> Option<&TokenSettings> {
        self.tokens.as_ref()
    }

    /// Returns the namespace for which the operator signs with its own AWS identity.
    pub(super) fn own_identity_for(&self) -> Option<&str> {
        self.own_identity_for.as_deref()
    }

    pub(in crate::kafka) fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        for (key, value) in &self.entries {
            config.set(*key, value);
        }
        config
    }
}

/// A hash of all parts of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::kafka) struct ConnectionHash([u8; 32]);

type Entries = Vec<(&'static str, String)>;

fn common_entries(bootstrap_servers: String) -> Entries {
    vec![
        ("bootstrap.servers", bootstrap_servers),
        ("client.id", "millrace-operator".to_owned()),
        ("socket.connection.setup.timeout.ms", CONNECT_TIMEOUT_MILLIS.to_owned()),
        // A failed name or address is retried soon, since the deadline is short anyway.
        ("reconnect.backoff.max.ms", "1000".to_owned()),
        ("enable.metrics.push", "false".to_owned()),
        ("receive.message.max.bytes", ANSWER_BYTES_MAX.to_owned()),
        // It must be less than the response's limit; nothing is ever fetched.
        ("fetch.max.bytes", FETCH_BYTES_MAX.to_owned()),
    ]
}

fn add_login(entries: &mut Entries, mechanism: SaslMechanism, login: Login) {
    let Login { username, password } = login;
    entries.push(("sasl.mechanism", mechanism.as_str().to_owned()));
    entries.push(("sasl.username", username));
    entries.push(("sasl.password", password));
}

async fn read_oauth(
    secrets: &Secrets,
    provider: KafkaOAuth<'_>,
) -> Result<OAuthSettings, StepError> {
    let KafkaOAuth { token_endpoint, client_id, client_secret, scope, ca } = provider;
    let ca = match ca {
        Some(ca) => Some(SecretText::Text(secrets.read_authority(ca).await?)),
        None => None,
    };
    Ok(OAuthSettings {
        token_endpoint: token_endpoint.parse().map_err(StepError::spec_invalid)?,
        client_id: client_id.to_owned(),
        client_secret: SecretText::Text(secrets.read_value(client_secret).await?),
        scope: scope.map(str::to_owned),
        ca,
    })
}

async fn read_aws(
    secrets: &Secrets,
    aws: KafkaAwsMskIam<'_>,
) -> Result<AwsMskIamSettings, StepError> {
    let KafkaAwsMskIam { region, keys } = aws;
    let identity = match keys {
        Some((id, key)) => AwsIdentity::Keys {
            access_key_id: SecretText::Text(secrets.read_value(id).await?),
            secret_access_key: SecretText::Text(secrets.read_value(key).await?),
        },
        None => AwsIdentity::Environment(AwsEnvironment::of_process()),
    };
    Ok(AwsMskIamSettings { region: region.to_owned(), identity })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_settings(servers: &str, login: Option<(&str, &str)>) -> ConnectionSettings {
        let login = login.map(|(user, password)| {
            let login = Login { username: user.to_owned(), password: password.to_owned() };
            (SaslMechanism::ScramSha512, login)
        });
        ConnectionSettings::from_servers(servers, login)
    }

    /// Scenario: connections that differ in one part, or in where one part ends. Guarantee: their
    /// identities differ; equal connections have the same.
    #[test]
    fn connections_are_told_apart_by_every_part() {
        let all = [
            test_settings("k:9092", None),
            test_settings("k:9093", None),
            test_settings("k:9092", Some(("u", "p"))),
            test_settings("k:9092", Some(("u", "q"))),
            test_settings("k:9092", Some(("up", ""))),
        ];
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                assert_eq!(one.compute_identity() == other.compute_identity(), at == other_at);
            }
        }
        assert_eq!(
            all[3].compute_identity(),
            test_settings("k:9092", Some(("u", "q"))).compute_identity()
        );
    }
}
