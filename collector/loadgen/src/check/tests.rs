//! The judge against rows made from the plan: right ones, and every way of being wrong.

use millrace_ddl::Attributes as Variant;
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::compare::Judge;
use super::report::Report;
use super::row::Row;
use super::tally::Tally;
use crate::acked::Acked;
use crate::plan::{Plan, Shape};
use crate::span::{Attributes, Resource, Span, Spans, Status, Value};

/// A stored row with owned texts, made from the span without the judge's code.
#[derive(Clone, Debug)]
struct Stored {
    nanos: i64,
    texts: [String; 14],
    duration: u64,
    event_nanos: i64,
    event_name: String,
    links: Vec<[String; 3]>,
}

const RESOURCE: usize = 7;
const ATTRIBUTES: usize = 10;

fn json_value(value: Value, variant: Variant) -> Json {
    match (variant, value) {
        (_, Value::Text(text)) => json!(text),
        (Variant::Json, Value::Int(number)) => json!(number),
        (Variant::Json, Value::Double(number)) => json!(number),
        (Variant::Json, Value::Bool(yes)) => json!(yes),
        (Variant::Map, Value::Int(number)) => json!(number.to_string()),
        (Variant::Map, Value::Double(number)) => json!(number.to_string()),
        (Variant::Map, Value::Bool(yes)) => json!(yes.to_string()),
    }
}

/// As the server prints: paths as nested objects for `JSON`, dotted keys for `Map`.
fn set(pairs: Vec<(&str, Value)>, variant: Variant) -> Json {
    let mut root = Map::new();
    for (key, value) in pairs {
        let value = json_value(value, variant);
        if variant == Variant::Map {
            root.insert(key.to_owned(), value);
            continue;
        }
        let mut steps: Vec<&str> = key.split('.').collect();
        let last = steps.pop().unwrap();
        let mut at = &mut root;
        for step in steps {
            let next = at.entry(step).or_insert_with(|| Json::Object(Map::new()));
            at = next.as_object_mut().unwrap();
        }
        at.insert(last.to_owned(), value);
    }
    Json::Object(root)
}

fn of(attributes: &Attributes, variant: Variant) -> Json {
    set(attributes.iter().collect(), variant)
}

fn stored(plan: &Plan, index: u64, variant: Variant) -> Stored {
    let span: Span = Spans::new(plan).at(index);
    let resource = Resource::at(plan, index / u64::from(plan.spans_per_resource));
    let mut pairs = vec![
        ("service.name", Value::Text(resource.service_name.clone().leak())),
        ("host.name", Value::Text(resource.host_name.clone().leak())),
        ("process.pid", Value::Int(resource.process_id)),
    ];
    pairs.extend(resource.environment.map(|e| ("deployment.environment.name", Value::Text(e))));
    pairs.extend(resource.is_sampled.map(|s| ("load.sampled", Value::Bool(s))));
    let parent = Some(span.parent_id).filter(|id| *id != 0).map(|id| format!("{id:016x}"));
    let kind = ["Internal", "Server", "Client", "Producer", "Consumer"][span.kind as usize - 1];
    let status = match span.status {
        Status::Unset => "Unset",
        Status::Ok => "Ok",
        Status::Error => "Error",
    };
    let links: Vec<[String; 3]> = span
        .link
        .iter()
        .map(|l| {
            [
                format!("{:032x}", l.trace_id),
                format!("{:016x}", l.span_id),
                span.trace_state.to_owned(),
            ]
        })
        .collect();
    let link_sets: Vec<Json> = span.link.iter().map(|l| of(&l.attributes, variant)).collect();
    Stored {
        nanos: span.start_nanos as i64,
        texts: [
            format!("{:032x}", span.trace_id),
            format!("{:016x}", span.span_id),
            parent.unwrap_or_default(),
            span.trace_state.to_owned(),
            span.name.to_owned(),
            kind.to_owned(),
            resource.service_name,
            set(pairs, variant).to_string(),
            "millrace.loadgen".to_owned(),
            "1".to_owned(),
            of(&span.attributes, variant).to_string(),
            status.to_owned(),
            json!([of(&span.event_attributes, variant)]).to_string(),
            json!(link_sets).to_string(),
        ],
        duration: span.end_nanos - span.start_nanos,
        event_nanos: span.event_nanos as i64,
        event_name: span.event_name.to_owned(),
        links,
    }
}

impl Stored {
    fn with_row<T>(&self, message: &str, use_row: impl FnOnce(&Row<'_>) -> T) -> T {
        let text = |at: usize| self.texts[at].as_bytes();
        let column = |at: usize| self.links.iter().map(|link| link[at].as_bytes()).collect();
        let row = Row {
            timestamp_nanos: self.nanos,
            trace_id: text(0),
            span_id: text(1),
            parent_id: text(2),
            trace_state: text(3),
            name: text(4),
            kind: text(5),
            service_name: text(6),
            resource_attributes: text(RESOURCE),
            scope_name: text(8),
            scope_version: text(9),
            attributes: text(ATTRIBUTES),
            duration_nanos: self.duration,
            status_code: text(11),
            status_message: message.as_bytes(),
            event_nanos: vec![self.event_nanos],
            event_names: vec![self.event_name.as_bytes()],
            event_attributes: text(12),
            link_trace_ids: column(0),
            link_span_ids: column(1),
            link_trace_states: column(2),
            link_attributes: text(13),
        };
        use_row(&row)
    }
}

fn message(plan: &Plan, index: u64) -> &'static str {
    Spans::new(plan).at(index).status_message
}

fn feed(tally: &mut Tally<'_>, plan: &Plan, index: u64, change: impl FnOnce(&mut Stored)) {
    let mut row = stored(plan, index, Variant::Json);
    change(&mut row);
    row.with_row(message(plan, index), |row| tally.row(row));
}

fn small(count: u64) -> Plan {
    Plan {
        spans_per_resource: 5,
        resources_per_request: 2,
        ..Plan::lean(9, count, 1_700_000_000_000_000_000)
    }
}

fn acked(plan: &Plan, acknowledged: &[u64], attempted: &[u64], resent: &[u64]) -> Acked {
    let mut acked = Acked::none(plan.clone());
    acknowledged.iter().for_each(|request| drop_bool(acked.acknowledged.insert(*request)));
    attempted.iter().for_each(|request| drop_bool(acked.attempted.insert(*request)));
    resent.iter().for_each(|request| drop_bool(acked.resent.insert(*request)));
    acked
}

fn drop_bool(_: bool) {}

fn judged(acked: &Acked, feed_rows: impl FnOnce(&mut Tally<'_>)) -> Report {
    let mut tally = Tally::new(acked, Judge::new(&acked.plan, Variant::Json));
    feed_rows(&mut tally);
    tally.finish()
}

proptest! {
    /// Guarantee: whatever the seed, shape and variant, a row as the server would show it is right;
    /// and the judge reaches that by the span's id alone.
    #[test]
    fn right_rows_are_right(seed: u64, index in 0_u64..10_000, rich: bool, map: bool) {
        let shape = if rich { Shape::Rich } else { Shape::Lean };
        let plan = Plan { shape, ..Plan::lean(seed, 10_000, 1_700_000_000_000_000_000) };
        let variant = if map { Variant::Map } else { Variant::Json };
        let mut judge = Judge::new(&plan, variant);
        let row = stored(&plan, index, variant);
        row.with_row(message(&plan, index), |row| {
            prop_assert_eq!(judge.index_of(row), Some(index));
            prop_assert_eq!(judge.first_fault(index, row), None);
            // The second time the resource comes from memory.
            prop_assert_eq!(judge.first_fault(index, row), None);
            Ok(())
        })?;
    }

    /// Guarantee: any single text that differs is found, after right rows were seen too.
    #[test]
    fn any_changed_text_is_found(index in 0_u64..2_000, at in 0_usize..14, to in "[a-z{}]{0,6}") {
        let plan = Plan::lean(3, 2_000, 1_700_000_000_000_000_000);
        let mut judge = Judge::new(&plan, Variant::Json);
        let right = stored(&plan, index, Variant::Json);
        let mut wrong = right.clone();
        prop_assume!(wrong.texts[at] != to);
        wrong.texts[at] = to;
        right.with_row(message(&plan, index), |row| {
            prop_assert_eq!(judge.first_fault(index, row), None);
            Ok(())
        })?;
        wrong.with_row(message(&plan, index), |row| {
            prop_assert!(judge.first_fault(index, row).is_some());
            Ok(())
        })?;
    }
}

/// Scenario: every acknowledged span is stored once. Guarantee: verified, in exactly the line that
/// scripts look for.
#[test]
fn a_whole_run_is_verified() {
    let plan = small(25);
    let acked = acked(&plan, &[0, 1, 2], &[0, 1, 2], &[]);
    let report = judged(&acked, |tally| (0..25).for_each(|i| feed(tally, &plan, i, |_| {})));
    assert!(report.is_clean());
    assert_eq!(report.to_string(), "verified: sent=25 stored=25 missing=0 duplicated=0 altered=0");
}

/// Scenario: one span is lost, one stored twice, one has another number, one was never sent, one
/// has an id of no span. Guarantee: each is counted as what it is, named, and the verdict is not
/// "verified".
#[test]
fn each_fault_is_counted_as_what_it_is() {
    let plan = small(25);
    let acked = acked(&plan, &[0, 1], &[0, 1], &[]);
    let report = judged(&acked, |tally| {
        for index in (0..20).filter(|index| *index != 7) {
            feed(tally, &plan, index, |row| {
                if index == 3 {
                    row.texts[ATTRIBUTES] = r#"{"load":{"n":-99999}}"#.to_owned();
                }
            });
        }
        feed(tally, &plan, 12, |_| {});
        feed(tally, &plan, 22, |_| {});
        feed(tally, &plan, 0, |row| row.texts[1] = "00000000000000ff".to_owned());
    });
    assert_eq!(
        report.to_string(),
        "shortfall: sent=20 stored=19 missing=1 duplicated=1 altered=1 invented=2"
    );
    for word in ["missing: spans 7 to 7", "duplicated: span 12", "altered: span 3", "invented"] {
        assert!(report.examples.iter().any(|text| text.contains(word)), "{:?}", report.examples);
    }
    assert!(report.examples.iter().any(|text| text.contains("column SpanAttributes")));
}

/// Scenario: a request's answer was lost and it was sent again; another was given up though stored.
/// Guarantee: copies of the first and rows of the second are counted apart and are no fault; a copy
/// of a request that was not sent again is one.
#[test]
fn what_the_client_caused_is_counted_apart() {
    let plan = small(30);
    let acked = acked(&plan, &[0, 1], &[0, 1, 2], &[0]);
    let report = judged(&acked, |tally| {
        (0..30).for_each(|index| feed(tally, &plan, index, |_| {}));
        feed(tally, &plan, 4, |_| {});
    });
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.resent, report.unacknowledged, report.stored), (1, 10, 20));
    let report = judged(&acked, |tally| {
        (0..20).for_each(|index| feed(tally, &plan, index, |_| {}));
        feed(tally, &plan, 14, |_| {});
    });
    assert_eq!((report.duplicated, report.resent), (1, 0));
}

/// Scenario: attributes arrive with another type, one more, or one less. Guarantee: altered.
#[test]
fn types_and_counts_of_attributes_matter() {
    let plan = small(10);
    let mut judge = Judge::new(&plan, Variant::Json);
    let right = stored(&plan, 0, Variant::Json);
    let number =
        serde_json::from_str::<Json>(&right.texts[ATTRIBUTES]).unwrap()["load"]["n"].clone();
    for wrong in [
        format!(r#"{{"load":{{"n":"{number}"}}}}"#),
        format!(r#"{{"load":{{"n":{number},"x":1}}}}"#),
        "{}".to_owned(),
        "not json".to_owned(),
    ] {
        let mut row = right.clone();
        row.texts[ATTRIBUTES] = wrong;
        let fault = row.with_row(message(&plan, 0), |row| judge.first_fault(0, row));
        assert_eq!(fault, Some("SpanAttributes"));
    }
}
