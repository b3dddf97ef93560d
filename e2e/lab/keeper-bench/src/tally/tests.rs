//! Counting, beside plain arithmetic on the operations themselves.

use proptest::prelude::*;

use super::*;

/// When an operation began, how long it took, whether it had a reply.
type Op = (u64, u64, bool);

fn tally(window: Window, ops: &[Op]) -> Tally {
    let mut tally = Tally::new(window);
    for &(began, took, replied) in ops {
        let outcome = if replied { Outcome::Replied(0) } else { Outcome::Lost(-4) };
        tally.record(Kind::Get, began, began + took, outcome);
    }
    tally
}

proptest! {
    /// Scenario: any operations around a window. Guarantee: throughput counts those that had their
    /// reply within it, by the clock alone; latency those that began after the warm-up, however
    /// late they ended; what was lost is an error and no latency.
    #[test]
    fn throughput_and_latency_count_what_they_say(
        ops in prop::collection::vec((0_u64..3_000, 0_u64..2_000, any::<bool>()), 0..200),
    ) {
        let window = Window { start: 1_000, end: Some(2_000) };
        let tally = tally(window, &ops);
        let get = &tally.kinds[Kind::Get as usize];
        let count = |keep: &dyn Fn(&&Op) -> bool| ops.iter().filter(keep).count() as u64;
        let within = |op: &&Op| op.2 && (1_000..=2_000).contains(&(op.0 + op.1));
        prop_assert_eq!(get.ended, count(&within));
        prop_assert_eq!(get.operations, count(&|op| op.0 >= 1_000));
        prop_assert_eq!(
            get.latencies.get().map_or(0, Histogram::len),
            count(&|op| op.0 >= 1_000 && op.2)
        );
        let lost = count(&|op| op.0 >= 1_000 && !op.2);
        prop_assert_eq!(get.errors.iter().map(|(_, count)| count).sum::<u64>(), lost);
        prop_assert_eq!(tally.window_seconds(false), 1_000.0 / 1e9);
    }

    /// Scenario: the operations of one run, counted by one thread or by several. Guarantee: the
    /// same figures.
    #[test]
    fn threads_add_up(
        ops in prop::collection::vec((0_u64..3_000, 0_u64..2_000, any::<bool>()), 0..100),
        parts in 1_usize..5,
    ) {
        let window = Window { start: 500, end: None };
        let whole = tally(window, &ops);
        let mut sum = Tally::new(window);
        for part in ops.chunks(ops.len().div_ceil(parts).max(1)) {
            sum.add(&tally(window, part));
        }
        let (a, b) = (&whole.kinds[Kind::Get as usize], &sum.kinds[Kind::Get as usize]);
        prop_assert_eq!((a.operations, a.ended, &a.errors), (b.operations, b.ended, &b.errors));
        prop_assert_eq!(a.latencies.get(), b.latencies.get());
        prop_assert_eq!(whole.window_seconds(false), sum.window_seconds(false));
    }
}

/// Scenario: 100 sessions each wait a millisecond for every reply, for a second, so 100,000 replies;
/// half are reads. Guarantee: 50,000 reads a second. The sum of reads' latencies (50 s) and the
/// number of sessions, of which a published tool once made 100,000, don't matter.
#[test]
fn a_rate_is_a_count_over_time() {
    let rate = per_second(50_000, 1.0);
    assert!((rate - 50_000.0).abs() < f64::EPSILON);
    let once_published = 50_000.0 / 50.0 * 100.0;
    assert!((once_published - 2.0 * rate).abs() < f64::EPSILON);
    assert!(per_second(1, 0.0).abs() < f64::EPSILON, "no window, no rate");
}
