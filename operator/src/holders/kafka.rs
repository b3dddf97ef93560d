//! Records of topics and consumer groups, in Kafka.

use std::time::Duration;

use jiff::SignedDuration;
use kube::Resource;
use millrace_crds::Reason;
use millrace_crds::v1alpha1::GatewayPool;

use super::{is_passed_over, tell_unrecorded};
use crate::cache::holders::Held;
use crate::cache::holders::record::{Slot, Verdict, judge, refusal};
use crate::cache::key_of;
use crate::cluster::is_paused;
use crate::context::Context;
use crate::error::{Invalid, Step, StepError};
use crate::kafka::lag_board::LagQuery;
use crate::kafka::{Entry, Failure, Place, Settings};

/// A pool's record is checked this often, like a topic's.
const POOL_LOOK: SignedDuration = SignedDuration::from_secs(60);
/// Longest wait of a pool for a check: pools reconcile even while Kafka is down. A broker that is
/// up answers within a second.
const POOL_LOOK_MAX: Duration = Duration::from_secs(5);

/// What is held, and how it is reached.
pub(crate) struct Thing {
    pub(crate) settings: Settings,
    pub(crate) place: Place,
    /// Topics that may hold the record, unless there is one already.
    pub(crate) topics: Vec<String>,
    pub(crate) shared: bool,
    /// What another one could write instead.
    pub(crate) advice: &'static str,
}

/// A record to write, and at which topics.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Due(Vec<String>);

/// Checks whether an object may hold something; returns what to write for it.
///
/// # Errors
/// Another holds it, or Kafka can't be asked now.
pub(crate) async fn look<K: Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    thing: &Thing,
) -> Result<Option<Due>, StepError> {
    let Some(me) = context.holders.claimant(object, thing.shared) else { return Ok(None) };
    let read = context.brokers.recorded(thing.settings.clone(), thing.place.clone()).await;
    let entries = match read {
        Ok(entries) => entries,
        Err(failure) => {
            return unrecorded(context, object, failure, Step::Observe).await.map(|()| None);
        }
    };
    let now = context.clock.now().as_millisecond();
    let mut slots: Vec<(&Entry, Slot)> = entries
        .iter()
        .map(|entry| {
            let age = u64::try_from(now.saturating_sub(entry.at_millis)).unwrap_or(0);
            (entry, Slot::read(&entry.text, Duration::from_millis(age)))
        })
        .collect();
    // Records of one group at several topics: of two simultaneous writers, one must hold.
    let who = &me.holder.who;
    if slots.iter().any(|(_, slot)| slot.is_of(who)) {
        slots.retain(|(_, slot)| slot.who().is_none_or(|other| other <= who.as_str()));
    }
    let judged: Vec<Slot> = slots.into_iter().map(|(_, slot)| slot).collect();
    match judge(&judged, &me, |who| is_passed_over(context, object, who)) {
        Verdict::Refused(who) => Err(refusal(&named(&thing.place), &who, thing.advice).into()),
        Verdict::Holds => {
            note(context, object, thing);
            Ok(None)
        }
        Verdict::Due if entries.is_empty() => {
            Ok(Some(Due(thing.topics.iter().take(1).cloned().collect())))
        }
        // Overwrites the existing record, wherever it is.
        Verdict::Due => Ok(Some(Due(entries.into_iter().map(|entry| entry.topic).collect()))),
    }
}

/// Writes the record that an object holds something, and checks again.
///
/// # Errors
/// Another was faster, or Kafka can't be asked now.
pub(crate) async fn write<K: Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    thing: &Thing,
    due: Due,
) -> Result<(), StepError> {
    let Some(me) = context.holders.claimant(object, thing.shared) else { return Ok(()) };
    for topic in due.0 {
        let at_millis = context.clock.now().as_millisecond();
        let entry = Entry { topic, text: me.holder.text(), at_millis };
        let (settings, place) = (thing.settings.clone(), thing.place.clone());
        match context.brokers.record(settings, place, entry).await {
            Ok(()) => note(context, object, thing),
            // A missing topic has nothing to hold; the next check finds it.
            Err(failure) if failure.reason == Reason::TopicMissing => return Ok(()),
            Err(failure) => return unrecorded(context, object, failure, Step::Apply).await,
        }
    }
    look(context, object, thing).await.map(|_| ())
}

/// Whether a pool may have its consumer group, as far as known; writes what is due. After a failed
/// check the last result counts.
pub(crate) async fn of_pool(
    context: &Context,
    pool: &GatewayPool,
    query: &LagQuery,
) -> Option<Invalid> {
    context.holders.cluster.as_ref()?;
    let (key, now) = (key_of(pool), context.clock.now());
    let takes_over = context.holders.claimant(pool, false)?.takes_over;
    let of = format!("{:?} {} {takes_over:?}", query, pool.spec.shared);
    let known = {
        let kept = context.holders.kept();
        let known = kept.get(&key).and_then(|kept| kept.looked.clone());
        known.filter(|(_, what, _)| *what == of)
    };
    let recent = known.as_ref().filter(|(at, ..)| now.duration_since(*at) < POOL_LOOK);
    if let Some((_, _, refused)) = recent {
        return refused.clone();
    }
    let before = known.and_then(|(_, _, refused)| refused);
    let looked = tokio::time::timeout(POOL_LOOK_MAX, keep(context, pool, query)).await;
    let refused = match looked {
        Ok(Ok(())) => None,
        Ok(Err(error)) if error.reason == Reason::HeldByAnother => {
            Some(Invalid { reason: error.reason, message: error.cause() })
        }
        Ok(Err(_)) | Err(_) => before,
    };
    let looked = Some((now, of, refused.clone()));
    context.holders.kept().entry(key).or_default().looked = looked;
    refused
}

async fn keep(context: &Context, pool: &GatewayPool, query: &LagQuery) -> Result<(), StepError> {
    let LagQuery { namespace, kafka, group, topics, bound: _ } = query;
    let thing = Thing {
        settings: Settings::resolve(&context.client, namespace, kafka).await?,
        place: Place::Group(group.clone()),
        topics: topics.clone(),
        shared: pool.spec.shared,
        advice: "another consumerGroup (in a new pool)",
    };
    match look(context, pool, &thing).await? {
        Some(due) if !is_paused(pool) => write(context, pool, &thing, due).await,
        _ => Ok(()),
    }
}

fn note<K: Resource<DynamicType = ()>>(context: &Context, object: &K, thing: &Thing) {
    let Thing { settings, place, .. } = thing;
    let held = Held::Kafka { settings: settings.clone(), place: place.clone() };
    context.holders.note(&key_of(object), held);
}

/// Continues without a record where Kafka refuses to keep one.
async fn unrecorded<K: Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    failure: Failure,
    step: Step,
) -> Result<(), StepError> {
    match failure.reason {
        Reason::KafkaNotAuthorized | Reason::KafkaRefused => {
            tell_unrecorded(context, object, &failure.message).await;
            Ok(())
        }
        _ => Err(failure.at(step)),
    }
}

fn named(place: &Place) -> String {
    match place {
        Place::Topic(topic) => format!("topic {topic}"),
        Place::Group(group) => format!("consumer group {group}"),
    }
}
