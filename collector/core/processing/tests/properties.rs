//! Properties over random requests and rules.

use millrace_processing::{ContextName, Counts, Outcome, RuleSet, Scratch};
use millrace_wire::{Signal, otlp};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use crate::requests::{
    LIMIT_BYTES, attribute, boolean, bytes, compile, double, int, list, map, resource, run, scope,
    step, text, try_run,
};

const KEYS: [&str; 6] = ["a", "b", "key", "service.name", "x", ""];

fn any_value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        Just(AnyValue::default()),
        "[a-zé]{0,12}".prop_map(|value| text(&value)),
        "[a-z]{120,300}".prop_map(|value| text(&value)),
        any::<i64>().prop_map(int),
        (-5_i64..5).prop_map(int),
        (-3.0..3.0_f64).prop_map(double),
        any::<bool>().prop_map(boolean),
        vec(any::<u8>(), 0..4).prop_map(|value| bytes(&value)),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(list),
            vec((key(), inner), 0..4).prop_map(|members| map(unique(members))),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(KEYS.to_vec()).prop_map(str::to_owned),
        "[a-z]{1,4}",
        "[a-z]{130,140}",
    ]
}

fn unique(members: Vec<(String, AnyValue)>) -> Vec<KeyValue> {
    let mut unique: Vec<KeyValue> = Vec::new();
    for (key, value) in members {
        if unique.iter().all(|known| known.key != key) {
            unique.push(attribute(&key, value));
        }
    }
    unique
}

fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    vec((key(), any_value()), 0..8).prop_map(unique)
}

fn log_record() -> impl Strategy<Value = LogRecord> {
    (attributes(), any_value(), 0..25_i32, "[A-Z]{0,5}", any::<bool>()).prop_map(
        |(attributes, body, severity_number, severity_text, has_ids)| LogRecord {
            attributes,
            body: Some(body),
            severity_number,
            severity_text,
            time_unix_nano: 1,
            trace_id: if has_ids { vec![1; 16] } else { vec![] },
            ..Default::default()
        },
    )
}

pub(crate) fn request() -> impl Strategy<Value = ExportLogsServiceRequest> {
    let scope_logs =
        (vec(log_record(), 0..4), any::<bool>()).prop_map(|(log_records, has_scope)| ScopeLogs {
            scope: if has_scope { scope("s") } else { None },
            log_records,
            schema_url: if has_scope { "u".to_owned() } else { String::new() },
        });
    let group = (attributes(), vec(scope_logs, 0..3)).prop_map(|(attributes, scope_logs)| {
        ResourceLogs { resource: resource(attributes), scope_logs, ..Default::default() }
    });
    vec(group, 0..3).prop_map(|resource_logs| ExportLogsServiceRequest { resource_logs })
}

/// A statement, and the same on the reference library's tree.
type Case = (&'static str, fn(&mut LogRecord, &[KeyValue]));

fn find<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a AnyValue> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.as_ref().filter(|value| value.value.is_some())
}

fn put(attributes: &mut Vec<KeyValue>, key: &str, value: AnyValue) {
    match attributes.iter_mut().find(|attribute| attribute.key == key) {
        Some(known) => *known = attribute(key, value),
        None => attributes.push(attribute(key, value)),
    }
}

fn remove(attributes: &mut Vec<KeyValue>, key: &str) {
    if let Some(position) = attributes.iter().position(|attribute| attribute.key == key) {
        attributes.swap_remove(position);
    }
}

fn text_of(value: Option<&AnyValue>) -> Option<&str> {
    match &value?.value {
        Some(Value::StringValue(text)) => Some(text),
        _ => None,
    }
}

const CASES: [Case; 9] = [
    ("set(attributes[\"new\"], attributes[\"a\"])", |record, _| {
        let value = find(&record.attributes, "a").cloned().unwrap_or_default();
        put(&mut record.attributes, "new", value);
    }),
    ("set(attributes[\"a\"], \"fixed\") where severity_number > 12", |record, _| {
        if record.severity_number > 12 {
            put(&mut record.attributes, "a", text("fixed"));
        }
    }),
    ("delete_key(attributes, \"b\")", |record, _| remove(&mut record.attributes, "b")),
    ("keep_keys(attributes, [\"a\", \"b\", \"new\"])", |record, _| {
        record.attributes.retain(|known| ["a", "b", "new"].contains(&known.key.as_str()));
    }),
    ("truncate_all(attributes, 3)", |record, _| {
        for known in &mut record.attributes {
            if let Some(AnyValue { value: Some(Value::StringValue(text)) }) = &mut known.value {
                let end = (0..=text.len().min(3)).rev().find(|at| text.is_char_boundary(*at));
                text.truncate(end.unwrap_or(0));
            }
        }
    }),
    ("set(severity_text, ConvertCase(severity_text, \"lower\"))", |record, _| {
        record.severity_text = record.severity_text.to_lowercase();
    }),
    ("set(body, resource.attributes[\"service.name\"])", |record, resource| {
        record.body = Some(find(resource, "service.name").cloned().unwrap_or_default());
    }),
    ("replace_pattern(attributes[\"key\"], \"[a-m]+\", \"<$0>\")", |record, _| {
        let Some(old) = text_of(find(&record.attributes, "key")) else { return };
        let mut new = String::new();
        let mut in_match = false;
        for character in old.chars() {
            let is_match = ('a'..='m').contains(&character);
            if is_match != in_match {
                new.push(if is_match { '<' } else { '>' });
            }
            in_match = is_match;
            new.push(character);
        }
        new.push_str(if in_match { ">" } else { "" });
        put(&mut record.attributes, "key", text(&new));
    }),
    ("merge_maps(attributes, resource.attributes, \"insert\")", |record, resource| {
        for known in resource {
            if record.attributes.iter().all(|ours| ours.key != known.key) {
                record.attributes.push(known.clone());
            }
        }
    }),
];

fn rules(cases: &[usize]) -> RuleSet {
    let statements: Vec<&str> = cases.iter().map(|case| CASES[*case].0).collect();
    compile(vec![step(ContextName::Log, &statements)])
}

/// A request's records with what they share.
pub(crate) fn records(request: &ExportLogsServiceRequest) -> Vec<String> {
    let mut all = Vec::new();
    for group in &request.resource_logs {
        for scope in &group.scope_logs {
            for record in &scope.log_records {
                all.push(format!("{:?} {:?} {record:?}", group.resource, scope.scope));
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Guarantee: rules and then parsing give the same as parsing and then rules on the tree.
    #[test]
    fn rules_on_bytes_equal_rules_on_a_tree(
        request in request(),
        cases in vec(0..CASES.len(), 1..5),
    ) {
        let mut expected = request.clone();
        for group in &mut expected.resource_logs {
            let shared = group.resource.clone().unwrap_or_default().attributes;
            for record in group.scope_logs.iter_mut().flat_map(|scope| &mut scope.log_records) {
                cases.iter().for_each(|case| CASES[*case].1(record, &shared));
            }
        }
        prop_assert_eq!(run(&rules(&cases), &request), expected);
    }

    /// Guarantee: rules that match nothing leave the bytes as they are.
    #[test]
    fn rules_that_match_nothing_change_nothing(request in request()) {
        let input = request.encode_to_vec();
        let rules = compile(vec![
            step(
                ContextName::Resource,
                &["set(attributes[\"a\"], 1) where attributes[\"a\"] == 77"],
            ),
            step(ContextName::Log, &[
                "set(resource.attributes[\"a\"], 1) where attributes[\"a\"] == 77",
                "delete_key(attributes, \"never\")",
            ]),
            step(ContextName::Scope, &["set(name, \"x\") where name == \"never\""]),
        ]);
        let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
        let outcome = rules.run(Signal::Logs, &input, LIMIT_BYTES, &mut scratch, &mut counts, &mut Vec::new());
        prop_assert_eq!(outcome, Ok(Outcome::Unchanged));
    }

    /// Guarantee: a request cut into several gives the same records.
    #[test]
    fn cuts_give_the_same_records(
        request in request(),
        cases in vec(0..CASES.len(), 1..4),
        max_bytes in 1..400_usize,
    ) {
        let rules = rules(&cases);
        let expected = records(&run(&rules, &request));
        let input = request.encode_to_vec();
        let mut found = Vec::new();
        for part in otlp::split_request(Signal::Logs, &input, max_bytes).unwrap() {
            let part = ExportLogsServiceRequest::decode(part.bytes.as_slice()).unwrap();
            found.extend(records(&run(&rules, &part)));
        }
        prop_assert_eq!(found, expected);
    }

    /// Guarantee: any statements on any record end, and their output passes the check.
    #[test]
    fn outputs_pass_the_check(
        request in request(),
        picked in vec(0..WILD.len(), 1..8),
    ) {
        let statements: Vec<&str> = picked.iter().map(|index| WILD[*index]).collect();
        let rules = compile(vec![step(ContextName::Log, &statements)]);
        try_run(&rules, &request, &mut Counts::default()).unwrap();
    }

    /// Guarantee: bytes that are no OTLP are refused or passed on, without a crash.
    #[test]
    fn malformed_bytes_do_no_harm(
        request in request(),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        picked in vec(0..WILD.len(), 1..8),
    ) {
        let mut input = request.encode_to_vec();
        if input.is_empty() {
            return Ok(());
        }
        for (index, byte) in flips {
            let index = index.index(input.len());
            input[index] = byte;
        }
        let statements: Vec<&str> = picked.iter().map(|index| WILD[*index]).collect();
        let rules = compile(vec![step(ContextName::Log, &statements)]);
        let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
        drop(rules.run(Signal::Logs, &input, LIMIT_BYTES, &mut scratch, &mut counts, &mut Vec::new()));
    }

    /// Guarantee: the compiler ends on any text.
    #[test]
    fn any_text_compiles_or_is_refused(
        text in "(set|delete_key|[a-zA-Z_]{1,6})?\\(?[-a-z0-9\\[\\]\"(){}.,=<>+*/ \\\\]{0,60}",
    ) {
        let config = millrace_processing::Config {
            steps: vec![step(ContextName::Log, &[&text])],
        };
        drop(RuleSet::compile(&config));
    }
}

/// Statements of all kinds, most of which fail on most records.
const WILD: [&str; 22] = [
    "flatten(attributes)",
    "flatten(attributes, \"p\", 2, true)",
    "flatten(body)",
    "append(attributes[\"a\"], attributes)",
    "append(body, values = [body, attributes[\"b\"]])",
    "set(attributes[\"a\"][\"x\"][2], attributes)",
    "set(attributes[\"x\"][0], body)",
    "set(body[\"key\"], attributes[\"key\"])",
    "set(attributes, body)",
    "set(body, attributes)",
    "set(attributes[\"j\"], String(attributes))",
    "merge_maps(attributes, ParseJSON(attributes[\"j\"]), \"upsert\")",
    "merge_maps(attributes[\"x\"], attributes, \"insert\")",
    "limit(attributes, 3, [\"a\"])",
    "replace_all_patterns(attributes, \"key\", \"[a-k]\", \"é\")",
    "replace_all_patterns(attributes, \"value\", \"\", \"-\")",
    "replace_all_matches(attributes, \"a*\", \"b\", SHA256)",
    "set(attributes[\"s\"], Split(body, \"a\"))",
    "set(attributes[\"e\"], ExtractPatterns(body, \"(?P<x>.)\"))",
    "set(attributes[\"u\"], Substring(body, 1, 2))",
    "set(resource.attributes[\"r\"], attributes)",
    "set(scope.attributes[\"c\"], Keys(attributes))",
];
