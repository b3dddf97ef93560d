//! A controller's watches beside its own objects: children by their metadata alone, except
//! workloads whose figures go into a status.
//!
//! Each event is noted in [`Seen`] before it triggers the owner's reconcile, which thus never takes
//! an edited child for a verified one. A list after a broken watch is compared with the cache:
//! owners of children deleted meanwhile are reconciled, which the watch alone would miss. It
//! decides nothing about a child.

use std::fmt::Debug;
use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{ObjectMeta, PartialObjectMeta, PartialObjectMetaExt};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use millrace_rollout::Observation;
use serde::de::DeserializeOwned;

use crate::cache;
use crate::cache::children::{Gone, Key, Round, Seen, State};
use crate::cache::queue_time::QueueTimes;
use crate::cache::secret_references::References;
use crate::cluster::Applicable;
use crate::context::Context;
use crate::error::chain;
use crate::pods::pages::PAGE;
use crate::reconcile::place::{KindController, Place};
use crate::telemetry::metrics::Metrics;

/// A controller while its watches are added.
pub struct Watching<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    controller: KindController<K>,
    place: Place,
    tell: Tell,
    metrics: Metrics,
}

/// What is notified of an event before the owner's reconcile begins.
#[derive(Clone, Debug, Default)]
pub struct Tell {
    /// The cache of children.
    pub seen: Arc<Seen>,
    /// Since when owners wait.
    pub queue_times: Arc<QueueTimes>,
    /// Which pools refer to which Secrets.
    pub references: Arc<References>,
    /// Whether Secrets may be watched.
    pub watches_secrets: bool,
}

impl Tell {
    /// What a context holds of it.
    #[must_use]
    pub fn of(context: &Context) -> Self {
        Self {
            seen: context.seen.clone(),
            queue_times: context.queue_times.clone(),
            references: context.references.clone(),
            watches_secrets: context.watches_secrets,
        }
    }
}

impl<K> Watching<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    /// Begins with a controller of nothing but its own objects.
    #[must_use]
    pub fn new(controller: KindController<K>, place: Place, tell: Tell, metrics: Metrics) -> Self {
        Self { controller, place, tell, metrics }
    }

    /// Adds a watch of children of kind `C`, as selected by `config`.
    #[must_use]
    pub fn owns<C: Applicable>(self, config: watcher::Config) -> Self {
        let events = watcher(self.place.api::<PartialObjectMeta<C>>(), config);
        self.told_of::<C, _>(events, |_| None)
    }

    /// Adds a watch of whole workloads of kind `C`: their controllers update counts all the time,
    /// and each update would otherwise cost a read.
    #[must_use]
    pub fn owns_workload<C: Applicable>(
        self,
        config: watcher::Config,
        figures: fn(&C) -> Observation,
    ) -> Self {
        let events = watcher(self.place.api::<C>(), config);
        self.told_of::<C, _>(events, move |workload| Some(figures(workload)))
    }

    fn told_of<C: Applicable, O: Resource + Send + 'static>(
        self,
        events: impl Stream<Item = Result<watcher::Event<O>, watcher::Error>> + Send + 'static,
        figures: impl Fn(&O) -> Option<Observation> + Send + 'static,
    ) -> Self {
        let events = apart(&K::kind(&()), &C::kind(&()), &self.metrics, events);
        let noted = noted::<K, C, O>(self.tell.clone(), events, figures);
        Self { controller: self.controller.owns_stream(noted), ..self }
    }

    /// Adds a watch of Secrets, if allowed: metadata only, and only events of Secrets that someone
    /// refers to are passed on. If it is refused, little is lost: pools read their Secrets at each
    /// resync too.
    #[must_use]
    pub fn refers_to_secrets(self) -> Self {
        if !self.tell.watches_secrets {
            return self;
        }
        let secrets = self.place.api::<PartialObjectMeta<Secret>>();
        let events = watcher(secrets, watcher::Config::default().page_size(PAGE));
        let changed = apart(&K::kind(&()), "Secret", &self.metrics, events).touched_objects();
        let tell = self.tell.clone();
        let referring = move |secret: PartialObjectMeta<Secret>| {
            let namespace = secret.namespace().unwrap_or_default();
            let pools = tell.references.pools(&namespace, &secret.name_any());
            let kind = K::kind(&());
            pools.iter().for_each(|it| tell.queue_times.woken(cache::key(&kind, &namespace, it)));
            pools.into_iter().map(move |pool| ObjectRef::new(&pool).within(&namespace))
        };
        Self { controller: self.controller.watches_stream(changed, referring), ..self }
    }

    /// The controller with all its watches.
    #[must_use]
    pub fn into_controller(self) -> KindController<K> {
        self.controller
    }
}

/// A watch of `watched` for the controller of `kind`, with its own back-off: a broken or refused
/// one is reported and retried less and less often. Its errors end here, because a controller slows
/// down all its watches for an error of one.
pub fn apart<T>(
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
            metrics.watch_broke(&kind);
            tracing::warn!(kind, watched, error = %chain(error), "a watch broke and starts again");
        });
        std::future::ready(event.ok().map(Ok))
    })
}

/// The children of kind `C` in these events, each noted first, with the figures that `figures`
/// finds in it; a watched child is an `O`. Public so that tests can feed it.
pub fn noted<K, C, O>(
    tell: Tell,
    events: impl Stream<Item = Result<watcher::Event<O>, watcher::Error>> + Send + 'static,
    figures: impl Fn(&O) -> Option<Observation> + Send + 'static,
) -> impl Stream<Item = Result<PartialObjectMeta<C>, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()> + Send + 'static,
    O: Resource + Send + 'static,
{
    let mut round = tell.seen.begin();
    events.flat_map(move |event| {
        let children = match event {
            Err(error) => vec![Err(error)],
            Ok(event) => {
                let children = note::<K, C, O>(&tell.seen, &mut round, event, &figures);
                children.iter().for_each(|child| wake::<K, C>(&tell.queue_times, child));
                children.into_iter().map(Ok).collect()
            }
        };
        stream::iter(children)
    })
}

/// The owner waits from now on.
fn wake<K, C>(queue_times: &QueueTimes, child: &PartialObjectMeta<C>)
where
    K: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    if let Some(owner) = owner::<K, C>(child) {
        let kind = K::kind(&());
        queue_times.woken(cache::key(&kind, &child.namespace().unwrap_or_default(), owner));
    }
}

fn owner<K, C>(child: &PartialObjectMeta<C>) -> Option<&str>
where
    K: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    let owner = child.owner_references().iter().find(|owner| owner.kind == K::kind(&()));
    owner.map(|owner| owner.name.as_str())
}

fn note<K, C, O>(
    seen: &Seen,
    round: &mut Round,
    event: watcher::Event<O>,
    figures: impl Fn(&O) -> Option<Observation>,
) -> Vec<PartialObjectMeta<C>>
where
    K: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
    O: Resource,
{
    let metadata = |mut told: O| std::mem::take(told.meta_mut()).into_request_partial::<C>();
    match event {
        watcher::Event::Init => {
            *round = round.next();
            Vec::new()
        }
        watcher::Event::Apply(told) | watcher::Event::InitApply(told) => {
            let state = State::of(&told, figures(&told));
            let child = metadata(told);
            let (namespace, name) = (child.namespace().unwrap_or_default(), child.name_any());
            let owner = owner::<K, C>(&child);
            seen.note::<K, C>((&namespace, &name), state, owner, *round);
            vec![child]
        }
        watcher::Event::Delete(told) => {
            let child = metadata(told);
            let namespace = child.namespace().unwrap_or_default();
            seen.forget(&Key::new::<C>(&namespace, &child.name_any()));
            vec![child]
        }
        watcher::Event::InitDone => {
            seen.settle(*round).into_iter().map(|gone| remains::<K, C>(gone)).collect()
        }
    }
}

/// What is kept of a deleted child: enough to find its owner.
fn remains<K, C>(gone: Gone) -> PartialObjectMeta<C>
where
    K: Resource<DynamicType = ()>,
    C: Resource<DynamicType = ()>,
{
    let Gone { namespace, owner } = gone;
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
