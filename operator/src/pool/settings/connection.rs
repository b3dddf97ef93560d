//! Translates the spec's connections to the collector's: the same settings, with references to
//! Secrets as file paths. Pure; records every path in [`SecretUses`].

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use millrace_config as config;
use millrace_crds::v1alpha1 as crds;

use super::variants::same_variant;
use crate::error::Invalid;
use crate::pool::names::PoolNames;
use crate::pool::secrets::SecretUses;

/// Parses a field of a spec as a checked value of the collector's settings.
///
/// # Errors
/// When the collector's rule is stricter than the API's; the message names the field.
pub fn parse_field<T>(field: &str, text: &str) -> Result<T, Invalid>
where
    T: FromStr,
    T::Err: Display,
{
    text.parse().map_err(|error| Invalid::spec_invalid(format!("spec.{field}: {error}")))
}

/// Returns a declared size, or the collector's default.
#[must_use]
pub fn byte_size(
    declared: Option<&millrace_crds::MemoryQuantity>,
    usual: config::ByteSize,
) -> config::ByteSize {
    declared.map_or(usual, |size| config::ByteSize::bytes(size.bytes()))
}

pub(super) fn secret_file(
    uses: &mut SecretUses,
    secret: &str,
    key: &str,
) -> Result<config::SecretFile, Invalid> {
    config::SecretFile::new(uses.add_file(secret, key))
        .map_err(|error| Invalid::spec_invalid(format!("Secret {secret}, key {key}: {error}")))
}

/// Returns the path of a CA's certificates.
pub(super) fn ca_file(
    uses: &mut SecretUses,
    ca: &crds::CaSource,
) -> Result<config::SecretFile, Invalid> {
    match (&ca.secret_name, &ca.config_map_name) {
        (Some(secret), _) => secret_file(uses, secret.as_str(), ca.key()),
        (None, Some(name)) => config::SecretFile::new(
            uses.add_config_map_file(name.as_str(), ca.key()),
        )
        .map_err(|error| {
            Invalid::spec_invalid(format!("ConfigMap {name}, key {}: {error}", ca.key()))
        }),
        (None, None) => Err(Invalid::spec_invalid("ca has neither secretName nor configMapName")),
    }
}

/// Returns the paths of a certificate and its key.
pub(super) fn certificate_files(
    uses: &mut SecretUses,
    pair: &crds::CertificateSecret,
) -> Result<(config::SecretFile, config::SecretFile), Invalid> {
    let name = pair.name.as_str();
    let certificate = secret_file(uses, name, pair.certificate_key())?;
    Ok((certificate, secret_file(uses, name, pair.private_key_key())?))
}

fn value_file(
    uses: &mut SecretUses,
    at: &crds::SecretKeyRef,
) -> Result<config::SecretFile, Invalid> {
    secret_file(uses, at.name.as_str(), at.key.as_str())
}

/// Returns a user name as text, or the path of its file.
fn split_username(
    uses: &mut SecretUses,
    username: crds::Username<'_>,
) -> Result<(Option<String>, Option<config::SecretFile>), Invalid> {
    Ok(match username {
        crds::Username::Text(text) => (Some(text.to_owned()), None),
        crds::Username::Secret(at) => (None, Some(value_file(uses, at)?)),
    })
}

fn missing_field(part: &str, missing: crds::MissingField) -> Invalid {
    Invalid::spec_invalid(format!("spec.{part}.authentication.{missing}"))
}

/// Builds the Kafka connection of pods, which never see the credentials for administration.
///
/// # Errors
/// When the collector doesn't accept a value.
pub fn build_kafka(
    spec: &crds::KafkaConnection,
    uses: &mut SecretUses,
) -> Result<config::KafkaConnection, Invalid> {
    let crds::KafkaConnection { bootstrap_servers, tls, authentication, admin: _ } = spec;
    let servers = bootstrap_servers
        .iter()
        .map(|server| parse_field("kafka.bootstrapServers", server.as_str()))
        .collect::<Result<Vec<_>, _>>()?;
    let ca = |tls: &crds::KafkaTls, uses: &mut SecretUses| client_tls(tls.ca.as_ref(), None, uses);
    let mut tls = tls.as_ref().map(|tls| ca(tls, uses)).transpose()?;
    let login = authentication.as_ref().map(crds::KafkaAuthentication::login).transpose();
    let sasl = match login.map_err(|missing| missing_field("kafka", missing))? {
        None => None,
        Some(crds::KafkaLogin::Certificate(pair)) => {
            let (certificate, key) = certificate_files(uses, pair)?;
            let tls = tls.get_or_insert_default();
            (tls.cert_file, tls.key_file) = (Some(certificate), Some(key));
            None
        }
        Some(crds::KafkaLogin::Password { mechanism, username, password }) => {
            Some(password_sasl(mechanism, username, password, uses)?)
        }
        Some(crds::KafkaLogin::OAuth(oauth)) => {
            Some(token_sasl(Some(kafka_oauth(oauth, uses)?), None))
        }
        Some(crds::KafkaLogin::AwsMskIam(aws)) => {
            Some(token_sasl(None, Some(kafka_aws_msk_iam(aws, uses)?)))
        }
    };
    Ok(config::KafkaConnection { bootstrap_servers: servers, tls, sasl })
}

fn client_tls(
    ca: Option<&crds::CaSource>,
    pair: Option<&crds::CertificateSecret>,
    uses: &mut SecretUses,
) -> Result<config::ClientTls, Invalid> {
    let mut tls = config::ClientTls::default();
    if let Some(ca) = ca {
        tls.ca_file = Some(ca_file(uses, ca)?);
    }
    if let Some(pair) = pair {
        let (certificate, key) = certificate_files(uses, pair)?;
        (tls.cert_file, tls.key_file) = (Some(certificate), Some(key));
    }
    Ok(tls)
}

fn password_sasl(
    mechanism: crds::SaslMechanism,
    username: crds::Username<'_>,
    password: &crds::SecretKeyRef,
    uses: &mut SecretUses,
) -> Result<config::Sasl, Invalid> {
    let mechanism = same_variant!(mechanism, crds::SaslMechanism => config::SaslMechanism {
        Plain, ScramSha256, ScramSha512
    });
    let (username, username_file) = split_username(uses, username)?;
    let password_file = Some(value_file(uses, password)?);
    Ok(config::Sasl { username, username_file, password_file, ..without_login(mechanism) })
}

fn token_sasl(
    oauth: Option<config::KafkaOAuth>,
    aws_msk_iam: Option<config::KafkaAwsMskIam>,
) -> config::Sasl {
    config::Sasl { oauth, aws_msk_iam, ..without_login(config::SaslMechanism::OAuthBearer) }
}

fn without_login(mechanism: config::SaslMechanism) -> config::Sasl {
    config::Sasl {
        mechanism,
        username: None,
        username_file: None,
        password_file: None,
        oauth: None,
        aws_msk_iam: None,
    }
}

fn kafka_aws_msk_iam(
    spec: crds::KafkaAwsMskIam<'_>,
    uses: &mut SecretUses,
) -> Result<config::KafkaAwsMskIam, Invalid> {
    let crds::KafkaAwsMskIam { region, keys } = spec;
    let (id, key) = keys.unzip();
    Ok(config::KafkaAwsMskIam {
        region: region.to_owned(),
        access_key_id_file: id.map(|at| value_file(uses, at)).transpose()?,
        secret_access_key_file: key.map(|at| value_file(uses, at)).transpose()?,
    })
}

fn kafka_oauth(
    spec: crds::KafkaOAuth<'_>,
    uses: &mut SecretUses,
) -> Result<config::KafkaOAuth, Invalid> {
    let crds::KafkaOAuth { token_endpoint, client_id, client_secret, scope, ca } = spec;
    Ok(config::KafkaOAuth {
        token_endpoint: parse_field("kafka.authentication.tokenEndpoint", token_endpoint)?,
        client_id: client_id.to_owned(),
        client_secret_file: value_file(uses, client_secret)?,
        scope: scope.map(str::to_owned),
        ca_file: ca.map(|ca| ca_file(uses, ca)).transpose()?,
    })
}

/// Returns the ClickHouse exporter's endpoints, attributes and credentials. Its other settings have
/// their defaults.
///
/// # Errors
/// When the collector doesn't accept a value.
pub fn build_clickhouse(
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
        authentication,
        tls,
        // Only the operator uses these.
        admin: _,
        coordination: _,
    } = spec;
    let endpoints = endpoints
        .iter()
        .map(|endpoint| parse_field("clickhouse.endpoints", endpoint.as_str()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut client = tls.as_ref().map(|tls| client_tls(tls.ca.as_ref(), None, uses)).transpose()?;
    let login = authentication.as_ref().map(crds::ClickHouseAuthentication::login).transpose();
    let login = login.map_err(|missing| missing_field("clickhouse", missing))?;
    let credentials = login.map(|login| clickhouse_credentials(login, &mut client, uses));
    Ok(config::ClickHouseExporter {
        endpoints,
        shards: spec.shards(),
        database: parse_field("clickhouse.database", spec.database())?,
        table_prefix: parse_field("clickhouse.tablePrefix", spec.table_prefix())?,
        credentials: credentials.transpose()?,
        tls: client,
        // Written also where it is the default, so that the pods of each release agree.
        attributes: Some(attributes),
        ..config::ClickHouseExporter::default()
    })
}

/// Returns the credentials; a client certificate becomes a part of `tls`.
fn clickhouse_credentials(
    login: crds::ClickHouseLogin<'_>,
    tls: &mut Option<config::ClientTls>,
    uses: &mut SecretUses,
) -> Result<config::Credentials, Invalid> {
    let mut credentials = config::Credentials::default();
    match login {
        crds::ClickHouseLogin::Password { username, password } => {
            (credentials.username, credentials.username_file) = split_username(uses, username)?;
            credentials.password_file = Some(value_file(uses, password)?);
        }
        crds::ClickHouseLogin::Certificate { username, certificate } => {
            (credentials.username, credentials.username_file) = split_username(uses, username)?;
            let (certificate, key) = certificate_files(uses, certificate)?;
            let tls = tls.get_or_insert_default();
            (tls.cert_file, tls.key_file) = (Some(certificate), Some(key));
        }
        crds::ClickHouseLogin::Token(token) => {
            credentials.token_file = Some(value_file(uses, token)?);
        }
    }
    Ok(credentials)
}

/// Returns the destination of pods' own traces and logs. The spec may override the attributes that
/// describe their origin.
///
/// # Errors
/// When the collector doesn't accept a value.
pub fn build_telemetry(
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
    let headers = headers.iter().map(|crds::SecretHeader { name, value_secret: at }| {
        Ok((name.clone(), secret_file(uses, at.name.as_str(), at.key.as_str())?))
    });
    let headers = headers.collect::<Result<_, Invalid>>()?;
    let tls = tls.as_ref().map(|crds::OwnTls { ca, certificate_secret: pair }| {
        client_tls(ca.as_ref(), pair.as_ref(), uses)
    });
    let defaults = [("service.namespace", &names.namespace), ("millrace.pool", &names.pool)];
    let mut all: BTreeMap<_, _> =
        defaults.map(|(name, value)| (name.to_owned(), value.clone())).into();
    all.extend(attributes.clone());
    Ok(config::OwnTelemetry {
        otlp: Some(config::OwnOtlp {
            endpoint: parse_field("telemetry.otlp.endpoint", endpoint.as_str())?,
            headers,
            tls: tls.transpose()?,
            traces_per_second: *traces_per_second,
            traces_percent: u8::try_from(*traces_percent).unwrap_or(u8::MAX),
            logs: *logs,
            attributes: all,
        }),
    })
}

/// Builds TLS of the edge's listeners.
///
/// # Errors
/// When the collector doesn't accept a value.
pub fn build_server_tls(
    spec: &crds::ServerTls,
    uses: &mut SecretUses,
) -> Result<config::ServerTls, Invalid> {
    let crds::ServerTls { certificate_secret, client_ca } = spec;
    let (cert_file, key_file) = certificate_files(uses, certificate_secret)?;
    let client_ca_file = client_ca.as_ref().map(|ca| ca_file(uses, ca)).transpose()?;
    Ok(config::ServerTls { cert_file, key_file, client_ca_file })
}

/// Returns the topic of each signal, by default with the ecosystem's name.
///
/// # Errors
/// When the collector doesn't accept a topic's name.
pub fn build_topics<'a>(
    named: impl Iterator<Item = (crds::Signal, Option<&'a millrace_crds::TopicName>)>,
) -> Result<config::Topics, Invalid> {
    let mut topics = config::Topics::default();
    for (signal, name) in named {
        let name = name.map_or(signal.default_topic(), millrace_crds::TopicName::as_str);
        let topic = parse_field(&format!("signals.{}.topicName", signal.as_str()), name)?;
        *match signal {
            crds::Signal::Traces => &mut topics.traces,
            crds::Signal::Logs => &mut topics.logs,
            crds::Signal::Metrics => &mut topics.metrics,
        } = Some(topic);
    }
    Ok(topics)
}

/// Checks a complete configuration by the collector's own rules and writes it as YAML.
///
/// # Errors
/// When the collector itself would refuse the configuration.
pub fn render_config(settings: config::Config) -> Result<String, Invalid> {
    let to_invalid = |error: config::ConfigError| {
        Invalid::spec_invalid(format!("the collector would refuse its configuration: {error}"))
    };
    let text = settings.render().map_err(to_invalid)?;
    settings.check().map_err(to_invalid)?;
    Ok(text)
}
