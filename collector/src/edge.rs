//! The edge: OTLP from clients, to Kafka.
//!
//! Order at the start: Kafka is watched, then listeners are bound; ready when both are well. Order
//! at the end: stop accepting, answer what there is, flush, then let go of Kafka.

use std::num::NonZeroU16;
use std::sync::Arc;

use millrace_config::{KafkaExporter, OtlpReceiver};
use millrace_exporters::kafka::KafkaPublisher;
use millrace_pipeline::publish::Publish;
use millrace_receivers::otlp::{Otlp, Parts};

use crate::run::{Common, RunError};

/// Runs an edge until the drain is over.
pub(crate) async fn run(
    receiver: &OtlpReceiver,
    exporter: &KafkaExporter,
    common: Common,
    cores: NonZeroU16,
) -> Result<(), RunError> {
    let Common { budget, drain, readiness, telemetry } = common;
    let limits = &receiver.limits;
    let needed_bytes = limits.grpc_message_bytes.get().max(limits.http_body_bytes.get());
    // Twice: as it came, and expanded.
    if budget.limit_bytes() < needed_bytes * 2 {
        let budget_bytes = budget.limit_bytes();
        return Err(RunError::SmallBudget { budget_bytes, needed_bytes: needed_bytes * 2 });
    }
    let listeners = readiness.part("listeners");
    let kafka = readiness.part("kafka");
    let publisher = Arc::new(KafkaPublisher::start(exporter, &telemetry, kafka, &drain)?);
    let otlp = Otlp::bind(
        receiver,
        Parts {
            budget,
            drain: drain.clone(),
            telemetry,
            publisher: Arc::clone(&publisher) as Arc<dyn Publish>,
            threads: usize::from(cores.get()),
        },
    )
    .await?;
    if let Some(address) = otlp.grpc_address() {
        tracing::info!(%address, "otlp over grpc is listened for");
    }
    if let Some(address) = otlp.http_address() {
        tracing::info!(%address, "otlp over http is listened for");
    }
    listeners.ready();
    otlp.serve().await;
    let remaining = drain.remaining();
    let flushed = tokio::task::spawn_blocking(move || publisher.flush(remaining)).await;
    match flushed {
        Ok(true) => Ok(()),
        _ => Err(RunError::Deadline),
    }
}
