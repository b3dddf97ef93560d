//! ClickHouse as a sink: blocks in, synchronous inserts out, each answered exactly once.
//!
//! [`ClickHouseSink`] implements [`Sink`]: its encoders run on the source's threads, its inserts on
//! a small async runtime, as many at once as configured. [`answer`] classifies answers; the same
//! bytes with the same token are sent again until they are known to be stored. SQL text comes from
//! `millrace_ddl::render`. The live tables are checked ([`look`]), and columns that one lacks are
//! left out.
//!
//! Wiring: [`SinkSettings::new`], then [`ClickHouseSink::new`] with [`SinkParts`]; the sink is done
//! when its source is: it keeps nothing of its own.
//!
//! [`DirectPublisher`] is a source of requests for it, where there is no Kafka in between.
//! [`TestRows`] looks for the rows of test records, with the sink's own endpoints and log-in.
//!
//! This module doesn't know Kafka.

pub mod answer;
mod client;
mod deliver;
mod direct;
mod encoder;
mod look;
mod plan;
mod rest;
mod settings;
mod state;
mod tables;
mod test_rows;
mod window;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::sink::{Completion, Encoder, Insert, Returned, Sink, TableIndex};
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::Signal;
use tokio::runtime::Handle;
use tokio::sync::watch;

use client::HttpClient;
use deliver::Delivery;
pub use direct::{DirectParts, DirectPublisher};
use encoder::ColumnsEncoder;
pub use millrace_ddl::{RunId, TEST_RECORDS_MAX, TestRun};
use plan::Plans;
use rest::Rests;
pub use settings::{SinkError, SinkSettings, client_tls};
use state::State;
use tables::Tables;
pub use test_rows::{LookError, Seen, TestRows};
use window::Window;

/// How often servers are pinged.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// What a sink works with.
pub struct SinkParts {
    /// Where inserts run; encoding never does.
    pub runtime: Handle,
    /// The process's metrics.
    pub telemetry: Arc<Telemetry>,
    /// Gets a part named `clickhouse`: ready while a server answers and no table is blocked.
    pub readiness: Readiness,
    /// Its deadline ends inserts that nobody answers.
    pub drain: Drain,
}

/// The sink.
pub struct ClickHouseSink {
    delivery: Arc<Delivery>,
    columns: millrace_columns::Options,
    tables: Arc<Tables>,
    runtime: Handle,
}

impl ClickHouseSink {
    /// Makes the sink and begins to contact its servers. Secret files are read now.
    ///
    /// # Errors
    /// When a secret, certificate or key can't be used.
    pub fn new(settings: SinkSettings, parts: SinkParts) -> Result<Self, SinkError> {
        let SinkParts { runtime, telemetry, readiness, drain } = parts;
        let SinkSettings { database, table_prefix, columns, max_in_flight, .. } = &settings;
        let (columns, max_in_flight) = (*columns, *max_in_flight);
        let tables = Arc::new(Tables::new(database, table_prefix, columns.attributes));
        let endpoints = settings.endpoints.len();
        let delivery = Arc::new(Delivery {
            client: HttpClient::new(settings)?,
            plans: Plans::new(&tables, endpoints),
            typed: watch::Sender::default(),
            looks: (0..endpoints).map(|_| tokio::sync::Mutex::new(None)).collect(),
            changed: tokio::sync::Notify::new(),
            silent: (0..endpoints).map(|_| AtomicBool::new(false)).collect(),
            tables: Arc::clone(&tables),
            state: State::new(readiness.part("clickhouse")),
            rests: Rests::new(tables.all().count()),
            telemetry,
            drain,
            window: Arc::new(Window::new(max_in_flight)),
            aside: tokio::sync::Semaphore::new(max_in_flight),
        });
        delivery.telemetry.inserts_allowed(max_in_flight);
        let watching = Arc::clone(&delivery);
        runtime.spawn(async move { watching.watch(WATCH_INTERVAL).await });
        let looking = Arc::clone(&delivery);
        runtime.spawn(async move { looking.keep_looking().await });
        Ok(Self { delivery, columns, tables, runtime })
    }
}

impl Sink for ClickHouseSink {
    fn encoder(&self, signal: Signal) -> Box<dyn Encoder> {
        let (tables, typed) = (Arc::clone(&self.tables), self.delivery.typed.subscribe());
        Box::new(ColumnsEncoder::new(signal, &self.columns, tables, typed))
    }

    fn is_blocked(&self, table: TableIndex) -> bool {
        let name = self.tables.of_index(table).map(|table| &table.name);
        self.delivery.rests.is_resting(table)
            || name.is_some_and(|name| self.delivery.state.is_blocked(name))
    }

    fn is_reachable(&self) -> bool {
        self.delivery.state.is_reachable()
    }

    fn submit(&self, insert: Insert, completion: Completion) -> Result<(), Box<Returned<Insert>>> {
        let Some(place) = self.delivery.window.try_enter() else {
            return Err(Box::new(Returned { work: insert, completion }));
        };
        let delivery = Arc::clone(&self.delivery);
        self.runtime.spawn(async move { delivery.run(insert, completion, place).await });
        Ok(())
    }
}
