//! Scrapes pods over HTTP, unencrypted: the admin port has figures only, and serves the kubelet's
//! probes.

use std::net::SocketAddr;

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
    ANSWER_BYTES_MAX, FigureSource, Figures, LOOK_MAX, Look, PODS_MAX, PodSource, Sample,
    ScrapeError, ShareAnswers, ShareReport, ShareSource, Target, sample,
};
use crate::error::chain;

/// Asks pods on one port.
pub struct HttpPods {
    client: Client<HttpConnector, Empty<Bytes>>,
    port: u16,
    /// Bytes left for answers; others wait, within their timeout.
    answers: Budget,
}

impl HttpPods {
    /// Asks on this port.
    #[must_use]
    pub fn new(port: u16) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        // A connection per scrape: kept open, there would be as many as pods.
        builder.pool_max_idle_per_host(0);
        let answers = Budget::new(ANSWER_BYTES_MAX);
        Self { client: builder.build_http(), port, answers }
    }

    /// Shares this budget for answers.
    #[must_use]
    pub fn sharing(self, answers: Budget) -> Self {
        Self { answers, ..self }
    }

    async fn ask(&self, target: &Target, at: i64) -> Result<Sample, ScrapeError> {
        let Target { pod, address } = target;
        let read = |text: &str| {
            let (pod, address) = (pod.clone(), *address);
            sample(text, at).map_err(|cause| ScrapeError::Unreadable { pod, address, cause })
        };
        self.get(target, "/metrics", read).await
    }

    async fn ask_share(&self, target: &Target) -> Result<ShareReport, ScrapeError> {
        let Target { pod, address } = target;
        let read = |text: &str| {
            let (pod, address) = (pod.clone(), *address);
            ShareReport::read(text).map_err(|cause| ScrapeError::NoShare { pod, address, cause })
        };
        self.get(target, "/share", read).await
    }

    /// What `read` makes of a pod's answer, which counts against the budget until then.
    async fn get<T>(
        &self,
        target: &Target,
        path: &str,
        read: impl Fn(&str) -> Result<T, ScrapeError>,
    ) -> Result<T, ScrapeError> {
        let Target { pod, address } = target;
        let unreachable =
            |cause: String| ScrapeError::Unreachable { pod: pod.clone(), address: *address, cause };
        // Given back once the answer is read.
        let mut paid = None;
        let asking = self.text(SocketAddr::new(*address, self.port), path, &mut paid);
        let text = tokio::time::timeout(LOOK_MAX, asking)
            .await
            .map_err(|_elapsed| unreachable(format!("no answer in {} s", LOOK_MAX.as_secs())))?
            .map_err(unreachable)?;
        read(&text)
    }

    /// The answer; the budget is charged once its length is known: a silent pod costs nothing, and
    /// nobody waits while holding part of an answer.
    async fn text(
        &self,
        address: SocketAddr,
        path: &str,
        paid: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<String, String> {
        let request = http::Request::get(format!("http://{address}{path}"))
            .body(Empty::new())
            .map_err(|error| error.to_string())?;
        let answer = self.client.request(request).await.map_err(|error| chain(&error))?;
        if answer.status() != http::StatusCode::OK {
            return Err(format!("it answers {}", answer.status()));
        }
        let most = u64::try_from(ANSWER_BYTES_MAX).unwrap_or(u64::MAX);
        let length = answer.body().size_hint().upper().unwrap_or(most).min(most);
        let price = u32::try_from(length).unwrap_or(u32::MAX);
        *paid = Some(self.answers.take(price).await.map_err(|closed| closed.to_string())?);
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let bytes = body.map_err(|error| chain(error.as_ref()))?.to_bytes();
        String::from_utf8(bytes.into()).map_err(|_invalid| "it answers no text".to_owned())
    }
}

impl Default for HttpPods {
    /// Asks on the port that the operator gives collectors.
    fn default() -> Self {
        Self::new(u16::try_from(ADMIN_PORT).unwrap_or_default())
    }
}

impl PodSource for HttpPods {
    fn look<'a>(&'a self, targets: &'a [Target], now: Timestamp) -> BoxFuture<'a, Look> {
        let ask = move |target: &'a Target| async move {
            (target.pod.clone(), self.ask(target, now.as_second()).await)
        };
        stream::iter(targets).map(ask).buffer_unordered(PODS_MAX).collect().boxed()
    }
}

impl FigureSource for HttpPods {
    fn figures<'a>(&'a self, targets: &'a [Target]) -> BoxFuture<'a, Figures> {
        let ask =
            move |target: &'a Target| async move {
                let Target { pod, address } = target;
                let read =
                    |text: &str| {
                        let (pod, address) = (pod.clone(), *address);
                        millrace_reports::facts::sample(text)
                            .map_err(|cause| ScrapeError::Unreadable { pod, address, cause })
                    };
                (pod.clone(), self.get(target, "/metrics", read).await)
            };
        stream::iter(targets).map(ask).buffer_unordered(PODS_MAX).collect().boxed()
    }
}

impl ShareSource for HttpPods {
    fn ask<'a>(&'a self, targets: &'a [Target]) -> BoxFuture<'a, ShareAnswers> {
        let ask = move |target: &'a Target| async move {
            (target.pod.clone(), self.ask_share(target).await)
        };
        stream::iter(targets).map(ask).buffer_unordered(PODS_MAX).collect().boxed()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/pods/http.rs"]
mod tests;
