//! `plan -f FILE`: the API server applies the file as a dry run, so that its defaults, its rules
//! and other managers' fields count; `report::plan` then reports the differences.

use millrace_crds::v1alpha1::{TelemetryPipeline, TelemetrySchema};
use serde::Deserialize;
use serde_json::Value;

use crate::args::{ClusterArgs, PlanArgs};
use crate::command::{CommandOutput, CommandSession, file};
use crate::error::Error;
use crate::gather::Cluster;
use crate::{render, report};

/// Runs the command.
pub(in crate::command) async fn run(
    session: &CommandSession,
    cluster_args: &ClusterArgs,
    args: &PlanArgs,
) -> Result<CommandOutput, Error> {
    let (name, namespace, document) =
        parse_pipeline(&args.filename, &file::read_input(&args.filename)?)?;
    let cluster = match (namespace, &cluster_args.namespace) {
        (Some(file), Some(requested)) if file != *requested => {
            return Err(Error::Impossible(format!(
                "{} is for namespace {file}, and -n is {requested}: omit one of them",
                args.filename
            )));
        }
        (Some(file), _) => session.cluster.in_namespace(file),
        (None, _) => session.cluster.clone(),
    };
    let before = match cluster.get_raw::<TelemetryPipeline>(&name).await {
        Ok(found) => Some(spec_of(&found)),
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
    let after = spec_of(&made);
    let report = report::plan_report(
        (cluster.namespace(), &name),
        before.as_ref(),
        &after,
        conflicts,
        &schemas.unwrap_or_default(),
    );
    CommandOutput::from_report(render::render_plan(&report, session.palette), &report)
}

fn spec_of(object: &Value) -> Value {
    object["spec"].clone()
}

/// Returns the only pipeline of a file, with its name and namespace.
fn parse_pipeline(path: &str, text: &str) -> Result<(String, Option<String>, Value), Error> {
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
    /// Returns the same cluster with another namespace.
    #[must_use]
    fn in_namespace(&self, namespace: String) -> Self {
        Self::new(self.client(), namespace)
    }
}
