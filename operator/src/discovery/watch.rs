//! One watch of a kind in one namespace, or in all, whose events update the state.
//!
//! A broken watch restarts, less and less often (every 30 s at least); until then the known state
//! is unchanged. A kind that is refused (403) or no longer served (404) is no longer completely
//! known, and a renewed watch reports only changes: so it begins with a list again.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff, watcher};
use kube::{Client, Resource, ResourceExt};
use millrace_monitors::{MonitorKind, retained_texts};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::select::kind_plural;
use super::state::{CachedObject, DiscoveryState, NamespacedName, WatchStage, Watched};
use super::strip;
use crate::error::error_chain;
use crate::pods::pages::PAGE;
use crate::telemetry::metrics::{Metrics, WATCH_ERRORS};

/// Minimum number and duration of 404 responses in a row after which a kind counts as not served.
/// An API server that starts, or whose definitions are restored, may not know it yet.
const NOT_FOUND_MAX: u32 = 5;
const NOT_FOUND_LASTS: Duration = Duration::from_secs(25);

/// How long one watch lasts before it is renewed from the known state. The duration is partly
/// random, so that watches started together aren't renewed together. kube drops a silent watch 5 s
/// later: a connection that is dead on one side hides changes of targets for 90 s at most.
const WATCH_SECONDS_MAX: u32 = 85;
const WATCH_SECONDS_SPREAD: u64 = 10;

/// Longest wait between attempts, as in kube's watchers.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

const GROUP: &str = "monitoring.coreos.com";

/// Returns the namespaces to watch a kind in: one watch for each, or one for all. Nodes and
/// namespaces are cluster-scoped.
pub(super) fn watch_scopes(watched: Watched, within: &[String]) -> Vec<Option<String>> {
    let is_global = matches!(watched, Watched::Nodes | Watched::Namespaces);
    match within.is_empty() || is_global {
        true => vec![None],
        false => within.iter().cloned().map(Some).collect(),
    }
}

/// One watch, and the state that it updates.
pub(super) struct KindWatch {
    pub(super) client: Client,
    pub(super) metrics: Metrics,
    pub(super) watched: Watched,
    pub(super) scope: usize,
    pub(super) namespace: Option<String>,
    pub(super) state: Arc<Mutex<DiscoveryState>>,
}

impl KindWatch {
    /// Watches until the future is dropped.
    pub(super) async fn run(self) {
        match self.watched {
            Watched::Monitors(kind) => {
                let resource = monitor_resource(kind);
                let api = match &self.namespace {
                    Some(name) => Api::namespaced_with(self.client.clone(), name, &resource),
                    None => Api::all_with(self.client.clone(), &resource),
                };
                self.follow_events(api, move |object: DynamicObject| {
                    CachedObject::Monitor(kind, strip::strip_monitor(kind, &object))
                })
                .await;
            }
            Watched::Pods => {
                self.follow_events(self.scoped_api::<core::Pod>(), |it| {
                    CachedObject::Pod(strip::strip_pod(it))
                })
                .await;
            }
            Watched::Services => {
                let api = self.scoped_api::<PartialObjectMeta<core::Service>>();
                self.follow_events(api, |it| CachedObject::Service(strip::strip_service(it))).await;
            }
            Watched::Slices => {
                self.follow_events(self.scoped_api::<EndpointSlice>(), |it| {
                    CachedObject::Slice(strip::strip_slice(it))
                })
                .await;
            }
            Watched::Nodes => {
                let api = Api::<PartialObjectMeta<core::Node>>::all(self.client.clone());
                self.follow_events(api, |it| CachedObject::Node(strip::strip_node(it))).await;
            }
            Watched::Namespaces => {
                let api = Api::<PartialObjectMeta<core::Namespace>>::all(self.client.clone());
                self.follow_events(api, |it| {
                    CachedObject::Namespace(retained_texts(it.metadata.labels.as_ref()))
                })
                .await;
            }
        }
    }

    fn scoped_api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(name) => Api::namespaced(self.client.clone(), name),
            None => Api::all(self.client.clone()),
        }
    }

    async fn follow_events<K>(&self, api: Api<K>, strip: impl Fn(K) -> CachedObject + Send + Sync)
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let config = watcher::Config::default().page_size(PAGE).timeout(watch_seconds());
        let (mut backoff, mut absence) = (DefaultBackoff::default(), Absence::default());
        loop {
            let events = watcher(api.clone(), config.clone());
            let wait = self.apply_events(events, &mut backoff, &mut absence, &strip).await;
            tokio::time::sleep(wait).await;
        }
    }

    /// Applies events until the kind must be listed again. Returns how long to wait before that.
    async fn apply_events<K: Resource>(
        &self,
        events: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send,
        backoff: &mut impl Backoff,
        absence: &mut Absence,
        strip: impl Fn(K) -> CachedObject + Send,
    ) -> Duration {
        let Self { watched, scope, .. } = *self;
        let mut listed = BTreeSet::new();
        futures::pin_mut!(events);
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    absence.record_response(status_code(&error) == Some(404));
                    let wait = backoff.next().unwrap_or(LONGEST_WAIT);
                    if self.handle_failure(&error, absence) {
                        return wait;
                    }
                    tokio::time::sleep(wait).await;
                    continue;
                }
            };
            // `Init` comes before each list is requested: it is no response.
            if !matches!(event, watcher::Event::Init) {
                backoff.reset();
                absence.record_response(false);
            }
            match event {
                watcher::Event::Init => listed.clear(),
                watcher::Event::InitApply(object) => {
                    let path = object_path(&object);
                    listed.insert(path.clone());
                    // Outside the lock, since this compiles a monitor's rules.
                    let cached = strip(object);
                    self.update_state(|state| state.put_object(path, cached));
                }
                watcher::Event::InitDone => {
                    let listed = std::mem::take(&mut listed);
                    self.update_state(|state| {
                        state.finish_list(watched, self.namespace.as_deref(), &listed);
                        state.set_stage(watched, scope, WatchStage::Complete);
                    });
                }
                watcher::Event::Apply(object) => {
                    let (path, cached) = (object_path(&object), strip(object));
                    self.update_state(|state| state.put_object(path, cached));
                }
                watcher::Event::Delete(object) => {
                    let path = object_path(&object);
                    self.update_state(|state| state.remove(watched, &path));
                }
            }
        }
        LONGEST_WAIT
    }

    /// Records why a watch broke. Returns whether the kind is no longer completely known as a
    /// result.
    fn handle_failure(&self, error: &watcher::Error, absence: &Absence) -> bool {
        let Self { watched, scope, .. } = *self;
        let kind = kind_plural(watched);
        match status_code(error) {
            Some(404) if matches!(watched, Watched::Monitors(_)) => {
                let is_lasting = absence.is_lasting();
                if is_lasting {
                    self.update_state(|state| {
                        state.finish_list(watched, self.namespace.as_deref(), &BTreeSet::new());
                        state.set_stage(watched, scope, WatchStage::NotServed);
                    });
                }
                is_lasting
            }
            Some(403) => {
                let why = "the operator has no right to list and watch them: set discovery.enabled \
                           in its chart";
                self.log_failure(&kind, error);
                self.update_state(|state| {
                    state.set_stage(watched, scope, WatchStage::Waiting(Some(why.to_owned())));
                });
                true
            }
            _ => {
                self.log_failure(&kind, error);
                false
            }
        }
    }

    fn log_failure(&self, kind: &str, error: &watcher::Error) {
        self.metrics.count(&WATCH_ERRORS, [kind]);
        tracing::warn!(watched = kind, error = %error_chain(error), "a watch failed and is \
                                                                     restarted");
    }

    fn update_state(&self, change: impl FnOnce(&mut DiscoveryState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Returns the duration of one watch, randomized by the keys of a hasher.
fn watch_seconds() -> u32 {
    let earlier = RandomState::new().hash_one(()) % (WATCH_SECONDS_SPREAD + 1);
    WATCH_SECONDS_MAX - u32::try_from(earlier).unwrap_or_default()
}

/// Counts 404 responses in a row.
#[derive(Debug, Default)]
struct Absence {
    not_found_count: u32,
    since: Option<Instant>,
}

impl Absence {
    fn record_response(&mut self, is_not_found: bool) {
        if !is_not_found {
            *self = Self::default();
            return;
        }
        self.not_found_count = self.not_found_count.saturating_add(1);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Returns whether the kind counts as not served.
    fn is_lasting(&self) -> bool {
        let lasts = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.not_found_count >= NOT_FOUND_MAX && lasts >= NOT_FOUND_LASTS
    }
}

/// Returns the status of a response that refused a watch.
fn status_code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status.code),
        watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

fn object_path<K: Resource>(object: &K) -> NamespacedName {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Returns a kind of monitors as the API server serves it.
fn monitor_resource(kind: MonitorKind) -> ApiResource {
    let (version, plural) = match kind {
        MonitorKind::ServiceMonitor => ("v1", "servicemonitors"),
        MonitorKind::PodMonitor => ("v1", "podmonitors"),
        MonitorKind::Probe => ("v1", "probes"),
        MonitorKind::ScrapeConfig => ("v1alpha1", "scrapeconfigs"),
        // Pods and Services are not monitors and never requested as such.
        MonitorKind::Pod | MonitorKind::Service => ("v1", "none"),
    };
    let kind = GroupVersionKind::gvk(GROUP, version, kind.as_str());
    ApiResource::from_gvk_with_plural(&kind, plural)
}

#[cfg(test)]
mod tests;
