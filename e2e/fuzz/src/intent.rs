//! The metadata of Kafka commits: anybody with access to the group can have written it.
//!
//! The first eight bytes of an input are the committed offset, the rest is the text. What isn't
//! UTF-8 is turned away before it is parsed.

use millrace_ledger::{
    Cut, IntentError, Ledger, MAX_METADATA_BYTES, MAX_OPEN_RANGES, decode, encode,
};

/// Commit metadata.
pub fn metadata(data: &[u8]) {
    let Some((offset, text)) = data.split_first_chunk::<8>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    // The broker says "none" by a negative number, which never gets here.
    let committed = i64::from_le_bytes(*offset) & i64::MAX;
    let ranges = match decode(committed, text) {
        Ok(ranges) => ranges,
        Err(error) => return explained(text, &error),
    };
    assert!(ranges.len() <= MAX_OPEN_RANGES + 1, "{} ranges", ranges.len());
    let mut from = committed;
    for range in &ranges {
        assert!(range.first() >= from && range.next() > range.first(), "{range} behind {from}");
        from = range.next();
    }
    assert_eq!(encode(committed, &ranges), text, "one list has one text");
    if ranges.len() <= MAX_OPEN_RANGES {
        assert!(encode(committed, &ranges).len() <= MAX_METADATA_BYTES);
    }
    let mut ledger = Ledger::new();
    ledger.assign(0_u8, Some(committed), ranges.clone());
    for range in &ranges {
        for offset in [range.first(), range.last()] {
            assert_eq!(ledger.cut_at(0, offset), Cut::Exactly(*range), "a promise is kept");
        }
    }
    assert_eq!(ledger.cut_at(0, from), Cut::Free);
}

fn explained(text: &str, error: &IntentError) {
    let ours = text.starts_with("millrace:1:");
    match error {
        IntentError::Foreign => assert!(!ours, "{text:?} is ours"),
        IntentError::Damaged { at } => assert!(ours && *at <= text.len(), "{error}"),
        IntentError::TooMany => assert!(text.len() > 4 * MAX_OPEN_RANGES, "{text:?}"),
    }
}
