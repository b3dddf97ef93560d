//! The column encoders: a request becomes blocks that an independent reader reads back.
//!
//! The first byte of an input chooses the attribute variant, the depth of nested paths and what is
//! compared; the rest is the request, which need not have passed the check: gateways read what
//! others wrote to Kafka.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use millrace_columns::{AppendError, BlockSet, BodyCompression, Day, Insert, Options};
use millrace_schema::{AttributeStorage, TableKind, build_table};
use millrace_wire::limits::WireLimits;
use millrace_wire::{Signal, otlp};

use crate::meter::peak_bytes;
use crate::native::{self, Value};
use crate::reuse::Kept;

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

/// Levels of nested lists to try.
const DEPTHS: [u32; 4] = [8, 0, 1, 2];

thread_local! {
    /// A set for each signal, variant and depth, which all inputs use in turn, as a gateway does.
    static SETS: [Kept<BlockSet>; 24] = const { [const { Kept::none() }; 24] };
}

fn columns(signal: Signal, data: &[u8]) {
    let Some((&control, request)) = data.split_first() else { return };
    let attributes = if control & 1 == 0 { AttributeStorage::Json } else { AttributeStorage::Map };
    let depth = usize::from(control >> 1 & 3);
    let options = Options { attributes, nested_depth: DEPTHS[depth] };
    let place = signal.index() * 8 + usize::from(control & 7);
    let kept = SETS.with(|sets| sets[place].take());
    let mut set = kept.unwrap_or_else(|| BlockSet::new(signal, &options));
    let ((appended, inserts), bytes) =
        peak_bytes(|| append(&mut set, request, BodyCompression::None));
    let bound = BYTES_BASE + BYTES_PER_BYTE * request.len();
    assert!(bytes <= bound, "{} bytes took {bytes} of memory", request.len());
    assert_eq!((set.row_count(), set.batch_bytes()), (0, 0), "something is left after taking it");
    let rows = read_back(&inserts, attributes);
    let count: usize = rows.values().map(Vec::len).sum();
    assert_eq!(*appended.as_ref().unwrap_or(&0), count as u64, "rows lost or invented");

    let checked =
        otlp::check_request(signal, request, &WireLimits::default()).map(|checked| checked.records);
    if let Ok(records) = checked {
        let refused = appended.as_ref().err();
        assert!(refused.is_none(), "the encoder refuses what the check lets through: {refused:?}");
        assert_eq!(appended.as_ref().ok(), Some(&records), "each record is a row");
        written_as_counted(signal, &options, request);
    }
    match control >> 3 & 7 {
        0 => a_fresh_set_gives_the_same(signal, &options, request, &rows),
        1 if checked.is_ok() && appended.is_ok() => {
            parts_give_the_rows(&mut set, request, control, &rows);
        }
        2 => refused_requests_leave_nothing(&mut set, request, attributes, &rows),
        _ => {}
    }
    SETS.with(|sets| sets[place].put(set));
}

/// What a request is written as is no more than what its bytes say.
fn written_as_counted(signal: Signal, options: &Options, request: &[u8]) {
    let counted = otlp::written_bytes(signal, request).unwrap_or(0);
    let mut set = BlockSet::new(signal, options);
    let appended = set.append(request);
    let written = set.written_bytes() as u64;
    assert!(appended.is_ok() && written <= counted, "{written} bytes, {counted} counted");
}

/// Appends a request and takes what it gave.
fn append(
    set: &mut BlockSet,
    request: &[u8],
    compression: BodyCompression,
) -> (Result<u64, AppendError>, Vec<Insert>) {
    let appended = set.append(request).map(|appended| appended.rows);
    assert_eq!(set.row_count(), *appended.as_ref().unwrap_or(&0), "rows of a refused request");
    (appended, set.take_inserts(compression))
}

/// What was refused leaves no trace in the rows that follow.
fn refused_requests_leave_nothing(
    set: &mut BlockSet,
    request: &[u8],
    attributes: AttributeStorage,
    rows: &Rows,
) {
    // Cut inside its last field it is nearly always refused.
    if set.append(&request[..request.len().saturating_sub(1)]).is_ok() {
        set.clear();
    }
    let _ = set.append(request);
    let found = read_back(&set.take_inserts(BodyCompression::None), attributes);
    assert!(found == *rows, "a refused request left something: {rows:?}, {found:?}");
}

/// A set that has had other requests before gives the rows of a fresh one; two fresh ones give the
/// same bytes, and frames hold exactly the plain body.
fn a_fresh_set_gives_the_same(signal: Signal, options: &Options, request: &[u8], rows: &Rows) {
    let fresh = |compression| append(&mut BlockSet::new(signal, options), request, compression).1;
    let (plain, framed) = (fresh(BodyCompression::None), fresh(BodyCompression::Lz4));
    let found = read_back(&plain, options.attributes);
    assert!(found == *rows, "a used set differs from a fresh one: {rows:?}, {found:?}");
    assert_eq!(framed.len(), plain.len());
    for (framed, plain) in framed.iter().zip(&plain) {
        assert!(
            native::unframe(&framed.body.concat()) == plain.body.concat(),
            "a frame holds other bytes"
        );
        assert_eq!(framed.plain_bytes, plain.plain_bytes);
    }
}

/// A request that was cut for Kafka gives the rows of the whole one, in the same order.
fn parts_give_the_rows(set: &mut BlockSet, request: &[u8], control: u8, rows: &Rows) {
    let signal = set.signal();
    let parts = otlp::split_request(signal, request, 1 + usize::from(control >> 6) * 100);
    for part in parts.unwrap_or_default() {
        let appended = set.append(&part.bytes).map(|appended| appended.rows);
        assert_eq!(appended, Ok(part.records), "a part of a good request");
    }
    let attributes = if control & 1 == 0 { AttributeStorage::Json } else { AttributeStorage::Map };
    let found = read_back(&set.take_inserts(BodyCompression::None), attributes);
    assert!(found == *rows, "cutting changed rows: {rows:?} became {found:?}");
}

/// Names and types of a table's columns, as an insert carries them.
type Columns = Vec<(&'static str, String)>;

static COLUMNS: LazyLock<BTreeMap<(TableKind, bool), Columns>> = LazyLock::new(|| {
    let variants = [AttributeStorage::Json, AttributeStorage::Map];
    let all = TableKind::ALL.into_iter().flat_map(|kind| variants.map(|variant| (kind, variant)));
    all.map(|(kind, variant)| {
        let definition = build_table(kind, variant);
        let columns =
            definition.insert_columns().map(|column| (column.name, column.ty.to_string()));
        ((kind, variant == AttributeStorage::Json), columns.collect())
    })
    .collect()
});

/// Reads inserts with the independent reader: all columns of a block have its rows, names and types
/// are the table's, and there is one insert per table and day.
fn read_back(inserts: &[Insert], attributes: AttributeStorage) -> Rows {
    let mut all = Rows::new();
    for insert in inserts {
        let Insert { table: kind, day: Day(day), number, rows: count, body, plain_bytes } = insert;
        assert_eq!(*number, 0, "one insert per table and day");
        let body = body.concat();
        assert_eq!(*plain_bytes, body.len() as u64);
        let columns = &COLUMNS[&(*kind, attributes == AttributeStorage::Json)];
        let mut rows = Vec::new();
        for block in native::blocks(&body) {
            let names = block.names.iter().map(String::as_str);
            let found = names.zip(block.types.iter().map(String::as_str));
            assert_eq!(block.names.len(), columns.len());
            let wanted = columns.iter().map(|(name, ty)| (*name, ty.as_str()));
            assert!(found.eq(wanted), "names and types of columns");
            rows.extend(block.rows);
        }
        assert_eq!(rows.len() as u64, *count, "the rows of an insert");
        assert!(!rows.is_empty(), "an insert without rows");
        assert!(all.insert((*kind, *day), rows).is_none(), "two inserts for a table and day");
    }
    all
}
