//! Crate walls, read from cargo metadata: an edge may only point to a room further left, pure
//! crates link no runtime, and raw decoders are linked by one crate alone.

use std::fs;
use std::ops::Range;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell;

/// The rooms, left to right (docs/internals/architecture.md, "Crates"). A name that ends with `*` is
/// each crate that begins so and has no room of its own.
const LAYERS: &[&[&str]] = &[
    &["millrace-certificates", "millrace-seeds", "millrace-stack"],
    &[
        "millrace-crds",
        "millrace-autoscale",
        "millrace-rollout",
        "millrace-figures",
        "millrace-share-documents",
        "millrace-ledger",
        "millrace-wire",
        "millrace-schema",
        "millrace-keeper-histories",
        "millrace-coordination",
    ],
    &["millrace-processing", "millrace-shares"],
    &["millrace-config"],
    &["millrace-observe", "millrace-oauth"],
    &[
        "millrace-reports",
        "millrace-columns",
        "millrace-lines",
        "millrace-scrape",
        "millrace-tail",
        "millrace-ddl",
        "millrace-kafka-tokens",
        "millrace-pipeline",
        "millrace-buffer",
        "millrace-librdkafka-clock",
        "millrace-sim",
        "millrace-shares-sim",
    ],
    &["millrace-fake-publisher", "millrace-rule-settings"],
    &[
        "millrace-source-*",
        "millrace-sink-*",
        "millrace-rules",
        "millrace-pods",
        "millrace-monitors",
        "millrace-console",
        "millrace-convert",
        "millrace-loadgen",
    ],
    &["millrace-source-kernel", "millrace-dead-letters"],
    &["millrace-collector", "millrace-operator", "millrace-plugin"],
    &["millrace-clock", "millrace-docs"],
    &["millrace-e2e", "millrace-fuzz", "xtask"],
    &[
        "millrace-bench",
        "millrace-chaos",
        "millrace-keeper-bench",
        "millrace-keeper-faults",
        "millrace-operator-bench",
    ],
];

/// Edges that point left and are forbidden all the same (but for tests).
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "millrace-operator",
        &["millrace-pipeline", "millrace-source-*", "millrace-sink-*", "millrace-dead-letters"],
    ),
    // It knows the kinds and the words of decisions, never how the operator comes to them.
    ("millrace-plugin", &["millrace-ddl", "millrace-pipeline", "millrace-config"]),
    ("millrace-collector", &["millrace-crds", "millrace-autoscale", "millrace-rollout"]),
    (
        "millrace-source-*",
        &["millrace-columns", "millrace-ddl", "millrace-crds", "millrace-shares"],
    ),
    ("millrace-sink-*", &["millrace-ledger", "millrace-crds"]),
    ("millrace-sink-kafka", &["millrace-columns"]),
    ("millrace-rules", &["millrace-ledger", "millrace-columns", "millrace-crds"]),
    ("millrace-pods", &["millrace-tail", "millrace-crds", "millrace-shares"]),
    ("millrace-loadgen", &["millrace-pipeline", "millrace-columns", "millrace-crds"]),
    ("millrace-ddl", &["millrace-config", "millrace-crds", "millrace-wire"]),
    // Black-box tests run the collector as a program.
    ("millrace-e2e", &["millrace-collector"]),
    ("millrace-bench", &["millrace-collector", "millrace-operator", "xtask"]),
    ("millrace-chaos", &["millrace-collector", "millrace-operator", "xtask"]),
    ("millrace-keeper-faults", &["millrace-collector", "millrace-operator", "xtask"]),
    // Of the operator it links the form of managed fields alone, for its API server.
    ("millrace-operator-bench", &["millrace-collector", "xtask"]),
];

/// The stack and the tasks run the products as programs, and Keeper's load has nothing to do with
/// them; they link none of their parts.
const OUTSIDE: &[&str] = &["millrace-stack", "millrace-clock", "xtask", "millrace-keeper-bench"];
/// The products' rooms. What is further left is for tests of all: products link it in theirs alone.
const PRODUCT_LAYERS: Range<usize> = 1..10;
/// What else is for tests alone.
const FOR_TESTS: &[&str] = &["millrace-fake-publisher"];

/// Crates with no clock, no I/O and no async: they may link none of `RUNTIMES`.
const PURE: &[&str] = &[
    "millrace-autoscale",
    "millrace-rollout",
    "millrace-figures",
    "millrace-shares",
    "millrace-share-documents",
    "millrace-monitors",
    "millrace-rule-settings",
    "millrace-reports",
    "millrace-console",
    "millrace-convert",
    "millrace-ledger",
    "millrace-wire",
    "millrace-schema",
    "millrace-columns",
    "millrace-processing",
    "millrace-lines",
    "millrace-scrape",
    "millrace-tail",
    "millrace-crds",
    "millrace-keeper-histories",
    "millrace-coordination",
];

const RUNTIMES: &[&str] = &[
    "tokio",
    "futures",
    "hyper",
    "hyper-util",
    "axum",
    "tonic",
    "rdkafka",
    "clickhouse",
    "jiff",
    "prometheus",
    "tracing",
];

/// Raw decompressors, and who may link them: `wire` decodes under caps; `source-files` reads
/// compressed log files as streams, a buffer at a time (`unpack.rs`), `source-prometheus` bodies
/// (`gunzip.rs`); `loadgen` and `stack` only
/// compress; `bench` undoes its own bytes, by code that doesn't change with ours (`yardstick.rs`).
const DECODERS: &[&str] = &["flate2", "zstd", "lz4_flex", "brotli", "snap"];
const MAY_LINK_DECODERS: &[&str] = &[
    "millrace-wire",
    "millrace-source-files",
    "millrace-source-prometheus",
    "millrace-loadgen",
    "millrace-stack",
    "millrace-bench",
];

/// What compiles tests' points of failure in.
const ASSERTIONS: &str = "debug-assertions";
/// The feature that compiles in what settings say of themselves, and the one crate that asks for
/// it.
const DESCRIBED: (&str, &str) = ("json-schema", "millrace-docs");

struct Edge {
    from: String,
    to: String,
    dev: bool,
}

/// One line for each broken rule.
pub(super) fn broken_rules() -> Result<Vec<String>> {
    let text = shell::output("cargo", &["metadata", "--format-version", "1", "--no-deps"])?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut broken = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package without a name")?;
        if layer(name).is_none() {
            broken.push(format!("crate {name} is in no room: add it to LAYERS in walls.rs"));
        }
    }
    for edge in edges(packages) {
        broken.extend(judge(&edge));
    }
    let manifest = shell::root().join("Cargo.toml");
    let manifest = fs::read_to_string(&manifest).context("cannot read the workspace's manifest")?;
    broken.extend(points(&manifest));
    broken.extend(packages.iter().filter_map(described));
    Ok(broken)
}

/// Programs with debug assertions have tests' points of failure (`millrace_pipeline::failpoint`),
/// so no profile may switch these on: cargo does for `dev` and for what inherits it.
fn points(manifest: &str) -> Option<String> {
    manifest.contains(ASSERTIONS).then(|| {
        format!("Cargo.toml sets {ASSERTIONS}: what is shipped would have tests' points of failure")
    })
}

/// A crate that would ship what is only for the pages.
fn described(package: &Value) -> Option<String> {
    let (feature, asks) = DESCRIBED;
    let name = package["name"].as_str().unwrap_or_default();
    (asks_for(package, feature) && name != asks)
        .then(|| format!("{name} has the feature {feature} by default: only {asks} may ask for it"))
}

/// Whether a crate has a feature by default, or asks for it in another.
fn asks_for(package: &Value, feature: &str) -> bool {
    let has = |list: &Value| {
        let mut names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        names.any(|name| name.ends_with(feature))
    };
    let mut dependencies = package["dependencies"].as_array().into_iter().flatten();
    has(&package["features"]["default"]) || dependencies.any(|one| has(&one["features"]))
}

fn edges(packages: &[Value]) -> Vec<Edge> {
    let mut edges = Vec::new();
    for package in packages {
        let dependencies = package["dependencies"].as_array();
        for dependency in dependencies.into_iter().flatten() {
            edges.push(Edge {
                from: package["name"].as_str().unwrap_or_default().to_owned(),
                to: dependency["name"].as_str().unwrap_or_default().to_owned(),
                dev: dependency["kind"].as_str() == Some("dev"),
            });
        }
    }
    edges
}

fn layer(name: &str) -> Option<usize> {
    let own = LAYERS.iter().position(|rooms| rooms.contains(&name));
    own.or_else(|| LAYERS.iter().position(|rooms| rooms.iter().any(|room| is_of(room, name))))
}

/// Whether a crate is named, or begins as the name does that ends with `*`.
fn is_of(room: &str, name: &str) -> bool {
    room.strip_suffix('*').map_or(room == name, |beginning| name.starts_with(beginning))
}

fn judge(edge: &Edge) -> Option<String> {
    let Edge { from, to, dev } = edge;
    if let (Some(here), Some(there)) = (layer(from), layer(to)) {
        let forbidden = FORBIDDEN
            .iter()
            .any(|(room, banned)| is_of(room, from) && banned.iter().any(|one| is_of(one, to)));
        if there >= here {
            return Some(format!("{from} depends on {to}: an edge may only point left"));
        }
        let outside = OUTSIDE.contains(&&**from) && PRODUCT_LAYERS.contains(&there);
        let is_for_tests = there < PRODUCT_LAYERS.start || FOR_TESTS.contains(&&**to);
        let shipped = PRODUCT_LAYERS.contains(&here) && is_for_tests;
        if ((forbidden || shipped) && !dev) || outside {
            return Some(format!("{from} depends on {to}: that edge is forbidden (walls.rs)"));
        }
    }
    if !dev && PURE.contains(&&**from) && RUNTIMES.contains(&&**to) {
        return Some(format!("{from} is pure and may not link {to}"));
    }
    if !dev && DECODERS.contains(&&**to) && !MAY_LINK_DECODERS.contains(&&**from) {
        return Some(format!("{from} links {to}: raw decoders live in millrace-wire"));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ASSERTIONS, Edge, described, judge, points};

    fn edge(from: &str, to: &str) -> Edge {
        Edge { from: from.to_owned(), to: to.to_owned(), dev: false }
    }

    /// Scenario: edges that the house allows. Guarantee: none is refused.
    #[test]
    fn edges_that_point_left_pass() {
        for (from, to) in [
            ("millrace-columns", "millrace-wire"),
            ("millrace-collector", "millrace-source-otlp"),
            ("millrace-operator", "millrace-ddl"),
            ("millrace-wire", "flate2"),
            ("millrace-bench", "millrace-certificates"),
        ] {
            assert_eq!(judge(&edge(from, to)), None, "{from} -> {to}");
        }
        let test = Edge { dev: true, ..edge("millrace-ddl", "millrace-certificates") };
        assert_eq!(judge(&test), None);
    }

    /// Scenario: a release profile with debug assertions, and one without. Guarantee: the first is
    /// refused.
    #[test]
    fn points_of_failure_are_never_shipped() {
        assert_eq!(points("[profile.release]\nlto = \"thin\"\n"), None);
        let shipped = points("[profile.release]\ndebug-assertions = true\n");
        assert!(shipped.is_some_and(|message| message.contains(ASSERTIONS)));
    }

    /// Scenario: the pages' crate and another ask for what settings say of themselves. Guarantee:
    /// the other is refused.
    #[test]
    fn what_is_for_the_pages_is_not_shipped() {
        let asking = |name| json!({"name": name, "dependencies": [{"features": ["json-schema"]}]});
        assert_eq!(described(&asking("millrace-docs")), None);
        assert!(described(&asking("a")).is_some_and(|message| message.starts_with("a has")));
    }

    /// Scenario: an edge to the right, a forbidden one, a runtime in a pure crate, a raw decoder.
    /// Guarantee: each is refused with both names in the message.
    #[test]
    fn edges_through_a_wall_are_refused() {
        for (from, to) in [
            ("millrace-wire", "millrace-columns"),
            ("millrace-source-otlp", "millrace-sink-kafka"),
            ("millrace-operator", "millrace-pipeline"),
            ("millrace-ledger", "rdkafka"),
            ("xtask", "millrace-wire"),
            ("millrace-stack", "millrace-loadgen"),
            ("millrace-sink-kafka", "flate2"),
            ("millrace-ddl", "millrace-certificates"),
            ("millrace-bench", "millrace-collector"),
            ("millrace-chaos", "millrace-collector"),
        ] {
            let message = judge(&edge(from, to)).unwrap_or_default();
            assert!(message.contains(from) && message.contains(to), "{from} -> {to}: {message}");
        }
    }
}
