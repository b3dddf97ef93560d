//! The operator's own figures, in Prometheus' text format.
//!
//! Labels come from closed enums, so the number of series is bounded: kinds (5) times results (6).
//! No label carries an object's name, except pools in an alert: [`SHORT_POOLS_MAX`].

use prometheus::{
    Encoder, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry, TextEncoder,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millrace_crds::v1alpha1::RolloutStage;

use crate::error::Category;

/// Reconciles take from a few milliseconds (cached, converged) to the time-out of an outside call.
const RECONCILE_BUCKETS_SECONDS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Every figure, registered once.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    reconcile_seconds: HistogramVec,
    queue_seconds: HistogramVec,
    running: prometheus::IntGaugeVec,
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
    short: Short,
    scraped: Scraped,
    coordination: Coordination,
    failing: IntGauge,
    leader: IntGauge,
    resident_bytes: IntGauge,
}

const RESOURCES_HELP: &str =
    "Changes decided of the memory and processor time of a pool's pods, by reason.";
const CONFLICTS_HELP: &str =
    "Answers of the API server that someone else wrote first (409), by kind.";
const RISKS_HELP: &str =
    "Times that a gateway pool's tables were found to forget inserts before one may come again.";
const SHORT_HELP: &str = "How many times as much a table would have to remember, so that no insert \
     is forgotten before one may come again; only of gateway pools whose tables remember too little.";
/// Pools named in series at once.
const SHORT_POOLS_MAX: usize = 1_000;
const MOVES_HELP: &str = "Scrape targets that were given to another pod of their pool, by reason.";
const TARGETS_HELP: &str =
    "Scrape targets of all edge pools, by state (shared, waiting, refused, up, down).";
const COORDINATION_HELP: &str = "1 for a TelemetrySchema whose Keeper or ZooKeeper is lost (inserts \
     stop) or degraded, by state; only of those.";
/// Schemas named in series at once.
const UNCOORDINATED_SCHEMAS_MAX: usize = 1_000;
/// Pools whose targets are counted at once.
const SCRAPING_POOLS_MAX: usize = 10_000;
const WATCHES_HELP: &str = "Watches that broke and were started again, by kind.";

impl Metrics {
    /// Makes and registers every figure.
    ///
    /// # Errors
    /// When a name is registered twice, which is a fault in this file.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(Some("millrace_operator".into()), None)?;
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let made = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(made.clone()))?;
            Ok::<_, prometheus::Error>(made)
        };
        let gauge = |name: &str, help: &str| {
            let made = IntGauge::new(name, help)?;
            registry.register(Box::new(made.clone()))?;
            Ok::<_, prometheus::Error>(made)
        };
        let seconds = |name: &str, help: &str| {
            let options = HistogramOpts::new(name, help);
            let buckets = RECONCILE_BUCKETS_SECONDS.to_vec();
            let made = HistogramVec::new(options.buckets(buckets), &["kind"])?;
            registry.register(Box::new(made.clone()))?;
            Ok::<_, prometheus::Error>(made)
        };
        let running = prometheus::IntGaugeVec::new(
            Opts::new("reconciles_running", "Reconciles running now, by kind."),
            &["kind"],
        )?;
        registry.register(Box::new(running.clone()))?;
        Ok(Self {
            reconciles: counter(
                "reconciles_total",
                "Finished reconciles, by kind and result.",
                &["kind", "result"],
            )?,
            writes: counter(
                "writes_total",
                "Objects written, by kind and concern (children, status, prune).",
                &["kind", "concern"],
            )?,
            drift_repairs: counter(
                "drift_repairs_total",
                "Owned objects found changed or gone and put right, by kind.",
                &["kind"],
            )?,
            conflicts: counter("conflicts_total", CONFLICTS_HELP, &["kind"])?,
            unparsable: counter(
                "unparsable_objects_total",
                "Objects that do not parse as their kind, by kind.",
                &["kind"],
            )?,
            scaling_decisions: counter(
                "scaling_decisions_total",
                "Sizing decisions for gateway pools, by reason.",
                &["reason"],
            )?,
            rollouts: counter("rollout_stages_total", "Stages of rollouts, by stage.", &["stage"])?,
            resource_decisions: counter("resource_decisions_total", RESOURCES_HELP, &["reason"])?,
            pod_resizes: counter("pod_resizes_total", "Pods resized, by result.", &["result"])?,
            events: counter("events_total", "Events published, by result.", &["result"])?,
            watch_errors: counter("watch_errors_total", WATCHES_HELP, &["kind"])?,
            failing: gauge("objects_failing", "Objects whose last reconcile failed.")?,
            leader: gauge("leader", "1 while this replica holds the lease.")?,
            resident_bytes: gauge("resident_memory_bytes", "Resident memory of the process.")?,
            reconcile_seconds: seconds("reconcile_seconds", "How long a reconcile took, by kind.")?,
            queue_seconds: seconds("queue_seconds", "From an event to its reconcile, by kind.")?,
            deduplication_risks: plain(&registry, "deduplication_risks_total", RISKS_HELP)?,
            short: Short::new(&registry)?,
            scraped: Scraped::new(&registry)?,
            coordination: Coordination::new(&registry)?,
            running,
            registry,
        })
    }

    /// An object of `kind` waited this long for its reconcile.
    pub fn waited(&self, kind: &str, waited: Duration) {
        self.queue_seconds.with_label_values(&[kind]).observe(waited.as_secs_f64());
    }

    /// A reconcile of `kind` begins; drop the guard when it ends.
    #[must_use]
    pub fn reconcile_started(&self, kind: &str) -> RunningReconcile {
        let gauge = self.running.with_label_values(&[kind]);
        gauge.inc();
        RunningReconcile { gauge }
    }

    /// A reconcile of `kind` ended after `took`; `None` means it went well.
    pub fn reconcile_finished(&self, kind: &str, took: Duration, failure: Option<Category>) {
        let result = failure.map_or("ok", Category::as_str);
        self.reconciles.with_label_values(&[kind, result]).inc();
        self.reconcile_seconds.with_label_values(&[kind]).observe(took.as_secs_f64());
        if failure == Some(Category::Conflict) {
            self.conflicts.with_label_values(&[kind]).inc();
        }
    }

    /// An object of `kind` was written for `concern`.
    pub fn wrote(&self, kind: &str, concern: &str) {
        self.writes.with_label_values(&[kind, concern]).inc();
    }

    /// An owned object of `kind` was found changed or gone.
    pub fn repaired(&self, kind: &str) {
        self.drift_repairs.with_label_values(&[kind]).inc();
    }

    /// An object of `kind` does not parse.
    pub fn unparsable(&self, kind: &str) {
        self.unparsable.with_label_values(&[kind]).inc();
    }

    /// A sizing decision was made for `reason`.
    pub fn decided(&self, reason: &str) {
        self.scaling_decisions.with_label_values(&[reason]).inc();
    }

    /// A rollout came to a stage.
    pub fn rollout_is_at(&self, stage: RolloutStage) {
        self.rollouts.with_label_values(&[stage.as_str()]).inc();
    }

    /// Other resources were decided on for a pool's pods, for `reason`.
    pub fn resources_decided(&self, reason: &str) {
        self.resource_decisions.with_label_values(&[reason]).inc();
    }

    /// A pod's memory or processor time was changed in place, or could not be.
    pub fn resized(&self, done: bool) {
        self.pod_resizes.with_label_values(&[if done { "ok" } else { "refused" }]).inc();
    }

    /// An event was published, or could not be.
    pub fn event(&self, published: bool) {
        self.events.with_label_values(&[if published { "ok" } else { "failed" }]).inc();
    }

    /// A pool's tables were found to forget inserts too early.
    pub fn deduplication_at_risk(&self) {
        self.deduplication_risks.inc();
    }

    /// A pool's table remembers so many times too little.
    pub fn deduplication_is_short(&self, namespace: String, pool: String, table: String, by: f64) {
        let mut pools = self.short.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace, pool);
        if pools.len() < SHORT_POOLS_MAX || pools.contains_key(&key) {
            pools.insert(key, (table, by));
        }
    }

    /// A pool's tables remember enough, or it is gone.
    pub fn deduplication_is_covered(&self, namespace: String, pool: String) {
        let mut pools = self.short.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.remove(&(namespace, pool));
    }

    /// A schema's coordination is in this state; `None`: nothing is wrong, or it is gone.
    pub fn coordination_is(&self, namespace: &str, schema: &str, state: Option<&'static str>) {
        let schemas = &self.coordination.schemas;
        let mut schemas = schemas.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), schema.to_owned());
        match state {
            Some(state)
                if schemas.len() < UNCOORDINATED_SCHEMAS_MAX || schemas.contains_key(&key) =>
            {
                schemas.insert(key, state);
            }
            Some(_) => {}
            None => drop(schemas.remove(&key)),
        }
    }

    /// A scrape target was given to another pod.
    pub fn target_moved(&self, reason: &str) {
        self.scraped.moves.with_label_values(&[reason]).inc();
    }

    /// How many targets a pool has, by state; none when it is gone.
    pub fn targets_are(&self, pool: &str, counts: Option<[u64; 5]>) {
        let mut pools = self.scraped.pools.lock().unwrap_or_else(PoisonError::into_inner);
        match counts {
            Some(counts) if pools.len() < SCRAPING_POOLS_MAX || pools.contains_key(pool) => {
                pools.insert(pool.to_owned(), counts);
            }
            Some(_) => {}
            None => drop(pools.remove(pool)),
        }
    }

    /// A watch for `kind` broke.
    pub fn watch_broke(&self, kind: &str) {
        self.watch_errors.with_label_values(&[kind]).inc();
    }

    /// How many objects fail now.
    pub fn set_failing(&self, objects: usize) {
        self.failing.set(i64::try_from(objects).unwrap_or(i64::MAX));
    }

    /// Whether this replica holds the lease.
    pub fn set_leader(&self, leader: bool) {
        self.leader.set(i64::from(leader));
    }

    /// Everything as Prometheus' text format.
    ///
    /// # Errors
    /// When a figure cannot be encoded, which is a fault in this file.
    pub fn render(&self) -> Result<Vec<u8>, prometheus::Error> {
        self.resident_bytes.set(resident_bytes().unwrap_or(0));
        self.short.fill();
        self.scraped.fill();
        self.coordination.fill();
        let mut out = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut out)?;
        Ok(out)
    }
}

/// Pools whose tables remember too little: the table, and by how much.
#[derive(Clone, Debug)]
struct Short {
    gauge: GaugeVec,
    pools: Arc<Mutex<ShortPools>>,
}

/// By namespace and name.
type ShortPools = BTreeMap<(String, String), (String, f64)>;

impl Short {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        // The scraper's own label is `namespace`.
        let labels = &["pool_namespace", "pool", "table"];
        let gauge = GaugeVec::new(Opts::new("deduplication_short_ratio", SHORT_HELP), labels)?;
        registry.register(Box::new(gauge.clone()))?;
        Ok(Self { gauge, pools: Arc::default() })
    }

    fn fill(&self) {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        self.gauge.reset();
        for ((namespace, pool), (table, by)) in pools.iter() {
            self.gauge.with_label_values(&[namespace, pool, table]).set(*by);
        }
    }
}

/// Schemas whose coordination is in trouble, and in which state.
#[derive(Clone, Debug)]
struct Coordination {
    gauge: GaugeVec,
    schemas: Arc<Mutex<BTreeMap<(String, String), &'static str>>>,
}

impl Coordination {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        // The scraper's own label is `namespace`.
        let labels = &["schema_namespace", "schema", "state"];
        let options = Opts::new("coordination_unhealthy", COORDINATION_HELP);
        let gauge = GaugeVec::new(options, labels)?;
        registry.register(Box::new(gauge.clone()))?;
        Ok(Self { gauge, schemas: Arc::default() })
    }

    fn fill(&self) {
        let schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        self.gauge.reset();
        for ((namespace, schema), state) in schemas.iter() {
            self.gauge.with_label_values(&[namespace, schema, *state]).set(1.0);
        }
    }
}

/// Targets of pools that scrape, by the pool's uid.
#[derive(Clone, Debug)]
struct Scraped {
    moves: IntCounterVec,
    gauge: GaugeVec,
    pools: Arc<Mutex<BTreeMap<String, [u64; 5]>>>,
}

impl Scraped {
    /// In the order of a pool's counts.
    const STATES: [&str; 5] = ["shared", "waiting", "refused", "up", "down"];

    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = GaugeVec::new(Opts::new("scrape_targets", TARGETS_HELP), &["state"])?;
        registry.register(Box::new(gauge.clone()))?;
        let moves = IntCounterVec::new(Opts::new("target_moves_total", MOVES_HELP), &["reason"])?;
        registry.register(Box::new(moves.clone()))?;
        Ok(Self { moves, gauge, pools: Arc::default() })
    }

    fn fill(&self) {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, state) in Self::STATES.into_iter().enumerate() {
            let sum: u64 = pools.values().filter_map(|counts| counts.get(at)).sum();
            self.gauge.with_label_values(&[state]).set(sum as f64);
        }
    }
}

/// A counter without labels.
fn plain(registry: &Registry, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    let made = IntCounter::new(name, help)?;
    registry.register(Box::new(made.clone()))?;
    Ok(made)
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

/// Resident memory as `/proc` gives it; `None` where there is no `/proc`.
fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a reconcile fails by conflict. Guarantee: it shows under its result and as a 409.
    #[test]
    fn a_conflict_is_counted_as_result_and_as_conflict() {
        let metrics = Metrics::new().unwrap();
        metrics.reconcile_finished("EdgePool", Duration::from_millis(3), Some(Category::Conflict));
        let text = String::from_utf8(metrics.render().unwrap()).unwrap();
        assert!(text.contains(
            r#"millrace_operator_reconciles_total{kind="EdgePool",result="conflict"} 1"#
        ));
        assert!(text.contains(r#"millrace_operator_conflicts_total{kind="EdgePool"} 1"#));
    }

    /// Scenario: a guard goes out of scope. Guarantee: nothing is counted as running for ever.
    #[test]
    fn a_finished_reconcile_no_longer_counts_as_running() {
        let metrics = Metrics::new().unwrap();
        drop(metrics.reconcile_started("EdgePool"));
        let text = String::from_utf8(metrics.render().unwrap()).unwrap();
        assert!(text.contains(r#"millrace_operator_reconciles_running{kind="EdgePool"} 0"#));
    }
}
