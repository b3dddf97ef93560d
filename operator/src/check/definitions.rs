//! Checks that the cluster's CustomResourceDefinitions are at least as new as this operator. The
//! API server drops every field that a definition lacks, so an operator of a newer release would
//! silently ignore settings.
//!
//! It compares the fields that the API server publishes (`/openapi/v3`, which every account may
//! read) with the operator's types, so no version is stored and no right needed. Limit: where that
//! page isn't served, or not within [`UNKNOWN_MAX`], the result is unknown.

use std::sync::LazyLock;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use millrace_crds::{GROUP, VERSION};
use serde_json::Value;
use tokio::time::Instant;

use crate::error::{Category, error_chain};

/// A definition that is older than the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the definition {definition} is older than this operator: it has no {field}. Upgrade the \
     definitions first: helm upgrade --install millrace-crds \
     REGISTRY/millrace/charts/millrace-crds --version {}", env!("CARGO_PKG_VERSION")
)]
pub struct Outdated {
    /// The definition's name, such as `edgepools.millrace.dev`.
    pub definition: String,
    /// The first field that it lacks, such as `spec.collector`.
    pub field: String,
}

/// Why the definitions could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum UnknownDefinitions {
    /// The API server doesn't publish them.
    #[error("the API server does not serve the schemas of {GROUP}/{VERSION}")]
    Request(#[source] Box<kube::Error>),
    /// A request or a schema is invalid.
    #[error("the schemas of {GROUP}/{VERSION} can't be compared: {0}")]
    Invalid(String),
}

impl UnknownDefinitions {
    /// Returns whether a retry may succeed: the API server is overloaded or can't be reached.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(self, Self::Request(error)
            if !matches!(**error, kube::Error::Api(ref status) if status.is_not_found())
                && Category::from_kube(error) == Category::Temporary)
    }
}

/// The retry interval while a definition is older than the operator: the comparison reads a
/// response of some MB.
const OUTDATED_RETRY: Duration = Duration::from_secs(10);
/// The retry interval while the API server doesn't answer the comparison.
const UNKNOWN_RETRY: Duration = Duration::from_secs(2);
/// The longest wait for a comparison. A restarting API server answers again within a minute; where
/// it never does, definitions that are old are less likely than an operator that is needed.
pub const UNKNOWN_MAX: Duration = Duration::from_secs(60);

/// Waits until no definition is older than the operator, or that can't be known.
pub async fn wait_until_current(client: &Client) {
    let mut unknown_since = None;
    loop {
        let pause = match find_outdated(client).await {
            Ok(None) => return,
            Ok(Some(outdated)) => {
                tracing::error!(%outdated, "waiting for newer definitions");
                unknown_since = None;
                OUTDATED_RETRY
            }
            Err(error) => {
                let since = *unknown_since.get_or_insert_with(Instant::now);
                if !error.is_temporary() || since.elapsed() >= UNKNOWN_MAX {
                    let cause = error_chain(&error);
                    tracing::warn!(cause, "whether the definitions are new enough is unknown");
                    return;
                }
                UNKNOWN_RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Returns the first definition that is older than the operator.
///
/// # Errors
/// When the API server doesn't publish the definitions, or a schema can't be compared.
pub async fn find_outdated(client: &Client) -> Result<Option<Outdated>, UnknownDefinitions> {
    let invalid = |error: &dyn std::fmt::Display| UnknownDefinitions::Invalid(error.to_string());
    let path = format!("/openapi/v3/apis/{GROUP}/{VERSION}");
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| invalid(&error))?;
    let page: Value = client
        .request(request)
        .await
        .map_err(|error| UnknownDefinitions::Request(Box::new(error)))?;
    for OwnSchema { definition, kind, schema } in OWN.as_ref().map_err(|error| invalid(error))? {
        // A kind that isn't published yet is served all the same: its list request succeeded.
        let Some(published) = published(&page, kind) else { continue };
        if let Some(field) = missing(schema, published, "") {
            return Ok(Some(Outdated { definition: definition.clone(), field }));
        }
    }
    Ok(None)
}

/// A schema that this operator needs.
struct OwnSchema {
    definition: String,
    kind: String,
    schema: Value,
}

/// The operator's own schemas. Comparisons are repeated every few seconds, and making a schema
/// takes longer than comparing it.
static OWN: LazyLock<Result<Vec<OwnSchema>, serde_json::Error>> = LazyLock::new(|| {
    let definitions = millrace_crds::all_definitions()?;
    definitions.into_iter().filter_map(read_schema).collect()
});

fn read_schema(
    definition: CustomResourceDefinition,
) -> Option<Result<OwnSchema, serde_json::Error>> {
    let CustomResourceDefinition { metadata, spec, .. } = definition;
    let version = spec.versions.into_iter().find(|it| it.name == VERSION)?;
    let schema = serde_json::to_value(version.schema?.open_api_v3_schema?);
    let definition = metadata.name.unwrap_or_default();
    Some(schema.map(|schema| OwnSchema { definition, kind: spec.names.kind, schema }))
}

/// Returns a kind's schema on the page: the one with its group, version and kind.
fn published<'a>(page: &'a Value, kind: &str) -> Option<&'a Value> {
    let schemas = page.pointer("/components/schemas")?.as_object()?;
    schemas.values().find(|schema| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds
            .into_iter()
            .flatten()
            .any(|it| it["kind"] == kind && it["group"] == GROUP && it["version"] == VERSION)
    })
}

/// Returns the path of the first field of a schema that another schema lacks.
fn missing(own: &Value, published: &Value, path: &str) -> Option<String> {
    for (name, field) in own["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        // Kubernetes' own types: the page only has a reference there.
        if matches!(path.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let Some(other) = published["properties"].get(name) else { return Some(path) };
        if let Some(lacking) = missing(field, other, &path) {
            return Some(lacking);
        }
    }
    ["items", "additionalProperties"].into_iter().find_map(|inner| {
        let own = own.get(inner).filter(|it| it.is_object())?;
        missing(own, &published[inner], &format!("{path}[]"))
    })
}

#[cfg(test)]
mod tests;
