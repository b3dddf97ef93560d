//! What each dashboard shows, panel by panel.

use super::query::Of::{Any, Edges, Gateways};
use super::query::{Of, fold, mean, most, own_most, own_rate, rate, rate_or_zero, series};
use super::{About, Head, Page, Panel, panel};

/// All of them, in the order of a record's way.
pub(super) fn pages() -> Vec<Page> {
    vec![pipelines(), edges(), node_logs(), targets(), gateways(), operator()]
}

fn pipelines() -> Page {
    Page {
        head: Head {
            name: "pipelines",
            title: "Millrace / Pipelines",
            description: "The path of records, from clients, files and targets to rows: rates, \
                          lag, and records that were not stored.",
            from: "now-1h",
        },
        about: About::Pools,
        panels: vec![
            records("Records in", "millrace_records_in_total", Edges),
            records("Rows stored", "millrace_records_out_total", Gateways),
            panel("Lag", "s")
                .says(
                    "Age of the oldest message that is not stored yet. Above the pool's \
                     lagBoundSeconds it is not Ready.",
                )
                .line(fold("max", "pool", "millrace_consumer_lag_seconds", Gateways), "{{pool}}"),
            panel("Messages behind", "short")
                .says("Messages in Kafka that are not stored yet, by topic.")
                .line(
                    fold("sum", "pool, topic", "millrace_consumer_lag_messages", Gateways),
                    "{{pool}} {{topic}}",
                ),
            refused(Any),
            panel("Dead letters", "cps")
                .says(
                    "Records that can't be stored and are in the dead-letter topic. \
                     `millrace-collector dead-letters list` shows them.",
                )
                .line(rate_or_zero("millrace_records_dead_lettered_total", Any), "{{pool}}"),
            panel("Lost", "cps")
                .says(
                    "Messages that Kafka deleted before they were read, and bytes of log files \
                     that nodes deleted before. Any value above zero is lost data.",
                )
                .line(
                    rate_or_zero("millrace_records_lost_to_retention_total", Any),
                    "{{pool}} messages",
                )
                .line(rate_or_zero("millrace_files_lost_bytes_total", Any), "{{pool}} bytes"),
            panel("Pods", "short")
                .says("Pods whose metrics are read.")
                .line(fold("count", "pool", "millrace_build_info", Any), "{{pool}}"),
        ],
    }
}

fn edges() -> Page {
    Page {
        head: Head {
            name: "edges",
            title: "Millrace / Edges",
            description: "OTLP clients, log files and targets to Kafka.",
            from: "now-1h",
        },
        about: About::Pools,
        panels: vec![
            records("Records in", "millrace_records_in_total", Edges),
            records("Records confirmed", "millrace_records_out_total", Edges),
            panel("Time until Kafka confirms", "s")
                .says("From sending a message to its confirmation, p99.")
                .line(most("millrace_produce_duration_seconds", Edges), "{{pool}}"),
            refused(Edges),
            panel("Not confirmed", "cps")
                .says("Messages that Kafka did not confirm.")
                .line(rate_or_zero("millrace_produce_failures_total", Edges), "{{pool}}"),
            panel("Connections closed", "cps")
                .says("Clients' connections that the edge closed: limits, errors, time-outs.")
                .line(rate_or_zero("millrace_connections_closed_total", Edges), "{{pool}}"),
            memory(Edges),
            processor(Edges),
        ],
    }
}

fn node_logs() -> Page {
    Page {
        head: Head {
            name: "node-logs",
            title: "Millrace / Logs of nodes",
            description: "Log files of containers and hosts, read by edge pools on nodes.",
            from: "now-1h",
        },
        about: About::Pools,
        panels: vec![
            panel("Records", "cps")
                .says("Records made of lines.")
                .line(rate("pool", "millrace_files_records_total", Any), "{{pool}}"),
            panel("Bytes read", "Bps")
                .says("Unfinished lines count again.")
                .line(rate("pool", "millrace_files_read_bytes_total", Any), "{{pool}}"),
            panel("Behind", "bytes")
                .says("Bytes of all nodes that are not confirmed yet.")
                .line(fold("sum", "pool", "millrace_files_behind_bytes", Any), "{{pool}}"),
            panel("Behind, in time", "s")
                .says("Age of the oldest of them, on the worst node.")
                .line(fold("max", "pool", "millrace_files_behind_seconds", Any), "{{pool}}"),
            panel("Lost", "Bps")
                .says("Bytes that nodes deleted before they were read.")
                .line(rate("pool", "millrace_files_lost_bytes_total", Any), "{{pool}}"),
            panel("Files", "short")
                .says("Files that are known, and open ones.")
                .line(fold("sum", "pool", "millrace_files_known", Any), "{{pool}} known")
                .line(fold("sum", "pool", "millrace_files_open", Any), "{{pool}} open"),
            panel("Records without labels", "cps")
                .says("Records of containers without their pod's labels.")
                .line(rate("pool", "millrace_files_unlabeled_total", Any), "{{pool}}"),
            panel("Lines in another format", "cps")
                .says("Lines that are not in the container's format; they are stored unchanged.")
                .line(rate("pool", "millrace_files_unparsed_total", Any), "{{pool}}"),
        ],
    }
}

fn targets() -> Page {
    let scraping = series("millrace_scrape_targets", Any);
    let used = series("process_cpu_seconds_total", Any);
    Page {
        head: Head {
            name: "targets",
            title: "Millrace / Scraped targets",
            description: "Prometheus targets, scraped by edge pools.",
            from: "now-1h",
        },
        about: About::Pools,
        panels: vec![
            panel("Targets", "short")
                .says("Targets, and those whose last scrape succeeded.")
                .line(fold("sum", "pool", "millrace_scrape_targets", Any), "{{pool}}")
                .line(fold("sum", "pool", "millrace_scrape_targets_up", Any), "{{pool}} up"),
            panel("Scrapes", "cps")
                .says("Scrapes run, failed, and skipped or aborted.")
                .line(rate("pool", "millrace_scrapes_total", Any), "{{pool}} run")
                .line(rate("pool", "millrace_scrapes_failed_total", Any), "{{pool}} failed")
                .line(rate("pool", "millrace_scrapes_skipped_total", Any), "{{pool}} skipped"),
            panel("Samples", "cps")
                .says("Samples read, and samples dropped.")
                .line(rate("pool", "millrace_scrape_samples_total", Any), "{{pool}} read")
                .line(
                    rate("pool", "millrace_scrape_dropped_samples_total", Any),
                    "{{pool}} dropped",
                ),
            panel("Series", "short")
                .says("Series tracked for staleness and start times.")
                .line(fold("sum", "pool", "millrace_scrape_series", Any), "{{pool}}"),
            panel("Memory of series", "bytes")
                .says("Memory of the tracked series.")
                .line(fold("sum", "pool", "millrace_scrape_series_bytes", Any), "{{pool}}"),
            panel("CPU", "short").says("Cores used by scraping pods.").line(
                format!(
                    "sum by (pool) (rate({used}[$__rate_interval]) \
                         and on (namespace, pod) {scraping})"
                ),
                "{{pool}}",
            ),
        ],
    }
}

fn gateways() -> Page {
    Page {
        head: Head {
            name: "gateways",
            title: "Millrace / Gateways",
            description: "Kafka to ClickHouse.",
            from: "now-1h",
        },
        about: About::Pools,
        panels: vec![
            records("Rows stored", "millrace_records_out_total", Gateways),
            panel("Lag by partition", "s")
                .says("Age of the oldest message that is not stored yet.")
                .line(
                    fold("max", "topic, partition", "millrace_consumer_lag_seconds", Gateways),
                    "{{topic}} {{partition}}",
                ),
            panel("Inserts", "cps")
                .says("Inserts, and retries.")
                .line(rate("pool", "millrace_insert_duration_seconds_count", Gateways), "{{pool}}")
                .line(rate_or_zero("millrace_insert_retries_total", Gateways), "{{pool}} retries"),
            panel("Time of an insert", "s")
                .says("From an insert's start to ClickHouse's response.")
                .line(most("millrace_insert_duration_seconds", Gateways), "{{pool}} p99")
                .line(mean("millrace_insert_duration_seconds", Gateways), "{{pool}} mean"),
            panel("Concurrent inserts", "short")
                .says("Limit of concurrent inserts: halved when the server is overloaded.")
                .line(fold("min", "pool", "millrace_inserts_allowed", Gateways), "{{pool}}"),
            panel("Deduplication window in inserts", "short")
                .says("A repeated insert is recognized within this window.")
                .line(
                    fold("min", "table", "millrace_table_deduplication_window_inserts", Gateways),
                    "{{table}}",
                ),
            panel("Records buffered", "short").says("Records read and not stored yet.").line(
                fold("sum", "pool, signal", "millrace_records_in_flight", Gateways),
                "{{pool}} {{signal}}",
            ),
            panel("Columns missing", "short")
                .says("Columns that a live table lacks; their values are not stored.")
                .line(
                    fold("max", "table", "millrace_table_columns_missing", Gateways),
                    "{{table}}",
                ),
            memory(Gateways),
            processor(Gateways),
        ],
    }
}

fn operator() -> Page {
    Page {
        head: Head {
            name: "operator",
            title: "Millrace / Operator",
            description: "Reconciles, errors and resource use of the operator.",
            from: "now-1h",
        },
        about: About::Operator,
        panels: vec![
            panel("Reconciles", "cps")
                .says("By kind and result.")
                .line(own_rate("kind, result", "reconciles_total"), "{{kind}} {{result}}"),
            panel("Time of a reconcile", "s")
                .says("p99.")
                .line(own_most("kind", "reconcile_duration_seconds"), "{{kind}}"),
            panel("Time in the queue", "s")
                .says("From an event to its reconcile, p99.")
                .line(own_most("kind", "queue_duration_seconds"), "{{kind}}"),
            panel("Objects that fail", "short")
                .says(
                    "Objects whose last reconcile failed. `kubectl get millrace \
                     --all-namespaces` shows which are not ready.",
                )
                .line("max(millrace_operator_objects_failing)".into(), "objects"),
            panel("Writes", "cps")
                .says("Objects written. A converged operator writes nothing.")
                .line(own_rate("kind", "writes_total"), "{{kind}}"),
            panel("Leader", "short")
                .says("1 for the leader.")
                .line("max by (pod) (millrace_operator_leader)".into(), "{{pod}}"),
            panel("Memory", "bytes")
                .says("Resident memory.")
                .line("max by (pod) (process_resident_memory_bytes and on (instance) millrace_operator_leader)".into(), "{{pod}}"),
        ],
    }
}

fn records(title: &'static str, metric: &str, of: Of) -> Panel {
    panel(title, "cps")
        .says("By signal.")
        .line(rate("pool, signal", metric, of), "{{pool}} {{signal}}")
}

fn refused(of: Of) -> Panel {
    panel("Refused", "cps")
        .says("Records that were refused: clients retry or correct them.")
        .line(rate_or_zero("millrace_records_refused_total", of), "{{pool}}")
}

fn memory(of: Of) -> Panel {
    panel("Memory", "bytes")
        .says("Resident memory of the largest pod; the byte budget for records, and its use.")
        .line(fold("max", "pool", "process_resident_memory_bytes", of), "{{pool}} resident")
        .line(fold("max", "pool", "millrace_bytes_in_flight", of), "{{pool}} in flight")
        .line(fold("max", "pool", "millrace_budget_bytes", of), "{{pool}} budget")
}

fn processor(of: Of) -> Panel {
    panel("CPU", "short")
        .says("Cores used by all pods of a pool.")
        .line(rate("pool", "process_cpu_seconds_total", of), "{{pool}}")
}
