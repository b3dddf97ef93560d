//! `plan -f FILE`: the API server applies the file as a dry run, so that its defaults, its rules
//! and other managers' fields count; the differences are then told by `report::plan`.

use millrace_crds::v1alpha1::{TelemetryPipeline, TelemetrySchema};
use serde::Deserialize;
use serde_json::Value;

use super::{Answer, Session, file};
use crate::args::{Place, Plan};
use crate::error::Error;
use crate::gather::Cluster;
use crate::{render, report};

/// Runs it.
pub(super) async fn run(session: &Session, place: &Place, args: &Plan) -> Result<Answer, Error> {
    let (name, namespace, document) = pipeline(&args.filename, &file::read(&args.filename)?)?;
    let cluster = match (namespace, &place.namespace) {
        (Some(file), Some(asked)) if file != *asked => {
            return Err(Error::Impossible(format!(
                "{} is for namespace {file}, and -n says {asked}: leave one of them out",
                args.filename
            )));
        }
        (Some(file), _) => session.cluster.in_namespace(file),
        (None, _) => session.cluster.clone(),
    };
    let before = match cluster.get_raw::<TelemetryPipeline>(&name).await {
        Ok(found) => Some(spec(&found)),
        Err(Error::Missing { .. }) => None,
        Err(error) => return Err(error),
    };
    let manager = &*args.field_manager;
    let tried = cluster.try_apply::<TelemetryPipeline>(&name, &document, manager, false).await;
    let (made, conflicts) = match tried {
        Err(Error::Conflict(message)) => {
            let made = cluster.try_apply::<TelemetryPipeline>(&name, &document, manager, true);
            (made.await?, Some(message))
        }
        other => (other?, None),
    };
    let ours = format!("app.kubernetes.io/component=pipeline,app.kubernetes.io/instance={name}");
    let schemas = cluster.list::<TelemetrySchema>(Some(cluster.namespace()), &ours).await;
    let after = spec(&made);
    let report = report::plan(
        (cluster.namespace(), &name),
        before.as_ref(),
        &after,
        conflicts,
        &schemas.unwrap_or_default(),
    );
    Answer::of(render::plan(&report, session.palette), &report)
}

fn spec(object: &Value) -> Value {
    object["spec"].clone()
}

/// The one pipeline of a file, with its name and namespace.
fn pipeline(path: &str, text: &str) -> Result<(String, Option<String>, Value), Error> {
    let failed = |cause: String| Error::File { path: path.to_owned(), cause };
    let mut found = Vec::new();
    for document in serde_norway::Deserializer::from_str(text) {
        let value = Value::deserialize(document).map_err(|error| failed(error.to_string()))?;
        if value["kind"] == "TelemetryPipeline" {
            found.push(value);
        }
    }
    let (Some(one), true) = (found.pop(), found.is_empty()) else {
        return Err(failed("it must have exactly one TelemetryPipeline".to_owned()));
    };
    let meta = |field: &str| one["metadata"][field].as_str().map(str::to_owned);
    let name = meta("name").ok_or_else(|| failed("metadata.name is missing".to_owned()))?;
    let namespace = meta("namespace");
    Ok((name, namespace, one))
}

impl Cluster {
    /// The same cluster, another namespace.
    #[must_use]
    fn in_namespace(&self, namespace: String) -> Self {
        Self::new(self.client(), namespace)
    }
}
