//! Unit tests of `checkpoint.rs`.

use super::*;
use crate::Position;

fn written(position: Position) -> Vec<u8> {
    let entry = CheckpointEntry {
        device: 1,
        inode: 2,
        fingerprint: Fingerprint::of_head(b"first line\n"),
        position: position.to_record(),
        stamp: 0,
        path: "/var/log/a.log".into(),
        base: None,
    };
    let begun = vec!["host".into()];
    seal_document(NAME, &CheckpointBody { begun, files: vec![entry], ..CheckpointBody::default() })
}

fn document(offset: u64) -> Vec<u8> {
    written(Position::from_offset(offset))
}

/// A document cut at every length, and with every byte changed.
pub(crate) fn torn_or_changed(whole: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let torn = (0..whole.len()).map(|cut| whole[..cut].to_vec());
    torn.chain((0..whole.len()).map(|at| {
        let mut changed = whole.to_vec();
        changed[at] ^= 0x20;
        changed
    }))
}

fn committed(recalled: RecordedPositions) -> Vec<Position> {
    let texts = recalled.into_texts(|_| Some(0), &mut LogNames::default());
    texts.iter().map(|text| text.committed).collect()
}

fn offsets(recalled: RecordedPositions) -> Vec<u64> {
    committed(recalled).iter().map(|position| position.offset).collect()
}

/// Scenario: a document is cut at every length, and has every byte changed. Guarantee: each is
/// refused, the previous one is used, and the message names that.
#[test]
fn a_torn_or_changed_document_is_never_used() {
    let (whole, before) = (document(700), document(300));
    for bad in torn_or_changed(&whole) {
        let (recalled, resort) = load_positions(Some(&bad), Some(&before));
        let said = resort.unwrap().to_string();
        assert!(said.contains("the previous ones are used"), "{said}");
        assert!(recalled.knows_source("host") && !recalled.knows_source("another"));
        assert_eq!(offsets(recalled), [300]);
    }
    let (recalled, resort) = load_positions(Some(&whole), Some(&before));
    assert_eq!((offsets(recalled), resort), (vec![700], None));
}

/// Scenario: in a file with two streams, records of one are written past the beginning of an open
/// record of the other; and a document of a release that recorded only the offset. Guarantee: the
/// first position is restored completely; the second file is read on from its offset.
#[test]
fn what_is_written_of_each_stream_is_on_record() {
    let position = Position { offset: 10, written: [90, 10, 120] };
    let document = written(position);
    let recalled = |body| committed(RecordedPositions { body, all: false });
    assert_eq!(recalled(read(&document).unwrap()), [position]);
    let text = String::from_utf8(document).unwrap();
    let body = text.split_once('\n').unwrap().1;
    let before = body.replace(",\"w\":[90,10,120]", "");
    assert!(before.len() < body.len(), "{body}");
    assert_eq!(recalled(serde_json::from_str(&before).unwrap()), [Position::from_offset(10)]);
}

/// Scenario: no document can be read; then none exists. Guarantee: in the first case all files are
/// read from their beginning, and this is reported; the second is a first start.
#[test]
fn without_a_readable_document_nothing_is_skipped() {
    for previous in [None, Some(&b"junk"[..])] {
        let (recalled, resort) = load_positions(Some(b"millrace-positions 2 00\n{}"), previous);
        assert!(recalled.knows_source("anything"));
        let said = resort.unwrap().to_string();
        assert!(said.contains("from its beginning") && said.contains("checksum"), "{said}");
        assert!(offsets(recalled).is_empty());
    }
    let (recalled, resort) = load_positions(None, None);
    assert!(!recalled.knows_source("anything") && resort.is_none());
}

/// Scenario: a process ended between the two renames, so only the previous document exists.
/// Guarantee: it is used, and nothing is reported.
#[test]
fn a_document_between_its_renames_is_the_previous_one() {
    let (recalled, resort) = load_positions(None, Some(&document(300)));
    assert_eq!((offsets(recalled), resort), (vec![300], None));
}

/// Scenario: a later release wrote the document. Guarantee: its version is named.
#[test]
fn another_version_is_named() {
    let (_, resort) = load_positions(Some(b"millrace-positions 9 00\n{}"), None);
    assert_eq!(resort, Some(PositionFallback::Beginning(CheckpointError::Version("9".into()))));
}

/// Scenario: a complete document of version 1 with a right checksum, which named its sources and
/// each file's by index; alone, and before one of this version. Guarantee: it isn't used, and the
/// report names both versions and what follows: all files are read from their beginning, or the
/// other document is used.
#[test]
fn a_document_of_the_former_version_is_refused_with_both_versions() {
    let body = "{\"sources\":[[\"host\",true]],\"files\":[{\"d\":1,\"i\":2,\"f\":{\"l\":11,\
                \"h\":4463240938071824939},\"o\":700,\"m\":0,\"s\":0,\"p\":\"/var/log/a.log\"}]}";
    let former = format!("millrace-positions 1 {:016x}\n{body}", hash(body.as_bytes()));
    let (recalled, resort) = load_positions(Some(former.as_bytes()), None);
    let reported = resort.unwrap().to_string();
    let versions = "it has version 1, but this release reads only version 2";
    assert!(reported.contains(versions), "{reported}");
    assert!(reported.contains("every file is read from its beginning"), "{reported}");
    assert!(recalled.knows_source("host") && offsets(recalled).is_empty());
    let (recalled, resort) = load_positions(Some(former.as_bytes()), Some(&document(300)));
    assert_eq!(resort, Some(PositionFallback::Previous(CheckpointError::Version("1".into()))));
    assert_eq!(offsets(recalled), [300]);
}
