//! `explain-defaults`: the effective spec of a pipeline, or of an object in a file.

use millrace_crds::v1alpha1::TelemetryPipeline;
use serde::Deserialize;
use serde_json::Value;

use crate::args::ExplainDefaults;
use crate::command::{CommandOutput, CommandSession, file};
use crate::error::Error;
use crate::render::{self, Palette};
use crate::report;

/// Explains the first object of a file; needs no cluster.
pub(in crate::command) fn explain_file(path: &str) -> Result<CommandOutput, Error> {
    let failed = |cause: String| Error::File { path: path.to_owned(), cause };
    let text = file::read_input(path)?;
    for document in serde_norway::Deserializer::from_str(&text) {
        let value = Value::deserialize(document).map_err(|error| failed(error.to_string()))?;
        let is_ours = value["apiVersion"].as_str().is_some_and(|it| it.starts_with("millrace.dev"));
        if is_ours {
            return explain(&value, Palette::PLAIN);
        }
    }
    Err(failed("it has no object of millrace.dev".to_owned()))
}

/// Explains a pipeline of the cluster.
pub(in crate::command) async fn run(
    session: &CommandSession,
    args: &ExplainDefaults,
) -> Result<CommandOutput, Error> {
    let pipeline = session.cluster.read_pipeline(args.named.pipeline.as_deref()).await?;
    let name = pipeline.metadata.name.unwrap_or_default();
    let mut object = session.cluster.get_raw::<TelemetryPipeline>(&name).await?;
    object["kind"] = "TelemetryPipeline".into();
    explain(&object, session.palette)
}

fn explain(object: &Value, palette: Palette) -> Result<CommandOutput, Error> {
    let effective = report::explain_defaults(object)?;
    CommandOutput::from_report(render::render_effective_spec(&effective, palette), &effective)
}
