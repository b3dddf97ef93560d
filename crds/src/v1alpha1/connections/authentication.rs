//! Authentication to Kafka and ClickHouse: one union for each, whose `type` decides the fields.
//!
//! Never holds a secret, only its name; Secrets and ConfigMaps are in the object's namespace.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::secrets::SecretKeyRef;
use crate::names::{ConfigMapName, SecretKey, SecretName};
use crate::v1alpha1::rules;

/// Certificates of certificate authorities, in a Secret or a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = ca_rules)]
pub struct CaSource {
    /// Name of the Secret. Either it or configMapName is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<SecretName>,
    /// Name of the ConfigMap, for example of a trust-manager Bundle. Either it or secretName is
    /// required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_name: Option<ConfigMapName>,
    /// Key that holds the certificates in PEM form. Default: ca.crt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<SecretKey>,
}

impl CaSource {
    /// A Secret with the usual key.
    pub fn of_secret(name: SecretName) -> Self {
        Self { secret_name: Some(name), config_map_name: None, key: None }
    }

    /// Key of the certificates, the default filled in.
    pub fn key(&self) -> &str {
        self.key.as_ref().map_or("ca.crt", SecretKey::as_str)
    }
}

fn ca_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "has(self.secretName) != has(self.configMapName)",
        "write either secretName or configMapName",
    );
}

/// A client or server certificate with its private key, in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateSecret {
    /// Name of the Secret. A change of its content triggers a rollout.
    pub name: SecretName,
    /// Key that holds the certificate chain in PEM form; user.crt in Strimzi's Secrets. Default:
    /// tls.crt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_key: Option<SecretKey>,
    /// Key that holds the private key in PEM form; user.key in Strimzi's Secrets. Default: tls.key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key_key: Option<SecretKey>,
}

impl CertificateSecret {
    /// A Secret with the usual keys.
    pub fn of_secret(name: SecretName) -> Self {
        Self { name, certificate_key: None, private_key_key: None }
    }

    /// Key of the certificate, the default filled in.
    pub fn certificate_key(&self) -> &str {
        self.certificate_key.as_ref().map_or("tls.crt", SecretKey::as_str)
    }

    /// Key of the private key, the default filled in.
    pub fn private_key_key(&self) -> &str {
        self.private_key_key.as_ref().map_or("tls.key", SecretKey::as_str)
    }
}

/// A user name: as text, or in a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Username<'a> {
    /// The name itself.
    Text(&'a str),
    /// The key with the name.
    Secret(&'a SecretKeyRef),
}

impl<'a> Username<'a> {
    fn of_fields(
        text: Option<&'a String>,
        secret: Option<&'a SecretKeyRef>,
    ) -> Result<Self, MissingField> {
        let text = text.map(|text| Self::Text(text));
        text.or(secret.map(Self::Secret)).ok_or(MissingField("username"))
    }
}

/// A field that the type requires is missing. The API server refuses such objects; only one that
/// never passed it can have this error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is missing, which this authentication.type requires")]
pub struct MissingField(pub &'static str);

/// How to authenticate to Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KafkaAuthenticationType {
    /// SASL SCRAM-SHA-512: user name and password, without sending the password.
    ScramSha512,
    /// SASL SCRAM-SHA-256: the same with the shorter hash.
    ScramSha256,
    /// SASL PLAIN: user name and password, in plaintext without tls.
    Plain,
    /// A client certificate.
    Tls,
    /// SASL OAUTHBEARER: a token from an OpenID Connect provider, by client credentials.
    OAuthBearer,
    /// SASL OAUTHBEARER for Amazon MSK with IAM access control: a token that is signed with AWS
    /// credentials.
    AwsMskIam,
}

/// Authentication to Kafka. The type decides which fields are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kafka_authentication_rules)]
pub struct KafkaAuthentication {
    /// Type of authentication. ScramSha512, ScramSha256 and Plain require passwordSecret and one of
    /// username and usernameSecret; Tls requires certificateSecret; OAuthBearer requires
    /// tokenEndpoint, clientId and clientSecret; AwsMskIam requires region.
    pub r#type: KafkaAuthenticationType,
    /// User name; for a Strimzi KafkaUser its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[ -~]+$"))]
    pub username: Option<String>,
    /// Secret key with the user name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username_secret: Option<SecretKeyRef>,
    /// Secret key with the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_secret: Option<SecretKeyRef>,
    /// Secret with the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_secret: Option<CertificateSecret>,
    /// URL of the provider's token endpoint, https:// or http://.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_024), regex(pattern = r"^https?://[!-?A-~]+$"))]
    pub token_endpoint: Option<String>,
    /// Client ID at the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[ -~]+$"))]
    pub client_id: Option<String>,
    /// Secret key with the client secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SecretKeyRef>,
    /// Scopes to request, separated by spaces. Default: the provider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1_024), regex(pattern = r"^[ -~]+$"))]
    pub scope: Option<String>,
    /// CA of the token endpoint's certificate. Default: the system's CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<CaSource>,
    /// AWS region of the cluster, for example eu-central-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), regex(pattern = r"^[a-z0-9-]+$"))]
    pub region: Option<String>,
    /// Secret key with the access key ID of an IAM user. Default: pods and operator use the AWS
    /// identity of their service account (IRSA or EKS Pod Identity).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key_id_secret: Option<SecretKeyRef>,
    /// Secret key with the secret access key. Required with accessKeyIdSecret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_access_key_secret: Option<SecretKeyRef>,
}

/// Authentication to Kafka with the fields of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KafkaLogin<'a> {
    /// User name and password.
    Password {
        /// SASL's name of the mechanism.
        mechanism: SaslMechanism,
        /// The user name.
        username: Username<'a>,
        /// The key with the password.
        password: &'a SecretKeyRef,
    },
    /// A client certificate.
    Certificate(&'a CertificateSecret),
    /// A token of a provider.
    OAuth(KafkaOAuth<'a>),
    /// A token for Amazon MSK, signed with AWS credentials.
    AwsMskIam(KafkaAwsMskIam<'a>),
}

/// A region of AWS, and who signs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KafkaAwsMskIam<'a> {
    /// The cluster's region.
    pub region: &'a str,
    /// The keys with an IAM user's access key ID and secret access key; `None` for the identity of
    /// the process itself.
    pub keys: Option<(&'a SecretKeyRef, &'a SecretKeyRef)>,
}

/// A provider of tokens, and the client there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KafkaOAuth<'a> {
    /// URL of the token endpoint.
    pub token_endpoint: &'a str,
    /// The client's ID.
    pub client_id: &'a str,
    /// The key with the client's secret.
    pub client_secret: &'a SecretKeyRef,
    /// Scopes to request.
    pub scope: Option<&'a str>,
    /// CA of the endpoint's certificate.
    pub ca: Option<&'a CaSource>,
}

/// A SASL mechanism with user name and password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    /// Sends the password itself.
    Plain,
    /// Proves knowledge of the password, with SHA-256.
    ScramSha256,
    /// Proves knowledge of the password, with SHA-512.
    ScramSha512,
}

impl SaslMechanism {
    /// The mechanism's registered name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl KafkaAuthentication {
    /// User name and password in one Secret, with the keys username and password.
    pub fn of_password(r#type: KafkaAuthenticationType, secret: &PasswordSecret) -> Self {
        Self {
            username_secret: Some(secret.username.clone()),
            password_secret: Some(secret.password.clone()),
            ..Self::without_fields(r#type)
        }
    }

    /// A client certificate.
    pub fn of_certificate(secret: CertificateSecret) -> Self {
        let without = Self::without_fields(KafkaAuthenticationType::Tls);
        Self { certificate_secret: Some(secret), ..without }
    }

    /// The AWS identity of the pods' service account, for Amazon MSK in a region.
    pub fn of_aws_msk_iam(region: String) -> Self {
        let without = Self::without_fields(KafkaAuthenticationType::AwsMskIam);
        Self { region: Some(region), ..without }
    }

    fn without_fields(r#type: KafkaAuthenticationType) -> Self {
        Self {
            r#type,
            username: None,
            username_secret: None,
            password_secret: None,
            certificate_secret: None,
            token_endpoint: None,
            client_id: None,
            client_secret: None,
            scope: None,
            ca: None,
            region: None,
            access_key_id_secret: None,
            secret_access_key_secret: None,
        }
    }

    /// The fields of the type.
    ///
    /// # Errors
    /// When a field is missing that the type requires.
    pub fn login(&self) -> Result<KafkaLogin<'_>, MissingField> {
        use KafkaAuthenticationType as Type;
        let mechanism = match self.r#type {
            Type::ScramSha512 => SaslMechanism::ScramSha512,
            Type::ScramSha256 => SaslMechanism::ScramSha256,
            Type::Plain => SaslMechanism::Plain,
            Type::Tls => {
                let secret = self.certificate_secret.as_ref();
                let secret = secret.ok_or(MissingField("certificateSecret"))?;
                return Ok(KafkaLogin::Certificate(secret));
            }
            Type::OAuthBearer => return self.oauth().map(KafkaLogin::OAuth),
            Type::AwsMskIam => return self.aws_msk_iam().map(KafkaLogin::AwsMskIam),
        };
        let (text, secret) = (self.username.as_ref(), self.username_secret.as_ref());
        let password = self.password_secret.as_ref().ok_or(MissingField("passwordSecret"))?;
        Ok(KafkaLogin::Password {
            mechanism,
            username: Username::of_fields(text, secret)?,
            password,
        })
    }

    fn oauth(&self) -> Result<KafkaOAuth<'_>, MissingField> {
        let endpoint = self.token_endpoint.as_deref();
        Ok(KafkaOAuth {
            token_endpoint: endpoint.ok_or(MissingField("tokenEndpoint"))?,
            client_id: self.client_id.as_deref().ok_or(MissingField("clientId"))?,
            client_secret: self.client_secret.as_ref().ok_or(MissingField("clientSecret"))?,
            scope: self.scope.as_deref(),
            ca: self.ca.as_ref(),
        })
    }

    fn aws_msk_iam(&self) -> Result<KafkaAwsMskIam<'_>, MissingField> {
        let keys = match (&self.access_key_id_secret, &self.secret_access_key_secret) {
            (None, None) => None,
            (Some(id), Some(key)) => Some((id, key)),
            (None, Some(_)) => return Err(MissingField("accessKeyIdSecret")),
            (Some(_), None) => return Err(MissingField("secretAccessKeySecret")),
        };
        let region = self.region.as_deref().ok_or(MissingField("region"))?;
        Ok(KafkaAwsMskIam { region, keys })
    }
}

fn aws_rules(schema: &mut Schema) {
    let rules = [
        ("self.type != 'AwsMskIam' || has(self.region)", "type AwsMskIam requires region"),
        (
            "self.type == 'AwsMskIam' || !(has(self.region) || has(self.accessKeyIdSecret) \
             || has(self.secretAccessKeySecret))",
            "region, accessKeyIdSecret and secretAccessKeySecret belong to type AwsMskIam: remove \
             them, or change type",
        ),
        (
            "has(self.accessKeyIdSecret) == has(self.secretAccessKeySecret)",
            "write both accessKeyIdSecret and secretAccessKeySecret, or neither",
        ),
    ];
    for (rule, message) in rules {
        rules::add_rule(schema, rule, message);
    }
}

fn kafka_authentication_rules(schema: &mut Schema) {
    const PASSWORD: &str = "['ScramSha512', 'ScramSha256', 'Plain']";
    let required = |types: &str, fields: &str| format!("!(self.type in {types}) || ({fields})");
    let foreign = |types: &str, fields: &str| format!("self.type in {types} || !({fields})");
    let rules: [(String, &str); 6] = [
        (
            required(
                PASSWORD,
                "has(self.passwordSecret) && has(self.username) != has(self.usernameSecret)",
            ),
            "types ScramSha512, ScramSha256 and Plain require passwordSecret, and either username \
             or usernameSecret",
        ),
        (
            foreign(
                PASSWORD,
                "has(self.username) || has(self.usernameSecret) || has(self.passwordSecret)",
            ),
            "username, usernameSecret and passwordSecret belong to types ScramSha512, ScramSha256 \
             and Plain: remove them, or change type",
        ),
        (required("['Tls']", "has(self.certificateSecret)"), "type Tls requires certificateSecret"),
        (
            foreign("['Tls']", "has(self.certificateSecret)"),
            "certificateSecret belongs to type Tls: remove it, or write type: Tls",
        ),
        (
            required(
                "['OAuthBearer']",
                "has(self.tokenEndpoint) && has(self.clientId) && has(self.clientSecret)",
            ),
            "type OAuthBearer requires tokenEndpoint, clientId and clientSecret",
        ),
        (
            foreign(
                "['OAuthBearer']",
                "has(self.tokenEndpoint) || has(self.clientId) || has(self.clientSecret) \
                 || has(self.scope) || has(self.ca)",
            ),
            "tokenEndpoint, clientId, clientSecret, scope and ca belong to type OAuthBearer: \
             remove them, or change type (the brokers' CA is tls.ca)",
        ),
    ];
    for (rule, message) in rules {
        rules::add_rule(schema, &rule, message);
    }
    aws_rules(schema);
}

/// User name and password in one Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordSecret {
    username: SecretKeyRef,
    password: SecretKeyRef,
}

impl PasswordSecret {
    /// The keys username and password of a Secret; `None` if it is no Secret's name.
    pub fn of_name(name: &str) -> Option<Self> {
        let name: SecretName = name.parse().ok()?;
        let key = |key: &str| Some(SecretKeyRef { name: name.clone(), key: key.parse().ok()? });
        Some(Self { username: key("username")?, password: key("password")? })
    }
}

/// How to authenticate to ClickHouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClickHouseAuthenticationType {
    /// User name and password.
    Password,
    /// A client certificate, for a user IDENTIFIED WITH ssl_certificate.
    Tls,
    /// A bearer token (JWT), which ClickHouse Cloud accepts.
    Token,
}

/// Authentication to ClickHouse. The type decides which fields are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = clickhouse_authentication_rules)]
pub struct ClickHouseAuthentication {
    /// Type of authentication. Password requires passwordSecret, Tls requires certificateSecret,
    /// and both require one of username and usernameSecret; Token requires tokenSecret.
    pub r#type: ClickHouseAuthenticationType,
    /// User name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[ -~]+$"))]
    pub username: Option<String>,
    /// Secret key with the user name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username_secret: Option<SecretKeyRef>,
    /// Secret key with the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_secret: Option<SecretKeyRef>,
    /// Secret with the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_secret: Option<CertificateSecret>,
    /// Secret key with the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_secret: Option<SecretKeyRef>,
}

/// Authentication to ClickHouse with the fields of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClickHouseLogin<'a> {
    /// User name and password.
    Password {
        /// The user name.
        username: Username<'a>,
        /// The key with the password.
        password: &'a SecretKeyRef,
    },
    /// A client certificate.
    Certificate {
        /// The user name.
        username: Username<'a>,
        /// The certificate.
        certificate: &'a CertificateSecret,
    },
    /// A bearer token.
    Token(&'a SecretKeyRef),
}

impl ClickHouseAuthentication {
    /// User name and password in one Secret.
    pub fn of_password(secret: &PasswordSecret) -> Self {
        Self {
            r#type: ClickHouseAuthenticationType::Password,
            username: None,
            username_secret: Some(secret.username.clone()),
            password_secret: Some(secret.password.clone()),
            certificate_secret: None,
            token_secret: None,
        }
    }

    /// The fields of the type.
    ///
    /// # Errors
    /// When a field is missing that the type requires.
    pub fn login(&self) -> Result<ClickHouseLogin<'_>, MissingField> {
        use ClickHouseAuthenticationType as Type;
        let username =
            || Username::of_fields(self.username.as_ref(), self.username_secret.as_ref());
        match self.r#type {
            Type::Password => {
                let password = self.password_secret.as_ref();
                let password = password.ok_or(MissingField("passwordSecret"))?;
                Ok(ClickHouseLogin::Password { username: username()?, password })
            }
            Type::Tls => {
                let certificate = self.certificate_secret.as_ref();
                let certificate = certificate.ok_or(MissingField("certificateSecret"))?;
                Ok(ClickHouseLogin::Certificate { username: username()?, certificate })
            }
            Type::Token => {
                let token = self.token_secret.as_ref();
                Ok(ClickHouseLogin::Token(token.ok_or(MissingField("tokenSecret"))?))
            }
        }
    }
}

fn clickhouse_authentication_rules(schema: &mut Schema) {
    let rules = [
        (
            "self.type == 'Token' ? !(has(self.username) || has(self.usernameSecret)) \
             : has(self.username) != has(self.usernameSecret)",
            "types Password and Tls require either username or usernameSecret, and type Token \
             neither",
        ),
        (
            "(self.type == 'Password') == has(self.passwordSecret)",
            "type Password requires passwordSecret, and no other type has it",
        ),
        (
            "(self.type == 'Tls') == has(self.certificateSecret)",
            "type Tls requires certificateSecret, and no other type has it",
        ),
        (
            "(self.type == 'Token') == has(self.tokenSecret)",
            "type Token requires tokenSecret, and no other type has it",
        ),
    ];
    for (rule, message) in rules {
        rules::add_rule(schema, rule, message);
    }
}
