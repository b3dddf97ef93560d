//! Tests the judge with rows that an independent reading of the sent bytes expects, and with every
//! kind of fault.

use millrace_ddl::AttributeStorage as Variant;
use millrace_processing::{Counts, Outcome, RuleSet, Scratch};
use millrace_schema::TableKind;
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use proptest::prelude::*;
use prost::Message;
use serde_json::{Map, Value as Json, json};

use super::cell::{CellForm, Rows, StoredCell, tests::encode};
use super::report::CheckReport;
use super::row_checker::{CheckedTable, RowChecker};
use super::tally::Tally;
use crate::acked::SendState;
use crate::encode_request;
use crate::native::Value;
use crate::oracle::Oracle;
use crate::plan::{LoadPlan, LoadShape};

const SHAPES: [LoadShape; 5] =
    [LoadShape::Lean, LoadShape::Rich, LoadShape::Ruled, LoadShape::Logs, LoadShape::Metrics];

/// A stored cell that owns its value.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Number(u64),
    Text(Vec<u8>),
    Numbers(Vec<u64>),
    Texts(Vec<Vec<u8>>),
}

#[derive(Clone, Debug)]
struct Stored {
    kind: TableKind,
    cells: Vec<Owned>,
}

/// Returns what an edge with the load's rules passes on, which is never empty.
fn run_rules(request: &[u8]) -> Vec<u8> {
    let steps = serde_json::from_str(include_str!("../rules.json")).unwrap();
    let rules = RuleSet::compile(&steps).unwrap();
    let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
    let routed = &mut Vec::new();
    let limit = 2 * request.len();
    let run = rules.run(Signal::Traces, request, limit, &mut scratch, &mut counts, routed);
    let Ok(Outcome::Changed(bytes)) = run else { panic!("{run:?}") };
    assert!(counts.rules.iter().all(|rule| rule.matched > 0 && rule.failed == 0), "{counts:?}");
    bytes
}

/// Returns the rows of a request, from the official messages by the rules of the tables'
/// documentation.
fn stored(plan: &LoadPlan, number: u64, variant: Variant) -> Vec<Stored> {
    let bytes = encode_request(plan, number);
    let bytes = if plan.shape == LoadShape::Ruled { run_rules(&bytes) } else { bytes };
    let bytes = bytes.as_slice();
    let oracle = Oracle { attributes: variant, nested_depth: 3 };
    let rows = match plan.shape {
        LoadShape::Lean | LoadShape::Rich | LoadShape::Ruled => {
            oracle.traces(&ExportTraceServiceRequest::decode(bytes).unwrap())
        }
        LoadShape::Logs => oracle.logs(&ExportLogsServiceRequest::decode(bytes).unwrap()),
        LoadShape::Metrics => oracle.metrics(&ExportMetricsServiceRequest::decode(bytes).unwrap()),
    };
    let judge = RowChecker::new(plan, variant);
    let sources = judge.build_sources();
    let row = |kind: TableKind, values: Vec<Value>| {
        let source = sources.iter().find(|source| source.table.kind == kind).unwrap();
        let cells = values.iter().zip(&source.forms).map(|(value, form)| owned(value, *form));
        Stored { kind, cells: cells.collect() }
    };
    let rows = rows.into_iter();
    rows.flat_map(|((kind, _), rows)| rows.into_iter().map(move |values| (kind, values)))
        .map(|(kind, values)| row(kind, values))
        .collect()
}

fn owned(value: &Value, form: CellForm) -> Owned {
    match (value, form) {
        (Value::Text(text), _) => Owned::Text(text.clone()),
        (value, CellForm::Text) => Owned::Text(printed(value).to_string().into_bytes()),
        (value, CellForm::Fixed { .. }) => Owned::Number(bits(value)),
        (Value::Array(items), CellForm::FixedList { .. }) => {
            Owned::Numbers(items.iter().map(bits).collect())
        }
        (Value::Array(items), CellForm::TextList) => Owned::Texts(items.iter().map(text).collect()),
        other => panic!("{other:?}"),
    }
}

fn bits(value: &Value) -> u64 {
    match value {
        Value::UInt(number) | Value::Float(number) => *number,
        Value::Int(number) => *number as u64,
        Value::Bool(yes) => u64::from(*yes),
        other => panic!("{other:?}"),
    }
}

fn text(value: &Value) -> Vec<u8> {
    let Value::Text(text) = value else { panic!("{value:?}") };
    text.clone()
}

/// Prints a value as the server does: paths as nested objects for `JSON`, dotted keys for `Map`.
fn printed(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Text(text) => json!(String::from_utf8(text.clone()).unwrap()),
        Value::Int(number) => json!(number),
        Value::UInt(number) => json!(number),
        Value::Float(bits) => json!(f64::from_bits(*bits)),
        Value::Bool(yes) => json!(yes),
        Value::Array(items) => items.iter().map(printed).collect(),
        Value::Dynamic(_, value) => printed(value),
        Value::Map(pairs) => {
            let name = |key| String::from_utf8(text(key)).unwrap();
            Json::Object(pairs.iter().map(|(key, value)| (name(key), printed(value))).collect())
        }
        Value::Json(paths) => {
            let mut root = Map::new();
            for (path, (_, value)) in paths {
                let path = String::from_utf8(path.clone()).unwrap();
                let mut steps: Vec<&str> = path.split('.').collect();
                let last = steps.pop().unwrap();
                let mut at = &mut root;
                for step in steps {
                    let next = at.entry(step).or_insert_with(|| json!({}));
                    at = next.as_object_mut().unwrap();
                }
                at.insert(last.to_owned(), printed(value));
            }
            Json::Object(root)
        }
    }
}

impl Stored {
    fn cells(&self) -> Vec<StoredCell<'_>> {
        let cells = self.cells.iter().map(|owned| match owned {
            Owned::Number(bits) => StoredCell::Number(*bits),
            Owned::Text(text) => StoredCell::Text(text),
            Owned::Numbers(list) => StoredCell::Numbers(list.clone()),
            Owned::Texts(list) => StoredCell::Texts(list.iter().map(Vec::as_slice).collect()),
        });
        cells.collect()
    }
}

/// A plan of some hundred records of a shape in small requests.
fn small(shape: LoadShape, seed: u64, count: u64) -> LoadPlan {
    LoadPlan {
        records_per_resource: 25,
        resources_per_request: 2,
        ..LoadPlan::new(shape, seed, count, 1_700_000_000_000_000_000)
    }
}

fn acked(plan: &LoadPlan, acknowledged: &[u64], attempted: &[u64], resent: &[u64]) -> SendState {
    let mut acked = SendState::new(plan.clone());
    for (set, numbers) in [
        (&mut acked.acknowledged, acknowledged),
        (&mut acked.attempted, attempted),
        (&mut acked.resent, resent),
    ] {
        for number in numbers {
            set.insert(*number);
        }
    }
    acked
}

fn judged(acked: &SendState, variant: Variant, rows: &[Stored]) -> CheckReport {
    let judge = RowChecker::new(&acked.plan, variant);
    let sources = judge.build_sources();
    let mut tally = Tally::new(acked, judge);
    for row in rows {
        // Encodes the row as a server would in its answer.
        let source: &CheckedTable =
            sources.iter().find(|source| source.table.kind == row.kind).unwrap();
        let mut bytes = Vec::new();
        encode(&row.cells(), &source.forms, &mut bytes);
        let mut reader = Rows::new(&source.forms);
        reader.feed(&bytes, |cells| tally.add_row(source, cells)).unwrap();
        reader.finish().unwrap();
    }
    tally.into_report()
}

/// Returns every row of requests 0 and 1, and the state that acknowledges them.
fn whole(shape: LoadShape, seed: u64, variant: Variant) -> (SendState, Vec<Stored>) {
    let plan = small(shape, seed, 100);
    let rows = (0..2).flat_map(|number| stored(&plan, number, variant)).collect();
    (acked(&plan, &[0, 1], &[0, 1], &[]), rows)
}

/// Replaces a value by another of the same form.
fn change(cell: &mut Owned) {
    match cell {
        Owned::Number(bits) => *bits ^= 1,
        Owned::Text(text) if text.starts_with(b"{") => *text = br#"{"other":1}"#.to_vec(),
        Owned::Text(text) if text.starts_with(b"[") => *text = br#"[{},{},{},{"x":1}]"#.to_vec(),
        Owned::Text(text) => text.push(b'.'),
        Owned::Numbers(list) => list.push(7),
        Owned::Texts(list) => list.push(b"seven".to_vec()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Guarantee: for any seed, signal, shape and variant, the judge accepts all rows as the server
    /// would print them, identified by their own content.
    #[test]
    fn right_rows_are_right(seed: u64, shape in 0_usize..5, map: bool) {
        let variant = if map { Variant::Map } else { Variant::Json };
        let (acked, rows) = whole(SHAPES[shape], seed, variant);
        let report = judged(&acked, variant, &rows);
        prop_assert_eq!(
            report.to_string(),
            "verified: sent=100 stored=100 missing=0 duplicated=0 altered=0",
            "{:?}", report.examples
        );
    }

    /// Guarantee: any single changed cell of any table is found, and the rows before and after it
    /// are accepted.
    #[test]
    fn any_changed_cell_is_found(
        seed in 0_u64..8, shape in 0_usize..5, at: prop::sample::Index, cell: prop::sample::Index,
    ) {
        let (acked, mut rows) = whole(SHAPES[shape], seed, Variant::Json);
        let row = at.index(rows.len());
        let cell = cell.index(rows[row].cells.len());
        change(&mut rows[row].cells[cell]);
        let report = judged(&acked, Variant::Json, &rows);
        prop_assert!(!report.is_clean());
        // A row that can't be identified counts as one missing and one invented.
        let faults = (report.altered, report.invented, report.missing);
        prop_assert!(faults == (1, 0, 0) || faults == (0, 1, 1), "{faults:?}");
    }
}

/// Scenario: one record is lost, one stored twice, one has another name, one was never sent, one
/// has an id of no record. Guarantee: each has its own count and example, and the verdict is not
/// "verified".
#[test]
fn each_fault_is_counted_as_what_it_is() {
    for shape in SHAPES {
        let plan = small(shape, 9, 120);
        let acked = acked(&plan, &[0, 1], &[0, 1], &[]);
        let mut rows: Vec<_> = (0..2).flat_map(|n| stored(&plan, n, Variant::Json)).collect();
        rows.push(rows[12].clone());
        rows.push(stored(&plan, 2, Variant::Json).remove(0));
        let mut stranger = rows[0].clone();
        for cell in &mut stranger.cells {
            match cell {
                Owned::Number(bits) => *bits ^= 1,
                Owned::Text(text) if text.len() == 16 => *text = b"00000000000000ff".to_vec(),
                _ => {}
            }
        }
        rows.push(stranger);
        // A text column that every table has near its middle: a name.
        let name = match plan.shape {
            LoadShape::Lean | LoadShape::Rich | LoadShape::Ruled => 5,
            LoadShape::Logs => 11,
            LoadShape::Metrics => 8,
        };
        change(&mut rows[3].cells[name]);
        rows.remove(7);
        let report = judged(&acked, Variant::Json, &rows);
        assert_eq!(
            report.to_string(),
            "shortfall: sent=100 stored=99 missing=1 duplicated=1 altered=1 invented=2",
            "{shape:?} {:?}",
            report.examples
        );
        for word in ["missing: records", "duplicated: record", "altered: record", "invented"] {
            let has = report.examples.iter().any(|text| text.contains(word));
            assert!(has, "{shape:?} {word} {:?}", report.examples);
        }
    }
}

/// Scenario: a request's answer was lost and it was sent again; another was given up though stored.
/// Guarantee: copies of the first and rows of the second are counted separately and are no fault; a
/// copy of a request that was not sent again is one.
#[test]
fn what_the_client_caused_is_counted_apart() {
    let plan = small(LoadShape::Logs, 9, 150);
    let acked = acked(&plan, &[0, 1], &[0, 1, 2], &[0]);
    let rows = |numbers: std::ops::Range<u64>| -> Vec<Stored> {
        numbers.flat_map(|number| stored(&plan, number, Variant::Json)).collect()
    };
    let mut all = rows(0..3);
    all.push(all[4].clone());
    let report = judged(&acked, Variant::Json, &all);
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.resent, report.unacknowledged, report.stored), (1, 50, 100));
    let mut two = rows(0..2);
    two.push(two[54].clone());
    let report = judged(&acked, Variant::Json, &two);
    assert_eq!((report.duplicated, report.resent), (1, 0));
}

/// Scenario: a gauge's row is in the table of sums. Guarantee: it is altered, and the example names
/// the table.
#[test]
fn a_row_in_another_kinds_table_is_found() {
    let (acked, mut rows) = whole(LoadShape::Metrics, 1, Variant::Json);
    let gauge = rows.iter_mut().find(|row| row.kind == TableKind::MetricsGauge).unwrap();
    gauge.kind = TableKind::MetricsSum;
    gauge.cells.extend([Owned::Number(2), Owned::Number(1)]);
    let report = judged(&acked, Variant::Json, &rows);
    assert_eq!(report.altered, 1);
    assert!(report.examples[0].contains("column table"), "{:?}", report.examples);
}

/// Scenario: attributes arrive with another type, one more, or one fewer. Guarantee: altered.
#[test]
fn types_and_counts_of_attributes_matter() {
    let (acked, rows) = whole(LoadShape::Lean, 9, Variant::Json);
    let attributes = 11;
    let Owned::Text(right) = &rows[0].cells[attributes] else { panic!() };
    let right: Json = serde_json::from_slice(right).unwrap();
    let number = &right["load"]["n"];
    for wrong in [
        format!(r#"{{"load":{{"n":"{number}"}}}}"#),
        format!(r#"{{"load":{{"n":{number},"x":1}}}}"#),
        "{}".to_owned(),
        "not json".to_owned(),
    ] {
        let mut rows = rows.clone();
        rows[0].cells[attributes] = Owned::Text(wrong.into_bytes());
        let report = judged(&acked, Variant::Json, &rows);
        assert_eq!(report.altered, 1);
        assert!(report.examples[0].contains("column SpanAttributes"), "{:?}", report.examples);
    }
}
