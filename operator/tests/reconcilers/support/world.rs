//! A world for reconcilers: the API server in memory, and stand-ins for clock and broker.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use kube::Client;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{self, store::Writer};
use kube::runtime::watcher::Event;
use millrace_crds::v1alpha1::EdgePool;
use millrace_crds::{ConditionType, Reason};
use millrace_operator::cache::access::AccountBindings;
use millrace_operator::cache::by_pool::ByPool;
use millrace_operator::cache::failures::Failures;
use millrace_operator::cache::objects::Stores;
use millrace_operator::cache::packed::Packed;
use millrace_operator::cache::slots::Slots;
use millrace_operator::clickhouse::ClickHouseServers;
use millrace_operator::clickhouse::migrations::Migrations;
use millrace_operator::context::{Clock, Context, Images};
use millrace_operator::discovery::{Discovery, WideNamespaces};
use millrace_operator::error::{Category, ReconcileStep, StepError};
use millrace_operator::kafka::Sessions;
use millrace_operator::kafka::lag_cache::{LagObservation, LagQuery, LagSource, PartitionOffsets};
use millrace_operator::outbound::Outbound;
use millrace_operator::pods::{
    MetricsApi, PodSample, PodSource, PodTarget, ScrapeError, ScrapeResults, ShareReport,
    ShareResponses, ShareSource,
};
use millrace_operator::pool::access;
use millrace_operator::reconcile::controller::{self, Reconciler};
use millrace_operator::report::events::Events;
use millrace_operator::telemetry::metrics::Metrics;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::apiserver::ApiServer;

/// A clock that is set by hand.
#[derive(Default)]
pub(crate) struct SetClock {
    second: Mutex<i64>,
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(*self.second.lock().unwrap()).unwrap()
    }
}

/// A lag that is set by hand; `None` is a broker that does not answer.
pub(crate) struct SetLag {
    clock: Arc<SetClock>,
    lag: Mutex<Option<(u64, bool)>>,
    /// The first answer is yet to come.
    is_awaited: AtomicBool,
}

impl LagSource for SetLag {
    fn observe_lag<'a>(
        &'a self,
        _query: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>> {
        let lag = *self.lag.lock().unwrap();
        let now = self.clock.now();
        let reason = match self.is_awaited.load(Ordering::Relaxed) {
            true => Reason::LagUnknown,
            false => Reason::KafkaUnreachable,
        };
        let lag = lag.filter(|_| reason != Reason::LagUnknown);
        async move {
            let (messages, within_bound) = lag.ok_or_else(|| {
                StepError::new(
                    ReconcileStep::Observe,
                    Category::External,
                    reason,
                    "no broker answers",
                )
            })?;
            Ok(LagObservation {
                partitions: 12,
                partitions_max: 12,
                messages,
                seconds: Some(if within_bound { 0.0 } else { 600.0 }),
                within_bound,
                offsets: (0..12).map(|partition| behind(partition, messages / 12)).collect(),
                observed_at: now,
            })
        }
        .boxed()
    }
}

/// What pods say, set by hand; a pod nothing is set for does not answer.
#[derive(Default)]
pub(crate) struct SetPods {
    samples: Mutex<BTreeMap<String, PodSample>>,
    /// The first answers are yet to come.
    are_awaited: AtomicBool,
    reports: Mutex<BTreeMap<String, ShareReport>>,
}

impl ShareSource for SetPods {
    fn query_shares<'a>(&'a self, targets: &'a [PodTarget]) -> BoxFuture<'a, ShareResponses> {
        let reports = self.reports.lock().unwrap();
        let one = |target: &PodTarget| {
            let PodTarget { pod, address } = target.clone();
            let cause = "it was not set".to_owned();
            let report = reports.get(&pod).cloned();
            (target.pod.clone(), report.ok_or(ScrapeError::Unreachable { pod, address, cause }))
        };
        let answers = targets.iter().map(one).collect();
        async move { answers }.boxed()
    }
}

impl PodSource for SetPods {
    fn scrape_pods<'a>(
        &'a self,
        targets: &'a [PodTarget],
        now: Timestamp,
    ) -> BoxFuture<'a, ScrapeResults> {
        let samples = self.samples.lock().unwrap();
        let one = |target: &PodTarget| {
            let sample = samples.get(&target.pod).cloned();
            let answer = sample.map(|sample| Arc::new(PodSample { at: now.as_second(), ..sample }));
            let PodTarget { pod, address } = target.clone();
            let cause = "it was not set".to_owned();
            (target.pod.clone(), answer.ok_or(ScrapeError::Unreachable { pod, address, cause }))
        };
        let look = match self.are_awaited.load(Ordering::Relaxed) {
            true => ScrapeResults::new(),
            false => targets.iter().map(one).collect(),
        };
        async move { look }.boxed()
    }
}

/// A partition that stands still with so many messages waiting.
fn behind(partition: i32, messages: u64) -> PartitionOffsets {
    let end = i64::try_from(messages).unwrap();
    PartitionOffsets { topic: "otlp_traces".into(), partition, committed: 0, end }
}

/// Everything a reconciler touches, to be set and looked at.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) context: Arc<Context>,
    clock: Arc<SetClock>,
    lag: Arc<SetLag>,
    pods: Arc<SetPods>,
    /// Fills the operator's store of edge pools, once a test has one.
    edge_pools: Mutex<Option<Writer<Packed<EdgePool>>>>,
}

/// What a process of this release that has just started touches.
fn context(
    client: Client,
    clock: &Arc<SetClock>,
    lag: &Arc<SetLag>,
    pods: &Arc<SetPods>,
    release: &str,
) -> Context {
    let metrics = Metrics::new().unwrap();
    Context {
        events: Events::new(client.clone(), "test".into(), metrics.clone()),
        discovery: Discovery::new(
            client.clone(),
            metrics.clone(),
            Vec::new(),
            WideNamespaces(vec!["wide".into()]),
        ),
        client,
        clock: clock.clone(),
        metrics,
        failures: Failures::default(),
        images: Images {
            collector_repository: "millrace/collector".into(),
            collector_digests: Default::default(),
            collector_version_default: release.into(),
            user: Some(65_532),
        },
        lag: lag.clone(),
        pods: pods.clone(),
        sizings: ByPool::default(),
        console_history: millrace_operator::cache::shown::ConsoleHistory::enabled_if(true),
        brokers: Arc::new(Sessions::default()),
        coordination: Arc::new(millrace_operator::coordination::Prober::default()),
        coordination_counts: ByPool::default(),
        tables: Arc::new(ClickHouseServers),
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
        metered: MetricsApi::default(),
        access: AccountBindings::new(Some("pod-access".into()), Some("namespace-access".into())),
        shares: pods.clone(),
        scraping: ByPool::default(),
        share_role: Some("share-access".into()),
        migrations: Migrations::default(),
        inserts: Default::default(),
        baselines: ByPool::default(),
        docs_url: None,
        gathers_secrets: true,
    }
}

/// Puts objects into the store that a controller of their kind would keep.
pub(crate) fn store<K>(context: &Context, objects: Vec<Value>)
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let (store, mut writer) = reflector::store::<Packed<K>>();
    writer.apply_watcher_event(&Event::Init);
    for object in objects {
        let packed: Packed<K> = serde_json::from_value(object).unwrap();
        writer.apply_watcher_event(&Event::InitApply(packed));
    }
    writer.apply_watcher_event(&Event::InitDone);
    context.stores.add_store::<K>(store);
}

impl World {
    /// An empty world at the year 2026 with a caught-up broker.
    pub(crate) fn new() -> Self {
        let server = ApiServer::default();
        let client = server.client();
        let clock = Arc::new(SetClock { second: Mutex::new(1_790_000_000) });
        let (lag, is_awaited) = (Mutex::new(Some((0, true))), AtomicBool::new(false));
        let lag = Arc::new(SetLag { clock: clock.clone(), lag, is_awaited });
        let pods = Arc::new(SetPods::default());
        let context = Arc::new(context(client, &clock, &lag, &pods, "0.1.0"));
        Self { server, context, clock, lag, pods, edge_pools: Mutex::default() }
    }

    /// The same world, looked after by another process: what was kept in the old one is gone.
    pub(crate) fn restart(&mut self, release: &str) {
        let client = self.server.client();
        self.context = Arc::new(context(client, &self.clock, &self.lag, &self.pods, release));
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, seconds: i64) {
        *self.clock.second.lock().unwrap() += seconds;
    }

    /// Sets the lag.
    pub(crate) fn set_lag(&self, lag: Option<(u64, bool)>) {
        *self.lag.lag.lock().unwrap() = lag;
    }

    /// Sets whether the first answers of the broker and of the pods are yet to come.
    pub(crate) fn await_answers(&self, awaited: bool) {
        self.lag.is_awaited.store(awaited, Ordering::Relaxed);
        self.pods.are_awaited.store(awaited, Ordering::Relaxed);
    }

    /// Puts the pods of a StatefulSet there, with addresses and these limits.
    pub(crate) fn run_pods(&self, set: &str, limits: Value) {
        let object = self.server.get(set).unwrap();
        let (folder, name) = set.rsplit_once('/').unwrap();
        let folder = folder.replace("/apis/apps/v1/", "/api/v1/").replace("/statefulsets", "/pods");
        for ordinal in 0..object["spec"]["replicas"].as_i64().unwrap() {
            let resources = json!({"limits": limits});
            let pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"labels": object["spec"]["selector"]["matchLabels"]},
                "spec": {"containers": [{"name": "collector", "resources": resources}]},
                "status": {"podIP": format!("10.0.{}.{}", ordinal / 250, ordinal % 250)}});
            self.server.put(&format!("{folder}/{name}-{ordinal}"), pod);
        }
    }

    /// Sets what a pod says of itself; `None` is a pod that does not answer.
    #[allow(dead_code)]
    pub(crate) fn set_pod(&self, pod: &str, sample: Option<PodSample>) {
        let mut pods = self.pods.samples.lock().unwrap();
        match sample {
            Some(sample) => pods.insert(pod.to_owned(), sample),
            None => pods.remove(pod),
        };
    }

    /// Sets what a pod says of its targets; `None` is a pod that does not answer.
    pub(crate) fn set_report(&self, pod: &str, report: Option<ShareReport>) {
        let mut reports = self.pods.reports.lock().unwrap();
        match report {
            Some(report) => reports.insert(pod.to_owned(), report),
            None => reports.remove(pod),
        };
    }

    /// Lets the operator's store have the edge pools of the API server.
    pub(crate) fn sync_edge_pools(&self) {
        let mut edge_pools = self.edge_pools.lock().unwrap();
        let writer = edge_pools.get_or_insert_with(|| {
            let (store, writer) = reflector::store();
            self.context.stores.add_store::<EdgePool>(store);
            writer
        });
        writer.apply_watcher_event(&Event::Init);
        for (_, pool) in self.server.select(|path| path.contains("/edgepools/")) {
            let packed = serde_json::from_value(pool).unwrap();
            writer.apply_watcher_event(&Event::InitApply(packed));
        }
        writer.apply_watcher_event(&Event::InitDone);
    }

    /// Removes the accounts that need no right to watch, as the operator does every five minutes.
    pub(crate) async fn sweep_access(&self) -> Result<(), StepError> {
        self.sync_edge_pools();
        access::sweep(&self.context).await
    }

    /// The collector's settings of the only pool, as its ConfigMap has them.
    pub(crate) fn settings_text(&self) -> String {
        let paths = self.server.paths();
        let map = paths.iter().find(|path| path.contains("/configmaps/")).unwrap();
        let map = self.server.get(map).unwrap();
        map["data"]["collector.yaml"].as_str().unwrap().to_owned()
    }

    /// The same as the collector reads them.
    pub(crate) fn collector_settings(&self) -> millrace_config::Checked {
        millrace_config::Config::load(&self.settings_text()).unwrap()
    }

    /// Reconciles the object at `path` once, as the controller would.
    pub(crate) async fn reconcile<R: Reconciler>(&self, path: &str) -> Result<Action, StepError> {
        let object = self.server.get(path).unwrap_or_else(|| panic!("{path} does not exist"));
        let outcome = self.reconcile_copy::<R>(object).await;
        self.check_condition_types(path);
        outcome
    }

    /// Each condition of an object must be one that the table of conditions lists for its kind.
    fn check_condition_types(&self, path: &str) {
        let Some(object) = self.server.get(path) else { return };
        for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
            let type_ = condition["type"].as_str().and_then(ConditionType::parse);
            let kinds = type_.map_or(&[][..], ConditionType::kinds);
            let is_listed = kinds.iter().any(|kind| object["kind"] == kind.as_str());
            assert!(is_listed, "{path}: the table does not list this condition: {condition}");
        }
    }

    /// Reconciles this copy of an object, which may be outdated.
    pub(crate) async fn reconcile_copy<R: Reconciler>(
        &self,
        object: Value,
    ) -> Result<Action, StepError> {
        let guarded: DeserializeGuard<R::Object> = serde_json::from_value(object).unwrap();
        controller::reconcile_object::<R>(Arc::new(guarded), self.context.clone()).await
    }

    /// The message of a condition.
    pub(crate) fn message(&self, path: &str, type_: &str) -> String {
        let object = self.server.get(path).unwrap();
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let condition = conditions.iter().find(|it| it["type"] == type_).unwrap();
        condition["message"].as_str().unwrap().to_owned()
    }

    /// The condition `type_` of the object at `path`: status, reason, generation.
    pub(crate) fn condition(&self, path: &str, type_: &str) -> Option<(String, String, i64)> {
        let object = self.server.get(path)?;
        let conditions = object["status"]["conditions"].as_array()?.clone();
        let condition = conditions.iter().find(|condition| condition["type"] == type_)?;
        let text = |field: &str| condition[field].as_str().unwrap_or("").to_owned();
        let generation = condition["observedGeneration"].as_i64().unwrap_or(0);
        Some((text("status"), text("reason"), generation))
    }

    /// Whether the object says Ready for its newest generation.
    pub(crate) fn is_ready(&self, path: &str) -> bool {
        let generation = self.server.get(path).unwrap()["metadata"]["generation"].clone();
        self.condition(path, "Ready")
            .is_some_and(|(status, _, at)| status == "True" && generation == json!(at))
    }

    /// Lets pods that try a change end well.
    pub(crate) fn finish_tries(&self) {
        let tries = |path: &str| path.contains("/pods/") && path.contains("-try-");
        for (path, pod) in self.server.select(tries) {
            if pod["status"]["phase"].is_null() {
                self.server.edit(&path, |pod| pod["status"] = json!({"phase": "Succeeded"}));
            }
        }
    }

    /// Does what the Deployment and StatefulSet controllers would: all pods up to date and ready.
    pub(crate) fn finish_rollouts(&self) {
        self.finish_tries();
        for path in self.server.paths() {
            let stateful = path.contains("/statefulsets/");
            if stateful || path.contains("/deployments/") {
                let object = self.server.get(&path).unwrap();
                let pods = object["spec"]["replicas"].clone();
                let mut status = json!({
                    "observedGeneration": object["metadata"]["generation"],
                    "replicas": pods, "updatedReplicas": pods, "readyReplicas": pods,
                    "availableReplicas": pods,
                });
                if stateful {
                    status["updateRevision"] = "r".into();
                    status["currentRevision"] = "r".into();
                }
                self.server.edit(&path, |object| object["status"] = status);
            }
        }
    }

    /// Says of a child what its own controller would, for its newest generation or an older one.
    pub(crate) fn say(&self, path: &str, older_by: i64, conditions: &[(&str, bool)], more: Value) {
        self.server.edit(path, |object| {
            let generation = object["metadata"]["generation"].as_i64().unwrap() - older_by;
            let conditions: Vec<Value> = conditions
                .iter()
                .map(|(type_, holds)| {
                    json!({"type": type_, "status": if *holds { "True" } else { "False" },
                        "reason": "Reconciled", "message": "said by the test",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                        "observedGeneration": generation})
                })
                .collect();
            let mut status = more;
            status["observedGeneration"] = generation.into();
            status["conditions"] = conditions.into();
            object["status"] = status;
        });
    }
}
