//! The metadata of Kafka commits: anybody with access to the group can have written it.
//!
//! The first eight bytes of an input are the committed offset, the rest is the text. What isn't
//! UTF-8 is turned away before it is parsed.

use millrace_ledger::{
    Cut, IntentError, Ledger, MAX_METADATA_BYTES, MAX_OPEN_RANGES, OffsetRange, decode_metadata,
    encode_metadata,
};

/// Commit metadata.
pub fn metadata(data: &[u8]) {
    let Some((offset, text)) = data.split_first_chunk::<8>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    // The broker says "none" by a negative number, which never gets here.
    let committed = i64::from_le_bytes(*offset) & i64::MAX;
    let promises = match decode_metadata(committed, text) {
        Ok(promises) => promises,
        Err(error) => return explained(text, &error),
    };
    let batches = &promises.ranges;
    assert!(batches.len() <= MAX_OPEN_RANGES + 1, "{} batches", batches.len());
    let mut from = committed;
    for batch in batches {
        let range = batch.range;
        assert!(range.first() >= from && range.next() > range.first(), "{range} behind {from}");
        from = range.next();
    }
    assert_eq!(encode_metadata(committed, &promises), text, "one list has one text");
    assert!(text.len() <= MAX_METADATA_BYTES, "{} bytes", text.len());
    let mut ledger = Ledger::new();
    ledger.assign(0_u8, Some(committed), promises.clone());
    for batch in batches {
        for offset in [batch.range.first(), batch.range.last()] {
            assert_eq!(ledger.cut_at(0, offset), Cut::Exactly(*batch), "a promise is kept");
        }
    }
    for range in promises.divisions.iter().map(|division| division.range()) {
        assert!(range.next() > committed, "{range} is committed");
        for offset in [range.first(), range.last()] {
            let piece = ledger.cut_at(0, offset).range();
            let is_inside = |it: OffsetRange| it.contains(offset) && range.contains(it.last());
            assert!(piece.is_some_and(is_inside), "{piece:?} of {range}");
            assert!(ledger.refused_parts(0, offset).is_some());
        }
        from = from.max(range.next());
    }
    assert_eq!(ledger.cut_at(0, from), Cut::Free);
}

fn explained(text: &str, error: &IntentError) {
    let ours = text.starts_with("millrace:4:");
    match error {
        IntentError::Foreign => assert!(!ours, "{text:?} is ours"),
        IntentError::Damaged { at } => assert!(ours && *at <= text.len(), "{error}"),
        IntentError::TooMany => assert!(text.len() > 4 * MAX_OPEN_RANGES, "{text:?}"),
    }
}
