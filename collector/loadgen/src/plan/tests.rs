//! Tests of private items of `plan.rs`.

use super::*;
use proptest::prelude::*;

proptest! {
    /// Guarantee: requests cover every record once, in order, and nothing beyond.
    #[test]
    fn requests_cover_every_record_once(
        count in 1_u64..100_000, records in 1_u32..200, resources in 1_u32..20,
    ) {
        let plan = LoadPlan {
            records_per_resource: records,
            resources_per_request: resources,
            ..LoadPlan::lean_spans(1, count, 0)
        };
        prop_assert_eq!(plan.validate(), Ok(()));
        let mut next = 0;
        for request in 0..plan.request_count() {
            let range = plan.records_of(request);
            prop_assert_eq!(range.start, next);
            prop_assert!(!range.is_empty());
            next = range.end;
        }
        prop_assert_eq!(next, count);
        prop_assert!(plan.records_of(plan.request_count()).is_empty());
    }

    /// Guarantee: a span's id maps back to its index, and is never the invalid all-zero id.
    #[test]
    fn ids_lead_back_to_their_index(seed: u64, index in 0..RECORDS_MAX) {
        let keys = LoadPlan::lean_spans(seed, 1, 0).stream_keys();
        prop_assert_ne!(keys.span_id(index), 0);
        prop_assert_eq!(keys.index_of(keys.span_id(index)), index);
        prop_assert_ne!(keys.trace_id(index), 0);
    }
}

/// Scenario: figures out of range. Guarantee: the error has the figure.
#[test]
fn impossible_plans_are_refused() {
    let plan = LoadPlan::lean_spans(1, 10, 0);
    assert_eq!(LoadPlan { count: 0, ..plan.clone() }.validate(), Err(PlanError::Count(0)));
    let none = LoadPlan { records_per_resource: 0, ..plan.clone() };
    assert_eq!(none.validate(), Err(PlanError::Request(0)));
    let huge = LoadPlan { records_per_resource: u32::MAX, ..plan.clone() };
    assert!(matches!(huge.validate(), Err(PlanError::Request(_))));
    assert!(LoadPlan { start_unix_nanos: u64::MAX, ..plan }.validate().is_err());
}
