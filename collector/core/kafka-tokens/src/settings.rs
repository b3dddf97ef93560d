//! Where tokens are from.

use millrace_config::{HttpUrl, KafkaAwsMskIam, KafkaConnection, KafkaOAuth};

use crate::aws::credentials::AwsEnvironment;
use crate::secret_text::SecretText;

/// Where a connection's tokens are from. It has no `Debug`: it may hold a secret.
#[derive(Clone)]
pub enum TokenSettings {
    /// A provider of OAuth 2.0.
    OAuth(OAuthSettings),
    /// Signatures for Amazon MSK.
    AwsMskIam(AwsMskIamSettings),
}

/// Signatures for Amazon MSK. It has no `Debug`: it may hold a secret.
#[derive(Clone)]
pub struct AwsMskIamSettings {
    /// The cluster's region.
    pub region: String,
    /// Who signs.
    pub identity: AwsIdentity,
}

/// An identity in AWS.
#[derive(Clone)]
pub enum AwsIdentity {
    /// Access keys of a user.
    Keys {
        /// The key's ID.
        access_key_id: SecretText,
        /// The key itself.
        secret_access_key: SecretText,
    },
    /// The role of this process' service account.
    Environment(AwsEnvironment),
}

/// The provider of tokens and the client's credentials. It has no `Debug`: it may hold a secret.
#[derive(Clone)]
pub struct OAuthSettings {
    /// URL of the token endpoint.
    pub token_endpoint: HttpUrl,
    /// The client's ID.
    pub client_id: String,
    /// The client's secret.
    pub client_secret: SecretText,
    /// Scopes to request.
    pub scope: Option<String>,
    /// Trusted CA certificates in PEM; the system's without them.
    pub ca: Option<SecretText>,
}

impl From<OAuthSettings> for TokenSettings {
    fn from(settings: OAuthSettings) -> Self {
        Self::OAuth(settings)
    }
}

impl TokenSettings {
    /// Returns where a connection's tokens are from; `None` without SASL OAUTHBEARER.
    #[must_use]
    pub fn of_connection(connection: &KafkaConnection) -> Option<Self> {
        let sasl = connection.sasl.as_ref()?;
        let oauth = sasl.oauth.as_ref().map(|oauth| Self::OAuth(of_oauth(oauth)));
        oauth.or_else(|| Some(Self::AwsMskIam(of_aws(sasl.aws_msk_iam.as_ref()?))))
    }

    /// Names the issuer in messages.
    #[must_use]
    pub fn issuer(&self) -> String {
        match self {
            Self::OAuth(settings) => format!("token endpoint {}", settings.token_endpoint),
            Self::AwsMskIam(settings) => format!("AWS credentials in {}", settings.region),
        }
    }

    /// Returns all parts, secrets in memory among them, by which two settings differ.
    #[must_use]
    pub fn distinctive_parts(&self) -> Vec<String> {
        let text = |text: Option<&SecretText>| {
            text.and_then(SecretText::text).unwrap_or_default().to_owned()
        };
        match self {
            Self::OAuth(settings) => {
                let OAuthSettings { token_endpoint, client_id, client_secret, scope, ca } =
                    settings;
                vec![
                    token_endpoint.to_string(),
                    client_id.clone(),
                    text(Some(client_secret)),
                    scope.clone().unwrap_or_default(),
                    text(ca.as_ref()),
                ]
            }
            Self::AwsMskIam(AwsMskIamSettings { region, identity }) => match identity {
                AwsIdentity::Keys { access_key_id, secret_access_key } => {
                    vec![region.clone(), text(Some(access_key_id)), text(Some(secret_access_key))]
                }
                AwsIdentity::Environment(_) => vec![region.clone()],
            },
        }
    }
}

fn of_oauth(oauth: &KafkaOAuth) -> OAuthSettings {
    let KafkaOAuth { token_endpoint, client_id, client_secret_file, scope, ca_file } = oauth;
    OAuthSettings {
        token_endpoint: token_endpoint.clone(),
        client_id: client_id.clone(),
        client_secret: SecretText::File(client_secret_file.clone()),
        scope: scope.clone(),
        ca: ca_file.clone().map(SecretText::File),
    }
}

fn of_aws(settings: &KafkaAwsMskIam) -> AwsMskIamSettings {
    let KafkaAwsMskIam { region, access_key_id_file, secret_access_key_file } = settings;
    let identity = match (access_key_id_file, secret_access_key_file) {
        (Some(id), Some(key)) => AwsIdentity::Keys {
            access_key_id: SecretText::File(id.clone()),
            secret_access_key: SecretText::File(key.clone()),
        },
        _ => AwsIdentity::Environment(AwsEnvironment::of_process()),
    };
    AwsMskIamSettings { region: region.clone(), identity }
}
