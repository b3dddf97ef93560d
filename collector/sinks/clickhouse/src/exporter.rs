//! ClickHouse as the exporter of an edge, without Kafka.

use std::sync::Arc;

use millrace_config::ClickHouseExporter;
use millrace_pipeline::component::{ComponentError, Exporter, ExporterContext, RunningExporter};
use tokio::runtime::Handle;

use super::direct::{DirectParts, DirectPublisher};
use super::{ClickHouseSink, SinkError, SinkParts, SinkSettings};

/// The memory of the largest request, as a multiple of its length: once as received, once expanded,
/// and five times for its columns and their bodies.
const COPIES: u64 = 7;

/// ClickHouse as the exporter of an edge.
pub struct ToClickHouse(
    /// Its settings.
    pub Box<ClickHouseExporter>,
);

impl Exporter for ToClickHouse {
    fn request_quarters(&self) -> u64 {
        4 * COPIES
    }

    fn start(
        self: Box<Self>,
        context: ExporterContext,
    ) -> Result<Arc<dyn RunningExporter>, ComponentError> {
        let ExporterContext { budget, drain, telemetry, readiness, routes: _, threads } = context;
        let sink = ClickHouseSink::new(
            SinkSettings::new(&self.0)?,
            SinkParts {
                runtime: Handle::current(),
                telemetry: Arc::clone(&telemetry),
                readiness,
                drain: drain.clone(),
            },
        )?;
        let sink = Arc::new(sink);
        let parts = DirectParts { sink, budget, telemetry, drain, shards: threads };
        let started = DirectPublisher::start(&self.0, parts);
        let failed = |error| ComponentError::failed(format_args!("cannot start a thread: {error}"));
        Ok(Arc::new(started.map_err(failed)?))
    }
}

impl From<SinkError> for ComponentError {
    fn from(error: SinkError) -> Self {
        Self::failed(format_args!("clickhouse: {error}"))
    }
}
