//! Kafka as the exporter of an edge: with the buffer on disk, or without.

use std::sync::Arc;

use millrace_config::KafkaExporter;
use millrace_pipeline::component::{ComponentError, Exporter, ExporterContext, RunningExporter};

use super::buffered::{BufferError, BufferedParts, BufferedPublisher};
use super::publisher::{KafkaPublisher, request_quarters};
use crate::produce::producer::ProducerError;

/// Kafka as the exporter of an edge.
pub struct ToKafka(
    /// Its settings.
    pub Box<KafkaExporter>,
);

impl Exporter for ToKafka {
    fn request_quarters(&self) -> u64 {
        request_quarters(&self.0)
    }

    fn start(
        self: Box<Self>,
        context: ExporterContext,
    ) -> Result<Arc<dyn RunningExporter>, ComponentError> {
        let ExporterContext { budget, drain, telemetry, readiness, routes, threads: _ } = context;
        let (settings, part) = (*self.0, readiness.add_part("kafka"));
        let Some(buffer) = &settings.buffer else {
            let publisher = KafkaPublisher::start(&settings, &routes, &telemetry, part, &drain)?;
            return Ok(Arc::new(publisher));
        };
        let parts = BufferedParts { budget, telemetry, part, drain };
        Ok(Arc::new(BufferedPublisher::start(&settings, &routes, buffer, parts)?))
    }
}

impl From<ProducerError> for ComponentError {
    fn from(error: ProducerError) -> Self {
        Self::failed(format_args!("kafka: {error}"))
    }
}

impl From<BufferError> for ComponentError {
    fn from(error: BufferError) -> Self {
        Self::failed(error)
    }
}
