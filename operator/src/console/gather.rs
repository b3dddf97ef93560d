//! Gathers a pipeline's facts: objects from this process's stores, pods from the API server, their
//! figures from their admin ports. It reads only when somebody requests a page.
//!
//! Limits: a reading serves all requests within [`FRESH`]; [`READINGS_AT_ONCE`] at once; the
//! readings of [`CACHED_MAX`] pipelines are cached for rates; [`PODS_LISTED_MAX`] pods are listed,
//! [`PODS_MAX`] queried; all within [`READING_MAX`]. A sample is some 3 kB: 5 MB if all cached
//! pipelines have 100 pods with two.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Resource, ResourceExt};
use millrace_crds::pods::PRODUCT;
use millrace_crds::v1alpha1::{
    EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};
use millrace_reports::facts::{EventFacts, Facts, Gap, PodFacts, Role};
use millrace_reports::{DeadLetterReport, ProducerReport, merge_dead_letters, rank_producers};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::events::{events_of, list_events};
use crate::context::Context;
use crate::error::error_chain;
use crate::pods::{FigureSource, PODS_MAX, PodTarget};

/// A reading younger than this is shown again.
const FRESH: SignedDuration = SignedDuration::from_secs(4);
/// A reading older than this is no base for rates.
const BASE_AGE_MAX: SignedDuration = SignedDuration::from_secs(120);
/// Maximum number of pipelines that are read at once.
const READINGS_AT_ONCE: usize = 2;
/// Maximum number of pipelines whose readings are cached.
const CACHED_MAX: usize = 8;
/// Maximum number of pods that are listed: 2 MB on the wire.
const PODS_LISTED_MAX: u32 = 200;
/// Longest time that a reading may take.
const READING_MAX: Duration = Duration::from_secs(10);
/// Maximum number of objects of a kind in one namespace that are searched for a pipeline's.
const OBJECTS_MAX: usize = 5_000;

/// The readings of the most recently shown pipelines.
pub(super) struct Readings {
    source: Arc<dyn FigureSource>,
    cached: Mutex<VecDeque<Reading>>,
    permits: Semaphore,
}

/// A pipeline as it was read.
#[derive(Clone)]
pub(super) struct Reading {
    at: Timestamp,
    pub(super) facts: Arc<Facts>,
    pub(super) events: Arc<Vec<EventFacts>>,
    pub(super) producers: Arc<ProducerReport>,
    gateways: Arc<Vec<PodTarget>>,
}

/// What a reading's pods report, besides the facts.
#[derive(Default)]
struct PodReports {
    producers: ProducerReport,
    /// The gateways that run.
    gateways: Vec<PodTarget>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoFacts {
    /// No such pipeline exists in this process's stores.
    Missing,
    /// The object can't be read.
    Unreadable(String),
    /// Other pipelines are being read, and take long.
    Busy,
}

impl Readings {
    pub(super) fn new(source: Arc<dyn FigureSource>) -> Self {
        Self { source, cached: Mutex::default(), permits: Semaphore::new(READINGS_AT_ONCE) }
    }

    /// Returns a pipeline's facts and events, at most [`FRESH`] old.
    pub(super) async fn read_pipeline(
        &self,
        context: &Arc<Context>,
        namespace: &str,
        name: &str,
    ) -> Result<Reading, NoFacts> {
        let now = || context.clock.now();
        if let Some(reading) = self.find_newest(namespace, name, now(), FRESH) {
            return Ok(reading);
        }
        let permit = tokio::time::timeout(READING_MAX, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else { return Err(NoFacts::Busy) };
        // Another request may have read it in the meantime.
        if let Some(reading) = self.find_newest(namespace, name, now(), FRESH) {
            return Ok(reading);
        }
        let mut facts = read_objects(context, namespace, name).await?;
        let at = now();
        let why = || format!("no answer within {} s", READING_MAX.as_secs());
        let (pods, events) = tokio::join!(
            tokio::time::timeout(READING_MAX, self.read_pods(context, &mut facts)),
            tokio::time::timeout(READING_MAX, list_events(context, namespace)),
        );
        let pods = pods.unwrap_or_else(|_elapsed| {
            facts.gaps.push(Gap { what: "pods and their figures".to_owned(), why: why() });
            PodReports::default()
        });
        let (events, gap) = events.unwrap_or_else(|_elapsed| {
            (Vec::new(), Some(Gap { what: "events".to_owned(), why: why() }))
        });
        facts.gaps.extend(gap);
        self.add_earlier_samples(&mut facts, at);
        let events = Arc::new(events_of(&facts, events));
        let (producers, gateways) = (Arc::new(pods.producers), Arc::new(pods.gateways));
        let reading = Reading { at, facts: Arc::new(facts), events, producers, gateways };
        self.cache_reading(reading.clone());
        Ok(reading)
    }

    /// Queries a reading's gateways for their newest dead letters. Pods that don't answer are
    /// counted.
    pub(super) async fn read_dead_letters(&self, reading: &Reading) -> DeadLetterReport {
        // It waits for one reading at most, and the semaphore is never closed.
        let _permit = self.permits.acquire().await;
        let answers = self.source.read_dead_letters(&reading.gateways).await;
        let samples = answers.into_values().filter_map(Result::ok).collect();
        merge_dead_letters(samples, reading.gateways.len())
    }

    /// Returns the newest reading, unless it is older than `age_max` or from the future.
    fn find_newest(
        &self,
        namespace: &str,
        name: &str,
        now: Timestamp,
        age_max: SignedDuration,
    ) -> Option<Reading> {
        let readings = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let found = readings.iter().find(|it| is_of(&it.facts, namespace, name))?;
        let age = now.duration_since(found.at);
        (age >= SignedDuration::ZERO && age < age_max).then(|| found.clone())
    }

    fn cache_reading(&self, reading: Reading) {
        let facts = reading.facts.clone();
        let mut readings = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        readings.retain(|it| !is_of(&it.facts, facts.namespace(), facts.name()));
        if readings.len() >= CACHED_MAX {
            readings.pop_front();
        }
        readings.push_back(reading);
    }

    /// Adds the counters of the same pods at the previous reading.
    fn add_earlier_samples(&self, facts: &mut Facts, at: Timestamp) {
        let before = self.find_newest(facts.namespace(), facts.name(), at, BASE_AGE_MAX);
        let Some(before) = before else { return };
        for pod in &mut facts.pods {
            let earlier = before.facts.pods.iter().find(|it| it.name == pod.name);
            pod.before = earlier.and_then(|earlier| earlier.now.clone());
        }
        if facts.pods.iter().any(|pod| pod.before.is_some()) {
            facts.interval_seconds = Some(at.duration_since(before.at).as_secs_f64());
        }
    }

    /// Lists the pools' pods, and queries the running ones.
    async fn read_pods(&self, context: &Context, facts: &mut Facts) -> PodReports {
        let mut pools: Vec<String> = facts.edges.iter().map(ResourceExt::name_any).collect();
        pools.extend(facts.gateways.iter().map(ResourceExt::name_any));
        if pools.is_empty() {
            return PodReports::default();
        }
        let of_pools = format!(
            "app.kubernetes.io/name={PRODUCT},app.kubernetes.io/instance in ({})",
            pools.join(",")
        );
        let api: Api<Pod> = Api::namespaced(context.client.clone(), facts.namespace());
        let params = ListParams::default().labels(&of_pools).limit(PODS_LISTED_MAX);
        let listed = match api.list(&params).await {
            Ok(listed) => listed,
            Err(error) => {
                facts.gaps.push(Gap { what: "pods".to_owned(), why: error_chain(&error) });
                return PodReports::default();
            }
        };
        if listed.metadata.continue_.is_some_and(|token| !token.is_empty()) {
            let why = format!("those beyond the first {PODS_LISTED_MAX} are not listed");
            facts.gaps.push(Gap { what: "all pods".to_owned(), why });
        }
        let mut targets = Vec::new();
        for pod in &listed.items {
            let Some(found) = PodFacts::from_pod(pod) else { continue };
            let address = pod.status.as_ref().and_then(|it| it.pod_ip.as_deref()?.parse().ok());
            if let (Some(address), "Running") = (address, &*found.state) {
                targets.push(PodTarget { pod: found.name.clone(), address });
            }
            facts.pods.push(found);
        }
        if targets.len() > PODS_MAX {
            let why =
                format!("{} beyond the first {PODS_MAX} are not queried", targets.len() - PODS_MAX);
            facts.gaps.push(Gap { what: "all pods' figures".to_owned(), why });
            targets.truncate(PODS_MAX);
        }
        let is_edge = |target: &PodTarget| {
            facts.pods.iter().any(|pod| pod.name == target.pod && pod.role == Role::Edge)
        };
        let (edges, gateways): (Vec<_>, Vec<_>) = targets.iter().cloned().partition(is_edge);
        let (_, producers) =
            tokio::join!(self.query_figures(facts, &targets), self.query_producers(&edges));
        PodReports { producers, gateways }
    }

    /// Pods that don't answer are counted: their figures state why. Those of an image that has no
    /// such page are too.
    async fn query_producers(&self, edges: &[PodTarget]) -> ProducerReport {
        let answers = self.source.read_producers(edges).await;
        let samples: Vec<_> = answers.into_values().filter_map(Result::ok).collect();
        rank_producers(&samples, edges.len())
    }

    async fn query_figures(&self, facts: &mut Facts, targets: &[PodTarget]) {
        let mut figures = self.source.read_figures(targets).await;
        for pod in &mut facts.pods {
            match figures.remove(&pod.name) {
                Some(Ok(sample)) => pod.now = Some(sample),
                Some(Err(error)) => {
                    let what = format!("figures of pod {}", pod.name);
                    facts.gaps.push(Gap { what, why: error.to_string() });
                }
                None => {}
            }
        }
    }
}

fn is_of(facts: &Facts, namespace: &str, name: &str) -> bool {
    facts.namespace() == namespace && facts.name() == name
}

/// Reads the pipeline and its children from the stores of their controllers. Unpacking many takes
/// time, so it runs on a separate thread from those that reconcile.
async fn read_objects(
    context: &Arc<Context>,
    namespace: &str,
    name: &str,
) -> Result<Facts, NoFacts> {
    let (context, namespace, name) = (context.clone(), namespace.to_owned(), name.to_owned());
    let read = tokio::task::spawn_blocking(move || facts_from_stores(&context, &namespace, &name));
    read.await.map_err(|error| NoFacts::Unreadable(error.to_string()))?
}

fn facts_from_stores(context: &Context, namespace: &str, name: &str) -> Result<Facts, NoFacts> {
    let found = context.stores.get::<TelemetryPipeline>(namespace, name);
    let found = found.ok_or(NoFacts::Missing)?.unpack().0;
    let pipeline = found.map_err(|error| NoFacts::Unreadable(error.error))?;
    let owner = pipeline.metadata.uid.clone().unwrap_or_default();
    let mut gaps = Vec::new();
    Ok(Facts {
        at_second: context.clock.now().as_second(),
        interval_seconds: None,
        topics: owned_objects::<TelemetryTopic>(context, namespace, &owner, &mut gaps),
        schemas: owned_objects::<TelemetrySchema>(context, namespace, &owner, &mut gaps),
        edges: owned_objects::<EdgePool>(context, namespace, &owner, &mut gaps),
        gateways: owned_objects::<GatewayPool>(context, namespace, &owner, &mut gaps),
        pods: Vec::new(),
        gaps,
        pipeline,
    })
}

/// Returns an owner's objects of a kind, sorted by name.
fn owned_objects<K>(context: &Context, namespace: &str, owner: &str, gaps: &mut Vec<Gap>) -> Vec<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + 'static,
{
    let all = context.stores.all_objects::<K>();
    let here = all.iter().filter(|one| one.meta().namespace.as_deref() == Some(namespace));
    let mut found = Vec::new();
    for one in here.take(OBJECTS_MAX) {
        match one.unpack().0 {
            Ok(object) if object.owner_references().iter().any(|it| it.uid == owner) => {
                found.push(object);
            }
            Ok(_others) => {}
            Err(error) => {
                let name = one.meta().name.as_deref().unwrap_or_default();
                let what = format!("{} {name}", K::kind(&()));
                gaps.push(Gap { what, why: error.error });
            }
        }
    }
    found.sort_by_key(ResourceExt::name_any);
    found
}
