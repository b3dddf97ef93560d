//! Tests of what `checkpoint.rs` keeps to itself.

use super::*;

fn written(position: Position) -> Vec<u8> {
    let entry = Entry {
        device: 1,
        inode: 2,
        fingerprint: Fingerprint::of(b"first line\n"),
        position: position.noted(),
        stamp: 0,
        source: 0,
        path: "/var/log/a.log".into(),
        base: None,
    };
    let sources = vec![("host".into(), true)];
    seal(NAME, &Body { sources, files: vec![entry], ..Body::default() })
}

fn document(offset: u64) -> Vec<u8> {
    written(Position::at(offset))
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

fn committed(recalled: Recalled) -> Vec<Position> {
    let texts = recalled.into_texts(|_| Some(0), &mut Names::default());
    texts.iter().map(|text| text.committed).collect()
}

fn offsets(recalled: Recalled) -> Vec<u64> {
    committed(recalled).iter().map(|position| position.offset).collect()
}

/// Scenario: a document is cut at every length, and has every byte changed. Guarantee: each is
/// refused, the one before is used, and what is said names that.
#[test]
fn a_torn_or_changed_document_is_never_used() {
    let (whole, before) = (document(700), document(300));
    for bad in torn_or_changed(&whole) {
        let (recalled, resort) = recall(Some(&bad), Some(&before));
        let said = resort.unwrap().to_string();
        assert!(said.contains("written before them are used"), "{said}");
        assert!(recalled.knows("host") && !recalled.knows("another"));
        assert_eq!(offsets(recalled), [300]);
    }
    let (recalled, resort) = recall(Some(&whole), Some(&before));
    assert_eq!((offsets(recalled), resort), (vec![700], None));
}

/// Scenario: of a file with two streams, records of one are written past the beginning of an
/// open one of the other; and a document of a release that kept the offset alone. Guarantee:
/// the first is on record whole; the second is read on from its offset.
#[test]
fn what_is_written_of_each_stream_is_on_record() {
    let position = Position { offset: 10, written: [90, 10, 120] };
    let document = written(position);
    let recalled = |body| committed(Recalled { body, all: false });
    assert_eq!(recalled(read(&document).unwrap()), [position]);
    let text = String::from_utf8(document).unwrap();
    let body = text.split_once('\n').unwrap().1;
    let before = body.replace(",\"w\":[90,10,120]", "");
    assert!(before.len() < body.len(), "{body}");
    assert_eq!(recalled(serde_json::from_str(&before).unwrap()), [Position::at(10)]);
}

/// Scenario: no document can be read, and in the second case there is none. Guarantee: the
/// first reads all files from their beginning and says so, whatever they were; the second is a
/// first start.
#[test]
fn without_a_readable_document_nothing_is_skipped() {
    for previous in [None, Some(&b"junk"[..])] {
        let (recalled, resort) = recall(Some(b"millrace-positions 1 00\n{}"), previous);
        assert!(recalled.knows("anything"));
        let said = resort.unwrap().to_string();
        assert!(said.contains("from its beginning") && said.contains("checksum"), "{said}");
        assert!(offsets(recalled).is_empty());
    }
    let (recalled, resort) = recall(None, None);
    assert!(!recalled.knows("anything") && resort.is_none());
}

/// Scenario: a process ended between the two renames, so only the previous document is there.
/// Guarantee: it is used, and nothing is said since nothing is wrong.
#[test]
fn a_document_between_its_renames_is_the_previous_one() {
    let (recalled, resort) = recall(None, Some(&document(300)));
    assert_eq!((offsets(recalled), resort), (vec![300], None));
}

/// Scenario: a later release wrote the document. Guarantee: its version is named.
#[test]
fn another_version_is_named() {
    let (_, resort) = recall(Some(b"millrace-positions 9 00\n{}"), None);
    assert_eq!(resort, Some(Resort::Beginning(CheckpointError::Version("9".into()))));
}
