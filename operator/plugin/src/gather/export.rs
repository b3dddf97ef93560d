//! OTLP to an edge pod, by POST through the API server's proxy: a laptop needs no way to the pod.
//!
//! The proxy checks no certificate of a pod and shows none of its own, so an edge that asks clients
//! for certificates can't be sent to. Nothing is sent twice: an answer that is lost leaves open
//! whether the records were taken.
//!
//! Limits: 30 s for a request.

use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use millrace_crds::v1alpha1::Signal;
use serde_json::Value;

use super::Cluster;
use crate::error::{Error, Right};

/// OTLP over HTTP at an edge.
pub const OTLP_HTTP_PORT: u16 = 4318;
/// The longest wait for an edge's answer: Kafka's included.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// An edge pod that takes test records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// The pod.
    pub pod: String,
    /// Whether its listener speaks TLS.
    pub encrypted: bool,
}

impl Cluster {
    /// Sends a request, in JSON; returns once the edge has taken all of its records.
    ///
    /// # Errors
    /// When the edge can't be asked, refuses it, or refuses some of its records.
    pub async fn export(
        &self,
        namespace: &str,
        door: &Door,
        signal: Signal,
        body: &Value,
    ) -> Result<(), Error> {
        let Door { pod, encrypted } = door;
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
        let answer = tokio::time::timeout(ANSWER_MAX, self.proxied(request, &right, &what)).await;
        let answer = answer
            .map_err(|_elapsed| failed(format!("no answer in {} s", ANSWER_MAX.as_secs())))?;
        let (status, text) = answer?;
        let told: Value = serde_json::from_str(&text).unwrap_or_default();
        if told["kind"] == "Status" && !status.is_success() {
            // The API server's own answer: a right, or a pod that it can't reach.
            return Err(Self::of_proxy(status, &text, right, &what));
        }
        if !status.is_success() {
            let message = told["message"].as_str().unwrap_or(&text);
            return Err(Error::Impossible(format!(
                "edge pod {pod} refuses test records with HTTP {status}: {message}; `kubectl \
                 millrace status` says what it lacks"
            )));
        }
        match refused(&told) {
            None => Ok(()),
            Some(message) => Err(Error::Impossible(format!(
                "edge pod {pod} refuses some of the test records: {message}"
            ))),
        }
    }
}

/// What an answer says of records that were refused though the request was taken.
fn refused(answer: &Value) -> Option<String> {
    let part = answer["partialSuccess"].as_object()?;
    let (name, count) = part.iter().find(|(name, _)| name.starts_with("rejected"))?;
    let count = count.as_str().map_or_else(|| count.to_string(), str::to_owned);
    let message = part.get("errorMessage").and_then(Value::as_str).unwrap_or_default();
    (count != "0").then(|| format!("{name} {count}: {message}"))
}
