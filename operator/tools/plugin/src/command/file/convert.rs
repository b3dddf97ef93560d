//! `convert -f FILE`: prints a Collector's configuration as a pipeline on standard output, and the
//! account of each part on standard error. It needs no cluster.

use millrace_convert::{ConvertOptions, Unreadable, convert_config};
use serde_json::{Value, json};

use crate::args::{ClusterArgs, Convert};
use crate::command::{CommandOutput, file};
use crate::error::Error;
use crate::render::{self, Palette};

/// Runs the command.
pub(in crate::command) fn run(
    cluster_args: &ClusterArgs,
    args: &Convert,
) -> Result<CommandOutput, Error> {
    let text = file::read_input(&args.filename)?;
    let options =
        ConvertOptions { name: args.name.clone(), namespace: cluster_args.namespace.clone() };
    let conversion = convert_config(&text, &options).map_err(|error| match error {
        Unreadable::Name(_) => Error::Impossible(error.to_string()),
        other => Error::File { path: args.filename.clone(), cause: other.to_string() },
    })?;
    let pipeline: Value = serde_norway::from_str(&conversion.yaml)
        .map_err(|error| Error::Impossible(format!("the pipeline is not YAML: {error}")))?;
    let list = json!({ "pipeline": pipeline, "list": conversion.entries });
    let mut answer = CommandOutput::from_report(conversion.yaml, &list)?;
    answer.aside = render::render_conversion(&conversion.entries, Palette::PLAIN);
    Ok(answer)
}
