//! Writes children by server-side apply, only when something differs.
//!
//! A child is read and compared, and written only if it is missing, was built from another desired
//! state (its hash annotation), or was changed by someone else. So a converged reconcile writes
//! nothing, and an edit by hand is repaired at once. One field manager per concern. A child that
//! belongs to someone else is refused, never taken over.

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
use millrace_crds::{EventReason, Reason};
use millrace_rollout::Observation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::cache::children::{Key, Mark};
use crate::context::Context;
use crate::error::{ApiError, Category, Step, StepError};
use crate::report::events::Notice;

use crate::ownership::applied_state::AppliedState;
use crate::ownership::{APPLIED_HASH_ANNOTATION, CHILDREN_MANAGER, applied_state, compare};

/// The API server's status for an object that its schema refuses.
const UNPROCESSABLE: u16 = 422;

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

/// Why a child or a status could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The API server refused or was away.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// An object of that name exists and is not ours.
    #[error(
        "{kind} {name} exists and does not belong to this resource; \
         delete or rename it, or give this resource another name"
    )]
    NotOurs {
        /// The child's kind.
        kind: String,
        /// The child's name.
        name: String,
    },
    /// The object is being deleted; a new one can be made after that.
    #[error("{kind} {name} is being deleted; it is made again once it is gone")]
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
        kind: &'static str,
    },
    /// The wanted state cannot be written as JSON.
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
    /// The owner was never stored.
    #[must_use]
    pub fn not_stored(kind: &'static str) -> Self {
        Self::NotStored { kind }
    }

    /// The category that drives the retry.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::Api(error) => Category::of(&error.source),
            Self::NotOurs { .. } | Self::NotStored { .. } | Self::Encode { .. } => Category::Denied,
            Self::Terminating { .. } => Category::Temporary,
        }
    }

    /// The stable reason for conditions and events.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Api(_) | Self::NotStored { .. } | Self::Encode { .. } => Reason::ApiServerFailed,
            Self::NotOurs { .. } => Reason::NotOurs,
            Self::Terminating { .. } => Reason::Waiting,
        }
    }
}

impl From<ApplyError> for StepError {
    fn from(error: ApplyError) -> Self {
        Self::new(Step::Apply, error.category(), error.reason(), error)
    }
}

/// What writing a child came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing differed; nothing was written.
    None,
    /// It was not there.
    Created,
    /// It was made from an older wanted state.
    Updated,
    /// Someone else had changed these fields.
    Repaired(Vec<String>),
    /// It differs but was left alone: the owner is paused, or it must wait.
    Withheld,
}

/// A child as the API server has it now.
#[derive(Clone, Debug)]
pub struct Ensured<K> {
    /// The live object.
    pub object: K,
    /// What was done.
    pub change: Change,
}

/// The desired state of a child, complete.
struct Wanted<K> {
    object: K,
    json: Value,
    hash: String,
    key: Key,
    kind: String,
    name: String,
}

/// A workload as it was found.
#[derive(Debug)]
pub enum Looked<K> {
    /// Nothing differs; its figures.
    AsWanted(Observation),
    /// It must be written.
    Differs {
        /// The live object, if it was made from another desired state: a mere edit is repaired,
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
    /// Children are compared, not written.
    look_only: bool,
    /// What was read and found as wanted.
    compared: Mutex<Vec<Key>>,
    /// What was written, for one event at the end.
    written: Mutex<Vec<String>>,
}

impl<'a> Children<'a> {
    /// Children of `owner`; `None` when it has no name, namespace or uid, so was never stored.
    pub fn of<K: Applicable>(context: &'a Context, owner: &K) -> Option<Self> {
        Some(Self {
            context,
            namespace: owner.namespace()?,
            // An owner that is deleted in the foreground stays until they are gone.
            owner: OwnerReference {
                block_owner_deletion: Some(true),
                ..owner.controller_owner_ref(&())?
            },
            regarding: owner.object_ref(&()),
            // Deletion isn't paused.
            look_only: is_paused(owner) && owner.meta().deletion_timestamp.is_none(),
            compared: Mutex::default(),
            written: Mutex::default(),
        })
    }

    /// The same children, compared but not written: for what must wait.
    #[must_use]
    pub fn withheld(&self) -> Self {
        Self {
            context: self.context,
            namespace: self.namespace.clone(),
            owner: self.owner.clone(),
            regarding: self.regarding.clone(),
            look_only: true,
            compared: Mutex::default(),
            written: Mutex::default(),
        }
    }

    /// Makes the live child hold everything in `wanted`, writing only when it does not. A child
    /// that is unchanged since it was verified or applied, by its watch, is not even read.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached, or the name belongs to someone else's
    /// object.
    pub async fn keep<K: Applicable>(&self, wanted: K) -> Result<Change, ApplyError> {
        let wanted = self.prepare(wanted)?;
        let now = self.context.clock.now();
        let seen = &self.context.seen;
        let claim = || AppliedState::expected(&wanted.json, &wanted.hash);
        if seen.is_as_wanted(&wanted.key, &wanted.hash, now)
            || seen.is_claimed(&wanted.key, &wanted.hash, claim, now)
        {
            return Ok(Change::None);
        }
        Ok(self.ensure_prepared(wanted, |_| None).await?.change)
    }

    /// As [`Self::keep`], for a workload; also returns its figures, which are read unless a watch
    /// of whole workloads reported them.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub async fn keep_workload<K: Applicable>(
        &self,
        wanted: K,
        figures: fn(&K) -> Observation,
    ) -> Result<(Observation, Change), ApplyError> {
        let wanted = self.prepare(wanted)?;
        match self.known_figures(&wanted) {
            Some(figures) => Ok((figures, Change::None)),
            None => self.write_workload(wanted, figures).await,
        }
    }

    /// As [`Self::keep_workload`], but compares only.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub async fn look_at_workload<K: Applicable>(
        &self,
        wanted: K,
    ) -> Result<Looked<K>, ApplyError> {
        let wanted = self.prepare(wanted)?;
        if let Some(figures) = self.known_figures(&wanted) {
            return Ok(Looked::AsWanted(figures));
        }
        let live = self.live::<K>(&wanted.name).await?;
        let hash_of = |live: &K| live.annotations().get(APPLIED_HASH_ANNOTATION).cloned();
        Ok(Looked::Differs { replaced: live.filter(|it| hash_of(it) != Some(wanted.hash)) })
    }

    /// The live child, if it exists.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub async fn live<K: Applicable>(&self, name: &str) -> Result<Option<K>, ApplyError> {
        let (kind, key) = (K::kind(&()), Key::new::<K>(&self.namespace, name));
        let api: Api<K> = Api::namespaced(self.context.client.clone(), &self.namespace);
        let live = self.read(&api, &key, &kind, name).await?;
        live.iter().try_for_each(|live| self.check_ours(live, &kind, name))?;
        Ok(live)
    }

    async fn write_workload<K: Applicable>(
        &self,
        wanted: Wanted<K>,
        figures: fn(&K) -> Observation,
    ) -> Result<(Observation, Change), ApplyError> {
        let ensured = self.ensure_prepared(wanted, |live| Some(figures(live))).await?;
        Ok((figures(&ensured.object), ensured.change))
    }

    /// The figures of a workload that its watch shows to be as desired.
    fn known_figures<K>(&self, wanted: &Wanted<K>) -> Option<Observation> {
        let (seen, now) = (&self.context.seen, self.context.clock.now());
        let claim = || AppliedState::expected(&wanted.json, &wanted.hash);
        let known = || seen.figures(&wanted.key, &wanted.hash, now);
        let is_claimed = || seen.is_claimed(&wanted.key, &wanted.hash, claim, now);
        known().or_else(|| is_claimed().then(known).flatten())
    }

    /// As [`Self::keep`]; also returns the live child, read again unless its own controller's store
    /// has the verified state.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub async fn ensure<K: Applicable>(&self, wanted: K) -> Result<Ensured<K>, ApplyError> {
        let wanted = self.prepare(wanted)?;
        match self.held(&wanted) {
            Some(object) => Ok(Ensured { object, change: Change::None }),
            None => self.ensure_prepared(wanted, |_| None).await,
        }
    }

    /// The child in its own controller's store, if that is the verified state.
    fn held<K: Applicable>(&self, wanted: &Wanted<K>) -> Option<K> {
        let packed = self.context.stores.get::<K>(&self.namespace, &wanted.name)?;
        let (state, now) = (Mark::of(packed.as_ref()), self.context.clock.now());
        let verified = self.context.seen.is_as_wanted_in(&wanted.key, &wanted.hash, state, now);
        verified.then(|| packed.unpack().0.ok()).flatten()
    }

    /// Adds to a child what all children of this owner carry.
    fn prepare<K: Applicable>(&self, mut wanted: K) -> Result<Wanted<K>, ApplyError> {
        let kind = K::kind(&()).into_owned();
        let name = wanted.name_any();
        wanted.meta_mut().namespace = Some(self.namespace.clone());
        wanted.meta_mut().owner_references = Some(vec![self.owner.clone()]);
        let encode = |source| ApplyError::Encode { kind: kind.clone(), name: name.clone(), source };
        let hash = hash_of(&serde_json::to_value(&wanted).map_err(encode)?);
        wanted.annotations_mut().insert(APPLIED_HASH_ANNOTATION.into(), hash.clone());
        let json = serde_json::to_value(&wanted).map_err(encode)?;
        let key = Key::new::<K>(&self.namespace, &name);
        Ok(Wanted { object: wanted, json, hash, key, kind, name })
    }

    async fn ensure_prepared<K: Applicable>(
        &self,
        wanted: Wanted<K>,
        figures: impl Fn(&K) -> Option<Observation>,
    ) -> Result<Ensured<K>, ApplyError> {
        let Wanted { object: wanted, json: wanted_json, hash, key, kind, name } = wanted;
        let encode = |source| ApplyError::Encode { kind: kind.clone(), name: name.clone(), source };
        let api: Api<K> = Api::namespaced(self.context.client.clone(), &self.namespace);
        let now = self.context.clock.now();
        // Unchanged since it was verified: no edit to find, and it is ours.
        let live = if !self.look_only && self.context.seen.is_outdated(&key, &hash, now) {
            None
        } else {
            Some(self.read(&api, &key, &kind, &name).await?)
        };
        let change = match &live {
            None => Change::Updated,
            Some(None) => Change::Created,
            Some(Some(live)) => {
                self.check_ours(live, &kind, &name)?;
                let live_json = serde_json::to_value(live).map_err(encode)?;
                let fields = compare::differences(&wanted_json, &live_json);
                if live.annotations().get(APPLIED_HASH_ANNOTATION) != Some(&hash) {
                    Change::Updated
                } else if fields.is_empty() {
                    Change::None
                } else {
                    Change::Repaired(fields)
                }
            }
        };
        let live = live.flatten();
        if self.look_only && change != Change::None {
            let object = live.unwrap_or(wanted);
            return Ok(Ensured { object, change: Change::Withheld });
        }
        let object = match (live, &change) {
            (Some(object), Change::None) => object,
            _ => self.write(&api, &kind, &name, &wanted_json).await?,
        };
        self.context.seen.verify(key, &hash, Mark::of(&object), figures(&object), now);
        if change == Change::None {
            self.compared.lock().unwrap_or_else(PoisonError::into_inner).push(key);
        }
        self.tell(&kind, &name, &change).await;
        Ok(Ensured { object, change })
    }

    /// The live child. If its watch reported it, a read from the API server's cache is enough,
    /// provided it returns the reported version; otherwise it is read from etcd.
    async fn read<K: Applicable>(
        &self,
        api: &Api<K>,
        key: &Key,
        kind: &str,
        name: &str,
    ) -> Result<Option<K>, ApplyError> {
        let failed = |source| self.failed("get", kind, name, source);
        if self.context.seen.is_known(key) {
            let held = api.get_with(name, &GetParams::any()).await;
            match held {
                Ok(held) if self.context.seen.is_newest(key, Mark::of(&held)) => {
                    return Ok(Some(held));
                }
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(source) => return Err(failed(source)),
            }
        }
        api.get_opt(name).await.map_err(failed)
    }

    /// Deletes our children of type `K` that carry `labels` and are not named in `keep`.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub async fn prune<K: Applicable>(
        &self,
        labels: &str,
        keep: &[&str],
    ) -> Result<Vec<String>, ApplyError> {
        if self.look_only {
            return Ok(Vec::new());
        }
        let mut pruned = Vec::new();
        for child in self.ours::<K>(labels).await? {
            let name = child.name_any();
            if !keep.contains(&name.as_str())
                && self.delete(&child, PropagationPolicy::Background).await?
            {
                pruned.push(name);
            }
        }
        Ok(pruned)
    }

    /// Our children of type `K` that carry `labels`, as the API server has them.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub async fn ours<K: Applicable>(
        &self,
        labels: &str,
    ) -> Result<Vec<PartialObjectMeta<K>>, ApplyError> {
        let api: Api<K> = Api::namespaced(self.context.client.clone(), &self.namespace);
        let listed = api
            .list_metadata(&ListParams::default().labels(labels))
            .await
            .map_err(|source| self.failed("list", &K::kind(&()), "", source))?;
        let is_ours = |child: &PartialObjectMeta<K>| {
            child.owner_references().iter().any(|owner| owner.uid == self.owner.uid)
        };
        Ok(listed.items.into_iter().filter(is_ours).collect())
    }

    /// Deletes a child, unless that was asked for before; tells whether it was there.
    ///
    /// # Errors
    /// When the API server refuses or can't be reached.
    pub async fn delete<K: Applicable>(
        &self,
        child: &PartialObjectMeta<K>,
        propagation: PropagationPolicy,
    ) -> Result<bool, ApplyError> {
        if self.look_only || child.metadata.deletion_timestamp.is_some() {
            return Ok(false);
        }
        let (kind, name) = (K::kind(&()).into_owned(), child.name_any());
        let api: Api<K> = Api::namespaced(self.context.client.clone(), &self.namespace);
        let params = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(Preconditions { uid: child.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        match api.delete(&name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(false),
            Err(source) => return Err(self.failed("delete", &kind, &name, source)),
        }
        self.context.metrics.wrote(&kind, "prune");
        tracing::info!(kind, name, namespace = %self.namespace, "unwanted child deleted");
        self.note(format!("deleted {kind} {name}"));
        Ok(true)
    }

    /// Whether watches show more children of kind `C` than `wanted`: leftovers of an earlier spec
    /// or leader.
    pub fn has_more_than<K: Applicable, C: Applicable>(&self, wanted: usize) -> bool {
        self.context.seen.count::<K, C>(&self.namespace, &self.owner.name) > wanted
    }

    /// Whether our child of kind `C` called `name` was read and found as wanted: no watch has
    /// reported it yet, or it is time to look beyond the watches. Leftovers are then to be listed
    /// too: one whose event was lost goes as soon as an edit would.
    pub fn has_compared<C: Applicable>(&self, name: &str) -> bool {
        let key = Key::new::<C>(&self.namespace, name);
        self.compared.lock().unwrap_or_else(PoisonError::into_inner).contains(&key)
    }

    /// Publishes one event about everything that was created, updated and deleted.
    pub async fn finish(&self) {
        let written =
            std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner));
        if !written.is_empty() {
            self.publish(Notice::normal(EventReason::ChildrenApplied, "Apply", written.join(", ")))
                .await;
        }
    }

    fn note(&self, what: String) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    /// Publishes an event about the owner.
    async fn publish(&self, notice: Notice) {
        self.context.events.publish(&self.regarding, notice).await;
    }

    fn check_ours<K: Resource>(&self, live: &K, kind: &str, name: &str) -> Result<(), ApplyError> {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        let ours = live.owner_references().iter().any(|owner| owner.uid == self.owner.uid);
        if !ours {
            return Err(ApplyError::NotOurs { kind, name });
        }
        if live.meta().deletion_timestamp.is_some() {
            return Err(ApplyError::Terminating { kind, name });
        }
        Ok(())
    }

    async fn write<K: Applicable>(
        &self,
        api: &Api<K>,
        kind: &str,
        name: &str,
        wanted: &Value,
    ) -> Result<K, ApplyError> {
        let params = PatchParams::apply(CHILDREN_MANAGER).force();
        let mut body = wanted.clone();
        body["apiVersion"] = K::api_version(&()).into();
        body["kind"] = kind.into();
        // A status is never applied here, but some types write an empty one.
        if let Some(fields) = body.as_object_mut() {
            fields.remove("status");
        }
        let applied = api.patch(name, &params, &Patch::Apply(&body)).await;
        let applied = match applied {
            Err(kube::Error::Api(status)) if status.code == UNPROCESSABLE => {
                match self.empty_out(api, kind, name, wanted).await? {
                    true => api.patch(name, &params, &Patch::Apply(&body)).await,
                    false => Err(kube::Error::Api(status)),
                }
            }
            applied => applied,
        };
        let object = applied.map_err(|source| self.failed("apply", kind, name, source))?;
        self.context.metrics.wrote(kind, "children");
        Ok(object)
    }

    /// Removes fields of a child that an apply of `wanted` would set to null; returns whether there
    /// were any.
    async fn empty_out<K: Applicable>(
        &self,
        api: &Api<K>,
        kind: &str,
        name: &str,
        wanted: &Value,
    ) -> Result<bool, ApplyError> {
        let failed = |source| self.failed("empty fields of", kind, name, source);
        let Some(live) = api.get_opt(name).await.map_err(failed)? else { return Ok(false) };
        let encode = |source| {
            let (kind, name) = (kind.to_owned(), name.to_owned());
            ApplyError::Encode { kind, name, source }
        };
        let json = serde_json::to_value(&live).map_err(encode)?;
        let patch =
            applied_state::ours(&live).and_then(|ours| compare::emptied(wanted, &json, ours));
        let Some(mut patch) = patch else { return Ok(false) };
        patch["metadata"]["resourceVersion"] = live.resource_version().into();
        let params =
            PatchParams { field_manager: Some(CHILDREN_MANAGER.into()), ..PatchParams::default() };
        api.patch(name, &params, &Patch::Merge(&patch)).await.map_err(failed)?;
        self.context.metrics.wrote(kind, "children");
        Ok(true)
    }

    async fn tell(&self, kind: &str, name: &str, change: &Change) {
        match change {
            Change::None | Change::Withheld => {}
            Change::Created => {
                tracing::info!(kind, name, namespace = %self.namespace, "child created");
                self.note(format!("created {kind} {name}"));
            }
            Change::Updated => {
                tracing::info!(kind, name, namespace = %self.namespace, "child updated");
                self.note(format!("updated {kind} {name}"));
            }
            Change::Repaired(fields) => {
                let fields = fields.join(", ");
                tracing::warn!(kind, name, namespace = %self.namespace, fields, "drift repaired");
                self.context.metrics.repaired(kind);
                let note = format!(
                    "{kind} {name} was changed by someone else in {fields} and was put back; \
                     change the millrace.dev resource instead"
                );
                self.publish(Notice::warning(EventReason::DriftRepaired, "Apply", note)).await;
            }
        }
    }

    fn failed(&self, verb: &str, kind: &str, name: &str, source: kube::Error) -> ApplyError {
        ApiError { what: format!("{verb} {kind} {}/{name}", self.namespace), source }.into()
    }
}

/// Whether an object is paused by annotation.
pub fn is_paused<K: Resource>(object: &K) -> bool {
    let value = object.annotations().get(millrace_crds::PAUSED_ANNOTATION);
    value.is_some_and(|value| value == "true")
}

/// The first 16 bytes of the SHA-256 of a JSON value with sorted keys, in hexadecimal.
#[must_use]
pub fn hash_of(value: &Value) -> String {
    hex(&Sha256::digest(value.to_string().as_bytes())[..16])
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A client bound API for reading, so that observe steps need not spell it out.
pub fn api<K: Applicable>(client: &Client, namespace: &str) -> Api<K> {
    Api::namespaced(client.clone(), namespace)
}
