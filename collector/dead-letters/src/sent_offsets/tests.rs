//! Tests of private items of `sent.rs`.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::SentOffsets;

proptest! {
    /// Scenario: offsets added in any order, also duplicates, and merged sets. Guarantee: the set
    /// holds these offsets and no others, and its text reads back as itself.
    #[test]
    fn a_set_of_ranges_is_a_set(
        one in proptest::collection::vec(0_i64..60, 0..40),
        other in proptest::collection::vec(0_i64..60, 0..40),
    ) {
        let set = |offsets: &[i64]| {
            let mut sent = SentOffsets::default();
            offsets.iter().for_each(|offset| sent.insert(*offset));
            sent
        };
        let mut sent = set(&one);
        sent.merge(&set(&other));
        let wanted: BTreeSet<i64> = one.into_iter().chain(other).collect();
        for offset in -1..61 {
            prop_assert_eq!(sent.contains(offset), wanted.contains(&offset));
        }
        if !sent.is_empty() {
            prop_assert_eq!(sent.to_string().parse::<SentOffsets>(), Ok(sent));
        }
    }

    /// Scenario: any text. Guarantee: a set or an error, never a panic.
    #[test]
    fn any_text_is_read_or_refused(text in "[0-9,-]{0,40}|.{0,20}") {
        if let Ok(sent) = text.parse::<SentOffsets>() {
            prop_assert_eq!(sent.to_string().parse::<SentOffsets>(), Ok(sent));
        }
    }
}

/// Scenario: the text of a mark. Guarantee: as documented.
#[test]
fn a_mark_is_written_as_ranges() {
    let mut sent = SentOffsets::default();
    [7, 5, 6, 12, 9].into_iter().for_each(|offset| sent.insert(offset));
    assert_eq!(sent.to_string(), "5-7,9,12");
    for bad in ["", "5-", "-5", "9-5", "a", "5,,6", "+5", "99999999999999999999"] {
        assert!(bad.parse::<SentOffsets>().is_err(), "{bad}");
    }
}
