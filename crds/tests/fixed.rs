//! What can't be changed of a spec, said in every way there is to say it: a field that is left out
//! has its default, and so has one in a block that is left out. A change that is accepted here and
//! refused by a child would stop the child for ever.

use serde_json::{Value, json};

use crate::support;

/// A field that keeps its value.
struct Fixed {
    kind: &'static str,
    /// Where it stands in the spec.
    steps: &'static [&'static str],
    /// How many of the steps lead through what is always there.
    always: usize,
    /// The value it has when it is left out, if that can be written.
    default: Option<Value>,
    /// Other values, in the order in which it may be changed, if it may.
    others: Vec<Value>,
    /// It may go from one of the others to the next.
    grows: bool,
}

fn fixed(
    kind: &'static str,
    steps: &'static [&'static str],
    always: usize,
    (default, others): (Option<Value>, Vec<Value>),
) -> Fixed {
    let grows = others[0].is_number();
    Fixed { kind, steps, always, default, others, grows }
}

fn all() -> Vec<Fixed> {
    let group = || (None, vec![json!("one"), json!("two")]);
    let protocol = || (Some(json!("Classic")), vec![json!("Consumer")]);
    let place = || (Some(json!("otel")), vec![json!("other")]);
    let partitions = || (Some(json!(12)), vec![json!(6), json!(24)]);
    let engine = || (Some(json!("MergeTree")), vec![json!("Null")]);
    let attributes = || (Some(json!("Map")), vec![json!("JSON")]);
    let partition_by = || (Some(json!("Day")), vec![json!("Month")]);
    let mut all = vec![
        fixed("TelemetryPipeline", &["gateway", "consumerGroup"], 0, group()),
        fixed("TelemetryPipeline", &["gateway", "groupProtocol"], 0, protocol()),
        fixed("TelemetryPipeline", &["clickhouse", "database"], 1, place()),
        fixed("TelemetryPipeline", &["clickhouse", "tablePrefix"], 1, place()),
        fixed("GatewayPool", &["consumerGroup"], 0, group()),
        fixed("GatewayPool", &["groupProtocol"], 0, protocol()),
        fixed("GatewayPool", &["clickhouse", "database"], 1, place()),
        fixed("GatewayPool", &["clickhouse", "tablePrefix"], 1, place()),
        fixed("TelemetryTopic", &["topicName"], 0, (None, vec![json!("one"), json!("two")])),
        fixed("TelemetryTopic", &["partitions"], 0, partitions()),
        fixed("TelemetrySchema", &["clickhouse", "database"], 1, place()),
        fixed("TelemetrySchema", &["clickhouse", "tablePrefix"], 1, place()),
    ];
    macro_rules! of_each_signal {
        ($($signal:literal),+) => {$(
            let name = (Some(json!(concat!("otlp_", $signal))), vec![json!("one"), json!("two")]);
            all.extend([
                fixed("TelemetryPipeline", &["signals", $signal, "topicName"], 2, name),
                fixed("TelemetryPipeline", &["signals", $signal, "topic", "partitions"], 2,
                    partitions()),
                fixed("TelemetryPipeline", &["signals", $signal, "table", "engine"], 2, engine()),
                fixed("TelemetryPipeline", &["signals", $signal, "table", "attributes"], 2,
                    attributes()),
                fixed("TelemetryPipeline", &["signals", $signal, "table", "layout", "partitionBy"],
                    2, partition_by()),
                fixed("TelemetrySchema", &["signals", $signal, "engine"], 2, engine()),
                fixed("TelemetrySchema", &["signals", $signal, "attributes"], 2, attributes()),
                fixed("TelemetrySchema", &["signals", $signal, "layout", "partitionBy"], 2,
                    partition_by()),
            ]);
        )+};
    }
    of_each_signal!("traces", "logs", "metrics");
    for (steps, values) in [
        (&["signals", "defaults", "topic", "partitions"][..], partitions()),
        (&["signals", "defaults", "table", "engine"][..], engine()),
        (&["signals", "defaults", "table", "attributes"][..], attributes()),
        (&["signals", "defaults", "table", "layout", "partitionBy"][..], partition_by()),
    ] {
        all.push(fixed("TelemetryPipeline", steps, 1, values));
    }
    all
}

/// An object of a kind with the least it needs, and the block of `steps` that is always there.
fn object(of: &Fixed) -> Value {
    let kafka = json!({"bootstrapServers": ["kafka.kafka:9092"]});
    let clickhouse = json!({"endpoints": ["http://clickhouse.db:8123"]});
    let is_of_signal = of.steps[0] == "signals" && of.steps[1] != "defaults";
    let signal = if is_of_signal { of.steps[1] } else { "traces" };
    let signals = json!({signal: {}});
    let spec = match of.kind {
        "TelemetryTopic" => json!({"kafka": kafka}),
        "TelemetrySchema" => json!({"clickhouse": clickhouse, "signals": signals}),
        _ => json!({"kafka": kafka, "clickhouse": clickhouse, "signals": signals}),
    };
    json!({"apiVersion": "millrace.dev/v1alpha1", "kind": of.kind,
        "metadata": {"name": "t", "namespace": "default"}, "spec": spec})
}

/// Every way to write each value: the object, and the value it means.
fn ways(of: &Fixed) -> Vec<(Value, Option<Value>)> {
    let mut ways = Vec::new();
    // Left out, with as many of the blocks around it as there can be.
    for depth in of.always..of.steps.len() {
        let mut object = object(of);
        let mut at = &mut object["spec"];
        for step in &of.steps[..depth] {
            at = &mut at[step];
            if at.is_null() {
                *at = json!({});
            }
        }
        ways.push((object, of.default.clone()));
    }
    for value in of.default.iter().chain(&of.others) {
        let mut object = object(of);
        let mut at = &mut object["spec"];
        for step in of.steps {
            at = &mut at[step];
        }
        *at = value.clone();
        ways.push((object, Some(value.clone())));
    }
    ways
}

/// Scenario: every field that can't be changed, written in every way before and after: its block
/// left out, the block alone, its default, other values. Guarantee: the change is accepted exactly
/// when the value it means is the same (for partitions: not smaller), and the refusal names it.
#[test]
fn a_change_is_accepted_exactly_when_it_means_no_change() {
    let schemas = support::schemas();
    let mut wrong = Vec::new();
    for of in all() {
        for (old, meant) in ways(&of) {
            for (new, means) in ways(&of) {
                let refused = support::refusals(&schemas[of.kind], &new, Some(&old));
                let fits = match of.grows {
                    true => means.as_ref().unwrap().as_u64() >= meant.as_ref().unwrap().as_u64(),
                    false => means == meant,
                };
                let field = of.steps.last().unwrap();
                let named = refused.iter().any(|it| it.contains(field));
                if refused.is_empty() != fits || (!fits && !named) {
                    let (old, new) = (&old["spec"], &new["spec"]);
                    wrong.push(format!("{} {:?}: {old} -> {new}: {refused:?}", of.kind, of.steps));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Writes a value at a JSON pointer, with the objects around it.
fn put(value: &mut Value, pointer: &str, new: &Value) {
    let mut at = value;
    for step in pointer.split('/').skip(1) {
        if at.is_null() {
            *at = json!({});
        }
        at = &mut at[step];
    }
    *at = new.clone();
}

/// Scenario: a signal's value is written in the signals' defaults instead, and back; then the
/// defaults get another value, with and without the signal's own. Guarantee: only a change of the
/// value that the signal has is refused.
#[test]
fn a_value_may_move_between_a_signal_and_the_defaults() {
    let schema = &support::schemas()["TelemetryPipeline"];
    let is_of_logs = |of: &Fixed| of.steps[..2] == ["signals", "logs"] && of.steps.len() > 3;
    for of in all().into_iter().filter(|of| of.kind == "TelemetryPipeline" && is_of_logs(of)) {
        let write = |own: Option<&Value>, default: Option<&Value>| {
            let mut object = object(&of);
            for (owner, value) in [("logs", own), ("defaults", default)] {
                let Some(value) = value else { continue };
                let pointer = format!("/signals/{owner}/{}", of.steps[2..].join("/"));
                put(&mut object["spec"], &pointer, value);
            }
            object
        };
        let (one, other) = (of.default.as_ref().unwrap(), of.others.last().unwrap());
        // The last of the other numbers of partitions is larger.
        let (smaller, larger) = (one, other);
        for (old, new, fits) in [
            (write(Some(other), None), write(None, Some(other)), true),
            (write(None, Some(other)), write(Some(other), None), true),
            (write(Some(other), None), write(Some(other), Some(smaller)), true),
            (write(None, Some(larger)), write(None, Some(smaller)), false),
            (write(None, Some(larger)), write(Some(smaller), Some(larger)), false),
        ] {
            let refused = support::refusals(schema, &new, Some(&old));
            assert_eq!(
                refused.is_empty(),
                fits,
                "{:?} -> {:?}: {refused:?}",
                old["spec"],
                new["spec"]
            );
        }
    }
}

/// Scenario: every field that can't be changed. Guarantee: its description says so before it is
/// written.
#[test]
fn a_field_that_stays_is_described_so() {
    let schemas = support::schemas();
    for of in all() {
        let mut schema = &schemas[of.kind].structure["properties"]["spec"];
        for step in of.steps {
            schema = &schema["properties"][step];
        }
        let words =
            if of.grows { "Cannot be lowered later: " } else { "Cannot be changed later: " };
        let description = schema["description"].as_str().unwrap();
        assert!(description.contains(words), "{} {:?}: {description}", of.kind, of.steps);
    }
}

/// Scenario: every rule that looks at what a value was. Guarantee: it stands where there always
/// is one: the API server runs no such rule on a block that is added.
#[test]
fn rules_about_changes_stand_on_what_is_always_there() {
    let mut wrong = Vec::new();
    for (kind, schema) in support::schemas() {
        always_there(
            &schema.structure["properties"]["spec"],
            &format!("{kind}.spec"),
            true,
            &mut wrong,
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn always_there(schema: &Value, path: &str, always: bool, wrong: &mut Vec<String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if !always && rule["rule"].as_str().unwrap().contains("oldSelf") {
            wrong.push(format!("{path}: {}", rule["rule"]));
        }
    }
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let always = always && required.contains(&name.as_str());
        always_there(inner, &format!("{path}.{name}"), always, wrong);
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            always_there(&schema[below], &format!("{path}[]"), false, wrong);
        }
    }
}

/// Scenario: a signal is taken out of a pipeline and of a schema, and comes back in another shape.
/// Guarantee: both are accepted: what was there before is nobody's any more. A pipeline's
/// attributes are one type for all signals, which stays with the other signal.
#[test]
fn a_signal_may_go_and_come_back_otherwise() {
    let schemas = support::schemas();
    let is_shared = |of: &Fixed| of.kind == "TelemetryPipeline" && of.steps.contains(&"attributes");
    let is_of_signal = |of: &Fixed| of.steps[0] == "signals" && of.steps[1] != "defaults";
    for of in all().into_iter().filter(|of| is_of_signal(of) && !is_shared(of)) {
        let other = if of.steps[1] == "traces" { "logs" } else { "traces" };
        let mut without = object(&of);
        without["spec"]["signals"] = json!({other: {}});
        for (mut with, _) in ways(&of) {
            with["spec"]["signals"][other] = json!({});
            for (new, old) in [(&with, &without), (&without, &with)] {
                let refused = support::refusals(&schemas[of.kind], new, Some(old));
                assert!(refused.is_empty(), "{old} -> {new}: {refused:?}");
            }
        }
    }
}
