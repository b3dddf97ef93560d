//! The gateway: Kafka to ClickHouse.
//!
//! Order at the end: stop reading, finish inserts, produce dead letters, commit, leave the group.
//! The source sees to all of it, so that when it has ended there is nothing left to do.

use std::num::NonZeroU16;
use std::sync::Arc;

use millrace_config::{ClickHouseExporter, Delivery, KafkaReceiver};
use millrace_exporters::clickhouse::{ClickHouseSink, SinkParts, SinkSettings};
use millrace_exporters::kafka::KafkaDeadLetters;
use millrace_receivers::kafka::{self, KafkaSource, SourceParts, SourceSettings};
use tokio::runtime::Handle;

use crate::run::{Common, RunError, VERSION};

/// Runs a gateway until the drain is over.
pub(crate) async fn run(
    receiver: &KafkaReceiver,
    exporter: &ClickHouseExporter,
    common: Common,
    cores: NonZeroU16,
) -> Result<(), RunError> {
    let Common { budget, drain, readiness, starting, telemetry } = common;
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
    let ended = tokio::task::spawn_blocking(move || source.join());
    // The source keeps to the deadline by itself; this is for one that can't.
    let late = async {
        drain.expired().await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    };
    tokio::select! {
        joined = ended => joined.map_err(|_| RunError::Failed),
        () = late => Err(RunError::Deadline),
    }
}

/// The member's fixed name, if the settings name a variable for it.
fn instance(receiver: &KafkaReceiver) -> Result<Option<String>, RunError> {
    let Some(variable) = &receiver.group_instance_id_env else { return Ok(None) };
    match std::env::var(variable.as_str()) {
        Ok(name) if !name.is_empty() => Ok(Some(name)),
        _ => Err(RunError::Instance(variable.to_string())),
    }
}
