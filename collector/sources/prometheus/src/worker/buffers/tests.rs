//! Tests of the buffers that are retained between scrapes.

use millrace_pipeline::budget::Budget;
use millrace_scrape::{BodyLimits, Scrape, ScrapeBuffers, SeriesMemory, TargetAttributes};

use super::{SPARE_MAX, SpareBuffers};

/// Returns buffers that a scrape has used.
fn used() -> Box<ScrapeBuffers> {
    let target = TargetAttributes::new("node", ("http", "10.0.0.1", 9100), Vec::new(), false, true);
    let limits = BodyLimits { body_bytes: 1 << 20, samples: 1000, labels: 10 };
    let mut memory = SeriesMemory::default();
    let mut scrape = Scrape::new(&target, &mut memory, limits, 1, Box::default());
    assert_eq!(scrape.feed(b"a 1\n"), Ok(4));
    scrape.end_body().unwrap();
    scrape.commit_memory()
}

/// Scenario: more buffers are returned than are retained; one is lent and returned while the budget
/// is nearly full. Guarantee: the budget counts retained buffers but not lent ones, and nothing is
/// retained that others need.
#[test]
fn spare_buffers_are_bounded_and_counted() {
    let (budget, spare) = (Budget::new(1 << 20), SpareBuffers::default());
    let bytes = used().held_bytes();
    assert!(bytes > 0);
    for _ in 0..SPARE_MAX + 3 {
        spare.return_buffers(used(), &budget);
    }
    assert_eq!(budget.used_bytes(), SPARE_MAX as u64 * bytes);
    let lent = spare.take_buffers();
    assert_eq!(lent.held_bytes(), bytes);
    assert_eq!(budget.used_bytes(), (SPARE_MAX as u64 - 1) * bytes);
    let room = budget.try_reserve(600 * 1024).unwrap();
    spare.return_buffers(lent, &budget);
    assert_eq!(budget.used_bytes(), room.bytes());
    assert_eq!(spare.take_buffers().held_bytes(), 0);
}
