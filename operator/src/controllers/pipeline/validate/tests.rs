//! Tests the attribute storage of a pipeline's tables: declared, recorded, or by default.

use millrace_crds::v1alpha1::{Attributes, TelemetryPipelineStatus};

use super::*;

/// Returns a pipeline with these signals, as its user writes them, and a status.
fn pipeline(signals: &str, status: Option<TelemetryPipelineStatus>) -> TelemetryPipeline {
    let text = format!(
        "apiVersion: millrace.dev/v1alpha1\nkind: TelemetryPipeline\nmetadata: {{name: shop, \
         namespace: telemetry}}\nspec:\n  kafka: {{bootstrapServers: [\"kafka.kafka:9092\"]}}\n  \
         clickhouse: {{endpoints: [\"http://clickhouse.db:8123\"]}}\n  signals: {signals}"
    );
    let mut pipeline: TelemetryPipeline = serde_norway::from_str(&text).unwrap();
    pipeline.status = status;
    pipeline
}

fn made_with(attributes: Option<Attributes>) -> Option<TelemetryPipelineStatus> {
    let observed_generation = Some(1);
    Some(TelemetryPipelineStatus {
        observed_generation,
        attributes,
        ..TelemetryPipelineStatus::default()
    })
}

const NOTHING: &str = "{traces: {}, logs: {}}";
const JSON: &str = "{traces: {}, logs: {table: {attributes: JSON}}}";
const MAP: &str = "{traces: {table: {attributes: Map}}, logs: {}}";

/// Scenario: pipelines declare attribute storage, or don't: new and recorded ones. Guarantee: new
/// ones get the default of all kinds, recorded ones are unchanged, and one signal's declaration
/// applies to all.
#[test]
fn a_new_pipeline_gets_map_and_no_other_is_changed() {
    let (json, map) = (made_with(Some(Attributes::Json)), made_with(Some(Attributes::Map)));
    for (signals, status, expected) in [
        (NOTHING, None, Attributes::default()),
        (NOTHING, Some(TelemetryPipelineStatus::default()), Attributes::Map),
        (NOTHING, made_with(None), Attributes::default()),
        (NOTHING, json.clone(), Attributes::Json),
        (NOTHING, map.clone(), Attributes::Map),
        (JSON, None, Attributes::Json),
        (JSON, json, Attributes::Json),
        (MAP, None, Attributes::Map),
        (MAP, map, Attributes::Map),
    ] {
        let found = resolve_attributes(&pipeline(signals, status.clone())).unwrap();
        assert_eq!(found, expected, "{signals} {status:?}");
    }
}

/// Scenario: a pipeline declares another storage than the recorded one, or two at once. Guarantee:
/// each is refused with the field and what to write.
#[test]
fn a_pipeline_that_asks_for_another_way_is_told_what_to_write() {
    let json = made_with(Some(Attributes::Json));
    for (signals, status, words) in [
        (MAP, json, ["spec.signals.traces.table.attributes", "created with JSON", "tablePrefix"]),
        (
            JSON,
            made_with(Some(Attributes::Map)),
            ["spec.signals.logs.table.attributes", "created with Map", "tablePrefix"],
        ),
        (
            "{traces: {table: {attributes: Map}}, logs: {table: {attributes: JSON}}}",
            None,
            ["spec.signals.logs.table.attributes", "it would be JSON, and traces is Map", "same"],
        ),
    ] {
        let message = resolve_attributes(&pipeline(signals, status)).unwrap_err().message;
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
    }
}
