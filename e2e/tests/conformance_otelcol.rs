//! Ours and the OpenTelemetry Collector's, on the same Kafka topics and into the same tables: what
//! they write is compared row by row and column by column, and each reads what the other published.
//! Every difference there may be is listed here and justified in docs/conformance.md.
//!
//! Not part of `make test`: the Collector is built from its Go modules, some 150 s the first time.
//! `make conformance` runs it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "conformance/odd.rs"]
mod odd;
#[path = "conformance/otelcol.rs"]
mod otelcol;
#[path = "conformance/rows.rs"]
mod rows;

use std::time::Duration;

use millrace_e2e::lab::{Lab, SIGNALS, Variant};
use millrace_e2e::loadgen::Load;
use millrace_e2e::{topics, wait};

/// For some thousand records on a busy machine, a Go program's start included.
const LIMIT: Duration = Duration::from_secs(180);
/// Records of each load: enough for every rare case.
const RECORDS: u64 = 2_000;
const VARIANTS: [Variant; 2] = [Variant::Json, Variant::Map];

/// What the loads are: every signal, spans in both shapes.
const LOADS: [(&str, &str); 4] =
    [("traces", "lean"), ("traces", "rich"), ("logs", "lean"), ("metrics", "lean")];

fn attributes(variant: Variant) -> &'static str {
    match variant {
        Variant::Json => "json",
        Variant::Map => "map",
    }
}

/// Scenario: one edge of ours publishes every signal; our gateways and the Collector read the same
/// topics, in both variants. Guarantee: the Collector reads all of it, its rows are those that were
/// sent, to the judge's eye, and equal ours column by column; but for the ids of exemplars outside
/// of any trace, which it writes as zeros.
#[test]
fn the_collectors_rows_are_ours() {
    let lab = Lab::start().unwrap();
    lab.make_tables(Variant::Map.database(), Variant::Map).unwrap();
    for variant in VARIANTS {
        lab.make_tables(&otelcol::database(variant), variant).unwrap();
    }
    let edge = lab.edge().unwrap();
    let _json = lab.gateway_into("json", "lab-json", Variant::Json, "").unwrap();
    let _map = lab.gateway_into("map", "lab-map", Variant::Map, "").unwrap();
    let _theirs = otelcol::gateway(&lab).unwrap();
    for (seed, (signal, shape)) in (1..).zip(LOADS) {
        let load = Load { signal, shape, ..lab.load(&edge, seed, RECORDS) };
        let state = load.send(lab.folder(), LIMIT).unwrap();
        for variant in VARIANTS {
            let database = variant.database().to_owned();
            let ours = Load { database, attributes: attributes(variant), ..load.clone() };
            let verdict = ours.check(&state, lab.folder(), LIMIT).unwrap();
            assert!(verdict.line.starts_with("verified"), "{signal} {}", verdict.line);
            // The exporter of this version has no JSON for metrics.
            if (signal, variant) == ("metrics", Variant::Json) {
                continue;
            }
            let theirs = Load { database: otelcol::database(variant), ..ours };
            let verdict = theirs.check(&state, lab.folder(), LIMIT).unwrap();
            assert_eq!((verdict.stored, verdict.duplicated), (RECORDS, 0), "{}", verdict.line);
            let is_known = |fault: &String| fault.contains("column Exemplars.SpanId: found [\"00");
            assert!(verdict.faults.iter().all(is_known), "{:?}", verdict.faults);
            assert_eq!(verdict.faults.is_empty(), signal != "metrics", "{}", verdict.line);
        }
    }
    for variant in VARIANTS {
        let differing = rows::differing_columns(&lab, variant).unwrap();
        let known: Vec<String> = rows::known(variant).map(str::to_owned).collect();
        assert_eq!(differing, known, "{variant:?}");
    }
}

/// Scenario: log records with one odd value each: doubles without a fraction, texts that look like
/// dates, empty, mixed and nested lists, doubled, clashing and empty keys. Guarantee: what both
/// write is the same, but for the cases listed, each with what it is in both.
#[test]
fn odd_values_differ_only_as_listed() {
    let lab = Lab::start().unwrap();
    lab.make_tables(Variant::Map.database(), Variant::Map).unwrap();
    for variant in VARIANTS {
        lab.make_tables(&otelcol::database(variant), variant).unwrap();
    }
    let _json = lab.gateway_into("json", "lab-json", Variant::Json, "").unwrap();
    let _map = lab.gateway_into("map", "lab-map", Variant::Map, "").unwrap();
    let _theirs = otelcol::gateway(&lab).unwrap();
    let request = odd::request();
    topics::produce(&lab.broker.bootstrap(), "otlp_logs", 0, &request).unwrap();
    for variant in VARIANTS {
        let found = wait::until("all odd records", LIMIT, || odd::rows(&lab, variant)).unwrap();
        let listed = odd::differences(variant);
        assert_eq!(found, listed, "{variant:?}");
    }
}

/// Scenario: the Collector as an edge publishes every signal. Guarantee: our gateway stores every
/// record once and unaltered.
#[test]
fn the_collectors_topics_are_read() {
    let lab = Lab::start().unwrap();
    let (_theirs, endpoint) = otelcol::edge(&lab).unwrap();
    let _gateway = lab.gateway("gateway", "").unwrap();
    for (seed, signal) in (1..).zip(SIGNALS) {
        let shape = if signal == "traces" { "rich" } else { "lean" };
        let load = Load { signal, shape, ..lab.load_to(endpoint.clone(), seed, RECORDS) };
        let verdict = load.run(lab.folder(), LIMIT).unwrap();
        assert_eq!(verdict.stored, RECORDS, "{signal} {}", verdict.line);
        assert!(verdict.line.starts_with("verified"), "{signal} {}", verdict.line);
    }
}
