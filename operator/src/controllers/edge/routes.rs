//! Sums the records that a pool's pods routed to other topics, by step. Pure.
//!
//! A pod counts from its start, and one that doesn't answer is in no sum, so sums may fall. Limits:
//! if only counts change, they are written every [`REFRESH`].

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::v1alpha1::{EdgePool, PoolRouteStatus, ProcessingStep, RouteStep};

use crate::pods::ScrapeResults;

/// The minimum time between writes of changed counts.
const REFRESH: SignedDuration = SignedDuration::from_secs(60);
/// The interval at which unchanged counts get a new date, to show that they are current.
const REDATE: SignedDuration = SignedDuration::from_secs(300);

/// The records that the answering pods routed, by step.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RoutedRecords(BTreeMap<String, u64>);

impl RoutedRecords {
    /// Sums the answers. Returns `None` if no pod answers.
    pub(super) fn from_answers(scrapes: &ScrapeResults) -> Option<Self> {
        let mut sums = BTreeMap::<String, u64>::new();
        let mut answered = false;
        for sample in scrapes.values().flatten() {
            answered = true;
            for (step, records) in &sample.records_routed {
                let sum = sums.entry(step.clone()).or_default();
                *sum = sum.saturating_add(*records);
            }
        }
        answered.then_some(Self(sums))
    }
}

/// Returns whether a pool routes records.
pub(super) fn has_routes(pool: &EdgePool) -> bool {
    route_steps(pool).next().is_some()
}

fn route_steps(pool: &EdgePool) -> impl Iterator<Item = (&ProcessingStep, &RouteStep)> {
    let steps = pool.spec.settings.processing.iter();
    steps.filter_map(|step| Some((step, step.route.as_ref()?)))
}

/// Returns the routes of the spec with their counts. Without an answer the counts are unchanged.
pub(super) fn build_routes(
    pool: &EdgePool,
    before: &[PoolRouteStatus],
    routed: Option<&RoutedRecords>,
    now: Timestamp,
) -> Vec<PoolRouteStatus> {
    // Conditions have whole seconds.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let routes = route_steps(pool).map(|(step, route)| {
        let (name, signal, topic) = (&step.name, route.signal(), route.topic.as_str());
        let known = before
            .iter()
            .find(|it| it.step == *name && it.signal == signal && it.topic == topic)
            .cloned();
        let build = |records, observed_at| {
            let (step, topic) = (name.clone(), topic.to_owned());
            PoolRouteStatus { step, signal, topic, records, observed_at }
        };
        let Some(RoutedRecords(sums)) = routed else {
            return known.unwrap_or_else(|| build(None, None));
        };
        // A step without a series has routed nothing.
        let records = sums.get(name).copied().unwrap_or_default();
        let found = build(Some(i64::try_from(records).unwrap_or(i64::MAX)), Some(Time(now)));
        known.filter(|known| is_recent_enough(known, &found, now)).unwrap_or(found)
    });
    routes.collect()
}

/// Returns whether the status may retain its count.
fn is_recent_enough(before: &PoolRouteStatus, found: &PoolRouteStatus, now: Timestamp) -> bool {
    let Some(Time(at)) = &before.observed_at else { return false };
    let age = now.duration_since(*at);
    let limit = if before.records == found.records { REDATE } else { REFRESH };
    age >= SignedDuration::ZERO && age < limit
}
