//! Direct mode: one process from clients and files to ClickHouse, without Kafka.
//!
//! Start: check the servers, then bind listeners; ready when both work. End: stop accepting, cut
//! open batches, finish their inserts, answer.

use std::num::NonZeroU16;
use std::sync::Arc;

use millrace_config::{ClickHouseExporter, Sources};
use millrace_sink_clickhouse::{
    ClickHouseSink, DirectParts, DirectPublisher, SinkParts, SinkSettings,
};
use tokio::runtime::Handle;

use crate::common::{Common, RunError, rule_quarters, with_rules};
use crate::edge::flush_publisher;
use crate::pods::watch_pods;
use crate::request_memory::RequestMemory;
use crate::sources::{self, Ready, SourceContext};

/// The memory of the largest request, as a multiple of its length: once as received, once expanded,
/// and five times for its columns and their bodies.
const COPIES: u64 = 7;

/// Runs until the drain is over.
pub(crate) async fn run(
    mut sources: Sources,
    exporter: &ClickHouseExporter,
    common: Common,
    cores: NonZeroU16,
) -> Result<(), RunError> {
    let Common {
        budget,
        budget_percent,
        drain,
        readiness,
        starting,
        telemetry,
        target_status: board,
        rules,
    } = common;
    let pods = watch_pods(&sources, rules.as_ref(), &budget, &telemetry)?;
    if let Some(otlp) = &mut sources.otlp {
        let memory = RequestMemory {
            budget_bytes: budget.limit_bytes().saturating_sub(pods.reserved_bytes),
            percent: budget_percent,
            quarters: 4 * COPIES + rule_quarters(rules.as_ref()),
            threads: usize::from(cores.get()),
        };
        otlp.limits = memory.fit_limits(otlp.limits.clone())?;
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
    starting.set_ready();
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
    let parts = SourceContext {
        publisher: with_rules(
            rules.as_ref(),
            Arc::clone(&publisher) as _,
            Vec::new(),
            &budget,
            &telemetry,
        ),
        budget,
        drain: drain.clone(),
        ready,
        telemetry,
        threads,
        target_status: board,
        pods: pods.logs,
    };
    sources::run_sources(&sources, parts).await?;
    let remaining = drain.remaining();
    flush_publisher(move || publisher.flush(remaining)).await
}
