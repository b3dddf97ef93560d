//! Tests of layouts: what each choice changes, and what none may change.

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
    Materialized { name, column, path: path("k8s.pod.name"), ty: ComputedType::Name }
}

/// Returns the type in which writers send a column's values.
fn written_type(stored: ColumnType) -> ColumnType {
    match stored {
        ColumnType::DictionaryMap => ColumnType::Map,
        other => other,
    }
}

fn every_layout() -> Vec<Layout> {
    let mut all = Vec::new();
    let readers = [Reader::Otel, Reader::Otel151, Reader::ClickStack];
    let partitions = [PartitionInterval::Day, PartitionInterval::Month];
    let both = readers.into_iter().flat_map(|reader| partitions.map(|each| (reader, each)));
    for (reader, partition) in both {
        for compression in [ColumnCompression::Zstd, ColumnCompression::ZstdHigher] {
            for body_index in [BodyIndex::Tokens, BodyIndex::Text, BodyIndex::None] {
                for attribute_index in
                    [AttributeIndex::None, AttributeIndex::Default, AttributeIndex::Text]
                {
                    all.push(Layout {
                        reader,
                        partition,
                        compression: Some(compression),
                        body_index,
                        attribute_index,
                        ..Layout::default()
                    });
                }
            }
        }
    }
    all
}

/// Guarantee: the default layout is the plain table with fewer indexes of Maps: those of the values
/// of resources and records. Points have their values in dictionaries.
#[test]
fn the_default_layout_omits_indexes_of_keys_and_scopes() {
    for kind in TableKind::ALL {
        for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
            let mut expected = build_table(kind, attributes);
            if kind != TableKind::TraceIdTs {
                let is_omitted = |expr: &Expr| {
                    matches!(expr, Expr::MapKeys(_) | Expr::MapValues("ScopeAttributes"))
                };
                expected.indexes.retain(|index| !is_omitted(&index.expr));
            }
            if kind.has_points() && attributes == AttributeStorage::Map {
                for column in &mut expected.columns {
                    if ["ResourceAttributes", "Attributes"].contains(&column.name) {
                        column.ty = ColumnType::DictionaryMap;
                    }
                }
            }
            assert_eq!(laid_out(kind, attributes, &Layout::default()), expected);
        }
    }
}

/// Guarantee: in every layout an insert has the same columns of the same types in the same order;
/// index names stay unique and keys retain their prefix.
#[test]
fn no_layout_changes_what_an_insert_carries() {
    for layout in every_layout() {
        for kind in TableKind::ALL {
            for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
                let laid = laid_out(kind, attributes, &layout);
                let plain = build_table(kind, attributes);
                let seen = |table: &Table| -> Vec<(&str, ColumnType)> {
                    table
                        .insert_columns()
                        .map(|column| (column.name, written_type(column.ty)))
                        .collect()
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

/// Scenario: Map tables with and without an inverted index of values, which dictionaries would make
/// useless. Guarantee: only points without one have dictionaries, never scopes or exemplars.
#[test]
fn only_points_store_their_values_in_dictionaries() {
    let dictionaries = |kind, attribute_index| -> Vec<&str> {
        let layout = Layout { attribute_index, ..Layout::default() };
        let laid = laid_out(kind, AttributeStorage::Map, &layout);
        let stored = laid.columns.into_iter();
        stored
            .filter(|column| column.ty != written_type(column.ty))
            .map(|column| column.name)
            .collect()
    };
    for index in [AttributeIndex::None, AttributeIndex::Default] {
        let expected = ["ResourceAttributes", "Attributes"];
        assert_eq!(dictionaries(TableKind::MetricsHistogram, index), expected);
        assert!(dictionaries(TableKind::Logs, index).is_empty());
        assert!(dictionaries(TableKind::Traces, index).is_empty());
    }
    assert!(dictionaries(TableKind::MetricsSum, AttributeIndex::Text).is_empty());
}

/// Guarantee: every partition is a day or made of whole days.
#[test]
fn no_partition_is_finer_than_a_day() {
    for layout in every_layout() {
        let laid = laid_out(TableKind::Traces, AttributeStorage::Json, &layout);
        let coarse = matches!(laid.partition_by, Expr::ToDate(_) | Expr::ToYearMonth(_));
        assert!(coarse, "{layout:?}");
    }
}

/// Scenario: invalid layouts. Guarantee: each is refused, by its field.
#[test]
fn a_layout_that_cannot_be_is_refused_by_its_field() {
    let refused = |layout: Layout, kind, attributes, words: &str| {
        let message = layout.check_table(kind, attributes).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    let resource = AttributeColumn::Resource;
    let with_paths = |typed_paths| Layout { typed_paths, ..Layout::default() };
    let with_own = |materialized| Layout { materialized, ..Layout::default() };
    refused(
        with_paths(vec![typed(resource, "a")]),
        TableKind::Logs,
        AttributeStorage::Map,
        "typedPaths: attributes stored as Map",
    );
    for paths in [["a.b", "a.b"], ["a.b", "a"], ["a", "a.b.c"]] {
        let paths = paths.map(|text| typed(resource, text)).to_vec();
        refused(with_paths(paths), TableKind::Logs, AttributeStorage::Json, "typedPaths: ");
    }
    refused(
        with_own(vec![own("Pod", AttributeColumn::Scope)]),
        TableKind::Traces,
        AttributeStorage::Json,
        "materialized: traces has no scope attributes",
    );
    for own_columns in
        [vec![own("TraceId", resource)], vec![own("Pod", resource), own("Pod", resource)]]
    {
        refused(with_own(own_columns), TableKind::Logs, AttributeStorage::Json, "already exists");
    }
    let many = (0..=MAX_COMPUTED_COLUMNS).map(|at| own(&format!("c{at}"), resource)).collect();
    refused(with_own(many), TableKind::Logs, AttributeStorage::Json, "33 are given");
    let fine = with_paths(vec![typed(resource, "a.b"), typed(resource, "a.bc")]);
    assert_eq!(fine.check_table(TableKind::Logs, AttributeStorage::Json), Ok(()));
}

/// Scenario: valid and invalid names of attributes. Guarantee: only names that can't escape their
/// quotes are accepted.
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

/// Scenario: the tables for each reader. Guarantee: they have what its queries and its own writer
/// depend on: the column of whole seconds only where it filters by it, its names as columns, its
/// order, its case-insensitive index of words.
#[test]
fn a_readers_tables_are_as_its_own() {
    let of = |reader, kind, attributes| {
        laid_out(kind, attributes, &Layout { reader, ..Layout::default() })
    };
    let logs = of(Reader::Otel151, TableKind::Logs, AttributeStorage::Map);
    assert!(logs.column("TimestampTime").is_none());
    assert_eq!(logs.ttl_from, Expr::ToDateTime("Timestamp"));
    let five_minutes = Expr::ToStartOfFiveMinutes("Timestamp");
    let front = [five_minutes, Expr::Column("ServiceName")];
    assert_eq!(logs.order_by, [front[0], front[1], Expr::Column("Timestamp")]);
    assert!(logs.computed.iter().any(|own| own.name == "__otel_materialized_k8s.pod.name"));
    assert!(logs.indexes.iter().any(|index| index.name == "idx_event_name"));
    assert_eq!(of(Reader::Otel151, TableKind::Logs, AttributeStorage::Json).primary_key, front);
    let hdx = of(Reader::ClickStack, TableKind::Logs, AttributeStorage::Map);
    assert!(hdx.column("TimestampTime").is_some());
    assert_eq!(hdx.computed.len(), 8);
    for table in [&logs, &hdx] {
        let body: Vec<_> =
            table.indexes.iter().filter(|index| index.name.contains("body")).collect();
        assert_eq!((body.len(), body[0].expr), (1, Expr::Lower("Body")));
    }
    let spans = of(Reader::ClickStack, TableKind::Traces, AttributeStorage::Map);
    let names: Vec<_> = spans.computed.iter().map(|own| own.name).collect();
    assert_eq!(names, ["__hdx_materialized_rum.sessionId", "SampleRate"]);
    for reader in [Reader::Otel151, Reader::ClickStack] {
        let points = of(reader, TableKind::MetricsSum, AttributeStorage::Map);
        assert_eq!(points.order_by[2], Expr::ToStartOfHour("TimeUnix"));
        assert_eq!(points.order_by[3], Expr::CityHash64("Attributes"));
        let json = of(reader, TableKind::MetricsSum, AttributeStorage::Json);
        assert_eq!(json.order_by.len(), 4, "JSON can't be hashed");
    }
}

/// Scenario: an index of words instead of tokens, no index, and a user's column with a reader's
/// name. Guarantee: the index over lower-case text follows the choice; the name is refused.
#[test]
fn choices_hold_for_a_readers_tables_too() {
    let layout =
        |body_index| Layout { reader: Reader::ClickStack, body_index, ..Layout::default() };
    let body = |body_index| {
        let table = laid_out(TableKind::Logs, AttributeStorage::Map, &layout(body_index));
        let found = table.indexes.iter().find(|index| index.expr == Expr::Lower("Body")).copied();
        found.map(|index| index.kind)
    };
    assert_eq!(body(BodyIndex::Text), Some(IndexKind::TextOfWords));
    assert_eq!(body(BodyIndex::None), None);
    let taken = Layout {
        materialized: vec![own("SampleRate", AttributeColumn::Record)],
        ..layout(BodyIndex::Tokens)
    };
    let refused = taken.check_table(TableKind::Traces, AttributeStorage::Map).unwrap_err();
    assert!(refused.to_string().contains("SampleRate"), "{refused}");
    assert_eq!(taken.check_table(TableKind::Logs, AttributeStorage::Map), Ok(()));
}

/// Scenario: each table with filters, and with inverted indexes in their place. Guarantee: no two
/// kinds of index have one name, so that a table with one of them gets the other too.
#[test]
fn an_index_of_another_kind_has_another_name() {
    let of = |reader, body_index, attribute_index| Layout {
        reader,
        body_index,
        attribute_index,
        ..Layout::default()
    };
    for reader in [Reader::Otel, Reader::Otel151, Reader::ClickStack] {
        let filters = of(reader, BodyIndex::Tokens, AttributeIndex::Default);
        let texts = of(reader, BodyIndex::Text, AttributeIndex::Text);
        for kind in TableKind::ALL {
            for attributes in [AttributeStorage::Map, AttributeStorage::Json] {
                let indexes = |layout| laid_out(kind, attributes, layout).indexes;
                let text = indexes(&texts);
                for filter in &indexes(&filters) {
                    let same = text.iter().find(|index| index.name == filter.name);
                    assert!(same.is_none_or(|index| index.kind == filter.kind), "{filter:?}");
                }
            }
        }
    }
}
