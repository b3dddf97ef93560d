//! The metadata of Kafka commits: anybody with access to the group can have written it.
//!
//! The first eight bytes of an input are the committed offset, the rest is the text. What isn't
//! UTF-8 is turned away before it is parsed.

use millrace_ledger::{
    Cut, IntentError, Ledger, MAX_METADATA_BYTES, MAX_OPEN_RANGES, decode, encode,
};

/// As many batches may be told apart at once, by the arithmetic of `MAX_OPEN_RANGES`.
const MAX_APART: usize = 13;

/// Commit metadata.
pub fn metadata(data: &[u8]) {
    let Some((offset, text)) = data.split_first_chunk::<8>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    // The broker says "none" by a negative number, which never gets here.
    let committed = i64::from_le_bytes(*offset) & i64::MAX;
    let batches = match decode(committed, text) {
        Ok(batches) => batches,
        Err(error) => return explained(text, &error),
    };
    assert!(batches.len() <= MAX_OPEN_RANGES + 1, "{} batches", batches.len());
    let mut from = committed;
    for batch in &batches {
        let range = batch.range;
        assert!(range.first() >= from && range.next() > range.first(), "{range} behind {from}");
        from = range.next();
        if let Some(apart) = batch.apart {
            assert!(range.has_piece(apart.piece), "{} of {range}", apart.piece);
        }
    }
    assert_eq!(encode(committed, &batches), text, "one list has one text");
    let apart = batches.iter().filter(|batch| batch.apart.is_some()).count();
    if batches.len() <= MAX_OPEN_RANGES && apart <= MAX_APART {
        assert!(encode(committed, &batches).len() <= MAX_METADATA_BYTES);
    }
    let mut ledger = Ledger::new();
    ledger.assign(0_u8, Some(committed), batches.clone());
    for batch in &batches {
        for offset in [batch.range.first(), batch.range.last()] {
            assert_eq!(ledger.cut_at(0, offset), Cut::Exactly(*batch), "a promise is kept");
        }
    }
    assert_eq!(ledger.cut_at(0, from), Cut::Free);
}

fn explained(text: &str, error: &IntentError) {
    let ours = text.starts_with("millrace:2:");
    match error {
        IntentError::Foreign => assert!(!ours, "{text:?} is ours"),
        IntentError::Damaged { at } => assert!(ours && *at <= text.len(), "{error}"),
        IntentError::TooMany => assert!(text.len() > 4 * MAX_OPEN_RANGES, "{text:?}"),
    }
}
