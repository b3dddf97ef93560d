//! Buffers between scrapes.

use millrace_pipeline::budget::Budget;
use millrace_scrape::{Buffers, Limits, Memory, Scrape, Target};

use super::{SPARE_MAX, Spare};

/// Buffers that a scrape has used.
fn used() -> Box<Buffers> {
    let target = Target::new("node", ("http", "10.0.0.1", 9100), Vec::new(), false, true);
    let limits = Limits { body_bytes: 1 << 20, samples: 1000, labels: 10 };
    let mut memory = Memory::default();
    let mut scrape = Scrape::new(&target, &mut memory, limits, 1, Box::default());
    assert_eq!(scrape.feed(b"a 1\n"), Ok(4));
    scrape.end().unwrap();
    scrape.remember()
}

/// Scenario: more buffers come back than are kept, are lent, and come back while the budget is
/// nearly full. Guarantee: what is kept is counted in the budget, what is lent is not, and nothing
/// is kept that others need.
#[test]
fn spare_buffers_are_bounded_and_counted() {
    let (budget, spare) = (Budget::new(1 << 20), Spare::default());
    let bytes = used().bytes();
    assert!(bytes > 0);
    for _ in 0..SPARE_MAX + 3 {
        spare.give_back(used(), &budget);
    }
    assert_eq!(budget.used_bytes(), SPARE_MAX as u64 * bytes);
    let lent = spare.lend();
    assert_eq!(lent.bytes(), bytes);
    assert_eq!(budget.used_bytes(), (SPARE_MAX as u64 - 1) * bytes);
    let room = budget.try_reserve(600 * 1024).unwrap();
    spare.give_back(lent, &budget);
    assert_eq!(budget.used_bytes(), room.bytes());
    assert_eq!(spare.lend().bytes(), 0);
}
