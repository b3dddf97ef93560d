//! The dashboard of all pools over weeks. It queries the chart's recording rules
//! (`charts/millrace/templates/prometheusrule.yaml`), since weeks of the pods' own series would be
//! too much to read; the chart includes it only with these rules.

use super::{About, Head, Page, panel};

/// The series whose namespaces can be chosen.
pub(super) const NAMED_BY: &str = "pool:millrace_records_in:rate5m";

/// Reasons of rejections that Millrace causes, not the client.
const OURS: &str = "reason=~\"full|unavailable|draining\"";

/// A recorded series by pool, of the chosen namespaces, with more matchers, and over a window if any.
fn of(record: &str, matchers: &str, window: &str) -> String {
    let series = format!("{record}{{namespace=~\"$namespace\"{matchers}}}");
    match window {
        "" => format!("sum by (namespace, pool) ({series})"),
        window => format!("sum by (namespace, pool) (sum_over_time({series}[{window}]))"),
    }
}

/// Records received by edges.
fn given(window: &str) -> String {
    of("pool:millrace_records_in:rate5m", ",role=\"edge\"", window)
}

/// The share of it that was refused for these reasons; zero where nothing ever was.
fn refused(matchers: &str, window: &str) -> String {
    let refused = of("pool_reason:millrace_records_refused:rate5m", matchers, window);
    let given = given(window);
    format!("({refused} or 0 * {given}) / ({given} > 0)")
}

fn acknowledged(window: &str) -> String {
    format!("1 - {}", refused(&format!(",{OURS}"), window))
}

/// The page.
pub(super) fn page() -> Page {
    const LEGEND: &str = "{{namespace}}/{{pool}}";
    let stored = of("pool:millrace_records_out:rate5m", ",role=\"gateway\"", "");
    let confirmed = of("pool:millrace_records_out:rate5m", "", "");
    let lag = "max by (namespace, pool) \
               (pool:millrace_consumer_lag_seconds:max{namespace=~\"$namespace\"})";
    let cores = of("pool:process_cpu_seconds:rate5m", "", "");
    Page {
        head: Head {
            name: "fleet",
            title: "Millrace / Fleet",
            description: "All pools over weeks. Needs the recording rules of the chart's \
                          PrometheusRule: without them every panel is empty.",
            from: "now-7d",
        },
        about: About::Records,
        panels: vec![
            panel("Records in", "cps").says("Records received by edges.").line(given(""), LEGEND),
            panel("Rows stored", "cps").says("Records stored by gateways.").line(stored, LEGEND),
            panel("Lag", "s")
                .says("Age of the oldest message that is not stored yet.")
                .line(lag.to_owned(), LEGEND),
            panel("Refused", "percentunit")
                .says(
                    "The share of records that edges rejected, for any reason; a retried request \
                     counts again.",
                )
                .line(refused("", ""), LEGEND),
            panel("Acknowledged", "percentunit")
                .says(
                    "The share of records that edges did not reject for a reason of Millrace \
                     (full, unavailable, draining), over an hour.",
                )
                .line(acknowledged("1h"), LEGEND),
            panel("Acknowledged in 30 days", "percentunit")
                .says("The same, over the last 30 days, to compare with an objective.")
                .line(acknowledged("30d"), LEGEND)
                .now(),
            panel("CPU seconds per million records", "s")
                .says("Of all pods of a pool; each record passes an edge and a gateway.")
                .line(format!("1e6 * {cores} / ({confirmed} > 0)"), LEGEND),
            panel("CPU", "short").says("Cores used by all pods of a pool.").line(cores, LEGEND),
        ],
    }
}
