//! Translates connection settings into librdkafka properties, for consumers and producers.
//!
//! It has no client; receivers and exporters set the properties on theirs. Secrets pass through and
//! are never stored, printed or logged.

use millrace_config::{ClientTls, KafkaConnection, SecretError};

/// A librdkafka property and its value. The value may be secret: don't print it.
pub type Property = (&'static str, String);

/// Returns the properties for `connection`. Reads secret files now.
///
/// # Errors
/// If a file of the connection can't be used.
pub fn client_properties(connection: &KafkaConnection) -> Result<Vec<Property>, SecretError> {
    let KafkaConnection { bootstrap_servers, tls, sasl } = connection;
    let servers: Vec<&str> = bootstrap_servers.iter().map(|server| server.as_str()).collect();
    let protocol = match (tls, sasl) {
        (None, None) => "plaintext",
        (Some(_), None) => "ssl",
        (None, Some(_)) => "sasl_plaintext",
        (Some(_), Some(_)) => "sasl_ssl",
    };
    let mut properties = vec![
        ("bootstrap.servers", servers.join(",")),
        ("security.protocol", protocol.to_owned()),
        ("client.id", "millrace".to_owned()),
        // The client reconnects to an unreachable broker soon, but not in a tight loop.
        ("reconnect.backoff.ms", "100".to_owned()),
        ("reconnect.backoff.max.ms", "5000".to_owned()),
    ];
    if let Some(ClientTls { ca_file, cert_file, key_file }) = tls {
        let files = [
            ("ssl.ca.location", ca_file),
            ("ssl.certificate.location", cert_file),
            ("ssl.key.location", key_file),
        ];
        for (name, file) in files {
            if let Some(file) = file {
                properties.push((name, file.path().to_string_lossy().into_owned()));
            }
        }
    }
    if let Some(sasl) = sasl {
        properties.push(("sasl.mechanisms", sasl.mechanism.as_str().to_owned()));
        if let Some(username) = &sasl.username {
            properties.push(("sasl.username", username.clone()));
        }
        let files =
            [("sasl.username", &sasl.username_file), ("sasl.password", &sasl.password_file)];
        for (name, file) in files {
            if let Some(file) = file {
                properties.push((name, file.read()?.expose().to_owned()));
            }
        }
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the four combinations of TLS and SASL. Guarantee: each has its own protocol.
    #[test]
    fn the_protocol_follows_from_what_is_configured() {
        let protocol = |connection: &KafkaConnection| {
            let found = client_properties(connection).unwrap();
            found.into_iter().find(|(name, _)| *name == "security.protocol").unwrap().1
        };
        let mut connection = KafkaConnection::default();
        assert_eq!(protocol(&connection), "plaintext");
        connection.tls = Some(ClientTls::default());
        assert_eq!(protocol(&connection), "ssl");
    }
}
