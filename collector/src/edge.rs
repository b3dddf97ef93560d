//! The edge: from sources to Kafka, or to ClickHouse in one process without Kafka.
//!
//! Start: the exporter begins to contact its servers, then listeners are bound; ready when both
//! work. End: stop accepting, answer open requests, flush, then close the exporter.

mod api_server;
mod pods;
mod request_memory;
mod share;
pub(crate) mod sources;

use std::num::NonZeroU16;
use std::sync::Arc;

use millrace_config::{EdgeExporter, NameError, Positions, Receivers, TopicName};
use millrace_pipeline::component::{Exporter, ExporterContext, RouteOptions, SourceContext};
use millrace_processing::RouteTopic;
use millrace_rules::Rules;
use millrace_sink_clickhouse::ToClickHouse;
use millrace_sink_kafka::ToKafka;

use crate::common::{Common, RunError, rule_quarters, with_rules};
use crate::edge::pods::start_watches;
use crate::edge::request_memory::RequestMemory;
use crate::edge::sources::{EdgeSources, SourceNeeds};

/// Returns the exporter of these settings.
fn exporter_of(settings: EdgeExporter) -> Box<dyn Exporter> {
    match settings {
        EdgeExporter::Kafka(settings) => Box::new(ToKafka(settings)),
        EdgeExporter::ClickHouse(settings) => Box::new(ToClickHouse(settings)),
    }
}

/// Runs an edge until the drain is over.
pub(crate) async fn run(
    mut sources: Receivers,
    positions: Positions,
    exporter: EdgeExporter,
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
        target_status,
        rules,
        producers,
        // Only gateways store dead letters.
        dead_letters: _,
    } = common;
    let exporter = exporter_of(exporter);
    let threads = usize::from(cores.get());
    let watches = start_watches(&sources, &positions, rules.as_ref(), &budget, &telemetry)?;
    if let Some(otlp) = &mut sources.otlp {
        let memory = RequestMemory {
            budget_bytes: budget.limit_bytes().saturating_sub(watches.reserved_bytes),
            percent: budget_percent,
            quarters: exporter.request_quarters() + rule_quarters(rules.as_ref()),
            threads,
        };
        otlp.limits = memory.fit_limits(otlp.limits.clone())?;
    }
    let routes = routed_topics(rules.as_deref())?;
    let needs = SourceNeeds { threads, target_status, watches };
    let sources = EdgeSources::register(&sources, &positions, needs, &readiness);
    let exporter = exporter.start(ExporterContext {
        budget: budget.clone(),
        drain: drain.clone(),
        telemetry: Arc::clone(&telemetry),
        readiness,
        routes,
        threads,
    })?;
    starting.set_ready();
    // Producers are counted by what is stored: after rules, and in routes too.
    let routes = Arc::clone(&exporter).route_publishers();
    let routes = routes.into_iter().map(|route| producers.measure_after(route)).collect();
    let measured = producers.measure_after(Arc::clone(&exporter) as _);
    let publisher = with_rules(rules.as_ref(), measured, routes, &budget, &telemetry);
    let context = SourceContext { budget, drain: drain.clone(), telemetry, publisher };
    sources.run(context).await?;
    let remaining = drain.remaining();
    match tokio::task::spawn_blocking(move || exporter.flush(remaining)).await {
        Ok(true) => Ok(()),
        _ => Err(RunError::Deadline),
    }
}

/// Returns the topics that rules route to, as the exporter's options.
fn routed_topics(rules: Option<&Rules>) -> Result<Vec<RouteOptions>, NameError> {
    let topics = rules.map(Rules::route_topics).unwrap_or_default();
    let option = |RouteTopic { signal, topic }: &RouteTopic| {
        Ok(RouteOptions { signal: *signal, topic: TopicName::new(topic)? })
    };
    topics.iter().map(option).collect()
}
