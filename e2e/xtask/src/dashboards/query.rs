//! Queries in Prometheus' language, made of a metric's name and what it is summed by. Those of pools
//! choose by the dashboard's variables.

use std::fmt::Display;

/// Which pools' pods a query is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Any,
    Edges,
    Gateways,
}

/// Grafana puts in what suits the scrape interval.
const WINDOW: &str = "[$__rate_interval]";

/// Series of a metric, of the chosen pools.
pub(super) fn series(metric: &str, of: Of) -> String {
    let role = match of {
        Of::Any => "",
        Of::Edges => ",role=\"edge\"",
        Of::Gateways => ",role=\"gateway\"",
    };
    format!("{metric}{{namespace=~\"$namespace\",pool=~\"$pool\"{role}}}")
}

/// `sum`, `max` and so on, by labels.
pub(super) fn fold(how: &str, by: &str, metric: &str, of: Of) -> String {
    format!("{how} by ({by}) ({})", series(metric, of))
}

/// What a counter grows by in a second.
pub(super) fn rate(by: &str, metric: &str, of: Of) -> String {
    format!("sum by ({by}) (rate({}{WINDOW}))", series(metric, of))
}

/// The same of a counter that begins with its first event: zero for pools without one, so that an
/// empty panel is always a fault.
pub(super) fn rate_or_zero(metric: &str, of: Of) -> String {
    let there = fold("max", "pool", "process_start_time_seconds", of);
    format!("{} or 0 * {there}", rate("pool", metric, of))
}

/// What 99 of 100 observations of a histogram are at most.
pub(super) fn most(metric: &str, of: Of) -> String {
    let bucket = series(&format!("{metric}_bucket"), of);
    quantile("pool", &bucket)
}

/// The mean of a histogram's observations.
pub(super) fn mean(metric: &str, of: Of) -> String {
    let of_part = |part: &str| rate("pool", &format!("{metric}_{part}"), of);
    format!("{} / {}", of_part("sum"), of_part("count"))
}

/// The same without pools: the operator's own.
pub(super) fn own_rate(by: &str, metric: &str) -> String {
    format!("sum by ({by}) (rate(millrace_operator_{metric}{WINDOW}))")
}

/// See [`most`].
pub(super) fn own_most(by: &str, metric: &str) -> String {
    quantile(by, &format!("millrace_operator_{metric}_bucket"))
}

fn quantile(by: &str, bucket: &impl Display) -> String {
    format!("histogram_quantile(0.99, sum by ({by}, le) (rate({bucket}{WINDOW})))")
}
