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
    ANSWER_BYTES_MAX, LOOK_MAX, Look, PODS_MAX, PodSource, Sample, ScrapeError, Target, sample,
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
        let unreachable =
            |cause: String| ScrapeError::Unreachable { pod: pod.clone(), address: *address, cause };
        // Given back once the answer is read.
        let mut paid = None;
        let asking = self.text(SocketAddr::new(*address, self.port), &mut paid);
        let text = tokio::time::timeout(LOOK_MAX, asking)
            .await
            .map_err(|_elapsed| unreachable(format!("no answer in {} s", LOOK_MAX.as_secs())))?
            .map_err(unreachable)?;
        sample(&text, at).map_err(|cause| ScrapeError::Unreadable {
            pod: pod.clone(),
            address: *address,
            cause,
        })
    }

    /// The answer; the budget is charged once its length is known: a silent pod costs nothing, and
    /// nobody waits while holding part of an answer.
    async fn text(
        &self,
        address: SocketAddr,
        paid: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<String, String> {
        let request = http::Request::get(format!("http://{address}/metrics"))
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

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn target(pod: &str) -> Target {
        Target { pod: pod.to_owned(), address: HOST }
    }

    /// Scenario: a pod that answers, then one that takes the connection and says nothing.
    /// Guarantee:
    /// figures of the first; of the second an error that names it, after the time of one look.
    #[tokio::test]
    async fn a_pod_that_hangs_costs_one_look_and_is_named() {
        let listener = TcpListener::bind((HOST, 0)).await.unwrap();
        let pods = HttpPods::new(listener.local_addr().unwrap().port());
        let serve = tokio::spawn(async move {
            let (mut first, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let read = first.read(&mut request).await.unwrap();
            assert!(request[..read].starts_with(b"GET /metrics HTTP/1.1\r\n"));
            let body = "millrace_budget_bytes 7\n";
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}", 24);
            first.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
            drop(first);
            // Held open, and never answered.
            let (second, _) = listener.accept().await.unwrap();
            std::future::pending::<()>().await;
            drop(second);
        });
        let now = Timestamp::from_second(5).unwrap();
        let look = pods.look(&[target("a-0")], now).await;
        let sample = look["a-0"].as_ref().unwrap();
        assert_eq!((sample.at, sample.budget_bytes), (5, Some(7)));
        let look = pods.look(&[target("a-1")], now).await;
        let error = look["a-1"].as_ref().unwrap_err().to_string();
        assert!(error.contains("pod a-1 at 127.0.0.1") && error.contains("no answer"), "{error}");
        serve.abort();
    }

    /// Scenario: other answers hold the whole budget, and then don't. Guarantee: a pod's answer
    /// waits for it, no longer than a look takes; it is taken then, and what it took is given back.
    #[tokio::test]
    async fn answers_wait_for_the_shared_budget() {
        let listener = TcpListener::bind((HOST, 0)).await.unwrap();
        let budget = Budget::new(24);
        let pods = HttpPods::new(listener.local_addr().unwrap().port()).sharing(budget.clone());
        let serve = tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = [0; 1024];
                let _ = socket.read(&mut request).await.unwrap();
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 24";
                let body = "millrace_budget_bytes 7\n";
                socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
            }
        });
        let others = budget.take(24).await.unwrap();
        let now = Timestamp::from_second(5).unwrap();
        let look = pods.look(&[target("a-0")], now).await;
        assert!(matches!(look["a-0"], Err(ScrapeError::Unreachable { .. })), "{look:?}");
        drop(others);
        let look = pods.look(&[target("a-0"), target("a-1")], now).await;
        assert!(look.values().all(Result::is_ok), "{look:?}");
        assert_eq!(budget.left(), 24);
        serve.abort();
    }

    /// Scenario: nobody listens. Guarantee: an error, at once.
    #[tokio::test]
    async fn a_pod_that_is_away_is_told() {
        let port = {
            let listener = TcpListener::bind((HOST, 0)).await.unwrap();
            listener.local_addr().unwrap().port()
        };
        let look = HttpPods::new(port).look(&[target("a-0")], Timestamp::UNIX_EPOCH).await;
        assert!(matches!(look["a-0"], Err(ScrapeError::Unreachable { .. })), "{look:?}");
    }

    /// Scenario: a pool of more pods than are asked at once. Guarantee: every one of them is asked.
    #[tokio::test]
    async fn all_pods_of_a_large_pool_are_asked() {
        let listener = TcpListener::bind((HOST, 0)).await.unwrap();
        let pods = HttpPods::new(listener.local_addr().unwrap().port());
        let serve = tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let mut request = [0; 1024];
                    let _ = socket.read(&mut request).await;
                    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 24";
                    let answer = format!("{head}\r\n\r\nmillrace_budget_bytes 7\n");
                    let _ = socket.write_all(answer.as_bytes()).await;
                });
            }
        });
        let targets: Vec<_> = (0..PODS_MAX * 2 + 1).map(|at| target(&format!("a-{at}"))).collect();
        let look = pods.look(&targets, Timestamp::UNIX_EPOCH).await;
        assert_eq!(look.len(), targets.len());
        assert!(look.values().all(Result::is_ok), "{look:?}");
        serve.abort();
    }
}
