//! What is fuzzed, as plain functions of bytes: one for each entry that somebody else's bytes
//! reach.
//!
//! A function returns if all is well and panics if a rule is broken. Fuzz targets (`libfuzzer/`,
//! outside the workspace because of its compiler flags) and the replay of the committed corpus
//! (`tests/replay.rs`, part of `make test`) call the same functions. `make fuzz` runs them.
//!
//! Nothing here has a clock, does I/O or starts a thread, so that an input always does the same.

mod read;
mod requests;
mod words;
// A pure module of a crate that links a Kafka client, which fuzz targets can do without.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../collector/sinks/clickhouse/src/insert/response.rs"]
mod judged;
pub mod meter;
pub mod mutate;
#[allow(clippy::unwrap_used, clippy::panic)]
#[path = "../../../collector/core/columns/tests/native/mod.rs"]
mod native;
mod reference;
mod reuse;

pub use read::{intent, lines, pods, positions, scrape};
pub use requests::{columns, decompress, json, request, walk};
pub use words::{answer, config, ddl, resource, rules};

/// An entry that is fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: of the fuzz target's binary and of the corpus's archive.
    pub name: &'static str,
    /// Takes an input; panics if a rule is broken.
    pub run: fn(&[u8]),
    /// The longest input worth trying, in bytes: long enough for every feature, short enough to be
    /// fast.
    pub max_bytes: usize,
}

/// Every entry.
pub const TARGETS: &[Target] = &[
    target("walk_traces", walk::traces, 1024),
    target("walk_logs", walk::logs, 1024),
    target("walk_metrics", walk::metrics, 1024),
    target("json", json::text, 1024),
    target("lines", lines::file, 600),
    target("positions", positions::document, 700),
    target("pod_events", pods::events, 900),
    target("pod_annotations", pods::annotations, 400),
    target("scrape_text", scrape::text, 800),
    target("scrape_openmetrics", scrape::open_metrics, 800),
    target("scrape_protobuf", scrape::protobuf, 800),
    target("scrape_escaping", scrape::escaping, 120),
    target("columns_traces", columns::traces, 768),
    target("columns_logs", columns::logs, 768),
    target("columns_metrics", columns::metrics, 768),
    target("gzip", decompress::gzip, 512),
    target("zstd", decompress::zstd, 512),
    target("commit_metadata", intent::metadata, 1024),
    target("config_document", config::document, 1024),
    target("config_words", config::words, 300),
    target("otlp_request", request::otlp, 600),
    target("clickhouse_answer", answer::clickhouse, 400),
    target("ddl_statements", ddl::statements, 300),
    target("ddl_observed", ddl::observed, 500),
    target("resource_words", resource::word, 120),
    target("rules_text", rules::text, 300),
    target("rules_traces", rules::traces, 768),
    target("rules_logs", rules::logs, 768),
    target("rules_metrics", rules::metrics, 768),
];

const fn target(name: &'static str, run: fn(&[u8]), max_bytes: usize) -> Target {
    Target { name, run, max_bytes }
}
