//! The column encoders: a request becomes blocks that an independent reader reads back.
//!
//! The first byte of an input chooses the attribute variant, the depth of nested paths and what is
//! compared; the rest is the request, which need not have passed the check: gateways read what
//! others wrote to Kafka.

use std::collections::BTreeMap;

use millrace_columns::{AppendError, BlockSet, Compression, Day, Insert, Options};
use millrace_schema::{Attributes, TableKind, table};
use millrace_wire::limits::Limits;
use millrace_wire::{Signal, otlp};

use crate::meter::peak_bytes;
use crate::native::{self, Value};

/// Memory per byte of a request: an attribute of five bytes becomes a path with a column of its own
/// and its buffers, in a block for each of up to a hundred days.
const BYTES_PER_BYTE: usize = 4096;

/// Memory for an empty set's builders: five tables of metrics, their keys and their buffers.
const BYTES_BASE: usize = 4 << 20;

/// A span request.
pub fn traces(data: &[u8]) {
    columns(Signal::Traces, data);
}

/// A log request.
pub fn logs(data: &[u8]) {
    columns(Signal::Logs, data);
}

/// A metric request.
pub fn metrics(data: &[u8]) {
    columns(Signal::Metrics, data);
}

/// Rows by table and day.
type Rows = BTreeMap<(TableKind, u16), Vec<Vec<Value>>>;

fn columns(signal: Signal, data: &[u8]) {
    let Some((&control, request)) = data.split_first() else { return };
    let attributes = if control & 1 == 0 { Attributes::Json } else { Attributes::Map };
    let nested_depth = [8, 0, 1, 2][usize::from(control >> 1 & 3)];
    let options = Options { attributes, nested_depth };
    let ((set, appended, inserts), bytes) = peak_bytes(|| {
        let mut set = BlockSet::new(signal, &options);
        let appended = set.append(request).map(|appended| appended.rows);
        assert_eq!(set.rows(), *appended.as_ref().unwrap_or(&0), "rows of a refused request");
        let inserts = set.take(Compression::None);
        (set, appended, inserts)
    });
    let bound = BYTES_BASE + BYTES_PER_BYTE * request.len();
    assert!(bytes <= bound, "{} bytes took {bytes} of memory", request.len());
    assert_eq!((set.rows(), set.bytes()), (0, 0), "something is left after taking it");
    let rows = read_back(&inserts, attributes);
    let count: usize = rows.values().map(Vec::len).sum();
    assert_eq!(*appended.as_ref().unwrap_or(&0), count as u64, "rows lost or invented");

    let checked = otlp::check(signal, request, &Limits::default()).map(|checked| checked.records);
    if let Ok(records) = checked {
        match &appended {
            Ok(rows) => assert_eq!(*rows, records, "each record is a row"),
            Err(error) => assert!(
                matches!(error, AppendError::TooManyDays { .. }),
                "the check lets through what the encoder refuses: {error}"
            ),
        }
    }
    match control >> 3 & 3 {
        0 => frames_hold_the_body(signal, &options, request, &inserts),
        1 if checked.is_ok() && appended.is_ok() => {
            parts_give_the_rows(set, request, control, &rows)
        }
        2 => a_used_set_gives_the_same(set, request, attributes, &rows),
        _ => {}
    }
}

/// What was refused leaves no trace in the rows that follow.
fn a_used_set_gives_the_same(
    mut set: BlockSet,
    request: &[u8],
    attributes: Attributes,
    rows: &Rows,
) {
    // Cut inside its last field it is nearly always refused.
    if set.append(&request[..request.len().saturating_sub(1)]).is_ok() {
        set.clear();
    }
    let _ = set.append(request);
    let found = read_back(&set.take(Compression::None), attributes);
    assert!(found == *rows, "a used set differs from a fresh one: {rows:?}, {found:?}");
}

/// Frames hold exactly the plain body: the same requests give a fresh set the same bytes.
fn frames_hold_the_body(signal: Signal, options: &Options, request: &[u8], inserts: &[Insert]) {
    let mut set = BlockSet::new(signal, options);
    let _ = set.append(request);
    let framed = set.take(Compression::Lz4);
    assert_eq!(framed.len(), inserts.len());
    for (framed, plain) in framed.iter().zip(inserts) {
        assert!(native::unframe(&framed.body) == plain.body, "a frame holds other bytes");
        assert_eq!(framed.plain_bytes, plain.plain_bytes);
    }
}

/// A request that was cut for Kafka gives the rows of the whole one, in the same order.
fn parts_give_the_rows(mut set: BlockSet, request: &[u8], control: u8, rows: &Rows) {
    let signal = set.signal();
    let parts = otlp::split(signal, request, 1 + usize::from(control >> 5) * 50);
    for part in parts.unwrap_or_default() {
        let appended = set.append(&part.bytes).map(|appended| appended.rows);
        assert_eq!(appended, Ok(part.records), "a part of a good request");
    }
    let attributes = if control & 1 == 0 { Attributes::Json } else { Attributes::Map };
    let found = read_back(&set.take(Compression::None), attributes);
    assert!(found == *rows, "cutting changed rows: {rows:?} became {found:?}");
}

/// Reads inserts with the independent reader: all columns of a block have its rows, names and types
/// are the table's, and there is one insert per table and day.
fn read_back(inserts: &[Insert], attributes: Attributes) -> Rows {
    let mut all = Rows::new();
    for Insert { table: kind, day: Day(day), rows: count, body, plain_bytes } in inserts {
        assert_eq!(*plain_bytes, body.len() as u64);
        let definition = table(*kind, attributes);
        let mut rows = Vec::new();
        for block in native::blocks(body) {
            let columns = definition.insert_columns();
            assert!(block.names.iter().eq(columns.map(|column| column.name)), "names of columns");
            let types = definition.insert_columns().map(|column| column.ty.to_string());
            assert!(block.types.iter().cloned().eq(types), "types of columns");
            rows.extend(block.rows);
        }
        assert_eq!(rows.len() as u64, *count, "the rows of an insert");
        assert!(!rows.is_empty(), "an insert without rows");
        assert!(all.insert((*kind, *day), rows).is_none(), "two inserts for a table and day");
    }
    all
}
