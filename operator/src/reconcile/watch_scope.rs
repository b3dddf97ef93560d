//! Defines which namespaces a set of controllers watches, and how.

use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::runtime::controller::Controller;
use kube::runtime::watcher;
use kube::{Client, Resource};

use crate::cache::packed::Packed;
use crate::pods::pages::PAGE;
use crate::pool::names::Role;

/// The label on every object that the operator creates; watches of children select by it.
pub const MANAGED_BY_SELECTOR: &str = "app.kubernetes.io/managed-by=millrace-operator";

/// The namespace, or all namespaces, that one set of controllers watches.
#[derive(Clone)]
pub struct WatchScope {
    client: Client,
    namespace: Option<String>,
}

impl WatchScope {
    /// Creates the scope of a namespace; `None` for all.
    #[must_use]
    pub fn new(client: &Client, namespace: Option<&str>) -> Self {
        Self { client: client.clone(), namespace: namespace.map(str::to_owned) }
    }

    /// Returns the name for logs.
    #[must_use]
    pub fn log_name(&self) -> &str {
        self.namespace().unwrap_or("all namespaces")
    }

    /// Returns the namespace, or `None` for all.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns an API for `K` in this place.
    #[must_use]
    pub fn scoped_api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let client = self.client.clone();
        match &self.namespace {
            None => Api::all(client),
            Some(namespace) => Api::namespaced(client, namespace),
        }
    }

    /// Returns the watch of a role's children: as [`Self::owned_config`], for that role only.
    #[must_use]
    pub fn role_config(role: Role) -> watcher::Config {
        let selector =
            format!("{MANAGED_BY_SELECTOR},app.kubernetes.io/component={}", role.as_str());
        watcher::Config::default().labels(&selector).page_size(PAGE)
    }

    /// Returns the watch of children: only the operator's, only their metadata, in pages.
    #[must_use]
    pub fn owned_config() -> watcher::Config {
        watcher::Config::default().labels(MANAGED_BY_SELECTOR).page_size(PAGE)
    }
}

/// A controller of objects that may not parse.
pub type KindController<K> = Controller<Packed<K>>;
