//! What our columns store of the committed requests, against the rows that the OpenTelemetry
//! Collector's exporter made of the same bytes. The differences there may be are the listed ones,
//! each justified in docs/internals/conformance.md. Not here: the Collector itself; `make conformance` runs
//! it and holds the committed rows against its own.

use std::collections::BTreeSet;

use crate::conformance::{committed, odd, rows};
use crate::tables::columns::tables::Tables;
use millrace_columns::BlockSet;
use millrace_e2e::lab::Variant;
use millrace_schema::{AttributeStorage, TableKind};

/// Scenario: the committed requests of every signal, the odd values among them, through our
/// encoder into a real engine. Guarantee: each row is the Collector's, cell by cell, but for what
/// is listed; what is listed for odd values does differ, in just that way.
fn our_rows_are_the_collectors(attributes: AttributeStorage, variant: Variant) {
    let tables = Tables::new(attributes);
    for request in committed::requests().unwrap() {
        let mut set = BlockSet::new(request.signal, &tables.options);
        set.append(&request.bytes).unwrap();
        tables.send(&mut set);
    }
    let mut differing = BTreeSet::new();
    for table in rows::tables(variant) {
        let (theirs, their_odd) = committed::rows(&table, variant).unwrap();
        let ours = rows::read(&tables.engine, "otel", &table).unwrap();
        let (ours, our_odd) = committed::split(&table, ours);
        differing.append(&mut rows::differing(&table, &ours, &theirs).unwrap());
        if table.kind == TableKind::Logs {
            let found = odd::differing(&table, &our_odd, &their_odd).unwrap();
            assert_eq!(found, odd::differences(variant));
        }
    }
    let known = rows::known(variant);
    assert!(differing.is_subset(&known), "{differing:?}");
    assert!(!differing.is_empty(), "the data holds none of the differences there are");
}

/// See [`our_rows_are_the_collectors`]: JSON attributes, for which the exporter has no metrics.
#[test]
fn our_rows_in_json_tables_are_the_collectors() {
    our_rows_are_the_collectors(AttributeStorage::Json, Variant::Json);
}

/// See [`our_rows_are_the_collectors`]: Map attributes, all signals.
#[test]
fn our_rows_in_map_tables_are_the_collectors() {
    our_rows_are_the_collectors(AttributeStorage::Map, Variant::Map);
}
