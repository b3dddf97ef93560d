//! From the connection a user writes to librdkafka's settings, secrets filled in.

use kube::Client;
use millrace_crds::v1alpha1::{KafkaConnection, KafkaSasl, KafkaTls, SaslMechanism};
use rdkafka::ClientConfig;
use sha2::{Digest, Sha256};

use crate::error::StepError;
use crate::outbound::credentials::{Login, Secrets};

/// Longest wait for a TCP or TLS connection, in milliseconds: shorter than a conversation, so that
/// its cause is known before the conversation's deadline.
const CONNECT_TIMEOUT_MILLIS: &str = "7000";

/// The longest answer of a broker, in bytes: twice the metadata of 1,000 topics with a hundred
/// partitions each (40 bytes each). The library's default is 100 MB, more than the pod has.
const ANSWER_BYTES_MAX: &str = "8388608";

/// The library's minimum, which is the longest message.
const FETCH_BYTES_MAX: &str = "1048576";

/// librdkafka's settings for one connection. Has no `Debug`: it holds passwords.
#[derive(Clone)]
pub struct Settings {
    entries: Entries,
    servers: usize,
    login_secret: Option<String>,
}

impl Settings {
    /// Reads the Secrets that `kafka` refers to in `namespace`.
    ///
    /// # Errors
    /// When a Secret or key is missing, or the API server refuses or can't be reached.
    pub async fn resolve(
        client: &Client,
        namespace: &str,
        kafka: &KafkaConnection,
    ) -> Result<Self, StepError> {
        let KafkaConnection { bootstrap_servers, tls, sasl } = kafka;
        let servers: Vec<&str> = bootstrap_servers.iter().map(AsRef::as_ref).collect();
        let protocol = match (tls, sasl) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        let mut entries = common(servers.join(","));
        entries.push(("security.protocol", protocol.to_owned()));
        let secrets = Secrets::of(client, namespace);
        if let Some(tls) = tls {
            add_tls(&mut entries, tls, &secrets).await?;
        }
        if let Some(KafkaSasl { mechanism, credentials_secret_ref }) = sasl {
            let login = secrets.login(credentials_secret_ref).await?;
            add_login(&mut entries, *mechanism, login);
        }
        let login_secret = sasl.as_ref().map(|sasl| sasl.credentials_secret_ref.name.to_string());
        Ok(Self { entries, servers: servers.len(), login_secret })
    }

    /// Settings without a cluster to read Secrets from: comma-separated `host:port`, with or
    /// without a log-in, unencrypted.
    #[must_use]
    pub fn direct(bootstrap_servers: &str, login: Option<(SaslMechanism, Login)>) -> Self {
        let mut entries = common(bootstrap_servers.to_owned());
        if let Some((mechanism, login)) = login {
            entries.push(("security.protocol", "sasl_plaintext".to_owned()));
            add_login(&mut entries, mechanism, login);
        }
        let servers = bootstrap_servers.split(',').count();
        Self { entries, servers, login_secret: None }
    }

    /// Identifies this connection by servers, protocol and secrets, none of which can be read from
    /// it.
    pub(super) fn identity(&self) -> Identity {
        let mut hash = Sha256::new();
        for (key, value) in &self.entries {
            for part in [key.as_bytes(), value.as_bytes()] {
                hash.update(part.len().to_le_bytes());
                hash.update(part);
            }
        }
        // The failures of a connection name its Secret.
        hash.update(self.login_secret.as_deref().unwrap_or_default());
        Identity(hash.finalize().into())
    }

    /// The bootstrap servers, with commas in between.
    pub(super) fn bootstrap_servers(&self) -> &str {
        let servers = self.entries.iter().find(|(key, _)| *key == "bootstrap.servers");
        servers.map_or("", |(_, servers)| servers)
    }

    /// Bootstrap servers named.
    pub(super) fn servers(&self) -> usize {
        self.servers
    }

    /// The Secret that the log-in is from.
    pub(super) fn login_secret(&self) -> Option<&str> {
        self.login_secret.as_deref()
    }

    /// The settings as librdkafka takes them.
    pub(super) fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        for (key, value) in &self.entries {
            config.set(*key, value);
        }
        config
    }
}

/// A hash of everything that makes up a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity([u8; 32]);

type Entries = Vec<(&'static str, String)>;

fn common(bootstrap_servers: String) -> Entries {
    vec![
        ("bootstrap.servers", bootstrap_servers),
        ("client.id", "millrace-operator".to_owned()),
        ("socket.connection.setup.timeout.ms", CONNECT_TIMEOUT_MILLIS.to_owned()),
        // A failed name or address is retried soon; the conversation is short anyway.
        ("reconnect.backoff.max.ms", "1000".to_owned()),
        ("enable.metrics.push", "false".to_owned()),
        ("receive.message.max.bytes", ANSWER_BYTES_MAX.to_owned()),
        // Must be less, and nothing is ever fetched.
        ("fetch.max.bytes", FETCH_BYTES_MAX.to_owned()),
    ]
}

fn add_login(entries: &mut Entries, mechanism: SaslMechanism, login: Login) {
    let Login { username, password } = login;
    entries.push(("sasl.mechanism", mechanism.as_str().to_owned()));
    entries.push(("sasl.username", username));
    entries.push(("sasl.password", password));
}

async fn add_tls(
    entries: &mut Entries,
    tls: &KafkaTls,
    secrets: &Secrets,
) -> Result<(), StepError> {
    let KafkaTls { ca_secret_ref, client_certificate_secret_ref } = tls;
    if let Some(ca) = ca_secret_ref {
        entries.push(("ssl.ca.pem", secrets.authority(ca).await?));
    }
    if let Some(pair) = client_certificate_secret_ref {
        let (certificate, key) = secrets.certificate(pair.name.as_str()).await?;
        entries.push(("ssl.certificate.pem", certificate));
        entries.push(("ssl.key.pem", key));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(servers: &str, login: Option<(&str, &str)>) -> Settings {
        let login = login.map(|(user, password)| {
            let login = Login { username: user.to_owned(), password: password.to_owned() };
            (SaslMechanism::ScramSha512, login)
        });
        Settings::direct(servers, login)
    }

    /// Scenario: connections that differ in one part, or in where one part ends. Guarantee: each is
    /// another connection; the same one twice is the same.
    #[test]
    fn connections_are_told_apart_by_every_part() {
        let all = [
            settings("k:9092", None),
            settings("k:9093", None),
            settings("k:9092", Some(("u", "p"))),
            settings("k:9092", Some(("u", "q"))),
            settings("k:9092", Some(("up", ""))),
        ];
        for (at, one) in all.iter().enumerate() {
            for (other_at, other) in all.iter().enumerate() {
                assert_eq!(one.identity() == other.identity(), at == other_at);
            }
        }
        assert_eq!(all[3].identity(), settings("k:9092", Some(("u", "q"))).identity());
    }
}
