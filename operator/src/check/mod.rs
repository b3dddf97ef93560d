//! `--check`: whether an operator works in this cluster, for `helm test`. Its account may list the
//! kinds, their definitions are as new as the operator, and a replica holds the lease and renews
//! it. Writes nothing.
//!
//! Limit: it retries for [`CHECK_MAX`], since an operator may have started just now.

pub mod definitions;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ListParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::lease::LeaseTiming;

/// How long the check retries: a standby takes over within 5 s by default, and an image starts
/// within about 10 s.
const CHECK_MAX: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_secs(2);

/// Where the lease is.
#[derive(Clone, Debug)]
pub struct LeaseRef {
    /// The lease's namespace.
    pub namespace: String,
    /// The lease's name.
    pub name: String,
    /// How often it is renewed.
    pub terms: LeaseTiming,
}

/// Why an operator does not work here.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A kind isn't served, or not to this account.
    #[error("{kind} can't be listed: is the chart millrace-crds installed, of this version?")]
    Kind {
        /// The kind.
        kind: String,
        /// The API server's error.
        source: Box<kube::Error>,
    },
    /// A definition lacks a field that the operator reads.
    #[error(transparent)]
    Outdated(#[from] definitions::Outdated),
    /// The API server does not answer whether definitions are outdated.
    #[error(transparent)]
    UnknownDefinitions(#[from] definitions::UnknownDefinitions),
    /// The lease can't be read.
    #[error("lease {name} in namespace {namespace} can't be read")]
    Lease {
        /// The lease's namespace.
        namespace: String,
        /// The lease's name.
        name: String,
        /// The API server's error.
        source: Box<kube::Error>,
    },
    /// No replica holds the lease.
    #[error(
        "no operator holds the lease {name} in namespace {namespace}: see the state and the log of \
         its pods"
    )]
    Free {
        /// The lease's namespace.
        namespace: String,
        /// The lease's name.
        name: String,
    },
    /// The leader ended, and no replica took over.
    #[error("{holder} holds the lease and does not renew it: see its log")]
    Silent {
        /// The replica that holds the lease.
        holder: String,
    },
}

/// Retries until an operator is found to work, and returns the name of the leading replica.
///
/// # Errors
/// The error of the last attempt.
pub async fn wait_for_leader(
    client: &Client,
    namespaces: &[String],
    lease_ref: &LeaseRef,
) -> Result<String, CheckError> {
    let until = Instant::now() + CHECK_MAX;
    loop {
        match check_once(client, namespaces, lease_ref).await {
            Err(_) if Instant::now() < until => tokio::time::sleep(AGAIN).await,
            outcome => return outcome,
        }
    }
}

async fn check_once(
    client: &Client,
    namespaces: &[String],
    lease_ref: &LeaseRef,
) -> Result<String, CheckError> {
    let kinds = check_kinds_served(client, namespaces).await;
    kinds.map_err(|(kind, source)| CheckError::Kind { kind, source: Box::new(source) })?;
    match definitions::find_outdated(client).await {
        Ok(Some(outdated)) => return Err(outdated.into()),
        Err(error) if error.is_temporary() => return Err(error.into()),
        // If the schemas aren't published, the other checks still apply.
        Ok(None) | Err(_) => {}
    }
    let before = read_lease_holder(client, lease_ref).await?;
    tokio::time::sleep(lease_ref.terms.renew_every() * 2).await;
    let after = read_lease_holder(client, lease_ref).await?;
    match before == after {
        true => Err(CheckError::Silent { holder: after.0 }),
        false => Ok(after.0),
    }
}

/// Returns the holder of the lease, and when it last renewed it.
async fn read_lease_holder(
    client: &Client,
    lease_ref: &LeaseRef,
) -> Result<(String, Option<MicroTime>), CheckError> {
    let LeaseRef { namespace, name, .. } = lease_ref.clone();
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

/// Checks that every kind is served to this account.
///
/// # Errors
/// The first kind that isn't served, and why.
pub async fn check_kinds_served(
    client: &Client,
    namespaces: &[String],
) -> Result<(), (String, kube::Error)> {
    macro_rules! check_each {
        ($($kind:ident),+) => {
            $(is_served::<millrace_crds::v1alpha1::$kind>(client, namespaces).await?;)+
        };
    }
    millrace_crds::with_kinds!(check_each);
    Ok(())
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
