//! `rules test -f FILE --records FILE`: runs a pipeline's rules on sample records, as its edge pool
//! would. It needs no cluster and reads no Secret.

use millrace_crds::v1alpha1::{EdgePool, PipelineEdge, ProcessingStep, TelemetryPipeline};
use millrace_processing::explain;
use millrace_rule_settings::{build_settings, compile_rules, pool_steps};
use serde::Deserialize;
use serde_json::Value;

use crate::args::{RulesCommand, RulesTest};
use crate::command::{CommandOutput, file};
use crate::error::Error;

/// Runs the command.
pub(in crate::command) fn run(command: &RulesCommand) -> Result<CommandOutput, Error> {
    let RulesCommand::Test(args) = command;
    let of_file = |path: &str, cause: String| Error::File { path: path.to_owned(), cause };
    let text = file::read_input(&args.filename)?;
    let steps = read_steps(&text, args).map_err(|cause| of_file(&args.filename, cause))?;
    // A stand-in: only the collector reads the key.
    let settings = build_settings(&steps, |key| format!("{}/{}", key.name, key.key));
    compile_rules(&settings).map_err(|error| of_file(&args.filename, error.to_string()))?;
    let records = file::read_input(&args.records)?;
    let traces = explain::trace_records(&settings, &records)
        .map_err(|error| of_file(&args.records, error.to_string()))?;
    let report: Value = serde_json::from_str(&explain::render_json(&traces))
        .map_err(|error| Error::Impossible(format!("the report can't be JSON: {error}")))?;
    // Rules without a text end their line in a space.
    let text = explain::render_text(&traces);
    let text: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    CommandOutput::from_report(text, &report)
}

/// Returns the steps of the only pool of a file, or of the one that is named.
fn read_steps(text: &str, args: &RulesTest) -> Result<Vec<ProcessingStep>, String> {
    let mut found = Vec::new();
    for document in serde_norway::Deserializer::from_str(text) {
        let value = Value::deserialize(document).map_err(|error| error.to_string())?;
        if ["TelemetryPipeline", "EdgePool"].iter().any(|kind| value["kind"] == *kind) {
            found.push(value);
        }
    }
    let (Some(one), true) = (found.pop(), found.is_empty()) else {
        return Err("it must have exactly one TelemetryPipeline or EdgePool".to_owned());
    };
    if one["kind"] == "EdgePool" {
        let pool: EdgePool = serde_json::from_value(one).map_err(|error| error.to_string())?;
        return Ok(pool.spec.settings.processing);
    }
    let pipeline: TelemetryPipeline =
        serde_json::from_value(one).map_err(|error| error.to_string())?;
    let edge = chosen_edge(&pipeline.spec.edge_pools(), args.pool.as_deref())?;
    pool_steps(&pipeline.spec.processing, &edge.settings.processing)
        .map_err(|error| format!("spec.edges[{}].processing: {error}", edge.name))
}

/// Returns the edge pool whose rules run.
fn chosen_edge(edges: &[PipelineEdge], requested: Option<&str>) -> Result<PipelineEdge, String> {
    let names: Vec<&str> = edges.iter().map(|edge| edge.name.as_str()).collect();
    match (requested, edges) {
        (Some(requested), _) => {
            let edge = edges.iter().find(|edge| edge.name.as_str() == requested);
            edge.cloned().ok_or_else(|| {
                format!("it has no edge pool {requested:?}: its pools are {}", names.join(", "))
            })
        }
        (None, [only]) => Ok(only.clone()),
        (None, several) => {
            // Where no pool adds rules, every pool runs the same.
            let mut plain = several.iter().filter(|edge| edge.settings.processing.is_empty());
            match plain.clone().count() == several.len() {
                true => plain.next().cloned().ok_or_else(String::new),
                false => Err(format!(
                    "its edge pools have different rules: name one of {} with --pool",
                    names.join(", ")
                )),
            }
        }
    }
}
