//! Scrapes pods over HTTP, unencrypted: the admin port has figures only, and serves the kubelet's
//! probes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Body;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use millrace_ddl::Budget;
use tokio::sync::OwnedSemaphorePermit;

use super::ADMIN_PORT;
use super::{
    ANSWER_BYTES_MAX, FigureSource, PODS_MAX, PodCounters, PodDeadLetters, PodProducers, PodSource,
    PodTarget, SCRAPE_MAX, ScrapeError, ScrapeResults, ShareReport, ShareResponses, ShareSource,
    parse_sample,
};
use crate::error::error_chain;

/// Queries pods on one port.
pub struct HttpPods {
    client: Client<HttpConnector, Empty<Bytes>>,
    port: u16,
    /// The budget for bytes of responses; scrapes beyond it wait, within their timeout.
    response_budget: Budget,
}

impl HttpPods {
    /// Creates a client for this port.
    #[must_use]
    pub fn new(port: u16) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        // Use a connection per scrape: there would be as many open ones as pods.
        builder.pool_max_idle_per_host(0);
        let answers = Budget::new(ANSWER_BYTES_MAX);
        Self { client: builder.build_http(), port, response_budget: answers }
    }

    /// Shares this budget for responses.
    #[must_use]
    pub fn with_budget(self, answers: Budget) -> Self {
        Self { response_budget: answers, ..self }
    }

    /// Queries a path of all targets, and parses each response with `read`.
    fn query_all<'a, T: Send + 'a>(
        &'a self,
        targets: &'a [PodTarget],
        path: &'static str,
        read: impl Fn(PodTarget, &str) -> Result<T, ScrapeError> + Copy + Send + Sync + 'a,
    ) -> BoxFuture<'a, BTreeMap<String, Result<T, ScrapeError>>> {
        let query = move |target: &'a PodTarget| async move {
            let response = self.get(target, path, |text: &str| read(target.clone(), text)).await;
            (target.pod.clone(), response)
        };
        stream::iter(targets).map(query).buffer_unordered(PODS_MAX).collect().boxed()
    }

    /// Returns what `read` parses from a pod's response, which counts against the budget until
    /// then.
    async fn get<T>(
        &self,
        target: &PodTarget,
        path: &str,
        read: impl Fn(&str) -> Result<T, ScrapeError>,
    ) -> Result<T, ScrapeError> {
        let PodTarget { pod, address } = target;
        let unreachable =
            |cause: String| ScrapeError::Unreachable { pod: pod.clone(), address: *address, cause };
        // The permit is released once the response is parsed.
        let mut paid = None;
        let asking = self.fetch_text(SocketAddr::new(*address, self.port), path, &mut paid);
        let text = tokio::time::timeout(SCRAPE_MAX, asking)
            .await
            .map_err(|_elapsed| unreachable(format!("no answer in {} s", SCRAPE_MAX.as_secs())))?
            .map_err(unreachable)?;
        read(&text)
    }

    /// Returns the response. The budget is charged once its length is known: a silent pod costs
    /// nothing, and no scrape waits while it holds part of a response.
    async fn fetch_text(
        &self,
        address: SocketAddr,
        path: &str,
        paid: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<String, String> {
        let request = http::Request::get(format!("http://{address}{path}"))
            .body(Empty::new())
            .map_err(|error| error.to_string())?;
        let answer = self.client.request(request).await.map_err(|error| error_chain(&error))?;
        if answer.status() != http::StatusCode::OK {
            return Err(format!("it answered {}", answer.status()));
        }
        let most = u64::try_from(ANSWER_BYTES_MAX).unwrap_or(u64::MAX);
        let length = answer.body().size_hint().upper().unwrap_or(most).min(most);
        let price = u32::try_from(length).unwrap_or(u32::MAX);
        *paid = Some(
            self.response_budget.acquire_bytes(price).await.map_err(|closed| closed.to_string())?,
        );
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let bytes = body.map_err(|error| error_chain(error.as_ref()))?.to_bytes();
        String::from_utf8(bytes.into()).map_err(|_invalid| "its answer is not text".to_owned())
    }
}

impl Default for HttpPods {
    /// Queries the port that the operator gives collectors.
    fn default() -> Self {
        Self::new(u16::try_from(ADMIN_PORT).unwrap_or_default())
    }
}

impl PodSource for HttpPods {
    fn scrape_pods<'a>(
        &'a self,
        targets: &'a [PodTarget],
        now: Timestamp,
    ) -> BoxFuture<'a, ScrapeResults> {
        self.query_all(targets, "/metrics", move |PodTarget { pod, address }, text| {
            let sample = parse_sample(text, now.as_second());
            sample.map(Arc::new).map_err(|cause| ScrapeError::Unreadable { pod, address, cause })
        })
    }
}

impl FigureSource for HttpPods {
    fn read_figures<'a>(&'a self, targets: &'a [PodTarget]) -> BoxFuture<'a, PodCounters> {
        self.query_all(targets, "/metrics", |PodTarget { pod, address }, text| {
            millrace_reports::facts::parse_sample(text).map_err(|cause| ScrapeError::Unreadable {
                pod,
                address,
                cause,
            })
        })
    }

    fn read_producers<'a>(&'a self, edges: &'a [PodTarget]) -> BoxFuture<'a, PodProducers> {
        self.query_all(edges, "/producers", |PodTarget { pod, address }, text| {
            serde_json::from_str(text).map_err(|error| ScrapeError::NoProducers {
                pod,
                address,
                cause: error.to_string(),
            })
        })
    }

    fn read_dead_letters<'a>(&'a self, gateways: &'a [PodTarget]) -> BoxFuture<'a, PodDeadLetters> {
        self.query_all(gateways, "/dead-letters", |PodTarget { pod, address }, text| {
            serde_json::from_str(text).map_err(|error| ScrapeError::NoDeadLetters {
                pod,
                address,
                cause: error.to_string(),
            })
        })
    }
}

impl ShareSource for HttpPods {
    fn query_shares<'a>(&'a self, targets: &'a [PodTarget]) -> BoxFuture<'a, ShareResponses> {
        self.query_all(targets, "/share", |PodTarget { pod, address }, text| {
            ShareReport::read(text).map_err(|cause| ScrapeError::NoShare { pod, address, cause })
        })
    }
}

#[cfg(test)]
mod tests;
