//! Records of deleted holders: released where possible, so that the next holder needn't wait a week
//! or take over; and what another holds is not deleted.

use std::time::Duration;

use futures::future::join_all;
use millrace_crds::Reason;

use crate::cache::holders::Held;
use crate::cache::holders::record::Slot;
use crate::context::Context;
use crate::error::StepError;
use crate::kafka::{Entry, Place, Settings};

/// Longest time to release a record: as long as a conversation with Kafka.
const GIVING_UP_MAX: Duration = Duration::from_secs(20);

/// Releases a deleted object's record, if possible; not retried.
pub async fn gone(context: &Context, key: &str) {
    let Some(held) = context.holders.kept().remove(key).and_then(|kept| kept.holds) else { return };
    let Some(cluster) = context.holders.cluster.as_ref() else { return };
    // Keys have the kind first.
    let mut parts = key.splitn(3, '/');
    let (Some(kind), Some(namespace), Some(name)) = (parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    let who = format!("{cluster}/{namespace}/{kind}/{name}");
    let given_up = async {
        match held {
            Held::Kafka { settings, place } => give_up(context, settings, place, &who).await,
            Held::Tables { servers, declared } => {
                let rows = servers.iter().map(|server| async {
                    let held = context.tables.holders(server, &declared).await?;
                    let own =
                        |held: &millrace_ddl::Held| Slot::read(&held.holder, held.age).is_of(&who);
                    match !held.is_empty() && held.iter().all(own) {
                        true => context.tables.hold(server, &declared, "").await,
                        false => Ok(()),
                    }
                });
                join_all(rows).await.into_iter().all(|row| row.is_ok())
            }
        }
    };
    if !tokio::time::timeout(GIVING_UP_MAX, given_up).await.unwrap_or(false) {
        tracing::info!(object = key, "what it held stays on record for a week");
    }
}

/// Why what an object stands for must not be deleted with it, after a check of who holds it.
///
/// # Errors
/// The check failed for another reason.
pub(crate) fn keeps<T>(
    context: &Context,
    shared: bool,
    looked: Result<T, StepError>,
) -> Result<Option<String>, StepError> {
    match looked {
        Err(error) if error.reason == Reason::HeldByAnother => Ok(Some(error.cause())),
        Err(error) => Err(error),
        Ok(_) if shared && context.holders.cluster.is_some() => {
            Ok(Some("it says shared: true, and who else has it can't be seen from here".to_owned()))
        }
        Ok(_) => Ok(None),
    }
}

async fn give_up(context: &Context, settings: Settings, place: Place, who: &str) -> bool {
    let read = context.brokers.recorded(settings.clone(), place.clone()).await;
    let Ok(entries) = read else { return false };
    let mut all = true;
    for entry in entries {
        if Slot::read(&entry.text, Duration::ZERO).is_of(who) {
            let blank = Entry { text: String::new(), ..entry };
            let written = context.brokers.record(settings.clone(), place.clone(), blank).await;
            all &= written.is_ok();
        }
    }
    all
}
