//! Releases the records of deleted holders where possible, so that the next holder needn't wait a
//! week or take over, and prevents deletion of what another holds.

use std::time::Duration;

use futures::future::join_all;
use millrace_crds::Reason;

use crate::cache::holders::HeldResource;
use crate::cache::holders::record::HolderSlot;
use crate::context::Context;
use crate::error::StepError;
use crate::kafka::{ConnectionSettings, HolderRecord, KafkaResource};

/// Longest time to release a record: as long as a session with Kafka.
const GIVING_UP_MAX: Duration = Duration::from_secs(20);

/// Releases a deleted object's record, if possible, without retries.
pub async fn release_record(context: &Context, key: &str) {
    let Some(held) = context.holders.lock_cached().remove(key).and_then(|state| state.holds) else {
        return;
    };
    let Some(cluster) = context.holders.cluster.as_ref() else { return };
    // Keys begin with the kind.
    let mut parts = key.splitn(3, '/');
    let (Some(kind), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    let who = format!("{cluster}/{namespace}/{kind}/{name}");
    let release = async {
        match held {
            HeldResource::Kafka { settings, resource } => {
                release_kafka_record(context, *settings, resource, &who).await
            }
            HeldResource::Tables { servers, declared } => {
                let rows = servers.iter().map(|server| async {
                    let held = context.tables.read_holders(server, &declared).await?;
                    let own = |held: &millrace_ddl::RecordedHolder| {
                        HolderSlot::read(&held.holder, held.age).is_of(&who)
                    };
                    match !held.is_empty() && held.iter().all(own) {
                        true => context.tables.record_holder(server, &declared, "").await,
                        false => Ok(()),
                    }
                });
                join_all(rows).await.into_iter().all(|row| row.is_ok())
            }
        }
    };
    if !tokio::time::timeout(GIVING_UP_MAX, release).await.unwrap_or(false) {
        tracing::info!(object = key, "its records expire within a week");
    }
}

/// Returns why an object's topic or tables must not be deleted with it, after a check of who holds
/// them.
///
/// # Errors
/// The check failed for another reason.
pub(crate) fn reason_to_retain<T>(
    context: &Context,
    shared: bool,
    checked: Result<T, StepError>,
) -> Result<Option<String>, StepError> {
    match checked {
        Err(error) if error.reason == Reason::HeldByAnother => Ok(Some(error.cause())),
        Err(error) => Err(error),
        Ok(_) if shared && context.holders.cluster.is_some() => Ok(Some(
            "it has ownership: Shared, and the operator can't check who else uses it".to_owned(),
        )),
        Ok(_) => Ok(None),
    }
}

async fn release_kafka_record(
    context: &Context,
    settings: ConnectionSettings,
    resource: KafkaResource,
    who: &str,
) -> bool {
    let read = context.brokers.read_records(settings.clone(), resource.clone()).await;
    let Ok(entries) = read else { return false };
    let mut all = true;
    for entry in entries {
        if HolderSlot::read(&entry.text, Duration::ZERO).is_of(who) {
            let blank = HolderRecord { text: String::new(), ..entry };
            let written =
                context.brokers.write_record(settings.clone(), resource.clone(), blank).await;
            all &= written.is_ok();
        }
    }
    all
}
