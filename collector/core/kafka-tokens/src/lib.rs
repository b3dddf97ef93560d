//! What Kafka clients need and the library's safe interface lacks: tokens (SASL OAUTHBEARER), and
//! their bootstrap servers again when they know no broker any more ([`Rebootstrap`]), and why Kafka
//! refuses them, in one text for all ([`describe_refusal`]).
//!
//! [`TokenSource`] requests a token, renews it before it expires, and hands each one to the
//! attached Kafka clients, whose threads thus never wait for its issuer: a provider of OAuth 2.0,
//! or this process itself, which signs tokens for Amazon MSK.

mod access_token;
mod aws;
mod client_credentials;
mod http_client;
mod native;
mod rebootstrap;
mod refusal;
mod secret_text;
mod settings;
mod source;

pub use aws::credentials::AwsEnvironment;
pub use native::KafkaClient;
pub use rebootstrap::Rebootstrap;
pub use refusal::describe_refusal;
pub use secret_text::SecretText;
pub use settings::{AwsIdentity, AwsMskIamSettings, OAuthSettings, TokenSettings};
pub use source::{ErrorEvents, TokenSource};
