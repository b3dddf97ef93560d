//! Sums the records that a pool's pods routed to other topics, by step. Pure.
//!
//! A pod counts from its start, and one that doesn't answer is in no sum, so sums may fall. Limits:
//! if only counts change, they are written every [`refresh::REFRESH`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use millrace_crds::v1alpha1::{EdgePool, PoolRouteStatus, ProcessingStep, RouteStep};

use super::refresh;
use crate::pods::ScrapeResults;
use crate::pool::status::as_i64;
use crate::report::conditions::status_time;

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
    let now = status_time(now);
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
        let found = build(Some(as_i64(records)), Some(now.clone()));
        let may_retain = |known: &PoolRouteStatus| {
            let is_unchanged = known.records == found.records;
            known.observed_at.as_ref().is_some_and(|at| refresh::may_retain(at, &now, is_unchanged))
        };
        known.filter(may_retain).unwrap_or(found)
    });
    routes.collect()
}
