//! Tests that the rows of a set, read back by an independent reader, equal the expected rows of the
//! reference library's messages.

use millrace_columns::{AppendError, BlockSet, BodyCompression, Day, Insert, Options};
use millrace_schema::{AttributeStorage, build_table};
use millrace_wire::Signal;
use oracle::{Oracle, Rows};
use proptest::prelude::*;
use prost::Message;

use crate::native;
use crate::oracle;
use crate::requests;

fn rows(inserts: &[Insert], attributes: AttributeStorage) -> Rows {
    let mut rows = Rows::new();
    for insert in inserts {
        let Insert { table: kind, day: Day(day), number, rows: count, body, plain_bytes } = insert;
        assert_eq!(*number, 0, "one insert per table and day");
        let body = body.concat();
        assert_eq!(*plain_bytes, body.len() as u64);
        let definition = build_table(*kind, attributes);
        let names: Vec<&str> = definition.insert_columns().map(|column| column.name).collect();
        let types: Vec<String> =
            definition.insert_columns().map(|column| column.ty.to_string()).collect();
        let all = rows.entry((*kind, *day)).or_default();
        assert!(all.is_empty(), "one insert per table and day");
        for block in native::blocks(&body) {
            assert_eq!(block.names, names);
            assert_eq!(block.types, types);
            all.extend(block.rows);
        }
        assert_eq!(all.len() as u64, *count);
    }
    rows
}

fn merged(all: impl IntoIterator<Item = Rows>) -> Rows {
    let mut merged = Rows::new();
    for rows in all {
        for (key, mut values) in rows {
            merged.entry(key).or_default().append(&mut values);
        }
    }
    merged
}

fn options() -> BoxedStrategy<Options> {
    (prop_oneof![3 => Just(AttributeStorage::Json), 1 => Just(AttributeStorage::Map)], 0_u32..4)
        .prop_map(|(attributes, nested_depth)| Options { attributes, nested_depth })
        .boxed()
}

/// Requests with their expected rows.
type Batch = Vec<(Vec<u8>, Rows)>;

/// Returns several encoded requests of one signal, with their expected rows.
fn batches(options: Options) -> BoxedStrategy<(Signal, Batch)> {
    use proptest::collection::vec;
    let Options { attributes, nested_depth } = options;
    let oracle = Oracle { attributes, nested_depth };
    // Rows are computed from the decoded message: the reference library doesn't write -0.0.
    prop_oneof![
        vec(requests::traces(), 1..4)
            .prop_map(move |all| (Signal::Traces, pairs(&all, |request| oracle.traces(request)))),
        vec(requests::logs(), 1..4)
            .prop_map(move |all| (Signal::Logs, pairs(&all, |request| oracle.logs(request)))),
        vec(requests::metrics(), 1..4)
            .prop_map(move |all| (Signal::Metrics, pairs(&all, |request| oracle.metrics(request)))),
    ]
    .boxed()
}

fn pairs<M: Message + Default>(all: &[M], rows: impl Fn(&M) -> Rows) -> Batch {
    all.iter()
        .map(|request| {
            let bytes = request.encode_to_vec();
            let rows = rows(&M::decode(bytes.as_slice()).unwrap());
            (bytes, rows)
        })
        .collect()
}

fn options_and_batches() -> BoxedStrategy<(Options, Signal, Batch)> {
    options()
        .prop_flat_map(|options| {
            batches(options).prop_map(move |(signal, batch)| (options, signal, batch))
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Guarantee: each record is a row with the values of the rules, in its table and day, in the
    /// order sent; a reused set gives the same.
    #[test]
    fn rows_are_what_the_messages_say((options, signal, batch) in options_and_batches()) {
        let mut set = BlockSet::new(signal, &options);
        for _ in 0..2 {
            let mut count = 0;
            for (request, expected) in &batch {
                let appended = set.append(request).unwrap();
                let rows: usize = expected.values().map(Vec::len).sum();
                prop_assert_eq!(appended.rows, rows as u64);
                count += appended.rows;
            }
            prop_assert_eq!(set.row_count(), count);
            let expected = merged(batch.iter().map(|(_, rows)| rows.clone()));
            prop_assert_eq!(rows(&set.take_inserts(BodyCompression::None), options.attributes), expected);
            prop_assert_eq!((set.row_count(), set.batch_bytes()), (0, 0));
        }
    }

    /// Guarantee: a malformed request between valid ones leaves nothing behind, wherever it is
    /// broken, and its neighbours are complete.
    #[test]
    fn a_malformed_request_leaves_nothing_behind(
        (options, signal, batch) in options_and_batches(),
        end in any::<prop::sample::Index>(),
    ) {
        let mut set = BlockSet::new(signal, &options);
        let mut expected = Vec::new();
        for (request, rows) in &batch {
            // A tag of an unknown field without a value makes nearly every cut malformed.
            let mut broken = request[..end.index(request.len() + 1)].to_vec();
            broken.extend([0xfa, 0x7f]);
            prop_assume!(BlockSet::new(signal, &options).append(&broken).is_err());
            let (before, bytes) = (set.row_count(), set.batch_bytes());
            prop_assert!(matches!(set.append(&broken), Err(AppendError::Malformed(_))));
            prop_assert_eq!(set.row_count(), before);
            prop_assert!(set.batch_bytes() <= bytes + 64 * 1024, "only keys of dictionaries may stay");
            set.append(request).unwrap();
            expected.push(rows.clone());
        }
        prop_assert_eq!(rows(&set.take_inserts(BodyCompression::None), options.attributes), merged(expected));
    }

    /// Scenario: a batch is written after any of its requests, and a broken request follows each.
    /// Guarantee: it has the same rows in the same inserts as one that was written only at its end.
    #[test]
    fn a_batch_that_is_sealed_on_the_way_has_the_same_inserts(
        (options, signal, batch) in options_and_batches(),
        sealed in proptest::collection::vec(any::<bool>(), 4),
    ) {
        let mut set = BlockSet::new(signal, &options);
        let mut whole = BlockSet::new(signal, &options);
        for round in 0..2 {
            for ((request, _), sealed) in batch.iter().zip(&sealed) {
                set.append(request).unwrap();
                whole.append(request).unwrap();
                if *sealed {
                    set.seal_blocks(BodyCompression::None);
                    prop_assert_eq!(set.open_bytes(), 0);
                }
                let broken = [request.as_slice(), &[0xfa, 0x7f]].concat();
                prop_assert!(set.append(&broken).is_err());
            }
            prop_assert_eq!(set.row_count(), whole.row_count());
            prop_assert_eq!(set.written_bytes(), whole.written_bytes());
            if round == 0 {
                let (set, whole) = (set.take_inserts(BodyCompression::None), whole.take_inserts(BodyCompression::None));
                let named = |inserts: &[Insert]| -> Vec<_> {
                    inserts.iter().map(|i| (i.table, i.day, i.number, i.rows)).collect()
                };
                prop_assert_eq!(named(&set), named(&whole));
                let expected = merged(batch.iter().map(|(_, rows)| rows.clone()));
                prop_assert_eq!(rows(&set, options.attributes), expected);
            } else {
                // Clearing drops written rows like others.
                set.clear();
                prop_assert_eq!((set.row_count(), set.batch_bytes(), set.sealed_bytes()), (0, 0, 0));
            }
        }
    }

    /// Guarantee: frames contain exactly the plain body, and the same requests give the same bytes.
    #[test]
    fn frames_hold_the_plain_body((options, signal, batch) in options_and_batches()) {
        let take = |compression| {
            let mut set = BlockSet::new(signal, &options);
            batch.iter().for_each(|(request, _)| drop(set.append(request)));
            set.take_inserts(compression)
        };
        let (plain, framed) = (take(BodyCompression::None), take(BodyCompression::Lz4));
        prop_assert_eq!(plain.len(), framed.len());
        for (plain, framed) in plain.iter().zip(&framed) {
            prop_assert_eq!(&plain.body.concat(), &native::unframe(&framed.body.concat()));
            prop_assert_eq!(plain.plain_bytes, framed.plain_bytes);
        }
        prop_assert_eq!(framed, take(BodyCompression::Lz4));
    }

    /// Guarantee: damaged requests never panic and never leave the set unusable.
    #[test]
    fn damaged_requests_never_panic(
        (options, signal, batch) in options_and_batches(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut set = BlockSet::new(signal, &options);
        for (request, _) in &batch {
            let mut request = request.clone();
            for (place, byte) in &damage {
                if !request.is_empty() {
                    let place = place.index(request.len());
                    request[place] = *byte;
                }
            }
            let before = set.row_count();
            let added = set.append(&request).map_or(0, |appended| appended.rows);
            prop_assert_eq!(set.row_count(), before + added);
        }
        for insert in set.take_inserts(BodyCompression::None) {
            native::blocks(&insert.body.concat());
        }
    }
}
