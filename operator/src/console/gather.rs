//! A pipeline's facts: objects from this process's stores, pods from the API server, their figures
//! from their admin ports. Asked for when somebody looks, and never else.
//!
//! Limits: a reading serves all who look within [`FRESH`]; [`READINGS_AT_ONCE`] at once;
//! [`KEPT_MAX`] pipelines' readings are kept for rates; [`PODS_LISTED_MAX`] pods are listed,
//! [`PODS_MAX`] asked; all within [`READING_MAX`]. A sample is some 3 kB: 5 MB if all pipelines
//! that are kept have 100 pods with two.

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
use millrace_reports::facts::{Facts, Gap, PodFacts};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::context::Context;
use crate::error::chain;
use crate::pods::{FigureSource, PODS_MAX, Target};

/// A reading younger than this is shown again.
const FRESH: SignedDuration = SignedDuration::from_secs(4);
/// An older one is no base for rates.
const BASE_AGE_MAX: SignedDuration = SignedDuration::from_secs(120);
/// Pipelines that are read at once.
const READINGS_AT_ONCE: usize = 2;
/// Pipelines whose readings are kept.
const KEPT_MAX: usize = 8;
/// Pods that are listed: 2 MB as they are sent.
const PODS_LISTED_MAX: u32 = 200;
/// The longest that a reading may take.
const READING_MAX: Duration = Duration::from_secs(10);
/// Objects of a kind in one namespace that are looked through for a pipeline's.
const OBJECTS_MAX: usize = 5_000;

/// Readings of the pipelines that were looked at last.
pub(super) struct Readings {
    source: Arc<dyn FigureSource>,
    kept: Mutex<VecDeque<Reading>>,
    turns: Semaphore,
}

#[derive(Clone)]
struct Reading {
    at: Timestamp,
    facts: Arc<Facts>,
}

/// Why there are no facts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoFacts {
    /// There is no such pipeline, as far as this process sees.
    Missing,
    /// The object can't be read.
    Unreadable(String),
    /// Others are being read, and take long.
    Busy,
}

impl Readings {
    pub(super) fn new(source: Arc<dyn FigureSource>) -> Self {
        Self { source, kept: Mutex::default(), turns: Semaphore::new(READINGS_AT_ONCE) }
    }

    /// A pipeline's facts, at most [`FRESH`] old.
    pub(super) async fn facts(
        &self,
        context: &Arc<Context>,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Facts>, NoFacts> {
        let now = || context.clock.now();
        if let Some(reading) = self.newest(namespace, name, now(), FRESH) {
            return Ok(reading.facts);
        }
        let turn = tokio::time::timeout(READING_MAX, self.turns.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(NoFacts::Busy) };
        // Somebody else may have read it meanwhile.
        if let Some(reading) = self.newest(namespace, name, now(), FRESH) {
            return Ok(reading.facts);
        }
        let mut facts = objects(context, namespace, name).await?;
        let at = now();
        let read = tokio::time::timeout(READING_MAX, self.pods(context, &mut facts)).await;
        if read.is_err() {
            let why = format!("no answer within {} s", READING_MAX.as_secs());
            facts.gaps.push(Gap { what: "pods and their figures".to_owned(), why });
        }
        self.rate(&mut facts, at);
        Ok(self.keep(Reading { at, facts: Arc::new(facts) }))
    }

    /// The newest reading, unless it is older than this or of a time to come.
    fn newest(
        &self,
        namespace: &str,
        name: &str,
        now: Timestamp,
        age_max: SignedDuration,
    ) -> Option<Reading> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|it| is_of(&it.facts, namespace, name))?;
        let age = now.duration_since(found.at);
        (age >= SignedDuration::ZERO && age < age_max).then(|| found.clone())
    }

    fn keep(&self, reading: Reading) -> Arc<Facts> {
        let facts = reading.facts.clone();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|it| !is_of(&it.facts, facts.namespace(), facts.name()));
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(reading);
        facts
    }

    /// Adds what the same pods counted at the reading before.
    fn rate(&self, facts: &mut Facts, at: Timestamp) {
        let before = self.newest(facts.namespace(), facts.name(), at, BASE_AGE_MAX);
        let Some(before) = before else { return };
        for pod in &mut facts.pods {
            let earlier = before.facts.pods.iter().find(|it| it.name == pod.name);
            pod.before = earlier.and_then(|earlier| earlier.now.clone());
        }
        if facts.pods.iter().any(|pod| pod.before.is_some()) {
            facts.interval_seconds = Some(at.duration_since(before.at).as_secs_f64());
        }
    }

    /// Lists the pools' pods, and asks those that run.
    async fn pods(&self, context: &Context, facts: &mut Facts) {
        let mut pools: Vec<String> = facts.edges.iter().map(ResourceExt::name_any).collect();
        pools.extend(facts.gateways.iter().map(ResourceExt::name_any));
        if pools.is_empty() {
            return;
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
                facts.gaps.push(Gap { what: "pods".to_owned(), why: chain(&error) });
                return;
            }
        };
        if listed.metadata.continue_.is_some_and(|token| !token.is_empty()) {
            let why = format!("those beyond the first {PODS_LISTED_MAX} are not listed");
            facts.gaps.push(Gap { what: "all pods".to_owned(), why });
        }
        let mut targets = Vec::new();
        for pod in &listed.items {
            let Some(found) = PodFacts::of(pod) else { continue };
            let address = pod.status.as_ref().and_then(|it| it.pod_ip.as_deref()?.parse().ok());
            if let (Some(address), "Running") = (address, &*found.state) {
                targets.push(Target { pod: found.name.clone(), address });
            }
            facts.pods.push(found);
        }
        if targets.len() > PODS_MAX {
            let why =
                format!("{} beyond the first {PODS_MAX} are not asked", targets.len() - PODS_MAX);
            facts.gaps.push(Gap { what: "all pods' figures".to_owned(), why });
            targets.truncate(PODS_MAX);
        }
        self.ask(facts, &targets).await;
    }

    async fn ask(&self, facts: &mut Facts, targets: &[Target]) {
        let mut figures = self.source.figures(targets).await;
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

/// The pipeline and its children, from the stores of their controllers. Unpacking many takes time,
/// so it is done beside the threads that reconcile.
async fn objects(context: &Arc<Context>, namespace: &str, name: &str) -> Result<Facts, NoFacts> {
    let (context, namespace, name) = (context.clone(), namespace.to_owned(), name.to_owned());
    let read = tokio::task::spawn_blocking(move || stored(&context, &namespace, &name));
    read.await.map_err(|error| NoFacts::Unreadable(error.to_string()))?
}

fn stored(context: &Context, namespace: &str, name: &str) -> Result<Facts, NoFacts> {
    let found = context.stores.get::<TelemetryPipeline>(namespace, name);
    let found = found.ok_or(NoFacts::Missing)?.unpack().0;
    let pipeline = found.map_err(|error| NoFacts::Unreadable(error.error))?;
    let owner = pipeline.metadata.uid.clone().unwrap_or_default();
    let mut gaps = Vec::new();
    Ok(Facts {
        at_second: context.clock.now().as_second(),
        interval_seconds: None,
        topics: owned::<TelemetryTopic>(context, namespace, &owner, &mut gaps),
        schemas: owned::<TelemetrySchema>(context, namespace, &owner, &mut gaps),
        edges: owned::<EdgePool>(context, namespace, &owner, &mut gaps),
        gateways: owned::<GatewayPool>(context, namespace, &owner, &mut gaps),
        pods: Vec::new(),
        gaps,
        pipeline,
    })
}

/// Objects of a kind that an owner has, by name.
fn owned<K>(context: &Context, namespace: &str, owner: &str, gaps: &mut Vec<Gap>) -> Vec<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + 'static,
{
    let all = context.stores.all::<K>();
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
