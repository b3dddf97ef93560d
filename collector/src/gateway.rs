//! The gateway: Kafka to ClickHouse.
//!
//! End: stop reading, finish inserts, produce dead letters, commit, leave the group. The source
//! does all of this; here only what isn't safe afterwards is reported.

use std::num::NonZeroU16;
use std::sync::Arc;

use millrace_config::{ClickHouseExporter, Delivery, KafkaReceiver};
use millrace_exporters::clickhouse::{ClickHouseSink, SinkParts, SinkSettings};
use millrace_exporters::kafka::KafkaDeadLetters;
use millrace_receivers::kafka::{self, KafkaSource, LeftBehind, SourceParts, SourceSettings};
use tokio::runtime::Handle;

use crate::common::{Common, RunError, VERSION};

/// Runs a gateway until the drain is over.
pub(crate) async fn run(
    receiver: &KafkaReceiver,
    exporter: &ClickHouseExporter,
    common: Common,
    cores: NonZeroU16,
) -> Result<(), RunError> {
    let Common { budget, budget_percent: _, drain, readiness, starting, telemetry, board: _ } =
        common;
    let instance = instance(receiver)?;
    let delivery = match receiver.delivery {
        Delivery::AtLeastOnce => kafka::Delivery::AtLeastOnce,
        Delivery::EffectivelyOnce => kafka::Delivery::EffectivelyOnce,
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
    let letters = KafkaDeadLetters::start(&receiver.connection, topics, VERSION, &drain)?;
    let source = KafkaSource::start(
        settings,
        SourceParts {
            sink: Arc::new(sink),
            dead_letters: Arc::new(letters),
            budget,
            telemetry,
            readiness,
            drain: drain.clone(),
        },
    )?;
    starting.ready();
    drain.begun().await;
    let last_words = source.last_words();
    let ended = tokio::task::spawn_blocking(move || source.join());
    // The source keeps to the deadline by itself; this is for one that can't.
    let late = async {
        drain.expired().await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    };
    tokio::select! {
        joined = ended => safe(&joined.map_err(|_| RunError::Failed)?, receiver.delivery),
        () = late => safe(&last_words.left(), receiver.delivery).and(Err(RunError::Deadline)),
    }
}

/// Whether everything taken is safe; logs what isn't, by topic, and the consequence.
fn safe(left: &[LeftBehind], delivery: Delivery) -> Result<(), RunError> {
    let stored_already = match delivery {
        Delivery::AtLeastOnce => "is stored twice",
        Delivery::EffectivelyOnce => "is dropped by its table",
    };
    for topic in left.chunk_by(|one, next| one.topic == next.topic) {
        let Some(first) = topic.first() else { continue };
        tracing::warn!(
            topic = %first.topic,
            partitions = topic.len(),
            unanswered_batches = topic.iter().map(|left| left.unanswered_batches).sum::<u64>(),
            uncommitted_offsets = topic.iter().map(|left| left.uncommitted_offsets).sum::<u64>(),
            why = %first.why,
            "not everything taken is known to be stored and committed; its next owner reads it \
             again, and what was stored already {stored_already}"
        );
    }
    if left.is_empty() { Ok(()) } else { Err(RunError::LeftBehind { partitions: left.len() }) }
}

/// The member's fixed name, if the settings name a variable for it.
fn instance(receiver: &KafkaReceiver) -> Result<Option<String>, RunError> {
    let Some(variable) = &receiver.group_instance_id_env else { return Ok(None) };
    match std::env::var(variable.as_str()) {
        Ok(name) if !name.is_empty() => Ok(Some(name)),
        _ => Err(RunError::Instance(variable.to_string())),
    }
}
