//! Tests of what `plan.rs` keeps to itself.

use super::*;
use proptest::prelude::*;

proptest! {
    /// Guarantee: requests cover every record once, in order, and nothing beyond.
    #[test]
    fn requests_cover_every_record_once(
        count in 1_u64..100_000, records in 1_u32..200, resources in 1_u32..20,
    ) {
        let plan = Plan {
            records_per_resource: records,
            resources_per_request: resources,
            ..Plan::lean(1, count, 0)
        };
        prop_assert_eq!(plan.check(), Ok(()));
        let mut next = 0;
        for request in 0..plan.requests() {
            let range = plan.records_of(request);
            prop_assert_eq!(range.start, next);
            prop_assert!(!range.is_empty());
            next = range.end;
        }
        prop_assert_eq!(next, count);
        prop_assert!(plan.records_of(plan.requests()).is_empty());
    }

    /// Guarantee: a span's id leads back to its index, and is never the invalid all-zero id.
    #[test]
    fn ids_lead_back_to_their_index(seed: u64, index in 0..RECORDS_MAX) {
        let keys = Plan::lean(seed, 1, 0).keys();
        prop_assert_ne!(keys.span_id(index), 0);
        prop_assert_eq!(keys.index_of(keys.span_id(index)), index);
        prop_assert_ne!(keys.trace_id(index), 0);
    }
}

/// Scenario: figures out of range. Guarantee: refused, with the figure.
#[test]
fn impossible_plans_are_refused() {
    let plan = Plan::lean(1, 10, 0);
    assert_eq!(Plan { count: 0, ..plan.clone() }.check(), Err(PlanError::Count(0)));
    let none = Plan { records_per_resource: 0, ..plan.clone() };
    assert_eq!(none.check(), Err(PlanError::Request(0)));
    let huge = Plan { records_per_resource: u32::MAX, ..plan.clone() };
    assert!(matches!(huge.check(), Err(PlanError::Request(_))));
    assert!(Plan { start_unix_nanos: u64::MAX, ..plan }.check().is_err());
}
