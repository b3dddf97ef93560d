//! From the spec's connections to the collector's: the same settings, with references to Secrets as
//! file paths. Pure; notes every path in [`SecretUses`].

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use millrace_config as config;
use millrace_crds::v1alpha1 as crds;

use super::names::PoolNames;
use super::secrets::SecretUses;
use crate::error::Invalid;

/// Reads a checked value of the collector's settings from a spec's field.
///
/// # Errors
/// When the collector's rule is stricter than the API's; the message names the field.
pub fn checked<T>(field: &str, text: &str) -> Result<T, Invalid>
where
    T: FromStr,
    T::Err: Display,
{
    text.parse().map_err(|error| Invalid::spec(format!("spec.{field}: {error}")))
}

pub(super) fn file(
    uses: &mut SecretUses,
    secret: &str,
    key: &str,
) -> Result<config::SecretFile, Invalid> {
    config::SecretFile::new(uses.file(secret, key))
        .map_err(|error| Invalid::spec(format!("Secret {secret}, key {key}: {error}")))
}

/// The Kafka connection.
///
/// # Errors
/// When a value is outside what the collector accepts.
pub fn kafka(
    spec: &crds::KafkaConnection,
    uses: &mut SecretUses,
) -> Result<config::KafkaConnection, Invalid> {
    let crds::KafkaConnection { bootstrap_servers, tls, sasl } = spec;
    let servers = bootstrap_servers
        .iter()
        .map(|server| checked("kafka.bootstrapServers", server.as_str()))
        .collect::<Result<Vec<_>, _>>()?;
    let tls = tls.as_ref().map(|tls| kafka_tls(tls, uses)).transpose()?;
    let sasl = sasl.as_ref().map(|sasl| kafka_sasl(sasl, uses)).transpose()?;
    Ok(config::KafkaConnection { bootstrap_servers: servers, tls, sasl })
}

fn kafka_tls(spec: &crds::KafkaTls, uses: &mut SecretUses) -> Result<config::ClientTls, Invalid> {
    let crds::KafkaTls { ca_secret_ref, client_certificate_secret_ref } = spec;
    client_tls(ca_secret_ref.as_ref(), client_certificate_secret_ref.as_ref(), uses)
}

fn client_tls(
    ca: Option<&crds::CaRef>,
    pair: Option<&crds::SecretRef>,
    uses: &mut SecretUses,
) -> Result<config::ClientTls, Invalid> {
    let mut tls = config::ClientTls::default();
    if let Some(ca) = ca {
        tls.ca_file = Some(file(uses, ca.name.as_str(), ca.key())?);
    }
    if let Some(pair) = pair {
        tls.cert_file = Some(file(uses, pair.name.as_str(), "tls.crt")?);
        tls.key_file = Some(file(uses, pair.name.as_str(), "tls.key")?);
    }
    Ok(tls)
}

fn kafka_sasl(spec: &crds::KafkaSasl, uses: &mut SecretUses) -> Result<config::Sasl, Invalid> {
    let crds::KafkaSasl { mechanism, credentials_secret_ref: user } = spec;
    let mechanism = match mechanism {
        crds::SaslMechanism::Plain => config::SaslMechanism::Plain,
        crds::SaslMechanism::ScramSha256 => config::SaslMechanism::ScramSha256,
        crds::SaslMechanism::ScramSha512 => config::SaslMechanism::ScramSha512,
    };
    Ok(config::Sasl {
        mechanism,
        username_file: file(uses, user.name.as_str(), user.username_key())?,
        password_file: file(uses, user.name.as_str(), user.password_key())?,
    })
}

/// The ClickHouse part of the exporter: where, what, as whom. The rest keeps its defaults.
///
/// # Errors
/// When a value is outside what the collector accepts.
pub fn clickhouse(
    spec: &crds::ClickHouseTarget,
    attributes: config::Attributes,
    uses: &mut SecretUses,
) -> Result<config::ClickHouseExporter, Invalid> {
    let crds::ClickHouseTarget {
        endpoints,
        shards: _,
        database: _,
        table_prefix: _,
        // Only DDL runs on the cluster; rows go to the endpoints.
        cluster: _,
        distributed: _,
        credentials_secret_ref,
        tls,
        // The operator's alone.
        coordination: _,
    } = spec;
    let endpoints = endpoints
        .iter()
        .map(|endpoint| checked("clickhouse.endpoints", endpoint.as_str()))
        .collect::<Result<Vec<_>, _>>()?;
    let credentials = match credentials_secret_ref {
        None => None,
        Some(user) => Some(config::Credentials {
            username_file: file(uses, user.name.as_str(), user.username_key())?,
            password_file: file(uses, user.name.as_str(), user.password_key())?,
        }),
    };
    let tls = match tls {
        None => None,
        Some(crds::ClickHouseTls { ca_secret_ref }) => {
            let ca = ca_secret_ref.as_ref();
            let ca = ca.map(|ca| file(uses, ca.name.as_str(), ca.key())).transpose()?;
            Some(config::ClientTls { ca_file: ca, ..config::ClientTls::default() })
        }
    };
    Ok(config::ClickHouseExporter {
        endpoints,
        shards: spec.shards(),
        database: checked("clickhouse.database", spec.database())?,
        table_prefix: checked("clickhouse.tablePrefix", spec.table_prefix())?,
        credentials,
        tls,
        attributes,
        ..config::ClickHouseExporter::default()
    })
}

/// Where pods' own traces and logs go. What they are of, the spec may say in other words.
///
/// # Errors
/// When a value is outside what the collector accepts.
pub fn own_telemetry(
    spec: Option<&crds::OwnTelemetry>,
    names: &PoolNames,
    uses: &mut SecretUses,
) -> Result<config::OwnTelemetry, Invalid> {
    let Some(crds::OwnTelemetry { otlp: Some(own) }) = spec else {
        return Ok(config::OwnTelemetry::default());
    };
    let crds::OwnOtlp {
        endpoint,
        headers,
        tls,
        traces_per_second,
        traces_percent,
        logs,
        attributes,
    } = own;
    let headers = headers.iter().map(|crds::SecretHeader { name, secret_key_ref: at }| {
        Ok((name.clone(), file(uses, at.name.as_str(), at.key.as_str())?))
    });
    let headers = headers.collect::<Result<_, Invalid>>()?;
    let tls = tls.as_ref().map(
        |crds::OwnTls { ca_secret_ref: ca, client_certificate_secret_ref: pair }| {
            client_tls(ca.as_ref(), pair.as_ref(), uses)
        },
    );
    let given = [("service.namespace", &names.namespace), ("millrace.pool", &names.pool)];
    let mut all: BTreeMap<_, _> =
        given.map(|(name, value)| (name.to_owned(), value.clone())).into();
    all.extend(attributes.clone());
    Ok(config::OwnTelemetry {
        otlp: Some(config::OwnOtlp {
            endpoint: checked("telemetry.otlp.endpoint", endpoint.as_str())?,
            headers,
            tls: tls.transpose()?,
            traces_per_second: *traces_per_second,
            traces_percent: u8::try_from(*traces_percent).unwrap_or(u8::MAX),
            logs: *logs,
            attributes: all,
        }),
    })
}

/// TLS of the edge's listeners.
///
/// # Errors
/// When a value is outside what the collector accepts.
pub fn server_tls(
    spec: &crds::ServerTls,
    uses: &mut SecretUses,
) -> Result<config::ServerTls, Invalid> {
    let crds::ServerTls { certificate_secret_ref: pair, client_ca_secret_ref } = spec;
    let ca = client_ca_secret_ref.as_ref();
    Ok(config::ServerTls {
        cert_file: file(uses, pair.name.as_str(), "tls.crt")?,
        key_file: file(uses, pair.name.as_str(), "tls.key")?,
        client_ca_file: ca.map(|ca| file(uses, ca.name.as_str(), "ca.crt")).transpose()?,
    })
}

/// The topic of each signal, by the ecosystem's names unless said otherwise.
///
/// # Errors
/// When a topic's name is outside what the collector accepts.
pub fn topics<'a>(
    named: impl Iterator<Item = (crds::Signal, Option<&'a millrace_crds::TopicName>)>,
) -> Result<config::Topics, Invalid> {
    let mut topics = config::Topics::default();
    for (signal, name) in named {
        let name = name.map_or(signal.default_topic(), millrace_crds::TopicName::as_str);
        let topic = checked(&format!("signals.{}.topicName", signal.as_str()), name)?;
        *match signal {
            crds::Signal::Traces => &mut topics.traces,
            crds::Signal::Logs => &mut topics.logs,
            crds::Signal::Metrics => &mut topics.metrics,
        } = Some(topic);
    }
    Ok(topics)
}

/// Checks a whole configuration by the collector's own rules and writes it as YAML.
///
/// # Errors
/// All that the collector itself would refuse.
pub fn render(settings: config::Config) -> Result<String, Invalid> {
    let told = |error: config::ConfigError| {
        Invalid::spec(format!("the collector would refuse its configuration: {error}"))
    };
    let text = settings.render().map_err(told)?;
    settings.check().map_err(told)?;
    Ok(text)
}
