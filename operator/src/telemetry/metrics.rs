//! The operator's own metrics, as text.
//!
//! Labels come from closed enums, so the number of series is bounded: kinds (5) times results (6).
//! No label carries an object's name, except for conditions ([`OBJECTS_MAX`]), and for pools and
//! schemas in an alert ([`SHORT_POOLS_MAX`]).

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millrace_crds::v1alpha1::RolloutStage;
use millrace_crds::{Condition, ConditionStatus, ConditionType, Reason};
use millrace_observe::exemplars::Exemplars;
use millrace_observe::otlp::{Export, TraceId, Tracer};
use millrace_observe::process::{self, BuildInfo};
use millrace_observe::text::MetricsFormat;

use crate::error::Category;
use crate::hash::fingerprint_of;

/// Reconciles take from a few milliseconds (cached, converged) to the timeout of an external call.
const RECONCILE_BUCKETS_SECONDS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Every metric, registered once.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    /// Metrics common to all programs, without the operator's prefix.
    common: Registry,
    exemplars: Exemplars,
    tracer: Tracer,
    reconciles: IntCounterVec,
    reconcile_seconds: HistogramVec,
    queue_seconds: HistogramVec,
    running: IntGaugeVec,
    writes: IntCounterVec,
    drift_repairs: IntCounterVec,
    conflicts: IntCounterVec,
    unparsable: IntCounterVec,
    scaling_decisions: IntCounterVec,
    rollouts: IntCounterVec,
    resource_decisions: IntCounterVec,
    pod_resizes: IntCounterVec,
    events: IntCounterVec,
    watch_errors: IntCounterVec,
    deduplication_risks: IntCounter,
    short: ObjectSeries,
    target_moves: IntCounterVec,
    targets: IntGaugeVec,
    /// Each scraping pool's share of `targets`, by its uid.
    scraping: Arc<Mutex<BTreeMap<String, [u64; 5]>>>,
    coordination: ObjectSeries,
    conditions: ObjectSeries,
    conditions_omitted: IntGauge,
    /// Hashes of the objects beyond the limit.
    omitted: Arc<Mutex<BTreeSet<u64>>>,
    failing: IntGauge,
    leader: IntGauge,
}

const RECONCILES_HELP: &str = "Finished reconciles, by kind and result.";
const WRITES_HELP: &str = "Objects written, by kind and concern (children, status, prune).";
const REPAIRS_HELP: &str = "Owned objects that were changed or deleted and restored, by kind.";
const UNPARSABLE_HELP: &str = "Objects that do not parse as their kind, by kind.";
const DECISIONS_HELP: &str = "Sizing decisions for gateway pools, by reason.";
const RUNNING_HELP: &str = "Reconciles running now, by kind.";
const RESOURCES_HELP: &str =
    "Changes decided of the memory and processor time of a pool's pods, by reason.";
const CONFLICTS_HELP: &str = "Conflict answers of the API server (409), by kind.";
const RISKS_HELP: &str = "Times that a gateway pool's deduplication window became shorter than \
     the longest delay of a repeated insert.";
const SHORT_HELP: &str = "Factor by which a table's deduplication window is shorter than the longest \
     delay of a repeated insert; only of gateway pools whose window is too short.";
/// Maximum number of pools with series.
const SHORT_POOLS_MAX: usize = 1_000;
const MOVES_HELP: &str = "Scrape targets that moved to another pod of their pool, by reason.";
const TARGETS_HELP: &str =
    "Scrape targets of all edge pools, by state (assigned, waiting, rejected, up, down).";
const COORDINATION_HELP: &str = "1 for a TelemetrySchema whose Keeper or ZooKeeper is lost (inserts \
     stop) or degraded, by state; only of those.";
/// Maximum number of schemas with series.
const UNCOORDINATED_SCHEMAS_MAX: usize = 1_000;
/// The states of scrape targets, in the order of a pool's counts.
const TARGET_STATES: [&str; 5] = ["assigned", "waiting", "rejected", "up", "down"];
/// Maximum number of pools whose targets are counted.
const SCRAPING_POOLS_MAX: usize = 10_000;
const CONDITION_HELP: &str = "1 for each condition of an object, with its status (True, False, \
     Unknown) and reason, as last computed by the leading replica.";
const EXCLUDED_HELP: &str =
    "Objects whose conditions have no series, as there are too many objects.";
/// Maximum number of objects whose conditions are series. With ten conditions each, of 200 bytes as
/// text, a scrape has 2 MB, and memory holds as much.
const OBJECTS_MAX: usize = 1_000;
const WATCHES_HELP: &str = "Watches that failed and were restarted, by kind.";

/// Creates the registries of the operator's own names, with its build, and of common names.
fn create_registries() -> Result<(Registry, Registry), prometheus::Error> {
    let registry = Registry::new_custom(Some("millrace_operator".into()), None)?;
    let build = BuildInfo { version: env!("CARGO_PKG_VERSION"), allocator: ALLOCATOR };
    build.register(
        &registry,
        "build_info",
        "Always 1; the labels state the version, commit and allocator.",
    )?;
    let common = Registry::new();
    process::register_metrics(&common)?;
    Ok((registry, common))
}

/// Creates metrics, and registers them.
struct Register<'a>(&'a Registry);

impl Register<'_> {
    fn add<M: Collector + Clone + 'static>(
        &self,
        made: Result<M, prometheus::Error>,
    ) -> Result<M, prometheus::Error> {
        let made = made?;
        self.0.register(Box::new(made.clone()))?;
        Ok(made)
    }

    fn counter(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntCounterVec, prometheus::Error> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn gauge(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Result<IntGaugeVec, prometheus::Error> {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    fn seconds(&self, name: &str, help: &str) -> Result<HistogramVec, prometheus::Error> {
        let options = HistogramOpts::new(name, help).buckets(RECONCILE_BUCKETS_SECONDS.into());
        self.add(HistogramVec::new(options, &["kind"]))
    }

    /// `most` is the maximum number of objects.
    fn series(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        most: usize,
    ) -> Result<ObjectSeries, prometheus::Error> {
        let gauge = self.add(GaugeVec::new(Opts::new(name, help), labels))?;
        Ok(ObjectSeries { gauge, most, known: Arc::default() })
    }
}

impl Metrics {
    /// Creates and registers every metric.
    ///
    /// # Errors
    /// When a name is registered twice, which is a fault in this file.
    pub fn new() -> Result<Self, prometheus::Error> {
        let (registry, common) = create_registries()?;
        let make = Register(&registry);
        Ok(Self {
            reconciles: make.counter("reconciles_total", RECONCILES_HELP, &["kind", "result"])?,
            writes: make.counter("writes_total", WRITES_HELP, &["kind", "concern"])?,
            drift_repairs: make.counter("drift_repairs_total", REPAIRS_HELP, &["kind"])?,
            conflicts: make.counter("conflicts_total", CONFLICTS_HELP, &["kind"])?,
            unparsable: make.counter("unparsable_objects_total", UNPARSABLE_HELP, &["kind"])?,
            scaling_decisions: make.counter(
                "scaling_decisions_total",
                DECISIONS_HELP,
                &["reason"],
            )?,
            rollouts: make.counter(
                "rollout_stages_total",
                "Stages of rollouts, by stage.",
                &["stage"],
            )?,
            resource_decisions: make.counter(
                "resource_decisions_total",
                RESOURCES_HELP,
                &["reason"],
            )?,
            pod_resizes: make.counter(
                "pod_resizes_total",
                "Pods resized, by result.",
                &["result"],
            )?,
            events: make.counter("events_total", "Events published, by result.", &["result"])?,
            watch_errors: make.counter("watch_errors_total", WATCHES_HELP, &["kind"])?,
            failing: make
                .add(IntGauge::new("objects_failing", "Objects whose last reconcile failed."))?,
            leader: make.add(IntGauge::new("leader", "1 while this replica holds the lease."))?,
            reconcile_seconds: make
                .seconds("reconcile_duration_seconds", "How long a reconcile took, by kind.")?,
            queue_seconds: make
                .seconds("queue_duration_seconds", "From an event to its reconcile, by kind.")?,
            deduplication_risks: make
                .add(IntCounter::new("deduplication_risks_total", RISKS_HELP))?,
            // The scraper itself adds the label `namespace`.
            short: make.series(
                "deduplication_short_ratio",
                SHORT_HELP,
                &["pool_namespace", "pool", "table"],
                SHORT_POOLS_MAX,
            )?,
            target_moves: make.counter("target_moves_total", MOVES_HELP, &["reason"])?,
            targets: make.gauge("scrape_targets", TARGETS_HELP, &["state"])?,
            scraping: Arc::default(),
            coordination: make.series(
                "coordination_unhealthy",
                COORDINATION_HELP,
                &["schema_namespace", "schema", "state"],
                UNCOORDINATED_SCHEMAS_MAX,
            )?,
            conditions: make.series(
                "condition",
                CONDITION_HELP,
                &["kind", "object_namespace", "object", "condition", "status", "reason"],
                OBJECTS_MAX,
            )?,
            conditions_omitted: make.add(IntGauge::new("conditions_omitted", EXCLUDED_HELP))?,
            omitted: Arc::default(),
            running: make.gauge("reconciles_running", RUNNING_HELP, &["kind"])?,
            registry,
            common,
            exemplars: Exemplars::default(),
            tracer: Tracer::default(),
        })
    }

    /// Uses an export's sampling of traces, and adds its own metric.
    ///
    /// # Errors
    /// When that metric's name is already registered.
    pub fn with_export(mut self, export: &Export) -> Result<Self, prometheus::Error> {
        export.register(&self.common)?;
        self.tracer = export.tracer();
        Ok(self)
    }

    /// Returns the tracer, which decides which reconciles' traces are retained.
    #[must_use]
    pub const fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Records how long an object of `kind` waited for its reconcile.
    pub fn record_queue_time(&self, kind: &str, waited: Duration) {
        self.queue_seconds.with_label_values(&[kind]).observe(waited.as_secs_f64());
    }

    /// Counts a running reconcile of `kind` until the guard is dropped.
    #[must_use]
    pub fn reconcile_started(&self, kind: &str) -> RunningReconcile {
        let gauge = self.running.with_label_values(&[kind]);
        gauge.inc();
        RunningReconcile { gauge }
    }

    /// Records a reconcile of `kind` that ended after `took`. No `failure` means success; `trace`
    /// is its trace, if retained.
    pub fn reconcile_finished(
        &self,
        kind: &str,
        took: Duration,
        failure: Option<Category>,
        trace: Option<TraceId>,
    ) {
        let result = failure.map_or("ok", Category::as_str);
        let seconds = took.as_secs_f64();
        self.reconciles.with_label_values(&[kind, result]).inc();
        self.reconcile_seconds.with_label_values(&[kind]).observe(seconds);
        if let Some(trace) = trace {
            let (name, bounds) =
                ("millrace_operator_reconcile_duration_seconds", RECONCILE_BUCKETS_SECONDS);
            self.exemplars.record_exemplar(name, &[kind], bounds, seconds, trace);
        }
        if failure == Some(Category::Conflict) {
            self.conflicts.with_label_values(&[kind]).inc();
        }
    }

    /// Counts a write of an object of `kind` for `concern`.
    pub fn record_write(&self, kind: &str, concern: &str) {
        self.writes.with_label_values(&[kind, concern]).inc();
    }

    /// Counts an owned object of `kind` that was found changed or deleted.
    pub fn record_repair(&self, kind: &str) {
        self.drift_repairs.with_label_values(&[kind]).inc();
    }

    /// Counts an object of `kind` that does not parse.
    pub fn record_unparsable(&self, kind: &str) {
        self.unparsable.with_label_values(&[kind]).inc();
    }

    /// Counts a sizing decision for `reason`.
    pub fn record_decision(&self, reason: &str) {
        self.scaling_decisions.with_label_values(&[reason]).inc();
    }

    /// Counts a rollout that reached a stage.
    pub fn record_rollout_stage(&self, stage: RolloutStage) {
        self.rollouts.with_label_values(&[stage.as_str()]).inc();
    }

    /// Counts a change of the resources of a pool's pods, for `reason`.
    pub fn record_resources(&self, reason: &str) {
        self.resource_decisions.with_label_values(&[reason]).inc();
    }

    /// Counts a pod's resize in place, by result.
    pub fn record_resize(&self, done: bool) {
        self.pod_resizes.with_label_values(&[if done { "ok" } else { "rejected" }]).inc();
    }

    /// Counts an event, by whether it was published.
    pub fn record_event(&self, published: bool) {
        self.events.with_label_values(&[if published { "ok" } else { "failed" }]).inc();
    }

    /// Counts a pool whose tables forget inserts too early.
    pub fn record_dedup_risk(&self) {
        self.deduplication_risks.inc();
    }

    /// Sets by what factor a pool's table remembers too little; `None`: its tables remember enough,
    /// or it was deleted.
    pub fn set_dedup_shortfall(&self, namespace: &str, pool: &str, short: Option<(&str, f64)>) {
        let row = short.map(|(table, by)| (vec![table.to_owned().into()], by));
        self.short.set_rows(&[namespace, pool], row.into_iter().collect());
    }

    /// Sets a schema's coordination state; `None`: healthy, or the schema was deleted.
    pub fn set_coordination(&self, namespace: &str, schema: &str, state: Option<&'static str>) {
        let row = state.map(|state| (vec![state.into()], 1.0));
        self.coordination.set_rows(&[namespace, schema], row.into_iter().collect());
    }

    /// Sets an object's current conditions; none when it was deleted.
    pub fn set_conditions(&self, kind: &str, namespace: &str, name: &str, all: &[Condition]) {
        let known = all.iter().filter_map(|it| {
            let type_ = ConditionType::parse(&it.type_)?.as_str();
            let reason = Reason::parse(&it.reason).map_or("", Reason::as_str);
            Some((vec![type_.into(), status_label(it.status).into(), reason.into()], 1.0))
        });
        let object = [kind, namespace, name];
        let has_series = self.conditions.set_rows(&object, known.collect());
        let mut omitted = self.omitted.lock().unwrap_or_else(PoisonError::into_inner);
        match has_series {
            true => omitted.remove(&fingerprint_of(&object)),
            false => omitted.insert(fingerprint_of(&object)),
        };
        self.conditions_omitted.set(i64::try_from(omitted.len()).unwrap_or(i64::MAX));
    }

    /// Counts a scrape target that was assigned to another pod.
    pub fn record_target_move(&self, reason: &str) {
        self.target_moves.with_label_values(&[reason]).inc();
    }

    /// Sets how many targets a pool has, by state; `None` when it was deleted.
    pub fn set_targets(&self, pool: &str, counts: Option<[u64; 5]>) {
        let mut pools = self.scraping.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match counts {
            Some(counts) if pools.len() < SCRAPING_POOLS_MAX || pools.contains_key(pool) => {
                pools.insert(pool.to_owned(), counts)
            }
            Some(_) => return,
            None => pools.remove(pool),
        };
        let (before, now) = (before.unwrap_or_default(), counts.unwrap_or_default());
        for (state, (was, is)) in TARGET_STATES.iter().zip(before.into_iter().zip(now)) {
            let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            self.targets.with_label_values(&[state]).add(signed(is) - signed(was));
        }
    }

    /// Counts a broken watch for `kind`.
    pub fn record_watch_error(&self, kind: &str) {
        self.watch_errors.with_label_values(&[kind]).inc();
    }

    /// Sets how many objects fail now.
    pub fn set_failing(&self, objects: usize) {
        self.failing.set(i64::try_from(objects).unwrap_or(i64::MAX));
    }

    /// Sets whether this replica holds the lease.
    pub fn set_leader(&self, leader: bool) {
        self.leader.set(i64::from(leader));
    }

    /// Renders all metrics as text.
    ///
    /// # Errors
    /// When a metric cannot be encoded, which is a fault in this file.
    pub fn render(&self, format: MetricsFormat) -> Result<String, prometheus::Error> {
        let mut families = self.registry.gather();
        families.extend(self.common.gather());
        format.render_families(&families, &self.exemplars)
    }
}

const ALLOCATOR: &str = "mimalloc";

/// Series of objects, of a limited number of them.
#[derive(Clone, Debug)]
struct ObjectSeries {
    gauge: GaugeVec,
    /// The maximum number of objects.
    most: usize,
    /// The rows of each object, which the first labels name.
    known: Arc<Mutex<BTreeMap<Vec<String>, Vec<LabelledValue>>>>,
}

/// The other labels' values, and the series' value.
type LabelledValue = (Vec<Cow<'static, str>>, f64);

impl ObjectSeries {
    /// Replaces an object's series, if it may have any; unchanged series have no gap.
    fn set_rows(&self, object: &[&str], rows: Vec<LabelledValue>) -> bool {
        let key: Vec<String> = object.iter().map(|&label| label.to_owned()).collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !rows.is_empty() && known.len() >= self.most && !known.contains_key(&key) {
            return false;
        }
        let labels = |row: &LabelledValue| -> Vec<String> {
            let object = object.iter().map(|&label| label.to_owned());
            object.chain(row.0.iter().map(|label| label.clone().into_owned())).collect()
        };
        for row in &rows {
            self.gauge.with_label_values(&labels(row)).set(row.1);
        }
        let before = known.remove(&key).unwrap_or_default();
        for obsolete in before.iter().filter(|old| !rows.iter().any(|row| row.0 == old.0)) {
            // An error means that the series does not exist, as desired.
            let _ = self.gauge.remove_label_values(&labels(obsolete));
        }
        if !rows.is_empty() {
            known.insert(key, rows);
        }
        true
    }
}

const fn status_label(status: ConditionStatus) -> &'static str {
    match status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    }
}

/// Counts one running reconcile until dropped.
#[derive(Debug)]
pub struct RunningReconcile {
    gauge: IntGauge,
}

impl Drop for RunningReconcile {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a reconcile fails with a conflict. Guarantee: it is counted under its result and
    /// as a 409.
    #[test]
    fn a_conflict_is_counted_as_result_and_as_conflict() {
        let metrics = Metrics::new().unwrap();
        metrics.reconcile_finished(
            "EdgePool",
            Duration::from_millis(3),
            Some(Category::Conflict),
            None,
        );
        let text = metrics.render(MetricsFormat::Prometheus).unwrap();
        assert!(text.contains(
            r#"millrace_operator_reconciles_total{kind="EdgePool",result="conflict"} 1"#
        ));
        assert!(text.contains(r#"millrace_operator_conflicts_total{kind="EdgePool"} 1"#));
    }

    /// Scenario: a guard goes out of scope. Guarantee: no reconcile counts as running for ever.
    #[test]
    fn a_finished_reconcile_no_longer_counts_as_running() {
        let metrics = Metrics::new().unwrap();
        drop(metrics.reconcile_started("EdgePool"));
        let text = metrics.render(MetricsFormat::Prometheus).unwrap();
        assert!(text.contains(r#"millrace_operator_reconciles_running{kind="EdgePool"} 0"#));
    }

    fn test_condition(type_: ConditionType, status: ConditionStatus, reason: Reason) -> Condition {
        let time =
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
        Condition::new(type_, status, reason, "", 1, time)
    }

    /// Scenario: an object becomes ready, then it is deleted. Guarantee: one series for each
    /// condition, with the newest status and reason, and none remains.
    #[test]
    fn conditions_have_one_series_each_until_their_object_is_gone() {
        use ConditionStatus::{False, True};
        let metrics = Metrics::new().unwrap();
        let series = || {
            let text = metrics.render(MetricsFormat::Prometheus).unwrap();
            let lines =
                text.lines().filter(|line| line.starts_with("millrace_operator_condition{"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let waits = test_condition(ConditionType::Ready, False, Reason::PodsNotReady);
        let stays = test_condition(ConditionType::Paused, True, Reason::PausedBySpec);
        metrics.set_conditions("EdgePool", "a", "b", &[waits, stays.clone()]);
        assert_eq!(series().len(), 2);
        let ready = test_condition(ConditionType::Ready, True, Reason::Reconciled);
        metrics.set_conditions("EdgePool", "a", "b", &[ready, stays]);
        let now = series();
        assert!(now.len() == 2 && now.iter().any(|line| line.contains("Reconciled")), "{now:?}");
        metrics.set_conditions("EdgePool", "a", "b", &[]);
        assert_eq!(series(), Vec::<String>::new());
    }

    /// Scenario: one object beyond the limit. Guarantee: it has no series, and it is counted until
    /// it is deleted.
    #[test]
    fn objects_past_the_limit_are_counted() {
        let metrics = Metrics::new().unwrap();
        let ready = test_condition(ConditionType::Ready, ConditionStatus::True, Reason::Reconciled);
        for object in 0..=OBJECTS_MAX {
            metrics.set_conditions(
                "EdgePool",
                "a",
                &object.to_string(),
                std::slice::from_ref(&ready),
            );
        }
        let last = OBJECTS_MAX.to_string();
        let left_out = |text: &str| {
            let line =
                text.lines().find(|it| it.starts_with("millrace_operator_conditions_omitted"));
            line.and_then(|line| line.split(' ').nth(1)).map(str::to_owned)
        };
        let text = metrics.render(MetricsFormat::Prometheus).unwrap();
        assert!(!text.contains(&format!("object=\"{last}\"")));
        assert_eq!(left_out(&text).as_deref(), Some("1"));
        metrics.set_conditions("EdgePool", "a", &last, &[]);
        let text = metrics.render(MetricsFormat::Prometheus).unwrap();
        assert_eq!(left_out(&text).as_deref(), Some("0"));
    }
}
