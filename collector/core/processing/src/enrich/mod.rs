//! Steps that label records with the metadata of the pod that sent them.
//!
//! The pod is found by the client's address or by attributes of the resource, in the configured
//! order. A table of pods outside of this crate answers ([`FindPod`]); its attributes are encoded
//! once for each pod ([`PodAttributes`]), and a resource gets a copy.

mod attributes;
mod config;

use core::net::IpAddr;
use std::sync::Arc;

pub use attributes::{AttributeValue, PodAttributes};
pub use config::{EnrichConfig, OnConflict, PodAssociation, PodMetadataConfig, PodScope};

/// The attributes by which resources state their pod.
pub const POD_UID: &str = "k8s.pod.uid";
/// See [`POD_UID`].
pub const POD_IP: &str = "k8s.pod.ip";
/// See [`POD_UID`].
pub const POD_NAME: &str = "k8s.pod.name";
/// See [`POD_UID`].
pub const POD_NAMESPACE: &str = "k8s.namespace.name";

/// What identifies a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodKey<'k> {
    /// Its address.
    Address(IpAddr),
    /// Its uid.
    Uid(&'k str),
    /// Its name in a namespace.
    Name {
        /// The namespace.
        namespace: &'k str,
        /// The name.
        name: &'k str,
    },
}

/// Why records got no metadata of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlabeledReason {
    /// Neither the client's address nor the resource has what the associations use.
    NoIdentity,
    /// The table has no such pod.
    UnknownPod,
    /// The address belongs to a node, or to several pods.
    SharedAddress,
    /// The table doesn't have all pods yet.
    NotSynced,
}

impl UnlabeledReason {
    /// All reasons, by their index.
    pub const ALL: [Self; 4] =
        [Self::NoIdentity, Self::UnknownPod, Self::SharedAddress, Self::NotSynced];

    /// Returns the position in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name in metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoIdentity => "no_identity",
            Self::UnknownPod => "unknown_pod",
            Self::SharedAddress => "shared_address",
            Self::NotSynced => "not_synced",
        }
    }
}

/// Finds pods in memory, without waiting.
pub trait FindPod: Send + Sync {
    /// Returns a pod's attributes.
    ///
    /// # Errors
    /// Why there are none.
    fn find_pod(&self, key: PodKey<'_>) -> Result<Arc<PodAttributes>, UnlabeledReason>;
}

/// Where a request came from. By default nothing is known of it, and no pod is searched.
#[derive(Clone, Copy, Default)]
pub struct RequestOrigin<'r> {
    /// The address of the client's end of the connection.
    pub client: Option<IpAddr>,
    /// The table of pods; `None` if records of this origin get no metadata.
    pub pods: Option<&'r dyn FindPod>,
}
