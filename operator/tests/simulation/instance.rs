//! One operator: the shipped reconcilers, and its own view of the cluster, which its watches bring
//! up to date one event at a time, late, twice, or not until they list anew.
//!
//! Watches of one kind keep their order, as the API server's do; those of different kinds overtake
//! each other. Children's events go through the shipped code that notes them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures::channel::mpsc;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::{reflector, watcher};
use millrace_crds::v1alpha1::{
    EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};
use millrace_operator::cache::by_pool::ByPool;
use millrace_operator::cache::failures::Failures;
use millrace_operator::cache::gateway_pods::ScopeId;
use millrace_operator::cache::objects::Stores;
use millrace_operator::cache::packed::Packed;
use millrace_operator::cache::slots::Slots;
use millrace_operator::clickhouse::migrations::Migrations;
use millrace_operator::context::{Context, Images};
use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::controllers::pipeline::Pipelines;
use millrace_operator::controllers::schema::Schemas;
use millrace_operator::controllers::topic::Topics;
use millrace_operator::discovery::{Discovery, WideNamespaces};
use millrace_operator::error::StepError;
use millrace_operator::outbound::Outbound;
use millrace_operator::pods::MetricsApi;
use millrace_operator::pool::observe::strip_pod;
use millrace_operator::pool::workload as figures;
use millrace_operator::reconcile::controller::{self, Reconciler};
use millrace_operator::reconcile::watches::record_children;
use millrace_operator::report::events::Events;
use millrace_operator::telemetry::metrics::Metrics;
use millrace_rollout::WorkloadObservation;
use serde_json::{Value, json};

use crate::reconcilers::support::apiserver::{ApiServer, Change};
use crate::simulation::outside::Beyond;

/// The namespace everything is in.
pub(crate) const NAMESPACE: &str = "telemetry";

/// Our own kinds, by the plural in their path.
pub(crate) const OURS: [&str; 5] =
    ["telemetrypipelines", "telemetrytopics", "telemetryschemas", "edgepools", "gatewaypools"];

/// The plural in an object's path.
pub(crate) fn plural(path: &str) -> &str {
    path.rsplit('/').nth(1).unwrap_or("")
}

/// The path of one of our own objects.
pub(crate) fn own_path(plural: &str, name: &str) -> String {
    format!("/apis/millrace.dev/v1alpha1/namespaces/{NAMESPACE}/{plural}/{name}")
}

type Event = watcher::Event<Value>;
/// Takes an event in; gives the paths of our own objects that it wakes.
type Sink = Box<dyn FnMut(Event) -> Vec<String>>;

/// One watch: what it is of, how far it has read, and what it woke.
struct Watch {
    plural: &'static str,
    /// Children carry this component label.
    component: Option<&'static str>,
    next: usize,
    known: BTreeMap<String, Value>,
    broken: bool,
    /// Changes that were not brought in, by their numbers.
    waiting: VecDeque<(usize, Change)>,
    /// The first change that this watch missed since it listed.
    missed: Option<usize>,
    sink: Sink,
}

/// A running operator.
pub(crate) struct Instance {
    pub(crate) context: Arc<Context>,
    server: ApiServer,
    watches: Vec<Watch>,
    pod_scope: ScopeId,
    /// Our own objects as this operator last saw them.
    view: BTreeMap<String, Value>,
    /// What is to be reconciled.
    pub(crate) dirty: BTreeSet<String>,
    /// It does nothing, on purpose.
    is_idle: bool,
}

impl Instance {
    /// Starts with empty memory and a list of everything.
    pub(crate) fn start(server: &ApiServer, beyond: &Beyond) -> Self {
        let context = Arc::new(context(server, beyond));
        let pod_scope = context.gateway_cache.pods.add_scope(None);
        let mut instance = Self {
            watches: watches(&context, pod_scope),
            pod_scope,
            context,
            server: server.clone(),
            view: BTreeMap::new(),
            dirty: BTreeSet::new(),
            is_idle: beyond.is_idle(),
        };
        (0..instance.watches.len()).for_each(|watch| instance.list(watch));
        instance
    }

    /// How many watches there are.
    pub(crate) fn watch_count(&self) -> usize {
        self.watches.len()
    }

    /// The first change that some watch has not brought in yet.
    pub(crate) fn read_up_to(&self) -> usize {
        let first_unread = |watch: &Watch| {
            let waiting = watch.waiting.front().map(|(number, _)| *number);
            waiting.into_iter().chain(watch.missed).chain([watch.next]).min()
        };
        self.watches.iter().filter_map(first_unread).min().unwrap_or(0)
    }

    /// Brings in the next changes of one watch, `twice` if so.
    pub(crate) fn deliver(&mut self, watch: usize, most: usize, twice: bool) {
        self.fetch(watch);
        if self.watches[watch].broken {
            return;
        }
        for _ in 0..most {
            let Some((_, change)) = self.watches[watch].waiting.pop_front() else { return };
            for _ in 0..=usize::from(twice) {
                self.take(watch, &change);
            }
        }
    }

    /// One watch breaks: what happens from now on is not told, until it lists anew.
    pub(crate) fn break_watch(&mut self, watch: usize) {
        self.watches[watch].broken = true;
    }

    /// One change of a watch gets lost although the watch goes on. No API server does that; of a
    /// child, the full comparison must find it all the same once nothing counts as verified.
    pub(crate) fn lose(&mut self, watch: usize) {
        self.fetch(watch);
        let it = &mut self.watches[watch];
        let lost = it.waiting.pop_front().map(|(number, _)| number);
        it.missed = it.missed.or(lost);
    }

    /// Lists anew what one watch is of.
    pub(crate) fn list(&mut self, watch: usize) {
        self.fetch(watch);
        let own = self.watches[watch].component.is_none() && watch < OURS.len();
        let it = &mut self.watches[watch];
        it.waiting.clear();
        it.missed = None;
        it.broken = false;
        let mut now = BTreeMap::new();
        for (path, value) in self.server.select(|path| plural(path) == it.plural) {
            if selects(it.component, &value) {
                now.insert(path, value);
            }
        }
        let mut woken = (it.sink)(Event::Init);
        for value in now.values() {
            woken.extend((it.sink)(Event::InitApply(value.clone())));
        }
        woken.extend((it.sink)(Event::InitDone));
        if own {
            self.view.retain(|path, _| plural(path) != it.plural);
            self.view.extend(now.clone());
        }
        it.known = now;
        self.dirty.extend(woken);
    }

    /// The watch of gateways' pods fails.
    pub(crate) fn fail_pod_watch(&self) {
        let pods = &self.context.gateway_cache.pods;
        pods.record_failure(self.pod_scope, self.context.clock.now());
    }

    /// Brings in everything, by new lists where watches broke.
    pub(crate) fn catch_up(&mut self) {
        for watch in 0..self.watches.len() {
            if self.watches[watch].broken {
                self.list(watch);
            }
            self.deliver(watch, usize::MAX, false);
        }
    }

    /// Lists our own objects anew: what their watches lost, nothing else looks for.
    pub(crate) fn list_own(&mut self) {
        (0..OURS.len()).for_each(|watch| self.list(watch));
    }

    fn fetch(&mut self, watch: usize) {
        let it = &mut self.watches[watch];
        let changes = self.server.log_since(it.next);
        let first = it.next;
        it.next += changes.len();
        if it.broken {
            it.missed = it.missed.or((!changes.is_empty()).then_some(first));
            return;
        }
        let numbered = (first..).zip(changes);
        it.waiting.extend(numbered.filter(|(_, change)| plural(&change.path) == it.plural));
    }

    fn take(&mut self, watch: usize, change: &Change) {
        let own = watch < OURS.len();
        let it = &mut self.watches[watch];
        let selected = change.value.clone().filter(|value| selects(it.component, value));
        let event = match (selected, it.known.remove(&*change.path)) {
            (Some(value), _) => {
                it.known.insert(change.path.to_string(), value.as_ref().clone());
                Event::Apply(value.as_ref().clone())
            }
            // Gone, or no longer what the watch selects.
            (None, Some(before)) => Event::Delete(before),
            (None, None) => return,
        };
        if own {
            match &event {
                Event::Delete(_) => self.view.remove(&*change.path),
                Event::Apply(value) => self.view.insert(change.path.to_string(), value.clone()),
                _ => None,
            };
        }
        let woken = (self.watches[watch].sink)(event);
        self.dirty.extend(woken);
    }

    /// Everything it knows of becomes due, as by the clock.
    pub(crate) fn all_due(&mut self) {
        self.dirty.extend(self.view.keys().cloned());
    }

    /// Reconciles one object as this operator sees it; one it no longer sees is passed over.
    pub(crate) async fn reconcile(&mut self, path: &str) -> Result<(), StepError> {
        self.dirty.remove(path);
        if self.is_idle {
            return Ok(());
        }
        let Some(object) = self.view.get(path).cloned() else { return Ok(()) };
        let context = self.context.clone();
        // Boxed: in a dev build these futures are large.
        let outcome = match plural(path) {
            "telemetrypipelines" => Box::pin(run::<Pipelines>(object, context)).await,
            "telemetrytopics" => Box::pin(run::<Topics>(object, context)).await,
            "telemetryschemas" => Box::pin(run::<Schemas>(object, context)).await,
            "edgepools" => Box::pin(run::<EdgePools>(object, context)).await,
            "gatewaypools" => Box::pin(run::<GatewayPools>(object, context)).await,
            other => panic!("{other} has no reconciler"),
        };
        if outcome.is_err() {
            self.dirty.insert(path.to_owned());
        }
        outcome
    }
}

async fn run<R: Reconciler>(object: Value, context: Arc<Context>) -> Result<(), StepError> {
    let guarded: DeserializeGuard<R::Object> = serde_json::from_value(object).unwrap();
    assert!(guarded.0.is_ok(), "the walk made a spec that does not parse");
    controller::reconcile_object::<R>(Arc::new(guarded), context).await.map(drop)
}

fn selects(component: Option<&str>, value: &Value) -> bool {
    let labels = &value["metadata"]["labels"];
    component.is_none_or(|component| {
        labels["app.kubernetes.io/managed-by"] == "millrace-operator"
            && (component.is_empty() || labels["app.kubernetes.io/component"] == component)
    })
}

fn context(server: &ApiServer, beyond: &Beyond) -> Context {
    let (client, metrics) = (server.client(), Metrics::new().unwrap());
    Context {
        events: Events::new(client.clone(), "simulated".into(), metrics.clone()),
        discovery: Discovery::new(
            client.clone(),
            metrics.clone(),
            Vec::new(),
            WideNamespaces(vec!["wide".into()]),
        ),
        client,
        clock: Arc::new(beyond.clone()),
        metrics,
        failures: Failures::default(),
        images: Images {
            collector_repository: "millrace/collector".into(),
            collector_digests: Default::default(),
            collector_version_default: "0.1.0".into(),
            user: Some(65_532),
        },
        lag: Arc::new(beyond.clone()),
        brokers: Arc::new(beyond.clone()),
        coordination: Arc::new(millrace_operator::coordination::Prober::default()),
        coordination_counts: ByPool::default(),
        tables: Arc::new(beyond.clone()),
        pods: Arc::new(beyond.clone()),
        sizings: ByPool::default(),
        console_history: millrace_operator::cache::shown::ConsoleHistory::default(),
        metered: MetricsApi::default(),
        access: Default::default(),
        shares: Arc::new(beyond.clone()),
        scraping: ByPool::default(),
        share_role: None,
        migrations: Migrations::default(),
        inserts: Default::default(),
        baselines: ByPool::default(),
        docs_url: None,
        gathers_secrets: true,
        gateway_cache: Default::default(),
        child_cache: Default::default(),
        queue_times: Default::default(),
        references: Default::default(),
        watches_secrets: false,
        outbound: Outbound::default(),
        stores: Stores::default(),
        slots: Slots::default(),
        claims: millrace_operator::cache::claims::Claims::default(),
        holders: millrace_operator::cache::holders::Holders::default(),
    }
}

fn watches(context: &Arc<Context>, pod_scope: ScopeId) -> Vec<Watch> {
    let watch = |plural, component, sink| Watch {
        plural,
        component,
        next: 0,
        known: BTreeMap::new(),
        broken: false,
        waiting: VecDeque::new(),
        missed: None,
        sink,
    };
    let (edge, gateway, pipeline) = (Some("edge"), Some("gateway"), Some(""));
    vec![
        watch("telemetrypipelines", None, own::<TelemetryPipeline>(context, OURS[0])),
        watch("telemetrytopics", None, own::<TelemetryTopic>(context, OURS[1])),
        watch("telemetryschemas", None, own::<TelemetrySchema>(context, OURS[2])),
        watch("edgepools", None, own::<EdgePool>(context, OURS[3])),
        watch("gatewaypools", None, own::<GatewayPool>(context, OURS[4])),
        watch("deployments", edge, workload(context, figures::observe_deployment)),
        watch("daemonsets", edge, workload(context, figures::observe_daemon_set)),
        watch("services", edge, child::<EdgePool, Service>(context, OURS[3])),
        watch("configmaps", edge, child::<EdgePool, ConfigMap>(context, OURS[3])),
        watch("serviceaccounts", edge, child::<EdgePool, ServiceAccount>(context, OURS[3])),
        watch(
            "poddisruptionbudgets",
            edge,
            child::<EdgePool, PodDisruptionBudget>(context, OURS[3]),
        ),
        watch("networkpolicies", edge, child::<EdgePool, NetworkPolicy>(context, OURS[3])),
        watch("statefulsets", gateway, child::<GatewayPool, StatefulSet>(context, OURS[4])),
        watch("services", gateway, child::<GatewayPool, Service>(context, OURS[4])),
        watch("configmaps", gateway, child::<GatewayPool, ConfigMap>(context, OURS[4])),
        watch("serviceaccounts", gateway, child::<GatewayPool, ServiceAccount>(context, OURS[4])),
        watch(
            "poddisruptionbudgets",
            gateway,
            child::<GatewayPool, PodDisruptionBudget>(context, OURS[4]),
        ),
        watch("networkpolicies", gateway, child::<GatewayPool, NetworkPolicy>(context, OURS[4])),
        watch(
            "telemetrytopics",
            pipeline,
            child::<TelemetryPipeline, TelemetryTopic>(context, OURS[0]),
        ),
        watch(
            "telemetryschemas",
            pipeline,
            child::<TelemetryPipeline, TelemetrySchema>(context, OURS[0]),
        ),
        watch("edgepools", pipeline, child::<TelemetryPipeline, EdgePool>(context, OURS[0])),
        watch("gatewaypools", pipeline, child::<TelemetryPipeline, GatewayPool>(context, OURS[0])),
        watch("pods", gateway, pods(context, pod_scope)),
    ]
}

/// A watch of our own kind: keeps the store that the shipped controller would keep.
fn own<K>(context: &Arc<Context>, plural: &'static str) -> Sink
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (store, mut writer) = reflector::store::<Packed<K>>();
    context.stores.add_store::<K>(store);
    Box::new(move |event| {
        let woken = match &event {
            Event::Apply(value) | Event::InitApply(value) | Event::Delete(value) => {
                let name = value["metadata"]["name"].as_str().unwrap_or("");
                vec![own_path(plural, name)]
            }
            _ => Vec::new(),
        };
        let parsed = |value| serde_json::from_value::<Packed<K>>(value).unwrap();
        writer.apply_watcher_event(&mapped(event, parsed));
        woken
    })
}

/// The watch of gateways' pods: keeps the store that the shipped one would keep.
fn pods(context: &Arc<Context>, scope: ScopeId) -> Sink {
    let context = context.clone();
    Box::new(move |event| {
        let parsed = |value| serde_json::from_value::<Pod>(value).unwrap();
        context.gateway_cache.pods.record_event(scope, mapped(event, parsed).modify(strip_pod));
        Vec::new()
    })
}

/// A watch of children: through the code that notes them, as shipped.
fn child<K, C>(context: &Arc<Context>, owners: &'static str) -> Sink
where
    K: Resource<DynamicType = ()> + 'static,
    C: Resource<DynamicType = ()> + Send + 'static,
{
    let metadata = |value: Value| -> PartialObjectMeta<C> {
        let partial = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": value["metadata"]});
        serde_json::from_value(partial).unwrap()
    };
    told::<K, C, _>(context, owners, metadata, |_| None)
}

/// A watch of an edge pool's workloads, which tells of them whole, as shipped.
fn workload<C>(context: &Arc<Context>, figures: fn(&C) -> WorkloadObservation) -> Sink
where
    C: Resource<DynamicType = ()> + serde::de::DeserializeOwned + Send + 'static,
{
    let whole = |value: Value| -> C { serde_json::from_value(value).unwrap() };
    told::<EdgePool, C, C>(context, OURS[3], whole, move |it| Some(figures(it)))
}

fn told<K, C, O>(
    context: &Arc<Context>,
    owners: &'static str,
    parse: impl Fn(Value) -> O + Send + 'static,
    figures: impl Fn(&O) -> Option<WorkloadObservation> + Send + 'static,
) -> Sink
where
    K: Resource<DynamicType = ()> + 'static,
    C: Resource<DynamicType = ()> + Send + 'static,
    O: Resource + Send + 'static,
{
    let (mut sender, receiver) = mpsc::channel::<Result<_, watcher::Error>>(4);
    let mut told = Box::pin(record_children::<K, C, O>(context.clone(), receiver, figures));
    Box::new(move |event| {
        sender.try_send(Ok(mapped(event, &parse))).unwrap();
        let mut woken = Vec::new();
        while let Some(Some(Ok(child))) = told.next().now_or_never() {
            let owners_of = child.metadata.owner_references.unwrap_or_default();
            let ours = owners_of.into_iter().filter(|owner| owner.kind == K::kind(&()));
            woken.extend(ours.map(|owner| own_path(owners, &owner.name)));
        }
        woken
    })
}

fn mapped<T>(event: Event, map: impl Fn(Value) -> T) -> watcher::Event<T> {
    match event {
        Event::Apply(value) => watcher::Event::Apply(map(value)),
        Event::Delete(value) => watcher::Event::Delete(map(value)),
        Event::Init => watcher::Event::Init,
        Event::InitApply(value) => watcher::Event::InitApply(map(value)),
        Event::InitDone => watcher::Event::InitDone,
    }
}
