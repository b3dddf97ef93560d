//! Sends OTLP to an edge pod, by POST through the API server's proxy: a laptop needs no route to
//! the pod.
//!
//! The proxy checks no certificate of a pod and presents none, so an edge that requires client
//! certificates can't be used. Nothing is sent twice: after a lost answer it is unknown whether the
//! records were accepted.
//!
//! Limits: 30 s for a request.

use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use millrace_crds::v1alpha1::Signal;
use serde_json::Value;

use super::Cluster;
use crate::error::{Error, Right};

/// The port of OTLP over HTTP at an edge.
pub const OTLP_HTTP_PORT: u16 = 4318;
/// Maximum wait for an edge's answer, including Kafka's.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// An edge pod that accepts test records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeAddress {
    /// The pod.
    pub pod: String,
    /// Whether its listener uses TLS.
    pub encrypted: bool,
}

impl Cluster {
    /// Sends a request, in JSON; returns once the edge has accepted all of its records.
    ///
    /// # Errors
    /// When the edge can't be reached, refuses the request, or refuses some of its records.
    pub async fn export_records(
        &self,
        namespace: &str,
        door: &EdgeAddress,
        signal: Signal,
        body: &Value,
    ) -> Result<(), Error> {
        let EdgeAddress { pod, encrypted } = door;
        let what = format!("for edge pod {pod} (OTLP on port {OTLP_HTTP_PORT}, by the proxy)");
        let failed = |cause: String| Error::Server { what: what.clone(), cause };
        let scheme = if *encrypted { "https:" } else { "" };
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods/{scheme}{pod}:{OTLP_HTTP_PORT}/proxy/v1/{}",
            signal.as_str()
        );
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        let request = request.body(kube::client::Body::from(body.to_string().into_bytes()));
        let request = request.map_err(|error| failed(error.to_string()))?;
        let right = Right {
            verb: "create",
            group: String::new(),
            resource: "pods/proxy".to_owned(),
            namespace: Some(namespace.to_owned()),
        };
        let answer =
            tokio::time::timeout(ANSWER_MAX, self.proxy_request(request, &right, &what)).await;
        let answer = answer
            .map_err(|_elapsed| failed(format!("no answer in {} s", ANSWER_MAX.as_secs())))?;
        let (status, text) = answer?;
        let answer_object: Value = serde_json::from_str(&text).unwrap_or_default();
        if answer_object["kind"] == "Status" && !status.is_success() {
            // The API server's own answer: a missing right, or a pod that it can't reach.
            return Err(Self::proxy_error(status, &text, right, &what));
        }
        if !status.is_success() {
            let message = answer_object["message"].as_str().unwrap_or(&text);
            return Err(Error::Impossible(format!(
                "edge pod {pod} refuses test records with HTTP {status}: {message}; `kubectl \
                 millrace status` shows the cause"
            )));
        }
        match partial_refusal(&answer_object) {
            None => Ok(()),
            Some(message) => Err(Error::Impossible(format!(
                "edge pod {pod} refuses some of the test records: {message}"
            ))),
        }
    }
}

/// Returns the refusal of some records of an accepted request, if any.
fn partial_refusal(answer: &Value) -> Option<String> {
    let part = answer["partialSuccess"].as_object()?;
    let (name, count) = part.iter().find(|(name, _)| name.starts_with("rejected"))?;
    let count = count.as_str().map_or_else(|| count.to_string(), str::to_owned);
    let message = part.get("errorMessage").and_then(Value::as_str).unwrap_or_default();
    (count != "0").then(|| format!("{name} {count}: {message}"))
}
