//! The gateway: Kafka to ClickHouse.
//!
//! End: stop reading, finish inserts, produce dead letters, commit, leave the group. The source
//! does all of this; the gateway only reports what isn't safe afterwards.

use std::num::NonZeroU16;
use std::sync::Arc;

use millrace_config::{ClickHouseExporter, Delivery, KafkaReceiver};
use millrace_sink_clickhouse::{ClickHouseSink, SinkParts, SinkSettings};
use millrace_sink_kafka::KafkaDeadLetters;
use millrace_source_kafka::{KafkaSource, SourceParts, SourceSettings, UncommittedPartition};
use tokio::runtime::Handle;

use crate::common::{Common, RunError, VERSION};

/// Runs a gateway until the drain is over.
pub(crate) async fn run(
    receiver: &KafkaReceiver,
    exporter: &ClickHouseExporter,
    common: Common,
    cores: NonZeroU16,
) -> Result<(), RunError> {
    let Common {
        budget,
        budget_percent: _,
        drain,
        readiness,
        starting,
        telemetry,
        target_status: _,
        // Its settings have none.
        rules: _,
        producers: _,
        dead_letters: recent,
    } = common;
    let instance = instance_name(receiver)?;
    let delivery = match receiver.delivery {
        Delivery::AtLeastOnce => millrace_source_kafka::DeliveryMode::AtLeastOnce,
        Delivery::EffectivelyOnce => millrace_source_kafka::DeliveryMode::EffectivelyOnce,
    };
    let settings = SourceSettings::new(receiver, &exporter.batch, instance, cores, delivery)?;
    let sink = ClickHouseSink::new(
        SinkSettings::new(exporter)?,
        SinkParts {
            runtime: Handle::current(),
            telemetry: Arc::clone(&telemetry),
            readiness: readiness.clone(),
            drain: drain.clone(),
        },
    )?;
    let topics = receiver.resolved_dead_letter_topics();
    let dead_letters =
        KafkaDeadLetters::start(&receiver.connection, topics, VERSION, &drain, recent)?;
    let source = KafkaSource::start(
        settings,
        SourceParts {
            sink: Arc::new(sink),
            dead_letters: Arc::new(dead_letters),
            budget,
            telemetry,
            readiness,
            drain: drain.clone(),
        },
    )?;
    starting.set_ready();
    drain.wait_for_begin().await;
    let last_words = source.uncommitted_report();
    let ended = tokio::task::spawn_blocking(move || source.join());
    // The source observes the deadline; this covers a source that can't.
    let late = async {
        drain.wait_for_deadline().await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    };
    tokio::select! {
        joined = ended => {
            report_uncommitted(&joined.map_err(|_| RunError::Failed)?, receiver.delivery)
        }
        () = late => {
            report_uncommitted(&last_words.list_uncommitted(), receiver.delivery)?;
            Err(RunError::Deadline)
        }
    }
}

/// Returns whether everything received is safe; logs what isn't, by topic, and the consequence.
fn report_uncommitted(left: &[UncommittedPartition], delivery: Delivery) -> Result<(), RunError> {
    let stored_already = match delivery {
        Delivery::AtLeastOnce => "are duplicated",
        Delivery::EffectivelyOnce => "are deduplicated by the table",
    };
    for topic in left.chunk_by(|one, next| one.topic == next.topic) {
        let Some(first) = topic.first() else { continue };
        tracing::warn!(
            topic = %first.topic,
            partitions = topic.len(),
            unanswered_batches = topic.iter().map(|left| left.unanswered_batches).sum::<u64>(),
            uncommitted_offsets = topic.iter().map(|left| left.uncommitted_offsets).sum::<u64>(),
            why = %first.why,
            "not all records are known to be stored and committed; the next owner reads them \
             again, and those already stored {stored_already}"
        );
    }
    if left.is_empty() { Ok(()) } else { Err(RunError::NotCommitted { partitions: left.len() }) }
}

/// Returns the member's fixed name, if the settings name a variable for it.
fn instance_name(receiver: &KafkaReceiver) -> Result<Option<String>, RunError> {
    let Some(variable) = &receiver.group_instance_id_env else { return Ok(None) };
    match std::env::var(variable.as_str()) {
        Ok(name) if !name.is_empty() => Ok(Some(name)),
        _ => Err(RunError::Instance(variable.to_string())),
    }
}
