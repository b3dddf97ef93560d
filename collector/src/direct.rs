//! One process from clients and files straight into ClickHouse, without Kafka.
//!
//! Start: check the servers, then bind listeners; ready when both work. End: stop accepting, cut
//! open batches, finish their inserts, answer.

use std::num::NonZeroU16;
use std::sync::Arc;

use millrace_config::{ClickHouseExporter, OtlpLimits, Sources};
use millrace_exporters::clickhouse::{
    ClickHouseSink, DirectParts, DirectPublisher, SinkParts, SinkSettings,
};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::publish::Publish;
use tokio::runtime::Handle;

use crate::common::{Common, RunError};
use crate::edge::finish;
use crate::sources::{self, Parts, Ready, fits, limit_that_fits, longest_that_fits};

/// Memory of the largest request, as a multiple of its length: as it came, expanded, and five times
/// for its columns and their bodies.
const COPIES: u64 = 7;

/// Runs until the drain is over.
pub(crate) async fn run(
    mut sources: Sources,
    exporter: &ClickHouseExporter,
    common: Common,
    cores: NonZeroU16,
) -> Result<(), RunError> {
    let Common { budget, budget_percent, drain, readiness, starting, telemetry, board } = common;
    if let Some(otlp) = &mut sources.otlp {
        otlp.limits = following_memory(otlp.limits.clone(), &budget, budget_percent);
        fits(&budget, budget_percent, &otlp.limits, COPIES)?;
    }
    let ready = Ready::register(&sources, &readiness);
    let threads = usize::from(cores.get());
    let sink = ClickHouseSink::new(
        SinkSettings::new(exporter)?,
        SinkParts {
            runtime: Handle::current(),
            telemetry: Arc::clone(&telemetry),
            readiness,
            drain: drain.clone(),
        },
    )?;
    starting.ready();
    let publisher = Arc::new(DirectPublisher::start(
        exporter,
        DirectParts {
            sink: Arc::new(sink),
            budget: budget.clone(),
            telemetry: Arc::clone(&telemetry),
            drain: drain.clone(),
            shards: threads,
        },
    )?);
    let parts = Parts {
        budget,
        drain: drain.clone(),
        ready,
        telemetry,
        publisher: Arc::clone(&publisher) as Arc<dyn Publish>,
        threads,
        board,
    };
    sources::take(&sources, parts).await?;
    let remaining = drain.remaining();
    finish(move || publisher.flush(remaining)).await
}

/// The limits with the longest HTTP body that the budget holds, if the default is longer: a small
/// installation has less than the 281 MiB that OTLP's recommended 20 MiB take. Never below gRPC's
/// limit; a configured length stays.
fn following_memory(mut limits: OtlpLimits, budget: &Budget, percent: u8) -> OtlpLimits {
    let default = OtlpLimits::default().http_body_bytes;
    let fitting = longest_that_fits(budget.limit_bytes(), COPIES);
    if limits.http_body_bytes != default || fitting >= default {
        return limits;
    }
    limits.http_body_bytes = fitting.max(limits.grpc_message_bytes);
    tracing::info!(
        http_body_bytes = %limits.http_body_bytes,
        limit_bytes_for_default = %limit_that_fits(default.get() * COPIES, percent),
        "the longest HTTP body is what the memory budget holds"
    );
    limits
}
