//! The edge: from clients and files to Kafka.
//!
//! Start: watch Kafka, then bind listeners; ready when both work. End: stop accepting, answer open
//! requests, flush, then close the producer.

use std::num::NonZeroU16;
use std::sync::Arc;

use millrace_config::{KafkaExporter, Sources};
use millrace_exporters::kafka::{BufferedParts, BufferedPublisher, KafkaPublisher};
use millrace_pipeline::publish::Publish;

use crate::common::{Common, RunError};
use crate::sources::{self, Parts, Ready, fits};

/// Runs an edge until the drain is over.
pub(crate) async fn run(
    sources: &Sources,
    exporter: &KafkaExporter,
    common: Common,
    cores: NonZeroU16,
) -> Result<(), RunError> {
    let Common { budget, budget_percent, drain, readiness, starting, telemetry, board } = common;
    if let Some(otlp) = &sources.otlp {
        // Twice: as it came, and expanded.
        fits(&budget, budget_percent, &otlp.limits, 2)?;
    }
    let ready = Ready::register(sources, &readiness);
    let kafka = readiness.part("kafka");
    let threads = usize::from(cores.get());
    let parts = |publisher: Arc<dyn Publish>, budget, telemetry| Parts {
        budget,
        drain: drain.clone(),
        ready,
        telemetry,
        publisher,
        threads,
        board,
    };
    let Some(buffer) = &exporter.buffer else {
        let publisher = Arc::new(KafkaPublisher::start(exporter, &telemetry, kafka, &drain)?);
        starting.ready();
        let parts = parts(Arc::clone(&publisher) as _, budget, telemetry);
        sources::take(sources, parts).await?;
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
    sources::take(sources, parts).await?;
    let remaining = drain.remaining();
    finish(move || publisher.flush(remaining)).await
}

/// Waits until everything taken is safe: `flush` blocks, and returns whether it is.
pub(crate) async fn finish(flush: impl FnOnce() -> bool + Send + 'static) -> Result<(), RunError> {
    match tokio::task::spawn_blocking(flush).await {
        Ok(true) => Ok(()),
        _ => Err(RunError::Deadline),
    }
}
