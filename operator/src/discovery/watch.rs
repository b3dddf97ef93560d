//! One watch: a kind in one namespace, or in all, told to the state event by event.
//!
//! A watch that breaks starts again, less and less often (30 s apart at most); what is known stays
//! meanwhile. A kind that isn't served (404) is asked for again so; one that is refused (403) is
//! named, since targets wait for it.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use millrace_monitors::{MonitorKind, kept};
use serde::de::DeserializeOwned;

use super::select::words;
use super::state::{Kept, Path, Stage, State, Watched};
use super::strip;
use crate::error::chain;
use crate::pods::pages::PAGE;
use crate::telemetry::metrics::Metrics;

/// Answers of 404 in a row after which a kind that was served is taken for removed: the watch's
/// back-off makes that some 25 s. An API server that starts may not know it yet.
const NOT_FOUND_MAX: u32 = 5;

/// The group of monitors.
const GROUP: &str = "monitoring.coreos.com";

/// The places of a kind: one for each namespace, or one for all. Nodes and namespaces are in none.
pub(super) fn places(watched: Watched, within: &[String]) -> Vec<Option<String>> {
    let is_global = matches!(watched, Watched::Nodes | Watched::Namespaces);
    match within.is_empty() || is_global {
        true => vec![None],
        false => within.iter().cloned().map(Some).collect(),
    }
}

/// A watch.
pub(super) struct Watch {
    pub(super) client: Client,
    pub(super) metrics: Metrics,
    pub(super) watched: Watched,
    pub(super) place: usize,
    pub(super) namespace: Option<String>,
    pub(super) state: Arc<Mutex<State>>,
}

impl Watch {
    /// Watches until it is dropped.
    pub(super) async fn run(self) {
        match self.watched {
            Watched::Monitors(kind) => {
                let resource = resource(kind);
                let api = match &self.namespace {
                    Some(name) => Api::namespaced_with(self.client.clone(), name, &resource),
                    None => Api::all_with(self.client.clone(), &resource),
                };
                self.follow(api, move |object: DynamicObject| {
                    Kept::Monitor(kind, strip::monitor(kind, &object))
                })
                .await;
            }
            Watched::Pods => {
                self.follow(self.api::<core::Pod>(), |it| Kept::Pod(strip::pod(it))).await;
            }
            Watched::Services => {
                let api = self.api::<PartialObjectMeta<core::Service>>();
                self.follow(api, |it| Kept::Service(strip::service(it))).await;
            }
            Watched::Slices => {
                self.follow(self.api::<EndpointSlice>(), |it| Kept::Slice(strip::slice(it))).await;
            }
            Watched::Nodes => {
                let api = Api::<PartialObjectMeta<core::Node>>::all(self.client.clone());
                self.follow(api, |it| Kept::Node(strip::node(it))).await;
            }
            Watched::Namespaces => {
                let api = Api::<PartialObjectMeta<core::Namespace>>::all(self.client.clone());
                self.follow(api, |it| Kept::Namespace(kept(it.metadata.labels.as_ref()))).await;
            }
        }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(name) => Api::namespaced(self.client.clone(), name),
            None => Api::all(self.client.clone()),
        }
    }

    async fn follow<K>(&self, api: Api<K>, strip: impl Fn(K) -> Kept + Send)
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let config = watcher::Config::default().page_size(PAGE);
        self.take(watcher(api, config).default_backoff(), strip).await;
    }

    /// Takes events as they come.
    async fn take<K: Resource>(
        &self,
        events: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send,
        strip: impl Fn(K) -> Kept + Send,
    ) {
        let Self { watched, place, .. } = *self;
        let (mut seen, mut not_found) = (BTreeSet::new(), 0);
        futures::pin_mut!(events);
        while let Some(event) = events.next().await {
            not_found = match event.as_ref().map_err(code) {
                Err(Some(404)) => not_found + 1,
                _ => 0,
            };
            match event {
                Err(error) => self.broke(&error, not_found),
                Ok(watcher::Event::Init) => seen.clear(),
                Ok(watcher::Event::InitApply(object)) => {
                    let path = path(&object);
                    seen.insert(path.clone());
                    // Before the lock: a monitor's rules are compiled there.
                    let kept = strip(object);
                    self.state(|state| state.put(path, kept));
                }
                Ok(watcher::Event::InitDone) => {
                    let seen = std::mem::take(&mut seen);
                    self.state(|state| {
                        state.settle(watched, self.namespace.as_deref(), &seen);
                        state.stage(watched, place, Stage::Whole);
                    });
                }
                Ok(watcher::Event::Apply(object)) => {
                    let (path, kept) = (path(&object), strip(object));
                    self.state(|state| state.put(path, kept));
                }
                Ok(watcher::Event::Delete(object)) => {
                    let path = path(&object);
                    self.state(|state| state.remove(watched, &path));
                }
            }
        }
    }

    fn broke(&self, error: &watcher::Error, not_found: u32) {
        let Self { watched, place, .. } = *self;
        let kind = words(watched);
        match code(error) {
            Some(404) if matches!(watched, Watched::Monitors(_)) => self.state(|state| {
                let was_served = state.stages.get(&(watched, place)) == Some(&Stage::Whole);
                if !was_served || not_found >= NOT_FOUND_MAX {
                    state.settle(watched, self.namespace.as_deref(), &BTreeSet::new());
                    state.stage(watched, place, Stage::NotServed);
                }
            }),
            Some(403) => {
                let why = "the operator has no right to list and watch them: set discovery.enabled \
                           in its chart";
                self.named(&kind, error);
                self.state(|state| {
                    state.stage(watched, place, Stage::Waiting(Some(why.to_owned())));
                });
            }
            _ => self.named(&kind, error),
        }
    }

    fn named(&self, kind: &str, error: &watcher::Error) {
        self.metrics.watch_broke(kind);
        tracing::warn!(watched = kind, error = %chain(error), "a watch broke and starts again");
    }

    fn state(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The status of an answer that refused a watch.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status.code),
        watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

fn path<K: Resource>(object: &K) -> Path {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// A kind of monitors as the API server serves it.
fn resource(kind: MonitorKind) -> ApiResource {
    let (version, plural) = match kind {
        MonitorKind::ServiceMonitor => ("v1", "servicemonitors"),
        MonitorKind::PodMonitor => ("v1", "podmonitors"),
        MonitorKind::Probe => ("v1", "probes"),
        MonitorKind::ScrapeConfig => ("v1alpha1", "scrapeconfigs"),
        // Not monitors: nobody asks for them so.
        MonitorKind::Pod | MonitorKind::Service => ("v1", "none"),
    };
    let kind = GroupVersionKind::gvk(GROUP, version, kind.as_str());
    ApiResource::from_gvk_with_plural(&kind, plural)
}

#[cfg(test)]
#[path = "../../tests/unit/discovery/watch.rs"]
mod tests;
