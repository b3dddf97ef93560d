//! Writes children by server-side apply, only when something differs.
//!
//! A child is read and compared. It is written only if it is missing, was built from another
//! desired state (its hash annotation) or was changed by someone else. So a converged reconcile
//! writes nothing, and a manual edit is repaired at once. Each concern has one field manager. A
//! child that belongs to someone else is refused, never taken over. A child of an earlier owner of
//! this name (orphaned, or restored from a backup) is adopted if its labels match.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    Api, DeleteParams, GetParams, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy,
};
use kube::core::PartialObjectMeta;
use kube::{Client, Resource, ResourceExt};
use millrace_crds::{EventReason, MillraceKind, Reason};
use millrace_rollout::WorkloadObservation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::WRITES;
use crate::cache::children::{ChildKey, ObjectVersion, VerifiedChild};
use crate::context::Context;
use crate::error::{ApiError, Category, ReconcileStep, StepError};
use crate::hash::hash_of;
use crate::report::events::Notice;
use crate::telemetry::metrics::Counter;

use crate::ownership::applied_state::AppliedState;
use crate::ownership::{APPLIED_HASH_ANNOTATION, CHILDREN_MANAGER, applied_state, compare};

/// The HTTP status for an object that violates its schema.
const UNPROCESSABLE: u16 = 422;

const REPAIRS: Counter<1> = Counter::new(
    "millrace_operator_drift_repairs_total",
    "Owned objects that were changed or deleted and restored, by kind.",
    ["kind"],
);

/// A namespaced Kubernetes type that can be applied.
pub trait Applicable:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Applicable for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// The reason why a child or a status could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The API server refused the request or was unavailable.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// An object of that name exists and belongs to someone else.
    #[error(
        "{kind} {name} exists and does not belong to this resource; \
         delete or rename it, or give this resource another name"
    )]
    OwnedByAnother {
        /// The child's kind.
        kind: String,
        /// The child's name.
        name: String,
    },
    /// The object is being deleted; a new one can be created afterwards.
    #[error("{kind} {name} is being deleted; the operator creates it again afterwards")]
    Terminating {
        /// The child's kind.
        kind: String,
        /// The child's name.
        name: String,
    },
    /// The owner was never stored, so nothing can belong to it.
    #[error("this {kind} has no name, namespace or uid")]
    NotStored {
        /// The owner's kind.
        kind: String,
    },
    /// The desired state cannot be encoded as JSON.
    #[error("failed to encode {kind} {name}: {source}")]
    Encode {
        /// The child's kind.
        kind: String,
        /// The child's name.
        name: String,
        /// The encoder's error.
        source: serde_json::Error,
    },
}

impl ApplyError {
    /// Returns the category that decides the retry.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::Api(error) => Category::from_kube(&error.source),
            Self::OwnedByAnother { .. } | Self::NotStored { .. } | Self::Encode { .. } => {
                Category::Denied
            }
            Self::Terminating { .. } => Category::Temporary,
        }
    }

    /// Returns the stable reason for conditions and events.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Api(_) | Self::NotStored { .. } | Self::Encode { .. } => Reason::ApiServerFailed,
            Self::OwnedByAnother { .. } => Reason::OwnedByAnother,
            Self::Terminating { .. } => Reason::Waiting,
        }
    }
}

impl From<ApplyError> for StepError {
    fn from(error: ApplyError) -> Self {
        Self::new(ReconcileStep::Apply, error.category(), error.reason(), error)
    }
}

/// The result of writing a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildChange {
    /// Nothing differed; nothing was written.
    None,
    /// The child did not exist.
    Created,
    /// The child was made from an older desired state.
    Updated,
    /// Someone else had changed these fields.
    Repaired(Vec<String>),
    /// The child differs but was left unchanged: the owner is paused, or the write must wait.
    Withheld,
}

/// A child as the API server has it now.
#[derive(Clone, Debug)]
pub struct Ensured<K> {
    /// The live object.
    pub object: K,
    /// The change.
    pub change: ChildChange,
}

/// The complete desired state of a child.
struct DesiredChild<K> {
    object: K,
    json: Value,
    hash: String,
    key: ChildKey,
    name: String,
}

/// The result of comparing a workload.
#[derive(Debug)]
pub enum WorkloadComparison<K> {
    /// Nothing differs; contains the workload's figures.
    AsDesired(WorkloadObservation),
    /// The workload must be written.
    Differs {
        /// The live object, if it was made from another desired state. A manual edit is repaired,
        /// which replaces nothing.
        replaced: Option<K>,
    },
}

/// Writes the children of one owner.
pub struct Children<'a> {
    context: &'a Context,
    namespace: String,
    owner: OwnerReference,
    regarding: ObjectReference,
    /// Whether children are only compared, not written.
    is_compare_only: bool,
    /// The children that were read and match the desired state.
    compared: Mutex<Vec<ChildKey>>,
    /// The changes written so far, for one event at the end.
    written: Mutex<Vec<String>>,
}

impl<'a> Children<'a> {
    /// Returns the children of `owner`.
    ///
    /// # Errors
    /// When the owner has no name, namespace or uid, so was never stored.
    pub fn of_owner<K: Applicable + MillraceKind>(
        context: &'a Context,
        owner: &K,
    ) -> Result<Self, ApplyError> {
        let (Some(namespace), Some(reference)) =
            (owner.namespace(), owner.controller_owner_ref(&()))
        else {
            return Err(ApplyError::NotStored { kind: K::kind(&()).into_owned() });
        };
        Ok(Self {
            context,
            namespace,
            // With this flag, foreground deletion removes the owner only after its children.
            owner: OwnerReference { block_owner_deletion: Some(true), ..reference },
            regarding: owner.object_ref(&()),
            // A pause does not stop deletion.
            is_compare_only: is_paused(owner) && owner.meta().deletion_timestamp.is_none(),
            compared: Mutex::default(),
            written: Mutex::default(),
        })
    }

    /// Returns the same children, compared but not written, for changes that must wait.
    #[must_use]
    pub fn compare_only(&self) -> Self {
        Self {
            context: self.context,
            namespace: self.namespace.clone(),
            owner: self.owner.clone(),
            regarding: self.regarding.clone(),
            is_compare_only: true,
            compared: Mutex::default(),
            written: Mutex::default(),
        }
    }

    /// Applies `desired` to the live child if any field differs. A child that its watch shows
    /// unchanged since it was verified or applied is not read.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached, or the name belongs to someone else's
    /// object.
    pub async fn apply_child<K: Applicable>(&self, desired: K) -> Result<ChildChange, ApplyError> {
        let desired = self.prepare_child(desired)?;
        if self.find_verified(&desired).is_some() {
            return Ok(ChildChange::None);
        }
        Ok(self.ensure_prepared(desired, |_| None).await?.change)
    }

    /// Does what [`Self::apply_child`] does, for a workload, and returns its figures. They are read
    /// unless a watch of complete workloads reported them.
    ///
    /// # Errors
    /// As [`Self::apply_child`].
    pub async fn apply_workload<K: Applicable>(
        &self,
        desired: K,
        figures: fn(&K) -> WorkloadObservation,
    ) -> Result<(WorkloadObservation, ChildChange), ApplyError> {
        let desired = self.prepare_child(desired)?;
        if let Some(known) = self.find_verified(&desired).and_then(|it| it.figures) {
            return Ok((known, ChildChange::None));
        }
        let ensured = self.ensure_prepared(desired, |live| Some(figures(live))).await?;
        Ok((figures(&ensured.object), ensured.change))
    }

    /// Compares as [`Self::apply_workload`] does, without writing.
    ///
    /// # Errors
    /// As [`Self::apply_child`].
    pub async fn compare_workload<K: Applicable>(
        &self,
        desired: K,
    ) -> Result<WorkloadComparison<K>, ApplyError> {
        let desired = self.prepare_child(desired)?;
        if let Some(figures) = self.find_verified(&desired).and_then(|it| it.figures) {
            return Ok(WorkloadComparison::AsDesired(figures));
        }
        let live = self.read_live(&desired.object).await?;
        let hash_of = |live: &K| live.annotations().get(APPLIED_HASH_ANNOTATION).cloned();
        Ok(WorkloadComparison::Differs {
            replaced: live.filter(|it| hash_of(it) != Some(desired.hash)),
        })
    }

    /// Returns the live child of `desired`'s name, if it exists.
    ///
    /// # Errors
    /// As [`Self::apply_child`].
    pub async fn read_live<K: Applicable>(&self, desired: &K) -> Result<Option<K>, ApplyError> {
        let name = desired.name_any();
        let live = self.read(&ChildKey::new::<K>(&self.namespace, &name), &name).await?;
        live.iter().try_for_each(|live| self.check_ours(live, desired))?;
        Ok(live)
    }

    /// Returns the child's state, if its watch shows it as desired, so that it need not be read.
    fn find_verified<K>(&self, desired: &DesiredChild<K>) -> Option<VerifiedChild> {
        let claim = || AppliedState::of_desired(&desired.json, &desired.hash);
        let now = self.context.clock.now();
        self.context.child_cache.verified_child(&desired.key, &desired.hash, claim, now)
    }

    /// Does what [`Self::apply_child`] does and returns the live child, read again unless its own
    /// controller's store has the verified state.
    ///
    /// # Errors
    /// As [`Self::apply_child`].
    pub async fn ensure_child<K: Applicable>(&self, desired: K) -> Result<Ensured<K>, ApplyError> {
        let desired = self.prepare_child(desired)?;
        match self.cached_child(&desired) {
            Some(object) => Ok(Ensured { object, change: ChildChange::None }),
            None => self.ensure_prepared(desired, |_| None).await,
        }
    }

    /// Returns the child from its own controller's store, if that has the verified state.
    fn cached_child<K: Applicable>(&self, desired: &DesiredChild<K>) -> Option<K> {
        let packed = self.context.stores.get::<K>(&self.namespace, &desired.name)?;
        let is_newest = self.find_verified(desired)?.state == ObjectVersion::of_object(&*packed);
        is_newest.then(|| packed.unpack().0.ok()).flatten()
    }

    /// Adds to a child the fields that all children of this owner carry.
    fn prepare_child<K: Applicable>(&self, mut desired: K) -> Result<DesiredChild<K>, ApplyError> {
        desired.meta_mut().namespace = Some(self.namespace.clone());
        desired.meta_mut().owner_references = Some(vec![self.owner.clone()]);
        let hash = hash_of(&to_json(&desired)?);
        desired.annotations_mut().insert(APPLIED_HASH_ANNOTATION.into(), hash.clone());
        let (json, name) = (to_json(&desired)?, desired.name_any());
        let key = ChildKey::new::<K>(&self.namespace, &name);
        Ok(DesiredChild { object: desired, json, hash, key, name })
    }

    async fn ensure_prepared<K: Applicable>(
        &self,
        desired: DesiredChild<K>,
        figures: impl Fn(&K) -> Option<WorkloadObservation>,
    ) -> Result<Ensured<K>, ApplyError> {
        let DesiredChild { object: desired, json: desired_json, hash, key, name } = desired;
        let now = self.context.clock.now();
        // The child is unchanged since it was verified, so it has no edit and belongs to us.
        let live =
            if !self.is_compare_only && self.context.child_cache.is_outdated(&key, &hash, now) {
                None
            } else {
                Some(self.read(&key, &name).await?)
            };
        let change = match &live {
            None => ChildChange::Updated,
            Some(None) => ChildChange::Created,
            Some(Some(live)) => {
                self.check_ours(live, &desired)?;
                let fields = compare::find_differences(&desired_json, &to_json(live)?);
                if live.annotations().get(APPLIED_HASH_ANNOTATION) != Some(&hash) {
                    ChildChange::Updated
                } else if fields.is_empty() {
                    ChildChange::None
                } else {
                    ChildChange::Repaired(fields)
                }
            }
        };
        let live = live.flatten();
        if self.is_compare_only && change != ChildChange::None {
            let object = live.unwrap_or(desired);
            return Ok(Ensured { object, change: ChildChange::Withheld });
        }
        let object = match (live, &change) {
            (Some(object), ChildChange::None) => object,
            _ => self.write(&name, &desired_json).await?,
        };
        self.context.child_cache.record_verified(
            key,
            &hash,
            ObjectVersion::of_object(&object),
            figures(&object),
            now,
        );
        if change == ChildChange::None {
            self.compared.lock().unwrap_or_else(PoisonError::into_inner).push(key);
        }
        self.report_change(&K::kind(&()), &name, &change).await;
        Ok(Ensured { object, change })
    }

    /// Reads the live child. If its watch reported it, the API server's cache is enough, provided
    /// it returns the reported version; otherwise the child is read from etcd.
    async fn read<K: Applicable>(
        &self,
        key: &ChildKey,
        name: &str,
    ) -> Result<Option<K>, ApplyError> {
        let api = self.children_api::<K>();
        let failed = |source| self.api_failure::<K>("get", name, source);
        if self.context.child_cache.is_known(key) {
            let held = api.get_with(name, &GetParams::any()).await;
            match held {
                Ok(held)
                    if self.context.child_cache.is_newest(key, ObjectVersion::of_object(&held)) =>
                {
                    return Ok(Some(held));
                }
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(source) => return Err(failed(source)),
            }
        }
        api.get_opt(name).await.map_err(failed)
    }

    /// Deletes this owner's children of type `K` that carry `labels` and are not named in
    /// `retained`.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub async fn prune_children<K: Applicable>(
        &self,
        labels: &str,
        retained: &[&str],
    ) -> Result<(), ApplyError> {
        if self.is_compare_only {
            return Ok(());
        }
        for child in self.list_owned::<K>(labels).await? {
            if !retained.contains(&child.name_any().as_str()) {
                self.delete_child(&child, PropagationPolicy::Background).await?;
            }
        }
        Ok(())
    }

    /// Lists this owner's children of type `K` that carry `labels`, from the API server.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub async fn list_owned<K: Applicable>(
        &self,
        labels: &str,
    ) -> Result<Vec<PartialObjectMeta<K>>, ApplyError> {
        let listed = self.children_api().list_metadata(&ListParams::default().labels(labels)).await;
        let listed = listed.map_err(|source| self.api_failure::<K>("list", "", source))?;
        let is_ours = |child: &PartialObjectMeta<K>| {
            child.owner_references().iter().any(|owner| owner.uid == self.owner.uid)
        };
        Ok(listed.items.into_iter().filter(is_ours).collect())
    }

    /// Deletes a child unless its deletion was already requested.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub async fn delete_child<K: Applicable>(
        &self,
        child: &PartialObjectMeta<K>,
        propagation: PropagationPolicy,
    ) -> Result<(), ApplyError> {
        if self.is_compare_only || child.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let (kind, name) = (K::kind(&()), child.name_any());
        let params = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(Preconditions { uid: child.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.children_api::<K>().delete(&name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            Err(source) => return Err(self.api_failure::<K>("delete", &name, source)),
        }
        self.context.metrics.count(&WRITES, [&kind, "prune"]);
        tracing::info!(%kind, name, namespace = %self.namespace, "unwanted child deleted");
        self.record_change(format!("deleted {kind} {name}"));
        Ok(())
    }

    /// Returns whether watches show more than `expected` children of kind `C`: leftovers of an
    /// earlier spec or leader.
    pub fn has_more_than<K: Applicable, C: Applicable>(&self, expected: usize) -> bool {
        self.context.child_cache.count_children::<K, C>(&self.namespace, &self.owner.name)
            > expected
    }

    /// Returns whether this owner's child of kind `C` called `name` was read and matched: no watch
    /// has reported it yet, or a direct read was due. The caller then lists leftovers too: one
    /// whose event was lost is removed as soon as an edit would be repaired.
    pub fn has_compared<C: Applicable>(&self, name: &str) -> bool {
        let key = ChildKey::new::<C>(&self.namespace, name);
        self.compared.lock().unwrap_or_else(PoisonError::into_inner).contains(&key)
    }

    /// Publishes one event about all children that were created, updated and deleted.
    pub async fn publish_changes(&self) {
        let written =
            std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner));
        if !written.is_empty() {
            self.publish_event(Notice::normal(
                EventReason::ChildrenApplied,
                "Apply",
                written.join(", "),
            ))
            .await;
        }
    }

    fn record_change(&self, what: String) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    async fn publish_event(&self, notice: Notice) {
        self.context.events.publish(&self.regarding, notice).await;
    }

    fn check_ours<K: Applicable>(&self, live: &K, desired: &K) -> Result<(), ApplyError> {
        let (kind, name) = (K::kind(&()).into_owned(), live.name_any());
        let ours = live.owner_references().iter().any(|owner| owner.uid == self.owner.uid);
        if !ours && !self.may_adopt(live, desired) {
            return Err(ApplyError::OwnedByAnother { kind, name });
        }
        if live.meta().deletion_timestamp.is_some() {
            return Err(ApplyError::Terminating { kind, name });
        }
        Ok(())
    }

    /// Returns whether a child belonged to an earlier owner of this name: it has all labels of
    /// ours, and its owner was removed or has another uid.
    fn may_adopt<K: Applicable>(&self, live: &K, desired: &K) -> bool {
        let OwnerReference { api_version, kind, name, .. } = &self.owner;
        let is_free = live.owner_references().iter().all(|owner| {
            (&owner.api_version, &owner.kind, &owner.name) == (api_version, kind, name)
        });
        let has = |(key, value): (&String, &String)| live.labels().get(key) == Some(value);
        is_free && !desired.labels().is_empty() && desired.labels().iter().all(has)
    }

    async fn write<K: Applicable>(&self, name: &str, desired: &Value) -> Result<K, ApplyError> {
        let (api, kind) = (self.children_api::<K>(), K::kind(&()));
        let params = PatchParams::apply(CHILDREN_MANAGER).force();
        let mut body = desired.clone();
        body["apiVersion"] = K::api_version(&()).into();
        body["kind"] = kind.as_ref().into();
        // This apply never sets a status, but some types encode an empty one.
        if let Some(fields) = body.as_object_mut() {
            fields.remove("status");
        }
        let applied = api.patch(name, &params, &Patch::Apply(&body)).await;
        let applied = match applied {
            Err(kube::Error::Api(status)) if status.code == UNPROCESSABLE => {
                match self.remove_emptied_fields::<K>(name, desired).await? {
                    true => api.patch(name, &params, &Patch::Apply(&body)).await,
                    false => Err(kube::Error::Api(status)),
                }
            }
            applied => applied,
        };
        let object = applied.map_err(|source| self.api_failure::<K>("apply", name, source))?;
        self.context.metrics.count(&WRITES, [&kind, "children"]);
        Ok(object)
    }

    /// Removes the fields of a child that an apply of `desired` would set to null; returns whether
    /// there were any.
    async fn remove_emptied_fields<K: Applicable>(
        &self,
        name: &str,
        desired: &Value,
    ) -> Result<bool, ApplyError> {
        let api = self.children_api::<K>();
        let failed = |source| self.api_failure::<K>("empty fields of", name, source);
        let Some(live) = api.get_opt(name).await.map_err(failed)? else { return Ok(false) };
        let json = to_json(&live)?;
        let patch = applied_state::our_fields(&live)
            .and_then(|ours| compare::emptying_patch(desired, &json, ours));
        let Some(mut patch) = patch else { return Ok(false) };
        patch["metadata"]["resourceVersion"] = live.resource_version().into();
        let params =
            PatchParams { field_manager: Some(CHILDREN_MANAGER.into()), ..PatchParams::default() };
        api.patch(name, &params, &Patch::Merge(&patch)).await.map_err(failed)?;
        self.context.metrics.count(&WRITES, [&K::kind(&()), "children"]);
        Ok(true)
    }

    async fn report_change(&self, kind: &str, name: &str, change: &ChildChange) {
        match change {
            ChildChange::None | ChildChange::Withheld => {}
            ChildChange::Created => {
                tracing::info!(kind, name, namespace = %self.namespace, "child created");
                self.record_change(format!("created {kind} {name}"));
            }
            ChildChange::Updated => {
                tracing::info!(kind, name, namespace = %self.namespace, "child updated");
                self.record_change(format!("updated {kind} {name}"));
            }
            ChildChange::Repaired(fields) => {
                let fields = fields.join(", ");
                tracing::warn!(kind, name, namespace = %self.namespace, fields, "drift repaired");
                self.context.metrics.count(&REPAIRS, [kind]);
                let note = format!(
                    "{kind} {name} was changed by another client in {fields} and was restored; \
                     change the millrace.dev resource instead"
                );
                self.publish_event(Notice::warning(EventReason::DriftRepaired, "Apply", note))
                    .await;
            }
        }
    }

    fn children_api<K: Applicable>(&self) -> Api<K> {
        namespaced_api(&self.context.client, &self.namespace)
    }

    fn api_failure<K: Applicable>(
        &self,
        verb: &str,
        name: &str,
        source: kube::Error,
    ) -> ApplyError {
        let what = format!("{verb} {} {}/{name}", K::kind(&()), self.namespace);
        ApiError { what, source }.into()
    }
}

fn to_json<K: Applicable>(object: &K) -> Result<Value, ApplyError> {
    serde_json::to_value(object).map_err(|source| {
        let (kind, name) = (K::kind(&()).into_owned(), object.name_any());
        ApplyError::Encode { kind, name, source }
    })
}

/// Returns whether an object is paused.
pub fn is_paused<K: MillraceKind>(object: &K) -> bool {
    object.is_paused()
}

/// Returns an API for `K` in a namespace, which spares observe steps the type parameters.
pub fn namespaced_api<K: Applicable>(client: &Client, namespace: &str) -> Api<K> {
    Api::namespaced(client.clone(), namespace)
}
