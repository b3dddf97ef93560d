//! The common part of gRPC and HTTP: a request is delivered, or denied with a reason.
//!
//! One deadline per request covers everything a client can make wait.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Body;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::failpoint;
use millrace_pipeline::publish::{Delivered, Refused};
use millrace_pipeline::telemetry::Refusal;
use millrace_wire::Signal;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::body::{self, Collected, Layout};
use super::denied::{Denied, Kind};
use super::room::Rooms;
use super::work::{Job, Pool, Shared};

/// Takes requests; shared by all connections of a receiver.
pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
    pub(crate) pool: Pool,
    pub(crate) rooms: Rooms,
    pub(crate) drain: Drain,
    /// The time for a whole request.
    pub(crate) request_time: Duration,
}

/// How a message lies in a body.
pub(crate) trait Framing {
    /// Bytes the framing adds at most.
    const OVERHEAD_BYTES: usize;

    /// Finds the message: where it begins, and how it is compressed and written.
    fn message(&self, body: &[u8]) -> Result<Layout, Denied>;
}

impl Service {
    /// Sees one request through to its delivery.
    pub(crate) async fn export<B, F>(
        &self,
        signal: Signal,
        framing: F,
        limit_bytes: usize,
        body: B,
    ) -> Result<Delivered, Denied>
    where
        B: Body<Data = Bytes> + Unpin,
        F: Framing,
    {
        if !self.shared.publisher.takes(signal) {
            return Err(self.unread(signal, Refused::Unconfigured(signal).into()));
        }
        if self.drain.is_begun() {
            return Err(self.unread_as(signal, Refusal::Draining, Refused::Draining.into()));
        }
        let Some(_room) = self.rooms.request() else {
            return Err(self.unread(signal, Denied::full()));
        };
        let deadline = Instant::now() + self.request_time;
        let collecting = body::collect(body, limit_bytes + F::OVERHEAD_BYTES, &self.shared.intake);
        let body = match timeout_at(deadline, collecting).await {
            Ok(collected) => collected.map_err(|denied| self.unread(signal, denied))?,
            Err(_) => {
                let denied = Denied::unavailable("the request took too long to arrive");
                return Err(self.unread_as(signal, Refusal::Timeout, denied));
            }
        };
        let layout = framing.message(&body.bytes).map_err(|denied| self.unread(signal, denied))?;
        self.deliver(signal, body, layout, limit_bytes, deadline).await
    }

    async fn deliver(
        &self,
        signal: Signal,
        body: Collected,
        layout: Layout,
        limit_bytes: usize,
        deadline: Instant,
    ) -> Result<Delivered, Denied> {
        let (answer, answered) = oneshot::channel();
        let job = Job { signal, layout, body, limit_bytes, answer };
        self.pool.submit(job).map_err(|(signal, denied)| self.unread(signal, denied))?;
        let worked = timeout_at(deadline, answered).await;
        let ended = || Denied::unavailable("the collector did not finish the request");
        let delivery = worked.map_err(|_| ended())?.map_err(|_| ended())??;
        let late = |_| Denied::unavailable("the records were not confirmed in time");
        let delivered = timeout_at(deadline, delivery).await.map_err(late)??;
        failpoint::hit("before-answer");
        Ok(delivered)
    }

    /// Counts a request that was denied unread, by the reason its answer gives.
    pub(crate) fn unread(&self, signal: Signal, denied: Denied) -> Denied {
        let refusal = match denied.kind {
            Kind::Malformed => Refusal::Malformed,
            Kind::TooLarge => Refusal::TooLarge,
            Kind::Unsupported => Refusal::Unsupported,
            Kind::Unconfigured => Refusal::Unconfigured,
            Kind::Full(_) => Refusal::Full,
            Kind::Unavailable(_) => Refusal::Unavailable,
        };
        self.unread_as(signal, refusal, denied)
    }

    /// Counts it under a reason of its own. One request counts as one record, in and refused.
    fn unread_as(&self, signal: Signal, refusal: Refusal, denied: Denied) -> Denied {
        self.shared.telemetry.records_in(signal, 1);
        self.shared.telemetry.refused(signal, refusal, 1);
        denied
    }
}
