//! The edge: OTLP from clients, to Kafka.
//!
//! Order at the start: Kafka is watched, then listeners are bound; ready when both are well. Order
//! at the end: stop accepting, answer what there is, flush, then let go of Kafka.

use std::num::NonZeroU16;
use std::sync::Arc;

use millrace_config::{ByteSize, KafkaExporter, OtlpLimits, OtlpReceiver};
use millrace_exporters::kafka::{BufferedParts, BufferedPublisher, KafkaPublisher};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::publish::Publish;
use millrace_pipeline::readiness::Part;
use millrace_receivers::otlp::{Otlp, Parts};

use crate::common::{Common, RunError};

/// A mebibyte.
const MIB: u64 = 1 << 20;

/// Runs an edge until the drain is over.
pub(crate) async fn run(
    receiver: &OtlpReceiver,
    exporter: &KafkaExporter,
    common: Common,
    cores: NonZeroU16,
) -> Result<(), RunError> {
    let Common { budget, budget_percent, drain, readiness, starting, telemetry } = common;
    // Twice: as it came, and expanded.
    fits(&budget, budget_percent, &receiver.limits, 2)?;
    let listeners = readiness.part("listeners");
    let kafka = readiness.part("kafka");
    let threads = usize::from(cores.get());
    let parts = |publisher: Arc<dyn Publish>, budget, telemetry| Parts {
        budget,
        drain: drain.clone(),
        telemetry,
        publisher,
        threads,
    };
    let Some(buffer) = &exporter.buffer else {
        let publisher = Arc::new(KafkaPublisher::start(exporter, &telemetry, kafka, &drain)?);
        starting.ready();
        let parts = parts(Arc::clone(&publisher) as _, budget, telemetry);
        take(receiver, parts, &listeners).await?;
        let remaining = drain.remaining();
        return finish(move || publisher.flush(remaining)).await;
    };
    let buffered = BufferedParts {
        budget: budget.clone(),
        telemetry: Arc::clone(&telemetry),
        part: kafka,
        drain: drain.clone(),
    };
    let publisher = Arc::new(BufferedPublisher::start(exporter, buffer, buffered)?);
    starting.ready();
    let parts = parts(Arc::clone(&publisher) as _, budget, telemetry);
    take(receiver, parts, &listeners).await?;
    let remaining = drain.remaining();
    finish(move || publisher.flush(remaining)).await
}

/// Takes requests until the drain.
pub(crate) async fn take(
    receiver: &OtlpReceiver,
    parts: Parts,
    listeners: &Part,
) -> Result<(), RunError> {
    let otlp = Otlp::bind(receiver, parts).await?;
    announce(&otlp);
    listeners.ready();
    otlp.serve().await;
    Ok(())
}

/// Waits for what was taken to be safe: `flush` blocks, and says whether it is.
pub(crate) async fn finish(flush: impl FnOnce() -> bool + Send + 'static) -> Result<(), RunError> {
    match tokio::task::spawn_blocking(flush).await {
        Ok(true) => Ok(()),
        _ => Err(RunError::Deadline),
    }
}

/// Whether the budget holds the largest request that the limits allow, `copies` times over; what to
/// write if it doesn't.
pub(crate) fn fits(
    budget: &Budget,
    percent: u8,
    limits: &OtlpLimits,
    copies: u64,
) -> Result<(), RunError> {
    let needed_bytes = limits.longest_bytes() * copies;
    let budget_bytes = budget.limit_bytes();
    if needed_bytes <= budget_bytes {
        return Ok(());
    }
    let largest = longest_that_fits(budget_bytes, copies);
    let fields = [
        ("grpcMessageBytes", limits.grpc_message_bytes),
        ("httpBodyBytes", limits.http_body_bytes),
    ];
    let fields = fields.into_iter().filter(|(_, bytes)| *bytes > largest);
    Err(RunError::SmallBudget {
        budget_bytes,
        needed_bytes,
        copies,
        limit: limit_that_fits(needed_bytes, percent),
        largest,
        fields: fields.map(|(name, _)| name).collect::<Vec<_>>().join(" and "),
    })
}

/// The longest request that a budget holds so many times over, in whole mebibytes if it has any.
pub(crate) fn longest_that_fits(budget_bytes: u64, copies: u64) -> ByteSize {
    let bytes = budget_bytes / copies;
    ByteSize::bytes(if bytes < MIB { bytes } else { bytes / MIB * MIB })
}

/// The least memory limit, in whole mebibytes, of which `percent` are so many bytes.
pub(crate) fn limit_that_fits(needed_bytes: u64, percent: u8) -> ByteSize {
    // The share is taken of whole hundreds of bytes.
    let limit_bytes = needed_bytes.div_ceil(u64::from(percent).max(1)) * 100;
    ByteSize::mib(limit_bytes.div_ceil(MIB))
}

/// Says where clients are listened for.
fn announce(otlp: &Otlp) {
    if let Some(address) = otlp.grpc_address() {
        tracing::info!(%address, "otlp over grpc is listened for");
    }
    if let Some(address) = otlp.http_address() {
        tracing::info!(%address, "otlp over http is listened for");
    }
}
