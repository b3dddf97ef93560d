//! Tests of layouts: what each choice changes, and above all what none of them does.

use super::*;
use crate::types::ColumnType;

fn path(text: &str) -> AttributePath {
    text.parse().unwrap()
}

fn typed(column: AttributeColumn, text: &str) -> TypedPath {
    TypedPath { column, path: path(text), is_repeating: true }
}

fn own(name: &str, column: AttributeColumn) -> Materialized {
    let name = Identifier::new(name).unwrap();
    Materialized { name, column, path: path("k8s.pod.name"), ty: OwnType::Name }
}

fn every_layout() -> Vec<Layout> {
    let mut all = Vec::new();
    let readers = [Reader::Otel, Reader::Otel151, Reader::ClickStack];
    let partitions = [Partition::Day, Partition::Week, Partition::Month, Partition::Whole];
    let both = readers.into_iter().flat_map(|reader| partitions.map(|each| (reader, each)));
    for (reader, partition) in both {
        for order in [Order::ServiceFirst, Order::TimeFirst] {
            for compression in [Compression::Zstd, Compression::ZstdHigher, Compression::Lz4] {
                for body_index in [BodyIndex::Tokens, BodyIndex::Text, BodyIndex::LeftOut] {
                    for attribute_index in [
                        AttributeIndex::LeftOut,
                        AttributeIndex::Usual,
                        AttributeIndex::Keys,
                        AttributeIndex::Text,
                    ] {
                        all.push(Layout {
                            reader,
                            partition,
                            order,
                            compression,
                            body_index,
                            attribute_index,
                            ..Layout::default()
                        });
                    }
                }
            }
        }
    }
    all
}

/// Guarantee: the default layout is the plain table.
#[test]
fn the_default_layout_changes_nothing() {
    for kind in TableKind::ALL {
        for attributes in [Attributes::Json, Attributes::Map] {
            assert_eq!(laid_out(kind, attributes, &Layout::default()), table(kind, attributes));
        }
    }
}

/// Guarantee: in every layout an insert names the same columns of the same types in the same order;
/// index names stay unique and keys keep their prefix.
#[test]
fn no_layout_changes_what_an_insert_carries() {
    for layout in every_layout() {
        for kind in TableKind::ALL {
            for attributes in [Attributes::Json, Attributes::Map] {
                let laid = laid_out(kind, attributes, &layout);
                let plain = table(kind, attributes);
                let seen = |table: &Table| -> Vec<(&str, ColumnType)> {
                    table.insert_columns().map(|column| (column.name, column.ty)).collect()
                };
                assert_eq!(seen(&laid), seen(&plain), "{kind} {layout:?}");
                assert!(laid.order_by.starts_with(&laid.primary_key), "{kind} {layout:?}");
                let mut names: Vec<_> = laid.indexes.iter().map(|index| index.name).collect();
                names.sort_unstable();
                names.dedup();
                assert_eq!(names.len(), laid.indexes.len(), "{kind} {layout:?}");
            }
        }
    }
}

/// Guarantee: every partition is a day or made of whole days.
#[test]
fn no_partition_is_finer_than_a_day() {
    for layout in every_layout() {
        let laid = laid_out(TableKind::Traces, Attributes::Json, &layout);
        let coarse = matches!(
            laid.partition_by,
            Expr::ToDate(_) | Expr::ToMonday(_) | Expr::ToYearMonth(_) | Expr::Whole
        );
        assert!(coarse, "{layout:?}");
    }
}

/// Scenario: layouts that cannot be. Guarantee: each is refused, by its field.
#[test]
fn a_layout_that_cannot_be_is_refused_by_its_field() {
    let refused = |layout: Layout, kind, attributes, words: &str| {
        let message = layout.check(kind, attributes).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    let resource = AttributeColumn::Resource;
    let with_paths = |typed_paths| Layout { typed_paths, ..Layout::default() };
    let with_own = |materialized| Layout { materialized, ..Layout::default() };
    refused(
        with_paths(vec![typed(resource, "a")]),
        TableKind::Logs,
        Attributes::Map,
        "typedPaths: attributes stored as Map",
    );
    for paths in [["a.b", "a.b"], ["a.b", "a"], ["a", "a.b.c"]] {
        let paths = paths.map(|text| typed(resource, text)).to_vec();
        refused(with_paths(paths), TableKind::Logs, Attributes::Json, "typedPaths: ");
    }
    refused(
        with_own(vec![own("Pod", AttributeColumn::Scope)]),
        TableKind::Traces,
        Attributes::Json,
        "materialized: traces has no scope attributes",
    );
    for own_columns in
        [vec![own("TraceId", resource)], vec![own("Pod", resource), own("Pod", resource)]]
    {
        refused(with_own(own_columns), TableKind::Logs, Attributes::Json, "is there already");
    }
    let many = (0..=MAX_OWN_COLUMNS).map(|at| own(&format!("c{at}"), resource)).collect();
    refused(with_own(many), TableKind::Logs, Attributes::Json, "33 are given");
    let fine = with_paths(vec![typed(resource, "a.b"), typed(resource, "a.bc")]);
    assert_eq!(fine.check(TableKind::Logs, Attributes::Json), Ok(()));
}

/// Scenario: names of attributes, good and bad. Guarantee: only those that can't leave their quotes
/// are taken.
#[test]
fn attribute_names_are_checked() {
    for good in ["k8s.pod.name", "http.request.header.x-id", "a", "aws/region", "A_1"] {
        assert!(good.parse::<AttributePath>().is_ok(), "{good}");
    }
    let long = "a".repeat(MAX_PATH_BYTES + 1);
    for bad in ["", ".", "a.", ".a", "a..b", "1a", "a b", "a`b", "a'b", "a\\", "a\"", "ä", &long] {
        assert!(bad.parse::<AttributePath>().is_err(), "{bad}");
    }
}

/// Scenario: the tables for each reader. Guarantee: what its queries and its own writer stand on:
/// the column of whole seconds where it filters by it and nowhere else, its names as columns, its
/// order, its index of words in any case.
#[test]
fn a_readers_tables_are_as_its_own() {
    let of = |reader, kind, attributes| {
        laid_out(kind, attributes, &Layout { reader, ..Layout::default() })
    };
    let logs = of(Reader::Otel151, TableKind::Logs, Attributes::Map);
    assert!(logs.column("TimestampTime").is_none());
    assert_eq!(logs.ttl_from, Expr::ToDateTime("Timestamp"));
    let five_minutes = Expr::ToStartOfFiveMinutes("Timestamp");
    let front = [five_minutes, Expr::Column("ServiceName")];
    assert_eq!(logs.order_by, [front[0], front[1], Expr::Column("Timestamp")]);
    assert!(logs.computed.iter().any(|own| own.name == "__otel_materialized_k8s.pod.name"));
    assert!(logs.indexes.iter().any(|index| index.name == "idx_event_name"));
    assert_eq!(of(Reader::Otel151, TableKind::Logs, Attributes::Json).primary_key, front);
    let hdx = of(Reader::ClickStack, TableKind::Logs, Attributes::Map);
    assert!(hdx.column("TimestampTime").is_some());
    assert_eq!(hdx.computed.len(), 8);
    for table in [&logs, &hdx] {
        let body: Vec<_> =
            table.indexes.iter().filter(|index| index.name.contains("body")).collect();
        assert_eq!((body.len(), body[0].expr), (1, Expr::Lower("Body")));
    }
    let spans = of(Reader::ClickStack, TableKind::Traces, Attributes::Map);
    let names: Vec<_> = spans.computed.iter().map(|own| own.name).collect();
    assert_eq!(names, ["__hdx_materialized_rum.sessionId", "SampleRate"]);
    for reader in [Reader::Otel151, Reader::ClickStack] {
        let points = of(reader, TableKind::MetricsSum, Attributes::Map);
        assert_eq!(points.order_by[2], Expr::ToStartOfHour("TimeUnix"));
        assert_eq!(points.order_by[3], Expr::CityHash64("Attributes"));
        let json = of(reader, TableKind::MetricsSum, Attributes::Json);
        assert_eq!(json.order_by.len(), 4, "JSON can't be hashed");
    }
}

/// Scenario: an index of words instead of tokens, none, and a user's column named as a reader's.
/// Guarantee: the index over small letters follows; the name is refused.
#[test]
fn choices_hold_for_a_readers_tables_too() {
    let layout =
        |body_index| Layout { reader: Reader::ClickStack, body_index, ..Layout::default() };
    let body = |body_index| {
        let table = laid_out(TableKind::Logs, Attributes::Map, &layout(body_index));
        let found = table.indexes.iter().find(|index| index.name == "idx_lower_body").copied();
        found.map(|index| index.kind)
    };
    assert_eq!(body(BodyIndex::Text), Some(IndexKind::TextOfWords));
    assert_eq!(body(BodyIndex::LeftOut), None);
    let taken = Layout {
        materialized: vec![own("SampleRate", AttributeColumn::Record)],
        ..layout(BodyIndex::Tokens)
    };
    let refused = taken.check(TableKind::Traces, Attributes::Map).unwrap_err();
    assert!(refused.to_string().contains("SampleRate"), "{refused}");
    assert_eq!(taken.check(TableKind::Logs, Attributes::Map), Ok(()));
}
