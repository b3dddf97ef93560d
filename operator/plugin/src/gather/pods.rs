//! Pods' metrics and logs. Metrics come through the API server's proxy, so that a laptop that can't
//! reach pods can read them.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use millrace_crds::pods::ADMIN_PORT;

use super::Cluster;
use crate::error::{Error, Right, chain};
use crate::facts::{Facts, Gap, Sample, sample};

/// Pods that are asked at once.
const AT_ONCE: usize = 8;
/// Pods whose metrics are read.
const PODS_MAX: usize = 100;
/// The longest answer read: 2,000 series of 200 bytes are a tenth of it.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The longest wait for one.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The longest log that is read of one container.
const LOG_BYTES_MAX: i64 = 4 << 20;

/// Which part of a log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logs {
    /// The last lines.
    pub lines: i64,
    /// Of the container before this one.
    pub previous: bool,
    /// Only lines of the last seconds.
    pub since_seconds: Option<i64>,
}

impl Cluster {
    /// Reads the metrics of the pods that run; a pod that doesn't answer is a gap.
    pub(super) async fn read_metrics(&self, facts: &mut Facts, namespace: &str) {
        let running = facts.pods.iter().filter(|pod| pod.state == "Running");
        let names: Vec<String> = running.map(|pod| pod.name.clone()).take(PODS_MAX).collect();
        let beyond = facts.pods.len().saturating_sub(PODS_MAX);
        if beyond > 0 {
            let why = format!("{beyond} pods beyond the first {PODS_MAX} are not asked");
            facts.gaps.push(Gap { what: "all pods' metrics".to_owned(), why });
        }
        let asked = stream::iter(names).map(|name| async move {
            let read = self.metrics(namespace, &name).await;
            (name, read.and_then(|text| read_sample(&text)))
        });
        let answers: Vec<(String, Result<Sample, Error>)> =
            asked.buffer_unordered(AT_ONCE).collect().await;
        for (name, answer) in answers {
            match answer {
                Ok(read) => {
                    let pod = facts.pods.iter_mut().find(|pod| pod.name == name);
                    if let Some(pod) = pod {
                        pod.now = Some(read);
                    }
                }
                Err(error) => facts.gaps.push(gap(&name, &error)),
            }
        }
    }

    /// A pod's metrics as it writes them.
    ///
    /// # Errors
    /// When it may not be asked, or doesn't answer.
    pub async fn metrics(&self, namespace: &str, pod: &str) -> Result<String, Error> {
        let what = format!("for the metrics of pod {pod} (port {ADMIN_PORT}, by the proxy)");
        let failed = |cause: String| Error::Server { what: what.clone(), cause };
        match tokio::time::timeout(ANSWER_MAX, self.ask(namespace, pod, &what)).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(failed(format!("no answer in {} s", ANSWER_MAX.as_secs()))),
        }
    }

    async fn ask(&self, namespace: &str, pod: &str, what: &str) -> Result<String, Error> {
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
        let (status, text) = self.proxied(request, &right, what).await?;
        match status.is_success() {
            true => Ok(text),
            false => Err(Self::of_proxy(status, &text, right, what)),
        }
    }

    /// A request to a pod by the API server's proxy: whoever answers, with which text.
    ///
    /// # Errors
    /// When the API server doesn't answer, or the answer is too long or no text.
    pub(super) async fn proxied(
        &self,
        request: Request<kube::client::Body>,
        right: &Right,
        what: &str,
    ) -> Result<(StatusCode, String), Error> {
        let failed = |cause: String| Error::Server { what: what.to_owned(), cause };
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|error| Error::of(error, right.clone(), what))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let bytes = body.map_err(|error| failed(chain(error.as_ref())))?.to_bytes();
        let text = String::from_utf8(bytes.into()).map_err(|error| failed(error.to_string()))?;
        Ok((status, text))
    }

    /// What the API server says instead of the pod.
    pub(super) fn of_proxy(status: StatusCode, text: &str, right: Right, what: &str) -> Error {
        let told = serde_json::from_str::<kube::core::Status>(text);
        let told = told.unwrap_or_else(|_no_status| kube::core::Status {
            message: format!("it answers {status}"),
            ..Default::default()
        });
        let told = kube::core::Status { code: status.as_u16(), ..told };
        Error::of(kube::Error::Api(Box::new(told)), right, what)
    }

    /// Part of the log of a pod's collector.
    ///
    /// # Errors
    /// When it may not be read, or there is none.
    pub async fn log(&self, namespace: &str, pod: &str, part: Logs) -> Result<String, Error> {
        self.container_log(namespace, pod, Some("collector"), part).await
    }

    /// Part of the log of an operator's pod, which has one container.
    ///
    /// # Errors
    /// When it may not be read, or there is none.
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
        read.map_err(|error| Error::of(error, right, &format!("for the log of pod {pod}")))
    }
}

fn read_sample(text: &str) -> Result<Sample, Error> {
    sample(text).map_err(|error| Error::Server {
        what: "with a collector's metrics".to_owned(),
        cause: error.to_string(),
    })
}

/// A right that is missing is missing for all pods alike.
fn gap(pod: &str, error: &Error) -> Gap {
    let what = match error {
        Error::Denied(_) => "rates, refusals, memory and processor time of pods".to_owned(),
        _ => format!("figures of pod {pod}"),
    };
    Gap { what, why: chain(error) }
}
