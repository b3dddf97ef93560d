//! Gets, lists and patches objects; each request with the right that it needs.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use millrace_crds::v1alpha1::RolloutAction;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Cluster;
use crate::error::{Error, Right};

/// Objects per page.
const PAGE: u32 = 500;
/// Maximum pages.
const PAGES_MAX: usize = 20;
/// The field manager of this tool.
const MANAGER: &str = "kubectl-millrace";

/// Namespaced kinds.
pub trait NamespacedKind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug
{
}
impl<K> NamespacedKind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
{
}

/// Returns the right for a verb on a kind.
#[must_use]
pub fn right_for<K: Resource<DynamicType = ()>>(
    verb: &'static str,
    namespace: Option<&str>,
) -> Right {
    Right {
        verb,
        group: K::group(&()).into_owned(),
        resource: K::plural(&()).into_owned(),
        namespace: namespace.map(str::to_owned),
    }
}

impl Cluster {
    /// Returns one object of the namespace.
    ///
    /// # Errors
    /// When it doesn't exist or can't be read.
    pub async fn get<K: NamespacedKind>(&self, name: &str) -> Result<K, Error> {
        let what = format!("{} {name}", K::kind(&()));
        match Api::<K>::namespaced(self.client.clone(), &self.namespace).get(name).await {
            Ok(object) => Ok(object),
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                Err(self.missing_error::<K>(name, &status))
            }
            Err(error) => {
                Err(Error::from_kube(error, right_for::<K>("get", Some(&self.namespace)), &what))
            }
        }
    }

    /// Returns one object exactly as it is stored: without this release's defaults.
    ///
    /// # Errors
    /// When it doesn't exist or can't be read.
    pub async fn get_raw<K: NamespacedKind>(&self, name: &str) -> Result<Value, Error> {
        let what = format!("{} {name}", K::kind(&()));
        let resource = kube::api::ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        match api.get(name).await {
            Ok(object) => serde_json::to_value(object)
                .map_err(|error| Error::Server { what, cause: error.to_string() }),
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                Err(self.missing_error::<K>(name, &status))
            }
            Err(error) => {
                Err(Error::from_kube(error, right_for::<K>("get", Some(&self.namespace)), &what))
            }
        }
    }

    fn missing_error<K: NamespacedKind>(&self, name: &str, status: &kube::core::Status) -> Error {
        let named = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
        if !named {
            return Error::NotInstalled(kind_name::<K>());
        }
        Error::Missing {
            kind: known_kind(&K::kind(&())),
            name: name.to_owned(),
            namespace: self.namespace.clone(),
            hint: format!("kubectl get {} -A lists all", K::plural(&())),
        }
    }

    /// Returns objects by labels, of a namespace or of all.
    ///
    /// # Errors
    /// When they can't be read.
    pub async fn list<K: NamespacedKind>(
        &self,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<K>, Error> {
        let api = match namespace {
            Some(namespace) => Api::<K>::namespaced(self.client.clone(), namespace),
            None => Api::<K>::all(self.client.clone()),
        };
        let failed = |error| match error {
            kube::Error::Api(status) if status.is_not_found() => {
                Error::NotInstalled(kind_name::<K>())
            }
            other => Error::from_kube(other, right_for::<K>("list", namespace), &K::plural(&())),
        };
        let mut params = ListParams::default().labels(labels).limit(PAGE);
        let mut all = Vec::new();
        for _page in 0..PAGES_MAX {
            let page = api.list(&params).await.map_err(failed)?;
            params.continue_token = page.metadata.continue_.clone().filter(|it| !it.is_empty());
            all.extend(page.items);
            if params.continue_token.is_none() {
                break;
            }
        }
        all.sort_by_key(|one| (one.namespace(), one.name_any()));
        Ok(all)
    }

    /// Sets or removes the action on a pool's rollout.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn act_on_rollout<K: NamespacedKind>(
        &self,
        name: &str,
        action: Option<RolloutAction>,
    ) -> Result<(), Error> {
        let patch = serde_json::json!({"spec": {"rolloutAction": action}});
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..Default::default() };
        let api = Api::<K>::namespaced(self.client.clone(), &self.namespace);
        let what = format!("spec.rolloutAction of {} {name}", K::kind(&()));
        let done = api.patch_metadata(name, &params, &Patch::Merge(&patch)).await;
        done.map(|_changed| ()).map_err(|error| {
            Error::from_kube(error, right_for::<K>("patch", Some(&self.namespace)), &what)
        })
    }

    /// Returns the result of server-side apply of a document as a dry run; nothing is stored.
    ///
    /// # Errors
    /// When the API server refuses the document, another manager owns a field and `force` is not
    /// set, or the user may not apply it.
    pub async fn try_apply<K: NamespacedKind>(
        &self,
        name: &str,
        document: &Value,
        manager: &str,
        force: bool,
    ) -> Result<Value, Error> {
        let params = PatchParams { force, ..PatchParams::apply(manager).dry_run() };
        let resource = kube::api::ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let what = format!("{} {name}", K::kind(&()));
        let made = api.patch(name, &params, &Patch::Apply(document)).await;
        let made = made.map_err(|error| {
            Error::from_kube(error, right_for::<K>("patch", Some(&self.namespace)), &what)
        })?;
        serde_json::to_value(made).map_err(|error| Error::Server { what, cause: error.to_string() })
    }
}

fn kind_name<K: Resource<DynamicType = ()>>() -> String {
    format!("{}.{}", K::plural(&()), K::group(&()))
}

fn known_kind(kind: &str) -> &'static str {
    match kind {
        "TelemetryPipeline" => "TelemetryPipeline",
        "GatewayPool" => "GatewayPool",
        "EdgePool" => "EdgePool",
        _ => "object",
    }
}
