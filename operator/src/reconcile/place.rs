//! Which namespaces a set of controllers watches, and how.

use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::runtime::controller::Controller;
use kube::runtime::watcher;
use kube::{Client, Resource};

use crate::cache::packed::Packed;
use crate::pods::pages::PAGE;
use crate::pool::names::Role;

/// Everything we make carries this label; watches of children select by it.
pub const MANAGED_BY_SELECTOR: &str = "app.kubernetes.io/managed-by=millrace-operator";

/// The namespace, or all of them, that one set of controllers watches.
#[derive(Clone)]
pub enum Place {
    /// Every namespace.
    Cluster(Client),
    /// One namespace.
    Namespace(Client, String),
}

impl Place {
    /// An API for `K` in this place.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match self {
            Self::Cluster(client) => Api::all(client.clone()),
            Self::Namespace(client, namespace) => Api::namespaced(client.clone(), namespace),
        }
    }

    /// How the children of a pool's role are watched: as [`Place::owned`], of that role only.
    #[must_use]
    pub fn owned_by(role: Role) -> watcher::Config {
        let selector =
            format!("{MANAGED_BY_SELECTOR},app.kubernetes.io/component={}", role.as_str());
        watcher::Config::default().labels(&selector).page_size(PAGE)
    }

    /// How children are watched: only ours, only their metadata, in pages.
    #[must_use]
    pub fn owned() -> watcher::Config {
        watcher::Config::default().labels(MANAGED_BY_SELECTOR).page_size(PAGE)
    }
}

/// A controller of objects that may not parse.
pub type KindController<K> = Controller<Packed<K>>;
