//! The edge: from clients and files to Kafka.
//!
//! Start: watch Kafka, then bind listeners; ready when both work. End: stop accepting, answer open
//! requests, flush, then close the producer.

use std::num::NonZeroU16;
use std::sync::Arc;

use millrace_config::{KafkaExporter, NameError, Sources, TopicName};
use millrace_pipeline::publish::Publish;
use millrace_processing::RouteTopic;
use millrace_rules::Rules;
use millrace_sink_kafka::{
    BufferedParts, BufferedPublisher, KafkaPublisher, RouteOptions, request_quarters,
};

use crate::common::{Common, RunError, rule_quarters, with_rules};
use crate::pods::watch_pods;
use crate::request_memory::RequestMemory;
use crate::sources::{self, Ready, SourceContext};

/// Runs an edge until the drain is over.
pub(crate) async fn run(
    mut sources: Sources,
    exporter: &KafkaExporter,
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
            quarters: request_quarters(exporter) + rule_quarters(rules.as_ref()),
            threads: usize::from(cores.get()),
        };
        otlp.limits = memory.fit_limits(otlp.limits.clone())?;
    }
    let routes = routed_topics(rules.as_deref())?;
    let ready = Ready::register(&sources, &readiness);
    let kafka = readiness.add_part("kafka");
    let threads = usize::from(cores.get());
    let parts = |publisher: Arc<dyn Publish>, routes: Vec<Arc<dyn Publish>>, budget, telemetry| {
        SourceContext {
            publisher: with_rules(rules.as_ref(), publisher, routes, &budget, &telemetry),
            budget,
            drain: drain.clone(),
            ready,
            telemetry,
            threads,
            target_status: board,
            pods: pods.logs,
        }
    };
    let Some(buffer) = &exporter.buffer else {
        let publisher =
            Arc::new(KafkaPublisher::start(exporter, &routes, &telemetry, kafka, &drain)?);
        let parts =
            parts(Arc::clone(&publisher) as _, publisher.route_publishers(), budget, telemetry);
        starting.set_ready();
        sources::run_sources(&sources, parts).await?;
        let remaining = drain.remaining();
        return flush_publisher(move || publisher.flush(remaining)).await;
    };
    let buffered = BufferedParts {
        budget: budget.clone(),
        telemetry: Arc::clone(&telemetry),
        part: kafka,
        drain: drain.clone(),
    };
    let publisher = Arc::new(BufferedPublisher::start(exporter, &routes, buffer, buffered)?);
    let parts = parts(Arc::clone(&publisher) as _, publisher.route_publishers(), budget, telemetry);
    starting.set_ready();
    sources::run_sources(&sources, parts).await?;
    let remaining = drain.remaining();
    flush_publisher(move || publisher.flush(remaining)).await
}

/// Returns the topics that rules route to, as the exporter's options.
fn routed_topics(rules: Option<&Rules>) -> Result<Vec<RouteOptions>, NameError> {
    let topics = rules.map(Rules::route_topics).unwrap_or_default();
    let option = |RouteTopic { signal, topic }: &RouteTopic| {
        Ok(RouteOptions { signal: *signal, topic: TopicName::new(topic)? })
    };
    topics.iter().map(option).collect()
}

/// Waits until everything accepted is safe: `flush` blocks, and returns whether it is.
pub(crate) async fn flush_publisher(
    flush: impl FnOnce() -> bool + Send + 'static,
) -> Result<(), RunError> {
    match tokio::task::spawn_blocking(flush).await {
        Ok(true) => Ok(()),
        _ => Err(RunError::Deadline),
    }
}
