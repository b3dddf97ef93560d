//! `--check`: whether an operator works where this runs, as `helm test` asks: its account may list
//! the kinds, and a replica holds the lease and renews it. Writes nothing.
//!
//! Limit: it asks again for [`CHECK_MAX`], since an operator may have started just now.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::lease::Terms;

/// A standby takes over within 5 s by default, an image is started within some 10.
const CHECK_MAX: Duration = Duration::from_secs(60);
/// Between two attempts.
const AGAIN: Duration = Duration::from_secs(2);

/// Where the lease is.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How often it is renewed.
    pub terms: Terms,
}

/// Why an operator does not work here.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A kind isn't served, or not to this account.
    #[error("{kind} can't be listed: is the chart millrace-crds installed, of this version?")]
    Kind {
        /// Which one.
        kind: String,
        /// What the API server said.
        source: Box<kube::Error>,
    },
    /// The API server does not give the lease.
    #[error("lease {name} in namespace {namespace} can't be read")]
    Lease {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What the API server said.
        source: Box<kube::Error>,
    },
    /// Nobody leads.
    #[error(
        "no operator holds the lease {name} in namespace {namespace}: see the state and the log of \
         its pods"
    )]
    Free {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Whoever led has ended, and nobody took over.
    #[error("{holder} holds the lease and does not renew it: see its log")]
    Silent {
        /// The replica.
        holder: String,
    },
}

/// Asks until an operator is seen to work, and gives the name of the replica that leads.
///
/// # Errors
/// What was wrong at the last attempt.
pub async fn check(
    client: &Client,
    namespaces: &[String],
    place: &Place,
) -> Result<String, CheckError> {
    let until = Instant::now() + CHECK_MAX;
    loop {
        match attempt(client, namespaces, place).await {
            Err(_) if Instant::now() < until => tokio::time::sleep(AGAIN).await,
            outcome => return outcome,
        }
    }
}

async fn attempt(
    client: &Client,
    namespaces: &[String],
    place: &Place,
) -> Result<String, CheckError> {
    let kinds = served(client, namespaces).await;
    kinds.map_err(|(kind, source)| CheckError::Kind { kind, source: Box::new(source) })?;
    let before = lease(client, place).await?;
    tokio::time::sleep(place.terms.renew_every() * 2).await;
    let after = lease(client, place).await?;
    match before == after {
        true => Err(CheckError::Silent { holder: after.0 }),
        false => Ok(after.0),
    }
}

/// Who holds the lease, and when they renewed it.
async fn lease(client: &Client, place: &Place) -> Result<(String, Option<MicroTime>), CheckError> {
    let Place { namespace, name, .. } = place.clone();
    let api: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let found = match api.get_opt(&name).await {
        Ok(found) => found.and_then(|lease| lease.spec).unwrap_or_default(),
        Err(error) => {
            return Err(CheckError::Lease { namespace, name, source: Box::new(error) });
        }
    };
    match found.holder_identity.filter(|holder| !holder.is_empty()) {
        Some(holder) => Ok((holder, found.renew_time)),
        None => Err(CheckError::Free { namespace, name }),
    }
}

/// Whether every kind is served to this account.
///
/// # Errors
/// The first that isn't, and why.
pub async fn served(client: &Client, namespaces: &[String]) -> Result<(), (String, kube::Error)> {
    use millrace_crds::v1alpha1::{
        EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
    };
    is_served::<TelemetryPipeline>(client, namespaces).await?;
    is_served::<EdgePool>(client, namespaces).await?;
    is_served::<GatewayPool>(client, namespaces).await?;
    is_served::<TelemetryTopic>(client, namespaces).await?;
    is_served::<TelemetrySchema>(client, namespaces).await
}

async fn is_served<K>(client: &Client, namespaces: &[String]) -> Result<(), (String, kube::Error)>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<K> = match namespaces.first() {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    // Metadata only: an object that does not parse must not block the start.
    let listed = api.list_metadata(&ListParams::default().limit(1)).await;
    listed.map(drop).map_err(|error| (K::kind(&()).into_owned(), error))
}
