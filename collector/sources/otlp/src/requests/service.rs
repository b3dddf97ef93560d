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
use millrace_wire::decompress::ContentEncoding;
use millrace_wire::framing::{self, GRPC_PREFIX_BYTES, MessageFormat};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::answers::denied::Denial;
use crate::connections::connection_budget::ConnectionBudget;
use crate::requests::body::{self, CollectedBody, MessageLayout};
use crate::requests::deadline::ResponseTimes;
use crate::requests::work::{Pool, RequestJob, WorkerContext};

/// Accepts requests; all connections of a receiver share it.
pub(crate) struct OtlpService {
    pub(crate) shared: Arc<WorkerContext>,
    pub(crate) pool: Pool,
    pub(crate) connection_budget: ConnectionBudget,
    pub(crate) drain: Drain,
    /// The time limits of a complete request.
    pub(crate) times: ResponseTimes,
}

/// A call whose head was read.
pub(crate) struct Call {
    pub(crate) signal: Signal,
    pub(crate) framing: Framing,
    /// The compression that its header states.
    pub(crate) encoding: Option<ContentEncoding>,
    /// The limit of the decompressed message.
    pub(crate) limit_bytes: usize,
    /// The client's timeout, if it states one. HTTP clients state none.
    pub(crate) client_timeout: Option<Duration>,
    /// The address of the client's end of the connection. No header changes it.
    pub(crate) client: IpAddr,
}

/// How a message is framed in a body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Framing {
    /// Protobuf behind a prefix, whose flag states whether the message is compressed.
    Grpc,
    /// The message is the body, in this format.
    Http(MessageFormat),
}

impl Call {
    /// Returns the limit of the body.
    fn body_limit_bytes(&self) -> usize {
        match self.framing {
            Framing::Grpc => self.limit_bytes + GRPC_PREFIX_BYTES,
            Framing::Http(_) => self.limit_bytes,
        }
    }

    /// Returns where the message begins, and how it is compressed and encoded.
    fn locate_message(&self, body: &[u8]) -> Result<MessageLayout, Denial> {
        match self.framing {
            Framing::Http(format) => {
                Ok(MessageLayout { start: 0, encoding: self.encoding, format })
            }
            Framing::Grpc => {
                let encoding = framing::grpc_message(body, self.encoding)
                    .map_err(|error| Denial::new(RefusalReason::Malformed, error))?;
                let (start, format) = (GRPC_PREFIX_BYTES, MessageFormat::Protobuf);
                Ok(MessageLayout { start, encoding, format })
            }
        }
    }
}

impl OtlpService {
    /// Processes one call until its delivery.
    pub(crate) async fn export<B>(&self, call: &Call, body: B) -> Result<DeliveryReceipt, Denial>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let &Call { signal, client_timeout, .. } = call;
        let begun = Instant::now();
        let denied = |denied| self.count_denied(signal, denied);
        if !self.shared.publisher.accepts_signal(signal) {
            return Err(denied(PublishError::Unconfigured(signal).into()));
        }
        if self.drain.is_begun() {
            return Err(denied(PublishError::Draining.into()));
        }
        let Some(_reservation) = self.connection_budget.reserve_request() else {
            return Err(denied(Denial::full()));
        };
        let collecting = body::collect_body(body, call.body_limit_bytes(), &self.shared.intake);
        let collect_by = begun + self.times.of_body(client_timeout);
        let late = |_| Denial::new(RefusalReason::Timeout, "the request did not arrive in time");
        let body =
            timeout_at(collect_by, collecting).await.map_err(late).flatten().map_err(denied)?;
        let layout = call.locate_message(&body.bytes).map_err(denied)?;
        let answer_by = begun + self.times.of_request(client_timeout, begun.elapsed());
        self.deliver_body(call, body, layout, answer_by).await
    }

    async fn deliver_body(
        &self,
        call: &Call,
        body: CollectedBody,
        layout: MessageLayout,
        answer_by: Instant,
    ) -> Result<DeliveryReceipt, Denial> {
        let &Call { signal, limit_bytes, client, .. } = call;
        // Dropped with this call, for example when the client closes its connection: then nothing
        // more is sent.
        let canceller = Canceller::new(answer_by.into_std());
        let (answer, answered) = oneshot::channel();
        let cancellation = canceller.cancellation();
        let job = RequestJob { signal, layout, body, limit_bytes, answer, cancellation, client };
        self.pool.submit_job(job).map_err(|denied| self.count_denied(signal, denied))?;
        let delivered = async {
            let message = "the collector did not finish the request";
            let ended = |_| Denial::new(RefusalReason::Unavailable, message);
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

    /// Counts a request that was refused unread, as one record in and refused.
    pub(crate) fn count_denied(&self, signal: Signal, denied: Denial) -> Denial {
        self.shared.telemetry.records_in(signal, 1);
        self.shared.telemetry.record_refused(signal, denied.reason, 1);
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
