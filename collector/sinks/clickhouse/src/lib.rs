//! ClickHouse as a sink: blocks in, synchronous inserts out, each answered exactly once.
//!
//! [`ClickHouseSink`] implements [`Sink`]: its encoders run on the source's threads, its inserts on
//! a small async runtime, as many at once as configured. [`answer`] classifies answers; the same
//! bytes with the same token are sent again until they are known to be stored.
//! `millrace_ddl::render` generates SQL text. The sink checks the live tables (`table_check`), and
//! omits columns that they lack.
//!
//! Wiring: [`SinkSettings::new`], then [`ClickHouseSink::new`] with [`SinkParts`]. The sink stores
//! nothing, so it is done when its source is.
//!
//! [`ToClickHouse`] is an edge's exporter. Without Kafka, [`DirectPublisher`] is the sink's source
//! of requests. [`TestRows`] finds the rows of test records, with the sink's endpoints and log-in.
//! This module doesn't know Kafka.

mod direct;
mod exporter;
mod insert;
mod servers;
mod settings;
mod state;
mod tables;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::sink::{
    BlockOrigin, Completion, Encoder, Insert, QueueFull, Sink, TableIndex,
};
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::Signal;
use tokio::runtime::Handle;
use tokio::sync::watch;

pub use direct::{DirectParts, DirectPublisher};
pub use exporter::ToClickHouse;
use insert::deliver::{InsertDelivery, unknown_table};
use insert::encoder::ColumnsEncoder;
use insert::plan::Plans;
pub use millrace_ddl::{RunId, TEST_RECORDS_MAX, TestRun};
use servers::client::HttpClient;
use servers::route::Routes;
pub use settings::{SinkError, SinkSettings, client_tls};
use state::SinkReadiness;
use tables::SinkTables;
pub use tables::test_rows::{TestRowCounts, TestRows, TestRowsError};

/// How often servers are pinged.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// The parts that a sink works with.
pub struct SinkParts {
    /// Runs inserts; encoding never runs there.
    pub runtime: Handle,
    /// The process's metrics.
    pub telemetry: Arc<Telemetry>,
    /// Gets a part named `clickhouse`: ready while a server answers and no table is blocked.
    pub readiness: Readiness,
    /// Its deadline ends inserts that nobody answers.
    pub drain: Drain,
}

/// A sink that inserts blocks into ClickHouse.
pub struct ClickHouseSink {
    delivery: Arc<InsertDelivery>,
    columns: millrace_columns::Options,
    tables: Arc<SinkTables>,
    runtime: Handle,
}

impl ClickHouseSink {
    /// Creates the sink and begins to contact its servers. It reads the secret files now.
    ///
    /// # Errors
    /// A secret, certificate or key can't be used.
    pub fn new(settings: SinkSettings, parts: SinkParts) -> Result<Self, SinkError> {
        let SinkParts { runtime, telemetry, readiness, drain } = parts;
        let SinkSettings { database, table_prefix, columns, max_in_flight, .. } = &settings;
        let (columns, max_in_flight) = (*columns, *max_in_flight);
        let tables = Arc::new(SinkTables::new(database, table_prefix, columns.attributes));
        let endpoints = settings.endpoints.len();
        let client = HttpClient::new(settings)?;
        let routes = Routes::new(
            endpoints,
            client.replica_count(),
            tables.all_entries().count(),
            max_in_flight,
        );
        let delivery = Arc::new(InsertDelivery {
            client,
            plans: Plans::new(&tables, endpoints),
            typed: watch::Sender::default(),
            last_checks: (0..endpoints).map(|_| tokio::sync::Mutex::new(None)).collect(),
            changed: tokio::sync::Notify::new(),
            silent: (0..endpoints).map(|_| AtomicBool::new(false)).collect(),
            tables: Arc::clone(&tables),
            state: SinkReadiness::new(readiness.add_part("clickhouse")),
            routes,
            telemetry,
            drain,
        });
        for table in tables.all_entries() {
            delivery.telemetry.record_insert_routes(&table.name, max_in_flight, 0);
        }
        let watching = Arc::clone(&delivery);
        runtime.spawn(async move { watching.watch_endpoints(WATCH_INTERVAL).await });
        let looking = Arc::clone(&delivery);
        runtime.spawn(async move { looking.check_periodically().await });
        Ok(Self { delivery, columns, tables, runtime })
    }
}

impl Sink for ClickHouseSink {
    fn new_encoder(&self, signal: Signal) -> Box<dyn Encoder> {
        let (tables, typed) = (Arc::clone(&self.tables), self.delivery.typed.subscribe());
        Box::new(ColumnsEncoder::new(signal, &self.columns, tables, typed))
    }

    fn is_blocked(&self, topic: &str, partition: i32, table: TableIndex) -> bool {
        let destination = self.delivery.routes.destination_of(topic, partition, table);
        destination.is_some_and(|destination| destination.route.is_held_back())
    }

    fn is_reachable(&self) -> bool {
        self.delivery.state.is_reachable()
    }

    fn submit(&self, insert: Insert, completion: Completion) -> Result<(), Box<QueueFull<Insert>>> {
        let BlockOrigin { topic, partition, .. } = &insert.origin;
        let Some(destination) =
            self.delivery.routes.destination_of(topic, *partition, insert.block.table)
        else {
            completion.finish_with(unknown_table());
            return Ok(());
        };
        let Some(slot) = destination.route.try_enter() else {
            return Err(Box::new(QueueFull { work: insert, completion }));
        };
        let delivery = Arc::clone(&self.delivery);
        self.runtime
            .spawn(async move { delivery.run(insert, completion, destination, slot).await });
        Ok(())
    }
}
