//! Tests that documents round-trip and that bounds hold.

use std::collections::BTreeMap;

use millrace_share_documents::{
    DocumentFault, JOB_BYTES_MAX, PART_BYTES_MAX, PARTS_MAX, PodName, Released, Share, TargetEntry,
    TargetId, Weight, join_parts, split_share,
};
use proptest::prelude::*;
use serde_json::json;

fn entry(job: &str, address: &str) -> TargetEntry {
    TargetEntry {
        job: job.to_owned(),
        address: address.to_owned(),
        labels: BTreeMap::new(),
        weight: Weight::new(16_667),
    }
}

fn share(targets: u128, address_bytes: usize) -> Share {
    let address = "a".repeat(address_bytes);
    let ids = (0..targets).map(|it| TargetId(it << 64 | 7));
    let targets = ids.map(|id| (id, entry("node", &address))).collect();
    Share { version: 3, targets, ..Share::default() }
}

fn texts(share: &Share) -> Vec<String> {
    split_share(share).unwrap()
}

fn read(texts: &[String]) -> Result<Share, DocumentFault> {
    join_parts(texts.iter().map(String::as_str))
}

proptest! {
    /// Scenario: any share, its parts in any order. Guarantee: it is read as it was written.
    #[test]
    fn what_is_written_is_read(
        version in any::<u64>(), ids in prop::collection::btree_set(any::<u128>(), 0..40),
        address in "\\PC{0,80}", jobs in prop::collection::btree_map("\\PC{0,20}", any::<u32>(), 0..4),
        label in "\\PC{0,40}", to in prop::option::of("[a-z]{1,8}"),
    ) {
        let settings = |seconds| json!({"path": address, "intervalSeconds": seconds});
        let jobs = jobs.into_iter().map(|(name, seconds)| (name, settings(seconds))).collect();
        let mut share = Share { version, jobs, ..Share::default() };
        for (id, nth) in ids.into_iter().zip(0..) {
            let id = TargetId(id);
            if nth % 3 == 0 {
                let to = to.as_deref().map(PodName::new);
                share.released.insert(id, Released { version: nth, turn: nth, to });
            } else {
                let labels = BTreeMap::from([(label.clone(), address.clone())]);
                share.targets.insert(id, TargetEntry { labels, ..entry("j", &address) });
            }
        }
        let mut texts = texts(&share);
        texts.reverse();
        prop_assert_eq!(read(&texts).unwrap(), share);
    }

    /// Scenario: any text. Guarantee: no panic, and a share only from text that is a part.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        prop_assert!(read(&[text]).is_err());
    }
}

/// Scenario: 100,000 targets with labels that need no escape, then with text that JSON lengthens.
/// Guarantee: parts stay within their bound, and all targets are read again.
#[test]
fn a_large_share_is_split_into_parts_that_fit() {
    let mut escaped = share(3_000, 20);
    for entry in escaped.targets.values_mut() {
        entry.labels.insert("quoted".to_owned(), "\u{1}\"".repeat(60));
    }
    for share in [share(80_000, 40), escaped] {
        let texts = texts(&share);
        assert!(texts.len() > 1 && texts.len() <= PARTS_MAX, "{}", texts.len());
        assert!(texts.iter().all(|text| text.len() <= PART_BYTES_MAX));
        assert_eq!(read(&texts).unwrap(), share);
    }
}

/// Scenario: settings of jobs at their maximum length, more than a part holds, followed by targets.
/// Guarantee: parts stay within their bound, and all is read again; one byte more is refused by
/// name; a part of an earlier release, without jobs, is read.
#[test]
fn settings_of_jobs_are_split_over_parts_too() {
    let settings = |bytes: usize| json!({"path": "p".repeat(bytes - "{'path':''}".len())});
    let mut share = share(9_000, 40);
    let long = (0..9).map(|it| (format!("job-{it}"), settings(JOB_BYTES_MAX)));
    share.jobs = long.collect();
    let texts = texts(&share);
    assert!(texts.iter().all(|text| text.len() <= PART_BYTES_MAX));
    assert_eq!(read(&texts).unwrap(), share);
    share.jobs = BTreeMap::from([("shop".to_owned(), settings(JOB_BYTES_MAX + 1))]);
    let told = split_share(&share).unwrap_err().to_string();
    assert!(told.starts_with("job shop: its settings have 131073 bytes"), "{told}");
    let earlier = r#"{"form":1,"version":2,"part":0,"parts":1,"targets":{}}"#;
    assert_eq!(join_parts([earlier]).unwrap(), Share { version: 2, ..Share::default() });
}

/// Scenario: a typical target. Guarantee: it has the bytes that the arithmetic of bounds assumes.
#[test]
fn a_usual_target_takes_about_a_hundred_and_fifty_bytes() {
    let bytes = |targets| texts(&share(targets, 30))[0].len();
    let each = (bytes(2_000) - bytes(1_000)) / 1_000;
    assert!((90..=150).contains(&each), "{each}");
}

/// Scenario: a share larger than its parts; entries over their bounds. Guarantee: they are refused,
/// and the error names the target and the fix.
#[test]
fn what_is_over_a_bound_is_refused_by_name() {
    let told = |share: &Share| split_share(share).unwrap_err().to_string();
    let large = told(&share(40_000, 512));
    assert_eq!(large, "a share of 40000 targets needs more than 16 parts: add pods");
    let long = told(&share(1, 513));
    assert!(long.starts_with("target 00000000000000000000000000000007: its address"), "{long}");
    let mut many = share(1, 10);
    let labels = (0..17).map(|it| (format!("l{it}"), String::new())).collect();
    many.targets.values_mut().for_each(|entry| entry.labels = BTreeMap::clone(&labels));
    assert!(told(&many).contains("more than 16 labels"));
}

/// Scenario: a part of an older version next to a newer share; a newer share is half written; a
/// part of the only share is missing; the format of a later release. Guarantee: the first two give
/// the newest complete share; the third names the version and its parts; the last is refused.
#[test]
fn a_pod_reads_whole_versions_only() {
    let (old, new) = (share(20_000, 40), Share { version: 4, ..share(1, 10) });
    let (old_texts, new_texts) = (texts(&old), texts(&new));
    assert!(old_texts.len() > 1);
    let mixed = [new_texts[0].clone(), old_texts[1].clone()];
    assert_eq!(read(&mixed).unwrap(), new);
    let parts = old_texts.len();
    let half = texts(&Share { version: 5, ..share(20_000, 40) });
    let written = [&old_texts[..], &half[..1]].concat();
    assert_eq!(read(&written).unwrap(), old);
    let missing = read(&old_texts[1..]).unwrap_err();
    let incomplete = DocumentFault::Incomplete { version: 3, have: parts - 1, want: parts };
    assert_eq!(missing, incomplete);
    let later = new_texts[0].replacen("\"form\":1", "\"form\":2", 1);
    assert!(read(&[later]).unwrap_err().to_string().contains("format 2 is unknown"));
}
