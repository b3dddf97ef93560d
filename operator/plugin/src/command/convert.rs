//! `convert -f FILE`: a Collector's configuration as a pipeline on standard output, what became of
//! each part of it on standard error. No cluster is asked.

use millrace_convert::{Unreadable, Wanted, convert};
use serde_json::{Value, json};

use super::{Answer, file};
use crate::args::{Convert, Place};
use crate::error::Error;
use crate::render::{self, Palette};

/// Runs it.
pub(super) fn run(place: &Place, args: &Convert) -> Result<Answer, Error> {
    let text = file::read(&args.filename)?;
    let wanted = Wanted { name: args.name.clone(), namespace: place.namespace.clone() };
    let conversion = convert(&text, &wanted).map_err(|error| match error {
        Unreadable::Name(_) => Error::Impossible(error.to_string()),
        other => Error::File { path: args.filename.clone(), cause: other.to_string() },
    })?;
    let pipeline: Value = serde_norway::from_str(&conversion.yaml)
        .map_err(|error| Error::Impossible(format!("the pipeline is no YAML: {error}")))?;
    let list = json!({ "pipeline": pipeline, "list": conversion.entries });
    let mut answer = Answer::of(conversion.yaml, &list)?;
    answer.aside = render::conversion(&conversion.entries, Palette::PLAIN);
    Ok(answer)
}
