//! Reads Secrets, and ConfigMaps with CAs, with the operator's own credentials.
//!
//! Values are read one by one, right before use, and dropped after it. Only those of Kafka
//! connections are stored, for some minutes (`kafka/client/resolved.rs`). The types that carry them
//! neither print nor serialize.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{
    CaSource, CertificateSecret, CredentialsRef, SecretKeyRef, Username,
};

use crate::error::{Category, ReconcileStep, StepError};

/// A Secret, or a ConfigMap with the certificates of an authority.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileSource {
    /// The Secret of this name.
    Secret(String),
    /// The ConfigMap of this name.
    ConfigMap(String),
}

/// A user name and a password. It has no `Debug`: it must not be printed.
pub struct Login {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
}

/// Reads Secrets of one namespace.
pub struct Secrets {
    api: Api<Secret>,
    config_maps: Api<ConfigMap>,
    namespace: String,
}

impl Secrets {
    /// Creates a reader of the Secrets of `namespace`.
    #[must_use]
    pub fn in_namespace(client: &Client, namespace: &str) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
            config_maps: Api::namespaced(client.clone(), namespace),
            namespace: namespace.to_owned(),
        }
    }

    /// Returns user name and password.
    ///
    /// # Errors
    /// When Secret or key are missing, or the API server refuses or can't be reached.
    pub async fn read_login(&self, reference: &CredentialsRef) -> Result<Login, StepError> {
        let secret = FileSource::Secret(reference.name.to_string());
        let data = self.read_data(&secret).await?;
        Ok(Login {
            username: self.text_of_key(&secret, reference.username_key(), &data)?,
            password: self.text_of_key(&secret, reference.password_key(), &data)?,
        })
    }

    /// Returns a user name, as text or from its Secret, and the password.
    ///
    /// # Errors
    /// As [`Self::read_login`].
    pub async fn read_user(
        &self,
        username: Username<'_>,
        password: &SecretKeyRef,
    ) -> Result<Login, StepError> {
        let secret = FileSource::Secret(password.name.to_string());
        let data = self.read_data(&secret).await?;
        let username = match username {
            Username::Secret(at) if at.name == password.name => {
                self.text_of_key(&secret, at.key.as_str(), &data)?
            }
            other => self.read_username(other).await?,
        };
        Ok(Login { username, password: self.text_of_key(&secret, password.key.as_str(), &data)? })
    }

    /// Returns a user name, as text or from its Secret.
    ///
    /// # Errors
    /// As [`Self::read_login`].
    pub async fn read_username(&self, username: Username<'_>) -> Result<String, StepError> {
        match username {
            Username::Text(text) => Ok(text.to_owned()),
            Username::Secret(at) => self.read_value(at).await,
        }
    }

    /// Returns the value of one key.
    ///
    /// # Errors
    /// As [`Self::read_login`].
    pub async fn read_value(&self, at: &SecretKeyRef) -> Result<String, StepError> {
        let secret = FileSource::Secret(at.name.to_string());
        self.text_of_key(&secret, at.key.as_str(), &self.read_data(&secret).await?)
    }

    /// Returns the certificates of an authority, in PEM form.
    ///
    /// # Errors
    /// As [`Self::read_login`].
    pub async fn read_authority(&self, reference: &CaSource) -> Result<String, StepError> {
        let source = match (&reference.secret_name, &reference.config_map_name) {
            (None, Some(name)) => FileSource::ConfigMap(name.to_string()),
            (secret, _) => {
                FileSource::Secret(secret.as_ref().map(ToString::to_string).unwrap_or_default())
            }
        };
        self.text_of_key(&source, reference.key(), &self.read_data(&source).await?)
    }

    /// Returns a certificate and its private key, in PEM form.
    ///
    /// # Errors
    /// As [`Self::read_login`].
    pub async fn read_certificate(
        &self,
        reference: &CertificateSecret,
    ) -> Result<(String, String), StepError> {
        let secret = FileSource::Secret(reference.name.to_string());
        let data = self.read_data(&secret).await?;
        let certificate = self.text_of_key(&secret, reference.certificate_key(), &data)?;
        Ok((certificate, self.text_of_key(&secret, reference.private_key_key(), &data)?))
    }

    /// Returns the content of a Secret or ConfigMap; `None` if it does not exist.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub async fn read_source(
        &self,
        source: &FileSource,
    ) -> Result<Option<BTreeMap<String, ByteString>>, StepError> {
        let failed = |error| {
            let (kind, name) = match source {
                FileSource::Secret(name) => ("Secret", name),
                FileSource::ConfigMap(name) => ("ConfigMap", name),
            };
            let what = format!("get {kind} {}/{name}", self.namespace);
            StepError::from_kube(ReconcileStep::Observe, what, error)
        };
        match source {
            FileSource::Secret(name) => {
                let secret = self.api.get_opt(name).await.map_err(failed)?;
                Ok(secret.map(|it| it.data.unwrap_or_default()))
            }
            FileSource::ConfigMap(name) => {
                let map = self.config_maps.get_opt(name).await.map_err(failed)?;
                Ok(map.map(|it| {
                    let text = it.data.unwrap_or_default().into_iter();
                    let text = text.map(|(key, value)| (key, ByteString(value.into_bytes())));
                    text.chain(it.binary_data.unwrap_or_default()).collect()
                }))
            }
        }
    }

    async fn read_data(
        &self,
        source: &FileSource,
    ) -> Result<BTreeMap<String, ByteString>, StepError> {
        self.read_source(source).await?.ok_or_else(|| {
            let message = format!(
                "{source} does not exist in namespace {}; create it, or correct the reference",
                self.namespace
            );
            secret_fault(Reason::SecretMissing, message)
        })
    }

    fn text_of_key(
        &self,
        source: &FileSource,
        key: &str,
        data: &BTreeMap<String, ByteString>,
    ) -> Result<String, StepError> {
        let Some(ByteString(bytes)) = data.get(key) else {
            let message = format!(
                "{source} in namespace {} has no key {key}; add it, or name the right key",
                self.namespace
            );
            return Err(secret_fault(Reason::SecretKeyMissing, message));
        };
        // A file from an editor ends in a line break that is not part of the value.
        let text = std::str::from_utf8(bytes).map(|text| text.trim_end_matches(['\r', '\n']));
        text.map(str::to_owned).map_err(|_| {
            let message = format!("key {key} of {source} is not text (UTF-8); replace it");
            secret_fault(Reason::SecretKeyMissing, message)
        })
    }
}

/// Returns the error for a Secret, or a key of one, that does not exist, or is not text.
fn secret_fault(reason: Reason, message: String) -> StepError {
    // A user will create it: retry soon, so not `Invalid`.
    StepError::new(ReconcileStep::Observe, Category::External, reason, message)
}
