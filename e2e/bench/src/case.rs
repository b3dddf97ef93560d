//! What can be measured: every case, as data.

use anyhow::{Result, bail};

use crate::dataset::Dataset;
use crate::files::FilesCase;
use crate::once::OnceCase;
use crate::rules::RulesCase;
use crate::scrape::ScrapeCase;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// The figures of the documentation.
    Full,
    /// A third of it, for a look.
    Quick,
}

/// What a gateway writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The sink in the harness.
    NullSink,
    /// Null tables of a real engine.
    Engine,
}

/// How a load reaches an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// `grpc` or `http`, as the load generator calls it.
    pub(crate) protocol: &'static str,
    /// `gzip` or `none`.
    pub(crate) compression: &'static str,
    /// Records a second; as fast as they are taken without.
    pub(crate) rate: Option<u64>,
}

/// One side of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Kafka to ClickHouse.
    Gateway {
        /// What is drained.
        dataset: Dataset,
        /// Where to.
        target: Target,
        /// `AtLeastOnce` or `EffectivelyOnce`.
        delivery: &'static str,
        /// `JSON` or `Map`.
        attributes: &'static str,
        /// A topic much longer than the others: what waits must not take memory.
        is_backlog: bool,
    },
    /// OTLP to Kafka.
    Edge(Way),
    /// OTLP to Kafka, with rules.
    Rules(RulesCase, Way),
    /// No collector: each stage by itself.
    Stages,
    /// No collector: bytes of log files to OTLP.
    Lines,
    /// Targets' bodies to OTLP, or targets to Kafka.
    Scrape(ScrapeCase),
    /// Log files to Kafka.
    Files(FilesCase),
    /// From OTLP to merged parts, by each way of storing.
    Bill(Dataset),
    /// What exactly once would cost log files.
    Once(OnceCase),
}

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    /// Its name on the command line and in results.
    pub(crate) name: &'static str,
    /// What runs.
    pub(crate) side: Side,
    /// The collector built with this allocator; the default build when absent.
    pub(crate) allocator: Option<&'static str>,
    /// Whether other collectors can run it too.
    pub(crate) is_for_peers: bool,
    /// How many records, if the command line says so.
    pub(crate) count: Option<u64>,
}

/// What an edge takes on an ordinary day, in requests of 1,000: it rests between them.
const EVERYDAY: Side =
    Side::Edge(Way { protocol: "grpc", compression: "gzip", rate: Some(145_000) });

/// What the Collector's exporter sends unless its settings say otherwise.
const GZIP: Way = Way { protocol: "grpc", compression: "gzip", rate: None };
/// What SDKs send unless their settings say otherwise.
const PLAIN: Way = Way { protocol: "grpc", compression: "none", rate: None };

/// Records of a bill.
const BILL_RECORDS: u64 = 10_000_000;

const LEAN: Side = gateway(Dataset::Lean);

const fn gateway(dataset: Dataset) -> Side {
    Side::Gateway {
        dataset,
        target: Target::NullSink,
        delivery: "AtLeastOnce",
        attributes: "JSON",
        is_backlog: false,
    }
}

const fn engine(dataset: Dataset) -> Side {
    Side::Gateway {
        dataset,
        target: Target::Engine,
        delivery: "AtLeastOnce",
        attributes: "JSON",
        is_backlog: false,
    }
}

const fn edge(protocol: &'static str, compression: &'static str) -> Side {
    Side::Edge(Way { protocol, compression, rate: None })
}

const fn ours(name: &'static str, side: Side) -> Case {
    Case { name, side, allocator: None, is_for_peers: false, count: None }
}

const fn shared(name: &'static str, side: Side) -> Case {
    Case { name, side, allocator: None, is_for_peers: true, count: None }
}

const fn built_with(name: &'static str, allocator: &'static str) -> Case {
    Case { name, side: LEAN, allocator: Some(allocator), is_for_peers: false, count: None }
}

/// All cases, in the order they run.
pub(crate) const ALL: &[Case] = &[
    shared("gateway-lean", LEAN),
    shared("gateway-rich", gateway(Dataset::Rich)),
    shared("gateway-logs", gateway(Dataset::Logs)),
    ours("gateway-metrics", gateway(Dataset::Metrics)),
    // The OpenTelemetry Collector's exporter knows no JSON for metrics: side by side it is Map.
    shared(
        "gateway-metrics-map",
        Side::Gateway {
            dataset: Dataset::Metrics,
            target: Target::NullSink,
            delivery: "AtLeastOnce",
            attributes: "Map",
            is_backlog: false,
        },
    ),
    ours(
        "gateway-effectively-once",
        Side::Gateway {
            dataset: Dataset::Lean,
            target: Target::NullSink,
            delivery: "EffectivelyOnce",
            attributes: "JSON",
            is_backlog: false,
        },
    ),
    built_with("allocator-system", "system"),
    built_with("allocator-jemalloc", "jemalloc"),
    built_with("allocator-mimalloc", "mimalloc"),
    ours(
        "gateway-backlog",
        Side::Gateway {
            dataset: Dataset::Lean,
            target: Target::NullSink,
            delivery: "AtLeastOnce",
            attributes: "JSON",
            is_backlog: true,
        },
    ),
    ours("engine-lean", engine(Dataset::Lean)),
    ours("engine-rich", engine(Dataset::Rich)),
    ours("engine-logs", engine(Dataset::Logs)),
    ours("engine-metrics", engine(Dataset::Metrics)),
    shared("edge-grpc-gzip", edge("grpc", "gzip")),
    ours("edge-grpc-plain", edge("grpc", "none")),
    ours("edge-http", edge("http", "gzip")),
    shared("edge-everyday", EVERYDAY),
    shared("rules-none", Side::Rules(RulesCase::Nothing, GZIP)),
    shared("rules-rename", Side::Rules(RulesCase::Rename, GZIP)),
    shared("rules-four", Side::Rules(RulesCase::Four, GZIP)),
    shared("rules-unmatched", Side::Rules(RulesCase::Unmatched, GZIP)),
    shared("rules-drop", Side::Rules(RulesCase::Drop, GZIP)),
    shared("rules-spans-none", Side::Rules(RulesCase::SpansNothing, GZIP)),
    shared("rules-spans", Side::Rules(RulesCase::Spans, GZIP)),
    shared("rules-redact", Side::Rules(RulesCase::Redact, GZIP)),
    ours("rules-route", Side::Rules(RulesCase::Route, GZIP)),
    ours("rules-enrich", Side::Rules(RulesCase::Enrich, GZIP)),
    shared("plain-none", Side::Rules(RulesCase::Nothing, PLAIN)),
    shared("plain-rename", Side::Rules(RulesCase::Rename, PLAIN)),
    shared("plain-four", Side::Rules(RulesCase::Four, PLAIN)),
    shared("plain-unmatched", Side::Rules(RulesCase::Unmatched, PLAIN)),
    shared("plain-drop", Side::Rules(RulesCase::Drop, PLAIN)),
    shared("plain-spans-none", Side::Rules(RulesCase::SpansNothing, PLAIN)),
    shared("plain-spans", Side::Rules(RulesCase::Spans, PLAIN)),
    shared("plain-redact", Side::Rules(RulesCase::Redact, PLAIN)),
    ours("stages", Side::Stages),
    ours("lines", Side::Lines),
    ours("scrape-parse", Side::Scrape(ScrapeCase::Parse)),
    ours("scrape-targets", Side::Scrape(ScrapeCase::Targets)),
    ours("scrape-body", Side::Scrape(ScrapeCase::Body)),
    ours("scrape-series", Side::Scrape(ScrapeCase::Series)),
    ours("bill-lean", Side::Bill(Dataset::Lean)),
    ours("bill-rich", Side::Bill(Dataset::Rich)),
    ours("bill-logs", Side::Bill(Dataset::Logs)),
    ours("bill-metrics", Side::Bill(Dataset::Metrics)),
    ours("files-single-line", Side::Files(FilesCase::SingleLine)),
    ours("files-multiline", Side::Files(FilesCase::Multiline)),
    ours("files-regex", Side::Files(FilesCase::Regex)),
    ours("files-containers", Side::Files(FilesCase::Containers)),
    ours("files-steady", Side::Files(FilesCase::Steady)),
    ours("files-many", Side::Files(FilesCase::Many)),
    ours("files-first-line", Side::Files(FilesCase::FirstLine)),
    ours("once-transactions", Side::Once(OnceCase::Transactions)),
    ours("once-rows", Side::Once(OnceCase::Rows)),
];

/// The cases that a word means: one by its name, or all whose names begin with the word and a dash;
/// for `all` every one but the bill, which takes hours, and `once`, which isn't of the collector. Several words are parted by commas.
pub(crate) fn select(words: &str) -> Result<Vec<Case>> {
    let mut chosen: Vec<Case> = Vec::new();
    for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let exact: Vec<&Case> = ALL.iter().filter(|case| case.name == word).collect();
        let group = |case: &&Case| match word {
            "all" => !matches!(case.side, Side::Bill(_) | Side::Once(_)),
            _ => case.name.strip_prefix(word).is_some_and(|rest| rest.starts_with('-')),
        };
        let found = if exact.is_empty() { ALL.iter().filter(group).collect() } else { exact };
        if found.is_empty() {
            let names: Vec<&str> = ALL.iter().map(|case| case.name).collect();
            bail!("there is no case {word}; there are: {}", names.join(" "));
        }
        for case in found {
            if !chosen.contains(case) {
                chosen.push(*case);
            }
        }
    }
    Ok(chosen)
}

impl Case {
    /// How many records it takes: enough for two CPU-seconds of ours, so that start-up and the
    /// 10 ms ticks of CPU time stay under one percent each. Peers get fewer, being slower.
    pub(crate) fn records(&self, size: Size) -> u64 {
        if let Some(count) = self.count {
            return count;
        }
        let full = match self.side {
            Side::Gateway { is_backlog: true, .. } => 16_000_000,
            Side::Gateway { dataset: Dataset::Lean, .. } => 5_000_000,
            Side::Gateway { dataset: Dataset::Rich, .. } => 1_500_000,
            Side::Gateway { dataset: Dataset::Logs, .. } => 3_000_000,
            Side::Gateway { dataset: Dataset::Metrics, .. } => 2_000_000,
            // Twenty seconds.
            Side::Edge(Way { rate: Some(rate), .. }) => rate * 20,
            Side::Edge(_) => 4_000_000,
            Side::Rules(..) => 3_000_000,
            Side::Bill(_) => BILL_RECORDS,
            Side::Stages | Side::Lines | Side::Scrape(_) | Side::Files(_) | Side::Once(_) => 0,
        };
        match (size, self.side) {
            (Size::Full, _) => full,
            // Its ways are many.
            (Size::Quick, Side::Bill(_)) => full / 20,
            (Size::Quick, _) => full / 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, select};

    /// Scenario: a name, a group, a list, all, a typing error. Guarantee: what was meant, once
    /// each; the error lists what there is.
    #[test]
    fn words_mean_cases_and_groups() {
        let names = |words: &str| -> Vec<&str> {
            select(words).unwrap().iter().map(|case| case.name).collect()
        };
        assert_eq!(names("gateway-lean"), ["gateway-lean"]);
        assert_eq!(names("gateway-metrics"), ["gateway-metrics"]);
        assert_eq!(names("allocator").len(), 3);
        let edges = ["edge-http", "edge-grpc-gzip", "edge-grpc-plain", "edge-everyday"];
        assert_eq!(names("edge-http,edge"), edges);
        assert_eq!(names("bill").len(), 4);
        assert_eq!(names("all").len(), ALL.len() - 6, "all but the bill and once");
        assert!(select("gatway").unwrap_err().to_string().contains("gateway-lean"));
    }
}
