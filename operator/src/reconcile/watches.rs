//! Watches a controller's children: their metadata alone, except workloads whose figures enter a
//! status.
//!
//! Each event is recorded in [`ChildCache`] before it triggers the owner's reconcile, which thus
//! never takes an edited child for a verified one. A list after a broken watch is compared with the
//! cache, so owners of children deleted in between are reconciled; the watch alone would miss them.
//! This module decides nothing about a child.

use std::fmt::Debug;
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{ObjectMeta, PartialObjectMeta, PartialObjectMetaExt};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use millrace_rollout::WorkloadObservation;
use serde::de::DeserializeOwned;

use crate::cache;
use crate::cache::children::{ChildCache, ChildKey, ChildState, DeletedChild, ListRound};
use crate::cache::queue_time::QueueTimes;
use crate::cluster::Applicable;
use crate::context::Context;
use crate::error::error_chain;
use crate::pods::pages::PAGE;
use crate::reconcile::watch_scope::{KindController, WatchScope};
use crate::telemetry::metrics::{Metrics, WATCH_ERRORS};

/// A controller to which watches are being added.
pub struct WatchBuilder<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    controller: KindController<K>,
    scope: WatchScope,
    context: Arc<Context>,
}

impl<K> WatchBuilder<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    /// Returns a controller that watches only its own objects.
    #[must_use]
    pub fn new(controller: KindController<K>, scope: WatchScope, context: Arc<Context>) -> Self {
        Self { controller, scope, context }
    }

    /// Adds a watch of the children of kind `C` that `config` selects.
    #[must_use]
    pub fn owns<C: Applicable>(self, config: watcher::Config) -> Self {
        let events = watcher(self.scope.scoped_api::<PartialObjectMeta<C>>(), config);
        self.owns_events::<C, _>(events, |_| None)
    }

    /// Adds watches of the objects that pools have besides their workload.
    #[must_use]
    pub fn owns_common_objects(self, config: fn() -> watcher::Config) -> Self {
        self.owns::<Service>(config())
            .owns::<ConfigMap>(config())
            .owns::<ServiceAccount>(config())
            .owns::<PodDisruptionBudget>(config())
            .owns::<NetworkPolicy>(config())
    }

    /// Adds a watch of complete workloads of kind `C`: their controllers update counts all the
    /// time, and each update would otherwise cost a read.
    #[must_use]
    pub fn owns_workload<C: Applicable>(
        self,
        config: watcher::Config,
        figures: fn(&C) -> WorkloadObservation,
    ) -> Self {
        let events = watcher(self.scope.scoped_api::<C>(), config);
        self.owns_events::<C, _>(events, move |workload| Some(figures(workload)))
    }

    fn owns_events<C: Applicable, O: Resource + Send + 'static>(
        self,
        events: impl Stream<Item = Result<watcher::Event<O>, watcher::Error>> + Send + 'static,
        figures: impl Fn(&O) -> Option<WorkloadObservation> + Send + 'static,
    ) -> Self {
        let events = with_backoff(&K::kind(&()), &C::kind(&()), &self.context.metrics, events);
        let noted = record_children::<K, C, O>(self.context.clone(), events, figures);
        Self { controller: self.controller.owns_stream(noted), ..self }
    }

    /// Adds a watch of Secrets, if allowed: metadata only, and it passes on only events of Secrets
    /// that some pool refers to. If the watch is refused, little is lost: pools also read their
    /// Secrets at each resync.
    #[must_use]
    pub fn refers_to_secrets(self) -> Self {
        if !self.context.watches_secrets {
            return self;
        }
        let secrets = self.scope.scoped_api::<PartialObjectMeta<Secret>>();
        let events = watcher(secrets, watcher::Config::default().page_size(PAGE));
        let metrics = &self.context.metrics;
        let changed = with_backoff(&K::kind(&()), "Secret", metrics, events).touched_objects();
        let context = self.context.clone();
        let referring = move |secret: PartialObjectMeta<Secret>| {
            let namespace = secret.namespace().unwrap_or_default();
            let pools = context.references.record_change::<K>(&namespace, &secret.name_any());
            let kind = K::kind(&());
            pools.iter().for_each(|it| {
                context.queue_times.record_event(cache::object_key(&kind, &namespace, it))
            });
            pools.into_iter().map(move |pool| ObjectRef::new(&pool).within(&namespace))
        };
        Self { controller: self.controller.watches_stream(changed, referring), ..self }
    }

    /// Returns the controller with all its watches.
    #[must_use]
    pub fn into_controller(self) -> KindController<K> {
        self.controller
    }
}

/// Watches `watched` for the controller of `kind` with a separate back-off: a broken or refused
/// watch is reported and retried less and less often. Its errors end here, because a controller
/// slows down all its watches for an error of one.
pub fn with_backoff<T>(
    kind: &str,
    watched: &str,
    metrics: &Metrics,
    events: impl Stream<Item = Result<T, watcher::Error>> + Send + 'static,
) -> impl Stream<Item = Result<T, watcher::Error>> + Send + 'static
where
    T: Send + 'static,
{
    let (kind, watched, metrics) = (kind.to_owned(), watched.to_owned(), metrics.clone());
    events.default_backoff().filter_map(move |event| {
        let event = event.inspect_err(|error| {
            metrics.count(&WATCH_ERRORS, [&kind]);
            tracing::warn!(kind, watched, error = %error_chain(error), "a watch failed and is \
                                                                        restarted");
        });
        std::future::ready(event.ok().map(Ok))
    })
}

/// Returns the children of kind `C` from these events. Each is first recorded, with the figures
/// that `figures` extracts; a watched child is an `O`. Public so that tests can feed it.
pub fn record_children<K, C, O>(
    context: Arc<Context>,
    events: impl Stream<Item = Result<watcher::Event<O>, watcher::Error>> + Send + 'static,
    figures: impl Fn(&O) -> Option<WorkloadObservation> + Send + 'static,
) -> impl Stream<Item = Result<PartialObjectMeta<C>, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()> + Send + 'static,
    O: Resource + Send + 'static,
{
    let mut round = context.child_cache.begin_watch();
    events.flat_map(move |event| {
        let children = match event {
            Err(error) => vec![Err(error)],
            Ok(event) => {
                let children =
                    record_event::<K, C, O>(&context.child_cache, &mut round, event, &figures);
                children.iter().for_each(|child| queue_owner::<K, C>(&context.queue_times, child));
                children.into_iter().map(Ok).collect()
            }
        };
        stream::iter(children)
    })
}

/// Records that the owner waits from now on.
fn queue_owner<K, C>(queue_times: &QueueTimes, child: &PartialObjectMeta<C>)
where
    K: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    if let Some(owner) = owner_name::<K, C>(child) {
        let kind = K::kind(&());
        queue_times.record_event(cache::object_key(
            &kind,
            &child.namespace().unwrap_or_default(),
            owner,
        ));
    }
}

fn owner_name<K, C>(child: &PartialObjectMeta<C>) -> Option<&str>
where
    K: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    let owner = child.owner_references().iter().find(|owner| owner.kind == K::kind(&()));
    owner.map(|owner| owner.name.as_str())
}

fn record_event<K, C, O>(
    child_cache: &ChildCache,
    round: &mut ListRound,
    event: watcher::Event<O>,
    figures: impl Fn(&O) -> Option<WorkloadObservation>,
) -> Vec<PartialObjectMeta<C>>
where
    K: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
    O: Resource,
{
    let metadata = |mut object: O| std::mem::take(object.meta_mut()).into_request_partial::<C>();
    match event {
        watcher::Event::Init => {
            *round = round.next();
            Vec::new()
        }
        watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
            let state = ChildState::of_object(&object, figures(&object));
            let child = metadata(object);
            let (namespace, name) = (child.namespace().unwrap_or_default(), child.name_any());
            let owner = owner_name::<K, C>(&child);
            child_cache.record_child::<K, C>((&namespace, &name), state, owner, *round);
            vec![child]
        }
        watcher::Event::Delete(object) => {
            let child = metadata(object);
            let namespace = child.namespace().unwrap_or_default();
            child_cache.remove_child(&ChildKey::new::<C>(&namespace, &child.name_any()));
            vec![child]
        }
        watcher::Event::InitDone => child_cache
            .finish_list(*round)
            .into_iter()
            .map(|deleted| deleted_child_metadata::<K, C>(deleted))
            .collect(),
    }
}

/// Returns a stub of a deleted child, enough to find its owner.
fn deleted_child_metadata<K, C>(deleted: DeletedChild) -> PartialObjectMeta<C>
where
    K: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    let DeletedChild { namespace, owner } = deleted;
    let owner = OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner,
        controller: Some(true),
        ..OwnerReference::default()
    };
    ObjectMeta {
        namespace: Some(namespace),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    }
    .into_request_partial::<C>()
}
