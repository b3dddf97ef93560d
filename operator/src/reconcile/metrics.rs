//! Metrics of reconciles, by kind.

use std::time::Duration;

use millrace_observe::otlp::TraceId;

use crate::error::Category;
use crate::telemetry::metrics::{Counter, Gauge, Metrics, Seconds};

pub(super) const RUNNING: Gauge<1> = Gauge::new(
    "millrace_operator_reconciles_running",
    "Reconciles running now, by kind.",
    ["kind"],
);

pub(super) const QUEUE_TIME: Seconds<1> = Seconds::new(
    "millrace_operator_queue_duration_seconds",
    "From an event to its reconcile, by kind.",
    ["kind"],
);

pub(super) const UNPARSABLE: Counter<1> = Counter::new(
    "millrace_operator_unparsable_objects_total",
    "Objects that do not parse as their kind, by kind.",
    ["kind"],
);

pub(super) const FAILING: Gauge<0> =
    Gauge::new("millrace_operator_objects_failing", "Objects whose last reconcile failed.", []);

const RECONCILES: Counter<2> = Counter::new(
    "millrace_operator_reconciles_total",
    "Finished reconciles, by kind and result.",
    ["kind", "result"],
);

const DURATION: Seconds<1> = Seconds::new(
    "millrace_operator_reconcile_duration_seconds",
    "How long a reconcile took, by kind.",
    ["kind"],
);

const CONFLICTS: Counter<1> = Counter::new(
    "millrace_operator_conflicts_total",
    "Conflict answers of the API server (409), by kind.",
    ["kind"],
);

/// Records a reconcile of `kind` that ended after `took`. No `failure` means success; `trace` is
/// its trace, if retained.
pub(super) fn record_reconcile(
    metrics: &Metrics,
    kind: &str,
    took: Duration,
    failure: Option<Category>,
    trace: Option<TraceId>,
) {
    metrics.count(&RECONCILES, [kind, failure.map_or("ok", Category::as_str)]);
    metrics.observe(&DURATION, [kind], took, trace);
    if failure == Some(Category::Conflict) {
        metrics.count(&CONFLICTS, [kind]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_observe::text::MetricsFormat;

    /// Scenario: a reconcile fails with a conflict. Guarantee: it is counted under its result and
    /// as a 409.
    #[test]
    fn a_conflict_is_counted_as_result_and_as_conflict() {
        let metrics = Metrics::new().unwrap();
        let took = Duration::from_millis(3);
        record_reconcile(&metrics, "EdgePool", took, Some(Category::Conflict), None);
        let text = metrics.render(MetricsFormat::Prometheus).unwrap();
        assert!(text.contains(
            r#"millrace_operator_reconciles_total{kind="EdgePool",result="conflict"} 1"#
        ));
        assert!(text.contains(r#"millrace_operator_conflicts_total{kind="EdgePool"} 1"#));
    }
}
