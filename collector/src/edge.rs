//! The edge: OTLP from clients, to Kafka.
//!
//! Order at the start: Kafka is watched, then listeners are bound; ready when both are well. Order
//! at the end: stop accepting, answer what there is, flush, then let go of Kafka.

use std::num::NonZeroU16;
use std::sync::Arc;

use millrace_config::{KafkaExporter, OtlpReceiver};
use millrace_exporters::kafka::{BufferedParts, BufferedPublisher, KafkaPublisher};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::publish::Publish;
use millrace_pipeline::readiness::Part;
use millrace_receivers::otlp::{Otlp, Parts};

use crate::run::{Common, RunError};

/// Runs an edge until the drain is over.
pub(crate) async fn run(
    receiver: &OtlpReceiver,
    exporter: &KafkaExporter,
    common: Common,
    cores: NonZeroU16,
) -> Result<(), RunError> {
    let Common { budget, drain, readiness, starting, telemetry } = common;
    // Twice: as it came, and expanded.
    fits(&budget, receiver, 2)?;
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

/// Whether the budget holds the largest request that the limits allow, `copies` times over.
pub(crate) fn fits(budget: &Budget, receiver: &OtlpReceiver, copies: u64) -> Result<(), RunError> {
    let needed_bytes = receiver.limits.longest_bytes() * copies;
    let budget_bytes = budget.limit_bytes();
    if budget_bytes < needed_bytes {
        return Err(RunError::SmallBudget { budget_bytes, needed_bytes });
    }
    Ok(())
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
