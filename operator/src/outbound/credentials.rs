//! Reads the Secrets that the operator itself signs in with.
//!
//! Values are read one by one, right before use, and dropped after it; none is cached. The types
//! that carry them neither print nor serialise.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use millrace_crds::Reason;
use millrace_crds::v1alpha1::{CaRef, CredentialsRef};

use crate::error::{Category, Step, StepError};

/// A Secret, or a key of one, that is not there, or is not text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SecretFault {
    /// `SecretMissing` or `SecretKeyMissing`.
    pub reason: Reason,
    /// Which Secret and key, and what to do.
    pub message: String,
}

/// A user name and a password. Has no `Debug`: it must not be printed.
pub struct Login {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
}

/// Reads Secrets of one namespace.
pub struct Secrets {
    api: Api<Secret>,
    namespace: String,
}

impl Secrets {
    /// Secrets of `namespace`.
    #[must_use]
    pub fn of(client: &Client, namespace: &str) -> Self {
        Self { api: Api::namespaced(client.clone(), namespace), namespace: namespace.to_owned() }
    }

    /// User name and password.
    ///
    /// # Errors
    /// When Secret or key are missing, or the API server refuses or can't be reached.
    pub async fn login(&self, reference: &CredentialsRef) -> Result<Login, StepError> {
        let name = reference.name.as_str();
        let data = self.data(name).await?;
        Ok(Login {
            username: self.text(name, reference.username_key(), &data)?,
            password: self.text(name, reference.password_key(), &data)?,
        })
    }

    /// The certificates of an authority, in PEM form.
    ///
    /// # Errors
    /// As [`Self::login`].
    pub async fn authority(&self, reference: &CaRef) -> Result<String, StepError> {
        let name = reference.name.as_str();
        self.text(name, reference.key(), &self.data(name).await?)
    }

    /// Certificate and key of a Secret of type `kubernetes.io/tls`, in PEM form.
    ///
    /// # Errors
    /// As [`Self::login`].
    pub async fn certificate(&self, name: &str) -> Result<(String, String), StepError> {
        let data = self.data(name).await?;
        Ok((self.text(name, "tls.crt", &data)?, self.text(name, "tls.key", &data)?))
    }

    async fn data(&self, name: &str) -> Result<BTreeMap<String, ByteString>, StepError> {
        let found = self.api.get_opt(name).await.map_err(|source| {
            StepError::api(Step::Observe, format!("get Secret {}/{name}", self.namespace), source)
        })?;
        let Some(secret) = found else {
            let message = format!(
                "Secret {name} does not exist in namespace {}; create it, or correct the reference",
                self.namespace
            );
            return Err(fault(Reason::SecretMissing, message));
        };
        Ok(secret.data.unwrap_or_default())
    }

    fn text(
        &self,
        name: &str,
        key: &str,
        data: &BTreeMap<String, ByteString>,
    ) -> Result<String, StepError> {
        let Some(ByteString(bytes)) = data.get(key) else {
            let message = format!(
                "Secret {name} in namespace {} has no key {key}; add it, or name the right key",
                self.namespace
            );
            return Err(fault(Reason::SecretKeyMissing, message));
        };
        // A file made by an editor ends in a line break that is no part of the value.
        let text = std::str::from_utf8(bytes).map(|text| text.trim_end_matches(['\r', '\n']));
        text.map(str::to_owned).map_err(|_| {
            let message = format!("key {key} of Secret {name} is not text (UTF-8); replace it");
            fault(Reason::SecretKeyMissing, message)
        })
    }
}

fn fault(reason: Reason, message: String) -> StepError {
    // Someone will create it: retry soon, so not `Invalid`.
    StepError::new(Step::Observe, Category::External, reason, SecretFault { reason, message })
}
