//! Properties of redaction and sampling over random requests.

use millrace_processing::{Config, ContextName, Counts, Outcome, RuleSet, Scratch};
use millrace_wire::limits::WireLimits;
use millrace_wire::{Signal, otlp};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use proptest::prelude::*;
use prost::Message;
use serde_json::json;

use crate::properties::{records, request};
use crate::requests::{run, step};

const SECRET: &str = "q7.anna@example.com";

/// Adds the secret to all texts of a value.
fn plant(value: &mut AnyValue) {
    match &mut value.value {
        Some(Value::StringValue(text)) => text.push_str(&format!(" {SECRET}")),
        Some(Value::BytesValue(bytes)) => bytes.extend_from_slice(format!(" {SECRET}").as_bytes()),
        Some(Value::ArrayValue(list)) => list.values.iter_mut().for_each(plant),
        Some(Value::KvlistValue(map)) => {
            map.values.iter_mut().filter_map(|member| member.value.as_mut()).for_each(plant);
        }
        _ => {}
    }
}

fn planted(mut request: ExportLogsServiceRequest) -> ExportLogsServiceRequest {
    for group in &mut request.resource_logs {
        let resource = group.resource.iter_mut().flat_map(|resource| &mut resource.attributes);
        resource.filter_map(|attribute| attribute.value.as_mut()).for_each(plant);
        for record in group.scope_logs.iter_mut().flat_map(|scope| &mut scope.log_records) {
            let attributes = record.attributes.iter_mut();
            attributes.filter_map(|attribute| attribute.value.as_mut()).for_each(plant);
            record.body.iter_mut().for_each(plant);
        }
    }
    request
}

fn actions() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        Just(json!({"mask": {}})),
        Just(json!({"mask": {"text": "", "keepLast": 3}})),
        Just(json!({"mask": {"text": "thirty-two bytes of this mask \u{fc}"}})),
        Just(json!({"hash": {"length": 43}})),
        Just(json!({"drop": {}})),
    ]
}

/// Compiles a redacting and a sampling step.
fn rules(action: &serde_json::Value, ratio: f64) -> RuleSet {
    let config: Config = serde_json::from_value(json!([
        {"name": "secrets", "redact": {
            "sets": ["Email"],
            "action": action,
            "blockedKeys": {"names": ["key"]},
            "hashKeyFile": "/key",
        }},
        {"name": "sample", "sample": {"ratio": ratio, "keep": ["attributes[\"a\"] == true"]}},
    ]))
    .unwrap();
    RuleSet::compile_with_secrets(&config, &|_| Ok(vec![7; 32])).unwrap()
}

proptest! {
    /// Scenario: a secret in every text, any action, any limit of the output's length, and a
    /// statement that makes records too long.
    /// Guarantee: the output is within the limit, passes the check, and has no byte of the secret.
    #[test]
    fn no_planted_secret_is_in_the_output(
        request in request(),
        action in actions(),
        extra_bytes in prop_oneof![0..300_usize, Just(1 << 20)],
        is_growing in any::<bool>(),
    ) {
        let input = planted(request).encode_to_vec();
        let redact = json!({
            "name": "secrets",
            "redact": {"sets": ["Email"], "action": action, "hashKeyFile": "/key"},
        });
        let mut config: Config = serde_json::from_value(json!([redact])).unwrap();
        if is_growing {
            let grow = "set(attributes[\"big\"], Concat([body, body, severity_text], \" \"))";
            config.steps.insert(0, step(ContextName::Log, &[grow]));
        }
        let rules = RuleSet::compile_with_secrets(&config, &|_| Ok(vec![7; 32])).unwrap();
        let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
        let limit_bytes = input.len() + extra_bytes;
        let outcome = rules.run(Signal::Logs, &input, limit_bytes, &mut scratch, &mut counts, &mut Vec::new());
        let output = match outcome.unwrap() {
            Outcome::Unchanged => input,
            Outcome::Changed(output) => output,
            Outcome::Emptied => Vec::new(),
        };
        prop_assert!(output.len() <= limit_bytes, "{} of {}", output.len(), limit_bytes);
        prop_assert!(otlp::check_request(Signal::Logs, &output, &WireLimits::default()).is_ok());
        prop_assert!(!output.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()));
    }

    /// Guarantee: a request cut into several gives the same records, redacted and sampled alike.
    #[test]
    fn cuts_give_the_same_records(
        request in request(),
        action in actions(),
        ratio in prop_oneof![Just(0.0), Just(1.0), 0.1..0.9_f64],
        max_bytes in 1..400_usize,
    ) {
        let rules = rules(&action, ratio);
        let request = planted(request);
        let expected = records(&run(&rules, &request));
        let input = request.encode_to_vec();
        let mut found = Vec::new();
        for part in otlp::split_request(Signal::Logs, &input, max_bytes).unwrap() {
            let part = ExportLogsServiceRequest::decode(part.bytes.as_slice()).unwrap();
            found.extend(records(&run(&rules, &part)));
        }
        prop_assert_eq!(found, expected);
    }

    /// Guarantee: steps that find nothing and keep everything leave the bytes as they are.
    #[test]
    fn steps_that_match_nothing_change_nothing(request in request()) {
        let input = request.encode_to_vec();
        // Three random bytes can be an address, such as `::0`.
        let sets = ["Bearer", "Basic", "Jwt", "Card", "Iban", "PrivateKey", "CloudKey"];
        let config: Config = serde_json::from_value(json!([
            {"name": "secrets", "redact": {"sets": sets, "blockedKeys": {"names": ["never"]}}},
            {"name": "sample", "sample": {"ratio": 1}},
        ])).unwrap();
        let rules = RuleSet::compile(&config).unwrap();
        let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
        let outcome = rules.run(Signal::Logs, &input, input.len(), &mut scratch, &mut counts, &mut Vec::new());
        prop_assert_eq!(outcome, Ok(Outcome::Unchanged));
    }

    /// Guarantee: bytes that are no OTLP are refused or passed on, without a crash.
    #[test]
    fn malformed_bytes_do_no_harm(
        request in request(),
        action in actions(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut input = planted(request).encode_to_vec();
        if input.is_empty() {
            return Ok(());
        }
        for (index, byte) in flips {
            let index = index.index(input.len());
            input[index] = byte;
        }
        let rules = rules(&action, 0.5);
        let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
        for signal in Signal::ALL {
            for limit_bytes in [0, input.len() + 64] {
                drop(rules.run(signal, &input, limit_bytes, &mut scratch, &mut counts, &mut Vec::new()));
            }
        }
    }
}
