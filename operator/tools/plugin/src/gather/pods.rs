//! Reads pods' metrics and logs. Metrics come through the API server's proxy, so that a laptop that
//! can't reach pods can read them.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use millrace_crds::pods::ADMIN_PORT;
use millrace_reports::units::format_plural;

use super::Cluster;
use crate::error::{Error, Right, error_chain};
use crate::facts::{CounterSample, Facts, Gap, parse_sample};

/// Pods queried concurrently.
const AT_ONCE: usize = 8;
/// Maximum pods whose metrics are read.
const PODS_MAX: usize = 100;
/// Maximum answer: 2,000 series of 200 bytes are a tenth of it.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Maximum wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Maximum log of one container.
const LOG_BYTES_MAX: i64 = 4 << 20;

/// The part of a log to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logs {
    /// The number of last lines.
    pub lines: i64,
    /// Whether to read the previous container's log.
    pub previous: bool,
    /// Only lines of the last seconds.
    pub since_seconds: Option<i64>,
}

impl Cluster {
    /// Reads the metrics of running pods; a pod that doesn't answer is a gap.
    pub(super) async fn read_metrics(&self, facts: &mut Facts, namespace: &str) {
        let running = facts.pods.iter().filter(|pod| pod.state == "Running");
        let names: Vec<String> = running.map(|pod| pod.name.clone()).take(PODS_MAX).collect();
        let beyond = facts.pods.len().saturating_sub(PODS_MAX);
        if beyond > 0 {
            let why = format!(
                "not polled: {} beyond the first {PODS_MAX}",
                format_plural(beyond as u64, "pod")
            );
            facts.gaps.push(Gap { what: "all pods' metrics".to_owned(), why });
        }
        let requests = stream::iter(names).map(|name| async move {
            let read = self.read_pod_metrics(namespace, &name).await;
            (name, read.and_then(|text| read_sample(&text)))
        });
        let answers: Vec<(String, Result<CounterSample, Error>)> =
            requests.buffer_unordered(AT_ONCE).collect().await;
        for (name, answer) in answers {
            match answer {
                Ok(read) => {
                    let pod = facts.pods.iter_mut().find(|pod| pod.name == name);
                    if let Some(pod) = pod {
                        pod.now = Some(read);
                    }
                }
                Err(error) => facts.gaps.push(metrics_gap(&name, &error)),
            }
        }
    }

    /// Returns a pod's metrics unchanged.
    ///
    /// # Errors
    /// When the request is denied, or the pod doesn't answer.
    pub async fn read_pod_metrics(&self, namespace: &str, pod: &str) -> Result<String, Error> {
        let what = format!("for the metrics of pod {pod} (port {ADMIN_PORT}, by the proxy)");
        let failed = |cause: String| Error::Server { what: what.clone(), cause };
        match tokio::time::timeout(ANSWER_MAX, self.fetch_metrics(namespace, pod, &what)).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(failed(format!("no answer in {} s", ANSWER_MAX.as_secs()))),
        }
    }

    async fn fetch_metrics(&self, namespace: &str, pod: &str, what: &str) -> Result<String, Error> {
        let failed = |cause: String| Error::Server { what: what.to_owned(), cause };
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{ADMIN_PORT}/proxy/metrics");
        let request = Request::get(path).body(kube::client::Body::empty());
        let request = request.map_err(|error| failed(error.to_string()))?;
        let right = Right {
            verb: "get",
            group: String::new(),
            resource: "pods/proxy".to_owned(),
            namespace: Some(namespace.to_owned()),
        };
        let (status, text) = self.proxy_request(request, &right, what).await?;
        match status.is_success() {
            true => Ok(text),
            false => Err(Self::proxy_error(status, &text, right, what)),
        }
    }

    /// Sends a request to a pod through the API server's proxy; returns the status and text of
    /// whichever answers.
    ///
    /// # Errors
    /// When the API server doesn't answer, or the answer is too long or not text.
    pub(super) async fn proxy_request(
        &self,
        request: Request<kube::client::Body>,
        right: &Right,
        what: &str,
    ) -> Result<(StatusCode, String), Error> {
        let failed = |cause: String| Error::Server { what: what.to_owned(), cause };
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|error| Error::from_kube(error, right.clone(), what))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let bytes = body.map_err(|error| failed(error_chain(error.as_ref())))?.to_bytes();
        let text = String::from_utf8(bytes.into()).map_err(|error| failed(error.to_string()))?;
        Ok((status, text))
    }

    /// Returns the error that the API server reports in place of the pod.
    pub(super) fn proxy_error(status: StatusCode, text: &str, right: Right, what: &str) -> Error {
        let status_object = serde_json::from_str::<kube::core::Status>(text);
        let status_object = status_object.unwrap_or_else(|_no_status| kube::core::Status {
            message: format!("HTTP status {status}"),
            ..Default::default()
        });
        let status_object = kube::core::Status { code: status.as_u16(), ..status_object };
        Error::from_kube(kube::Error::Api(Box::new(status_object)), right, what)
    }

    /// Returns part of the log of a pod's collector.
    ///
    /// # Errors
    /// When the request is denied, or there is no log.
    pub async fn read_log(&self, namespace: &str, pod: &str, part: Logs) -> Result<String, Error> {
        self.container_log(namespace, pod, Some("collector"), part).await
    }

    /// Returns part of the log of an operator's pod, which has one container.
    ///
    /// # Errors
    /// When the request is denied, or there is no log.
    pub async fn operator_log(
        &self,
        namespace: &str,
        pod: &str,
        part: Logs,
    ) -> Result<String, Error> {
        self.container_log(namespace, pod, None, part).await
    }

    async fn container_log(
        &self,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
        part: Logs,
    ) -> Result<String, Error> {
        let params = LogParams {
            container: container.map(str::to_owned),
            tail_lines: Some(part.lines),
            limit_bytes: Some(LOG_BYTES_MAX),
            previous: part.previous,
            since_seconds: part.since_seconds,
            ..LogParams::default()
        };
        let right = Right {
            verb: "get",
            group: String::new(),
            resource: "pods/log".to_owned(),
            namespace: Some(namespace.to_owned()),
        };
        let api = Api::<Pod>::namespaced(self.client.clone(), namespace);
        let read = api.logs(pod, &params).await;
        read.map_err(|error| Error::from_kube(error, right, &format!("for the log of pod {pod}")))
    }
}

fn read_sample(text: &str) -> Result<CounterSample, Error> {
    parse_sample(text).map_err(|error| Error::Server {
        what: "about a collector's metrics".to_owned(),
        cause: error.to_string(),
    })
}

/// A missing right is one gap for all pods.
fn metrics_gap(pod: &str, error: &Error) -> Gap {
    let what = match error {
        Error::Denied(_) => "rates, rejections, memory and CPU of pods".to_owned(),
        _ => format!("metrics of pod {pod}"),
    };
    Gap { what, why: error_chain(error) }
}
