//! The common part of gRPC and HTTP: delivers a request, or refuses it with a reason.
//!
//! One deadline per request covers all waiting of its client. A request that is not answered by
//! then is withdrawn, and its client learns whether it may be stored.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Body;
use millrace_pipeline::cancellation::{CancelOutcome, Canceller};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::failpoint;
use millrace_pipeline::publish::{DeliveryReceipt, PublishError};
use millrace_pipeline::telemetry::RefusalReason;
use millrace_wire::Signal;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::body::{self, CollectedBody, MessageLayout};
use super::connection_budget::ConnectionBudget;
use super::deadline::ResponseTimes;
use super::denied::{Denial, DenialKind};
use super::work::{Pool, RequestJob, WorkerContext};

/// Accepts requests; all connections of a receiver share it.
pub(crate) struct OtlpService {
    pub(crate) shared: Arc<WorkerContext>,
    pub(crate) pool: Pool,
    pub(crate) connection_budget: ConnectionBudget,
    pub(crate) drain: Drain,
    /// The time limits of a complete request.
    pub(crate) times: ResponseTimes,
}

/// The data of a request before its body arrives.
pub(crate) struct RequestHead<F> {
    pub(crate) signal: Signal,
    pub(crate) framing: F,
    /// The limit of the decompressed message.
    pub(crate) limit_bytes: usize,
    /// The client's timeout, if it states one.
    pub(crate) client_timeout: Option<Duration>,
    /// The address of the client's end of the connection. No header changes it.
    pub(crate) client: IpAddr,
}

/// How a message is framed in a body.
pub(crate) trait Framing {
    /// The maximum bytes that the framing adds.
    const OVERHEAD_BYTES: usize;

    /// Returns where the message begins, and how it is compressed and encoded.
    fn locate_message(&self, body: &[u8]) -> Result<MessageLayout, Denial>;
}

impl OtlpService {
    /// Processes one request until its delivery.
    pub(crate) async fn export<B, F>(
        &self,
        head: RequestHead<F>,
        body: B,
    ) -> Result<DeliveryReceipt, Denial>
    where
        B: Body<Data = Bytes> + Unpin,
        F: Framing,
    {
        let RequestHead { signal, framing, limit_bytes, client_timeout, client } = head;
        let begun = Instant::now();
        if !self.shared.publisher.accepts_signal(signal) {
            return Err(self.count_denied(signal, PublishError::Unconfigured(signal).into()));
        }
        if self.drain.is_begun() {
            return Err(self.count_denied_as(
                signal,
                RefusalReason::Draining,
                PublishError::Draining.into(),
            ));
        }
        let Some(_room) = self.connection_budget.reserve_request() else {
            return Err(self.count_denied(signal, Denial::full()));
        };
        let collecting =
            body::collect_body(body, limit_bytes + F::OVERHEAD_BYTES, &self.shared.intake);
        let collect_by = begun + self.times.of_body(client_timeout);
        let body = match timeout_at(collect_by, collecting).await {
            Ok(collected) => collected.map_err(|denied| self.count_denied(signal, denied))?,
            Err(_) => {
                let denied = Denial::unavailable("the request did not arrive in time");
                return Err(self.count_denied_as(signal, RefusalReason::Timeout, denied));
            }
        };
        let layout = framing
            .locate_message(&body.bytes)
            .map_err(|denied| self.count_denied(signal, denied))?;
        let answer_by = begun + self.times.of_request(client_timeout, begun.elapsed());
        self.deliver_body((signal, client), body, layout, limit_bytes, answer_by).await
    }

    async fn deliver_body(
        &self,
        (signal, client): (Signal, IpAddr),
        body: CollectedBody,
        layout: MessageLayout,
        limit_bytes: usize,
        answer_by: Instant,
    ) -> Result<DeliveryReceipt, Denial> {
        // Dropped with this call, for example when the client closes its connection: then nothing
        // more is sent.
        let canceller = Canceller::new(answer_by.into_std());
        let (answer, answered) = oneshot::channel();
        let cancellation = canceller.cancellation();
        let job = RequestJob { signal, layout, body, limit_bytes, answer, cancellation, client };
        self.pool.submit_job(job).map_err(|(signal, denied)| self.count_denied(signal, denied))?;
        let delivered = async {
            let ended = |_| Denial::unavailable("the collector did not finish the request");
            let (delivery, out_of_range_records) = answered.await.map_err(ended)??;
            Ok::<_, Denial>(DeliveryReceipt { out_of_range_records, ..delivery.await? })
        };
        let delivered = match timeout_at(answer_by, delivered).await {
            Ok(result) => result?,
            Err(_) => return Err(timeout_denial(canceller.cancel())),
        };
        failpoint::hit("before-answer");
        Ok(delivered)
    }

    /// Counts a request that was refused unread, by the reason in its answer.
    pub(crate) fn count_denied(&self, signal: Signal, denied: Denial) -> Denial {
        let refusal = match denied.kind {
            DenialKind::Malformed => RefusalReason::Malformed,
            DenialKind::TooLarge => RefusalReason::TooLarge,
            DenialKind::Unsupported => RefusalReason::Unsupported,
            DenialKind::Unconfigured => RefusalReason::Unconfigured,
            DenialKind::Full(_) => RefusalReason::Full,
            DenialKind::Unavailable(_) => RefusalReason::Unavailable,
        };
        self.count_denied_as(signal, refusal, denied)
    }

    /// Counts it under a given reason. One request counts as one record, in and refused.
    fn count_denied_as(&self, signal: Signal, refusal: RefusalReason, denied: Denial) -> Denial {
        self.shared.telemetry.records_in(signal, 1);
        self.shared.telemetry.record_refused(signal, refusal, 1);
        denied
    }
}

/// Returns the answer for a request that was not delivered in time. The code that withdraws the
/// records counts them.
fn timeout_denial(cancelled: CancelOutcome) -> Denial {
    let why = "no answer within your client's timeout";
    match cancelled {
        CancelOutcome::Unsent => PublishError::Unavailable(why.to_owned()).into(),
        CancelOutcome::MayBeStored => PublishError::Unconfirmed(why.to_owned()).into(),
    }
}
