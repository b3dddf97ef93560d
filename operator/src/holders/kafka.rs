//! Records of topics and consumer groups, in Kafka.

use std::time::Duration;

use jiff::SignedDuration;
use kube::Resource;
use millrace_crds::v1alpha1::GatewayPool;
use millrace_crds::{MillraceKind, Reason};

use super::others::{is_passed_over, report_unrecorded};
use crate::cache::holders::HeldResource;
use crate::cache::holders::record::{ClaimDecision, HolderSlot, claim_refusal, decide_claim};
use crate::cache::key_of;
use crate::cluster::is_paused;
use crate::context::Context;
use crate::error::{Invalid, ReconcileStep, StepError};
use crate::kafka::lag_cache::LagQuery;
use crate::kafka::{ConnectionSettings, Failure, HolderRecord, KafkaResource};

/// A pool's record is checked this often, like a topic's.
const POOL_CHECK: SignedDuration = SignedDuration::from_secs(60);
/// Longest time that a pool waits for a check: pools reconcile even while Kafka is down. A broker
/// that is up answers within a second.
const POOL_CHECK_MAX: Duration = Duration::from_secs(5);

/// A topic or group to hold, and how it is reached.
pub(crate) struct ClaimedResource {
    pub(crate) settings: ConnectionSettings,
    pub(crate) resource: KafkaResource,
    /// The topics that may store the record, unless there is one already.
    pub(crate) topics: Vec<String>,
    pub(crate) shared: bool,
    /// The setting that another object could change instead.
    pub(crate) advice: &'static str,
}

/// The topics at which a record must be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DueRecord(Vec<String>);

/// Checks whether an object may hold something, and returns the record to write.
///
/// # Errors
/// Another object holds it, or Kafka can't be queried now.
pub(crate) async fn check_claim<K: Resource<DynamicType = ()> + MillraceKind>(
    context: &Context,
    object: &K,
    thing: &ClaimedResource,
) -> Result<Option<DueRecord>, StepError> {
    let Some(me) = context.holders.claimant_of(object, thing.shared) else { return Ok(None) };
    let read = context.brokers.read_records(thing.settings.clone(), thing.resource.clone()).await;
    let entries = match read {
        Ok(entries) => entries,
        Err(failure) => {
            return continue_unrecorded(context, object, failure, ReconcileStep::Observe)
                .await
                .map(|()| None);
        }
    };
    let now = context.clock.now().as_millisecond();
    let mut slots: Vec<(&HolderRecord, HolderSlot)> = entries
        .iter()
        .map(|entry| {
            let age = u64::try_from(now.saturating_sub(entry.at_millis)).unwrap_or(0);
            (entry, HolderSlot::read(&entry.text, Duration::from_millis(age)))
        })
        .collect();
    // One group may have records at several topics: of two simultaneous writers, one must hold.
    let who = &me.holder.who;
    if slots.iter().any(|(_, slot)| slot.is_of(who)) {
        slots.retain(|(_, slot)| slot.holder_name().is_none_or(|other| other <= who.as_str()));
    }
    let judged: Vec<HolderSlot> = slots.into_iter().map(|(_, slot)| slot).collect();
    match decide_claim(&judged, &me, |who| is_passed_over(context, object, who)) {
        ClaimDecision::Refused(who) => {
            Err(claim_refusal(&describe_resource(&thing.resource), &who, thing.advice).into())
        }
        ClaimDecision::Holds => {
            record_held(context, object, thing);
            Ok(None)
        }
        ClaimDecision::Due if entries.is_empty() => {
            Ok(Some(DueRecord(thing.topics.iter().take(1).cloned().collect())))
        }
        // Overwrites the existing record, wherever it is.
        ClaimDecision::Due => {
            Ok(Some(DueRecord(entries.into_iter().map(|entry| entry.topic).collect())))
        }
    }
}

/// Writes the record that an object holds something, and checks again.
///
/// # Errors
/// Another object was faster, or Kafka can't be queried now.
pub(crate) async fn write_claim<K: Resource<DynamicType = ()> + MillraceKind>(
    context: &Context,
    object: &K,
    thing: &ClaimedResource,
    due: DueRecord,
) -> Result<(), StepError> {
    let Some(me) = context.holders.claimant_of(object, thing.shared) else { return Ok(()) };
    for topic in due.0 {
        let at_millis = context.clock.now().as_millisecond();
        let entry = HolderRecord { topic, text: me.holder.to_text(), at_millis };
        let (settings, resource) = (thing.settings.clone(), thing.resource.clone());
        match context.brokers.write_record(settings, resource, entry).await {
            Ok(()) => record_held(context, object, thing),
            // A missing topic can't store a record; the next check finds it.
            Err(failure) if failure.reason == Reason::TopicMissing => return Ok(()),
            Err(failure) => {
                return continue_unrecorded(context, object, failure, ReconcileStep::Apply).await;
            }
        }
    }
    check_claim(context, object, thing).await.map(|_| ())
}

/// Checks whether a pool may have its consumer group, and writes a due record. After a failed check
/// the last result counts.
///
/// # Errors
/// Another object holds the group.
pub(crate) async fn check_pool_claim(
    context: &Context,
    pool: &GatewayPool,
    query: &LagQuery,
) -> Result<(), Invalid> {
    let Some(me) = context.holders.claimant_of(pool, false) else { return Ok(()) };
    let (key, now) = (key_of(pool), context.clock.now());
    let takes_over = me.takes_over;
    let of = format!("{:?} {} {takes_over:?}", query, pool.spec.ownership.is_shared());
    let known = {
        let states = context.holders.lock_cached();
        let known = states.get(&key).and_then(|state| state.checked.clone());
        known.filter(|(_, what, _)| *what == of)
    };
    let recent = known.as_ref().filter(|(at, ..)| now.duration_since(*at) < POOL_CHECK);
    if let Some((_, _, refused)) = recent {
        return refused.clone().map_or(Ok(()), Err);
    }
    let before = known.and_then(|(_, _, refused)| refused);
    let checked =
        tokio::time::timeout(POOL_CHECK_MAX, ensure_pool_claim(context, pool, query)).await;
    let refused = match checked {
        Ok(Ok(())) => None,
        Ok(Err(error)) if error.reason == Reason::HeldByAnother => {
            Some(Invalid { reason: error.reason, message: error.cause() })
        }
        Ok(Err(_)) | Err(_) => before,
    };
    let checked = Some((now, of, refused.clone()));
    context.holders.lock_cached().entry(key).or_default().checked = checked;
    refused.map_or(Ok(()), Err)
}

async fn ensure_pool_claim(
    context: &Context,
    pool: &GatewayPool,
    query: &LagQuery,
) -> Result<(), StepError> {
    let LagQuery { namespace, kafka, group, topics, bound: _ } = query;
    let thing = ClaimedResource {
        settings: context.brokers.resolve_connection(&context.client, namespace, kafka).await?,
        resource: KafkaResource::Group(group.clone()),
        topics: topics.clone(),
        shared: pool.spec.ownership.is_shared(),
        advice: "another consumerGroup (in a new pool)",
    };
    match check_claim(context, pool, &thing).await? {
        Some(due) if !is_paused(pool) => write_claim(context, pool, &thing, due).await,
        _ => Ok(()),
    }
}

fn record_held<K: Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    thing: &ClaimedResource,
) {
    let ClaimedResource { settings, resource, .. } = thing;
    let held =
        HeldResource::Kafka { settings: Box::new(settings.clone()), resource: resource.clone() };
    context.holders.record_held(&key_of(object), held);
}

/// Continues without a record where Kafka refuses to store one.
async fn continue_unrecorded<K: Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    failure: Failure,
    step: ReconcileStep,
) -> Result<(), StepError> {
    match failure.reason {
        Reason::KafkaNotAuthorized | Reason::KafkaRequestRejected => {
            report_unrecorded(context, object, &failure.message).await;
            Ok(())
        }
        _ => Err(failure.at_step(step)),
    }
}

fn describe_resource(resource: &KafkaResource) -> String {
    match resource {
        KafkaResource::Topic(topic) => format!("topic {topic}"),
        KafkaResource::Group(group) => format!("consumer group {group}"),
    }
}
