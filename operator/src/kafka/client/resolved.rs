//! Connections with the values of their Secrets, so that a lag observed every few seconds does not
//! read the Secrets each time.
//!
//! A session holds the same values for as long as it is used. Whoever fails to use a connection
//! drops it, so that changed credentials are read once the old ones are refused; otherwise they are
//! read again after [`RESOLVED_FOR`]. Limits: [`CONNECTIONS_MAX`], some kB each with a CA.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;
use millrace_crds::v1alpha1::KafkaConnection;

use super::connection::ConnectionSettings;
use crate::error::StepError;
use crate::hash::spread_by;

/// Secrets are read again after this time, or up to half of it earlier, by namespace, so that
/// connections first used together are not read together.
const RESOLVED_FOR: Duration = Duration::from_secs(300);

/// Maximum number of connections. Others are read at each use.
const CONNECTIONS_MAX: usize = 4_096;

/// The connections in use, by namespace and spec.
#[derive(Default)]
pub(in crate::kafka) struct ResolvedConnections {
    known: Mutex<HashMap<String, ResolvedConnection>>,
}

struct ResolvedConnection {
    settings: ConnectionSettings,
    until: Instant,
}

impl ResolvedConnections {
    /// Returns the connection, with its Secrets as they were read within [`RESOLVED_FOR`].
    ///
    /// # Errors
    /// When a Secret or key is missing, or the API server refuses or can't be reached.
    pub(in crate::kafka) async fn resolve(
        &self,
        client: &Client,
        namespace: &str,
        kafka: &KafkaConnection,
    ) -> Result<ConnectionSettings, StepError> {
        let Some(key) = key_of(namespace, kafka) else {
            return ConnectionSettings::resolve(client, namespace, kafka).await;
        };
        if let Some(settings) = self.find(&key) {
            return Ok(settings);
        }
        let settings = ConnectionSettings::resolve(client, namespace, kafka).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if known.len() >= CONNECTIONS_MAX {
            known.retain(|_, it| it.until > now);
        }
        if known.len() < CONNECTIONS_MAX {
            let until = now + RESOLVED_FOR - spread_by(&key, RESOLVED_FOR / 2);
            known.insert(key, ResolvedConnection { settings: settings.clone(), until });
        }
        Ok(settings)
    }

    /// Drops a connection that could not be used.
    pub(in crate::kafka) fn forget(&self, namespace: &str, kafka: &KafkaConnection) {
        if let Some(key) = key_of(namespace, kafka) {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
    }

    /// Drops connections not read within [`RESOLVED_FOR`].
    pub(in crate::kafka) fn drop_old(&self) {
        let now = Instant::now();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, it| it.until > now);
    }

    fn find(&self, key: &str) -> Option<ConnectionSettings> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(key).filter(|it| it.until > Instant::now());
        found.map(|it| it.settings.clone())
    }
}

fn key_of(namespace: &str, kafka: &KafkaConnection) -> Option<String> {
    Some(format!("{namespace} {}", serde_json::to_string(kafka).ok()?))
}
